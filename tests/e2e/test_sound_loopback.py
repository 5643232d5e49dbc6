#!/usr/bin/python3
# timeout: 600
# parallel: yes
# takes: 3 s CPU in 42 s
"""`convolvd --measure-loopback` against a JACK server whose ports lead back over a client with a known
delay: found to the frame, kept, and declared by the stream that captures from the card; where
nothing comes back it is told so, and nothing is kept.
"""
import json
import os
import subprocess
import unittest

import convolvd as c
import jack_server as jack

RATE = 48000
DELAY = 777  # of the client in between

CONFIG = """
[daemon]
state directory = {folder}
[device]
device = cpu

[filter f]
type = identity

[stream response]
source = portaudio
card = system
host api = jack
rate = 48 kHz
channels = 2
duplex = yes
block = 256 frames
bank = f
align = {align}
{extra}

[stream excitation]
source = generator
waveform = impulses
period = 50 ms
amplitude = 0.5
rate = 48 kHz
channels = 2
block = 256 frames
bank = f

[sink out]
type = portaudio
stream = excitation
card = system
host api = jack
duplex = yes
latency = 4096 frames
"""


class Loopback(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(self.folder, "convolvd.conf")
        self.kept = os.path.join(self.folder, "loopback.json")

    def serve(self, period):
        server = jack.Server(2, period)
        self.addCleanup(server.close)
        os.environ.update(server.environment)
        return server

    def lead_back(self, channels, delay=DELAY):
        """A client that passes the daemon's outputs to its inputs, so much later."""
        connections = [part for i in range(channels) for part in
                       ("--connect", f"convolvd-response:out_{i}>copy:in_{i + 1}",
                        "--connect", f"copy:out_{i + 1}>convolvd-response:in_{i}")]
        copy = subprocess.Popen([jack.CLIENT, "--name", "copy", "--through", "2", "--delay", str(delay), "--timeout", "60",
                                 *connections], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(copy.stdout.close)
        self.addCleanup(copy.wait)
        self.addCleanup(copy.kill)
        return copy

    def measure(self, extra=""):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=self.folder, align="no", extra=extra))
        return subprocess.run([os.path.join(c.BUILD, "convolvd"), "--measure-loopback", self.path], capture_output=True,
                              text=True, timeout=4 * c.PATIENCE_S, check=False)

    def measured(self, period, channels=2):
        """Jackd may lose a period on a busy machine; that is told, and tried again."""
        server = self.serve(period)
        own = jack.baseline(server, self.folder, 1)
        copy = self.lead_back(channels)
        for _ in range(4):
            done = self.measure()
            if done.returncode == 0:
                break
            self.assertIn("no fixed round trip", done.stderr)
            copy.kill()
            copy.wait()
            copy = self.lead_back(channels)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.kept, encoding="utf-8") as file:
            kept = json.load(file)
        return own, kept, done.stdout

    def test_known_round_trip(self):
        for period in (64, 256):
            own, kept, said = self.measured(period)
            self.assertEqual([(row["card"], row["rate"], row["period"], row["frames"]) for row in kept],
                             [("system", 48000.0, period, own + DELAY)])
            self.assertIn(f"{own + DELAY} frames", said)
            self.doCleanups()
            self.setUp()

    def test_one_of_two_channels_comes_back(self):
        own, kept, said = self.measured(256, channels=1)
        self.assertEqual(kept[0]["frames"], own + DELAY)
        self.assertIn("channel 1", said)
        self.assertNotIn("channel 2", said)

    def test_nothing_comes_back(self):
        self.serve(256)
        done = self.measure()
        self.assertEqual(done.returncode, 1)
        self.assertIn("connect an output to an input", done.stderr)
        self.assertFalse(os.path.exists(self.kept))

    def declared(self, extra=""):
        with c.Daemon(self.folder, CONFIG.format(folder=self.folder, align="no", extra=extra)) as daemon:
            status = daemon.stream("response")["round_trip_frames"]
            daemon.stop()
            return status

    def test_declared(self):
        self.serve(256)
        self.assertEqual(self.declared(), 0)
        with open(self.kept, "w", encoding="utf-8") as file:
            json.dump([{"card": "system", "host api": "jack", "rate": 44100.0, "period": 256, "frames": 1, "measured": "x"},
                       {"card": "system", "host api": "jack", "rate": 48000.0, "period": 256, "frames": 1033, "measured": "x"}], file)
        self.assertEqual(self.declared(), 1033)
        self.assertEqual(self.declared("round trip = 0 frames"), 0)
        self.assertEqual(self.declared("round trip = 40 frames"), 40)
        with open(self.kept, "w", encoding="utf-8") as file:
            file.write("{ damaged")
        self.assertEqual(self.declared(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
