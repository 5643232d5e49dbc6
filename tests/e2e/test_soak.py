#!/usr/bin/python3
# timeout: 7200
# long: yes, two minutes of real time; `make soak SOAK_MINUTES=60` runs longer
# parallel: waiting, deadlines
# takes: 39 s CPU in 124 s
"""Sixteen streams of four channels for minutes: lost, doubled and reordered packets, rigs whose clocks differ,
reloads, filter changes, gains and mutes over OSC, subscribers that come and go, status requests, and a device
that is lost and replaced.

The ledgers balance at every look and every stream has new results; memory, descriptors and threads do not
grow in the second half; the share of blocks past their deadline does not grow. The run leaves the
daemon's log and the last status beside the build, soak.log and soak.json.
"""
import os
import random
import shutil
import signal
import socket
import statistics
import time
import unittest

import convolvd as c
from osc_client import Client

MINUTES = float(os.environ.get("SOAK_MINUTES", "2"))
SEED = int(os.environ.get("SOAK_SEED", str(int(time.time()))))
STREAMS, CHANNELS, RATE = 16, 4, 12000
MEGABYTE = 1 << 20

HEAD = """
[device]
device = cpu, cpu

[osc]
address = 127.0.0.1:{osc}
lease = 5 s

[filter a]
type = bandpass
low = 500 Hz
high = 3 kHz
taps = 257

[filter b]
type = bandpass
low = 1 kHz
high = 4 kHz
taps = 129
"""

STREAM = """
[stream s{number}]
source = rtp
address = 127.0.0.1:{rx}
format = s16be
rate = {rate} Hz
channels = {channels}
block = {block} frames
reorder = 40 ms
max misorder = 50 ms
filter = a
variant = general

[sink o{number}]
type = rtp
stream = s{number}
address = 127.0.0.1:{tx}
"""

# With the default of 64 MiB, memory grows for minutes while each queue's pages are used for the first time.
RECORDING = """
[sink r{number}]
type = recording
stream = s{number}
path = {folder}/r{number}
rotate = 5 s
keep = 4
queue = 2 MiB
"""


def port_is_free(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Footprint:
    """What the process holds."""

    def __init__(self, pid):
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            rows = dict(line.split(":", 1) for line in file)
        self.resident = int(rows["VmRSS"].split()[0]) * 1024
        self.threads = int(rows["Threads"])
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))

    def __str__(self):
        return f"{self.resident / MEGABYTE:.1f} MiB, {self.descriptors} descriptors, {self.threads} threads"


class Soak(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.random = random.Random(SEED)
        self.ports = self.free_run(2 * STREAMS)
        self.sink_ports = [c.free_port() for _ in range(STREAMS)]
        self.osc_port = c.free_port()
        self.blocks = [128] * STREAMS
        self.subscribers = []
        self.done = {}

    @staticmethod
    def free_run(ports):
        """The first of so many free UDP ports in a row, for convolv-rig --rigs."""
        while True:
            first = c.free_port()
            if first + ports < 32000 and all(port_is_free(first + i) for i in range(2, ports, 2)):
                return first

    def config(self):
        text = HEAD.format(osc=self.osc_port)
        for number in range(STREAMS):
            text += STREAM.format(number=number, rx=self.ports + 2 * number, tx=self.sink_ports[number], rate=RATE, channels=CHANNELS,
                                  block=self.blocks[number])
            if number % 4 == 0:
                text += RECORDING.format(number=number, folder=self.folder)
        return text

    def count(self, what):
        self.done[what] = self.done.get(what, 0) + 1

    # ---- what happens to it ----

    def reload(self, daemon):
        number = self.random.randrange(STREAMS)
        self.blocks[number] = 384 - self.blocks[number]  # 128 or 256
        with open(daemon.path, "w", encoding="utf-8") as file:
            file.write(self.config())
        daemon.signal(signal.SIGHUP)

    def change(self, _):
        stream = f"/convolvd/s{self.random.randrange(STREAMS)}"
        what = self.random.choice(["filter", "gain", "mute"])
        if what == "filter":
            how = self.random.choice(["hard", "fade", "clear"])
            self.client.send(f"{stream}/filter", "ss", self.random.choice("ab"), how)
        elif what == "gain":
            self.client.send(f"{stream}/gain", "fi", self.random.uniform(-6, 6), 1 + self.random.randrange(CHANNELS))
        else:
            self.client.send(f"{stream}/mute", "ii", self.random.randrange(2), 1 + self.random.randrange(CHANNELS))

    def subscribe(self, _):
        client = Client(self.osc_port)
        client.send(f"/convolvd/s{self.random.randrange(STREAMS)}/subscribe", "s", self.random.choice(["results", "levels", "latency"]))
        self.subscribers.append(client)
        if len(self.subscribers) > 8:
            self.subscribers.pop(0).close()

    def look(self, daemon):
        daemon.status()  # the ledgers are checked

    def wait_for_results(self, daemon, patience_s=10):
        """Until every stream has another count of results than at first (a reloaded one begins again at 0)."""
        def results():
            return {s["name"]: s["frames_out"]["out"] for s in daemon.status()["streams"]}
        before, end = results(), time.monotonic() + patience_s
        while still := [name for name, count in results().items() if before[name] == count]:
            self.assertLess(time.monotonic(), end, f"no results any more: {still}")
            time.sleep(0.2)

    @staticmethod
    def keep(daemon, build):
        """What a failure is explained by; the daemon has ended then, or is about to."""
        with open(f"{build}/soak.log", "w", encoding="utf-8") as file:
            file.write(daemon.output())
        if os.path.exists(daemon.status_path):
            shutil.copy(daemon.status_path, f"{build}/soak.json")

    # ---- the run ----

    def test_soak(self):
        c.note(f"seed {SEED}, {MINUTES:g} min")
        gate = f"{self.folder}/gate"
        daemon = c.Daemon(self.folder, self.config(), environment={
            "LD_PRELOAD": os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so"), "FAULTY_MODE": "die", "FAULTY_CALL": "1",
            "FAULTY_GATE": gate})
        self.addCleanup(daemon.kill)
        self.addCleanup(self.keep, daemon, c.BUILD)
        self.client = Client(self.osc_port)
        rig = c.Process("convolv-rig", ["--to", f"127.0.0.1:{self.ports}", "--rigs", STREAMS, "--format", "s16be", "--rate", f"{RATE} Hz",
                                        "--channels", CHANNELS, "--packet", 96, "--signal", "noise", "--amplitude", 0.1, "--loss", 0.002,
                                        "--duplicate", 0.002, "--reorder", 0.002, "--jitter", "5 ms", "--ppm", 80,
                                        "--seconds", MINUTES * 60 + 120, "--quiet"])
        self.addCleanup(rig.kill)
        begun, seconds = time.monotonic(), MINUTES * 60
        events = [(self.change, 0.5), (self.subscribe, 0.2), (self.look, 0.2), (self.reload, 0.1)]
        footprints, misses = [], []
        next_look = 0.2
        while (now := time.monotonic() - begun) < seconds:
            self.assertIsNone(daemon.process.poll(), daemon.output()[-3000:])
            event = self.random.choices([e for e, _ in events], [w for _, w in events])[0]
            event(daemon)
            self.count(event.__name__)
            if now > seconds * 0.4 and not os.path.exists(gate):
                with open(gate, "w", encoding="ascii"):
                    pass
            if now > next_look * seconds:
                next_look += 0.1
                footprints.append(Footprint(daemon.process.pid))
                self.wait_for_results(daemon)
                status = daemon.status()
                misses.append((sum(s["blocks"] for s in status["streams"]), sum(s["deadline_misses"] for s in status["streams"])))
                c.note(f"after {now:.0f} s: {footprints[-1]}, {misses[-1][1]} of {misses[-1][0]} blocks past the deadline")
            time.sleep(self.random.uniform(0.1, 0.7))
        rig.signal(signal.SIGTERM)
        status = daemon.status()
        text = daemon.output()
        daemon.signal(signal.SIGTERM)
        code = daemon.wait()
        c.note("done: " + ", ".join(f"{number} {name}" for name, number in sorted(self.done.items())))
        self.assertEqual(code, 0, text[-3000:])
        self.assertTrue("is lost" in text, "the device was not lost")
        self.assertEqual(len(status["streams"]), STREAMS)
        for stream in status["streams"]:
            self.assertGreater(stream["frames_in"]["received"], 0)
        # The device is lost before the half: it is a leak on purpose.
        half, last = footprints[len(footprints) // 2], footprints[-1]
        self.assertLess(last.resident, half.resident * 1.05 + 8 * MEGABYTE, f"{half} -> {last}")
        self.assertLess(last.descriptors, half.descriptors + 12, f"{half} -> {last}")
        self.assertLess(last.threads, half.threads + 4, f"{half} -> {last}")
        # Counts begin anew with a reload, so what differs between two looks is no number of blocks.
        shares = [late / max(1, blocks) for blocks, late in misses]
        share = [statistics.median(shares[:len(shares) // 2]), statistics.median(shares[len(shares) // 2:])]
        self.assertLess(share[1], share[0] + 0.02, f"share of blocks past the deadline: {share}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
