#!/usr/bin/python3
# parallel: yes
# takes: 29 s CPU in 52 s
# timeout: 600
# sanitizers: no, a convolver with a sanitizer in it is too slow for half a period
"""`mode = direct` against a JACK server: the callback convolves what it captures, adds exactly no frame
and equals the definition sample by sample; what is too slow for half a period is refused with the
figures; what makes no sense is refused by --check.
"""
import os
import re
import resource
import subprocess
import unittest

import numpy as np

import convolvd as c
import jack_server as jack
from osc_client import Client

RATE = 48000


def config(channels, extra="", sink_extra="", more="", bank="f"):
    return (f"[stream x]\nsource = portaudio\ncard = system\nhost api = jack\nrate = 48 kHz\nchannels = {channels}\n"
            f"duplex = yes\nmode = direct\nbank = {bank}\n{extra}\n"
            f"[sink y]\ntype = portaudio\nstream = x\ncard = system\nhost api = jack\nduplex = yes\n{sink_extra}\n{more}\n"
            "[filter f]\ntype = file\npath = f.npy\ndelay = 0 frames\n")


@jack.repeats_disturbed
class Direct(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)

    def serve(self, ports, period):
        server = jack.Server(ports, period)
        self.addCleanup(server.close)
        os.environ.update(server.environment)
        return server

    def taps(self, channels, count):
        """One set for each channel, all different."""
        sets = np.stack([c.random_taps(31 + i, count) for i in range(channels)])
        np.save(os.path.join(self.folder, "f.npy"), sets)
        return sets

    def run_daemon(self, text, *arguments, wait=True):
        daemon = c.Daemon(self.folder, text, *arguments, wait=wait)
        self.addCleanup(daemon.kill)
        return daemon

    def open(self, text):
        """Other work on this machine can make the measurement refuse: then it says so, and is asked again."""
        for _ in range(4):
            daemon = self.run_daemon(text, wait=False)
            try:
                daemon.wait_said("running:", 4 * c.PATIENCE_S)
                return daemon
            except AssertionError:
                self.assertIn("mode = direct would be too slow here", daemon.output())
                daemon.kill()
        self.fail(f"refused four times:\n{daemon.output()}")

    def round_trip(self, channels, period, count, extra="", more=""):
        server = self.serve(channels, period)
        own = jack.baseline(server, self.folder, min(channels, 2))
        sets = self.taps(channels, count)
        daemon = self.open(config(channels, extra=extra, more=more))
        c.wait_for(lambda: daemon.stream()["sound"]["running"], "the sound card")
        x = np.random.default_rng(channels).normal(0, 0.1, (RATE // 2, channels)).astype("<f4")
        connections = jack.through(jack.daemon_ports("convolvd-x", channels, "in"),
                                   jack.daemon_ports("convolvd-x", channels, "out"))
        self.play_whole(daemon, server, x, connections, own, 2 * period + count, sets, "round trip")
        status = daemon.stop()["streams"][0]
        self.assertEqual(status["sinks"][0]["sound"]["latency_frames"], 0)
        card = status["sound"]
        c.note(f"JACK, direct, period {period}, {channels} × {count} taps: adds 0 frames; a period takes "
               f"{card['direct_median_ns'] / 1e3:.0f} us, at worst {card['direct_worst_ns'] / 1e3:.0f} of {card['direct_period_ns'] / 1e3:.0f}")
        # The worst has in it what other work on this machine takes in between.
        self.assertLess(card["direct_median_ns"], card["direct_period_ns"] / 2)
        return status

    def test_two_channels_period_64(self):
        self.round_trip(2, 64, 4096)

    def test_eight_channels_period_256(self):
        self.round_trip(8, 256, 4096)

    def test_sixty_four_channels(self):
        self.round_trip(64, 256, 1000)

    def test_results_for_others_too(self):
        """A recording of the same stream gets its blocks as ever."""
        path = os.path.join(self.folder, "r.wav")
        status = self.round_trip(2, 256, 64, more=f"[sink r]\ntype = recording\nstream = x\npath = {path}\n")
        self.assertGreater(status["frames_out"]["out"], RATE // 2)
        recording = next(s for s in status["sinks"] if s["type"] == "recording")
        self.assertEqual(recording["frames"], status["frames_out"]["out"])

    def play_whole(self, daemon, server, x, connections, own, more, taps, what):
        """Plays x and compares what comes back. Other work on this machine can make JACK leave a cycle out, which it
        counts, or end one before the daemon has, which it reports as an xrun: then it is played again."""
        def lost():
            return daemon.stream()["sound"]["counters"]["device lost frames"]
        for again in range(8):
            before = lost()
            got, account = jack.play(server, self.folder, x, connections, frames=len(x) + own + more)
            if lost() != before or account["missed_frames"] > 0:
                continue
            try:
                for i in range(x.shape[1]):
                    want = c.convolve(x[:, i:i + 1], taps[i])
                    c.assert_within(got[:own, i:i + 1], np.zeros((own, 1)), x[:, i:i + 1], taps[i], what=f"{what}, before")
                    c.assert_within(got[own:own + len(want), i:i + 1], want, x[:, i:i + 1], taps[i], what=f"{what}, channel {i + 1}")
                return
            except AssertionError:
                if account["xruns"] == 0 or again == 7:
                    raise
        self.fail("eight times JACK left cycles out")

    def changes(self, more, *others):
        """Filters and gains over OSC reach what is played, from the first frame on settled; what would be too slow does not."""
        server = self.serve(2, 64)  # the longest filter there may be is too slow for half of it on any processor
        own = jack.baseline(server, self.folder, 2)
        port = c.free_port()
        sets = {"f": self.taps(2, 500), "g": np.stack([c.random_taps(91 + i, 1300) for i in range(2)])}
        np.save(os.path.join(self.folder, "g.npy"), sets["g"])
        np.save(os.path.join(self.folder, "slow.npy"), np.stack([c.random_taps(7, 1 << 20)] * 2).astype("<f4"))
        daemon = self.open(config(2, more=f"{more}\n[osc]\naddress = 127.0.0.1:{port}\n"
                                          "[filter g]\ntype = file\npath = g.npy\ndelay = 0 frames\n"
                                          "[filter slow]\ntype = file\npath = slow.npy\ndelay = 0 frames\n"))
        c.wait_for(lambda: daemon.stream()["sound"]["running"], "the sound card")
        client = Client(port)
        self.addCleanup(client.close)
        x = np.random.default_rng(1).normal(0, 0.1, (RATE // 4, 2)).astype("<f4")
        connections = jack.through(jack.daemon_ports("convolvd-x", 2, "in"), jack.daemon_ports("convolvd-x", 2, "out"))
        for count, (arguments, taps) in enumerate([
                ((), sets["f"]),
                (("filter", "s", "g"), sets["g"]),
                (("gain", "fi", -20.0, 2), sets["g"] * [[1], [0.1]]),
                (("filter", "s", "f"), sets["f"] * [[1], [0.1]])]):
            if arguments:
                client.send(f"/convolvd/x/{arguments[0]}", *arguments[1:])
                self.assertEqual(client.receive()[0], "/convolvd/x/changed")
                c.wait_for(lambda: daemon.stream()["sound"]["counters"]["filters changed"] == count, "the change")
            self.play_whole(daemon, server, x, connections, own, 512 + 1300, taps, arguments)
        for arguments, words in others:
            client.send("/convolvd/x/filter", *arguments)
            self.assertIn(words, client.await_("/convolvd/error")[2][1])
        return daemon, client

    def test_changes_over_osc(self):
        daemon, client = self.changes("", (("sh", "g", 1 << 40), "leave the frame out"))
        client.send("/convolvd/x/filter", "s", "slow")
        daemon.wait_said("playback keeps its filters: mode = direct would be too slow here", 8 * c.PATIENCE_S)
        self.assertEqual(daemon.stop()["streams"][0]["sound"]["counters"]["filters refused"], 1)

    def test_changes_for_others_too(self):
        path = os.path.join(self.folder, "r.wav")
        daemon, _ = self.changes(f"[sink r]\ntype = recording\nstream = x\npath = {path}\n")
        self.assertTrue(daemon.said("from output frame"))
        daemon.stop()

    def test_too_slow(self):
        """A shape that no processor does within half a period is refused with the figures."""
        self.serve(64, 16)
        self.taps(64, 16384)
        daemon = self.run_daemon(config(64), wait=False)
        self.assertEqual(daemon.wait(8 * c.PATIENCE_S), 1, daemon.output())
        said = re.search(r"mode = direct would be too slow here: 64 channels with 16384 taps take (\d+) us a period, at worst "
                         r"(\d+) us, more than half of the 333 us that 16 frames last", daemon.output())
        self.assertIsNotNone(said, daemon.output())
        self.assertGreater(int(said.group(2)), 333 / 2)
        self.assertLessEqual(int(said.group(1)), int(said.group(2)))

    def check(self, text):
        path = os.path.join(self.folder, "convolvd.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", path], capture_output=True, text=True, check=False)

    def test_refusals(self):
        self.taps(2, 16)
        for text, words in (
                (config(2, sink_extra="latency = 256 frames"), "adds no frame; leave `latency` out"),
                (config(2, extra="decimate = 2"), "a duplex card has one rate"),
                (config(2, extra="align = yes"), "leave `align` out"),
                (config(2).replace("duplex = yes", "duplex = no"), "write duplex = yes here"),
                (config(2).replace("mode = direct", "mode = record"), "a sound card sends no records"),
                (config(2).replace("source = portaudio\ncard = system\nhost api = jack", "source = rtp\naddress = *:5004")
                 .replace("mode = direct\n", "mode = direct\n", 1), "runs in a sound card's callback"),
        ):
            done = self.check(text)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(words, done.stdout + done.stderr)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main(verbosity=2)
