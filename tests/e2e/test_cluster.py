#!/usr/bin/python3
# parallel: yes
"""Partitions: a gateway, workers and a real NATS server. Whatever dies, stops or comes back, LOG holds each
frame once, in order, with the samples that an undisturbed daemon computes from RAW: lost = doubled = wrong = 0."""
import unittest

import cluster_world
import convolvd as c
from cluster_world import RATE


class Partitions(cluster_world.Cluster):
    def test_one_worker_computes_what_a_daemon_computes(self):
        self.begin(("a",))
        self.wait_frames(0, more=RATE)
        log = self.hold()
        self.assertEqual(sum(record.kind == "take" for record in log), 1)

    def test_a_worker_killed(self):
        self.begin()
        self.kill_owners(1)
        log = self.hold()
        self.assertEqual(sum(record.kind == "take" for record in log), 2)
        self.compare_with_an_undisturbed_run(log)
        worst = self.standstill(log)
        c.note(f"test_cluster: worker killed: standstill {worst:.2f} s")
        self.assertLess(worst, 2.0)

    def test_an_owner_that_is_stopped_in_order_hands_over(self):
        self.begin()
        name = self.owner()
        self.daemons[name].stop()
        self.wait_frames(0, more=RATE // 2)
        log = self.hold()
        self.assertIn("release", [record.kind for record in log])
        still = self.standstill(log)
        c.note(f"test_cluster: hand-over by SIGTERM: standstill {still:.2f} s")
        self.assertLess(still, 1.5)


if __name__ == "__main__":
    unittest.main()
