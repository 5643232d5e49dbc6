#!/usr/bin/python3
# parallel: yes
# threads: yes
# long: also, many more rounds of random packets and batches
# timeout: 300
# takes: 2 s CPU in 4 s
# takes-long: 14 s CPU in 90 s
"""What analyses hold goes on over restarts and reloads: a stream with hits, sources, pulse-through checks, intervals,
A-scans and vibration, handed over and made anew at random packets, gives the same events as one that nobody touched: to
the last bit, each once, with the same numbers. So does one whose packets and batches are others, with a gap in them.
An analysis that cannot go on begins anew and says so, and what it held is dead time.

The packets are others in every run; CONVOLVD_TEST_SEED, which a failure prints, brings them again."""
import glob
import json
import os
import random
import signal
import socket
import struct
import sys
import unittest

import numpy as np

import convolvd as c
import test_hand_over as hand_over

RATE = 100000
CHANNELS = 4
PACKET = 90
PACKETS = 440
AT_ONCE = 5400  # frames sent before the daemon has written what came of them
ROUNDS = 40 if os.environ.get("CONVOLVD_TEST_LONG") else 2
GAP = range(20100, 20500)  # frames that are lost: where one says so
SENSORS = np.array([(0, 0), (4, 0), (4, 3), (0, 3)])
VELOCITY = 5000

ANALYSES = """
[analysis bursts]
type = hits
stream = s
threshold = 0.02 V
hdt = 2 ms
max duration = 40 ms
pre-trigger = 1 ms
post-duration = 3 ms
max record = 10 ms
picker = aic
pick window = 1 ms
noise interval = 2 ms
floating threshold = 5
parameters = first 1, last 4
[analysis where]
type = location
analysis = bursts
sensors = 0 0, 4 m 0, 4 m 3 m, 0 3 m
velocity = 5000 m/s
cluster radius = 1 m
[analysis pairs]
type = sensor-test
analysis = bursts
answers within = 4 ms
pulsers = 2, 1, 4
[analysis levels]
type = intervals
stream = s
interval = 7 ms
threshold = 0.02 V
[analysis shots]
type = ascan
stream = s
period = 5 ms
range = 2 ms
averages = 9
gate = back: start 200 us, width 1 ms, level 0.01 V, peak
[analysis motor]
type = vibration
stream = s
segment = 20 ms
segments = 3
envelope low = 5 kHz
envelope high = 20 kHz
speed = 1770 rpm
elements = 9
element diameter = 7.94 mm
pitch diameter = 39.04 mm
"""
NAMES = ("bursts", "where", "pairs", "levels", "shots", "motor")


def codes():
    """Noise, and bursts of random places in a plate: some within another one."""
    draw = np.random.default_rng(5)
    frames = PACKETS * PACKET
    x = draw.standard_normal((frames, CHANNELS)) * 0.001
    for at in np.sort(draw.integers(500, frames - 1500, 24)):
        place = draw.uniform((0.3, 0.3), (3.7, 2.7))
        for channel, sensor in enumerate(SENSORS):
            first = at + np.linalg.norm(place - sensor) / VELOCITY * RATE
            n = np.arange(int(np.ceil(first)), min(frames, int(first) + 1500)) - first
            x[int(np.ceil(first)):int(np.ceil(first)) + len(n), channel] += \
                0.3 * np.sin(2 * np.pi * 12000 / RATE * n) * np.exp(-n / 200)
    return np.round(x * 32768).astype(">i2")


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class AnalysisState(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.root = folder.name
        self.addCleanup(folder.cleanup)
        self.codes = codes()
        self.runs = 0

    def new_run(self):
        self.runs += 1
        self.folder = os.path.join(self.root, str(self.runs))
        os.mkdir(self.folder)
        self.port = c.free_port()
        self.manager = hand_over.Manager(self.folder)
        self.addCleanup(self.manager.close)
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sender.close)
        self.sent = 0

    def config(self, more="", analyses=ANALYSES, batch=4):
        sinks = "".join(f"[sink {name}]\ntype = jsonl\nanalysis = {name}\npath = {self.folder}/{name}.jsonl\nsamples = yes\n"
                        for name in NAMES)
        return (f"[device]\ndevice = {c.DEVICE}\n"
                f"[stream s]\nsource = rtp\naddress = 127.0.0.1:{self.port}\nrate = {RATE} Hz\nchannels = {CHANNELS}\n"
                f"format = s16be\nfull scale = 1 V\nunit = V\nblock = 256 frames\nbatch blocks = {batch}\n"
                f"excitation = 150 frames\nexcitation period = 1000 frames\nidle flush = 10 s\nfilter = f\n[filter f]\ntype = identity\n"
                + analyses + sinks + more)

    def send(self, packets):
        for _ in range(packets):
            part = self.codes[self.sent * PACKET:(self.sent + 1) * PACKET]
            self.sender.sendto(struct.pack(">BBHII", 0x80, 96, (65400 + self.sent) % 65536, self.sent * PACKET, 0xAE)
                               + part.tobytes(), ("127.0.0.1", self.port))
            self.sent += 1

    def send_to(self, daemon, packets):
        """Up to so many in all, at the speed of the daemon."""
        while self.sent < packets:
            self.send(min(AT_ONCE // PACKET, packets - self.sent))
            self.taken(daemon, self.sent * PACKET)
            self.written(daemon)

    def daemon(self, config):
        return hand_over.start(self.folder, config, self.manager)

    def taken(self, daemon, frames):
        c.wait_for(lambda: daemon.stream("s")["frames_in"]["received"] >= frames, "the packets")

    def written(self, daemon):
        """Computed, analysed and written: whoever waits for it every AT_ONCE frames makes the stream shed nothing and its
        analyses drop nothing, however slow the machine."""
        def is_written():
            stream = daemon.stream("s")
            analyses = stream["analyses"]
            return (sum(stream["frames_out"][part] for part in ("waiting", "submitted")) < 8 * 256
                    and not any(part["pending"] for analysis in analyses for part in (analysis, *analysis["sinks"])))
        c.wait_for(is_written, "the events")

    def events(self, name):
        """Those of all files, in the order in which they were written; times come from the receiver's clock."""
        drop = ("arrival_ns", "capture_ns", "clock", "clock_error_ns")
        lines = [line for path in sorted(glob.glob(f"{self.folder}/{name}*.jsonl"), key=lambda p: (len(p), p))
                 for line in read_lines(path)]
        return [{key: value for key, value in line.items() if key not in drop} for line in lines if "frame" in line]

    def undisturbed(self):
        self.new_run()
        with self.daemon(self.config()) as daemon:
            self.send_to(daemon, PACKETS)
            daemon.stop()
        return {name: self.events(name) for name in NAMES}

    def in_pieces(self, draw, batch):
        """Events with a gap, in packets of `draw` frames and batches of so many blocks."""
        self.new_run()
        at = number = received = waited = 0
        with self.daemon(self.config(batch=batch)) as daemon:
            while at < len(self.codes):
                frames = min(draw(), (GAP.start if at < GAP.start else len(self.codes)) - at)
                head = struct.pack(">BBHII", 0x80, 96, (65400 + number) % 65536, at, 0xAE)
                self.sender.sendto(head + self.codes[at:at + frames].tobytes(), ("127.0.0.1", self.port))
                at, number, received = at + frames, number + 1, received + frames
                if at == GAP.start:
                    at, number = GAP.stop, number + 3
                if at - waited >= AT_ONCE or at == len(self.codes):
                    waited = at
                    self.taken(daemon, received)
                    self.written(daemon)
            shed = daemon.stop()["streams"][0]["frames_out"]["shed"]
        self.assertFalse(any(shed.values()), shed)
        return {name: self.events(name) for name in NAMES}

    def test_packets_and_batches_change_no_bit(self):
        """Of events of every type, cut by a gap among them."""
        want = self.in_pieces(lambda: 100, 1)
        self.assertEqual({name for name in NAMES if not want[name]}, set())
        for name in ("levels", "shots", "motor"):
            self.assertTrue(any(event["causes"] == ["network"] for event in want[name]), name)
        seed = int(os.environ.get("CONVOLVD_TEST_SEED") or random.SystemRandom().getrandbits(32))
        draw = random.Random(seed)
        for number in range(ROUNDS):
            most, batch = draw.choice((1, 9, 90, 170) if ROUNDS > 2 else (20, 90)) if number else 170, draw.randint(1, 16)
            got = self.in_pieces(lambda most=most: draw.randint(max(1, most // 4), most), batch)
            for name in NAMES:
                self.assertEqual(got[name], want[name], f"CONVOLVD_TEST_SEED={seed}: {name}, packets of up to {most}, batches of {batch}")

    def hand_on(self, daemon):
        daemon.stop(signal.SIGUSR2)
        c.wait_for(lambda: self.manager.state() is not None, "the state")

    def ledger(self, status, name):
        return next(analysis for analysis in status["streams"][0]["analyses"] if analysis["name"] == name)

    def test_restarts_and_reloads_change_no_bit(self):
        want = self.undisturbed()
        self.assertTrue(all(want.values()), {name: len(events) for name, events in want.items()})
        self.assertGreater(len(want["where"]), 5)
        seed = int(os.environ.get("CONVOLVD_TEST_SEED") or random.SystemRandom().getrandbits(32))
        print(f"CONVOLVD_TEST_SEED={seed}", file=sys.stderr)
        draw = random.Random(seed)
        self.new_run()
        cuts = sorted(draw.sample(range(5, PACKETS - 5), 7)) + [PACKETS]
        number = reloads = 0
        config = self.config()
        while number < len(cuts):
            with self.daemon(config) as daemon:
                if number > 0:
                    self.assertNotIn("anew", daemon.output())
                self.send_to(daemon, cuts[number])
                if number % 2 == 0 and cuts[number] < PACKETS:  # another analysis: the pipeline is made anew
                    reloads += 1
                    config = self.config(f"[analysis other{reloads}]\ntype = intervals\nstream = s\ninterval = 1 s\n")
                    with open(daemon.path, "w", encoding="utf-8") as file:
                        file.write(config)
                    daemon.signal(signal.SIGHUP)
                    self.send(3)
                    c.wait_for(lambda: "reloaded: " in daemon.output(), "the reload")
                    self.assertNotIn("levels begins anew", daemon.output())
                    number += 1
                    self.send_to(daemon, cuts[number])
                if cuts[number] < PACKETS:
                    self.hand_on(daemon)
                else:
                    daemon.stop()
                number += 1
        for name in NAMES:
            self.assertEqual(self.events(name), want[name], name)

    def in_a_burst(self):
        """Packets up to the middle of a late hit."""
        loud = np.flatnonzero(np.abs(self.codes[:, 0].astype(int)) > 5000)
        loud = loud[loud > PACKETS * PACKET // 2]
        return int(loud[0]) // PACKET + 4

    def test_what_has_changed_begins_anew(self):
        """Its options, over a restart: what was open is lost, and dead. Others go on."""
        self.new_run()
        with self.daemon(self.config()) as daemon:
            self.send_to(daemon, self.in_a_burst())
            self.hand_on(daemon)
        before = self.ledger(c.load_json(daemon.status_path), "levels")
        changed = ANALYSES.replace("hdt = 2 ms", "hdt = 1 ms")
        with self.daemon(self.config(analyses=changed)) as daemon:
            self.assertRegex(daemon.output(), "analysis bursts begins anew: its options have changed; what it held of the "
                             "last [1-9][0-9]* frames is lost, and they are dead")
            self.assertTrue(daemon.said("analysis where begins anew: its options have changed"), daemon.output())
            self.assertFalse(daemon.said("levels begins anew"), daemon.output())
            self.send_to(daemon, self.sent + 100)
            status = daemon.stop()
        bursts, levels = self.ledger(status, "bursts"), self.ledger(status, "levels")
        lost = bursts["dropped"]["stopped"]
        self.assertGreater(lost, 100)
        self.assertGreaterEqual(bursts["dead"], lost)
        self.assertEqual(bursts["frames"], bursts["live"] + bursts["dead"] + bursts["pending"])
        self.assertEqual(levels["frames"], self.sent * PACKET)
        self.assertGreater(before["frames"], 0)
        self.assertEqual([event["number"] for event in self.events("levels")], list(range(1, len(self.events("levels")) + 1)))

    def test_a_reload_tells_what_nobody_goes_on_with(self):
        """The analysis before cuts its open hit and tells it; nothing is dead for it."""
        self.new_run()
        with self.daemon(self.config()) as daemon:
            self.send_to(daemon, self.in_a_burst())
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(self.config(analyses=ANALYSES.replace("hdt = 2 ms", "hdt = 1 ms")))
            daemon.signal(signal.SIGHUP)
            c.wait_for(lambda: "reloaded: " in daemon.output(), "the reload")
            self.assertTrue(daemon.said("analysis bursts begins anew: its options have changed"), daemon.output())
            self.assertFalse(daemon.said("is lost"), daemon.output())
            self.send_to(daemon, self.sent + 100)
            status = daemon.stop()
        self.assertEqual(self.ledger(status, "bursts")["dropped"].get("stopped", 0), 0)
        cut = [event for event in read_lines(f"{self.folder}/bursts.jsonl") if "cut" in event.get("flags", ())]
        self.assertGreater(len(cut), 0)
        again = sorted(event["number"] for event in read_lines(f"{self.folder}/bursts-0002.jsonl") if "number" in event)
        self.assertEqual(again, list(range(1, len(again) + 1)))


if __name__ == "__main__":
    unittest.main()
