#!/usr/bin/python3
"""The layout of the C and OpenCL C sources: `make format` would change no line."""
import re
import subprocess

from common import ROOT, finish, rule


def main():
    result = subprocess.run(["make", "--no-print-directory", "format-check"], cwd=ROOT, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = re.findall(r"^.*(?:error|warning): .*$", result.stdout, re.M)
    if result.returncode and not lines:
        lines = result.stdout.splitlines()[-5:]
    rule("make format changes nothing", lines if result.returncode else [])
    finish()


if __name__ == "__main__":
    main()
