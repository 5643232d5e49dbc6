#!/usr/bin/python3
"""The floors of daemon/: every #include is one that floors.txt allows, and no modules form a circle.

A module is a .c/.h pair. A folder may keep a circle of modules when its README.md lists the
circle's modules with the reason:

    circle: a.h b.h — why they belong together
"""
import os
import re

from common import ROOT, files, finish, line_of, notes, read, rule, table, without_comments

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def allowed_by_table():
    """{folder: set of folders and headers}, and what is wrong with the table itself."""
    allowed, wrong = {}, []
    for row in table("floors.txt"):
        folder, *below = row.split()
        if "*" in below:
            below = list(allowed)
        for name in below:
            if name != "-" and not name.endswith(".h") and name not in allowed:
                wrong.append(f"tests/gates/floors.txt: {folder} names {name}, which no row above it has")
        if folder in allowed:
            wrong.append(f"tests/gates/floors.txt: {folder} has two rows")
        allowed[folder] = set(below) | {folder}
    return allowed, wrong


def includes(path):
    """(line, included path from the root or None) of each project header a file includes."""
    text = without_comments(read(path))
    for found in INCLUDE.finditer(text):
        name = found.group(1)
        places = [os.path.join("daemon", name), name]
        exists = [place for place in places if os.path.isfile(os.path.join(ROOT, place))]
        yield line_of(text, found.start()), name, exists[0] if exists else None


def folder_of(path):
    return os.path.relpath(os.path.dirname(path), "daemon")


def circles(edges):
    """Strongly connected sets of two or more modules (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            members = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(set(members))

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found


def main():
    allowed, table_wrong = allowed_by_table()
    sources = files("daemon", endings=(".c", ".h"))
    folders = {folder_of(path) for path in sources}
    rule("the table lists every folder of daemon/, each above the folders it may include",
         table_wrong + [f"daemon/{folder}: no row in tests/gates/floors.txt"
                        for folder in sorted(folders - set(allowed))])

    unknown, forbidden, edges = [], [], {folder: {} for folder in folders}
    for path in sources:
        folder = folder_of(path)
        module = os.path.splitext(os.path.basename(path))[0]
        for line, name, target in includes(path):
            if target is None:
                unknown.append(f"{path}:{line}: \"{name}\" is no header below daemon/ or the top folder")
            elif not target.startswith("daemon/"):
                if target not in allowed.get(folder, ()):
                    forbidden.append(f"{path}:{line}: {folder} may not include {target}")
            elif folder_of(target) not in allowed.get(folder, {folder}):
                forbidden.append(f"{path}:{line}: {folder} may not include {folder_of(target)} ({name})")
            elif folder_of(target) == folder:
                other = os.path.splitext(os.path.basename(target))[0]
                if other != module:
                    edges[folder].setdefault(module, set()).add(other)
    rule("includes are written from daemon/ or the top folder", unknown)
    rule("each folder includes only folders that its row allows", forbidden)

    unlisted = []
    for folder in sorted(folders):
        path = os.path.join("daemon", folder)
        listed = [{os.path.splitext(name)[0] for name in names} for names, _ in notes(path, "circle")]
        real = circles(edges[folder])
        for members in real:
            if members not in listed:
                arrows = [f"{a} includes {b}" for a in sorted(members)
                          for b in sorted(edges[folder].get(a, ())) if b in members]
                unlisted.append(f"{path}: {', '.join(arrows)}")
        for members in listed:
            if members not in real:
                unlisted.append(f"{path}/README.md: there is no circle of {' '.join(sorted(members))}; drop the line")
    rule("modules of one folder form no circle, except those its README.md lists", unlisted)
    finish()


if __name__ == "__main__":
    main()
