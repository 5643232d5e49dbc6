#!/usr/bin/python3
# long: yes, it runs in real time; what it shows is test_cluster's to prove
# parallel: yes
# takes: 12 s CPU in 30 s
"""make demo-cluster, shorter: it passes, says what it is for, and leaves nothing running (the runner looks)."""
import os
import re
import subprocess
import sys
import unittest

import convolvd as c


class DemoCluster(unittest.TestCase):
    def test_it_passes(self):
        done = subprocess.run([sys.executable, os.path.join(c.ROOT, "clients", "demo_cluster.py"), c.BUILD, "15"],
                              capture_output=True, text=True, timeout=150, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"lost = 0, doubled = 0, wrong = 0 of \d+ frames × 4 sensors\n\ndemo-cluster: passed\n$")
        stills = re.findall(r"standstill ([0-9.]+) s", done.stdout)
        self.assertGreaterEqual(len(stills), 2, done.stdout)
        c.note(f"test_demo_cluster: worker killed, worker stopped, server killed: standstills {' '.join(stills)} s")


if __name__ == "__main__":
    unittest.main()
