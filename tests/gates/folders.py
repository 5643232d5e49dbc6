#!/usr/bin/python3
"""The layout: the top folder holds exactly what design gave it, every folder of daemon/ has a README.md
of 10 to 30 lines, tests/unit mirrors daemon/, and each test has a name of its own."""
import os

from common import ROOT, files, finish, read, rule

TOP = {"daemon", "kernels", "clients", "config", "systemd", "bench", "tests", "docs",
       "Makefile", "README.md", "LICENSE", "CHANGELOG.md"}
# What make writes into the top folder; git ignores it.
MADE = {"build", "compile_commands.json", "__pycache__"}
# Unit tests of what lies outside daemon/.
UNIT_FOLDERS = {"clients", "published"}
README_LINES = range(10, 31)


def main():
    entries = {name for name in os.listdir(ROOT) if not name.startswith(".")} - MADE
    rule("the top folder holds exactly the entries of the layout",
         [f"{name}: not part of the layout" for name in sorted(entries - TOP)] +
         [f"{name}: missing" for name in sorted(TOP - entries)])

    wrong = []
    folders = sorted({os.path.dirname(path) for path in files("daemon")} - {"daemon"})
    for folder in folders:
        path = os.path.join(folder, "README.md")
        if not os.path.exists(os.path.join(ROOT, path)):
            wrong.append(f"{path}: missing")
        elif read(path).count("\n") not in README_LINES:
            wrong.append(f"{path}: {read(path).count(chr(10))} lines, not 10 to 30")
    rule(f"each folder of daemon/ has a README.md of 10 to 30 lines ({len(folders)} folders)", wrong)

    units = sorted({os.path.relpath(os.path.dirname(path), "tests/unit") for path in files("tests/unit")})
    rule("tests/unit mirrors daemon/",
         [f"tests/unit/{folder}: there is no daemon/{folder}" for folder in units
          if folder not in UNIT_FOLDERS and not os.path.isdir(os.path.join(ROOT, "daemon", folder))])

    names = {}
    for path in files("tests"):
        stem, ending = os.path.splitext(os.path.basename(path))
        if stem.startswith("test_") and ending in (".c", ".py", ".sh"):
            names.setdefault(stem, []).append(path)
    rule("no two tests have one name: mutants and the runner go by it",
         [f"{', '.join(paths)}: one name" for stem, paths in sorted(names.items()) if len(paths) > 1])
    finish()


if __name__ == "__main__":
    main()
