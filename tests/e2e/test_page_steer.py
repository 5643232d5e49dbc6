#!/usr/bin/python3
# timeout: 240
# parallel: yes
# long: yes, test_page opens every view in make check; here a hand steers the daemon through three of them
"""What a hand does on the live page, in Chromium: clicks on Record and Stop, which begin and end a file; the B-scan
of real records, into which it clicks; an alarm that it acknowledges."""
import glob
import math
import os
import re
import unittest

import convolvd as c
import web_client
from browser import Browser, Web

RATE, RECORD = 50_000, 2000  # frames; each record is one period of the burst
BURST_CYCLES, BURST_HZ, AMPLITUDE_V, NOISE_V = 5, 5000, 0.8, 0.002
ROWS = 20

CONFIG = """
[stream vessel]
source = rtp
address = 127.0.0.1:{port}
mode = record
rate = 50 kHz
channels = 1
full scale = 1 V
format = L16
block = 200 frames
filter = band

[filter band]
type = bandpass
low = 2 kHz
high = 8 kHz
transition = 2 kHz

[stream plate]
source = generator
rate = 50 kHz
channels = 1
waveform = tone-burst
frequency = 5 kHz
cycles = 5
period = 20 ms
amplitude = 0.5 V
full scale = 1 V
block = 200 frames
filter = band

[sink file]
type = recording
stream = vessel
path = {folder}/burst.wav
start = command

[alarm loud]
stream = vessel
quantity = level
above = 1 mV
within = 0.5 s

[alarm louder]
stream = vessel
quantity = level
above = 2 mV
within = 0.5 s
"""

# The B-scan's canvas: where its area lies in the window, and the brightness of one point of a row.
PLACE = """
    const image = window.convolv.view.image, box = image.canvas.getBoundingClientRect(), area = image.area();
    return { left: box.left + area.x, top: box.top + area.y, width: area.w, height: area.h, x: window.convolv.view.plot.shownX() };
"""
BRIGHTNESS = """
    const [x, y] = arguments, canvas = window.convolv.view.image.canvas, box = canvas.getBoundingClientRect();
    const pixel = canvas.getContext("2d").getImageData((x - box.left) * canvas.width / box.width, (y - box.top) * canvas.height / box.height, 1, 1).data;
    return 0.2126 * pixel[0] + 0.7152 * pixel[1] + 0.0722 * pixel[2];
"""


class Steer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = c.temporary()
        cls.addClassCleanup(cls.folder.cleanup)
        port = c.free_port()
        token, line = web_client.new_token("anna", "control")
        path = os.path.join(cls.folder.name, "tokens")
        with open(path, "w", encoding="ascii") as file:
            file.write(line + "\n")
        os.chmod(path, 0o600)
        cls.daemon = c.Daemon(cls.folder.name, CONFIG.format(port=port, folder=cls.folder.name))
        cls.addClassCleanup(cls.daemon.kill)
        rig = c.Process("convolv-rig", ["--to", f"127.0.0.1:{port}", "--rate", RATE, "--signal", "tone-burst", "--cycles", BURST_CYCLES,
                                        "--frequency", BURST_HZ, "--period", RECORD / RATE, "--amplitude", AMPLITUDE_V, "--noise", NOISE_V,
                                        "--record", RECORD, "--pause", "60 ms", "--seconds", 600, "--quiet"])
        cls.addClassCleanup(rig.kill)
        cls.web = Web(cls.folder.name, "--tokens", path, "--allow-control")
        cls.addClassCleanup(cls.web.kill)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.browser.open(f"{cls.web.url}/#/overview")
        cls.browser.wait("!document.getElementById('sign-in').hidden", "the key symbol")
        cls.browser.click("#sign-in")
        cls.browser.script("document.querySelector('dialog input').value = arguments[0]; document.querySelector('dialog form').requestSubmit()", token)
        cls.browser.wait("window.convolv.app.role === 'control' && window.convolv.app.commands", "the role control")

    def open(self, view):
        self.browser.script("location.hash = arguments[0]", f"#/{view}")
        self.browser.wait("window.convolv?.app.stream()", f"status on {view}")

    def click(self, selector):
        """With the mouse, where a hand would have it."""
        self.browser.click_at(*self.browser.script(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]", selector))

    def sidecars(self):
        return [c.load_json(path) for path in sorted(glob.glob(os.path.join(self.folder.name, "burst*.json")))]

    def test_record_begins_and_ends_a_file(self):
        self.open("overview")
        button, info = "document.querySelector('.record-button')", "document.querySelector('.record-info').textContent"
        self.browser.wait(f"{button}.textContent === 'Record' && !{button}.disabled", "the button")
        self.assertEqual(self.browser.text(".record-info"), "not recording")
        self.click(".record-button")
        self.browser.wait(f"{button}.textContent === 'Stop'", "the recording")
        self.browser.wait(rf"/^burst[-0-9]*\.wav · .*B · .*left/.test({info})", "file, size and disk left")
        self.click(".record-button")
        self.browser.wait(f"{info}.startsWith('last: burst')", "the end")
        c.wait_for(lambda: self.sidecars() and all(side["complete"] for side in self.sidecars()), "the files to be complete")
        sides = sorted(self.sidecars(), key=lambda side: side["epoch"])
        self.assertEqual((sides[0]["began"], sides[-1]["ended"]), ("command", "command"))
        self.assertTrue(sides[0]["began_by"].startswith("anna via ") and sides[-1]["ended_by"].startswith("anna via "))
        self.assertEqual(self.browser.faults(), [])

    def test_the_b_scan_stacks_records(self):
        """Each record is a row, bright where its burst is; a click there reads level and frame."""
        self.open(f"ascan?side=input&frames={RECORD}&rows={ROWS}")
        view = "window.convolv.view"
        self.browser.wait(f"{view}.image?.total >= 6", "six records in the B-scan")
        self.browser.press(" ")
        self.browser.wait("document.querySelector('.lamp').textContent === 'paused'", "the pause")
        rows = self.browser.script(f"""return {view}.image.rows.slice(0, 6).map((row) => row.values && (
            {{ first: row.facts.first, at: row.values.indexOf(Math.max(...row.values)), peak: Math.max(...row.values), frames: row.values.length }}))""")
        burst_s = BURST_CYCLES / BURST_HZ
        for row in rows:
            self.assertIsNotNone(row, "a record is an epoch of its own: nothing is missing between two")
            self.assertEqual((row["first"], row["frames"]), (0, RECORD))
            self.assertTrue(0 <= row["at"] <= burst_s * RATE, row)
            self.assertAlmostEqual(row["peak"], 20 * math.log10(AMPLITUDE_V), delta=1)
        place = self.browser.script(PLACE)
        low, high = place["x"]

        def at(seconds, row):
            return place["left"] + place["width"] * (seconds - low) / (high - low), place["top"] + place["height"] * (row + 0.5) / ROWS
        for row in range(6):
            bright, dark = (self.browser.script(BRIGHTNESS, *at(seconds, row)) for seconds in (burst_s / 2, 0.02))
            self.assertGreater(bright, dark + 60, f"row {row}")
        self.browser.click_at(*at(burst_s / 2, 2))
        note = "document.querySelector('.plot-panel[aria-label=\"B-scan\"] .note').textContent"
        self.browser.wait(f"{note}.startsWith('scan −2: frame 0,')", "what the third scan was")
        said = self.browser.script(f"return {note}").replace("−", "-")
        self.assertGreater(float(re.search(r"(-?[\d.]+) dB at", said).group(1)), 20 * math.log10(AMPLITUDE_V) - 6, said)
        self.assertAlmostEqual(self.browser.script("return window.convolv.app.parameters.a"), burst_s / 2, delta=2e-4)
        self.browser.press(" ")
        self.assertEqual(self.browser.faults(), [])

    def test_a_generator_s_excitation_is_the_period(self):
        """No records and none asked for: an A-scan begins with each burst, and is not longer than their period."""
        self.open(f"ascan?stream=plate&side=input&rows={ROWS}")
        view = "window.convolv.view"
        self.browser.wait(f"{view}.picture?.values[0].length === 1000", "an A-scan of one period")
        first, at = self.browser.script(f"const values = {view}.picture.values[0]; return [{view}.picture.first, values.indexOf(Math.max(...values))]")
        self.assertEqual(first % 1000, 0)
        self.assertLess(at, 60)
        self.open("ascan?stream=vessel")

    def acknowledged(self, name):
        alarm = next(a for a in self.daemon.status()["alarms"] if a["name"] == name)
        self.assertEqual(alarm["state"], "active")
        return alarm["acknowledged"]

    def alarms_in_another_order(self):
        """Rows change their places, one after the other with the keyboard in it: it stays. A row that goes hands it on."""
        names = "return [...document.querySelectorAll('.alarm strong')].map((name) => name.textContent.slice(2))"
        order = self.browser.script(names)
        for row in (0, 1):
            with self.subTest(row=row):
                self.browser.script("""
                    const { app } = window.convolv, button = document.querySelectorAll('.alarm button')[arguments[0]];
                    app.alarms = () => app.status?.alarms ?? [];
                    window.convolv.view.writeAlarms();
                    button.focus();
                    window.left = 0;
                    window.focused = button;
                    button.addEventListener('blur', () => window.left++);
                    app.alarms = () => [...app.status?.alarms ?? []].reverse();
                    window.convolv.view.writeAlarms();""", row)
                self.assertEqual(self.browser.script(names), order[::-1])
                self.assertEqual(self.browser.script("return [document.activeElement === window.focused, window.left]"), [True, 0])
        self.browser.script("""
            const { app } = window.convolv;
            window.focused.blur();
            document.querySelector('.alarm button').focus();
            app.alarms = () => (app.status?.alarms ?? []).slice(0, 1);
            window.convolv.view.writeAlarms();""")
        self.assertEqual(self.browser.script(names), order[:1])
        self.assertTrue(self.browser.script("return document.activeElement === document.querySelector('.alarm button')"))
        self.browser.script("""
            const { app } = window.convolv;
            app.alarms = () => [];
            window.convolv.view.writeAlarms();
            window.nowhere = document.activeElement === document.body;
            delete app.alarms;
            window.convolv.view.writeAlarms();""")
        self.assertFalse(self.browser.script("return window.nowhere"))
        self.assertEqual(self.browser.script(names), order)

    def test_alarms_are_acknowledged(self):
        """One with the mouse, one with a key. While values change, the keyboard stays where it is."""
        self.open("events")
        loud, louder = (f"[...document.querySelectorAll('.alarm')].find((row) => row.querySelector('strong').textContent.endsWith(' {name}'))"
                        for name in ("loud", "louder"))
        button = "?.querySelector('button')"
        self.browser.wait(f"{loud}{button}?.disabled === false && {louder}{button}?.disabled === false", "both alarms")
        value = f"{louder}.querySelector('.caption').textContent"
        self.browser.script(f"window.before = {value}; window.focused = {louder}.querySelector('button'); window.focused.focus()")
        self.browser.wait(f"{value} !== window.before", "another value")
        self.assertTrue(self.browser.script("return document.activeElement === window.focused && window.focused.isConnected"))
        self.alarms_in_another_order()
        self.click(".alarm button")
        first, second = ("loud", "louder") if self.browser.script(f"return {loud} === document.querySelector('.alarm')") else ("louder", "loud")
        c.wait_for(lambda: self.acknowledged(first), "the acknowledgement")
        self.browser.wait("!document.querySelector('.alarm').querySelector('button')", "the first without its button")
        self.assertFalse(self.acknowledged(second))
        self.browser.press("k")
        c.wait_for(lambda: self.acknowledged(second), "the second acknowledgement")
        self.browser.wait("!document.querySelector('.alarm button')", "no button")
        self.browser.press("l")
        self.browser.wait("window.convolv.app.parameters.show === 'alarms'", "the next kind of events")
        self.browser.wait("[...document.querySelectorAll('.events td.text')].some((cell) => cell.textContent.includes('acknowledged'))", "the event")
        self.assertEqual(self.browser.faults(), [])


if __name__ == "__main__":
    unittest.main()
