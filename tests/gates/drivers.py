#!/usr/bin/python3
"""No code above io/ branches on a driver: config, pipeline, report and control never quote the name
of a source or sink driver and never use a SOURCE_ or SINK_ enumerator.

The names come from the drivers themselves (`.name = "rtp"` below daemon/io/). What is no driver
although it has the same word stands in drivers.txt.
"""
import os
import re

from common import blank, files, finish, line_of, read, rule, table, without_comments

FOLDERS = ("config", "pipeline", "report", "control")


def driver_names():
    """{name: file} of every driver in the two tables."""
    names = {}
    for path in files("daemon/io", endings=(".c",)):
        text = without_comments(read(path))
        # Only tables of drivers: const struct source_ops or sink_ops.
        for found in re.finditer(r"^const struct (?:source|sink)_(?:ops|driver) \w+ = \{(.*?)^\};", text, re.M | re.S):
            for name in re.findall(r'\.name\s*=\s*"([^"]+)"', found.group(1)):
                names[name] = path
    return names


def main():
    allowed = {}
    for row in table("drivers.txt"):
        path, word = row.split()[:2]
        allowed.setdefault(path, set()).add(word)
    names = driver_names()
    rule("the drivers' names can be read from daemon/io", [] if len(names) >= 5 else
         [f"daemon/io: only {sorted(names)} found; did the tables of drivers change their form?"])

    quoted, enums, used = [], [], set()
    for path in files(*(os.path.join("daemon", folder) for folder in FOLDERS), endings=(".c", ".h")):
        text = without_comments(read(path))
        for found in re.finditer(r'"((?:\\.|[^"\\\n])*)"', text):
            word = found.group(1)
            start = text.rfind("\n", 0, found.start()) + 1
            if word not in names or re.match(r"\s*#\s*include", text[start:found.start()]):
                continue
            if word in allowed.get(path, ()):
                used.add((path, word))
            else:
                quoted.append(f"{path}:{line_of(text, found.start())}: \"{word}\" is the driver of {names[word]}")
        code = re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: blank(m.group()), text)
        for found in re.finditer(r"\b(?:SOURCE|SINK)_[A-Z0-9_]+\b", code):
            if found.group() in allowed.get(path, ()):
                used.add((path, found.group()))
            else:
                enums.append(f"{path}:{line_of(text, found.start())}: {found.group()}")
    rule("config, pipeline, report and control quote no driver's name", quoted)
    rule("config, pipeline, report and control use no SOURCE_ or SINK_ enumerator", enums)
    rule("each exception in drivers.txt is in use",
         [f"tests/gates/drivers.txt: {path} has no {word}" for path, words in sorted(allowed.items())
          for word in sorted(words) if (path, word) not in used])
    finish()


if __name__ == "__main__":
    main()
