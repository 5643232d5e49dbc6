#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 60 s
"""What prepares a start, a reload or a change and does not come back is cut off after `prepare timeout`: whoever asked
gets an answer, the log says what hangs, what runs runs on, and the next change works."""
import json
import os
import signal
import socket
import time
import unittest

import numpy as np

import convolvd as c

# `prepare timeout`: longer than any step that does not hang takes on a busy machine; where a device is lost, another
# one compiles meanwhile.
HANGING_S = 12 if c.SANITIZED else 3
HANGING_DEVICE_S = 3 * HANGING_S
CUT_S = 2 * HANGING_DEVICE_S  # what is waited for


class HungChanges(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("one", "two", "three"):
            np.save(f"{self.folder}/{name}.npy", c.random_taps(len(name), 63))

    def config(self, device="0", extra=""):
        timeout_s = HANGING_S if device == "0" else HANGING_DEVICE_S
        text = (f"[daemon]\nprepare timeout = {timeout_s} s\n[device]\ndevice = {device}\nself check = 0\n")
        for name in ("one", "two", "three"):
            text += f"[filter {name}]\ntype = file\npath = {self.folder}/{name}.npy\n"
        for name in ("s", "t"):
            text += (f"[stream {name}]\nsource = generator\nrate = 48 kHz\nchannels = 2\nwaveform = noise\n"
                     "amplitude = 0.1\nfilter = one\nblock = 256\n")
        return text + extra

    def daemon(self, config, **more):
        return c.Daemon(self.folder, config, program="convolvd-test",
                        environment={"POCL_DEVICES": "pthread pthread"}, **more)

    def ask(self, command, **arguments):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(c.PATIENCE_S + CUT_S)
            link.connect(f"{self.folder}/control.sock")
            link.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            with link.makefile() as lines:
                return json.loads(lines.readline())

    def cut(self, answer):
        self.assertFalse(answer["ok"], answer)
        self.assertIn("hangs", answer["error"])

    def nothing_lost(self, daemon):
        for stream in daemon.status()["streams"]:
            self.assertEqual(sum(stream["frames_out"]["shed"].values()), 0, daemon.output())

    def test_a_start(self):
        """Ends with a status that systemd takes for a failure."""
        for stage, says in (("filters", "stream s: the start hangs: its filters are read or designed"),
                            ("plan", "stream s: the start hangs: its plan is built and tested on the device")):
            # Pending when the program begins: a fork forgets it, so the child has to send it to itself.
            signal.pthread_sigmask(signal.SIG_BLOCK, {c.WEDGES[stage]})
            try:
                with self.subTest(stage=stage), \
                     self.daemon(self.config(), wait=False,
                                 before=lambda number=c.WEDGES[stage]: os.kill(os.getpid(), number)) as daemon:
                    self.assertEqual(daemon.wait(c.PATIENCE_S + CUT_S), 1, daemon.output())
                    self.assertIn(says, daemon.output())
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {c.WEDGES[stage]})

    def test_a_filter_that_cannot_be_read(self):
        with self.daemon(self.config()) as daemon:
            for count in range(1, 4):
                daemon.signal(c.WEDGES["filters"])
                began = time.monotonic()
                answer = self.ask("filter", stream="s", filter="two")
                self.cut(answer)
                self.assertIn("filters are read or designed", answer["error"])
                self.assertGreater(time.monotonic() - began, 0.8 * HANGING_S)
                self.assertEqual(daemon.status()["changes_abandoned"], count)
                if count < 3:
                    self.assertTrue(self.ask("filter", stream="t", filter="three", how="hard")["ok"], daemon.output())
                    self.assertTrue(self.ask("gain", stream="s", gain_db=-count)["ok"], daemon.output())
            daemon.wait_said("stream s: the change hangs: its filters are read or designed")
            self.assertEqual([d["state"] for d in daemon.status()["devices"]], ["works"])
            # A fourth is not risked.
            answer = self.ask("gain", stream="t", gain_db=-1)
            self.assertFalse(answer["ok"], answer)
            self.assertIn("restart the daemon", answer["error"])
            daemon.signal(c.UNWEDGE)
            c.wait_for(lambda: daemon.status()["changes_abandoned"] == 0, "the threads to come back")
            self.assertTrue(self.ask("gain", stream="t", gain_db=-1)["ok"], daemon.output())
            self.nothing_lost(daemon)
            daemon.stop()

    def test_a_response_whose_filter_cannot_be_read(self):
        """Three are left behind; changes go on meanwhile."""
        with self.daemon(self.config()) as daemon:
            for count in range(1, 4):
                daemon.signal(c.WEDGES["filter"])
                answer = self.ask("response", stream="s", filter="two")
                self.cut(answer)
                self.assertIn("a filter is read or designed", answer["error"])
                self.assertEqual(daemon.status()["responses_abandoned"], count)
            daemon.wait_said("stream s: the response hangs: a filter is read or designed")
            # A fourth is not risked.
            answer = self.ask("response", stream="s")
            self.assertFalse(answer["ok"], answer)
            self.assertIn("restart the daemon", answer["error"])
            self.assertEqual(daemon.status()["changes_abandoned"], 0)
            self.assertTrue(self.ask("filter", stream="s", filter="two")["ok"], daemon.output())
            daemon.signal(c.UNWEDGE)
            c.wait_for(lambda: self.ask("response", stream="s")["ok"], "a thread to come back")
            c.wait_for(lambda: daemon.status()["responses_abandoned"] == 0, "the others")
            self.nothing_lost(daemon)
            # One that hangs holds up no stop.
            daemon.signal(c.WEDGES["filter"])
            self.cut(self.ask("response", stream="s"))
            daemon.stop()

    def test_a_device_that_hangs_while_another_stands_by(self):
        with self.daemon(self.config(device="0, 1")) as daemon:
            c.wait_for(lambda: all(s["standby"] is not None for s in daemon.status()["streams"]), "what stands by")
            daemon.signal(c.WEDGES["plan"])
            answer = self.ask("filter", stream="s", filter="two")
            self.cut(answer)
            self.assertEqual(answer["code"], "device")
            c.wait_for(lambda: daemon.status()["devices"][0]["losses"]["stalled"] == 1, "the verdict")
            self.assertTrue(self.ask("filter", stream="s", filter="two")["ok"], daemon.output())
            self.assertTrue(self.ask("filter", stream="t", filter="three")["ok"], daemon.output())
            self.assertEqual(daemon.status()["changes_abandoned"], 1)
            daemon.signal(c.UNWEDGE)
            c.wait_for(lambda: daemon.status()["changes_abandoned"] == 0, "the thread to come back")
            self.nothing_lost(daemon)
            daemon.stop()

    def test_the_only_device_hangs(self):
        with self.daemon(self.config()) as daemon:
            daemon.signal(c.WEDGES["plan"])
            self.cut(self.ask("filter", stream="s", filter="two"))
            # The next one is refused at once: its thread would wait for the first.
            began = time.monotonic()
            answer = self.ask("filter", stream="s", filter="three")
            self.assertFalse(answer["ok"], answer)
            self.assertIn("does not come back", answer["error"])
            self.assertLess(time.monotonic() - began, 0.8 * HANGING_S)
            daemon.wait_said("goes on computing, since nothing stands by")
            before = daemon.stream("s")["frames_out"]["out"]
            c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > before, "results")
            daemon.signal(c.UNWEDGE)
            c.wait_for(lambda: daemon.status()["changes_abandoned"] == 0, "the thread to come back")
            self.assertTrue(self.ask("filter", stream="s", filter="three")["ok"], daemon.output())
            self.nothing_lost(daemon)
            daemon.stop()

    def reloads(self, daemon, extra, device="0"):
        with open(daemon.path, "w", encoding="utf-8") as file:
            file.write(self.config(device, extra))
        return self.ask("reload")

    def test_a_reload_whose_filter_cannot_be_read(self):
        more = ("[stream u]\nsource = generator\nrate = 48 kHz\nchannels = 1\nwaveform = noise\namplitude = 0.1\n"
                "filter = two\nblock = 256\n")
        with self.daemon(self.config()) as daemon:
            daemon.signal(c.WEDGES["filters"])
            answer = self.reloads(daemon, more)
            self.cut(answer)
            self.assertIn("stream u: it hangs: its filters are read or designed", answer["error"])
            daemon.wait_said("reload refused: stream u: it hangs")
            self.assertEqual(daemon.status()["changes_abandoned"], 1)
            answer = self.reloads(daemon, more)
            self.assertTrue(answer["ok"], f"{answer}\n{daemon.output()}")
            self.assertEqual((answer["ok"], answer["kept"], answer["changed"]), (True, 2, 1), daemon.output())
            daemon.signal(c.UNWEDGE)
            c.wait_for(lambda: daemon.status()["changes_abandoned"] == 0, "the thread to come back")
            self.assertEqual([s["name"] for s in daemon.status()["streams"]], ["s", "t", "u"])
            answer = self.reloads(daemon, "")
            self.assertTrue(answer["ok"], f"{answer}\n{daemon.output()}")
            self.assertEqual((answer["ok"], answer["kept"], answer["removed"]), (True, 2, 1), daemon.output())
            self.nothing_lost(daemon)
            daemon.stop()

    def test_a_reload_on_a_device_that_hangs(self):
        """What the late thread has made by then, a stream that reads another one too, is closed when it comes back."""
        more = ("[stream u]\nsource = stream s\nfilter = two\n[stream v]\nsource = generator\nrate = 48 kHz\nchannels = 1\n"
                "waveform = noise\namplitude = 0.1\nfilter = two\nblock = 256\n")
        with self.daemon(self.config(device="0, 1")) as daemon:
            c.wait_for(lambda: all(s["standby"] is not None for s in daemon.status()["streams"]), "what stands by")
            daemon.signal(c.WEDGES["plan"])
            answer = self.reloads(daemon, more, "0, 1")
            self.cut(answer)
            self.assertEqual(answer["code"], "config")
            c.wait_for(lambda: daemon.status()["devices"][0]["losses"]["stalled"] == 1, "the verdict")
            answer = self.reloads(daemon, more, "0, 1")
            self.assertTrue(answer["ok"], f"{answer}\n{daemon.output()}")
            self.assertEqual((answer["ok"], answer["kept"], answer["changed"]), (True, 2, 2), daemon.output())
            answer = self.reloads(daemon, "", "0, 1")
            self.assertTrue(answer["ok"], f"{answer}\n{daemon.output()}")
            self.assertEqual((answer["ok"], answer["kept"], answer["removed"]), (True, 2, 2), daemon.output())
            self.assertEqual(daemon.status()["changes_abandoned"], 1)
            daemon.signal(c.UNWEDGE)
            c.wait_for(lambda: daemon.status()["changes_abandoned"] == 0, "the thread to come back")
            answer = self.reloads(daemon, more, "0, 1")
            self.assertTrue(answer["ok"], f"{answer}\n{daemon.output()}")
            self.assertEqual((answer["ok"], answer["kept"], answer["changed"]), (True, 2, 2), daemon.output())
            self.nothing_lost(daemon)
            daemon.stop()

    def test_what_was_replaced_hangs(self):
        more = ("[stream u]\nsource = generator\nrate = 48 kHz\nchannels = 1\nwaveform = noise\namplitude = 0.1\n"
                "filter = two\nblock = 256\n")
        with self.daemon(self.config("0, 1", more)) as daemon:
            c.wait_for(lambda: all(s["standby"] is not None for s in daemon.status()["streams"]), "what stands by")
            daemon.signal(c.WEDGES["free"])
            self.assertEqual(self.reloads(daemon, "", "0, 1")["removed"], 1)
            answer = self.reloads(daemon, more, "0, 1")  # waits for what is freed, or does not come back
            self.assertTrue(answer["ok"], f"{answer} {daemon.output()}")
            self.assertTrue(answer["ok"], f"{answer}\n{daemon.output()}")
            self.assertEqual((answer["ok"], answer["kept"], answer["changed"]), (True, 2, 1), daemon.output())
            daemon.wait_said("what a reload has replaced cannot be freed: stream u: it hangs")
            daemon.signal(c.UNWEDGE)
            c.wait_for(lambda: daemon.status()["changes_abandoned"] == 0, "the thread to come back")
            self.nothing_lost(daemon)
            daemon.stop()

    def test_stopped_with_one_left_behind(self):
        with self.daemon(self.config()) as daemon:
            daemon.signal(c.WEDGES["filters"])
            self.cut(self.ask("filter", stream="s", filter="two"))
            began = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - began, c.PATIENCE_S / 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
