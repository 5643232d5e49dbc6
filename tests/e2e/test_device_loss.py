#!/usr/bin/python3
# parallel: yes
# sanitizers: no, LD_PRELOAD comes before the sanitizer's own library
"""A device that fails, stalls or dies: an OpenCL library between the daemon and PoCL misbehaves from call n on
(tests/e2e/faulty_opencl.c)."""
import os
import time
import unittest

import numpy as np

import convolvd as c
from test_notify import Manager

RATE = 48000


class DeviceLoss(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.gate = f"{self.folder}/gate"
        self.taps = c.random_taps(5, 301)
        np.save(f"{self.folder}/f.npy", self.taps)

    def faults(self, mode, call=1, **more):
        return {"LD_PRELOAD": os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so"), "FAULTY_MODE": mode,
                "FAULTY_CALL": str(call), **{f"FAULTY_{key.upper()}": str(value) for key, value in more.items()}}

    def open_gate(self):
        open(self.gate, 'w', encoding='ascii').close()

    def config(self, device, extra="", block=128):
        return (f"[device]\ndevice = {device}\n{extra}\n[filter f]\ntype = file\npath = {self.folder}/f.npy\n"
                f"[stream s]\nsource = generator\nrate = {RATE} Hz\nchannels = 2\nwaveform = noise\namplitude = 0.1\n"
                f"filter = f\nblock = {block}\nvariant = general\n"
                f"[sink o]\ntype = recording\nstream = s\npath = {self.folder}/o.wav\n")

    def test_a_dead_device_is_no_progress(self):
        """Failed batches fed the watchdog and filled the log: 16 pings and 3359 lines in 4 s."""
        manager = Manager(self.folder, 1)
        with c.Daemon(self.folder, self.config("cpu"),
                      environment={**self.faults("die", gate=self.gate, contexts=99), **manager.environment}) as daemon:
            self.open_gate()
            daemon.wait_said("CL_DEVICE_NOT_AVAILABLE")
            died = time.monotonic()
            time.sleep(2.5)
            late = [at for at in manager.times("WATCHDOG") if at > died + 1]
            self.assertEqual(late, [], "pings of a device that computes nothing")
            self.assertGreater(daemon.stream()["batches_failed"], 0)
            lines = [line for line in daemon.lines if "the device refused a launch" in line]
            self.assertEqual(len(lines), 1, daemon.output())
            daemon.kill()


if __name__ == "__main__":
    unittest.main()
