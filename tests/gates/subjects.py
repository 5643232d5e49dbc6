#!/usr/bin/python3
"""Commit subjects: `subsystem: verb what`, the verb imperative. The rule holds for the commits after BASE.

The rule is one regular expression, so a verb that it does not know is refused. A new verb belongs into VERBS, where it
is one: "net: what a wake-up has read" opens with no verb. Without the repository's history the gate is skipped.
"""
import re
import subprocess
import sys

from common import ROOT, finish, rule

BASE = "111e239e"
VERBS = """
accept add adjust align allow announce answer anchor apply assert ask attach avoid bind bound bring build cache call cancel carry cast
catch change check choose claim clean clear close collect combine commit compare compile complete compute connect convert copy correct
count cover create cross-check cut debounce declare decode deduplicate defer define delay delete deliver derive describe detach detect
determine disable discard divide document double draw drop enable encode end enforce enlarge ensure estimate exclude explain expect
expire export extend extract fail fade fall fetch fill filter find finish fix flag flush fold follow forbid force forget fork format forward
free freeze generate get give grant group guard halve hand handle hash hide hold honour identify ignore implement import improve include
increase index inherit initialise inline insert install introduce invalidate isolate issue join judge keep label lay leave let limit link list
listen load lock log loop lower make map mark mask match measure mend merge migrate mirror move multiply mute name normalise note notify
number obey offer omit open order pace parse part pass pause pin place plan play point poll prefer prepare preserve prevent print probe
process promise propagate protect prove publish pull push put query queue quote raise read rebuild recalculate receive recognise
recompute reconnect record recover reduce refer refresh refuse register reject relax release reload remember remove rename render reopen
reorder repair repeat replace replay report require reset resolve respect restart restore restrict restructure resume retry return reuse
revert revoke reword rewrite rotate round route run sample satisfy save say scale scan schedule search see seed select send separate serialise
serve set settle share sharpen shed shift shorten show shrink shut shut-down sign silence simplify skip sort speed split spread stamp start state
stay stop store stream strip submit subscribe subtract sum supply support suppress survive suspend swap switch sync take taper teach tell test
throttle tidy tighten time tolerate trace track transfer transform translate treat trigger trim truncate trust try tune turn undo unify
unlink unlock update upgrade use validate value verify wait wake walk warn watch widen wind word wrap write yield zero
""".split()
SUBJECT = re.compile(rf"^[a-z0-9_./+-]+(?:(?:, | and )[a-z0-9_./+-]+)*: (?:{'|'.join(map(re.escape, VERBS))})\b")
ALLOWED = re.compile(r"^(?:Merge|Revert) ")


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def main():
    if git("cat-file", "-e", f"{BASE}^{{commit}}").returncode != 0:
        print("skipped: the repository's history is not here")
        sys.exit(77)
    subjects = git("log", "--format=%h %s", f"{BASE}..HEAD").stdout.splitlines()
    wrong = [line for line in subjects
             if not SUBJECT.match(line.partition(" ")[2]) and not ALLOWED.match(line.partition(" ")[2])]
    rule(f"each commit's subject is `subsystem: verb what` ({len(subjects)} read)", wrong)
    finish()


if __name__ == "__main__":
    main()
