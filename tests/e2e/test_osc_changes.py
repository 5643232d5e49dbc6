#!/usr/bin/python3
# parallel: yes
"""Changes over OSC that wait for a frame far ahead, or come in numbers: one that waits is replaced or
overtaken by what is for an earlier frame, a fader does not fill the log, and a reload frees what an
exchange that never came to its frame has left. And who may change something: the addresses of `control`."""
import os
import signal as signals
import socket
import unittest

import numpy as np

import convolvd as c
from osc_client import Client, blocks, gather

RATE, BLOCK, FRAMES = 1000, 256, 4096
TAPS = c.random_taps(11, 31)
TAPS2 = c.random_taps(12, 45)
LONG = c.random_taps(13, 24000)


def signal(seed):
    return np.random.default_rng(seed).normal(0, 0.25, (FRAMES, 2)).astype(np.float32)


class Changes(unittest.TestCase):
    def start(self, streams, osc="allow = any"):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        for name, taps in (("one", TAPS), ("two", TAPS2), ("long", LONG)):
            np.save(os.path.join(folder.name, f"{name}.npy"), taps)
        port = c.free_port()
        filters = "".join(f"[filter {n}]\ntype = file\npath = {n}.npy\ndelay = 0\n" for n in ("one", "two", "long"))
        self.daemon = c.Daemon(folder.name, f"{streams}[osc]\naddress = *:{port}\n{osc}\n{filters}")
        self.addCleanup(self.daemon.kill)
        self.port = port
        return folder.name

    def client(self, *arguments):
        client = Client(self.port, *arguments)
        self.addCleanup(client.close)
        return client

    def play(self, x, steps):
        """Sends x to stream s, and before frame n what steps[n] says; each (message, answers awaited)."""
        client, results = self.client(), self.client()
        results.send("/convolvd/s/subscribe", "s", "results")
        answers = []
        for n, packet in enumerate(blocks("s", x)):
            if n * 64 in steps:
                c.wait_for(lambda n=n: self.daemon.stream("s")["frames_out"]["out"] >= n * 64 - BLOCK, "results")
                for what, arguments, awaited in steps[n * 64]:
                    client.send(f"/convolvd/s/{what}", *arguments)
                    answers += [client.receive() for _ in range(awaited)]
            client.raw(packet)
        y, _, _ = gather(results.receive, len(x))
        return y, answers

    OSC_STREAM = f"[stream s]\nsource = osc\nrate = {RATE} Hz\nchannels = 2\nblock = {BLOCK}\nfilter = one\n" \
                 "format = f32be\nbuffer = 10 s\n[sink s]\ntype = osc\nstream = s\n"

    def test_an_earlier_filter_replaces_one_that_waits(self):
        self.start(self.OSC_STREAM)
        x = signal(1)
        y, answers = self.play(x, {1024: [("filter", ("shs", "two", 1 << 40, "hard"), 1),
                                          ("filter", ("shs", "two", 1500, "hard"), 2)]})
        self.assertEqual(answers[0][2], ["filter", 1 << 40])
        self.assertEqual(answers[1][0], "/convolvd/error")
        self.assertIn("replaced by a request for an earlier frame", answers[1][2][1])
        self.assertEqual(answers[2][2], ["filter", 1500])
        want = c.convolve(x, TAPS)[:FRAMES]
        want[1500:] = c.convolve(x, TAPS2)[1500:FRAMES]
        c.assert_within(y, want, x, TAPS2, what="the earlier filter")

    def test_a_gain_goes_before_a_filter_that_waits(self):
        self.start(self.OSC_STREAM)
        x = signal(2)
        y, answers = self.play(x, {1024: [("filter", ("shs", "two", 3500, "hard"), 1), ("gain", ("ff", 6.0, 0.0), 2)]})
        self.assertEqual([a[2][0] for a in answers], ["filter", "gain", "filter"])
        at = answers[1][2][1]
        self.assertLess(at, 2000)
        self.assertEqual(answers[2][2], ["filter", 3500])
        gain = 10 ** (6 / 20)
        want = c.convolve(x, TAPS)[:FRAMES]
        want[at:] *= gain
        want[3500:] = gain * c.convolve(x, TAPS2)[3500:FRAMES]
        c.assert_within(y, want, x * gain, TAPS2, what="a gain, then the filter")

    def test_a_fader_does_not_fill_the_log(self):
        self.start(self.OSC_STREAM)
        client, before = self.client(), len(self.daemon.lines)
        for i in range(30):
            client.send("/convolvd/s/gain", "ff", -float(i), 0.0)
            self.assertEqual(client.receive()[0], "/convolvd/s/changed")
        self.assertLessEqual(len(self.daemon.lines) - before, 3, self.daemon.output())

    def test_a_reload_frees_an_exchange_that_waits(self):
        folder = self.start("[device]\ndevice = cpu\nspectrum memory = 1 MiB\n"
                            f"[stream s]\nsource = osc\nrate = {RATE} Hz\nchannels = 1\nblock = 1024\nfilter = long\n"
                            "variant = partitioned\nformat = f32be\n[sink s]\ntype = osc\nstream = s\n")
        client = self.client()
        with open(self.daemon.path, encoding="utf-8") as file:
            text = file.read()
        for i in range(8):
            client.send("/convolvd/s/filter", "shs", "long", 1 << 40, "hard")
            self.assertEqual(client.receive()[0], "/convolvd/s/changed")
            with open(self.daemon.path, "w", encoding="utf-8") as file:
                file.write(text.replace("format = f32be\n", f"format = f32be\nfull scale = {i + 2}\n"))
            said = self.daemon.output().count("1 changed or new")
            self.daemon.signal(signals.SIGHUP)
            c.wait_for(lambda: self.daemon.said("refused") or self.daemon.output().count("1 changed or new") > said,
                       "the reload")
            self.assertFalse(self.daemon.said("refused"), f"reload {i}:\n{self.daemon.output()}")
        self.daemon.stop()
        del folder


    CHANGES = (("gain", "f", -6.0), ("mute", "i", 1), ("filter", "s", "two"))

    def refused(self, client):
        """It is answered, and may change nothing."""
        client.send("/convolvd/s/info")
        self.assertEqual(client.receive()[0], "/convolvd/s/info")
        for what, types, value in self.CHANGES:
            client.send(f"/convolvd/s/{what}", types, value)
            address, _, (asked, sentence) = client.receive()
            self.assertEqual((address, asked), ("/convolvd/error", f"/convolvd/s/{what}"))
            self.assertIn("needs the role control", sentence)
            self.assertIn("`control` in [osc]", sentence)
        status = self.daemon.stream("s")
        self.assertEqual((status["gains"]["changes"], status["filter"]["name"]), (0, "one"))

    def accepted(self, client):
        for what, types, value in self.CHANGES[:2]:
            client.send(f"/convolvd/s/{what}", types, value)
            self.assertEqual(client.receive()[0], "/convolvd/s/changed")

    def test_the_address_decides_the_role(self):
        self.start(self.OSC_STREAM, "control = 127.0.0.3, 127.0.4.0/24")
        self.refused(self.client())
        self.refused(self.client("127.0.0.2"))
        self.accepted(self.client("127.0.0.3"))
        self.accepted(self.client("127.0.4.9"))
        c.wait_for(lambda: "`gain` was refused" in self.daemon.output(), "the refusal in the log")
        self.assertRegex(self.daemon.output(), r"OSC 127\.0\.0\.1:\d+")

    def test_nobody_has_the_role(self):
        self.start(self.OSC_STREAM, "control = none")
        self.refused(self.client())

    def test_by_default_this_machine_and_those_trusted_have_it(self):
        """An address that is only allowed may send blocks and ask, once it is proven, and no more."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
            except OSError:
                self.skipTest("no address but loopback here")
            own = probe.getsockname()[0]
        self.start(self.OSC_STREAM)
        self.accepted(self.client())
        self.daemon.stop()
        self.start(self.OSC_STREAM)
        client = self.client(own)
        client.send("/convolvd/list")
        client.send("/convolvd/prove", "i", client.receive()[2][0])
        self.refused(client)
        self.daemon.stop()
        self.start(self.OSC_STREAM, f"trust = {own}")
        self.accepted(self.client(own))


if __name__ == "__main__":
    unittest.main(verbosity=2)
