"""What the gates share: the files of the tree, C text without comments, notes of a README, results.

A gate is a script beside this file. It reads the source tree, prints what breaks a rule as
`# FILE:LINE: what is wrong`, and one TAP line for each rule. It needs no build.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED_FOLDERS = {".git", "build", "__pycache__", ".hypothesis", "results"}
_failed = []


def files(*tops, endings=()):
    """Paths below the given folders, or the given files, relative to the root and sorted."""
    found = []
    for top in tops:
        path = os.path.join(ROOT, top)
        if os.path.isfile(path):
            found.append(top)
        for folder, names, entries in os.walk(path):
            names[:] = [name for name in names if name not in SKIPPED_FOLDERS]
            found += [os.path.relpath(os.path.join(folder, entry), ROOT) for entry in entries]
    return sorted(name for name in found if not endings or name.endswith(tuple(endings)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def blank(text):
    """The same text with every character but the line ends replaced by a space."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """C text with its comments blanked out; line numbers and strings stay."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return token.sub(lambda m: blank(m.group()) if m.group().startswith("/") else m.group(), text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def notes(folder, key):
    """Exceptions that a folder's README.md grants, one a line: `KEY: NAME … — reason`."""
    path = os.path.join(folder, "README.md")
    if not os.path.exists(os.path.join(ROOT, path)):
        return []
    lines = re.findall(rf"^(?:[-*] )?`?{key}: (.+?)`? (?:—|--?) (\S.*)$", read(path), re.M)
    return [(names.replace("`", "").split(), reason) for names, reason in lines]


def table(name):
    """Rows of a table beside the gates: words in columns, # opens a comment."""
    for line in read(os.path.join("tests", "gates", name)).splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            yield line


def rule(text, violations):
    """Reports one rule. Without violations it holds."""
    for violation in violations:
        print(f"# {violation}")
    if violations:
        _failed.append(text)
    print(f"{'not ok' if violations else 'ok'} - {text}", flush=True)


def finish():
    sys.exit(1 if _failed else 0)
