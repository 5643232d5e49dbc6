#!/usr/bin/python3
# parallel: yes
# takes: 6 s CPU in 60 s
"""Two gateways that receive one rig by multicast (cluster_gateways): the one that waits goes on where the other ends, in the
same epoch, and RAW holds each frame that the rig has sent once.

CONVOLVD_TEST_KILLS: how often the gateway that appends is killed in a row [2]."""
import os
import signal
import time
import unittest

import cluster_gateways
import cluster_world
from cluster_world import RATE

NETWORK = 2  # a cause
KILLS = int(os.environ.get("CONVOLVD_TEST_KILLS", "2"))


class Successors(cluster_gateways.Gateways):
    def test_killed_in_a_row(self):
        self.begin()
        self.wait_holds("h")
        self.kill_gateways(KILLS)
        raw = self.hold_raw()
        self.assertEqual(self.takes(raw), KILLS + 1)
        self.hold_bar(self.note(f"killed, {KILLS} times", raw), 2.0)

    def refused(self, name):
        return self.daemons[name].stream("rig")["sinks"][0]["partition"]["refused"]

    def stand_still(self):
        """The gateway that appends, until the other one does. Returns its name."""
        name = self.gateway()
        other = self.other(name)
        cluster_world.wait_value(lambda: self.daemons[other].stream("rig")["sinks"][0]["pending"] < RATE, f"{other}, which has caught up")
        process = self.daemons[name].process
        process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        process.send_signal(signal.SIGCONT)
        cluster_world.wait_value(lambda: self.gateway() == other, f"{other}, which appends")
        return name

    def test_stands_still(self):
        """Taken for dead after a lease; when it goes on it appends nothing more, and it waits: then the other one may go. Where
        it was stopped decides whether it appends before it reads who owns RAW, and is refused, or reads that first: then the
        next one stands still."""
        self.begin()
        self.wait_holds("h")
        process = self.daemons["g"].process
        process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        process.send_signal(signal.SIGCONT)
        self.daemons["g"].wait_said("owns the raw of partition rig no more")
        self.daemons["g"].wait_said("h appends the raw of partition rig: this gateway waits")
        stood, still = 1, "g"
        while not self.refused(still) and stood < 5:
            still = self.stand_still()
            stood += 1
        self.assertGreater(self.refused(still), 0, f"of {stood} gateways that stood still")
        time.sleep(1.5)
        self.kill(self.other(still))
        self.wait_frames(0, more=RATE)
        raw = self.hold_raw()
        self.assertEqual(self.takes(raw), stood + 2)
        self.hold_bar(self.note("stopped for 4 s, then the other one killed", raw), 4.0)

    def test_stopped_in_order(self):
        """It leaves the epoch open for the other one."""
        self.begin()
        self.wait_holds("h")
        self.daemons["g"].stop()
        self.wait_frames(0, more=RATE)
        raw = self.hold_raw()
        self.assertEqual([record.kind for record in raw if record.kind not in ("data", "beat")], ["take", "release", "take"])
        self.hold_bar(self.note("stopped in order", raw), 1.5)

    def test_started_anew(self):
        """Without another one: it leaves RAW for a lease to those who may have kept more, then goes on in the same epoch; what
        the rig has sent while there was no gateway is a gap, declared."""
        self.begin(keys="max gap = 10 s\n")
        self.kill("h")
        self.kill("g")
        self.listen("g")
        self.daemons["g"].wait_said("owns the raw of partition rig")
        self.wait_frames(0, more=RATE)
        x = self.end_rig().astype(">f4")
        cluster_world.wait_value(lambda: self.newest("raw").next >= len(x), "all of RAW")
        raw = self.records("raw")
        data = [record for record in raw if record.kind == "data"]
        self.assertEqual({record.epoch for record in data}, {0})
        missing = [record for record in data if record.first != record.first_missing]
        self.assertEqual(len(missing), 1)
        self.assertIn((missing[0].first_missing, missing[0].first, NETWORK, 1), missing[0].ranges)
        for record in data:
            self.assertEqual(record.samples == x[record.first:record.next].tobytes(), True, f"record {record.sequence}")
        self.assertGreater(self.note("killed and started anew, without another one", raw), 0.9)


if __name__ == "__main__":
    unittest.main()
