#!/usr/bin/python3
"""Files and functions stay short enough to read: 600 lines a file in daemon, kernels and clients, 800 in
tests and bench; 80 lines a function, 120 in tests and bench, where a function may hold its table of cases.

A README.md of the file's folder may grant a longer file with the reason:

    long: file.c — why it is one file
"""
import ast
import os
import re

from common import files, finish, notes, read, rule, without_comments

FILE_LINES = {"daemon": 600, "kernels": 600, "clients": 600, "tests": 800, "bench": 800}
FUNCTION_LINES = {"daemon": 80, "kernels": 80, "clients": 80, "tests": 120, "bench": 120}
ENDINGS = (".c", ".h", ".cl", ".clh", ".py", ".sh", ".cc", ".cu")


def c_functions(text):
    """(line, lines, name) of each function in clang-format's layout: its signature begins in the first column, and
    so do its braces, each alone on its line."""
    lines = without_comments(text).split("\n")
    opened = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{":
            first = i
            while first > 0 and lines[first - 1].strip() and not re.match(r"[}#]|.*[;\\]\s*$", lines[first - 1]):
                first -= 1
            name = re.search(r"(\w+)\s*\(", " ".join(lines[first:i]))
            opened = (first, name.group(1) if name else "?")
        elif opened and line.startswith("}"):
            yield opened[0] + 1, i - opened[0] + 1, opened[1]
            opened = None


def python_functions(path, text):
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def is_python(path, text):
    return path.endswith(".py") or text.startswith("#!/usr/bin/python3")


def main():
    long_files, long_functions, stale = [], [], []
    counted = 0
    for top, most in FILE_LINES.items():
        granted = {}
        for path in files(top):
            folder = os.path.dirname(path)
            if folder not in granted:
                granted[folder] = {name for names, _ in notes(folder, "long") for name in names}
            text = read(path)
            if not path.endswith(ENDINGS) and not text.startswith("#!"):
                continue
            name, length = os.path.basename(path), text.count("\n")
            if length > most and name not in granted[folder]:
                long_files.append(f"{path}: {length} lines, at most {most} (or `long: {name} — reason` in its README.md)")
            if length <= most and name in granted[folder]:
                stale.append(f"{folder}/README.md: {name} has {length} lines; drop its `long:` line")
            functions = python_functions(path, text) if is_python(path, text) else \
                c_functions(text) if path.endswith((".c", ".h", ".cl", ".clh", ".cc", ".cu")) else ()
            for line, lines, function in functions:
                counted += 1
                if lines > FUNCTION_LINES[top]:
                    long_functions.append(f"{path}:{line}: {function} has {lines} lines, at most {FUNCTION_LINES[top]}")
    rule("no file is longer than its folder allows", long_files)
    rule(f"no function is longer than its folder allows ({counted} counted)", long_functions)
    rule("each `long:` line of a README.md names a long file", stale)
    finish()


if __name__ == "__main__":
    main()
