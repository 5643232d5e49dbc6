#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 2 s
"""The command `response`: what it says of filters equals numpy's transform of the taps that --design writes; a reload
in between and a filter that cannot be made harm nobody."""
import os
import subprocess
import unittest

import numpy as np

import convolvd as c
from test_control import Link

RATE_HZ = 48000

CONFIG = """
[stream s]
source = generator
rate = 48 kHz
channels = 2
format = L16
block = 256
filter = band

[filter band]
type = bandpass
low = 4 kHz
high = 8 kHz
transition = 1 kHz

[filter analytic]
type = bandpass
low = 4 kHz
high = 8 kHz
transition = 1 kHz
analytic = yes

[filter long]
type = lowpass
cutoff = 2 kHz
taps = 30001
"""


class Response(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.daemon = c.Daemon(self.folder, CONFIG)
        self.addCleanup(self.daemon.kill)
        self.link = Link(self.folder, "observe")
        self.addCleanup(self.link.close)

    def design(self, name):
        path = os.path.join(self.folder, f"{name}.npy")
        subprocess.run([os.path.join(c.BUILD, "convolvd"), "--config", self.daemon.path, "--design", name, "--out", path],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return np.load(path).reshape(-1)

    def check(self, filter_, taps):
        self.assertEqual(filter_["taps"], len(taps))
        self.assertEqual(filter_["delay_frames"], (len(taps) - 1) / 2)
        points = len(filter_["magnitude_db"])
        self.assertEqual(points, 1024)
        got = np.array(filter_["magnitude_db"])
        frequencies = filter_["first_hz"] + filter_["step_hz"] * np.arange(points)
        self.assertAlmostEqual(frequencies[0], -RATE_HZ / 2 if np.iscomplexobj(taps) else 0)
        self.assertAlmostEqual(frequencies[-1] + filter_["step_hz"], RATE_HZ / 2)
        # The largest within each step: from below never more than the definition's largest, nor less than at its start.
        n = np.arange(len(taps))
        for k in (1, 100, 171, 250, 400, 681, 1000):
            at = [abs(np.dot(taps, np.exp(-2j * np.pi * f * n / RATE_HZ))) for f in frequencies[k] + filter_["step_hz"] * np.linspace(0, 1, 65)]
            self.assertGreaterEqual(got[k], 20 * np.log10(at[0]) - 1e-6)
            self.assertLessEqual(got[k], 20 * np.log10(max(at)) + 0.05)

    def test_figures(self):
        answer = self.link.ask("response", stream="s")
        self.assertTrue(answer["ok"], answer)
        filters = {f["name"]: f for f in answer["filters"]}
        self.assertEqual(sorted(filters), ["analytic", "band", "long"])
        self.check(filters["band"], self.design("band"))
        self.assertEqual((filters["band"]["configured"], filters["long"]["configured"]), (True, False))
        self.assertNotIn("magnitude_db", filters["long"])
        np.testing.assert_allclose(filters["band"]["tap_values"], self.design("band"), atol=1e-15)

        for name in ("analytic", "long"):
            one, = self.link.ask("response", stream="s", filter=name)["filters"]
            self.check(one, self.design(name))
        taps = self.design("long")
        self.assertEqual(one["tap_step"], 15)
        self.assertEqual(len(one["tap_values"]), 2001)
        self.assertEqual(max(map(abs, one["tap_values"])), max(abs(taps)))

    def test_what_is_not_there(self):
        self.assertEqual(self.link.ask("response", stream="s", filter="none")["code"], "filter")
        self.assertEqual(self.link.ask("response", stream="none")["code"], "stream")

    def test_a_reload_in_between(self):
        links = [Link(self.folder, "observe") for _ in range(2)]
        control = Link(self.folder, "control")
        for link in (*links, control):
            self.addCleanup(link.close)
        for turn in range(3):
            with open(self.daemon.path, "a", encoding="utf-8") as file:
                file.write(f"[filter more{turn}]\ntype = lowpass\ncutoff = 3 kHz\ntaps = {30001 + 2 * turn}\n")
            for link in links:
                link.socket.sendall(b'{"command": "response", "stream": "s", "filter": "long"}\n')
            self.assertTrue(control.ask("reload")["ok"])
            for link in links:
                answer = link.read()
                self.assertEqual(answer["filters"][0]["taps"] if answer["ok"] else answer["code"], 30001 if answer["ok"] else "busy")
        self.daemon.stop()


if __name__ == "__main__":
    unittest.main()
