#!/usr/bin/python3
# long: yes, faults that take seconds; what it guards in check is test_cluster_standby
# parallel: waiting, leases and cut-off hosts, by clocks of seconds
# takes: 9 s CPU in 48 s
"""A partition whose input comes by multicast (cluster_standby), each worker and the server on a host of its own
(multicast_hosts)."""
import time
import unittest

import cluster_standby
from cluster_world import RATE
from multicast_hosts import OnHosts


class Hosts(OnHosts, cluster_standby.Standby):
    HOSTS = ("s0", "a", "b", "alone")

    def test_the_owner_is_cut_off(self):
        """From rig and server: taken for dead after a lease, and refused when it is back."""
        self.begin(keys="hold = 5 s\n")
        name = self.owner()
        self.cut_off(name, 5)
        self.wait_frames(0, more=RATE)
        self.daemons[name].wait_said("no more")
        log = self.hold()
        self.assertEqual(self.takes(log), 2)
        self.note("owner cut off, lease 1 s", log)

    def test_a_standby_was_cut_off(self):
        """For longer than `max gap`, and long ago: it takes over like any other, in the same epoch."""
        self.begin()
        name = self.owner()
        other = "b" if name == "a" else "a"
        self.cut_off(other, 3)
        time.sleep(4)
        self.assertEqual(self.owner(), name)
        self.kill(name)
        self.wait_frames(0, more=RATE)
        log = self.hold()
        self.assertEqual(self.takes(log), 2)
        self.note("standby cut off before, owner killed", log)


if __name__ == "__main__":
    unittest.main()
