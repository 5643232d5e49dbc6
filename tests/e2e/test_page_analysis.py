#!/usr/bin/python3
# timeout: 180
# parallel: yes
# takes: 3 s CPU in 5 s
"""Analyses on the live page, in Chromium before the real convolv-web and daemon: hits come, one that is clicked shows its
transient and the values that the daemon's own command tells of it, sources lie on the map; tabs are there where the
configuration has an analysis of their kind."""
import base64
import json
import socket
import unittest

import numpy as np

import convolvd as c
from browser import Browser, Web

RATE_HZ, CHANNELS = 200_000, 2

CONFIG = f"""
[stream vessel]
source = generator
waveform = ae
rate = {RATE_HZ} Hz
channels = {CHANNELS}
full scale = 1 V
format = L16
block = 512 frames
filter = band

[filter band]
type = bandpass
low = 5 kHz
high = 80 kHz
transition = 5 kHz

[analysis bursts]
type = hits
stream = vessel
threshold = 60 dB
pre-trigger = 100 us
max record = 5 ms

[analysis minutes]
type = intervals
stream = vessel
interval = 100 ms
"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = c.temporary()
        cls.daemon = c.Daemon(cls.folder.name, CONFIG)
        cls.web = Web(cls.folder.name)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.web.kill()
        cls.daemon.kill()
        cls.folder.cleanup()

    def ask(self, request):
        """The daemon's answer on its own socket."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(c.PATIENCE_S)
            link.connect(f"{self.folder.name}/observe.sock")
            link.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(link.makefile("rb").readline())

    def test_a_clicked_hit_shows_what_the_daemon_says_of_it(self):
        self.browser.open(f"{self.web.url}/#/hits")
        self.browser.wait("window.convolv?.view.shown?.().length > 3", "hits on the page")
        self.browser.wait("window.convolv.view.scatter.scene?.points.length > 3", "points")
        # Channels differ by marks, not by colour alone, and the panel says which is whose.
        self.browser.wait("new Set(window.convolv.view.scatter.scene.points.map(point => point.mark)).size === 2", "points of both channels")
        self.assertTrue(self.browser.script("return window.convolv.view.scatter.scene.points.every(point => point.mark === point.data.channel - 1)"))
        self.browser.wait("window.convolv.view.scatterPanel.element.textContent.includes('channel ● 1  ■ 2')", "the marks' legend")
        # What each channel adds up to: a row a channel, and the daemon's own sums.
        self.browser.wait(f"window.convolv.view.totals.querySelectorAll('tr').length === {CHANNELS}", "rates and sums")
        shown = self.browser.script("return [...window.convolv.view.totals.querySelectorAll('tr')].map(row => [...row.children].map(cell => cell.textContent))")
        status = self.ask({"command": "status", "format": "json"})["status"]
        totals = next(a for a in status["streams"][0]["analyses"] if a["name"] == "bursts")["totals"]
        self.assertEqual([row[0] for row in shown], ["1", "2"])
        for row, total in zip(shown, totals):
            self.assertEqual(len(row), 9)
            self.assertTrue(0 < int(row[2].replace("\u2009", "")) <= total["events"], row)
        number = self.browser.script("""
            const view = window.convolv.view, plot = view.scatter, point = plot.scene.points.at(-1), { px, py } = plot.mapping();
            const box = plot.canvas.getBoundingClientRect(), at = { clientX: box.left + px(point.x), clientY: box.top + py(point.y), bubbles: true, pointerId: 1, button: 0 };
            plot.layer.setPointerCapture = () => {};
            for (const type of ['pointerdown', 'pointerup']) plot.layer.dispatchEvent(new PointerEvent(type, at));
            return view.chosenEvent?.number ?? null;""")
        self.assertIsNotNone(number)
        self.browser.wait("window.convolv.view.wave !== undefined && window.convolv.view.wave !== null", "the transient")
        shown = self.browser.script("const { event, values, first, rateHz } = window.convolv.view.wave; return { event, values: [...values], first, rateHz };")
        told = self.ask({"command": "transient", "analysis": "bursts", "number": shown["event"]["number"]})
        self.assertEqual(shown["event"]["number"], number)
        self.assertEqual((shown["first"], shown["rateHz"]), (told["first_sample"], RATE_HZ))
        samples = np.frombuffer(base64.b64decode(told["samples"]), dtype="<f4")
        self.assertTrue(np.array_equal(np.float32(shown["values"]), samples))
        self.assertEqual(shown["event"]["values"], told["event"]["values"])
        # The peak of the transient lies where the values say, and is what they say.
        peak = round(told["event"]["values"]["rise_us"] * 1e-6 * RATE_HZ) - told["first_sample"]
        self.assertEqual(np.abs(samples[peak]), np.float32(told["event"]["values"]["amplitude"]))
        self.browser.wait("document.querySelector('#view').innerText.includes('energy')", "its values")
        self.assertEqual(self.browser.faults(), [])

    def test_tabs_are_those_of_the_configuration(self):
        self.browser.open("about:blank")
        self.browser.open(f"{self.web.url}/#/overview")
        self.browser.wait("window.convolv?.app.analyses.length === 2", "the analyses")
        tabs = self.browser.script("return [...document.querySelectorAll('#tabs a')].filter((tab) => !tab.hidden).map((tab) => tab.firstChild.textContent)")
        self.assertIn("Hits", tabs)
        self.assertFalse({"Location", "Gates", "Vibration"} & set(tabs))

    def test_nobody_looks_and_nothing_is_asked_for(self):
        self.browser.open("about:blank")
        self.browser.open(f"{self.web.url}/#/hits")
        self.browser.wait("window.convolv?.view.shown?.().length > 0", "hits")
        self.browser.script("location.hash = '#/overview'")
        self.browser.wait("window.convolv.app.link.wants.size >= 0 && ![...window.convolv.app.link.wants.values()].some((want) => want.message.view === 'hits')", "the want is dropped")


if __name__ == "__main__":
    unittest.main()
