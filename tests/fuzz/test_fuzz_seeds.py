#!/usr/bin/python3
# sanitizers: yes
# parallel: yes
# takes: 4 s CPU in 18 s
"""Every fuzzer's seeds, cut off and with single bytes changed, through the fuzzer's harness.

`make fuzz` searches further and needs clang; this runs in every build, so that the sanitizers see each
parser in `make check`.
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

FUZZ = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("CONVOLVD_BUILD", os.path.join("build", "gcc")))


class Seeds(unittest.TestCase):
    def replay(self, name):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.join(FUZZ, "seeds.py"), name, folder], check=True)
            seeds = sorted(glob.glob(os.path.join(folder, "*")))
            self.assertGreater(len(seeds), 0)
            result = subprocess.run([os.path.join(BUILD, "tests", name.replace("fuzz_", "replay_")), *seeds],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stdout[-4000:])


def add_tests():
    for path in sorted(glob.glob(os.path.join(FUZZ, "fuzz_*.c"))):
        name = os.path.splitext(os.path.basename(path))[0]
        setattr(Seeds, f"test_{name}", lambda self, name=name: self.replay(name))


add_tests()
if __name__ == "__main__":
    unittest.main(verbosity=2)
