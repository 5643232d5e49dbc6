#!/usr/bin/python3
# long: yes, faults that take seconds; what it guards in check is test_cluster_standby
# parallel: yes
# takes: 8 s CPU in 120 s
"""A partition whose input comes by multicast (cluster_standby), the faults that take long: an owner that stands still, a
server that comes back with an older log, a sender that starts anew, and faults at random.

CONVOLVD_TEST_SEED, CONVOLVD_TEST_SECONDS: of the faults at random [1, 60]."""
import os
import random
import signal
import sys
import time
import unittest

import numpy as np

import cluster_standby
import cluster_world
import convolvd as c
from cluster_standby import STANDBY
from cluster_world import CHANNELS, HOP, RATE, TAPS
from multicast_rig import FIRST

SEED, SECONDS = int(os.environ.get("CONVOLVD_TEST_SEED", "1")), float(os.environ.get("CONVOLVD_TEST_SECONDS", "60"))


class Faults(cluster_standby.Standby):
    def test_the_owner_stands_still(self):
        self.begin(keys="hold = 5 s\n")  # a busy machine may take more than two leases
        name = self.owner()
        self.daemons[name].process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        self.daemons[name].process.send_signal(signal.SIGCONT)
        self.wait_frames(0, more=RATE)
        log = self.hold()
        self.assertEqual(self.takes(log), 2)
        self.daemons[name].wait_said("no more")
        self.hold_bar(self.note("owner stopped, lease 1 s", log), 4.0)

    def test_a_server_comes_back_with_an_older_log(self):
        """LOG goes back by 3 s: the owner computes them again from what it holds."""
        self.begin(keys="hold = 15 s\n")
        ahead = self.server_forgets(3)
        self.assertLess(self.newest().next, ahead)
        self.wait_frames(ahead + RATE)
        self.hold()

    def test_the_sender_starts_anew_before_the_takeover(self):
        """Its new numbers begin an epoch, for whoever reads them; the end of the one before is computed, too."""
        self.begin(seconds=3)
        name = self.owner()
        self.assertEqual(self.rig.wait(30), 0)
        self.daemons[name].process.send_signal(signal.SIGSTOP)
        time.sleep(1.1)  # `takeover`
        self.send(5, timestamp=77777, ssrc=8, name="y")
        self.assertEqual(self.rig.wait(30), 0)
        self.daemons[name].process.send_signal(signal.SIGCONT)
        for partition in ("rig", "alone"):
            self.partition_name = partition
            cluster_world.wait_value(lambda: (newest := self.newest()).epoch == 1 and newest.next >= 5 * RATE - 2 * HOP, "epoch 1")
        log, got, stamps = self.of_partition("rig")
        _, alone, of_alone = self.of_partition("alone")
        self.assertEqual(self.takes(log), 2)
        self.assertEqual((stamps, of_alone), ({0: FIRST % 2 ** 32, 1: 77777},) * 2)
        for epoch, signal_name in ((0, "x"), (1, "y")):
            x = self.sent(signal_name).astype(float)
            frames = min(len(got[epoch]), len(alone[epoch]))
            self.assertGreaterEqual(frames, len(x) + TAPS - 1 if epoch == 0 else len(x) - 2 * HOP)
            self.assertEqual(got[epoch][:frames].tobytes(), alone[epoch][:frames].tobytes(), f"epoch {epoch}: not to the bit")
            x = np.vstack([x, np.zeros((max(0, frames - len(x)), CHANNELS))])[:frames]
            c.assert_within(got[epoch][:frames], c.convolve(x, self.taps)[:frames], x, self.taps, what=f"epoch {epoch}")

    def test_at_random(self):
        """Workers killed, stopped and told to end, and the server killed: LOG is that of the worker beside them."""
        print(f"seed {SEED}, {SECONDS:.0f} s", file=sys.stderr, flush=True)
        choose, keys, count = random.Random(SEED), "hold = 15 s\n", 0
        self.begin("abc", keys=keys)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            what, name = choose.choice(("kill", "stop", "stop any", "end", "server")), self.owner()
            if what == "kill":
                self.kill(name)
                time.sleep(choose.uniform(0, 1))
                self.start(name, STANDBY.replace("standby = 1\n", f"standby = 1\n{keys}"))
            elif what == "end":
                self.daemons[name].stop()
                self.start(name, STANDBY.replace("standby = 1\n", f"standby = 1\n{keys}"))
            elif what == "server":
                self.servers[0].kill()
                time.sleep(choose.uniform(0.2, 4))
                self.servers[0].start()
            else:
                process = self.daemons[choose.choice("abc") if what == "stop any" else name].process
                process.send_signal(signal.SIGSTOP)
                time.sleep(choose.uniform(0.5, 3))
                process.send_signal(signal.SIGCONT)
            count += 1
            time.sleep(choose.uniform(1, 4))
        log = self.hold()
        c.note(f"test_cluster_standby_faults: seed {SEED}, {SECONDS:.0f} s, {count} faults: {self.takes(log)} takes, "
               f"longest standstill {self.standstill(log):.2f} s")


if __name__ == "__main__":
    unittest.main()
