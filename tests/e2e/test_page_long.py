#!/usr/bin/python3
# timeout: 600
# parallel: waiting, what it does lasts seconds and needs the page to keep up
# takes: 38 s CPU in 118 s
# long: yes, test_page shows the page at work; this one restarts and breaks what is behind it
"""The live page under faults and changes: a gap, restarts of the daemon and of convolv-web, a filter exchanged, marks,
names that look like HTML, exported files."""
import os
import re
import signal
import struct
import subprocess
import time
import unittest
import xml.etree.ElementTree

import numpy as np

import convolvd as c
import page_config
from browser import PageCase, Web

FILTERS = """
[filter band]
type = bandpass
low = 500 Hz
high = 3 kHz
transition = 400 Hz

[filter wide]
type = lowpass
cutoff = 8 kHz
taps = 101
"""


def generated():
    return f"""
[stream vessel]
source = generator
waveform = sine
frequency = 1 kHz
amplitude = 0.5 V
rate = 50 kHz
channels = 2
full scale = 1 V
format = L16
block = 512 frames
filter = band
{FILTERS}"""


def received(port):
    return f"""
[stream vessel]
source = rtp
address = 127.0.0.1:{port}
rate = 50 kHz
channels = 2
format = L16
full scale = 1 V
block = 512 frames
max gap = 1 s
filter = band
{FILTERS}"""


class PageLong(PageCase):
    def token(self):
        """A file of one token with the role control, and the token."""
        said = subprocess.run([os.path.join(c.BUILD, "convolv-web"), "--new-token", "anna", "--role", "control"],
                              capture_output=True, text=True, check=True).stdout
        token = re.search(r"^[0-9a-f]{32,}$", said, re.M).group(0)
        path = os.path.join(self.folder, "tokens")
        with open(path, "w", encoding="ascii") as file:
            file.write(re.search(r"^anna control [0-9a-f]+$", said, re.M).group(0) + "\n")
        os.chmod(path, 0o600)
        return path, token

    def sign_in(self, token):
        self.browser.wait("!document.getElementById('sign-in').hidden", "the key symbol")
        self.browser.click("#sign-in")
        self.browser.script("document.querySelector('dialog input').value = arguments[0]; document.querySelector('dialog form').requestSubmit()", token)
        self.browser.wait("window.convolv.app.role === 'control' && window.convolv.app.commands", "the role control")

    def test_a_gap_is_shown_as_a_gap(self):
        port = c.free_port()
        self.start(received(port))
        self.open("scope?show=minmax&seconds=5&side=both")
        with c.Process("convolv-rig", ["--to", f"127.0.0.1:{port}", "--rate", 50000, "--channels", 2, "--signal", "sine", "--frequency", "1 kHz",
                                       "--amplitude", 0.5, "--seconds", 20, "--skip", "75000:20000", "--quiet"]):
            self.browser.wait("window.convolv?.view.sides.length === 2 && window.convolv.view.sides.every((side) => "
                              "side.plot.scene?.bands.some((band) => !band.unseen && band.to < -0.5 && band.to - band.from > 0.3))", "the gap on both sides")
            bands = self.browser.script("return window.convolv.view.sides.map((side) => side.plot.scene.bands.filter((band) => !band.unseen && band.to < -0.5))")
            for side in bands:
                self.assertAlmostEqual(side[-1]["to"] - side[-1]["from"], 0.4, delta=0.1)  # 20 000 frames at 50 kHz, and the filter's 474
            self.assertIn("absent", bands[0][-1]["text"])
            # The curve has no value there, before and behind it has.
            cursors = self.browser.script("""const side = window.convolv.view.sides[0], band = side.plot.scene.bands.filter((b) => !b.unseen && b.to < -0.5).pop();
                return [(band.from + band.to) / 2, band.from - 0.05, band.to + 0.05].map((x) => Number.isFinite(side.plot.valueAt(0, x)))""")
            self.assertEqual(cursors, [False, True, True])
            # And the overview counts it.
            self.open("overview")
            self.browser.wait("document.querySelector('.stream-head').textContent.includes('20\\u2009000 frames')", "the lost frames")
        self.assertEqual(self.browser.faults(), [])

    def test_restarts_of_both_processes(self):
        self.start(generated())
        self.open("scope?side=input")
        live = "document.querySelector('.lamp').textContent === 'live' && document.getElementById('banner').hidden"
        fresh = f"{live} && performance.now() - window.convolv.view.sides[0].pictureAt < 1000"
        self.browser.wait(f"window.convolv && {fresh}", "pictures")
        self.daemon.stop()
        self.browser.wait("document.getElementById('banner').textContent.includes('daemon is away') && "
                          "document.querySelector('.lamp').textContent === 'daemon away'", "the daemon's absence")
        self.daemon = c.Daemon(self.folder, generated())
        self.browser.wait(fresh, "pictures of the new daemon", 60)
        port = self.web.port()
        self.web.signal(signal.SIGTERM)
        self.web.wait()
        self.browser.wait("document.getElementById('banner').textContent.includes('convolv-web does not answer')", "convolv-web's absence")
        self.web = Web(self.folder, port=port)
        self.browser.wait(fresh, "pictures of the new convolv-web", 60)
        self.assertEqual(self.browser.faults(r"WebSocket connection to .* failed", r"ERR_CONNECTION_REFUSED",
                                             r"api/v1/\w+ - .* 503"), [])

    def test_changes_with_the_role(self):
        tokens, token = self.token()
        self.start(generated(), "--tokens", tokens, "--allow-control")
        self.open("filters")
        self.browser.wait("document.querySelectorAll('tr[data-filter]').length === 2", "the filters")
        self.assertTrue(self.browser.script("return document.getElementById('exchange').disabled"))
        self.sign_in(token)
        self.browser.click("tr[data-filter=wide]")
        self.browser.wait("document.getElementById('exchange').textContent === 'Exchange to wide' && !document.getElementById('exchange').disabled", "the button")
        self.browser.wait("window.convolv.view.taps.scene?.curves[0].values.length === 101", "the taps of the filter")
        self.browser.click("#exchange")
        self.browser.wait("window.convolv.app.events.some((event) => event.kind === 'filter-change' && event.text.includes('wide'))", "the event of the exchange")
        who = self.browser.script("return window.convolv.app.events.find((event) => event.kind === 'filter-change').who")
        self.assertIn("anna", who)
        # A mark that looks like HTML is text.
        self.open("events")
        self.browser.wait("document.querySelector('#transport input') && !document.querySelector('#transport input').disabled", "the field for a mark")
        self.browser.script("const field = document.querySelector('#transport input'); field.value = '<img src=x onerror=alert(1)><b>load</b>';"
                            "field.nextElementSibling.click()")
        self.browser.wait("[...document.querySelectorAll('.events td.text')].some((cell) => cell.textContent.includes('<b>load</b>'))", "the mark as text")
        self.assertEqual(self.browser.script("return document.querySelectorAll('.events b, .events img').length"), 0)
        # A page that is opened later knows what happened before, each event once.
        self.open("events?show=changes")
        self.browser.wait("[...document.querySelectorAll('.events td.text')].filter((cell) => cell.textContent.includes('wide')).length === 1", "the exchange, once")
        # Signed out again, nothing may be changed.
        self.browser.click("#sign-in")
        self.browser.wait("window.convolv.app.role === 'observe' && document.querySelector('.record-button').disabled", "the role observe")
        self.assertEqual(self.browser.faults(), [])

    def test_exported_files(self):
        self.start(generated())
        self.open("scope?side=input&window=0.005&channels=1,2")
        self.browser.wait("window.convolv?.view.sides[0]?.plot.scene", "a picture")
        self.browser.press(" ")
        points = self.browser.script("return window.convolv.view.sides[0].picture.points")
        values = self.browser.script("return Array.from(window.convolv.view.sides[0].picture.values[1])")
        for format_ in ("csv", "npy", "svg", "png"):
            self.browser.click(f"[data-format={format_}]")
        table = np.load(self.browser.downloaded(".npy"))
        self.assertEqual(table.shape, (points, 3))
        np.testing.assert_allclose(table[:, 2], values, rtol=1e-6)
        np.testing.assert_allclose(np.diff(table[:, 0]), 1 / 50000, rtol=1e-6)
        with open(self.browser.downloaded(".csv"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("# stream: vessel\n", text)
        np.testing.assert_allclose(np.loadtxt([line for line in text.splitlines() if line[0] in "-0123456789"], delimiter=","), table, rtol=1e-6)
        drawing = xml.etree.ElementTree.parse(self.browser.downloaded(".svg")).getroot()
        self.assertTrue(drawing.tag.endswith("svg"))
        with open(self.browser.downloaded(".png"), "rb") as file:
            head = file.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">I", head[16:20])[0], 2400)
        self.assertEqual(self.browser.faults(), [])

    # Views of analyses, and what is true once they show something.
    ANALYSES = {"hits": "window.convolv?.view.scatter?.scene?.points.length > 3", "location": "window.convolv?.view.map?.scene?.points.length > 1",
                "gates": "window.convolv?.view.plot?.scene", "vibration": "window.convolv?.view.plot?.scene"}

    def test_a_telephone_shows_everything_within_its_width(self):
        self.start(page_config.EVERYTHING, width=360, height=800, touch=True)
        # What reaches beyond the window, or beyond a row of controls that would have to be moved sideways.
        beyond = """return [...document.querySelectorAll("body *")]
            .filter((e) => e.offsetParent && !e.closest(".scroll *") && (e.getBoundingClientRect().right > 360.5 || (e.matches(".controls, .controls *") && !e.matches("select, input, svg, svg *") && e.scrollWidth > e.clientWidth)))
            .map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`)"""
        for view in ("overview", "scope", "ascan?period=0.02&frames=500", "spectrum", "latency", "filters", "events", *self.ANALYSES):
            self.open(view)
            self.browser.wait("window.convolv?.app.stream()", f"status on {view}")
            if view in self.ANALYSES:  # with a value chosen, and listed
                self.browser.wait(self.ANALYSES[view], f"an event on {view}")
                self.browser.script("window.convolv.view.pick?.(window.convolv.view.source.events().at(-1))")
                self.browser.wait("document.querySelectorAll('.values dd').length > 5", f"values on {view}")
                self.assertEqual(self.browser.script("return [...document.querySelectorAll('.values div')].filter((row) => row.scrollWidth > row.clientWidth).length"), 0)
            time.sleep(0.5)
            with self.subTest(view):
                self.assertEqual(self.browser.script(beyond), [])
                self.assertLessEqual(self.browser.script("return document.documentElement.scrollWidth"), 360)
        self.assertTrue(self.browser.script("return document.querySelector('button[aria-label=Keys]').offsetParent !== null"))
        self.assertEqual(self.browser.faults(), [])


if __name__ == "__main__":
    unittest.main()
