#!/usr/bin/python3
# timeout: 600
# parallel: yes
# takes: 110 s CPU in 110 s
# long: yes, test_page_long exports one view; this one goes through all of them, twice
# turns: yes
"""Every view of the live page, dark and light: its words can be read, it changes its colours though it stands still, and
each file that it exports holds what it shows. CSV and .npy have its values; the SVG parses and has each line, point by point, and each text; the PNG has the
size of the drawing, looks like it, and is not blank. What a view does not offer it says."""
import csv
import io
import os
import unittest
import xml.etree.ElementTree

import numpy as np

import convolvd as c
import page_config
from browser import Browser, Web

SVG = "{http://www.w3.org/2000/svg}"
FORMATS = ("png", "svg", "csv", "npy")
CONTRAST = 4.5

# Each view: its address, what is true once it shows something, its line plots and its columns as they are shown: pairs of
# the column's number and its values; "rows" where a column of texts decides. And what it exports.
VIEWS = {
    "overview": ("overview", "document.querySelectorAll('.tile.ok').length >= 6 && view.panels.get('vessel').picture", "[]",
                 "view.panels.get('vessel').tiles.flatMap((t) => [t.meter]).reduce((all, m, i) => [[0, [...all[0][1], i + 1]], [1, [...all[1][1], m.rms]],"
                 " [2, [...all[2][1], m.peak]], [3, [...all[3][1], m.held]]], [[0, []], [1, []], [2, []], [3, []]])", FORMATS),
    "scope": ("scope?channels=1,2&window=0.005&envelope=1&a=0.001", "view.sides.length === 2 && view.sides.every((s) => s.plot.scene)",
              "view.sides.map((s) => s.plot)", "[[0, view.sides[0].plot.rows().map((row) => row[0])],"
              " ...view.sides.flatMap((s) => s.plot.scene.curves).map((curve, i) => [i + 1, [...curve.values]])]", FORMATS),
    "ascan": ("ascan?stream=gauge&rows=50", "view.image.rows.length > 3 && view.plot.scene", "[view.plot]", "[[1, [...view.plot.scene.curves[0].values]]]", FORMATS),
    "spectrum": ("spectrum?channels=1,2&fft=1024&hold=1", "view.plot.scene?.curves.length === 4 && view.plot.scene.under.length > 0", "[view.plot]",
                 "[[0, view.plot.rows().map((row) => row[0])], ...view.plot.scene.curves.map((curve, i) => [i + 1, [...curve.values]])]", FORMATS),
    "latency": ("latency", "view.plots[0].plot.scene?.xs.length > 4", "view.plots.map((p) => p.plot)",
                "[[0, [...view.plots[0].plot.scene.xs]], ...view.plots.map((p, i) => [i + 1, [...p.plot.scene.curves[0].values]])]", FORMATS),
    "filters": ("filters", "view.response.scene && view.taps.scene", "[view.response, view.taps]",
                "[[0, view.response.rows().map((row) => row[0])], [1, [...view.response.scene.curves[0].values]]]", FORMATS),
    "events": ("events", "document.querySelectorAll('.events tbody tr').length > 1", "[]",
               "['', '', '', 'kind', 'stream', '', '', 'text'].flatMap((name, i) => name ? [[i, [...view.body.rows].reverse()"
               ".map((row) => row.cells[{ kind: 2, stream: 3, text: 5 }[name]].textContent)]] : [])", ("csv",)),
    "hits": ("hits", "view.scatter.scene?.points.length > 20 && view.amplitudes.scene", "[view.history, view.amplitudes, view.transient]",
             "[[0, view.scatter.scene.points.map((p) => p.data.number)], ['duration_us', view.scatter.scene.points.map((p) => p.x)],"
             " ['peak_db', view.scatter.scene.points.map((p) => p.y)]]", ("png", "svg", "csv")),
    "location": ("location", "view.map.scene?.points.length > 5", "[]", "[[0, view.map.scene.points.map((p) => p.data.number)],"
                 " ['x_mm', view.map.scene.points.map((p) => p.x)], ['y_mm', view.map.scene.points.map((p) => p.y)]]", ("png", "svg", "csv")),
    "gates": ("gates?value=peak", "view.trend.scene && view.plot.scene?.under.length > 0", "[view.plot, view.trend]",
              "[[0, view.plot.rows().map((row) => row[0])], [1, [...view.plot.scene.curves[0].values]]]", FORMATS),
    "vibration": ("vibration", "view.trend.scene && view.plot.scene?.marks.length > 3", "[view.plot, view.trend]",
                  "[[0, view.plot.rows().map((row) => row[0])], [1, [...view.plot.scene.curves[0].values]]]", FORMATS),
}

# Of each line plot: its curves as they are drawn, and its texts.
DRAWN = """
    const view = window.convolv.view;
    return (%s).filter((plot) => plot.scene).map((plot) => {
        const rows = plot.rows();
        return { curves: plot.scene.curves.map((curve, i) => rows.map((row) => [row[0], row[i + 1]]).filter(([, y]) => Number.isFinite(y))),
            names: plot.scene.curves.map((curve) => curve.name),
            texts: [...plot.scene.marks ?? [], ...plot.scene.levels ?? []].map((mark) => mark.text ?? "").filter(Boolean),
            lines: (plot.scene.under ?? []).length + (plot.scene.marks ?? []).length + (plot.scene.levels ?? []).length };
    });
"""

# The last picture may have been on its way, and colours change within a moment.
STILL = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300)))"

TILES = """
    const tiles = [...document.querySelectorAll(".tile")], before = tiles.map((tile) => tile.className);
    tiles.forEach((tile, i) => { tile.className = `tile ${arguments[0][i % arguments[0].length]}`; });
    return before;
"""

# Texts that are hard to read: less contrast with what is under them than the style sheet promises.
UNREADABLE = """
    const parts = (text) => {
        const [r, g, b, a = 1] = text.match(/[-+\\d.e]+%?/g).map(Number);
        return text.startsWith("color(") ? [r, g, b, a] : [r / 255, g / 255, b / 255, a];
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a));
    const under = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement)
            layers.unshift(parts(getComputedStyle(e).backgroundColor.replace(/^color\\(srgb/, "color(")));
        return layers.reduce((below, layer) => over(layer, below), [1, 1, 1]);
    };
    const light = (colour) => colour.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    return [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility({ opacityProperty: true }) && !e.closest(":disabled, svg, option, .toasts")
        && [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).map((e) => {
            const below = under(e), [a, b] = [light(over(parts(getComputedStyle(e).color.replace(/^color\\(srgb/, "color(")), below)), light(below)].sort((x, y) => y - x);
            return [(a + 0.05) / (b + 0.05), `${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`];
        }).filter(([contrast]) => contrast < arguments[0]).map(([contrast, what]) => `${contrast.toFixed(2)} ${what}`);
"""


def path_points(path):
    """The points of an SVG path of M and L."""
    return np.array([[float(v) for v in point.split()] for point in path.get("d").replace("M", "L").split("L")[1:]])


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = c.temporary()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.daemon = c.Daemon(cls.folder.name, page_config.EVERYTHING)
        cls.addClassCleanup(cls.daemon.kill)
        cls.web = Web(cls.folder.name)
        cls.addClassCleanup(cls.web.kill)

    def test_dark(self):
        self.every_view("dark")

    def test_light(self):
        self.every_view("light")

    def every_view(self, theme):
        self.browser = Browser(height=900, theme=theme)
        self.addCleanup(self.browser.close)
        self.theme = theme
        for name, (address, ready, plots, columns, formats) in VIEWS.items():
            with self.subTest(view=name, theme=theme):
                self.show(address, ready)
                if name == "overview":  # and each state that a tile may have
                    before = self.browser.script(TILES, ["ok", "clip", "dead", "invalid", "stale", "muted"])
                    self.readable()
                    self.browser.script("document.querySelectorAll('.tile').forEach((tile, i) => { tile.className = arguments[0][i]; })", before)
                self.readable()
                drawn, shown = self.browser.script(DRAWN % plots), self.browser.script(f"const view = window.convolv.view; return {columns}")
                self.browser.forget_downloads()
                for format_ in formats:
                    self.browser.click(f"[data-format={format_}]")
                files = {format_: self.browser.downloaded("." + format_) for format_ in formats}
                table = self.csv_holds(files["csv"], shown)
                if "npy" in files:
                    self.npy_holds(name, files["npy"], table)
                if "svg" in files:
                    height = self.svg_holds(files["svg"], drawn)
                    self.png_holds(files["png"], files["svg"], height)
                for format_ in set(FORMATS) - set(formats):
                    self.browser.click(f"[data-format={format_}]")
                    self.browser.wait(f"document.querySelector('.toast.wrong')?.textContent.includes('nothing for {format_.upper()}')", "the refusal")
                    self.browser.script("document.querySelectorAll('.toast').forEach((toast) => toast.remove())")
                self.other_theme(plots, drawn)
                self.assertEqual(set(os.path.splitext(path)[1][1:] for path in os.listdir(self.browser.downloads)), set(formats))
        self.assertEqual(self.browser.faults(), [])

    def show(self, address, ready):
        """The view with something in it, standing still."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.web.url}/#/{address}")
        self.browser.wait(f"window.convolv?.app.stream() && ((view) => {ready})(window.convolv.view)", "something to export", 60)
        self.browser.script("window.convolv.view.pick?.length === 1 && window.convolv.view.pick(window.convolv.view.source.events().at(-1))")
        self.browser.wait("!('wave' in window.convolv.view && !window.convolv.view.transient.scene)", "the transient")
        self.browser.press(" ")
        self.browser.wait("document.querySelector('.lamp').textContent === 'paused'", "the pause")
        self.browser.driver.execute_async_script(STILL)

    def readable(self):
        self.assertEqual(self.browser.script(UNREADABLE, CONTRAST), [])
        path = os.path.join(self.folder.name, "screen.png")
        self.browser.picture(path)
        self.lightness(self.browser.grey(path))

    def other_theme(self, plots, drawn):
        """Paused as it is, the view changes its colours and nothing else; then back."""
        colours = f"""const view = window.convolv.view;
            return [...{plots}.flatMap((plot) => plot.scene?.curves ?? []), ...[view.scatter, view.map].map((plot) => plot?.scene.points[0])].map((one) => one?.colour ?? null)"""
        before, own = self.browser.script(colours), self.theme
        self.theme = "light" if own == "dark" else "dark"
        self.toggle_theme()
        for one, other in zip(before, self.browser.script(colours)):
            self.assertTrue(one is None or one != other, (before, other))
        after = self.browser.script(DRAWN % plots)
        for one, other in zip(drawn, after):
            self.assertEqual(one["curves"], other["curves"])
        self.readable()
        self.theme = own
        self.toggle_theme()

    def toggle_theme(self):
        self.browser.press("t")
        self.browser.wait(f"document.documentElement.dataset.theme === '{self.theme}'", "the theme")
        self.browser.driver.execute_async_script(STILL)

    def lightness(self, grey):
        """A picture of the theme: its background is, and something is on it."""
        background, ink = np.median(grey), np.ptp(grey)
        self.assertTrue(background < 50 if self.theme == "dark" else background > 220, f"background {background}")
        self.assertGreater(ink, 100, "it is blank")

    def csv_holds(self, path, shown):
        """The columns shown, by their numbers or names; rows by the first column where others are not shown."""
        with open(path, encoding="utf-8", newline="") as file:
            lines = [line for line in file if not line.startswith("# ")]
        head, *rows = csv.reader(io.StringIO("".join(lines)))
        self.assertTrue(rows and all(len(row) == len(head) for row in rows))
        columns = [(head.index(name) if isinstance(name, str) else name, values) for name, values in shown]
        if any(isinstance(name, str) for name, _ in shown):
            known = {row[columns[0][0]]: row for row in rows}
            rows = [known[str(number)] for number in columns[0][1]]
        for column, values in columns:
            got = [row[column] for row in rows]
            self.assertEqual(len(got), len(values), head[column])
            if values and isinstance(values[0], str):
                self.assertEqual(got, values)
            else:
                # The page shows a response from −160 dB on.
                got = np.array([max(float(value), -160.0) if head[column].startswith("magnitude") else float(value) for value in got])
                np.testing.assert_allclose(got, np.array([np.nan if value is None else value for value in values]), rtol=1e-6, atol=1e-12, err_msg=head[column])
        return rows

    def npy_holds(self, name, path, table):
        got = np.load(path)
        if name == "ascan":  # the image: one scan a row
            rows = self.browser.script("return window.convolv.view.image.rows.filter((row) => row.values).map((row) => [...row.values])")
            np.testing.assert_allclose(got, np.array(rows), rtol=1e-6)
            self.assertGreater(len(rows), 3)
        else:
            np.testing.assert_array_equal(got, np.array([[float(value) for value in row] for row in table]))

    def svg_holds(self, path, drawn):
        """Each curve, point by point: straight lines lead from what is shown to what is drawn. Returns the height."""
        root = xml.etree.ElementTree.parse(path).getroot()
        texts, paths = [text.text for text in root.iter(SVG + "text")], list(root.iter(SVG + "path"))
        curves = [path_points(one) for one in paths if one.get("stroke-width") == "1.5" and one.get("fill") == "none"]
        expected = [np.array(curve) for plot in drawn for curve in plot["curves"] if curve]
        under = [one for one in curves if not any(len(one) == len(curve) for curve in expected)]
        curves = [one for one in curves if not any(one is other for other in under)]
        self.assertEqual([len(points) for points in curves], [len(points) for points in expected])
        for points, wanted in zip(curves, expected):
            for axis in (0, 1):
                slope, offset = np.polyfit(wanted[:, axis], points[:, axis], 1) if np.ptp(wanted[:, axis]) > 0 else (0, points[0, axis])
                np.testing.assert_allclose(points[:, axis], slope * wanted[:, axis] + offset, atol=0.02)
        for plot in drawn:
            for text in plot["texts"]:
                self.assertIn(text, texts)
        for names in (plot["names"] for plot in drawn):
            for name in names[:16]:
                self.assertTrue(any(name in text for text in texts), name)
        dashed = len([one for one in paths if one.get("stroke-dasharray") or one.get("stroke-width") not in ("1", "1.5")])
        self.assertGreaterEqual(dashed, sum(plot["lines"] for plot in drawn))
        # A plot on a canvas is in the drawing as a picture.
        self.assertTrue(expected or list(root.iter(SVG + "image")))
        return int(float(root.get("height")))

    def png_holds(self, png, svg, height):
        grey, drawing = self.browser.grey(png), self.browser.grey(svg, 2)
        self.assertEqual(grey.shape[1], 2400)
        self.assertLessEqual(abs(grey.shape[0] - 2 * height), 2)
        self.lightness(grey)
        rows = min(len(grey), len(drawing))
        apart = np.abs(grey[:rows].astype(int) - drawing[:rows])
        self.assertLess(np.mean(apart > 64), 0.01, "the picture is not the drawing")


if __name__ == "__main__":
    unittest.main()
