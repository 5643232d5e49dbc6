#!/usr/bin/python3
# parallel: yes
# takes: 2 s CPU in 20 s
"""What the daemon tells its service manager (sd_notify(3)), heard on a socket of the test's own: ready,
alive while every stage makes progress and silent when one is wedged, reloading, stopping."""
import os
import signal
import socket
import tempfile
import threading
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000


class Manager:
    """A service manager's ear: every message with its time."""

    def __init__(self, folder, watchdog_s=None):
        self.heard = []
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        threading.Thread(target=self.listen, daemon=True).start()
        self.environment = {"NOTIFY_SOCKET": self.path}
        if watchdog_s:
            self.environment["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))

    def listen(self):
        while True:
            try:
                text = self.socket.recv(65536).decode()
            except OSError:
                return
            for line in text.splitlines():
                self.heard.append((time.monotonic(), *line.split("=", 1)))

    def times(self, name, value=None):
        return [at for at, key, got in list(self.heard) if key == name and value in (None, got)]

    def values(self, name):
        return [got for _, key, got in list(self.heard) if key == name]


class Notify(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.port = c.free_port()
        np.save(f"{self.folder}/f.npy", c.random_taps(1, 33))
        self.config = f"[stream a]\nsource = rtp\naddress = 127.0.0.1:{self.port}\nrate = {RATE} Hz\nchannels = 1\n" \
                      f"format = s16be\nblock = 128\nfilter = f\n[filter f]\ntype = file\npath = {self.folder}/f.npy\n" \
                      f"[sink r]\ntype = recording\nstream = a\npath = {self.folder}/r.wav\n" \
                      "[stream g]\nsource = generator\nrate = 1 MHz\nchannels = 1\nwaveform = noise\namplitude = 0.1\n" \
                      "block = 128\nfilter = f\n"

    def test_a_manager_that_does_not_listen(self):
        """Its socket takes some ten messages; the daemon sends a hundred and goes on."""
        path = os.path.join(self.folder, "deaf")
        deaf = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(deaf.close)
        deaf.bind(path)
        daemon = c.Daemon(self.folder, self.config, environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "80000"})
        self.addCleanup(daemon.kill)
        time.sleep(1.5)
        before = daemon.stream("g")["frames_out"]["out"]
        time.sleep(0.3)
        self.assertGreater(daemon.stream("g")["frames_out"]["out"], before)
        daemon.stop()

    def daemon(self, manager, program="convolvd"):
        os.environ.update(manager.environment)
        try:
            return c.Daemon(self.folder, self.config, program=program)
        finally:
            for name in manager.environment:
                del os.environ[name]

    def feed(self, seconds):
        thread = threading.Thread(target=c.rig, args=(self.folder, self.port, "--rate", RATE, "--seconds", seconds))
        thread.start()
        self.addCleanup(thread.join)

    def test_ready_status_reloading_stopping(self):
        manager = Manager(self.folder)
        with self.daemon(manager) as daemon:
            c.wait_for(lambda: manager.times("READY"), "READY")
            self.assertTrue(daemon.said("running:"))
            said = daemon.output() # the kernel walks all memory for the second of these, and no stream waits for that
            self.assertEqual([said.count(word) for word in ("priority: ", "memory: ")], [1, 1], said)
            self.assertLess(max(map(said.index, ("priority: ", "memory: "))), said.index("running:"), said)
            self.feed(1)
            c.wait_for(lambda: any("latency" in s and "latency 0 ms" not in s for s in manager.values("STATUS")), "a latency")
            self.assertEqual(manager.times("WATCHDOG"), []) # nobody asked for it
            np.save(f"{self.folder}/f.npy", c.random_taps(2, 33))
            daemon.signal(signal.SIGHUP)
            c.wait_for(lambda: len(manager.times("READY")) == 2, "READY again")
            reloading, = manager.times("RELOADING", "1")
            self.assertLess(reloading, manager.times("READY")[1])
            self.assertEqual(len(manager.values("MONOTONIC_USEC")), 1)
            daemon.stop()
            self.assertEqual(len(manager.times("STOPPING", "1")), 1)
            self.assertLess(manager.times("READY")[-1], manager.times("STOPPING")[0])

    def test_alive_only_while_every_stage_is(self):
        watchdog_s = 2
        for stage in ("device", "writer", "reader", "loop"):
            manager = Manager(tempfile.mkdtemp(), watchdog_s)
            with self.daemon(manager, "convolvd-test") as daemon:
                self.feed(2 * watchdog_s + 1)
                time.sleep(watchdog_s)
                # Often enough, with blocks under way.
                self.assertGreaterEqual(len(manager.times("WATCHDOG")), 2, stage)
                daemon.signal(c.WEDGES[stage])
                wedged = time.monotonic()
                time.sleep(watchdog_s)
                # One look may still have found work just begun.
                late = [at - wedged for at in manager.times("WATCHDOG") if at > wedged + watchdog_s / 2 + 0.2]
                self.assertEqual(late, [], stage)
                daemon.kill()


if __name__ == "__main__":
    unittest.main(verbosity=2)
