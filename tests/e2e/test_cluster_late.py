#!/usr/bin/python3
# parallel: yes
# takes: 2 s CPU in 10 s
"""A partition that nobody computes for longer than RAW keeps its records: the successor goes on with what is there, LOG
declares the frames that RAW has dropped, flags those that reach back to them, and holds every other one."""
import time
import unittest

import numpy as np

import cluster_world
import convolvd as c
from cluster_world import CHANNELS, GATEWAY, RATE, TAPS, WORKER

OVERLOAD = 5  # a cause of a range


class Late(cluster_world.Cluster):
    def collect(self, raw, seconds):
        """Adds the records of RAW to `raw`, sequence → record, while the log has them."""
        until = time.monotonic() + seconds
        with self.client() as client:
            while time.monotonic() < until:
                state = client.state("convolvd:rig:raw")
                for n in range(max(raw, default=0) + 1, state["last_seq"] + 1):
                    raw[n] = cluster_world.Record(n, client.message("convolvd:rig:raw", n))
                time.sleep(0.05)

    def test_a_successor_later_than_the_window(self):
        self.server()
        self.start("gateway", GATEWAY + "window = 2 s\n")
        worker = self.start("a", WORKER)
        self.wait_frames(RATE // 2)
        raw = {}
        self.collect(raw, 0.5)
        worker.process.kill()
        worker.process.wait()
        begin = self.newest().next
        self.collect(raw, 6)
        started_ns = time.time_ns()
        self.start("b", WORKER)
        self.collect(raw, 2)
        log = [record for record in self.records("log") if record.kind == "data"]
        self.collect(raw, 0.2)
        self.assertGreater(log[-1].next, begin + 7 * RATE)
        self.still_since(log, started_ns, "successor started after RAW's window of 2 s, from its start on", 3, forgot=True)

        self.assertEqual({record.epoch for record in log}, {0})
        self.assertEqual([record.first_missing for record in log], [0] + [record.next for record in log[:-1]])
        gaps = [(record.first_missing, record.first) for record in log if record.first > record.first_missing]
        self.assertEqual(len(gaps), 1, gaps)
        end = gaps[0][1]
        self.assertEqual(gaps[0][0], begin)
        self.assertGreater(end, begin + 2 * RATE)
        got, flagged = np.zeros((log[-1].next, CHANNELS)), np.zeros(log[-1].next, bool)
        for record in log:
            got[record.first:record.next] = np.frombuffer(record.samples, "<f4").reshape(-1, CHANNELS)
            for start, until, cause, absent in record.ranges:
                flagged[start:until] = True
                if absent:
                    self.assertEqual((start, until, cause), (begin, end, OVERLOAD))
        expected = np.zeros(len(flagged), bool)
        expected[:TAPS - 1] = expected[begin:end + TAPS - 1] = True  # and the beginning of the epoch
        self.assertTrue((flagged == expected).all(), np.flatnonzero(flagged != expected)[:4])
        x = self.signal_of([raw[n] for n in sorted(raw)])[0][:len(got)]
        want, held = c.convolve(x, self.taps)[:len(got)], ~expected
        held[:TAPS - 1] = True  # silence before an epoch is known
        c.assert_within(got[held], want[held], x, self.taps, what="frames that LOG does not flag")


if __name__ == "__main__":
    unittest.main()
