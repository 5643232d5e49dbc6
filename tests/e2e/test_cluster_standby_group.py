#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 4 s CPU in 40 s
"""A partition whose input comes by multicast (cluster_standby): which workers are in the group, and an owner that takes
again what it had."""
import time
import unittest

import cluster_standby
import cluster_world
from cluster_world import RATE


class Group(cluster_standby.Standby):
    def test_the_server_is_away(self):
        """For less than `hold`: the owner takes again, and computes what it holds. Its stream's ring is so small that the
        epoch of the new term has to wait until what is left of the old one is through."""
        self.begin(("a",), keys="hold = 10 s\nbuffer = 1 frames\n")
        for _ in range(2):
            self.servers[0].kill()
            time.sleep(1.5)
            self.servers[0].start()
            self.wait_frames(0, more=RATE)
        self.assertEqual(self.takes(self.hold()), 3)

    def test_who_does_not_stand_by_leaves_the_group(self):
        """With standby = 1 two of three workers receive; when both others die the third one does again."""
        self.begin(("a", "b", "c"))
        away = cluster_world.wait_value(self.away, "one that leaves the group")
        self.assertEqual(len(away), 1)
        self.assertEqual(self.daemons[away[0]].stream("rig")["sinks"][0]["partition"]["state"], "follows")
        # Handed over to it by command, the partition goes to another one 2 s later, and no frame is lost.
        term = 0

        def handed_over():  # the owner may be another one by then: the first in the order gets the partition back after 10 s
            nonlocal term
            term = self.newest().term
            return self.ctl(self.owner(), "cluster", "hand-over", "rig", away[0]).returncode == 0
        cluster_world.wait_value(handed_over, "an owner that hands over")
        newest = self.wait_frames(0, more=4 * RATE)
        # On a busy machine that may take the 10 s after which the first in the order gets the partition back.
        self.assertIn((newest.term, newest.epoch), ((term + 1, 0), (term + 2, 0)))
        self.assertNotEqual(self.owner(), away[0])
        self.assertEqual(list(self.of_partition("rig")[1]), [0])
        before = self.datagrams(away[0])
        self.wait_frames(0, more=RATE)
        self.assertEqual(self.datagrams(away[0]), before)
        for name in "abc":
            if name not in away:
                self.daemons[name].process.kill()
                self.daemons[name].process.wait()
        self.daemons[away[0]].wait_said("stands by for partition rig")
        cluster_world.wait_value(lambda: self.datagrams(away[0]) > before, "packets again")
        cluster_world.wait_value(lambda: self.newest().epoch == 1 and self.newest().next > RATE, "the next epoch")

    def away(self):
        return [name for name in "abc" if self.daemons[name].stream("rig")["network"]["state"] == "away"]

    def datagrams(self, name):
        return self.daemons[name].stream("rig")["datagrams"]["read"]


if __name__ == "__main__":
    unittest.main()
