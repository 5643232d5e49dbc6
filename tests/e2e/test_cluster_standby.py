#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 4 s CPU in 35 s
"""A partition whose input comes by multicast (cluster_standby): whoever takes over goes on from what it holds itself, and
LOG holds each frame once, with the bytes of a worker that nothing happens to."""
import os
import signal
import subprocess
import time
import unittest

import numpy as np

import cluster_standby
import convolvd as c
from cluster_standby import STANDBY
from cluster_world import CHANNELS, RATE, TAPS


class Takeovers(cluster_standby.Standby):
    def test_the_owner_is_killed_and_the_next_one(self):
        self.begin()
        listed = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "cluster", "--config", self.daemons["alone"].path],
                                capture_output=True, text=True, timeout=30, check=True).stdout
        self.assertRegex(listed, r"(?m)^rig +raw  none: the input comes by multicast, or RAW is gone$")
        self.kill_owners(2)
        log = self.hold()
        self.assertEqual(self.takes(log), 3)
        self.hold_bar(self.note("owner killed, twice", log), 2.0)

    def test_handed_over_and_back(self):
        self.begin()
        first = self.owner()
        for name in (first, "b" if first == "a" else "a"):
            self.assertEqual(self.owner(), name)
            self.daemons[name].signal(signal.SIGTERM)
            self.wait_frames(0, more=RATE // 2)
            self.daemons[name].wait()
            self.start(name, STANDBY)
            time.sleep(1.5)
        log = self.hold()
        self.assertEqual([record.kind for record in log].count("release"), 2)
        self.hold_bar(self.note("owner stopped in order, twice", log), 1.5)

    def test_what_the_successor_has_not_received(self):
        """Its gap alone: LOG goes on in the same epoch, with the frames that nobody has left out and declared."""
        self.begin(("a",))
        self.daemons["b"] = None
        del self.daemons["b"]
        self.daemons["a"].process.send_signal(signal.SIGSTOP)
        self.start("b", STANDBY)  # it holds nothing of what the owner had not computed
        self.wait_frames(0, more=2 * RATE)
        log = self.records("log")
        data = [record for record in log if record.kind == "data"]
        self.assertEqual({record.epoch for record in data}, {0})
        missing = [record for record in data if record.first != record.first_missing]
        self.assertEqual(len(missing), 1)
        self.assertIn((missing[0].first_missing, missing[0].first), [each[:2] for each in missing[0].ranges if each[3] & 1])
        x = self.end_rig().astype(float)
        behind = np.concatenate([np.frombuffer(record.samples, "<f4").reshape(-1, CHANNELS) for record in data
                                 if record.first >= missing[0].first])
        first = missing[0].first
        want = c.convolve(x, self.taps)[first + TAPS:first + len(behind)]
        c.assert_within(behind[TAPS:], want, x[first + TAPS:first + len(behind)], self.taps, what="behind the gap")


if __name__ == "__main__":
    unittest.main()
