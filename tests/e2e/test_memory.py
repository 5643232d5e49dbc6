#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 5 s
# long: also, reading and transforming filters of 100 000 taps takes 20 s of CPU
# sanitizers: no, a sanitizer's own memory is many times the daemon's
"""The memory figure of `--check` against what the daemon's streams really take: the difference of resident memory
between a daemon with and without them, rings and queues each made large in turn and full. A reload that could take
more than is left is refused with the figures."""
import os
import re
import signal
import subprocess
import time
import unittest

import numpy as np

import convolvd as c

MIB = 1 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
# What a figure may be off by: huge pages of batches that the small stream alone does not touch, and the heap.
TOLERANCE, SLACK = 0.1, 20 * MIB

FILTERS, TAPS = 16, 100_000
LONG = bool(os.environ.get("CONVOLVD_TEST_LONG"))

SMALL = "[device]\ndevice = " + c.DEVICE + "\nbatches = 2\n[stream small]\nsource = generator\nwaveform = noise\namplitude = 0.1\nrate = 8 kHz\nchannels = 1\n" \
    "format = f32le\nblock = 128\nfilter = short\n[filter short]\ntype = identity\n"


def generator(name, keys, channels=1):
    return f"[stream {name}]\nsource = generator\nwaveform = noise\namplitude = 0.1\nrate = 48 kHz\n" \
        f"channels = {channels}\nformat = f32le\n{keys}\n"


class Memory(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name

    def figure(self, text):
        """What --check says of all streams, in bytes: {"about": total, "rings": …}."""
        path = os.path.join(self.folder, "check.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = next(line for line in done.stdout.splitlines() if line.startswith("memory of all streams"))
        return {name: float(number) * UNITS[unit]
                for name, number, unit in re.findall(r"(about|rings|spectra|batches|queues) ([\d.]+) (\w+)", line)}

    def resident(self, text, settled):
        """Memory of the daemon's own that is resident once `settled(daemon)` holds."""
        with c.Daemon(self.folder, text):
            pass  # builds the kernels, which takes memory of its own, so that the next one finds them
        with c.Daemon(self.folder, text, program="convolvd-test") as daemon:
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > 1000, "results")
            settled(daemon)
            with open(f"/proc/{daemon.process.pid}/status", encoding="utf-8") as file:
                kib = int(re.search(r"RssAnon:\s+(\d+)", file.read())[1])
            daemon.signal(9)
            daemon.wait()
        return kib * 1024

    def compare(self, part, more, settled=lambda daemon: None, slack=SLACK):
        """The stated figure of `more` is large in this part, and true."""
        before, after = self.figure(SMALL), self.figure(SMALL + more)
        stated = after["about"] - before["about"]
        self.assertGreater(after[part] - before[part], 0.5 * stated, after)
        taken = self.resident(SMALL + more, settled) - self.resident(SMALL, lambda daemon: None)
        print(f"# {part}: stated {stated / MIB:.1f} MiB, taken {taken / MIB:.1f} MiB")
        self.assertLess(taken, stated * (1 + TOLERANCE) + slack, "it takes more than stated")
        self.assertGreater(taken, stated * (1 - TOLERANCE) - slack, "it states more than is taken")

    def test_rings(self):
        self.compare("rings", f"[stream r]\nsource = rtp\naddress = 127.0.0.1:{c.free_port()}\nrate = 2 MHz\n"
                     "channels = 16\nformat = s32be\nblock = 1024\nfilter = short\n")

    def test_a_ring_without_room_is_an_error(self):
        """Rings give way; --check refuses a configuration whose last ring cannot give way any further, as the start does."""
        path = os.path.join(self.folder, "full.conf")
        streams = "".join(f"[stream s{i}]\nsource = udp\naddress = 127.0.0.1:{c.free_port()}\nrate = 1 MHz\nchannels = 4\n"
                          "format = f32le\nfilter = f\n" for i in range(3))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[device]\ndevice = {c.DEVICE}\ninput memory = 4 MiB\n{streams}"
                       "[filter f]\ntype = lowpass\nhigh = 100 kHz\ntaps = 8191\n")
        for arguments in ["--check"], []:
            done = subprocess.run([os.path.join(c.BUILD, "convolvd"), *arguments, path], capture_output=True, text=True,
                                  check=False, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("raise `input memory`", done.stderr.splitlines()[-1])

    @unittest.skipUnless(LONG, "in check-long")
    def test_long_filters(self):
        """Spectra of long filters, with the taps that they are made from."""
        more = ""
        for f in range(FILTERS):
            np.save(f"{self.folder}/f{f}.npy", c.random_taps(f, TAPS))
            more += c.file_filter(f"long{f}", f"{self.folder}/f{f}.npy")
        self.compare("spectra", generator("f", "block = 1024\nbank = " + ", ".join(f"long{f}" for f in range(FILTERS))) + more,
                     slack=8 * MIB)

    def test_queues(self):
        """The writer hangs, and a source that can wait fills the queue."""
        def fill(daemon):
            daemon.signal(c.WEDGES["writer"])
            last = [-1]

            def full():
                time.sleep(0.5)
                out = next(s for s in daemon.status()["streams"] if s["name"] == "q")["frames_out"]["out"]
                same, last[0] = out == last[0], out
                return same and out > 0
            c.wait_for(full, "the queue to fill")
        self.compare("queues", generator("q", "block = 1024\npace = fast\nfilter = short", 4)
                     + f"[sink q]\ntype = recording\nstream = q\npath = {self.folder}/out.wav\nqueue = 96 MiB\n", fill)

    def test_a_reload_too_large_is_refused(self):
        """Queues of a terabyte: the system would promise them and then kill the daemon."""
        more = "".join(
            generator(f"g{g}", "block = 128\nfilter = short")
            + "".join(f"[sink g{g}q{q}]\ntype = recording\nstream = g{g}\npath = {self.folder}/{g}-{q}.wav\nqueue = 16 GiB\n"
                      for q in range(16)) for g in range(4))
        with c.Daemon(self.folder, SMALL) as daemon:
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(SMALL + more)
            daemon.signal(signal.SIGHUP)
            daemon.wait_said("the configuration in use stays")
            self.assertRegex(daemon.output(), r"streams take up to 1(\.\d+)? TiB beside those that run, and [\d.]+ GiB are left")
            before = daemon.stream()["frames_out"]["out"]
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before, "the stream to run on")
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
