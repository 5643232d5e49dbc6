#!/usr/bin/python3
"""Moves the files of debian/tmp into their packages, as debian/packages says. A file without a row is an error."""
import fnmatch
import os
import sys


def main():
    with open("debian/packages", encoding="ascii") as table:
        rows = [line.split() for line in table if line.strip() and not line.startswith("#")]
    lost = []
    for folder, _, names in os.walk("debian/tmp"):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), "debian/tmp")
            package = next((package for package, pattern in rows if fnmatch.fnmatchcase(path, pattern)), None)
            if package is None:
                lost.append(path)
                continue
            to = os.path.join("debian", package, path)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.rename(os.path.join("debian/tmp", path), to)
    if lost:
        sys.exit("debian/packages has no row for: " + ", ".join(sorted(lost)))


if __name__ == "__main__":
    main()
