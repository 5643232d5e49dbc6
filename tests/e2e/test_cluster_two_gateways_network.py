#!/usr/bin/python3
# long: yes, faults that take seconds; what it guards in check is test_cluster_two_gateways
# parallel: waiting, leases and cut-off hosts, by clocks of seconds
# takes: 4 s CPU in 60 s
"""Two gateways that receive one rig by multicast (cluster_gateways), each of them and the server on a host of its own
(multicast_hosts)."""
import time
import unittest

import cluster_gateways
from cluster_world import RATE
from multicast_hosts import OnHosts


class Hosts(OnHosts, cluster_gateways.Gateways):
    HOSTS = ("s0", "g", "h", "alone", "a")

    def test_cut_off(self):
        """From rig and server: taken for dead after a lease, refused when it is back, and the one that waits from then on."""
        self.begin()
        self.wait_holds("h")
        self.cut_off("g", 5)
        self.wait_frames(0, more=RATE)
        self.daemons["g"].wait_said("owns the raw of partition rig no more")
        self.daemons["g"].wait_said("h appends the raw of partition rig: this gateway waits")
        time.sleep(1.5)
        self.kill("h")
        self.wait_frames(0, more=RATE)
        raw = self.hold_raw()
        self.assertEqual(self.takes(raw), 3)
        self.note("cut off for 5 s, then the other one killed", raw)

    def test_the_one_that_waits_was_cut_off(self):
        """For longer than `max gap`, and long ago: it goes on like any other, in the same epoch."""
        self.begin()
        self.cut_off("h", 3)
        time.sleep(4)
        self.assertEqual(self.gateway(), "g")
        self.kill("g")
        self.wait_frames(0, more=RATE)
        raw = self.hold_raw()
        self.assertEqual(self.takes(raw), 2)
        self.note("the other one cut off before, then killed", raw)


if __name__ == "__main__":
    unittest.main()
