#!/usr/bin/python3
"""Functions stay short enough to read: 80 lines, 120 in tests and bench, where a function may hold its table of cases.

Files have no limit: a file ends where its concern ends.
"""
import ast
import re

from common import files, finish, read, rule, without_comments

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
    long_functions = []
    counted = 0
    for top, most in FUNCTION_LINES.items():
        for path in files(top):
            text = read(path)
            if not path.endswith(ENDINGS) and not text.startswith("#!"):
                continue
            functions = python_functions(path, text) if is_python(path, text) else \
                c_functions(text) if path.endswith((".c", ".h", ".cl", ".clh", ".cc", ".cu")) else ()
            for line, lines, function in functions:
                counted += 1
                if lines > most:
                    long_functions.append(f"{path}:{line}: {function} has {lines} lines, at most {most}")
    rule(f"no function is longer than its folder allows ({counted} counted)", long_functions)
    finish()


if __name__ == "__main__":
    main()
