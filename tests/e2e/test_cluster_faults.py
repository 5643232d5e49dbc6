#!/usr/bin/python3
# long: yes, each fault takes seconds; what it guards in check is the rest of test_cluster
# parallel: yes
"""Partitions, the faults that take long: workers killed again and again, an owner that stands still, a server that
dies, one that comes back with older state. lost = doubled = wrong = 0 in each.

CONVOLVD_TEST_KILLS: how many workers are killed one after the other [5]."""
import os
import signal
import threading
import time
import unittest

import cluster_world
import convolvd as c
from cluster_world import CHANNELS, GATEWAY, GATEWAY_RTP, RATE, WORKER


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
        self.hold_bar(stills[-1], 2.0)

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
        self.hold_bar(still, 4.0)

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
        self.hold_bar(still, down + 2.5)

    def test_a_server_comes_back_with_older_state(self):
        """Both logs go back by 3 s; the gateway, with the default spool and records of one small packet, writes RAW again, the owner
        LOG."""
        self.begin()
        ahead = self.server_forgets(3)
        self.assertLess(self.newest().next, ahead)
        self.wait_frames(ahead + RATE)
        log = self.hold()
        self.assertEqual([record.sequence for record in self.records("raw") if record.first != record.first_missing], [],
                         "records of RAW that lack frames before them")
        self.still_since(log, self.event_ns, "server back with logs older by 3 s", 2.5, forgot=True)
        again = next(record for record in log if record.kind == "data" and record.next >= ahead and record.appended_ns > self.event_ns)
        c.note(f"test_cluster_faults: … and LOG has what it had before after {(again.appended_ns - self.event_ns) / 1e9:.2f} s")

    def test_the_servers_have_no_space_left(self):
        """The gateway names that, and takes nobody for its successor; with more space RAW has all of its input."""
        self.server(max_file="300K")
        gateway = self.start("gateway", GATEWAY)
        gateway.wait_said("the servers store no record of the raw of partition rig: insufficient resources")
        gateway.wait_said("owns the raw of partition rig no more: the servers store no records of it")
        self.assertNotIn("another worker has taken over", gateway.output())
        self.servers[0].kill()
        with open(self.servers[0].config, encoding="utf-8") as file:
            text = file.read().replace("max_file: 300K", "max_file: 4G")
        with open(self.servers[0].config, "w", encoding="utf-8") as file:
            file.write(text)
        self.servers[0].start()
        self.start("a", WORKER)
        self.wait_frames(4 * RATE)
        self.hold()
        self.assertFalse([record.sequence for record in self.records("raw") if record.first != record.first_missing])

    def test_a_gap_longer_than_max_gap_ends_the_epoch(self):
        """The server is away for longer than spool and `max gap`: RAW and LOG begin an epoch behind the gap."""
        self.server()
        port = c.free_port()
        gateway = self.start("gateway", GATEWAY_RTP + "message = 4 KiB\nspool = 1 s\n", port=port)
        self.start("a", WORKER, sample_format="f32be")
        gateway.wait_said("owns the raw")
        rig = threading.Thread(target=c.rig, args=(self.folder.name, port, "--format", "f32be", "--rate", RATE, "--channels",
                                                   CHANNELS, "--signal", "noise", "--frames", 12 * RATE))
        rig.start()
        self.addCleanup(rig.join)
        self.wait_frames(RATE // 2)
        self.servers[0].kill()
        time.sleep(7.5)  # behind the gap that ends the epoch another one as long
        self.servers[0].start()
        rig.join()
        raw = self.newest("raw")
        self.assertEqual(raw.epoch, 1)
        cluster_world.wait_value(lambda: self.newest().epoch == 1 and self.newest().next >= raw.next - 256, "the second epoch in LOG")
        log = self.hold()
        self.assertFalse([record for record in log if record.first != record.first_missing])

    def test_a_gateway_keeps_what_a_log_that_went_back_needs(self):
        """… but no more than its spool: the rest is declared."""
        self.server()
        self.start("gateway", GATEWAY + "message = 4 KiB\nspool = 1 s\n")
        self.start("a", WORKER)
        self.wait_frames(RATE // 2)
        self.server_forgets(4)
        self.wait_frames(6 * RATE)
        self.still_since(self.hold(), self.event_ns, "RAW back by 4 s, spool 1 s", 2.5, forgot=True)
        self.assertTrue([record for record in self.records("raw") if record.first != record.first_missing])


if __name__ == "__main__":
    unittest.main()
