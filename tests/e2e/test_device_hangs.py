#!/usr/bin/python3
# parallel: yes
# sanitizers: yes
# timeout: 300
# long: yes, a driver is waited for a minute; what it guards in check is the rest of test_device_loss
"""A device that is lost, in the sanitized build too, and one whose driver does not come back while it is prepared to
stand by (tests/e2e/faulty_opencl.c)."""
import os
import signal
import subprocess
import time
import unittest

import numpy as np

import convolvd as c

SANITIZED = os.environ.get("CONVOLVD_SANITIZED") == "1"
STANDBY = signal.SIGRTMIN + 7 # tests/seams/wedge.c
# In takeover.c: a thread that prepares plans is left behind after so long.
PREPARATION_S = 60


def library():
    """The library that misbehaves; a sanitizer's own comes before it."""
    own = []
    if SANITIZED:
        own = [subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True,
                              check=True).stdout.strip()]
    return ":".join(own + [os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so")])


class DeviceHangs(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.taps = c.random_taps(5, 301)
        np.save(f"{self.folder}/f.npy", self.taps)

    def faults(self, mode, **more):
        return {"LD_PRELOAD": library(), "POCL_DEVICES": "pthread pthread", "FAULTY_MODE": mode,
                **{f"FAULTY_{key.upper()}": str(value) for key, value in more.items()}}

    def config(self, source):
        return (f"[device]\ndevice = 0, 1\nbatch deadline = 2 s\n[filter f]\ntype = file\npath = {self.folder}/f.npy\n"
                f"[stream s]\n{source}\nfilter = f\nblock = 128\nvariant = general\n"
                f"[sink o]\ntype = recording\nstream = s\npath = {self.folder}/o.wav\n")

    def test_lost_in_the_middle(self):
        """The first device dies in the middle of a file: the next goes on, and nothing is missing or wrong; nothing is
        leaked, overrun or undefined on the way, as the sanitized build shows."""
        codes = c.noise_codes(6, 6000, 16)
        c.write_wav16(f"{self.folder}/x.wav", 48000, codes)
        source = f"source = file\npath = {self.folder}/x.wav\npace = fast"
        counted = f"{self.folder}/count"
        with c.Daemon(self.folder, self.config(source), environment=self.faults("none", call=0, count=counted),
                      wait=False) as daemon:
            self.assertEqual(daemon.wait(4 * c.PATIENCE_S), 0, daemon.output())
        with open(counted, encoding="ascii") as file:
            calls = int(file.read())
        # The fourth call from the end launches a kernel. A clFlush that fails is no loss: what comes after it says
        # whether the device works.
        for mode, call in (("fail", calls - 4), ("die", calls // 2 + 5)):
            with self.subTest(mode=mode), \
                 c.Daemon(self.folder, self.config(source), environment=self.faults(mode, call=call, device="first"),
                          wait=False) as daemon:
                for name in ("o.wav", "o.wav.json"):
                    os.unlink(f"{self.folder}/{name}")
                self.assertEqual(daemon.wait(4 * c.PATIENCE_S), 0, daemon.output())
                status = c.check_ledgers(c.load_json(daemon.status_path))
                self.assertEqual(status["streams"][0]["frames_out"]["shed"]["device"], 0, daemon.output())
                self.assertTrue(daemon.said(" is lost: ") or daemon.said("does not stand by"), daemon.output())
                x = codes / 32768.0
                c.assert_within(c.read_recording(f"{self.folder}/o.wav"), c.convolve(x, self.taps), x, self.taps,
                                what=mode)

    def test_preparing_does_not_come_back(self):
        """A driver that hangs while plans are prepared for what stands by: after a minute the thread is left behind,
        that device counts as lost, and the log says so. The stream never notices, and a stop is not held up."""
        source = "source = generator\nrate = 48 kHz\nchannels = 2\nwaveform = noise\namplitude = 0.1"
        with c.Daemon(self.folder, self.config(source), program="convolvd-test",
                      environment={"POCL_DEVICES": "pthread pthread"}) as daemon:
            c.wait_for(lambda: daemon.stream()["standby"] is not None, "a device that stands by")
            daemon.signal(STANDBY)
            np.save(f"{self.folder}/f.npy", c.random_taps(6, 301)) # another plan, there too
            daemon.signal(signal.SIGHUP)
            daemon.wait_said("reloaded: ")
            began = time.monotonic()
            daemon.wait_said("preparing plans there does not come back; its thread is left behind",
                             PREPARATION_S + 2 * c.PATIENCE_S)
            self.assertGreater(time.monotonic() - began, PREPARATION_S - 10)
            c.wait_for(lambda: daemon.status()["devices"][1]["state"] != "works", "the verdict")
            status = daemon.status()
            self.assertEqual(status["devices"][1]["losses"]["stalled"], 1)
            self.assertEqual(status["devices"][0]["state"], "works")
            self.assertGreaterEqual(status["devices_abandoned"], 1)
            stream = status["streams"][0]
            self.assertEqual(sum(stream["frames_out"]["shed"].values()), 0)
            began = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - began, 20)


if __name__ == "__main__":
    unittest.main()
