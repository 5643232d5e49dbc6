#!/usr/bin/python3
"""The layout of the C and OpenCL C sources: `make format` would change no line.

One version of clang-format decides. Where this system has no such package, the gate is skipped with that reason."""
import re
import subprocess
import sys

from common import ROOT, finish, rule


def main():
    result = subprocess.run(["make", "--no-print-directory", "format-check"], cwd=ROOT, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    skipped = re.search(r"^skipped: .*$", result.stdout, re.M)
    if skipped:
        print(skipped.group(0))
        sys.exit(77)
    lines = re.findall(r"^.*(?:error|warning): .*$", result.stdout, re.M)
    if result.returncode and not lines:
        lines = result.stdout.splitlines()[-5:]
    rule("make format changes nothing", lines if result.returncode else [])
    finish()


if __name__ == "__main__":
    main()
