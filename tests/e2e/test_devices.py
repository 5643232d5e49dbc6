#!/usr/bin/python3
# parallel: yes
# takes: 5 s CPU in 5 s
"""Several devices: `device = all` spreads streams over them, `device` of a stream pins it; results are the
definition's wherever they are computed. PoCL gives the CPU twice, as two devices."""
import os
import signal
import unittest

import numpy as np

import convolvd as c

FRAMES = 30000
TWICE = "pthread pthread"


def stream(name, source, extra=""):
    return f"[stream {name}]\nsource = {source}\nfilter = f\nblock = 256\n{extra}\n" \
           f"[sink {name}]\ntype = recording\nstream = {name}\npath = {{folder}}/{name}.wav\n"


@unittest.skipIf(c.DEVICE != "cpu", "the CPU twice stands for two devices")
class Devices(unittest.TestCase):
    def setUp(self):
        self.before = os.environ.get("POCL_DEVICES")
        os.environ["POCL_DEVICES"] = TWICE
        self.addCleanup(self.restore)
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.taps = c.random_taps(5, 301)
        np.save(f"{self.folder}/f.npy", self.taps)
        self.codes = c.noise_codes(6, FRAMES, 16)
        c.write_wav16(f"{self.folder}/x.wav", 48000, self.codes)

    def restore(self):
        if self.before is None:
            del os.environ["POCL_DEVICES"]
        else:
            os.environ["POCL_DEVICES"] = self.before

    def config(self, device, *streams):
        return (f"[device]\ndevice = {device}\n[filter f]\ntype = file\npath = {self.folder}/f.npy\n"
                + "".join(streams)).replace("{folder}", self.folder)

    def file(self, name, extra=""):
        return stream(name, "file", f"path = {{folder}}/x.wav\npace = fast\n{extra}")

    def finished(self, config):
        with c.Daemon(self.folder, config) as daemon:
            self.assertEqual(daemon.wait(), 0, daemon.output())
            return c.check_ledgers(c.load_json(daemon.status_path)), daemon.output()

    def assert_defined(self, name, stages=1):
        x = self.codes / 32768.0
        want = x
        for _ in range(stages):
            want = c.convolve(want, self.taps)
        c.assert_within(c.read_recording(f"{self.folder}/{name}.wav"), want, x, self.taps, what=name)

    def test_all_spreads(self):
        names = ["a", "b", "c", "d"]
        status, log = self.finished(self.config("all", *(self.file(name) for name in names)))
        self.assertEqual([device["index"] for device in status["devices"]], [0, 1])
        devices = [next(s for s in status["streams"] if s["name"] == name)["device"] for name in names]
        self.assertEqual(set(devices), {0, 1}, log)
        for name in names:
            self.assert_defined(name)

    def test_pinned_and_chained(self):
        status, log = self.finished(self.config(
            "0", self.file("a", "device = 1"), self.file("b"), stream("beside", "stream a"),
            stream("away", "stream a", "device = 0")))
        devices = {s["name"]: s["device"] for s in status["streams"]}
        self.assertEqual(devices, {"a": 1, "b": 0, "beside": 1, "away": 0}, log)
        for name in ("a", "b"):
            self.assert_defined(name)
        for name in ("beside", "away"):
            self.assert_defined(name, stages=2)

    def test_one_that_is_not_there(self):
        with c.Daemon(self.folder, self.config("0", self.file("a", "device = no such")), wait=False) as daemon:
            self.assertEqual(daemon.wait(), 1)
            self.assertIn('no OpenCL device "no such"', daemon.output())
            self.assertIn("stream a", daemon.output())

    def test_reload_takes_up_another(self):
        endless = "rate = 48 kHz\nwaveform = noise\nchannels = 1\n"
        first = self.config("0", stream("a", "generator", endless))
        with c.Daemon(self.folder, first) as daemon:
            self.assertEqual(len(daemon.status()["devices"]), 1)
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(first + self.config("", stream("b", "generator", endless + "device = 1")).split("f.npy\n")[1])
            daemon.signal(signal.SIGHUP)
            daemon.wait_said("reloaded: 1 stream unchanged, 1 changed or new")
            status = daemon.status()
            self.assertEqual([device["index"] for device in status["devices"]], [0, 1])
            self.assertEqual({s["name"]: s["device"] for s in status["streams"]}, {"a": 0, "b": 1})
            c.wait_for(lambda: daemon.stream("b")["frames_out"]["out"] > 4096, "results of the second device")
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
