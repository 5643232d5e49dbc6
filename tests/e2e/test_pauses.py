#!/usr/bin/python3
# timeout: 300
# sanitizers: no, LD_PRELOAD comes before the sanitizer's own library
"""A pause is no loss: a daemon that is stopped and continued, or whose cores others take, keeps its device."""
import os
import signal
import subprocess
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000
CHANNELS = 16


class Pauses(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.gate = f"{self.folder}/gate"
        np.save(f"{self.folder}/f.npy", c.random_taps(5, 301))

    def config(self, device="cpu, cpu", deadline="100 ms", rate=RATE):
        return (f"[device]\ndevice = {device}\nbatch deadline = {deadline}\n"
                f"[filter f]\ntype = file\npath = {self.folder}/f.npy\n"
                f"[stream s]\nsource = generator\nrate = {rate} Hz\nchannels = {CHANNELS}\nwaveform = noise\n"
                "amplitude = 0.1\nfilter = f\nblock = 128\nvariant = general\n"
                f"[sink o]\ntype = recording\nstream = s\npath = {self.folder}/o.wav\n")

    def late(self, ms, contexts=99):
        return {"LD_PRELOAD": os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so"), "FAULTY_MODE": "late",
                "FAULTY_MS": str(ms), "FAULTY_GATE": self.gate, "FAULTY_CONTEXTS": str(contexts), "FAULTY_CALL": "1"}

    def results_go_on(self, daemon, frames=4096):
        before = daemon.stream()["frames_out"]["out"]
        c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + frames, f"results\n{daemon.output()}")

    def nothing_was_lost(self, daemon):
        status = daemon.status()
        self.assertEqual([sum(device["losses"].values()) for device in status["devices"]], [0] * len(status["devices"]),
                         daemon.output())
        self.assertEqual(status["streams"][0]["frames_out"]["shed"]["device"], 0)

    def open_gate(self):
        """The next call to the device is late."""
        with open(self.gate, "w", encoding="ascii"):
            pass

    def test_stopped_and_continued(self):
        """SIGSTOP for 2 s, twenty times the batch deadline and in the middle of a batch: as when a virtual machine is
        paused."""
        with c.Daemon(self.folder, self.config(), environment=self.late(60)) as daemon:
            self.results_go_on(daemon)
            for _ in range(2):
                self.open_gate()
                while os.path.exists(self.gate):
                    time.sleep(0.001)
                daemon.signal(signal.SIGSTOP)
                time.sleep(2)
                daemon.signal(signal.SIGCONT)
                self.results_go_on(daemon)
            self.nothing_was_lost(daemon)
            daemon.stop()

    def test_cores_are_taken(self):
        """Others take the core: the compute threads wait for it for far longer than the batch deadline."""
        core = {min(os.sched_getaffinity(0))}

        def alone():
            os.sched_setaffinity(0, core)

        def behind():
            alone()
            os.nice(19 - os.nice(0))
        with c.Daemon(self.folder, self.config("cpu", "50 ms", RATE // 8), before=behind) as daemon:
            self.results_go_on(daemon, 256)
            hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=alone) for _ in range(4)]
            try:
                time.sleep(3)
            finally:
                for hog in hogs:
                    hog.kill()
                    hog.wait()
            self.results_go_on(daemon, 256)
            self.nothing_was_lost(daemon)
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
