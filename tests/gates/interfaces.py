"""Interfaces: a function that a header declares is called from another file than the one that defines it.

What no other file calls is static there, or gone. Tests count as callers: they may look at what the daemon
does not ask for. Names put together by the preprocessor are not seen, and nor are the public functions of
clients/lib, which are for users' programs.
"""
import collections
import re

import common

PUBLIC = ("clients/lib/convolv.h",)
PROTOTYPE = re.compile(r"^[a-z][\w \t*]*?\b(\w+)\([^;{}]*\)[^;{}]*;", re.M)


def words(text):
    return set(re.findall(r"[A-Za-z_]\w*", text))


def without_directives(text):
    return re.sub(r"^[ \t]*#.*(?:\\\n.*)*", "", text, flags=re.M)


def defines(text, name):
    return re.search(rf"^[a-z][\w \t*]*\b{name}\(", text, re.M) is not None


texts = {path: common.without_comments(common.read(path))
         for path in common.files("daemon", "clients", "bench", "tests", endings=(".c", ".h"))}
users = collections.defaultdict(set)
for path, text in texts.items():
    for word in words(text):
        users[word].add(path)

unused = []
for header, text in texts.items():
    if not header.endswith(".h") or not header.startswith(("daemon/", "clients/")) or header in PUBLIC:
        continue
    plain = without_directives(text)
    for match in PROTOTYPE.finditer(plain):
        name = match.group(1)
        callers = [path for path in users[name] - {header} if not defines(texts[path], name)]
        if not callers:
            line = common.line_of(text, text.find(f"{name}("))
            unused.append(f"{header}:{line}: no other file calls {name}: make it static, or remove it")

common.rule("what a header declares is called from another file", unused)
common.finish()
