#!/usr/bin/python3
# long: yes, each fault takes seconds; what it guards in check is the rest of test_cluster
# parallel: yes
"""Partitions, the faults that take long: workers killed again and again, an owner that stands still, a server that
dies, one that comes back with older state. lost = doubled = wrong = 0 in each.

CONVOLVD_TEST_KILLS: how many workers are killed one after the other [5]."""
import os
import shutil
import signal
import time
import unittest

import cluster_world
import convolvd as c
from cluster_world import RATE


class Faults(cluster_world.Cluster):
    def test_workers_killed_again_and_again(self):
        times = int(os.environ.get("CONVOLVD_TEST_KILLS", "5"))
        self.begin()
        self.kill_owners(times)
        log = self.hold()
        self.assertEqual(sum(record.kind == "take" for record in log), times + 1)
        stills = sorted(self.standstills(log))
        c.note(f"test_cluster_faults: worker killed, {times} times: standstills "
               + " ".join(f"{still:.2f}" for still in stills) + " s")
        self.assertLess(stills[-1], 2.0)

    def test_an_owner_stands_still(self):
        """It is taken for dead after a lease, and refused at its first append once it goes on."""
        self.begin()
        name = self.owner()
        self.daemons[name].process.send_signal(signal.SIGSTOP)
        self.wait_frames(0, more=RATE // 2)
        time.sleep(4)
        self.daemons[name].process.send_signal(signal.SIGCONT)
        self.wait_frames(0, more=RATE)
        log = self.hold()
        self.assertEqual(sum(record.kind == "take" for record in log), 2)
        self.daemons[name].wait_said("no more")
        still = self.standstill(log)
        c.note(f"test_cluster_faults: owner stopped, lease 1 s: standstill {still:.2f} s")
        self.assertLess(still, 4.0)

    def test_the_only_server_is_killed_and_comes_back(self):
        self.begin()
        self.servers[0].kill()
        killed = time.monotonic()
        time.sleep(3)
        self.servers[0].start()
        down = time.monotonic() - killed
        self.wait_frames(0, more=RATE)
        still = self.standstill(self.hold())
        c.note(f"test_cluster_faults: server killed, back after {down:.2f} s: standstill {still:.2f} s")
        self.assertLess(still, down + 2.5)

    def test_a_server_comes_back_with_older_state(self):
        """Both logs go back by 3 s; the gateway writes RAW again, the owner LOG."""
        self.begin()
        store = f"{self.servers.folder}/s0"
        self.servers[0].signal(signal.SIGTERM)
        shutil.copytree(store, f"{store}.before")
        self.servers[0].start()
        self.wait_frames(0, more=3 * RATE)
        ahead = self.newest().next
        self.servers[0].kill()
        shutil.rmtree(store)
        os.rename(f"{store}.before", store)
        self.servers[0].start()
        self.assertLess(self.newest().next, ahead)
        self.wait_frames(ahead + RATE)
        self.hold()


if __name__ == "__main__":
    unittest.main()
