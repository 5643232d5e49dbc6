#!/usr/bin/python3
# kernels: plain, files are tested, and many formats compiled
# parallel: yes
# threads: yes
# takes: 6 s CPU in 9 s
"""Recordings in and out of the daemon: every container as a source, once and looped, without a
frame lost however slow the writers are; recordings of output and input, cut, kept, paused,
and readable after a kill. Held against numpy by frame number."""
import glob
import os
import resource
import signal
import subprocess
import time
import unittest

import numpy as np

import convolvd as c

RATE = 500000


def stream(path, keys):
    return f"[stream s]\nsource = file\npath = {path}\npace = fast\nfilter = h\n{keys}\n"


def sink(name, path, keys=""):
    return f"[sink {name}]\ntype = recording\nstream = s\npath = {path}\n{keys}\n"


class Recordings(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name
        self.h = c.random_taps(1, 300)
        np.save(self.path("h.npy"), self.h)
        self.filter = f"[filter h]\ntype = file\npath = {self.path('h.npy')}\ndelay = 0 frames\n"

    def path(self, name):
        return os.path.join(self.folder, name)

    def to_the_end(self, text):
        with c.Daemon(self.folder, text) as daemon:
            self.assertEqual(daemon.wait(4 * c.PATIENCE_S), 0, daemon.output())
        return c.check_ledgers(c.load_json(daemon.status_path))["streams"][0]

    def test_every_container_to_slow_writers(self):
        """Queues of 64 KiB: the source waits for both writers, and nothing is dropped."""
        frames = 300000
        codes = c.noise_codes(2, frames, 2)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        x = codes / 32768.0
        want = c.convolve(x, self.h)
        for name, options in (("x.wav", None), ("y.w64", ["-f", "w64"]), ("y.flac", ["-sample_fmt", "s16"]),
                              ("rf.wav", ["-rf64", "always"]), ("f.wav", ["-c:a", "pcm_f32le"])):
            if options is not None:
                subprocess.run(["ffmpeg", "-v", "error", "-i", self.path("x.wav"), *options, self.path(name)], check=True)
            text = stream(self.path(name), "block = 1000 frames") + self.filter \
                + sink("out", self.path(f"{name}-out.wav"), "queue = 64 KiB") \
                + sink("raw", self.path(f"{name}-raw.wav"), "record = input\nqueue = 64 KiB")
            if name == "f.wav":
                text = text.replace("-out.wav", "-out.wav\nformat = f32le")
            status = self.to_the_end(text)
            self.assertEqual(status["frames_in"]["received"], frames)
            self.assertEqual([s["delivered"] for s in status["sinks"]], [frames + 299, frames], name)
            got = c.read_recording(self.path(f"{name}-out.wav"))
            c.assert_within(got.astype(np.float64), want, x, self.h, what=name)
            raw = c.read_recording(self.path(f"{name}-raw.wav"))
            np.testing.assert_array_equal(raw, codes if name != "f.wav" else x.astype(np.float32))
            self.assertEqual(len(glob.glob(self.path(f"{name}-*.wav"))), 2)

    def test_a_loop_has_no_seam(self):
        codes = c.noise_codes(3, 7777, 1)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        text = stream(self.path("x.wav"), "loop = yes\nblock = 512 frames") + self.filter + sink("out", self.path("out.wav"))
        with c.Daemon(self.folder, text) as daemon:
            c.wait_for(lambda: daemon.stream()["frames_in"]["received"] > 100000, "the loop to go round")
            daemon.stop()
        got = c.read_recording(self.path("out.wav"))[:100000]
        x = np.tile(codes / 32768.0, (20, 1))[:100000]
        c.assert_within(got.astype(np.float64), c.convolve(x, self.h)[:100000], x, self.h)

    def test_integers_rotation_and_keep(self):
        """24 bits, cut at every 12345th frame, also inside blocks; the last three files stay."""
        frames = 100000
        codes = c.noise_codes(4, frames, 1)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        text = stream(self.path("x.wav"), "block = 1024 frames\nfull scale = 10 V\nunit = V\ntail = no") + self.filter \
            + sink("out", self.path("out.wav"), "format = s24le\nfull scale = 5 V\nrotate = 24.69 ms\nkeep = 3")
        status = self.to_the_end(text)
        self.assertEqual(status["sinks"][0]["delivered"], frames)
        x = codes / 32768.0 * 10
        want = c.convolve(x, self.h)[:frames]
        files = sorted(glob.glob(self.path("out-*.wav")))
        self.assertEqual(len(files), 3)
        next_frame = 12345 * 6
        for path in files:
            side = c.load_json(path + ".json")
            got = c.read_recording(path) / 2.0**23 * 5
            self.assertEqual((side["first_frame"], side["frames"]), (next_frame, len(got)))
            c.assert_within(got, want[next_frame:next_frame + len(got)], x, self.h, lsb=5 / 2.0**23, what=path)
            next_frame += len(got)
        self.assertEqual(next_frame, frames)
        self.assertEqual(len(glob.glob(self.path("out-*.json"))), 3)

    def test_invalid_ranges_and_delay_stand_in_the_sidecar(self):
        codes = c.noise_codes(5, 5000, 1)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        text = stream(self.path("x.wav"), "block = 1024 frames") + self.filter.replace("delay = 0", "delay = 12") \
            + sink("out", self.path("out.wav")) + sink("raw", self.path("raw.wav"), "record = input")
        self.to_the_end(text)
        side = c.load_json(self.path("out.wav.json"))
        self.assertEqual(side["invalid"], [{"from": 0, "until": 299, "cause": "settling"},
                                           {"from": 5000, "until": 5299, "cause": "tail"}])
        self.assertEqual((side["delay_frames"], side["aligned"], side["complete"]), (12, False, True))
        raw = c.load_json(self.path("raw.wav.json"))
        self.assertEqual((raw["invalid"], raw["delay_frames"], raw["content"]), ([], 0, "input"))
        self.assertEqual(len(side["config_hash"]), 64)
        self.assertEqual(len(side["taps_hash"]), 64)

    def test_min_free_pauses_and_is_counted(self):
        codes = c.noise_codes(6, 5000, 1)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        text = stream(self.path("x.wav"), "block = 1024 frames") + self.filter \
            + sink("out", self.path("out.wav"), "min free = 1000000 GiB")
        with c.Daemon(self.folder, text) as daemon:
            self.assertEqual(daemon.wait(4 * c.PATIENCE_S), 0)
            self.assertIn("recording paused", daemon.output())
        status = c.check_ledgers(c.load_json(daemon.status_path))["streams"][0]
        self.assertEqual(status["sinks"][0]["dropped"]["paused"], 5299)
        self.assertFalse(os.path.exists(self.path("out.wav")))

    def test_readable_after_a_kill(self):
        text = "[stream s]\nsource = generator\nwaveform = noise\namplitude = 0.1\nrate = 100 kHz\nchannels = 2\n" \
            "format = s16le\nblock = 256 frames\nfilter = h\n" + self.filter \
            + sink("out", self.path("out.wav"), "flush = 50 ms") \
            + sink("raw", self.path("raw.wav"), "record = input\nflush = 50 ms")
        with c.Daemon(self.folder, text) as daemon:
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > 30000, "some results")
            time.sleep(0.2)
            daemon.signal(signal.SIGKILL)
            daemon.wait()
        got, raw = c.read_recording(self.path("out.wav")), c.read_recording(self.path("raw.wav"))
        side = c.load_json(self.path("out.wav.json"))
        self.assertFalse(side["complete"])
        self.assertGreaterEqual(len(got), side["frames"])
        self.assertGreater(side["frames"], 30000)
        frames = min(len(got), len(raw))
        x = raw[:frames] / 32768.0
        c.assert_within(got[:frames].astype(np.float64), c.convolve(x, self.h)[:frames], x, self.h)
        with c.Daemon(self.folder, text) as daemon:  # the next start repairs what the kill left
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > 1000, "some results")
            daemon.stop()
        self.assertIn("was not finished by an earlier run and is repaired", daemon.output())
        side = c.load_json(self.path("out.wav.json"))
        again = c.read_recording(self.path("out.wav"))
        self.assertEqual((side["complete"], side["repaired"], side["frames"]), (False, True, len(again)))
        np.testing.assert_array_equal(again[:len(got)], got)
        for name in ("out-0002.wav", "raw-0002.wav"):
            side = c.load_json(self.path(name + ".json"))
            self.assertEqual((side["complete"], side["repaired"]), (True, False))
            self.assertEqual(side["synced_frames"], side["frames"])

    def test_what_the_disk_refuses(self):
        """The kernel refuses writes past a limit on the size of files: the file that ends there is not
        complete, and the next one says which frames no file holds. Nothing else is lost."""
        text = "[stream s]\nsource = generator\nwaveform = noise\namplitude = 0.1\nrate = 100 kHz\nchannels = 2\n" \
            "format = s16le\nblock = 256 frames\nfilter = h\n" + self.filter + sink("out", self.path("out.wav"))
        with c.Daemon(self.folder, text) as daemon:
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
            c.wait_for(lambda: len(glob.glob(self.path("out*.wav.json"))) >= 2, "a second file")
            daemon.stop()
        sides = [c.load_json(path + ".json") for path in sorted(glob.glob(self.path("out*.wav")), key=os.path.getmtime)]
        next_frame = 0
        for side in sides:
            for missing in side["missing_before"]:
                self.assertEqual((missing["from"], missing["cause"]), (next_frame, "disk"))
                next_frame = missing["until"]
            self.assertEqual(side["first_frame"], next_frame)
            next_frame += side["frames"]
        for side in sides[:-1]:
            self.assertEqual((side["complete"], side["error"]), (False, "File too large"))

    def test_a_missing_directory_is_named(self):
        c.write_wav16(self.path("x.wav"), RATE, c.noise_codes(7, 100, 1))
        text = stream(self.path("x.wav"), "") + self.filter + sink("out", self.path("none/out.wav"))
        with c.Daemon(self.folder, text, wait=False) as daemon:
            self.assertNotEqual(daemon.wait(4 * c.PATIENCE_S), 0)
            self.assertIn("mkdir -p", daemon.output())


if __name__ == "__main__":
    unittest.main()
