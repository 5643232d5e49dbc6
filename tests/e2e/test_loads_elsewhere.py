#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 9 s
"""Values of another stream in events, matched by capture time: two live streams with their own rates and
packets; a stream that falls silent; and two recordings, whose events do not depend on batches and on
which of them is read faster. A restart hands the values on; sources say which they lack."""
import csv
import glob
import json
import os
import signal
import socket
import struct
import threading
import time
import unittest

import numpy as np

import convolvd as c
import test_hand_over as hand_over

RATE, SLOW = 100000, 1000
STEP_S = 1e-3


class OtherStream(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.root = folder.name
        self.addCleanup(folder.cleanup)
        self.runs = self.reloaded = 0

    def config(self, bursts, loads, more="", batch=4):
        self.folder = os.path.join(self.root, str(self.runs))
        self.runs += 1
        os.mkdir(self.folder)
        return (f"[device]\ndevice = {c.DEVICE}\n"
                f"[stream ae]\n{bursts}block = 256 frames\nbatch blocks = {batch}\nidle flush = 20 ms\nfilter = f\n"
                f"[stream press]\n{loads}block = 16 frames\nbatch blocks = {batch}\nidle flush = 20 ms\nfilter = f\n"
                f"[filter f]\ntype = identity\n[analysis hits]\ntype = hits\nstream = ae\nthreshold = 0.1 V\nhdt = 500 us\n"
                f"parameters = load 2 of press, own 1\n{more}"
                f"[sink lines]\ntype = jsonl\nanalysis = hits\npath = {self.folder}/hits.jsonl\n")

    def hits(self):
        with open(f"{self.folder}/hits.jsonl", encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if "frame" in line]

    def live(self, seconds, silent_from, more="", reloads=()):
        """A burst every 50 ms; the load is the time since its stream began, in s."""
        ports = c.free_port(), c.free_port()
        text = self.config(f"source = udp\naddress = 127.0.0.1:{ports[0]}\nrate = {RATE} Hz\nchannels = 1\nformat = f32le\nunit = V\n",
                           f"source = udp\naddress = 127.0.0.1:{ports[1]}\nrate = {SLOW} Hz\nchannels = 2\nformat = f32le\nunit = V\n", more)
        burst = np.zeros(5000, "<f4")
        burst[2000:2100] = 0.5 * np.sin(np.arange(100))
        reloads = list(reloads)
        with c.Daemon(self.folder, text) as daemon, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            start, sent = time.monotonic(), [0, 0]
            while (now := time.monotonic() - start) < seconds:
                while sent[0] < now * RATE:
                    at = sent[0] % len(burst)
                    sock.sendto(burst[at:at + 200].tobytes(), ("127.0.0.1", ports[0]))
                    sent[0] += 200
                while sent[1] < now * SLOW:
                    frames = np.arange(sent[1], sent[1] + 10)
                    if now < silent_from:
                        sock.sendto(np.column_stack((0 * frames, frames / SLOW)).astype("<f4").tobytes(), ("127.0.0.1", ports[1]))
                    sent[1] += 10
                if reloads and now > reloads[0][0]:
                    text = text.replace(*reloads.pop(0)[1:])
                    with open(daemon.path, "w", encoding="utf-8") as file:
                        file.write(text)
                    daemon.signal(signal.SIGHUP)
                time.sleep(0.002)
            status = daemon.stop()
        analysis = status["streams"][0]["analyses"][0]
        self.assertEqual(daemon.output().count("reloaded:"), self.reloaded, daemon.output())
        return self.hits(), analysis

    def test_two_live_streams(self):
        hits, analysis = self.live(2.0, 9)
        self.assertEqual(analysis["dropped"]["queue"], 0)
        known = [hit for hit in hits if hit["parameters"]["load"] is not None]
        self.assertGreater(len(known), 30)
        self.assertEqual(list(known[0]["parameters"]), ["load", "own", "load_age_us", "load_error_us"])
        first = known[0]
        for hit in known:
            parameters = hit["parameters"]
            self.assertGreaterEqual(parameters["load_age_us"], 0)
            self.assertLess(parameters["load_age_us"], 50000)
            self.assertGreater(parameters["load_error_us"], 0)
            self.assertNotIn("no-parameter", hit["flags"])
            # The load rises by 1 a second of capture time: value + age is the time of the hit.
            want = (hit["arrival_ns"] - first["arrival_ns"]) / 1e9
            got = parameters["load"] + parameters["load_age_us"] / 1e6 - first["parameters"]["load"] - first["parameters"]["load_age_us"] / 1e6
            self.assertAlmostEqual(got, want, delta=0.03)

    def test_reloads_of_either_stream(self):
        """The other stream is made anew, the analysis is, and the other stream goes: values come until then."""
        self.reloaded = 3
        hits, analysis = self.live(3.2, 9, reloads=(
            (0.6, f"rate = {SLOW} Hz\n", f"rate = {SLOW} Hz\nreceive buffer = 8 MiB\n"), (1.2, "threshold = 0.1 V", "threshold = 0.11 V"),
            (2.0, "parameters = load 2 of press, own 1", "parameters = own 1")))
        self.assertEqual(analysis["dropped"]["queue"], 0)
        start = hits[0]["arrival_ns"]
        def known(since, until):
            return [hit["parameters"].get("load") is not None for hit in hits if since < (hit["arrival_ns"] - start) / 1e9 < until]
        self.assertTrue(all(known(0.3, 0.5)))
        self.assertGreater(sum(known(0.7, 1.2)), 2)  # the next analysis writes a file of its own

    def test_a_stream_that_falls_silent(self):
        hits, analysis = self.live(2.0, 0.8, "parameter age = 200 ms\n")
        self.assertEqual(analysis["dropped"]["queue"], 0)
        self.assertGreater(len(hits), 30)
        for hit in hits[-10:]:
            self.assertIsNone(hit["parameters"]["load"])
            self.assertIn("no-parameter", hit["flags"])
            self.assertGreater(hit["parameters"]["load_age_us"], 200000)
            self.assertIsNotNone(hit["parameters"]["own"])

    def recording(self, name, codes, rate):
        path = os.path.join(self.root, name)
        c.write_wav16(path, rate, codes)
        return f"source = file\npath = {path}\npace = fast\nunit = V\n"

    def test_recordings_give_the_same_events_each_time(self):
        seconds, seed = 3, int.from_bytes(os.urandom(4), "little")
        random = np.random.default_rng(seed)
        x = random.standard_normal((seconds * RATE, 1)) * 300
        for at in range(1500, len(x) - 1000, 3777):
            x[at:at + 80, 0] += 16000 * np.sin(np.arange(80))
        loads = np.column_stack((np.zeros(seconds * SLOW), np.arange(seconds * SLOW)))
        sources = self.recording("x.wav", np.rint(x), RATE), self.recording("loads.wav", loads, SLOW)
        told = []
        for batch in (1, 3, 16):
            with c.Daemon(self.folder_of(sources, batch), self.text, wait=False) as daemon:
                self.assertEqual(daemon.wait(), 0, daemon.output())
            told.append([(hit["frame"], hit["parameters"], hit["flags"]) for hit in self.hits()])
        self.assertGreater(len(told[0]), 70)
        for frame, parameters, _ in told[0]:
            self.assertAlmostEqual(parameters["load"], frame // (RATE // SLOW) / 32768, delta=1e-6)
            self.assertAlmostEqual(parameters["load_age_us"], frame % (RATE // SLOW) * 1e6 / RATE, delta=0.01)
        for other in told[1:]:
            self.assertEqual(told[0], other, f"seed {seed}")

    def folder_of(self, sources, batch):
        self.text = self.config(*sources, batch=batch)
        return self.folder


class Restart(unittest.TestCase):
    """A hit is open over the restart: its load, sampled before it, is known behind it."""

    CHUNK, APART, FIRST = 1000, 20000, 2000  # frames of `ae`: a packet, a period, and the burst in it
    CUT = 3  # the period of the restart
    LOADS = 12000  # the frame of `ae` with which loads begin: between two bursts

    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)
        self.ports = c.free_port(), c.free_port()
        self.manager = hand_over.Manager(self.folder)
        self.addCleanup(self.manager.close)
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sender.close)
        self.sent, self.next, self.back, self.late_s = [0, 0], None, threading.Event(), 0

    def config(self):
        def stream(name, port, rate, channels, scale, block):
            return (f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{port}\nrate = {rate} Hz\nchannels = {channels}\n"
                    f"format = s16be\nfull scale = {scale}\nunit = V\nblock = {block} frames\nidle flush = 20 ms\nfilter = f\n")
        return (f"[device]\ndevice = {c.DEVICE}\n" + stream("ae", self.ports[0], RATE, 2, 1, 256)
                + stream("press", self.ports[1], SLOW, 1, 32768, 16)
                + "[filter f]\ntype = identity\n[analysis hits]\ntype = hits\nstream = ae\nthreshold = 0.1 V\nhdt = 3 ms\nmax duration = 60 s\n"
                "parameters = load 1 of press\n[analysis where]\ntype = location\nanalysis = hits\n"
                "sensors = 0, 1 m\nvelocity = 5000 m/s\n"
                + "".join(f"[sink {name}-{kind}]\ntype = {kind}\nanalysis = {name}\npath = {self.folder}/{name}.{kind}\n"
                          for name, kind in (("hits", "jsonl"), ("where", "jsonl"), ("where", "csv"))))

    def packet(self, stream, rows):
        head = struct.pack(">BBHII", 0x80, 96, self.sent[stream] // len(rows) % 65536, self.sent[stream], 7 + stream)
        self.sender.sendto(head + np.asarray(rows).astype(">i2").tobytes(), ("127.0.0.1", self.ports[stream]))

    def is_loud(self, frames):
        """A burst in each period, 10 frames later at the second sensor; that of period CUT lasts until `back` is set."""
        inside = frames[:, None] - self.FIRST - np.array([0, 10])
        bursts = (inside >= 0) & (inside % self.APART < 400)
        if self.back.is_set() and self.next is None:
            self.next = self.sent[0] // self.APART + 2
        over = self.sent[0] if self.next is None else self.next * self.APART
        long = (inside >= self.CUT * self.APART) & (self.next is None)
        return (bursts & ((frames < (self.CUT + 1) * self.APART) | (frames >= over))[:, None]) | long

    def send(self):
        """At the speed of the clock, but for what the machine makes it late; each load is the number of its frame."""
        start, step = time.monotonic(), self.CHUNK * SLOW // RATE
        while self.next is None or self.sent[0] < (self.next + 3) * self.APART:
            self.late_s = max(self.late_s, time.monotonic() - start - self.sent[0] / RATE)
            if self.sent[0] >= self.LOADS:
                self.packet(1, np.arange(self.sent[1], self.sent[1] + step)[:, None])
            frames = np.arange(self.sent[0], self.sent[0] + self.CHUNK)
            self.packet(0, np.where(self.is_loud(frames), (16000 * np.sin(frames))[:, None], 0))
            self.sent = [self.sent[0] + self.CHUNK, self.sent[1] + step]
            time.sleep(max(0, start + self.sent[0] / RATE - time.monotonic()))

    def lines(self, name):
        found = []
        for path in sorted(glob.glob(f"{self.folder}/{name}*.jsonl"), key=lambda p: (len(p), p)):
            with open(path, encoding="utf-8") as file:
                found += [line for line in map(json.loads, file) if "frame" in line]
        return found

    def test_restart(self):
        thread = threading.Thread(target=self.send)
        with hand_over.start(self.folder, self.config(), self.manager) as daemon:
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(self.back.set)
            c.wait_for(lambda: daemon.stream("ae")["frames_in"]["received"] > self.CUT * self.APART + self.FIRST + 500, "the long burst")
            daemon.stop(signal.SIGUSR2)
            c.wait_for(lambda: self.manager.state() is not None, "the state")
        with hand_over.start(self.folder, self.config(), self.manager) as daemon:
            self.assertFalse(daemon.said("anew"), daemon.output())
            self.back.set()
            thread.join()
            c.wait_for(lambda: daemon.stream("ae")["frames_in"]["received"] >= self.sent[0], "the packets")
            daemon.stop()
        hits, sources = self.lines("hits"), self.lines("where")
        periods = [*range(self.CUT + 1), *range(self.next, self.next + 3)]
        self.assertEqual([(hit["frame"] // self.APART, hit["channel"]) for hit in hits], [(i, channel) for i in periods for channel in (1, 2)])
        self.assertEqual([(source["frame"] // self.APART, source["number"]) for source in sources], [(i, n) for n, i in enumerate(periods, 1)])
        self.assertGreater(hits[2 * self.CUT]["values"]["duration_us"], 50000)
        # Both are sent at the same time, but the daemon knows the times of reception alone. Late packets bend its lines
        # through them, each one differently, since one has packets that the other one has not.
        wrong_s = 0.08 + 2 * self.late_s
        for event in hits + sources:
            load = event["parameters"]["load"]
            self.assertEqual("no-parameter" in event["flags"], load is None, event)
            if abs(event["frame"] - self.LOADS) > wrong_s * RATE:
                self.assertEqual(load is not None, event["frame"] > self.LOADS, (event, self.late_s))
            if load is not None:
                self.assertAlmostEqual(load / SLOW, event["frame"] / RATE, delta=wrong_s, msg=f"{self.late_s} s late")
        table = []
        for path in glob.glob(f"{self.folder}/where*.csv"):
            with open(path, encoding="utf-8") as file:
                table += csv.DictReader(line for line in file if not line.startswith("#"))
        self.assertEqual(sorted((int(row["number"]), "no-parameter" in row["flags"]) for row in table),
                         [(source["number"], "no-parameter" in source["flags"]) for source in sources])


if __name__ == "__main__":
    unittest.main()
