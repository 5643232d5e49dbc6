#!/usr/bin/python3
# timeout: 180
# parallel: yes
# takes: 7 s CPU in 15 s
"""The live page in Chromium, before the real convolv-web and daemon: it connects, shows what the generator sends (a
known sine, read with the cursors where its pixels are), tells channels apart without colours, may not change anything
without the role, and says nothing in the console. test_page_long.py goes on from here."""
import unittest
import xml.etree.ElementTree

import convolvd as c
from browser import Browser, Web
from page_config import AMPLITUDE_V, FREQUENCY_HZ, vessel

CONFIG = vessel(4)

# The column and row of each maximum of the blue curve in the first plot: the rows that hold its colour, highest
# first, in CSS pixels of the window.
PEAKS = """
    const plot = document.querySelector('.plot-canvas'), canvas = [...plot.querySelectorAll('canvas')].find((one) => {
        const data = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;
        return data.some((value) => value > 0); });
    const { width, height } = canvas, data = canvas.getContext('2d').getImageData(0, 0, width, height).data, box = canvas.getBoundingClientRect();
    const curve = (x, y) => { const at = 4 * (y * width + x); return data[at + 3] > 120 && data[at + 2] > 180 && data[at] < 130; };
    const tops = [];
    for (let x = 60; x < width - 12; x++) {
        let y = 20;
        while (y < height && !curve(x, y)) y++;
        tops.push(y);
    }
    const least = Math.min(...tops), peaks = [];
    for (let i = 0; i < tops.length; i++)
        if (tops[i] <= least + 1) {
            const from = i;
            while (i < tops.length && tops[i] <= least + 1) i++;
            peaks.push(60 + (from + i - 1) / 2);
        }
    return peaks.map((x) => ({ x: box.left + x * box.width / width, y: box.top + box.height / 2 }));
"""

# From now on, what is written on canvases of the document, and where: [text, x, y].
LISTEN = """
    const write = CanvasRenderingContext2D.prototype.fillText;
    window.written = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        if (this.canvas.isConnected && this.canvas.offsetParent)
            window.written.push([text, x, y]);
        write.call(this, text, x, y);
    };
"""

# What is written beside the first plot as it is drawn anew: [[text, x, y]], and where each line leaves it, in pixels.
BESIDE = """
    const plot = window.convolv.view.sides?.[0].plot ?? window.convolv.view.plot;
    window.written = [];
    plot.redraw();
    const area = plot.area(), [bottom, top] = plot.shownY(), end = plot.shownX()[1];
    return { beside: window.written.filter(([, x]) => x > area.x + area.w), top: area.y, bottom: area.y + area.h,
        ends: plot.scene.curves.map((_, i) => area.y + area.h - (plot.valueAt(i, end) - bottom) / (top - bottom) * area.h) };
"""
LABEL_PX = 13


def number(text):
    """"499.9 mV" → 0.4999."""
    value, unit = text.replace("−", "-").split(" ")
    return float(value) * {"m": 1e-3, "µ": 1e-6, "k": 1e3, "n": 1e-9}.get(unit[0] if len(unit) > 1 else "", 1)


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

    def open(self, view):
        self.browser.open("about:blank")
        self.browser.open(f"{self.web.url}/#/{view}")

    def test_overview(self):
        self.open("overview")
        self.browser.wait("document.querySelectorAll('.tile.ok').length === 4", "four tiles that are ok")
        self.browser.wait("document.querySelector('.lamp').textContent === 'live'", "the lamp")
        # 0.5 V are 114.0 dB(AE); in the unit, 500 mV.
        self.browser.wait("document.querySelector('.tile .value').textContent === '114.0'", "the level of the sine")
        self.assertIn("dB(AE)", self.browser.text(".stream-head"))
        self.browser.open(f"{self.web.url}/#/overview?level=unit")
        self.browser.wait("document.querySelector('.tile .value').textContent === '499 mV'", "the level in volts: no sample of 50 a period is on the crest")
        self.assertEqual(self.browser.faults(), [])

    def test_cursors_read_the_sine(self):
        self.open("scope?side=input&trigger=level&before=0&window=0.005")
        self.browser.wait("document.querySelector('.plot-canvas canvas') && window.convolv.view.sides[0].picture?.triggered", "a triggered picture")
        self.browser.press(" ")
        self.browser.wait("document.querySelector('.lamp').textContent === 'paused'", "the pause")
        peaks = self.browser.script(PEAKS)
        self.assertIn(len(peaks), (4, 5, 6), peaks)  # 5 ms of 1 kHz
        for peak, shift in ((peaks[1], False), (peaks[2], True)):
            self.browser.click_at(peak["x"], peak["y"], shift)
        self.browser.wait("document.querySelector('[data-cursor=inverse]').textContent !== '–'", "both cursors")
        frequency, value = number(self.browser.text("[data-cursor=inverse]")), number(self.browser.text("[data-value=a]"))
        self.assertAlmostEqual(frequency, FREQUENCY_HZ, delta=0.02 * FREQUENCY_HZ)
        self.assertAlmostEqual(value, AMPLITUDE_V, delta=0.01 * AMPLITUDE_V)
        # The address now holds the cursors: loaded again, it shows them again.
        address = self.browser.script("return location.href")
        self.browser.open("about:blank")
        self.browser.open(address)
        self.browser.wait("document.querySelector('[data-cursor=inverse]')?.textContent !== '–'", "the cursors of the address")
        self.assertAlmostEqual(number(self.browser.text("[data-cursor=inverse]")), frequency, delta=1e-3 * frequency)
        self.assertEqual(self.browser.faults(), [])

    def test_spectrum_names_the_line(self):
        self.open("spectrum?fft=4096&average=4")
        self.browser.wait("document.querySelector('[data-value=\"largest line\"]')?.textContent.includes('kHz')", "the largest line")
        line = self.browser.text('[data-value="largest line"]').split(",")[0]
        self.assertAlmostEqual(number(line), FREQUENCY_HZ, delta=2)
        self.assertAlmostEqual(number(self.browser.text('[data-value="RMS of the span"]')), AMPLITUDE_V / 2 ** 0.5, delta=0.01)
        self.assertEqual(self.browser.faults(), [])

    def numbered(self, labels, ends, what):
        """Each channel's number is there, in the order of the lines, and no two overlap."""
        with self.subTest(what):
            by_line = sorted(range(len(ends)), key=lambda i: ends[i])
            self.assertEqual([text for text, _ in sorted(labels, key=lambda label: label[1])], [str(i + 1) for i in by_line])
            places = sorted(y for _, y in labels)
            self.assertTrue(all(below - above >= LABEL_PX for above, below in zip(places, places[1:])), places)

    def test_lines_are_told_apart_without_colours(self):
        """At the right end of each line stands the number of its channel, on the page, in the drawing and in the picture."""
        self.open("scope?side=input&trigger=level&before=0&window=0.005&channels=1,2,3,4")
        self.browser.wait("window.convolv?.view.sides[0]?.picture?.triggered", "a triggered picture")
        self.browser.press(" ")
        self.browser.script(LISTEN)
        seen = self.browser.script(BESIDE)
        self.numbered([(text, y) for text, _, y in seen["beside"]], seen["ends"], "page")
        for (_, _, y) in seen["beside"]:
            self.assertTrue(seen["top"] <= y <= seen["bottom"], seen)
        # All lines end as good as together here: the numbers still do not overlap.
        self.browser.script("window.convolv.view.sides[0].plot.setYWindow([-50, 50])")
        crowded = self.browser.script(BESIDE)
        self.assertLess(max(crowded["ends"]) - min(crowded["ends"]), LABEL_PX)
        self.numbered([(text, y) for text, _, y in crowded["beside"]], crowded["ends"], "crowded")
        self.browser.script("window.convolv.view.sides[0].plot.setYWindow(null)")
        # What is exported has them, too: as text, and as ink that no colour is needed for.
        self.browser.click("[data-format=svg]")
        drawing = xml.etree.ElementTree.parse(self.browser.downloaded(".svg")).getroot()
        right = max(float(text.get("x")) for text in drawing.iter("{http://www.w3.org/2000/svg}text") if text.get("text-anchor") == "middle")
        written = [(text.text, float(text.get("y"))) for text in drawing.iter("{http://www.w3.org/2000/svg}text") if float(text.get("x")) == right]
        self.numbered(written, seen["ends"], "SVG")
        self.browser.click("[data-format=png]")
        grey = self.browser.grey(self.browser.downloaded(".png"))
        for text, y in written:
            box = grey[round(2 * (y - 10)):round(2 * (y + 2)), round(2 * (right - 5)):round(2 * (right + 5))]
            self.assertGreater(int(box.max()) - int(box.min()), 100, f"the number {text} in the PNG")
        # One channel needs none.
        self.browser.press(" ")
        self.open("scope?side=input&channels=2")
        self.browser.wait("window.convolv?.view.sides[0]?.plot.scene", "a picture")
        self.browser.script(LISTEN)
        self.assertEqual(self.browser.script(BESIDE)["beside"], [])
        # The spectrum has them as well, held lines among them.
        self.open("spectrum?channels=1,3&hold=1&fft=1024")
        self.browser.wait("window.convolv?.view.plot.scene?.curves.length === 4", "held lines")
        self.browser.script(LISTEN)
        self.assertEqual(sorted(text for text, _, _ in self.browser.script(BESIDE)["beside"]), ["1", "1", "3", "3"])
        self.assertEqual(self.browser.faults(), [])

    def test_every_view_opens_and_changes_nothing_without_the_role(self):
        for view in ("overview", "scope", "ascan", "spectrum", "latency", "filters", "events"):
            self.open(view)
            self.browser.wait("window.convolv?.app.stream()", f"status on {view}")
            self.assertTrue(self.browser.script("return document.querySelector('.record-button').disabled"), view)
            self.assertTrue(self.browser.script("return document.querySelector('#transport input').disabled"), view)
        answer = self.browser.script("return fetch('api/v1/mark', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"text\": \"x\"}'}).then((r) => r.status)")
        self.assertIn(answer, (401, 403))
        self.assertEqual(self.browser.faults(r"api/v1/mark .*40[13]"), [])


if __name__ == "__main__":
    unittest.main()
