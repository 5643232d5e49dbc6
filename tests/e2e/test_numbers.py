#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 3 s
"""What receivers know a stream by outlives a reload, a restart and a crash: the next epoch has the next
number, its frames begin at 0, RTP time stamps go on by the time that has passed, SSRC and sequence
numbers go on. So (epoch, frame) names each result once."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000
AWAY_S = 0.2 # between two daemons
TAPS = 33


class Numbers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.state = f"{self.folder}/state"
        os.mkdir(self.state)
        self.ports = {"in": c.free_port(), "out": c.free_port()}
        self.taps(1)

    def taps(self, seed):
        np.save(f"{self.folder}/f.npy", c.random_taps(seed, TAPS))

    def config(self, extra=""):
        return f"[daemon]\nstate directory = {self.state}\n[device]\ndevice = {c.DEVICE}\n" \
               f"[stream a]\nsource = rtp\naddress = 127.0.0.1:{self.ports['in']}\nrate = {RATE} Hz\nchannels = 1\n" \
               f"format = s16be\nfull scale = 1\nblock = 128\nfilter = f\n{extra}" \
               + c.file_filter("f", f"{self.folder}/f.npy") + c.rtp_sink("out", "a", self.ports["out"])

    def next_epoch(self):
        return c.load_json(f"{self.state}/streams.json")["streams"][0]["next epoch"]

    def rig(self, seconds):
        return subprocess.Popen([os.path.join(c.BUILD, "convolv-rig"), "--to", f"127.0.0.1:{self.ports['in']}", "--rate",
                                 str(RATE), "--channels", "1", "--seconds", str(seconds)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def reload(self, daemon):
        before = daemon.output().count("reloaded: ")
        daemon.signal(signal.SIGHUP)
        c.wait_for(lambda: daemon.output().count("reloaded: ") > before, "the reload")

    def check(self, packets, epochs):
        """Each (epoch, frame) once, in order; time stamps advance with the frames, and between epochs by the time
        that passed; one SSRC, and no gap in the sequence numbers."""
        self.assertEqual(sorted({p[3] for p in packets}), epochs)
        self.assertEqual(len({p[2] for p in packets}), 1, "the SSRC changes")
        for before, after in zip(packets, packets[1:]):
            self.assertEqual((before[0] + 1) % 65536, after[0], f"{before} {after}")
            self.assertGreater((after[1] - before[1]) % 2**32, 0)
            self.assertLess((after[1] - before[1]) % 2**32, 10 * RATE, f"{before} {after}")
            if before[3] == after[3]:
                self.assertEqual(before[4] + before[5], after[4])
                self.assertEqual((after[1] - before[1]) % 2**32, before[5])
            else:
                self.assertEqual(after[4], 0)

    def test_reload_restart_and_crash(self):
        receiver = c.Results(self.ports["out"])
        rig = self.rig(30)
        self.addCleanup(rig.wait)
        self.addCleanup(rig.kill)

        def some(count=40):
            want = len(receiver.packets) + count
            c.wait_for(lambda: len(receiver.packets) >= want, "results")

        begun = time.monotonic()
        with c.Daemon(self.folder, self.config()) as daemon:
            some()
            for seed in (2, 3):
                self.taps(seed)
                self.reload(daemon)
                some()
            daemon.stop()
        time.sleep(AWAY_S)
        with c.Daemon(self.folder, self.config()) as daemon:
            some()
            daemon.stop()
        passed = time.monotonic() - begun
        packets = receiver.finish()
        self.check(packets, [0, 1, 2, 3])
        self.assertEqual(len(receiver.senders), 1, "the port changes")
        # The time line has kept pace with the clock, however long the daemon was away.
        stamps = (packets[-1][1] - packets[0][1]) % 2**32
        self.assertLess(stamps, (passed + 1) * RATE)
        first = next(p for p in packets if p[3] == 3)
        last = [p for p in packets if p[3] == 2][-1]
        self.assertGreater((first[1] - last[1]) % 2**32, last[5] + AWAY_S * RATE)

        # A crash: numbers may be left out, none is used twice, and the SSRC stays.
        receiver = c.Results(self.ports["out"])
        with c.Daemon(self.folder, self.config()) as daemon:
            some()
            c.wait_for(lambda: self.next_epoch() > 4096,
                       "the file to be ahead")
            daemon.signal(signal.SIGKILL)
            daemon.wait()
        before = len(receiver.packets)
        with c.Daemon(self.folder, self.config()) as daemon:
            some()
            daemon.stop()
        more = receiver.finish()
        self.assertEqual(more[0][3], 4)
        self.assertGreater(more[-1][3], 4)
        self.assertEqual({p[2] for p in packets + more}, {packets[0][2]})
        self.assertGreater((more[-1][1] - more[before - 1][1]) % 2**32, 0)
        self.assertLess((more[-1][1] - packets[0][1]) % 2**32, 30 * RATE)

    def test_removed_and_added_again(self):
        """A stream, or a sink alone, that one reload removes and a later one adds again goes on with its numbers, with a
        state directory and without; so does a stream that comes back after a restart."""
        idle = f"[stream idle]\nsource = rtp\naddress = 127.0.0.1:{c.free_port()}\nrate = {RATE} Hz\nchannels = 1\n" \
               "format = s16be\nblock = 128\nfilter = f\n"
        for state in (True, False):
            with self.subTest(state=state):
                whole = self.config() + idle
                if not state:
                    whole = whole.replace(f"state directory = {self.state}\n", "")
                without_sink = whole.replace(c.rtp_sink("out", "a", self.ports["out"]), "")
                without_stream = without_sink[:without_sink.index("[stream a]")] + \
                    without_sink[without_sink.index(c.file_filter("f", f"{self.folder}/f.npy")):]
                receiver = c.Results(self.ports["out"])
                rig = self.rig(30)
                self.addCleanup(rig.wait)
                self.addCleanup(rig.kill)

                def some(count=40):
                    want = len(receiver.packets) + count
                    c.wait_for(lambda: len(receiver.packets) >= want, "results")

                def change(text):
                    with open(daemon.path, "w", encoding="utf-8") as file:
                        file.write(text)
                    self.reload(daemon)

                with c.Daemon(self.folder, whole) as daemon:
                    some()
                    for _ in range(2):
                        change(without_stream)
                        change(whole)
                        some()
                    change(without_sink)
                    change(whole)
                    some()
                    if state:
                        change(without_stream)
                    daemon.signal(signal.SIGTERM) # the sink has not had all frames of its stream
                    self.assertEqual(daemon.wait(), 0)
                if state:
                    with c.Daemon(self.folder, whole) as daemon:
                        some()
                        daemon.stop()
                rig.kill()
                packets = receiver.finish()
                self.assertEqual(len({p[2] for p in packets}), 1, "the SSRC changes")
                frames = [(p[3], p[4]) for p in packets]
                self.assertEqual(frames, sorted(set(frames)), "frames were used twice")
                self.assertEqual(packets[-1][3], 3 if state else 2)
                for before, after in zip(packets, packets[1:]):
                    self.assertEqual((before[0] + 1) % 65536, after[0], f"{before[:6]} {after[:6]}")
                    self.assertLess((after[1] - before[1]) % 2**32, 30 * RATE)

    def test_a_damaged_file_begins_anew(self):
        for text in ("", "{", '{"version": 1, "streams": [{"name": 3}]}', '{"version": 7}',
                     '{"version": 1, "streams": [{"name": "a", "next epoch": -5, "sinks": 1}]}', "[" * 5000):
            with open(f"{self.state}/streams.json", "w", encoding="utf-8") as file:
                file.write(text)
            with c.Daemon(self.folder, self.config()) as daemon:
                daemon.stop()
            self.assertEqual("cannot be read" in daemon.output(), '"next epoch"' not in text, daemon.output())
            self.assertEqual(self.next_epoch(), 0)


if __name__ == "__main__":
    unittest.main()
