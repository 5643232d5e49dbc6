#!/usr/bin/python3
# parallel: yes
# takes: 3 s CPU in 6 s
"""A source that has an end is stopped before it: the log says at which frame, sidecars are not complete, Ctrl-C gives
130 and SIGTERM 0. A source without an end is stopped in order. On a terminal the run says how far it is."""
import os
import pty
import re
import signal
import subprocess
import unittest

import convolvd as c

RATE, FRAMES = 8000, 480000  # a minute

SOURCES = {
    "file": "source = file\npath = x.wav\npace = realtime\n",
    "generator": f"source = generator\nrate = {RATE} Hz\nchannels = 1\nwaveform = noise\nduration = {FRAMES} frames\npace = realtime\n",
}
ENDLESS = {
    "looped": "source = file\npath = x.wav\npace = realtime\nloop = yes\n",
    "generator": f"source = generator\nrate = {RATE} Hz\nchannels = 1\nwaveform = noise\npace = realtime\n",
}


class Interrupt(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)
        c.write_wav16(os.path.join(self.folder, "x.wav"), RATE, c.noise_codes(1, FRAMES, 1))

    def config(self, source, recordings):
        text = f"[stream s]\n{source}block = 64\nfilter = f\n[stream chained]\nsource = stream s\nfilter = f\n[filter f]\ntype = identity\n"
        for name, keys in recordings.items():
            text += f"[sink {name}]\ntype = recording\npath = {self.folder}/{name}.wav\n{keys}\n"
        return text

    def recordings(self, prefix):
        return {f"{prefix}-out": "stream = s", f"{prefix}-raw": "stream = s\nrecord = input", f"{prefix}-chained": "stream = chained"}

    def sidecar(self, name):
        return c.load_json(f"{self.folder}/{name}.wav.json")

    def test_a_source_with_an_end(self):
        for kind, source in SOURCES.items():
            for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
                with self.subTest(kind=kind, signal=number):
                    recordings = self.recordings(f"{kind}-{int(number)}")
                    with c.Daemon(self.folder, self.config(source, recordings)) as daemon:
                        c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > 1000, "results")
                        status = daemon.stop(number, code)
                    received = next(s for s in status["streams"] if s["name"] == "s")["frames_in"]["received"]
                    self.assertIn(f"stream s: interrupted; the last frame read is {received - 1} of {FRAMES}", daemon.output())
                    for name in recordings:
                        sidecar = self.sidecar(name)
                        self.assertEqual((sidecar["ended"], sidecar["complete"], sidecar["error"]), ("interrupted", False, None))
                        self.assertEqual(sidecar["frames"], received)
        before = {name: self.sidecar(name) for name in recordings}
        with c.Daemon(self.folder, self.config(source, recordings)) as daemon:
            daemon.stop()
            self.assertFalse(daemon.said("is repaired"))
        self.assertEqual({name: self.sidecar(name) for name in recordings}, before)

    def test_a_source_without_an_end(self):
        for kind, source in ENDLESS.items():
            with self.subTest(kind=kind):
                recordings = self.recordings(kind)
                with c.Daemon(self.folder, self.config(source, recordings)) as daemon:
                    c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > 1000, "results")
                    daemon.stop(signal.SIGINT)
                for name in recordings:
                    self.assertEqual((self.sidecar(name)["ended"], self.sidecar(name)["complete"]), ("end", True))
                self.assertFalse(daemon.said("interrupted"))

    def test_a_reload_that_replaces_the_stream(self):
        recordings = {"reloaded": "stream = s"}
        with c.Daemon(self.folder, self.config(SOURCES["file"], recordings)) as daemon:
            c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > 1000, "results")
            with open(daemon.path, encoding="utf-8") as file:
                text = file.read()
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(text.replace("block = 64", "block = 128"))
            daemon.signal(signal.SIGHUP)
            daemon.wait_said("interrupted; the last frame read is")
            path = f"{self.folder}/reloaded.wav.json"
            c.wait_for(lambda: os.path.exists(path) and c.load_json(path)["ended"] is not None, "the end of the first file")
            daemon.stop()
        self.assertEqual(self.sidecar("reloaded")["ended"], "interrupted")

    def test_progress_on_a_terminal(self):
        path = os.path.join(self.folder, "convolvd.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[device]\ndevice = {c.DEVICE}\n" + self.config(SOURCES["file"], {}))
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = subprocess.Popen([os.path.join(c.BUILD, "convolvd"), "--config", path], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "RUNTIME_DIRECTORY": self.folder})
        self.addCleanup(process.kill)
        os.close(theirs)
        said = ""
        line = re.compile(r"\r\x1b\[Kstream s: \d+ %, [0-9.]+ s of 60 s, [0-9.]+ times real time")
        while not line.search(said):
            said += os.read(ours, 4096).decode()
        process.send_signal(signal.SIGINT)
        try:
            while more := os.read(ours, 4096).decode():
                said += more
        except OSError:  # EIO: the other end is closed
            pass
        self.assertEqual(process.wait(c.PATIENCE_S), 130)
        # The log takes the place of the line, and nothing follows it.
        self.assertRegex(said, r"times real time\r\x1b\[Kconvolvd: ")
        self.assertNotIn("times real time", said[said.index("Interrupt: stopping"):])

    def test_no_progress_elsewhere(self):
        with c.Daemon(self.folder, self.config(SOURCES["file"], {})) as daemon:
            c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > RATE, "a second of results")
            daemon.stop()
            self.assertFalse(daemon.said("times real time"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
