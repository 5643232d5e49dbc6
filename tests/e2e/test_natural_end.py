#!/usr/bin/python3
# parallel: yes
# takes: 3 s CPU in 5 s
"""A run whose source comes to its end by itself waits for its slowest sink. What is lost nevertheless makes the exit
status 4."""
import json
import os
import resource
import signal
import unittest

import convolvd as c

LOSSES = 4


def config(drain, sinks, duration="100000 frames"):
    """Noise that begins a hit every 20 frames: some megabytes of events, and a pipe holds 64 KiB."""
    return (f"[daemon]\ndrain timeout = {drain}\n"
            f"[stream s]\nsource = generator\nrate = 100 kHz\nchannels = 2\nformat = f32le\nunit = V\nwaveform = noise\n"
            f"amplitude = 0.25 V\npace = fast\nduration = {duration}\nblock = 256\nfilter = f\n[filter f]\ntype = identity\n"
            f"[analysis a]\ntype = hits\nstream = s\nthreshold = 0 V\nhdt = 2 frames\nmax duration = 20 frames\n{sinks}")


class RunEnd(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder, name)

    def pipe(self, name, queue):
        """A sink that writes into a pipe; (its section, a descriptor that reads it)."""
        os.mkfifo(self.path(name))
        reader = os.open(self.path(name), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        os.set_blocking(reader, True)
        return f"[sink {name}]\ntype = jsonl\nanalysis = a\npath = {self.path(name)}\nqueue = {queue}\n", reader

    def ended(self, daemon, code):
        self.assertEqual(daemon.wait(), code, daemon.output())
        return c.check_ledgers(c.load_json(daemon.status_path))["streams"][0]["analyses"][0]

    def test_waits_for_a_reader_that_comes_late(self):
        """Nothing is read until the run has waited; the queue holds all events, so only the end depends on the reader."""
        section, reader = self.pipe("late", "64 MiB")
        with c.Daemon(self.folder, config("60 s", section), wait=False) as daemon:
            daemon.wait_said("waiting for sink late, which still has to deliver")
            with open(os.dup(reader), "rb") as file:
                lines = [json.loads(line) for line in file]
            analysis = self.ended(daemon, 0)
        self.assertGreater(analysis["sinks"][0]["events"], 1000)
        self.assertEqual(analysis["sinks"][0]["delivered"], analysis["sinks"][0]["events"])
        self.assertEqual(len([line for line in lines if "number" in line]), analysis["sinks"][0]["events"])

    def test_a_sink_without_progress_is_cut_off(self):
        section, _ = self.pipe("unread", "64 MiB")
        with c.Daemon(self.folder, config("100 ms", section), wait=False) as daemon:
            analysis = self.ended(daemon, LOSSES)
        self.assertLess(analysis["sinks"][0]["delivered"], analysis["sinks"][0]["events"])

    def test_a_full_disk_is_a_loss(self):
        """No file can grow over 8 MiB; the rings are files in memory, and smaller."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        sink = f"[sink full]\ntype = csv\nanalysis = a\npath = {self.path('full.csv')}\nqueue = 1 MiB\n"
        with c.Daemon(self.folder, config("60 s", sink, "400000 frames"), wait=False, before=limit) as daemon:
            analysis = self.ended(daemon, LOSSES)
            self.assertIn("events of this run are lost", daemon.output())
        self.assertGreater(analysis["sinks"][0]["dropped"]["disk"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
