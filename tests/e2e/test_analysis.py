#!/usr/bin/python3
# parallel: yes
# threads: yes
# long: also, many more rounds of random packets and batches
# takes: 1 s CPU in 2 s
# takes-long: 5 s CPU in 10 s
"""Analyses of a running daemon: samples in over UDP, events out as JSON lines and as a table. The events
are those of a reference by frame number, the same to the last bit whatever the packets and batches
are; the ledgers add up at every look, also while frames and events are dropped."""
import json
import os
import socket
import subprocess
import time
import unittest

import numpy as np

import convolvd as c

RATE = 100000
CHANNELS = 2
INTERVAL = 1000
FRAMES = 40000
BLOCK = 256
ROUNDS = 40 if os.environ.get("CONVOLVD_TEST_LONG") else 2


def config(folder, port, batch=4, more="", buffer=""):
    return (f"[device]\ndevice = {c.DEVICE}\n"
            f"[stream s]\nsource = udp\naddress = 127.0.0.1:{port}\nrate = {RATE} Hz\nchannels = {CHANNELS}\n"
            f"format = f32le\nunit = V\nblock = {BLOCK} frames\nbatch blocks = {batch}\nidle flush = 20 ms\nfilter = f\n"
            f"[filter f]\ntype = identity\n"
            f"[analysis level]\ntype = intervals\nstream = s\ninterval = {INTERVAL} frames\nthreshold = 0.5 V\n{buffer}"
            f"[sink lines]\ntype = jsonl\nanalysis = level\npath = {folder}/out.jsonl\n"
            f"[sink table]\ntype = csv\nanalysis = level\npath = {folder}/out.csv\n" + more)


def signal(frames=FRAMES):
    random = np.random.default_rng(13)
    return (random.standard_normal((frames, CHANNELS)) * 0.2).astype("<f4")


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def without_times(events):
    """What depends on samples and configuration alone."""
    drop = ("arrival_ns", "capture_ns", "clock", "clock_error_ns")
    return [{key: value for key, value in event.items() if key not in drop} for event in events if "frame" in event]


class Analysis(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.root = folder.name
        self.addCleanup(folder.cleanup)
        self.runs = 0

    def folder(self):
        self.runs += 1
        path = os.path.join(self.root, str(self.runs))
        os.mkdir(path)
        return path

    @staticmethod
    def send_from(sock, port, x, packet):
        """In packets of so many frames, or of random lengths from a generator."""
        at = count = 0
        while at < len(x):
            frames = packet if isinstance(packet, int) else int(packet.integers(1, 351))
            sock.sendto(x[at:at + frames].tobytes(), ("127.0.0.1", port))
            at, count = at + frames, count + 1
            if count % 16 == 0:
                time.sleep(0.002)

    def send(self, port, x, packet):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            self.send_from(sock, port, x, packet)

    @staticmethod
    def ctl(daemon, *words):
        done = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--json", "--socket", Analysis.socket(daemon), *words],
                              capture_output=True, text=True, timeout=c.PATIENCE_S, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    @staticmethod
    def socket(daemon):
        return daemon.output().split("control: ")[1].split(" may")[0]

    def check_ledgers(self, analysis):
        ledger = analysis["ledger"]
        self.assertEqual(ledger["frames"], ledger["live"] + ledger["dead"] + ledger["pending"])
        self.assertLessEqual(sum(ledger["dropped"].values()), ledger["dead"] + ledger["pending"])
        for sink in analysis["sinks"]:
            self.assertEqual(sink["events"], sink["delivered"] + sink["pending"] + sum(sink["dropped"].values()))

    def check_totals(self, totals, events):
        """What the status says of each channel is what its events add up to, to the last bit."""
        self.assertEqual(len(totals), CHANNELS)
        for channel, said in enumerate(totals, 1):
            mine = [event["values"] for event in events if event["channel"] == channel][:said["events"]]
            self.assertEqual(len(mine), said["events"])
            for field in ("counts", "energy_eu", "strength_nvs"):
                total = 0.0
                for values in mine:
                    total += values[field] or 0
                self.assertEqual(said[field], total)

    def run_daemon(self, packet, batch):
        """Events of one run, those of the table, and what followers saw. Hits lie in self.hits."""
        # Whole blocks: one that idle flush computes in part, where this test is kept waiting, differs in its last bits.
        folder, port, x = self.folder(), c.free_port(), signal(FRAMES + BLOCK)
        bursts = ("[analysis bursts]\ntype = hits\nstream = s\nthreshold = 0.7 V\nhdt = 20 frames\nmax duration = 5 ms\n"
                  "pre-trigger = 30 frames\nmax record = 200 frames\npicker = aic\nspectrum = 256 frames\nnoise interval = 400 frames\n"
                  f"[sink hits]\ntype = jsonl\nanalysis = bursts\nsamples = yes\npath = {folder}/hits.jsonl\n")
        text = config(folder, port, batch, bursts).replace("idle flush = 20 ms", "idle flush = 0 ms")
        with c.Daemon(folder, text) as daemon:
            self.send(port, x, packet)
            path = os.path.join(folder, "out.jsonl")
            c.wait_for(lambda: len(read_lines(path)) > CHANNELS * FRAMES // INTERVAL, "the events of all intervals")
            analysis = self.ctl(daemon, "analyses")[0]["analyses"][0]
            self.check_ledgers(analysis)
            totals = daemon.stream()["analyses"][0]["totals"]
            kept = [line["analysis_event"] for line in self.ctl(daemon, "hits") if "analysis_event" in line]
            self.check_totals(totals, kept)
            daemon.stop()
        lines = read_lines(path)
        self.hits = [hit for hit in without_times(read_lines(os.path.join(folder, "hits.jsonl"))) if hit["frame"] < FRAMES - INTERVAL]
        with open(os.path.join(folder, "out.csv"), encoding="utf-8") as file:
            table = file.read().splitlines()
        return lines, table, kept

    def test_events_are_those_of_the_samples(self):
        lines, table, kept = self.run_daemon(packet=100, batch=1)
        x = signal().astype(float)
        self.assertEqual(lines[0]["type"], "intervals")
        self.assertEqual(lines[0]["units"], ["V", "V"])
        events = [line for line in lines[1:] if line["frame"] < FRAMES]
        self.assertEqual([(e["frame"], e["channel"]) for e in events],
                         [(f, ch) for f in range(0, FRAMES, INTERVAL) for ch in (1, 2)])
        for number, event in enumerate(events):
            part = x[event["frame"]:event["frame"] + INTERVAL, event["channel"] - 1]
            self.assertEqual(event["number"], number + 1)
            self.assertEqual(event["values"]["live"], INTERVAL)
            # The identity filter of a float32 transform is exact to the error bound.
            self.assertAlmostEqual(event["values"]["rms"], np.sqrt(np.mean(part * part)), delta=1e-6)
            self.assertAlmostEqual(event["values"]["peak"], np.max(np.abs(part)), delta=5e-6)
        columns = table[1].split(",")
        rows = [dict(zip(columns, row.split(","))) for row in table[2:]]
        self.assertEqual([float(row["rms"]) for row in rows[:len(events)]], [e["values"]["rms"] for e in events])
        self.assertEqual(without_times(kept)[:len(events)], without_times(events))

    def test_packets_and_batches_change_no_bit(self):
        """Of one plan, at random: the same events to the last bit. The seed is in the message."""
        seed = int.from_bytes(os.urandom(4), "little")
        random = np.random.default_rng(seed)
        first = without_times(self.run_daemon(packet=256, batch=1)[0])[:CHANNELS * FRAMES // INTERVAL]
        first_hits = self.hits
        self.assertGreater(len(first_hits), 20)
        for _ in range(ROUNDS):
            batch = int(random.integers(1, 17))
            again = without_times(self.run_daemon(random, batch)[0])[:CHANNELS * FRAMES // INTERVAL]
            self.assertEqual(first, again, f"seed {seed}: random packets, batches of {batch}")
            self.assertEqual(first_hits, self.hits, f"seed {seed}: random packets, batches of {batch}")

    def test_limits_and_marks(self):
        folder, port = self.folder(), c.free_port()
        text = config(folder, port).replace("threshold = 0.5 V\n", "threshold = 0.5 V\nkeep = peak > 0.72 V\n")
        with c.Daemon(folder, text) as daemon:
            self.send(port, signal(), 200)
            c.wait_for(lambda: self.ctl(daemon, "analyses")[0]["analyses"][0]["ledger"]["live"] >= FRAMES - 256, "the frames")
            control = self.socket(daemon).replace("observe", "control")
            subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--socket", control, "mark", "tap", "--stream", "s"],
                           check=True, capture_output=True)
            analysis = self.ctl(daemon, "analyses")[0]["analyses"][0]
            self.check_ledgers(analysis)
            all_events = analysis["ledger"]["events"]["interval"]
            self.assertGreater(analysis["ledger"]["limited"], 0)
            daemon.stop()
        lines = read_lines(os.path.join(folder, "out.jsonl"))
        marks = [line["mark"] for line in lines if "mark" in line]
        self.assertEqual([mark["text"] for mark in marks], ["tap"])
        kept = [line for line in lines[1:] if "frame" in line]
        self.assertTrue(kept and all(line["values"]["peak"] > 0.72 for line in kept))
        self.assertLess(len(kept), all_events)

    def test_samples_that_are_no_numbers_are_dead(self):
        folder, port, x = self.folder(), c.free_port(), signal()
        x[5500:5510, 0], x[5700, 1], x[7000, 0] = np.nan, np.inf, -np.inf
        with c.Daemon(folder, config(folder, port)) as daemon:
            self.send(port, x, 200)
            path = os.path.join(folder, "out.jsonl")
            c.wait_for(lambda: len(read_lines(path)) > 2 * CHANNELS * 10, "events")
            analysis = self.ctl(daemon, "analyses")[0]["analyses"][0]
            self.check_ledgers(analysis)
            daemon.stop()
        events = [line for line in read_lines(path)[1:] if line["frame"] < FRAMES // 2]
        by_place = {(e["frame"], e["channel"]): e for e in events}
        for frame in (4000, 5000, 6000, 7000, 8000):
            event = by_place[frame, 1]
            hurt = frame in (5000, 7000)
            self.assertEqual(event["causes"], ["non-finite"] if hurt else [])
            self.assertEqual(event["values"]["dead"] > 0, hurt)
            self.assertEqual(event["values"]["live"] + event["values"]["dead"], INTERVAL)
            self.assertAlmostEqual(event["values"]["rms"], 0.2, delta=0.03)

    def test_marked_pulse_of_a_sensor(self):
        """`convolvctl mark "pulse 2"` makes the next hit of channel 2 a pulse, and a label stays what it is."""
        folder, port = self.folder(), c.free_port()
        text = config(folder, port).split("[analysis level]")[0] + (
            "[analysis a]\ntype = hits\nstream = s\nthreshold = 0.5 V\nhdt = 50 frames\n"
            "[analysis pairs]\ntype = sensor-test\nanalysis = a\nanswers within = 1 ms\nmarked within = 100 s\n"
            f"[sink lines]\ntype = jsonl\nanalysis = pairs\npath = {folder}/out.jsonl\n")
        x = np.zeros((20000, CHANNELS), "<f4")
        x[10000:10020, 1] = 0.9
        x[10040:10060, 0] = 0.6
        with c.Daemon(folder, text) as daemon, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            self.send_from(sock, port, x, 200)
            hits = lambda: self.ctl(daemon, "analyses")[0]["analyses"][0]["ledger"]["events"].get("hit", 0)
            c.wait_for(lambda: hits() == 2, "two hits")
            control = self.socket(daemon).replace("observe", "control")
            subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--socket", control, "mark", "pulse 2", "--stream", "s"],
                           check=True, capture_output=True)
            self.send_from(sock, port, x, 200)
            c.wait_for(lambda: hits() == 4, "four hits")
            daemon.stop()
        lines = read_lines(os.path.join(folder, "out.jsonl"))
        events = [line for line in lines[1:] if "frame" in line]
        # The source pauses meanwhile, which may end its epoch.
        self.assertEqual([(e["channel"], e["frame"] % 20000, e["values"]["pulser"], e["values"]["answers"]) for e in events],
                         [(1, 10000, 2, 1)])
        self.assertAlmostEqual(events[0]["values"]["delay_us"], 40 / RATE * 1e6, delta=1e-6)
        self.assertEqual([line["mark"]["text"] for line in lines if "mark" in line], ["pulse 2"])

    def test_shots_that_nobody_hears(self):
        """Each shot of the excitation is a pulse from the epoch's first frame on, heard or not."""
        folder, port = self.folder(), c.free_port()
        text = config(folder, port).split("[analysis level]")[0] + (
            "[analysis a]\ntype = hits\nstream = s\nthreshold = 0.5 V\nhdt = 50 frames\n"
            "[analysis pairs]\ntype = sensor-test\nanalysis = a\nanswers within = 200 frames\npulsers = 2, 1\n"
            f"[sink lines]\ntype = jsonl\nanalysis = pairs\npath = {folder}/out.jsonl\n")
        text = text.replace("unit = V\n", "unit = V\nexcitation = 100 frames\nexcitation period = 1000 frames\n")
        x = np.zeros((10000, CHANNELS), "<f4")
        x[6140:6160, 0] = 0.6
        with c.Daemon(folder, text) as daemon:
            self.send(port, x, 200)
            path = os.path.join(folder, "out.jsonl")
            c.wait_for(lambda: len([e for e in read_lines(path) if "frame" in e]) >= 9, "the pulses")
            daemon.stop()
        events = [event for event in read_lines(path) if "frame" in event]
        self.assertEqual([(e["frame"], e["values"]["pulser"], e["channel"], e["values"]["answers"]) for e in events],
                         [(100 + 1000 * i, 2 - i % 2, 1 + i % 2, int(i >= 6 and i % 2 == 0)) for i in range(len(events))])
        self.assertEqual([e["values"]["delay_us"] for e in events if e["values"]["delay_us"]], [40 / RATE * 1e6])

    def test_ledgers_add_up_under_overload(self):
        folder, port = self.folder(), c.free_port()
        more = f"[sink slow]\ntype = jsonl\nanalysis = level\npath = {folder}/slow.jsonl\nqueue = 64 KiB\n"
        text = config(folder, port, more=more, buffer="buffer = 64 KiB\n").replace(f"interval = {INTERVAL} frames", "interval = 4 frames")
        with c.Daemon(folder, text) as daemon:
            x = signal(200000)
            for at in range(0, len(x), 20000):
                self.send(port, x[at:at + 20000], 350)
                self.check_ledgers(self.ctl(daemon, "analyses")[0]["analyses"][0])
            status = daemon.stop()
        analysis = status["streams"][0]["analyses"][0]
        self.assertEqual(analysis["pending"], 0)
        self.check_ledgers({"ledger": analysis, "sinks": analysis["sinks"]})
        slow = next(sink for sink in analysis["sinks"] if sink["name"] == "slow")
        self.assertEqual(slow["events"], analysis["events"]["interval"])
        numbers = [line["number"] for line in read_lines(os.path.join(folder, "slow.jsonl"))[1:]]
        self.assertEqual(numbers, sorted(set(numbers)), "events out of order, or twice")
        self.assertEqual(len(numbers), slow["delivered"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
