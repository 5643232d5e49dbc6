#!/usr/bin/python3
# timeout: 300
# sanitizers: no, LD_PRELOAD comes before the sanitizer's own library
"""A GPU that is really lost: its memory taken by another process (tests/e2e/device_hog.c), and a kernel that writes
where there is no memory, on the daemon's own context (tests/e2e/faulty_opencl.c). The CPU stands by."""
import os
import signal
import subprocess
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000
CHANNELS = 2


def missing():
    """Why there is no GPU to test with; None: there is one."""
    hog = subprocess.run([f"{c.BUILD}/tests/device_hog", "1000000000"], stdin=subprocess.DEVNULL, capture_output=True,
                         text=True, timeout=60, check=False)
    return None if hog.returncode == 0 else f"needs a GPU: {hog.stdout.strip()}"


WITHOUT = missing()


class Hog:
    """Nearly all memory of the GPU, held by another process."""

    def __enter__(self):
        self.process = subprocess.Popen([f"{c.BUILD}/tests/device_hog", "0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.says = self.process.stdout.readline().strip()
        assert self.says.startswith("holds"), self.says
        return self

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()


def log(daemon):
    return "\n".join(line for line in daemon.lines if line.startswith("convolvd: "))


@unittest.skipIf(WITHOUT is not None, WITHOUT)
class GpuLoss(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.gate = f"{self.folder}/gate"
        self.taps = c.random_taps(5, 301)
        np.save(f"{self.folder}/f.npy", self.taps)
        np.save(f"{self.folder}/long.npy", c.random_taps(6, 100_001))

    def config(self, filter_file="f"):
        return ("[device]\ndevice = gpu, cpu\nself check = 200 ms\n"
                f"[filter f]\ntype = file\npath = {self.folder}/{filter_file}.npy\n"
                f"[stream s]\nsource = generator\nrate = {RATE} Hz\nchannels = {CHANNELS}\nwaveform = noise\n"
                "amplitude = 0.1\nfilter = f\nblock = 256\n"
                f"[sink o]\ntype = recording\nstream = s\npath = {self.folder}/o.wav\n"
                f"[sink x]\ntype = recording\nstream = s\nrecord = input\npath = {self.folder}/x.wav\n")

    def faults(self, call):
        return {"LD_PRELOAD": os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so"), "FAULTY_MODE": "fault",
                "FAULTY_CALL": str(call), "FAULTY_GATE": self.gate}

    def results_go_on(self, daemon, seconds=1.0):
        before, at = daemon.stream()["frames_out"]["out"], time.monotonic()
        time.sleep(seconds)
        stream = daemon.stream()
        gone = time.monotonic() - at
        self.assertGreater(stream["frames_out"]["out"] - before, 0.5 * gone * RATE, daemon.output())
        self.assertEqual(stream["self_check"]["failures"], 0)
        return stream

    def on_gpu(self, daemon):
        return self.results_go_on(daemon)["engine"] == self.gpu(daemon)

    def gpu(self, daemon):
        """The number of the GPU among the devices in use."""
        names = [device["platform"] for device in daemon.status()["devices"]]
        return next(i for i, name in enumerate(names) if "Portable" not in name)

    def stop(self, daemon):
        """What came is the definition's, every frame of it."""
        status = daemon.stop()
        stream = status["streams"][0]
        self.assertEqual(sum(stream["frames_out"]["shed"].values()), 0, daemon.output())
        self.assertEqual(stream["invalid"].get("device", 0), 0, daemon.output())
        x = c.read_recording(f"{self.folder}/x.wav").astype(np.float64)
        c.assert_within(c.read_recording(f"{self.folder}/o.wav"), c.convolve(x, self.taps), x, self.taps)
        return status

    def test_no_memory_at_the_start(self):
        """The GPU's memory is taken: the daemon says so, begins on the CPU, and moves once the memory is free."""
        with Hog() as hog, c.Daemon(self.folder, self.config()) as daemon:
            daemon.wait_said("not in use yet: ")
            self.assertFalse(self.on_gpu(daemon))
            daemon.wait_said("cannot be used yet: ")
            hog.end()
            free = time.monotonic()
            daemon.wait_said("works again", 2 * c.PATIENCE_S)
            back = time.monotonic() - free
            c.wait_for(lambda: self.on_gpu(daemon), "the stream on the GPU")
            self.stop(daemon)
            c.note(f"no memory at the start, {hog.says}: back {back:.1f} s after it was free\n{log(daemon)}")

    def test_memory_goes_while_it_runs(self):
        """What runs has its memory; a reload with a long filter gets what it needs, or is refused, or runs on the
        CPU: results go on."""
        with c.Daemon(self.folder, self.config()) as daemon:
            self.assertTrue(self.on_gpu(daemon))
            with Hog() as hog:
                self.results_go_on(daemon)
                with open(daemon.path, "w", encoding="utf-8") as file:
                    file.write(self.config("long"))
                daemon.signal(signal.SIGHUP)
                c.wait_for(lambda: any("reload" in line for line in list(daemon.lines)), "the reload's end")
                stream = self.results_go_on(daemon, 2)
            c.wait_for(lambda: self.on_gpu(daemon), "the stream on the GPU")
            status = daemon.stop()
            self.assertEqual(sum(status["streams"][0]["frames_out"]["shed"].values()), 0)
            c.note(f"memory gone while it ran, {hog.says}: {stream['plan']}, losses "
                   f"{status['devices'][0]['losses']}\n{log(daemon)}")

    def fault(self, call):
        with c.Daemon(self.folder, self.config(), environment=self.faults(call)) as daemon:
            c.wait_for(lambda: daemon.stream()["standby"] is not None, "a device that stands by")
            before = self.results_go_on(daemon)["latency_ns"]["total"]["max"]
            with open(self.gate, "w", encoding="ascii"):
                pass
            daemon.wait_said(" is lost: ")
            self.assertFalse(self.on_gpu(daemon))
            daemon.wait_said("is not tried again: its driver makes no context in this process any more")
            c.wait_for(lambda: daemon.status()["devices_abandoned"] == 0, "the lost engine to close")
            after = self.results_go_on(daemon)["latency_ns"]["total"]["max"]
            self.assertEqual(daemon.status()["devices"][self.gpu(daemon)]["state"], "given up")
            self.stop(daemon)
            c.note(f"fault at call {call}: latency at most {before / 1e6:.1f} ms before, {after / 1e6:.1f} ms with the "
                   f"takeover\n{log(daemon)}")

    def test_a_faulting_kernel(self):
        """The context is dead, and so is every other one of the process: the CPU goes on, nothing is missing, and the
        GPU is not tried again until the daemon restarts."""
        self.fault(1)

    def test_a_faulting_kernel_later(self):
        self.fault(40)


if __name__ == "__main__":
    unittest.main()
