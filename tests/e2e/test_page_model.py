#!/usr/bin/python3
# timeout: 120
# parallel: yes
# takes: 1 s CPU in 3 s
"""The page's pure functions in Chromium, held against numpy and the definitions: pictures decoded, units, axes,
spectra, envelopes, files. Each table is {given: expected}; no daemon runs."""
import base64
import io
import math
import struct
import tempfile
import unittest

import numpy as np

import convolvd as c
from browser import Browser, Web

MAGIC = 0x31564E43


def picture(kind=2, channels=2, points=4, ranges=(), flags=0, trigger=-1, averages=0, values=None, magic=MAGIC):
    """The bytes of one picture, as docs/web.md lays it out."""
    arrays = channels * (2 if kind == 1 else 1)
    if values is None:
        values = np.arange(arrays * points)
    return struct.pack("<IHHIIQQddqIIiI", magic, kind, 7, channels, points, 3, 1 << 40, 1.0, 48000.0, 1_700_000_000_000_000_000,
                       len(ranges), flags, trigger, averages) + b"".join(struct.pack("<IIII", *r, 0) for r in ranges) + \
        np.asarray(values, dtype="<f4").tobytes()


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="convolvd-page-")
        cls.web = Web(cls.folder.name)
        cls.browser = Browser()
        cls.browser.open(cls.web.url)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.web.kill()
        cls.folder.cleanup()

    def call(self, module, function, *arguments):
        return self.browser.call(module, function, *arguments)

    def table(self, module, function, rows):
        for given, expected in rows:
            with self.subTest(function=function, given=given):
                got = self.call(module, function, *given)
                if isinstance(expected, float):
                    self.assertAlmostEqual(got, expected, delta=1e-9 + 1e-7 * abs(expected))
                else:
                    self.assertEqual(got, expected)

    def decode(self, data):
        return self.call("wire/picture.js", "decodePicture", {"bytes": list(data)})

    def test_marks_of_channels(self):
        """No two of 64 channels have the colour and the mark of one another; no two marks have one outline."""
        marks = [self.call("draw/palette.js", "channelMark", channel) for channel in range(64)]
        self.assertEqual(marks[:9], [0, 1, 2, 3, 4, 5, 6, 7, 1])
        self.assertEqual(len({(channel % 8, mark) for channel, mark in enumerate(marks)}), 64)
        outlines = [self.call("draw/points.js", "markCorners", mark) for mark in range(8)]
        self.assertIsNone(outlines[0])  # a circle
        self.assertEqual([len(outline) for outline in outlines[1:]], [4, 4, 3, 3, 3, 3, 10])
        distinct = {tuple(sorted((round(x, 3) + 0, round(y, 3) + 0) for x, y in outline)) for outline in outlines[1:]}
        self.assertEqual(len(distinct), 7)
        for outline in outlines[1:]:
            self.assertAlmostEqual(max(math.hypot(x, y) for x, y in outline), 1, delta=1e-9)

    def test_pictures_are_decoded_whole(self):
        got = self.decode(picture(ranges=[(1, 2, 5)], flags=1 | 8, trigger=2, averages=16))
        self.assertEqual([got[k] for k in ("kind", "id", "channels", "points", "epoch", "first", "rateHz", "trigger", "averages")],
                         [2, 7, 2, 4, 3, 1 << 40, 48000, 2, 16])
        self.assertEqual((got["triggered"], got["clipped"], got["recordBegins"], got["complete"]), (True, False, False, True))
        self.assertEqual(got["ranges"], [{"first": 1, "points": 2, "causes": 5}])
        self.assertEqual(got["values"], [[0, 1, 2, 3], [4, 5, 6, 7]])
        pairs = self.decode(picture(kind=1, channels=1, points=3))
        self.assertEqual((pairs["low"], pairs["high"]), ([[0, 1, 2]], [[3, 4, 5]]))

    def test_what_is_no_picture_is_refused(self):
        whole = picture()
        for bad in (b"", whole[:71], whole[:-1], whole + b"\0", picture(magic=1), picture(kind=9, values=range(8)),
                    picture(ranges=[(0, 1, 1)])[:80], picture(channels=1 << 20, values=[])):
            with self.assertRaises(ValueError):
                self.decode(bad)
        # A range beyond the points is cut, not believed.
        self.assertEqual(self.decode(picture(ranges=[(3, 9, 1), (9, 1, 1)]))["ranges"], [{"first": 3, "points": 1, "causes": 1}])

    def test_events_of_analyses(self):
        hit = {"analysis": "v", "kind": "hit", "number": 3, "channel": 2, "epoch": 0, "frame": 70, "arrival_ns": 2_000_000_000,
               "values": {"peak_db": 61.5, "rms": None, "rise_us": 40, "duration_us": 200, "pick_frames": -8}, "parameters": {"load": 1.5}}
        self.table("model/analysis.js", "valueOf", [((hit, "peak_db"), 61.5), ((hit, "load"), 1.5), ((hit, "channel"), 2),
                                                     ((hit, "time", 3_000_000_000), -1.0), ((hit, "rms"), None), ((hit, "nothing"), None)])
        self.table("model/analysis.js", "hitMarks", [((hit, 1e6), [{"x": 0, "text": "first"}, {"x": 40 * 1e-6, "text": "peak"},
                                                                  {"x": 200 * 1e-6, "text": "last"}, {"x": -8 / 1e6, "text": "arrival"}])])
        self.table("model/analysis.js", "fieldLabel", [(({"name": "rise_us"},), {"label": "rise", "unit": "µs"}), (({"name": "ra_us_v"},), {"label": "ra", "unit": "µs/V"}),
                                                        (({"name": "peak_us_2"},), {"label": "peak 2", "unit": "µs"}), (({"name": "counts", "unit": ""},), {"label": "counts", "unit": ""})])
        at = [dict(hit, arrival_ns=ns) for ns in (0, 500_000_000, 600_000_000, 1_999_999_999)]
        history = self.call("model/analysis.js", "historyOf", at, 2_000_000_000, 1.5, 3)
        self.assertEqual((history["rate"], history["total"]), ([4, 0, 2], [3, 3, 4]))
        self.assertTrue(np.allclose(history["xs"], [-1.25, -0.75, -0.25]))
        spread = self.call("model/analysis.js", "distributionOf", [40.2, 40.9, 43, 42.999])
        self.assertEqual((spread["xs"], spread["each"], spread["above"]), ([40, 41, 42, 43], [2, 0, 1, 1], [4, 2, 2, 1]))
        self.assertEqual(self.call("model/analysis.js", "distributionOf", [])["xs"], [])
        samples = np.array([0, -1.5, 3e-9], dtype="<f4")
        self.assertTrue(np.array_equal(np.float32(self.call("model/analysis.js", "decodeSamples", base64.b64encode(samples.tobytes()).decode())), samples))

    def test_the_store_keeps_each_event_once(self):
        script = """const done = arguments[0]; import(new URL("app/model/analysis.js", document.baseURI).href).then(({ EventStore }) => {
            const store = new EventStore(10), event = (number) => ({ analysis: "v", kind: "hit", epoch: 0, number, channel: number % 2 + 1 });
            store.put({ events: [event(1), event(2)] }); store.put({ events: [event(2), event(3)], missed: 4 });
            const few = store.of("v").map((e) => e.number), second = store.of("v", [2]).map((e) => e.number);
            store.put({ events: Array.from({ length: 2000 }, (_, i) => event(i + 4)) });
            done([few, second, store.missed, store.of("v").length, store.of("v").at(-1).number, store.of("w").length]); })"""
        self.assertEqual(self.browser.driver.execute_async_script(script), [[1, 2, 3], [1, 3], 4, 10, 2003, 0])

    def test_causes_have_names(self):
        self.table("wire/picture.js", "causeText", [((5, ["network", "late", "settling"]), "network, settling"), ((8, ["network"]), "cause 3"), ((0, []), "invalid")])

    def test_values_as_text(self):
        self.table("model/units.js", "si", [((0.00123, "V"), "1.230 mV"), ((-0.5, "V"), "−500.0 mV"), ((0, "V"), "0 V"), ((1234567, "Hz"), "1.235 MHz"),
                                            ((5, "mV"), "5.000 mV"), ((5000, "mV"), "5.000 V"), ((12.5, "mm/s"), "12.50 mm/s"), ((3, "%"), "3.000 %"), ((None, "V"), "–"), ((0.9996, "V", 3), "1.00 V")])
        self.table("model/units.js", "siTrimmed", [((0.01, "s"), "10 ms"), ((0, "V"), "0 V"), ((1e-4, "s"), "100 µs"), ((1500, "Hz"), "1.5 kHz")])
        self.table("model/units.js", "parseQuantity", [(("2 ms", "s"), 0.002), (("2ms", "s"), 0.002), (("0.5", "V"), 0.5), (("−3 mV", "V"), -0.003), (("5k", "Hz"), 5000.0),
                                                       (("2 V", "s"), None), (("", "s"), None), (("1 2", "s"), None)])
        self.table("model/units.js", "count", [((1234567,), "1\u2009234\u2009567"), ((12,), "12"), ((None,), "–")])
        self.table("model/units.js", "elapsed", [((42,), "0:42"), ((725,), "12:05"), ((3723,), "1:02:03"), ((90000,), "1 d 01:00"), ((-1,), "–")])

    def test_levels_as_the_daemon_reads_them(self):
        for text, unit, full_scale, want in c.levels():
            got = self.call("model/units.js", "parseLevel", text, unit, full_scale)
            self.assertTrue(got is None if want is None else abs(got - want) <= 1e-8 * abs(want), (text, unit, full_scale, got, want))

    def test_levels_in_decibels(self):
        # EN 1330-9: 0 dB(AE) is 1 µV at the sensor.
        for value, unit, mode, full, text, name in ((1, "V", "db", 10, "120.0", "dB(AE)"), (1, "mV", "db", 0, "60.0", "dB(AE)"), (0, "V", "db", 10, "−∞", "dB(AE)"),
                                                    (5, "V", "fs", 10, "−6.0", "dBFS"), (1, "Pa", "db", 0, "120.0", "dB re 1 µPa"), (0.25, "g", "db", 0, "250 mg", "g"),
                                                    (0.5, "V", "unit", 10, "500 mV", "V"), (0.5, "V", "fs", 0, "500 mV", "V")):
            got = self.call("model/units.js", "level", value, unit, mode, full)
            self.assertEqual((got["text"], got["name"]), (text, name))

    def test_axes(self):
        self.table("model/scale.js", "linearTicks", [((0, 10, 5), [0, 2, 4, 6, 8, 10]), ((-0.3, 0.3, 3), [-0.2, 0, 0.2]), ((1, 1, 5), [])])
        self.table("model/scale.js", "logTicks", [((10, 1000, 20), [10, 20, 50, 100, 200, 500, 1000]), ((10, 1e6, 6), [10, 100, 1000, 1e4, 1e5, 1e6]), ((0, 5, 4), [])])
        self.table("model/scale.js", "ceil125", [((0.011,), 0.02), ((0.02,), 0.02), ((300,), 500.0), ((5.0001,), 10.0)])

    def test_reduction_keeps_every_peak(self):
        rng = np.random.default_rng(12)
        values = rng.standard_normal(10000).astype("f4")
        got = np.array(self.call("model/scale.js", "reduce", {"f32": values.tolist()}, 0, 10000, 300))
        self.assertEqual(len(got), 600)
        for column in range(300):
            part = values[column * 10000 // 300:(column + 1) * 10000 // 300]
            self.assertEqual(sorted(got[2 * column:2 * column + 2]), sorted([part.min(), part.max()]))
        few = self.call("model/scale.js", "reduce", {"f32": [1, 2, 3, 4]}, 1, 4, 300)
        self.assertEqual(few, [2, 3, 4])
        holes = self.call("model/scale.js", "reduce", {"f32": [None, None, 1, 5, 2, None, None, None]}, 0, 8, 2)
        self.assertEqual(holes, [1, 5, 2, 2])

    def test_interpolation_at_a_cursor(self):
        self.table("model/scale.js", "interpolate", [(({"f32": [0, 1, 4]}, 1.5), 2.5), (({"f32": [0, 1, 4]}, 2), 4), (({"f32": [0, 1, 4]}, 2.1), None), (({"f32": [0, 1, 4]}, -0.1), None)])

    def test_envelope_of_a_burst(self):
        n = np.arange(1000)
        shape = np.exp(-((n - 500) / 90.0) ** 2)
        got = np.array(self.call("model/fft.js", "envelope", {"f32": (shape * np.sin(0.9 * n)).tolist()}))
        self.assertLess(np.abs(got - shape).max(), 1e-3)

    def test_spectra(self):
        density = np.full(1025, 1e-6)
        density[100] = 1e-2
        db = self.call("model/spectrum.js", "densityDb", {"f32": density.tolist()})
        self.assertAlmostEqual(db[100], -20, places=4)
        line = self.call("model/spectrum.js", "largestLine", {"f32": db})
        self.assertAlmostEqual(line["bin"], 100, places=6)
        self.table("model/spectrum.js", "bandRms", [(({"f64": [2.0] * 101}, 10, 100, 190), math.sqrt(2.0 * 10 * 10))])
        # A sine between two bins, Hann window: the parabola finds it within a twentieth of a bin.
        n, f = 1024, 200.3
        spectrum = np.abs(np.fft.rfft(np.sin(2 * np.pi * f * np.arange(n) / n) * np.hanning(n))) ** 2
        line = self.call("model/spectrum.js", "largestLine", {"f32": self.call("model/spectrum.js", "densityDb", {"f32": spectrum.tolist()})})
        self.assertAlmostEqual(line["bin"], f, delta=0.05)
        columns = self.call("model/spectrum.js", "spectrumColumns", {"f32": db}, 1, 1024, 50, True)
        self.assertAlmostEqual(max(columns), -20, places=4)

    def test_gate(self):
        values = {"f32": [0, 9, 1, -5, 2, 0]}
        self.assertEqual(self.call("model/gate.js", "gatePeak", values, 10, [0.2, 0.5], None, True), {"value": -5, "seconds": 0.3})
        self.assertEqual(self.call("model/gate.js", "gatePeak", values, 10, [0.2, 0.5], {"u8": [0, 0, 0, 1, 0, 0]}, True), {"value": 2, "seconds": 0.4})
        self.assertIsNone(self.call("model/gate.js", "gatePeak", values, 10, [7, 8], None, True))

    def test_judgement_of_a_channel(self):
        flat, live = {"f32": [0.5] * 10}, {"f32": [0.5] * 9 + [0.6]}
        self.table("model/levels.js", "isFlat", [((flat, flat, None, 10), True), ((flat, live, None, 10), False), (({"f32": [0, 1, 1]}, {"f32": [0, 1, 1]}, None, 2), True),
                                                 ((flat, flat, {"u8": [1] * 10}, 10), False), ((flat, live, {"u8": [0] * 9 + [1]}, 10), True)])
        order = ["unused", "stale", "clipping", "flat", "invalid", "muted"]
        words = ["unused", "stale", "clip", "dead", "invalid", "muted"]
        for i, word in enumerate(words):
            self.assertEqual(self.call("model/levels.js", "channelState", {name: True for name in order[i:]}), word)
        self.assertEqual(self.call("model/levels.js", "channelState", {}), "ok")

    def test_partitions(self):
        def partition(**members):
            return {"name": "rig", "log": "log", "state": "owns", "owner": "a", "term": 2, "connected": True, "lag_ns": None,
                    "standstill_ns": None, **members}
        self.table("model/partitions.js", "partitionText", [
            ((partition(),), ["owned here, term 2", False]),
            ((partition(lag_ns=12_500_000, standstill_ns=220_000_000),), ["owned here, term 2, lag 12.5 ms, stood still 220 ms", False]),
            ((partition(state="follows"),), ["a owns, term 2", False]),
            ((partition(standing="stands", place=2, workers=3, load=0.254, capacity=0.8),),
             ["owned here, term 2, place 2 of 3, load 25 of 80 %", False]),
            ((partition(standing="full", place=3, workers=3, load=0.81, capacity=0.8, term_ended="it stood still"),),
             ["owned here, term 2, would not take it (full), load 81 of 80 %, last term ended: it stood still", False]),
            ((partition(state="follows", owner=None),), ["nobody owns", True]),
            ((partition(state="follows", connected=False),), ["a owns, term 2, not connected", True])])
        self.table("model/partitions.js", "standsBy", [
            (({"sinks": [{"name": "out"}]},), False), (({"sinks": [{"partition": partition()}]},), False),
            (({"sinks": [{"partition": partition(state="follows")}]},), True),
            (({"sinks": [{"partition": partition(state="follows", connected=False)}]},), False),
            (({"sinks": [{"partition": partition(state="follows", log="raw")}]},), False)])
        running = {"running": True, "lossRate": 0, "alarms": 0}
        self.table("model/history.js", "streamState", [(({**running, "standsBy": True},), ["good", "standing by"]),
                                                       (({**running, "standsBy": False},), ["warn", "waiting for a sender"])])

    def test_numbers_of_channels(self):
        """Beside the ends of lines: apart from each other, in their order, moved as little as that takes."""
        self.table("draw/labels.js", "spread", [
            (([50, 10], 10, 0, 100), [50, 10]), (([50, 50], 10, 0, 100), [45, 55]), (([52, 50, 90], 10, 0, 100), [56, 46, 90]),
            (([0, 0, 0], 10, 0, 100), [0, 10, 20]), (([99, 98, 70], 10, 0, 100), [100, 90, 70]), (([50, 52, 58], 10, 0, 100), [43.333333333333336, 53.333333333333336, 63.333333333333336]),
            (([], 10, 0, 100), [])])
        self.table("draw/labels.js", "lineEnd", [
            (([0, 1, 2], [5, 6, 8], 0, 2), 8), (([0, 1, 2], [5, 6, 8], 0, 1.5), 7), (([0, 1, 2], {"f32": [5, 6, None]}, 0, 2), 6),
            (([0, 1, 9], [5, 6, 8], 2, 5), 7), (([0, 1, 9], {"f32": [5, 6, None]}, 2, 5), None)])
        self.table("draw/labels.js", "legendText", [((3, "3", "input 3"), "input 3"), ((3, "north", "input north"), "3: input north")])

        def places(channels, height):
            placed = self.call("draw/labels.js", "placeLabels", [{"label": str(i + 1), "colour": "#000", "end": 40} for i in range(channels)],
                               {"x": 0, "y": 0, "w": 200, "h": height})
            return sorted((label["x"], label["y"]) for label in placed)
        for channels, height, columns in ((2, 100, 1), (6, 100, 1), (7, 100, 2), (16, 300, 1), (16, 60, 4)):
            with self.subTest(channels=channels, height=height):
                placed = places(channels, height)
                self.assertEqual((len(placed), len({x for x, _ in placed})), (channels, columns))
                self.assertTrue(all(0 <= y <= height for _, y in placed))
                self.assertTrue(all(b[0] > a[0] or b[1] - a[1] >= 15 - 1e-9 for a, b in zip(placed, placed[1:])), placed)
        self.assertEqual((places(1, 100), places(17, 1000)), ([], []))  # nothing to tell apart, and no room for it

    def test_levels_in_parts(self):
        names = ("rms", "peak", "held", "overloads")
        first = self.call("model/levels.js", "mergeLevels", None, {name: [1, 2] for name in names})
        both = self.call("model/levels.js", "mergeLevels", first, {"first_channel": 3, **{name: [3, 4] for name in names}})
        self.assertEqual(both, {name: [1, 2, 3, 4] for name in names})
        self.assertEqual(self.call("model/levels.js", "mergeLevels", both, {"first_channel": 1, **{name: [9] for name in names}})["held"], [9, 2, 3, 4])

    def test_addresses(self):
        self.table("model/address.js", "parseChannels", [(("1-4,7",), [1, 2, 3, 4, 7]), (("7,1,1",), [1, 7]), (("0,x,-3",), [])])
        self.table("model/address.js", "formatChannels", [(([1, 2, 3, 4, 7],), "1-4,7"), (([1, 2],), "1,2"), (([],), "")])
        table = {"side": {"type": "choice", "choices": ["a", "b"], "default": "a"}, "n": {"type": "number", "default": 3, "low": 1, "high": 9},
                 "on": {"type": "flag", "default": False}, "zoom": {"type": "span", "default": None}, "name": {"type": "text", "default": ""}}
        got = self.call("model/address.js", "readParameters", table, {"map": {"side": "b", "n": "99", "on": "1", "zoom": "0.1~0.2", "name": "<b>"}})
        self.assertEqual(got, {"side": "b", "n": 3, "on": True, "zoom": [0.1, 0.2], "name": "<b>"})
        text = self.call("model/address.js", "formatHash", "scope", table, got)
        self.assertEqual(text, "#/scope?name=%3Cb%3E&on=1&side=b&zoom=0.1~0.2")
        self.assertEqual(self.call("model/address.js", "splitHash", text)["values"], {"side": "b", "on": "1", "zoom": "0.1~0.2", "name": "<b>"})

    def test_files(self):
        values = np.arange(6, dtype="f8").reshape(3, 2)
        data = bytes(self.call("model/export.js", "npy", {"f64": values.ravel().tolist()}, 3, 2))
        np.testing.assert_array_equal(np.load(io.BytesIO(data)), values)
        self.assertEqual((len(data) - values.nbytes) % 64, 0)
        data = bytes(self.call("model/export.js", "npy", {"f32": [1, 2]}, 1, 2))
        self.assertEqual(np.load(io.BytesIO(data)).dtype, np.dtype("<f4"))
        text = self.call("model/export.js", "csv", {"stream": "a\nb"}, [{"name": "t [s]", "values": [0, 0.5]}, {"name": 'x "1", y', "values": {"f32": [1, None]}}])
        self.assertEqual(text, '# stream: a b\nt [s],"x ""1"", y"\n0,1\n0.5,nan\n')


if __name__ == "__main__":
    unittest.main()
