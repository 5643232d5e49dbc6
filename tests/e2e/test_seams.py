#!/usr/bin/python3
# parallel: yes
"""The shipped daemon carries no handle for tests: neither a symbol nor a string of tests/seams/, and no
environment variable of the tests. convolvd-test, the same objects with the seams linked in, proves that this
search would find them."""
# sanitizers: no, the names are the same in every build
import os
import re
import subprocess
import unittest

import convolvd as c

# Names that a seam, or a hook in its place, would have.
SYMBOL = re.compile(r"__wrap_|wedge|hook|seam|sabotage|fault_inject|for_test", re.IGNORECASE)
STRING = re.compile(r"CONVOLVD_TEST|wedge|test.?hook|sabotage|fault.?inject", re.IGNORECASE)


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def symbols(program):
    """What the program defines; hooks of libraries (undefined here) are theirs."""
    return {line.split()[-1] for line in lines("nm", "--defined-only", program)}


def sources(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names if name.endswith((".c", ".h"))]


class Seams(unittest.TestCase):
    shipped = os.path.join(c.BUILD, "convolvd")
    tested = os.path.join(c.BUILD, "convolvd-test")

    def test_shipped_daemon_has_no_seam(self):
        self.assertEqual({name for name in symbols(self.shipped) if SYMBOL.search(name)}, set())
        self.assertEqual({text for text in lines("strings", "-n", "6", self.shipped) if STRING.search(text)}, set())
        seams = set()
        for path in sources(os.path.join(c.ROOT, "tests", "seams")):
            with open(path, encoding="utf-8") as file:
                seams |= set(re.findall(r"\b__wrap_\w+", file.read()))
        self.assertEqual(symbols(self.shipped) & seams, set())
        self.assertEqual(seams - symbols(self.tested), set()) # each is linked into convolvd-test
        self.assertGreater(len(seams), 3)

    def test_daemon_reads_only_documented_variables(self):
        read = set()
        for path in sources(os.path.join(c.ROOT, "daemon")):
            with open(path, encoding="utf-8") as file:
                read |= set(re.findall(r"\bgetenv\(\"(\w+)\"\)", file.read()))
        self.assertEqual({name for name in read if "TEST" in name}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
