#!/usr/bin/python3
# parallel: yes
"""What benches make of their trials: the count that bench_jack finds, and which late packets bench_daemon lays at the
machine's door."""
import json
import os
import sys
import tempfile
import unittest
from types import SimpleNamespace

import numpy as np

import convolvd as c

sys.path.insert(0, os.path.join(c.ROOT, "bench"))
import bench_daemon  # noqa: E402
import bench_jack  # noqa: E402


class Search(unittest.TestCase):
    def found(self, carried, first=1, limit=30, trials=1):
        """What `most` finds where so many go through, and the counts it tried."""
        tried = []

        def carries(_, instances, *given):
            tried.append(instances)
            self.assertEqual(given[3], trials)
            return instances <= carried, 0.5, 1e-7
        original, bench_jack.carries = bench_jack.carries, carries
        try:
            return bench_jack.most("name", 256, None, 1, trials, first, limit, print)[0], tried
        finally:
            bench_jack.carries = original

    def test_the_largest_count_is_found(self):
        for carried in range(32):
            for first in (1, 6, 16, 40):
                with self.subTest(carried=carried, first=first):
                    self.assertEqual(self.found(carried, first)[0], min(carried, 30))

    def test_few_counts_are_tried(self):
        for given, expect in {
                (13, 1): [1, 2, 4, 8, 16, 12, 14, 13],
                (30, 16): [16, 30],
                (0, 6): [6, 3, 1]}.items():
            with self.subTest(given=given):
                self.assertEqual(self.found(*given)[1], expect)

    def test_a_count_has_several_trials(self):
        """Of the client, on the connections it has made once."""
        self.assertEqual(self.found(1, trials=3)[1], [1, 2])

    def test_the_last_trial_counts(self):
        """The client plays again by itself, and says each time how it went."""
        accounts = [{"xruns": 2, "missed_frames": 256}, {"xruns": 0, "missed_frames": 0}]
        with tempfile.TemporaryDirectory() as folder:
            client = os.path.join(folder, "client")
            with open(client, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" f'echo "$@" > {folder}/words\n' "echo ready\n"
                           f"head -c 32 /dev/zero > {folder}/out.f32\n"
                           + "".join(f"echo '{json.dumps(account)}'\n" for account in accounts))
            os.chmod(client, 0o755)
            original, bench_jack.CLIENT = bench_jack.CLIENT, client
            try:
                program = SimpleNamespace(instances=0, processes=lambda: [])
                got, account, _ = bench_jack.play(folder, program, np.zeros(8), 8, ["a"], 5)
            finally:
                bench_jack.CLIENT = original
            with open(os.path.join(folder, "words"), encoding="utf-8") as file:
                self.assertIn("--trials 5", file.read())
        self.assertEqual((len(got), account["xruns"], account["missed_frames"]), (8, 0, 0))
        self.assertEqual(account["before"], ["2 xruns, 256 frames missed"])

    def test_a_server_has_ports_for_the_limit(self):
        ports = 2 * 64 + bench_jack.LIMIT * 2 * 64 + 1 + bench_jack.LIMIT  # the driver's, the clients', the rig's
        self.assertLessEqual(ports, bench_jack.PORTS)
        self.assertGreater(ports + 2 * 64 + 1, bench_jack.PORTS)


class Explain(unittest.TestCase):
    def test_late_packets_are_told_apart(self):
        pause = [0, 10.000, 10.004]
        for given, expect in [
                ({"late": [], "pauses": [pause]}, (0, 0)),
                ({"late": [[9.999, 10.005, 30]], "pauses": [pause]}, (0.03, 0)),
                ({"late": [[10.003, 10.009, 30]], "pauses": [pause]}, (0.03, 0)),
                ({"late": [[10.004, 10.009, 30]], "pauses": [pause]}, (0, 0.03)),
                ({"late": [[9.990, 10.000, 30]], "pauses": [pause]}, (0, 0.03)),
                ({"late": [[9.990, 9.995, 10], [10.001, 10.002, 20]], "pauses": [pause, [1, 11, 12]]}, (0.02, 0.01))]:
            with self.subTest(given=given):
                told = {"packets": 1000, "late": given["late"]}
                bench_daemon.explain(told, {"pauses": given["pauses"]})
                self.assertEqual((told["late_paused"], told["late_awake"]), expect)

    def test_nobody_watched(self):
        """Then nothing is laid at the machine's door, and nothing is said of its being awake."""
        told = {"packets": 1000, "late": [[9.999, 10.005, 30]], "start_s": 9.5}
        bench_daemon.explain(told, None)
        self.assertEqual((told["late_paused"], told["late_awake"], told["watched"]), (0, 0.03, False))
        self.assertEqual(told["runs"], "6.0 late at 499")

    def test_pauses_are_added_up(self):
        told = {"packets": 0, "late": []}
        bench_daemon.explain(told, {"pauses": [[0, 1.0, 1.001], [1, 5.0, 5.003]]})
        self.assertAlmostEqual(told["paused_s"], 0.004)
        self.assertAlmostEqual(told["longest_ms"], 3)


if __name__ == "__main__":
    unittest.main()
