#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 0 s CPU in 2 s
"""Values of other channels in events: a load that rises, falls and rises higher while a bar emits. Each hit and
source carries the load at its first frame, in files of every kind, and sources are marked as ASTM E1067 and
E1316 say: emission below the greatest load of earlier cycles, and its Felicity ratio."""
import csv
import json
import os
import socket
import sqlite3
import unittest

import numpy as np

import convolvd as c

RATE = 100000
STEP = RATE // 1000
PACKET = 200
FULL = 50.0  # kN
#        load  at
RAMP = [(0, 0), (20, 12000), (8, 20000), (30, 38000), (10, 48000), (36, 66000)]


def load():
    frames = np.arange(RAMP[-1][1])
    exact = np.interp(frames, [at for _, at in RAMP], [value for value, _ in RAMP])
    return np.float32(exact)


def signals():
    """Two sensors 1 m apart at 5000 m/s: a source each 1500 frames, and the load as the third channel."""
    kn = load()
    x = np.zeros((len(kn), 3), np.float32)
    first = np.arange(900, len(kn) - 1000, 1500)
    for at in first:
        for channel, delay in ((0, 6), (1, 14)):
            n = np.arange(150)
            x[at + delay:at + delay + 150, channel] += np.float32(0.4 * np.sin(2 * np.pi * 0.12 * (n + 1)) * np.exp(-n / 30))
    x[:, 2] = kn / FULL
    return x, first


def marks(loads, drop):
    """Definitions: a cycle ends when the load has fallen by `drop` of its peak, as far as events show it."""
    out, peak, greatest = [], None, None
    for value in loads:
        if peak is not None and value <= peak * (1 - drop):
            greatest = peak if greatest is None else max(greatest, peak)
            peak = value
        peak = value if peak is None else max(peak, value)
        out.append((0, None) if greatest is None else (int(value < greatest), value / greatest))
    return out


class Parameters(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.root = folder.name
        self.addCleanup(folder.cleanup)
        self.port = c.free_port()

    def config(self, unit):
        sinks = "".join(f"[sink {name}-{kind}]\ntype = {kind}\nanalysis = {name}\npath = {self.folder}/{name}.{suffix}\n"
                        for name, kind, suffix in (("bursts", "jsonl", "jsonl"), ("bursts", "csv", "csv"),
                                                   ("bursts", "vallen", "pridb"), ("where", "jsonl", "jsonl"),
                                                   ("where", "csv", "csv"))
                        if kind != "vallen" or unit == "V")
        return (f"[device]\ndevice = {c.DEVICE}\n[stream bar]\nsource = udp\naddress = 127.0.0.1:{self.port}\nrate = {RATE} Hz\n"
                f"channels = 3\nformat = f32le\nfull scale = 1 V, 1 V, {FULL} {unit}\nblock = 256 frames\nidle flush = 20 ms\nfilter = f\n"
                f"[filter f]\ntype = identity\n[analysis bursts]\ntype = hits\nstream = bar\nthreshold = 0.1 V, 0.1 V, 1000 {unit}\n"
                "hdt = 500 us\nparameters = load 3, first 1\n[analysis where]\ntype = location\nanalysis = bursts\n"
                "sensors = 0, 1 m, none\nvelocity = 5000 m/s\nkaiser = yes\nload drop = 10 %\n" + sinks)

    def lines(self, name):
        with open(f"{self.folder}/{name}.jsonl", encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if "frame" in line]

    def test_a_load_that_rises_falls_and_rises(self):
        """In kN; and in V, which the .pridb needs."""
        for unit in ("kN", "V"):
            with self.subTest(unit):
                self.folder = os.path.join(self.root, unit)
                os.mkdir(self.folder)
                self.check(unit)

    def check(self, unit):
        x, first = signals()
        with c.Daemon(self.folder, self.config(unit)) as daemon:
            self.assertNotIn("marks nothing", daemon.output())
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for at in range(0, len(x), PACKET):
                    sender.sendto(x[at:at + PACKET].tobytes(), ("127.0.0.1", self.port))
                    if at // PACKET % 16 == 15:
                        c.wait_for(lambda at=at: daemon.stream("bar")["frames_in"]["received"] >= at, "the packets")
            c.wait_for(lambda: daemon.stream("bar")["frames_in"]["received"] == len(x), "the packets")
            daemon.stop()
        kn = load()
        hits, sources = self.lines("bursts"), self.lines("where")
        self.assertEqual(len(hits), 2 * len(first))
        self.assertEqual(len(sources), len(first))
        for event in hits + sources:
            at = event["frame"] // STEP * STEP
            self.assertEqual(list(event["parameters"]), ["load", "first"])
            self.assertAlmostEqual(event["parameters"]["load"], float(kn[at]), delta=1e-4)
            self.assertAlmostEqual(event["parameters"]["first"], float(x[at, 0]), delta=1e-5)
        loads = [event["parameters"]["load"] for event in sources]
        want = marks(loads, 0.1)
        self.assertGreater(sum(kaiser for kaiser, _ in want), 5)
        self.assertGreater(sum(kaiser == 0 and ratio is not None for kaiser, ratio in want), 3)
        for event, value, (kaiser, ratio) in zip(sources, loads, want):
            self.assertEqual(event["values"]["load"], value)
            self.assertEqual(event["values"]["kaiser"], kaiser)
            if ratio is None:
                self.assertIsNone(event["values"]["felicity"])
            else:
                self.assertAlmostEqual(event["values"]["felicity"], ratio, places=12)
        for name, events in (("bursts", hits), ("where", sources)):
            with open(f"{self.folder}/{name}.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
            self.assertEqual([float(row["load"]) for row in rows if row["load"]] if name == "bursts" else
                             [float(row["load"]) for row in rows], [event["parameters"]["load"] for event in events])
        if unit == "V":
            self.check_pridb(hits)

    def check_pridb(self, hits):
        """A row of parameters stands before the hits that it belongs to, in order, in their own unit."""
        with sqlite3.connect(f"file:{self.folder}/bursts.pridb?mode=ro", uri=True) as db:
            rows = db.execute("SELECT SetType, PA0, PA1 FROM ae_data WHERE SetType IN (1, 2) ORDER BY SetID").fetchall()
        known, found = None, []
        for kind, load_kn, other in rows:
            if kind == 1:
                known = (load_kn, other)
            else:
                found.append(known)
        self.assertEqual(found, [(event["parameters"]["load"], event["parameters"]["first"]) for event in hits])
        self.assertTrue(os.path.exists(f"{self.folder}/bursts.trfdb"))


if __name__ == "__main__":
    unittest.main()
