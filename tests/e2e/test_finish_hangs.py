#!/usr/bin/python3
# parallel: yes
# sanitizers: no, LD_PRELOAD comes before the sanitizer's own library
# timeout: 300
# takes: 5 s CPU in 60 s
# long: yes, drivers are waited for 10 s and more; what it guards in check is test_stop and test_hung_changes
"""A driver in which clFinish alone never returns (tests/e2e/faulty_opencl.c): as devices are closed, after a batch that the
device refused, and in the process that compiles. SIGTERM and a reload end within their deadlines; exit status, log and
answer say what was cut."""
import json
import os
import signal
import socket
import time
import unittest

import numpy as np

import convolvd as c

CUT = 3
DRAIN_S = 0.5
CLOSE_S = 10  # of drivers
STOP_S = 5  # where nothing but streams is waited for
PREPARE_S = 12


class FinishHangs(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.gate = f"{self.folder}/gate"
        np.save(f"{self.folder}/f.npy", c.random_taps(5, 301))

    def config(self, device, device_keys="", more=""):
        text = (f"[daemon]\ndrain timeout = {DRAIN_S} s\nprepare timeout = {PREPARE_S} s\n"
                f"[device]\ndevice = {device}\nself check = 0\n{device_keys}[filter f]\ntype = file\npath = {self.folder}/f.npy\n")
        return text + self.stream("s", "general") + more

    @staticmethod
    def stream(name, variant):
        return (f"[stream {name}]\nsource = generator\nrate = 48 kHz\nchannels = 2\nwaveform = noise\namplitude = 0.1\n"
                f"filter = f\nblock = 256\nvariant = {variant}\n")

    def daemon(self, config, mode="none", call=0):
        daemon = c.Daemon(self.folder, config, environment={
            "LD_PRELOAD": os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so"), "POCL_DEVICES": "pthread pthread",
            "FAULTY_MODE": mode, "FAULTY_CALL": str(call), "FAULTY_FINISH": "1", "FAULTY_GATE": self.gate})
        self.addCleanup(daemon.kill)
        c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > 1000, "results")
        return daemon

    def hang(self):
        with open(self.gate, "w", encoding="ascii"):
            pass

    def ends(self, daemon, limit_s, code=CUT):
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), code, daemon.output())
        seconds = time.monotonic() - began
        self.assertLess(seconds, limit_s, daemon.output())
        c.note(f"# {self.id()}: {seconds:.2f} s")
        return c.check_ledgers(c.load_json(daemon.status_path))

    def ask(self, command, **arguments):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(c.PATIENCE_S + 2 * PREPARE_S)
            link.connect(f"{self.folder}/control.sock")
            link.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            with link.makefile() as lines:
                return json.loads(lines.readline())

    def test_stop_as_the_device_is_closed(self):
        daemon = self.daemon(self.config("0"))
        self.hang()
        stream = self.ends(daemon, CLOSE_S + 5)["streams"][0]
        self.assertIn("a driver hangs while it is closed", daemon.output())
        self.assertEqual(stream["frames_out"]["out"], stream["frames_in"]["received"] + 300)

    def test_a_refused_batch(self):
        """clFinish follows it, and hangs: the next device goes on, nothing is missing, and a stop does not wait."""
        daemon = self.daemon(self.config("0, 1"), mode="fail", call=1)
        c.wait_for(lambda: daemon.stream("s")["standby"] is not None, "what stands by")
        self.hang()
        daemon.wait_said(" is lost: ")
        before = daemon.stream("s")["frames_out"]["out"]
        c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > before, "results of the next device")
        status = daemon.status()
        self.assertEqual(status["devices"][0]["losses"]["stalled"], 1, daemon.output())
        self.assertEqual(status["devices_abandoned"], 1)
        stream = self.ends(daemon, STOP_S, 0)["streams"][0]
        self.assertEqual(stream["frames_out"]["out"], stream["frames_in"]["received"] + 300)

    def test_stop_behind_a_refused_batch(self):
        daemon = self.daemon(self.config("0"), mode="fail", call=1)
        self.hang()
        daemon.wait_said("CL_OUT_OF_RESOURCES")
        self.ends(daemon, STOP_S)
        self.assertIn("stream s: not processed to its end within the drain timeout", daemon.output())
        self.assertIn("stopped with work left over", daemon.output())

    def reload(self, daemon, device, variant="general", cache=""):
        with open(daemon.path, "w", encoding="utf-8") as file:
            file.write(self.config(device, cache, self.stream("u", variant)))
        began = time.monotonic()
        answer = self.ask("reload")
        c.note(f"# {self.id()}: answered after {time.monotonic() - began:.2f} s")
        self.assertLess(time.monotonic() - began, PREPARE_S + 5, daemon.output())
        return answer

    def cut(self, daemon, answer):
        self.assertFalse(answer["ok"], daemon.output())
        self.assertIn("stream u: it hangs: its plan is built and tested on the device", answer["error"])
        daemon.wait_said("reload refused: stream u: it hangs")
        self.assertEqual(daemon.status()["changes_abandoned"], 1)

    def test_a_reload(self):
        """It hangs behind a batch that the device refused; the next one finds the next device. What it has left behind is
        in the status, and holds up no stop."""
        daemon = self.daemon(self.config("0, 1"), mode="fail", call=1)
        c.wait_for(lambda: daemon.stream("s")["standby"] is not None, "what stands by")
        self.hang()
        self.cut(daemon, self.reload(daemon, "0, 1"))
        c.wait_for(lambda: daemon.status()["devices"][0]["losses"]["stalled"] == 1, "the verdict")
        answer = self.reload(daemon, "0, 1")
        self.assertEqual((answer["ok"], answer.get("kept"), answer.get("changed")), (True, 1, 1), daemon.output())
        c.wait_for(lambda: daemon.stream("u")["frames_out"]["out"] > 1000, "results of the new stream")
        for stream in self.ends(daemon, STOP_S, 0)["streams"]:
            self.assertEqual(stream["frames_out"]["out"], stream["frames_in"]["received"] + 300, daemon.output())

    def test_a_reload_of_the_only_device(self):
        daemon = self.daemon(self.config("0"), mode="fail", call=1)
        self.hang()
        daemon.wait_said("CL_OUT_OF_RESOURCES")
        self.cut(daemon, self.reload(daemon, "0"))
        self.ends(daemon, STOP_S)
        self.assertIn("stopped with work left over", daemon.output())

    def test_a_reload_that_compiles(self):
        """The process that compiles the new plan's kernel hangs: the stream that runs loses nothing."""
        cache = f"cache = {self.folder}/cache\n"
        os.mkdir(f"{self.folder}/cache")
        daemon = self.daemon(self.config("0", cache))
        self.hang()
        self.cut(daemon, self.reload(daemon, "0", "lanes", cache))
        stream = self.ends(daemon, STOP_S, 0)["streams"][0]
        self.assertEqual(stream["frames_out"]["out"], stream["frames_in"]["received"] + 300, daemon.output())


if __name__ == "__main__":
    unittest.main(verbosity=2)
