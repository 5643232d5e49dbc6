#!/usr/bin/python3
"""Writes the manual page of a tool from its --help, so that the two cannot disagree.

    clients/tools/manual.py PROGRAM SECTION VERSION >PAGE

--help begins with `Usage: NAME …`, says in sentences what the program does, and lists options below headings
(clients/tools/options.h).
"""
import os
import re
import subprocess
import sys

OPTION = re.compile(r"^  (--[\w-]+)(?: ([^ ]+(?: [^ ]+)*?))?(?: {2,}| (?=\S{40}))(\S.*)$")


def roff(text):
    """The text with what troff would read as commands, or as other characters, escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return text.replace("…", "...").replace("·", "*")


def name_sentence(sentences):
    first = re.split(r"(?<=[a-z)])[.:] |[.:]$", " ".join(sentences).strip())[0]
    return first[0].lower() + first[1:]


def page(program, section, version, text):
    name = os.path.basename(program)
    lines = text.splitlines()
    usage = lines[0].partition(":")[2].strip()
    at = next((i for i, line in enumerate(lines) if line.startswith("  --")), len(lines))
    while at > 1 and (not lines[at - 1].strip() or lines[at - 1].endswith(":")):
        at -= 1
    sentences = [line for line in lines[1:at] if line.strip()]
    yield f'.\\" Generated from {name} --help.'
    yield f'.TH {name.upper()} {section} "" "convolvd {version}" "convolvd"'
    yield f".SH NAME\n{roff(name)} \\- {roff(name_sentence(sentences))}"
    yield f".SH SYNOPSIS\n.B {roff(usage.split()[0])}\n{roff(usage.partition(' ')[2])}"
    yield ".SH DESCRIPTION\n" + "\n".join(roff(line) for line in sentences)
    if at < len(lines):
        yield ".SH OPTIONS"
    for line in lines[at:]:
        option = OPTION.match(line)
        if option:
            dashed, metavar, sentence = option.groups()
            metavar = f" \\fI{roff(metavar)}\\fR" if metavar else ""
            yield f".TP\n\\fB{roff(dashed)}\\fR{metavar}\n{roff(sentence)}"
        elif line.startswith("  "):
            yield roff(line.strip())
        elif line.strip():
            yield f".SS {roff(line.rstrip(':'))}"
    yield ".SH SEE ALSO\n.BR convolvd (8),\n.BR convolvd.conf (5)"


def main():
    program, section, version = sys.argv[1:]
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    print("\n".join(page(program, section, version, text)))


if __name__ == "__main__":
    main()
