#!/usr/bin/python3
# parallel: yes
# takes: 6 s CPU in 16 s
"""Analyses and event sinks that cannot keep up: an analysis with more hits than the machine can take spectra of, a
pipe that nobody reads, a reader that is stopped, a database that somebody locks. At every look while frames and
events are dropped, frames put = live + dead + pending and events = delivered + named drops + pending; a stop stays
within its deadline, and the log says what it cut off."""
import fcntl
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

import convolvd as c

RATE = 100000
CHANNELS = 8
PACKET = 1800  # frames
DRAIN_S = 1.5
# A sink that hangs is abandoned a second after the deadline; the rest is what a busy machine adds.
STOP_S = DRAIN_S + 1 + 4


def config(folder, port, threshold="0 V", keys="", sinks=""):
    return (f"[daemon]\ndrain timeout = {DRAIN_S} s\n"
            f"[stream s]\nsource = udp\naddress = 127.0.0.1:{port}\nrate = {RATE} Hz\nchannels = {CHANNELS}\n"
            f"format = f32le\nunit = V\nblock = 256 frames\nidle flush = 20 ms\nfilter = f\n"
            f"[filter f]\ntype = identity\n"
            f"[analysis a]\ntype = hits\nstream = s\nthreshold = {threshold}\nhdt = 2 frames\nmax duration = 20 frames\n"
            f"{keys}{sinks}")


def sink(name, kind, path, keys="queue = 64 KiB\n"):
    return f"[sink {name}]\ntype = {kind}\nanalysis = a\npath = {path}\n{keys}"


def dropped(ledger, cause):
    return ledger["dropped"].get(cause, 0)


class Caller:
    """One connection to the control socket."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(c.PATIENCE_S)
        self.socket.connect(os.path.join(folder, "observe.sock"))
        self.lines = self.socket.makefile()

    def analyses(self):
        self.socket.sendall(b'{"command": "analyses"}\n')
        return json.loads(self.lines.readline())["analyses"]

    def close(self):
        self.lines.close()
        self.socket.close()


class Overload(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)
        self.sending = None
        self.x = np.random.default_rng(1).standard_normal((PACKET, CHANNELS)).astype("<f4").tobytes()

    def path(self, name):
        return os.path.join(self.folder, name)

    def pipe(self, name):
        os.mkfifo(self.path(name))
        return self.path(name)

    def send(self, port, seconds):
        """Noise at the stream's rate, from a thread of its own."""
        def run():
            begin = time.monotonic()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                for i in range(int(seconds * RATE / PACKET)):
                    sock.sendto(self.x, ("127.0.0.1", port))
                    time.sleep(max(0, begin + i * PACKET / RATE - time.monotonic()))
        self.sending = threading.Thread(target=run)
        self.sending.start()
        self.addCleanup(self.sending.join)

    def check(self, analysis):
        ledger = analysis["ledger"]
        self.assertEqual(ledger["frames"], ledger["live"] + ledger["dead"] + ledger["pending"], ledger)
        self.assertLessEqual(sum(ledger["dropped"].values()), ledger["dead"] + ledger["pending"], ledger)
        if "taken" in ledger:
            self.assertEqual(ledger["taken"], ledger["seen"] + ledger["taken_pending"] + sum(ledger["taken_dropped"].values()))
        for one in analysis["sinks"]:
            self.assertEqual(one["events"], one["delivered"] + one["pending"] + sum(one["dropped"].values()), one)
        return analysis

    def watch(self, until, looks=100):
        """Looks many times while data comes, and until something has happened."""
        caller = Caller(self.folder)
        seen = 0
        deadline = time.monotonic() + c.PATIENCE_S
        try:
            while True:
                analyses = [self.check(one) for one in caller.analyses()]
                seen += 1
                if seen >= looks and until(analyses):
                    return analyses
                self.assertLess(time.monotonic(), deadline, analyses)
        finally:
            caller.close()

    def stop(self, daemon, code=0, hung=()):
        """The final status and the log; the stop took no longer than it may. `code` 3: something was cut off."""
        begin = time.monotonic()
        status = daemon.stop(code=code)
        self.assertLess(time.monotonic() - begin, STOP_S)
        for analysis in status["streams"][0]["analyses"]:
            self.check({"ledger": analysis, "sinks": analysis["sinks"]})
            self.assertEqual(analysis["pending"], 0)
            for one in analysis["sinks"]:
                self.assertEqual(one["pending"] > 0, one["name"] in hung, one)
        return status["streams"][0]["analyses"], daemon.output()

    def test_more_hits_than_spectra(self):
        """Threshold 0: each channel begins a hit every 20 frames, and each takes a transform of 16384 points."""
        port = c.free_port()
        keys = "spectrum = 16384 frames\nbuffer = 1 MiB\n"
        with c.Daemon(self.folder, config(self.folder, port, keys=keys, sinks=sink("table", "csv", self.path("a.csv")))) as daemon:
            self.send(port, 4)
            seen = self.watch(lambda a: dropped(a[0]["ledger"], "queue") > 0 and a[0]["sinks"][0]["delivered"] > 0)
            self.assertGreater(seen[0]["ledger"]["live"], 0)
            self.sending.join()
            analyses, log = self.stop(daemon)
        # Whole blocks are dropped, and hits that they cut say so.
        self.assertGreater(dropped(analyses[0], "queue"), 0)
        self.assertGreater(dropped(analyses[0], "stopped"), 0)
        self.assertIn("frames were not analysed within `drain timeout`", log)
        with open(self.path("a.csv"), encoding="utf-8") as file:
            self.assertEqual(sum(not line.startswith("#") for line in file) - 1, analyses[0]["sinks"][0]["delivered"])

    def test_pipe_that_nobody_reads(self):
        port = c.free_port()
        sinks = sink("pipe", "csv", self.pipe("pipe.csv")) + sink("file", "jsonl", self.path("a.jsonl"), "queue = 64 MiB\n")
        with c.Daemon(self.folder, config(self.folder, port, "2.5 V", sinks=sinks)) as daemon:
            self.send(port, 2)
            self.watch(lambda a: dropped(a[0]["sinks"][0], "queue") > 0)
            self.sending.join()
            self.watch(lambda a: a[0]["ledger"]["pending"] + a[0]["sinks"][1]["pending"] == 0, 1)
            analyses, log = self.stop(daemon, 3, ("pipe",))
        pipe, file = analyses[0]["sinks"]
        self.assertGreater(pipe["delivered"], 0)  # what the pipe itself holds
        self.assertIn(f"sink pipe: what it writes to does not take it; {pipe['pending']} events are lost", log)
        self.assertEqual(sum(file["dropped"].values()), 0)  # the other sink is none the worse

    def test_pipe_that_is_full_at_the_start(self):
        """It is refused, and does not keep the daemon from starting or stopping."""
        path = self.pipe("full.csv")
        pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, pipe)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(pipe, bytes(4096))
        # Once opened it may hold more than it does now.
        with open("/proc/sys/fs/pipe-max-size", encoding="ascii") as file:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, min(1 << 20, int(file.read())))
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(pipe, bytes(4096))
        text = config(self.folder, c.free_port(), sinks=sink("pipe", "csv", path))
        with c.Daemon(self.folder, text, wait=False) as daemon:
            self.assertNotEqual(daemon.wait(), 0)
            self.assertIn(f"sink pipe: {path} cannot be written", daemon.output())

    def test_reader_that_is_stopped(self):
        """It goes on later: then every event that was not dropped has come, each line whole."""
        port, pipe = c.free_port(), self.pipe("pipe.jsonl")
        code = ("import sys\n"
                "with open(sys.argv[1]) as f, open(sys.argv[2], 'w') as out:\n"
                "    while line := f.readline(): out.write(line); out.flush()\n")
        reader = subprocess.Popen([sys.executable, "-c", code, pipe, self.path("read")])
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        with c.Daemon(self.folder, config(self.folder, port, sinks=sink("pipe", "jsonl", pipe))) as daemon:
            reader.send_signal(signal.SIGSTOP)
            self.send(port, 2)
            self.watch(lambda a: dropped(a[0]["sinks"][0], "queue") > 0)
            self.sending.join()
            reader.send_signal(signal.SIGCONT)
            seen = self.watch(lambda a: a[0]["ledger"]["pending"] + a[0]["sinks"][0]["pending"] == 0, 1)
            delivered = seen[0]["sinks"][0]["delivered"]
            analyses, _ = self.stop(daemon)
        self.assertEqual(dropped(analyses[0]["sinks"][0], "stopped"), 0)
        reader.wait(c.PATIENCE_S)
        with open(self.path("read"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(len([line for line in lines if "number" in line]), analyses[0]["sinks"][0]["delivered"])
        self.assertGreaterEqual(analyses[0]["sinks"][0]["delivered"], delivered)

    def test_database_that_somebody_locks(self):
        """Each write waits a second for the lock and is given up as `disk`; afterwards it goes on."""
        port = c.free_port()
        rate = "rate = 100000 Hz\n"
        text = config(self.folder, port, sinks=sink("files", "vallen", self.path("a.pridb"),
                                                    "queue = 64 KiB\nrange = 10 V\nflush = 20 ms\ntransients = none\n"))
        self.assertIn(rate, text)
        with c.Daemon(self.folder, text) as daemon:
            db = sqlite3.connect(self.path("a.pridb"), isolation_level=None)
            self.addCleanup(db.close)
            db.execute("BEGIN IMMEDIATE")
            self.send(port, 3)
            self.watch(lambda a: dropped(a[0]["sinks"][0], "disk") > 0 and dropped(a[0]["sinks"][0], "queue") > 0)
            before = self.watch(lambda a: True, 1)[0]["sinks"][0]["delivered"]
            db.execute("ROLLBACK")
            self.watch(lambda a: a[0]["sinks"][0]["delivered"] > before, 1)
            self.sending.join()
            self.watch(lambda a: a[0]["ledger"]["pending"] + a[0]["sinks"][0]["pending"] == 0, 1)
            analyses, _ = self.stop(daemon)
        files = analyses[0]["sinks"][0]
        self.assertEqual(db.execute("SELECT count(*) FROM ae_data WHERE SetType = 2").fetchone()[0], files["delivered"])

    def test_stop_while_somebody_locks_the_database(self):
        """The files cannot be closed in time; the next start does it."""
        port = c.free_port()
        text = config(self.folder, port, sinks=sink("files", "vallen", self.path("a.pridb"), "range = 10 V\nflush = 20 ms\n"))
        with c.Daemon(self.folder, text) as daemon:
            self.send(port, 0.5)
            self.watch(lambda a: a[0]["sinks"][0]["delivered"] > 100)
            self.sending.join()
            db = sqlite3.connect(self.path("a.pridb"), isolation_level=None)
            self.addCleanup(db.close)
            db.execute("BEGIN IMMEDIATE")
            begin = time.monotonic()
            daemon.signal(signal.SIGTERM)
            self.assertIn(daemon.wait(), (0, 3))
            self.assertLess(time.monotonic() - begin, STOP_S)
            self.assertRegex(daemon.output(), "database is locked|stopped with work left over")
            db.execute("ROLLBACK")
        self.assertEqual(db.execute("SELECT Value FROM ae_globalinfo WHERE Key = 'FileStatus'").fetchone(), ("2",))
        db.close()
        with c.Daemon(self.folder, text) as daemon:
            self.assertIn("a.pridb was not finished by an earlier run and is repaired", daemon.output())
            daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
