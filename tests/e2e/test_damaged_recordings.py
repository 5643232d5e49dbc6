#!/usr/bin/python3
# parallel: yes
# takes: 3 s CPU in 4 s
"""Recordings as input that are not what their header says, and recordings of lossy streams: what is missing or invalid
is reported to log, exit status, events and the sidecar of the result."""
import json
import os
import signal
import struct
import subprocess
import unittest

import numpy as np

import convolvd as c

LOSSES = 4
RATE = 48000


def wav(frames, announced=None):
    """A WAV of 16-bit noise; its header announces so many frames."""
    codes = c.noise_codes(5, frames, 1).astype("<i2").tobytes()
    announced = frames if announced is None else announced
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 2 * announced, b"WAVE", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2,
                       16, b"data", 2 * announced) + codes


class Base(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def config(self, name, keys="", more=""):
        return (f"[stream s]\nsource = file\npath = {self.path(name)}\npace = fast\nblock = 256\nfilter = f\n{keys}\n"
                f"[filter f]\ntype = identity\n"
                f"[sink out]\ntype = recording\nstream = s\npath = {self.path('out.wav')}\n{more}")

    def sidecar(self, name="out.wav"):
        return c.load_json(self.path(name + ".json"))


class Damaged(Base):
    def test_a_truncated_recording(self):
        self.write("cut.wav", wav(6000, 20000))
        more = ("[stream t]\nsource = stream s\nblock = 256\nfilter = f\n"
                f"[sink chained]\ntype = recording\nstream = t\npath = {self.path('chained.wav')}\n")
        with c.Daemon(self.folder, self.config("cut.wav", more=more), wait=False) as daemon:
            self.assertEqual(daemon.wait(), LOSSES, daemon.output())
            self.assertIn("announces 20000 frames", daemon.output())
            self.assertIn("6000 frames", daemon.output())
        for name in ("out.wav", "chained.wav"):
            sidecar = self.sidecar(name)
            self.assertEqual((sidecar["frames"], sidecar["complete"], sidecar["ended"]), (6000, False, "end"))
            self.assertIn("14000 frames are missing", sidecar["error"])
            self.assertEqual(sidecar["missing_after"], [{"from": 6000, "until": 20000, "cause": "capture"}])

    def test_a_loop_does_not_hide_it(self):
        self.write("cut.wav", wav(6000, 20000))
        config = self.config("cut.wav", "loop = yes\n")
        with c.Daemon(self.folder, config) as daemon:
            daemon.wait_said("14000 frames are missing")
            daemon.stop()
        self.assertFalse(self.sidecar()["complete"])
        self.assertIn("14000 frames are missing", self.sidecar()["error"])

    def test_a_recorder_that_died(self):
        self.write("died.wav", wav(6000, 0))
        with c.Daemon(self.folder, self.config("died.wav"), wait=False) as daemon:
            self.assertEqual(daemon.wait(), 0, daemon.output())
            self.assertIn("the file holds 6000 frames", daemon.output())
        self.assertEqual((self.sidecar()["frames"], self.sidecar()["complete"]), (6000, True))

    def repair(self, name):
        return subprocess.run([os.path.join(c.BUILD, "convolvd"), "--repair", self.path(name)], capture_output=True,
                              text=True, timeout=c.PATIENCE_S, check=False)

    def test_repair(self):
        """A copy with a right header, and its sidecar; the file itself stays."""
        for name, announced, held in (("died.wav", 0, 5001), ("cut.wav", 9000, 5001), ("stale.wav", 4000, 5001)):
            data = wav(held, announced)
            self.write(name, data)
            with open(self.path(name + ".json"), "w", encoding="utf-8") as file:
                json.dump({"file": name, "first_frame": 100, "frames": announced, "complete": False, "invalid": []}, file)
            done = self.repair(name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("5001 frames", done.stdout)
            copy = name.replace(".wav", "-repaired.wav")
            with open(self.path(copy), "rb") as file:
                repaired = file.read()
            self.assertEqual(repaired, wav(held))
            with open(self.path(name), "rb") as file:
                self.assertEqual(file.read(), data)
            sidecar = c.load_json(self.path(copy + ".json"))
            unflushed = [{"from": 100 + announced, "until": 100 + held, "cause": "unflushed"}] if announced < held else []
            self.assertEqual((sidecar["frames"], sidecar["repaired"], sidecar["file"], sidecar["invalid"]),
                             (held, True, copy, unflushed))
            again = self.repair(name)
            self.assertEqual(again.returncode, 1)
            self.assertIn("move it away", again.stderr)
        self.assertIn("needs no repair", self.repair("died-repaired.wav").stderr)

    def test_repair_leaves_a_file_that_is_written(self):
        self.write("open.wav", wav(5001, 0))
        with open(self.path("open.wav"), "ab"):
            done = self.repair("open.wav")
        self.assertEqual(done.returncode, 1)
        self.assertIn("still being written", done.stderr)
        self.assertFalse(os.path.exists(self.path("open-repaired.wav")))
        self.assertEqual(self.repair("open.wav").returncode, 0)

    def test_check_states_the_length(self):
        self.write("cut.wav", wav(6000, 20000))
        with open(self.path("c.conf"), "w", encoding="utf-8") as file:
            file.write(self.config("cut.wav"))
        said = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", "--config", self.path("c.conf")],
                              capture_output=True, text=True, timeout=c.PATIENCE_S, check=True).stdout
        self.assertIn("6000 frames (125 ms)", said)
        self.assertIn("announces 20000 frames", said)

    def test_check_names_a_recording_shorter_than_one_result(self):
        vibration = "type = vibration\nsegment = 4096 frames\nsegments = 8\n"
        intervals = "type = intervals\ninterval = 1 s\n"
        for frames, keys, short in ((6000, vibration, True), (200000, vibration, False), (6000, intervals, True),
                                    (48000, intervals, False)):
            self.write("short.wav", wav(frames))
            with open(self.path("c.conf"), "w", encoding="utf-8") as file:
                file.write(self.config("short.wav", more=f"[analysis v]\nstream = s\n{keys}"))
            said = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", "--config", self.path("c.conf")],
                                  capture_output=True, text=True, timeout=c.PATIENCE_S, check=True).stdout
            self.assertEqual("and the recording has 125 ms" in said, short, said)


class Suffix(Base):
    def test_the_suffix_decides_or_is_refused(self):
        self.write("in.wav", wav(1000))
        for name, keys, said in (("x.flac", "", "write a path that ends in .wav"), ("x.npy", "", "ends in .wav"),
                                 ("x.w64", "container = wav", "ends in .wav"), ("x.w64", "", None), ("x.RF64", "", None),
                                 ("x", "", None), ("x.wav", "container = rf64", None)):
            with open(self.path("c.conf"), "w", encoding="utf-8") as file:
                file.write(self.config("in.wav").replace("out.wav", name) + keys + "\n")
            done = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", "--config", self.path("c.conf")],
                                  capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0 if said is None else 1, (name, done.stderr))
            self.assertIn(said or "", done.stderr)
        with c.Daemon(self.folder, self.config("in.wav").replace("out.wav", "x.w64"), wait=False) as daemon:
            self.assertEqual(daemon.wait(), 0, daemon.output())
        with open(self.path("x.w64"), "rb") as file:
            self.assertEqual(file.read(4), b"riff")


class Replay(Base):
    TAPS = 101

    def analysis(self, name, stream):
        return (f"[analysis {name}]\ntype = hits\nstream = {stream}\nthreshold = 80 mV\nhdt = 5 frames\n"
                f"[sink {name}-hits]\ntype = jsonl\nanalysis = {name}\npath = {self.path(name + '.jsonl')}\n")

    def hits(self, name):
        """Of an analysis: (channel, frame) and what was measured, without times and names."""
        found = {}
        with open(self.path(name + ".jsonl"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "frame" in line:
                    measured = {k: v for k, v in line.items()
                                if not k.endswith("_ns") and k not in ("analysis", "stream", "number", "clock")}
                    found[line["channel"], line["frame"]] = measured
        return found

    def test_replay_equals_live(self):
        """To the bit and hit by hit, with losses: the recording of the raw input is replayed with its sidecar."""
        port = c.free_port()
        filters = c.taps_file(self.folder, "f", c.random_taps(3, self.TAPS))
        live = (f"[stream live]\nsource = rtp\naddress = 127.0.0.1:{port}\nrate = 1 MHz\nchannels = 1\nunit = V\nfull scale = 1 V\n"
                f"block = 512\nreorder = 5 ms\nfilter = f\n{filters}"
                f"[sink raw]\ntype = recording\nstream = live\nrecord = input\npath = {self.path('raw.wav')}\n"
                f"[sink result]\ntype = recording\nstream = live\npath = {self.path('live.wav')}\n")
        with c.Daemon(self.folder, live + self.analysis("one", "live")) as daemon:
            sent = c.rig(self.folder, port, "--rate", "1 MHz", "--signal", "noise", "--amplitude", "0.2", "--frames", 200000,
                         "--packet", 200, "--loss", "3 %", "--clean", 2000)
            c.wait_for(lambda: daemon.stream("live")["frames_in"]["timeline"] >= 198000, "the frames")
            daemon.stop()
        self.assertGreater(sent["datagrams_dropped"], 10)
        raw = self.sidecar("raw.wav")
        self.assertGreater(len(raw["invalid"]), 10)
        replay = (f"[stream replay]\nsource = file\npath = {self.path('raw.wav')}\npace = fast\nunit = V\nfull scale = 1 V\nblock = 512\n"
                  f"filter = f\n{filters}"
                  f"[sink result]\ntype = recording\nstream = replay\npath = {self.path('again.wav')}\n")
        with c.Daemon(self.folder, replay + self.analysis("two", "replay"), wait=False) as daemon:
            self.assertEqual(daemon.wait(), 0, daemon.output())
        self.assertTrue(np.array_equal(c.read_recording(self.path("live.wav")), c.read_recording(self.path("again.wav"))))
        first, second = self.sidecar("live.wav"), self.sidecar("again.wav")
        order = lambda ranges: sorted(ranges, key=lambda r: (r["cause"], r["from"]))
        self.assertEqual(order(first["invalid"]), order(second["invalid"]))
        self.assertGreater(len(self.hits("one")), 100)
        one, two = self.hits("one"), self.hits("two")
        differing = [(k, one.get(k), two.get(k)) for k in sorted(set(one) | set(two)) if one.get(k) != two.get(k)]
        self.assertFalse(differing, f"{len(differing)} of {len(one)} and {len(two)} hits differ: {differing[:2]}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
