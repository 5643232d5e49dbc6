"""A partition whose input comes by multicast RTP to its owner and to workers that stand by: real nats-server, real
multicast on the loopback interface. A worker beside them, that nothing happens to, computes a partition `alone` of the
same packets: LOG is held against that, byte by byte, and against the definition."""
import time

import numpy as np

import cluster_world
import convolvd as c
import multicast_rig
from cluster_world import CHANNELS, HOP, RATE, TAPS, WORKER
from multicast_rig import FIRST, LONG_S, SENDER

GROUP = "239.77.9.1"
STANDBY = WORKER.replace("source = nats\npartition = rig\n",
                         f"source = rtp\naddress = {GROUP}:{{port}}\ninterface = lo\nstandby = 1\n")


class Standby(multicast_rig.MulticastRig, cluster_world.Cluster):
    GROUP = GROUP

    def begin(self, workers="ab", seconds=LONG_S, keys=""):
        self.server()
        self.port = c.free_port()
        for name in workers:
            self.start(name, STANDBY.replace("standby = 1\n", f"standby = 1\n{keys}"))
        self.start("alone", STANDBY.replace("partition = rig", "partition = alone").replace("standby = 1\n", "standby = 1\nhold = 10 s\n"))
        self.owner()
        self.daemons["alone"].wait_said("owns the log of partition alone")
        self.send(seconds)
        self.wait_frames(RATE // 2)

    def start(self, name, text, sample_format="f32be", port=0, before=None):
        return super().start(name, text, sample_format, port or self.port, before)

    def of_partition(self, name):
        """[epoch] → the samples of its LOG, each frame once, and [epoch] → the time stamp of its frame 0."""
        self.partition_name = name
        log, at, chain = self.records("log"), (0, 0), 0
        self.partition_name = "rig"
        parts, stamps, owner = {}, {}, None
        for record in log:
            self.assertEqual(record.chain_before, chain, f"record {record.sequence}: another chain")
            chain = record.chain
            owner = (record.term, record.owner) if record.kind == "take" else owner
            self.assertEqual((record.term, record.owner), owner, f"record {record.sequence} of another term")
            if record.kind != "data":
                continue
            if record.epoch != at[0]:
                at = (record.epoch, 0)
            self.assertEqual((record.first_missing, record.first), (at[1], at[1]), f"record {record.sequence}: frames are lost or doubled")
            at = (record.epoch, record.next)
            self.assertTrue(record.flags & SENDER)
            stamp = (record.timestamp - record.next) % 2 ** 32
            self.assertEqual(stamps.setdefault(record.epoch, stamp), stamp, f"record {record.sequence}: another time stamp")
            parts.setdefault(record.epoch, []).append(np.frombuffer(record.samples, "<f4").reshape(-1, CHANNELS))
        return log, {epoch: np.concatenate(pieces) for epoch, pieces in parts.items()}, stamps

    def hold(self, timestamp=FIRST):
        """Ends the rig; LOG is what the worker alone has, and what the definition says. Returns its records."""
        self.wait_frames(4 * RATE)  # its time stamps have wrapped
        x = self.end_rig().astype(float)
        end = (len(x) - HOP) // HOP * HOP
        self.wait_frames(end)
        self.partition_name = "alone"
        self.wait_frames(end)
        log, got, stamps = self.of_partition("rig")
        _, alone, of_alone = self.of_partition("alone")
        self.assertEqual(list(got), [0])
        self.assertEqual((stamps, of_alone), ({0: timestamp % 2 ** 32}, {0: timestamp % 2 ** 32}))
        frames = min(len(got[0]), len(alone[0]))
        self.assertGreaterEqual(frames, end)
        self.assertEqual(got[0][:frames].tobytes(), alone[0][:frames].tobytes(), "not to the bit")
        c.assert_within(got[0][:frames], c.convolve(x, self.taps)[:frames], x[:frames], self.taps, what="LOG")
        self.assertFalse([each for record in log for each in record.ranges if each[1] >= TAPS], "frames are flagged")
        return log

    def takes(self, log):
        return sum(record.kind == "take" for record in log)

    def note(self, what, log):
        still = self.standstill(log)
        c.note(f"test_cluster_standby: {what}: standstill {still:.2f} s")
        return still

    def kill_owners(self, times):
        for _ in range(times):
            name = self.owner()
            self.daemons[name].process.kill()
            self.daemons[name].process.wait()
            self.wait_frames(0, more=RATE // 2)
            self.start(name, STANDBY)
            time.sleep(1.5)  # it holds what a term needs, and stands

    def kill(self, name):
        self.daemons[name].process.kill()
        self.daemons[name].process.wait()
