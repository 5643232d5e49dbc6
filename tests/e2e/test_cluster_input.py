#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 4 s
"""What a gateway makes of a rig's input: its end is told, so that the worker computes the last frames and the tail;
after a reload that opens the sink anew, its epochs go on."""
import signal
import time
import unittest

import numpy as np

import cluster_world
import convolvd as c
from cluster_world import CHANNELS, GATEWAY, GATEWAY_RTP, RATE, TAPS, WORKER


OVERLOAD = 5  # a cause of a range


class Input(cluster_world.Cluster):
    def send(self, *arguments):
        """A rig's input of 1.5 s, through a gateway that stops then. Returns the rig's ledger and LOG's records."""
        port = c.free_port()
        self.server()
        gateway = self.start("gateway", GATEWAY_RTP, port=port)
        self.start("a", WORKER, sample_format="f32be")
        gateway.wait_said("owns the raw")
        ledger = c.rig(self.folder.name, port, "--format", "f32be", "--rate", RATE, "--channels", CHANNELS, "--signal", "noise",
                       "--frames", 30001, *arguments)
        c.wait_for(lambda: gateway.stream("rig")["frames_in"]["received"] == ledger["frames"], "the rig's frames")
        # All of it is in RAW before the gateway knows that nothing follows.
        cluster_world.wait_value(lambda: self.newest("raw").next == ledger["frames"], "the rig's frames in RAW")
        return ledger, self.end_of_input()

    def test_the_end_of_the_input_is_told(self):
        ledger, log = self.send()
        self.assertEqual(log[-1].next, ledger["frames"] + TAPS - 1)

    def test_epochs_go_on_after_a_reload_of_the_sink(self):
        self.server()
        self.start("gateway", GATEWAY).wait_said("owns the raw")
        self.daemons["gateway"].kill()
        gateway = self.start("gateway", GATEWAY)  # RAW has had an epoch more than its stream
        before = cluster_world.wait_value(lambda: (newest := self.of_data(self.newest("raw"))) and newest.epoch == 1 and newest, "records in RAW")
        with open(gateway.path, encoding="utf-8") as file:
            text = file.read()
        with open(gateway.path, "w", encoding="utf-8") as file:
            file.write(text.replace("record = input", "record = input\nmessage = 8 KiB"))
        gateway.signal(signal.SIGHUP)
        gateway.wait_said("reloaded")
        reloaded = self.newest("raw").sequence
        cluster_world.wait_value(lambda: self.newest("raw").sequence > reloaded + 20, "records of the sink that was opened anew")
        gateway.stop()
        at = [(record.epoch, record.first_missing) for record in self.records("raw") if record.kind == "data"]
        self.assertEqual(at, sorted(set(at)), "frames of RAW are numbered twice")
        self.assertGreater(at[-1][0], before.epoch)

    def away(self, seconds):
        """The server is gone for longer than the spool holds."""
        self.wait_frames(RATE // 2)
        self.servers[0].kill()
        time.sleep(seconds)
        self.servers[0].start()
        self.wait_frames(0, more=3 * RATE // 2)

    def test_what_the_spool_cannot_reach_is_declared_and_computed_as_zeros(self):
        self.server()
        self.start("gateway", GATEWAY + "message = 4 KiB\nspool = 1 s\n")
        self.start("a", WORKER)
        self.away(3.5)
        missing = [(start, until, cause) for record in self.records("raw") for start, until, cause, absent in record.ranges if absent]
        self.assertEqual({cause for _, _, cause in missing}, {OVERLOAD})
        self.assertGreater(sum(until - start for start, until, _ in missing), RATE)
        log = self.hold()  # zeros where RAW has nothing, and no frame lost
        self.assertEqual(len({record.epoch for record in log}), 1)
        flagged = np.zeros(log[-1].next, bool)
        for record in log:
            for begin, end, cause, _ in record.ranges:
                flagged[begin:end] |= cause == OVERLOAD
        expected = np.zeros(len(flagged), bool)
        for start, until, _ in missing:
            expected[start:until + TAPS - 1] = True  # and whatever they reach
        self.assertTrue((flagged == expected).all(), np.flatnonzero(flagged != expected)[:4])

    @staticmethod
    def of_data(record):
        return record if record and record.kind == "data" else None


if __name__ == "__main__":
    unittest.main()
