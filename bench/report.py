#!/usr/bin/python3
"""Writes the measurements in bench/recorded/ into docs/performance.md, and draws them.

    bench/report.py [--docs FILE] [--plots DIRECTORY | --check] [FILE...]

What stands between a line "<!-- results: NAME -->" and the next "<!-- end -->" is replaced: "summary" (every
bar, held or missed by how much), "machine", "limits" (operations and bytes against this machine's ceilings),
and a table with its plots for each group: cpu, gpu, daemon, jack, hits, web, cluster, ceiling. bench/record.py makes the records
of what was measured. Without a row a group says so. The same rows give the same bytes. --check writes and
draws nothing; it fails when the page's tables are not those of the records.
"""
import argparse
import csv
import difflib
import glob
import math
import os
import re
import sys
import time

import check
from record import group_of, natural

ROOT = os.path.dirname(check.HERE)
GROUPS = ("cpu", "gpu", "daemon", "jack", "hits", "web", "cluster", "ceiling")
OURS, PEER, BAR = "#1f5fa8", "#b5651d", "#a02020"
NOTHING = "Nothing of this was measured yet.\n"


# ---- rows ----------------------------------------------------------------------------------------

def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def figure(text):
    value = number(text)
    return text if value is None else f"{value:.4g}"


def quartiles(row):
    """(q1, q3) of the ratio; a spread told as one number is their distance."""
    words = (row["spread"] or "").split("…")
    if len(words) == 2:
        return number(words[0]), number(words[1])
    width = number(words[0]) or 0.0
    return row["ratio"] - width / 2, row["ratio"] + width / 2


def bar_of(row, bars):
    """The row's own bar, of those that look at each row."""
    return next((bar for bar in bars if bar["rule"] == "each" and bar["what"] == row["what"]
                 and re.search(bar["shape"], row["shape"] + " ")), None)


def away(value, bar):
    """'held' or by how much it was missed."""
    good = value <= bar["value"] if bar["below"] else value >= bar["value"]
    if good:
        return "held"
    if bar["value"] == 0:
        return f"missed by {abs(value):.3g}"
    return f"missed by {abs(value / bar['value'] - 1) * 100:.0f} %"


def verdict(row, bar):
    if not row["error"] <= row["allowed"]:
        return "**wrong**"
    return away(row["ratio"], bar) if bar else ""


def table(head, lines):
    text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    text += ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return "\n".join(text) + "\n"


# ---- what stands between the marks ---------------------------------------------------------------

def summary(rows, bars):
    lines = []
    for bar in bars:
        good, value, row = check.judge(bar, rows)
        what = bar["what"] + (" (geometric mean)" if bar["rule"] == "geomean" else "")
        if good is None:
            lines.append([what, bar["sentence"], bar["bar"], "", "not measured", ""])
            continue
        wrong = row is not None and not row["error"] <= row["allowed"]
        told = "**wrong**" if wrong else away(value, bar)
        lines.append([what, bar["sentence"], bar["bar"], f"{value:.3g}", told, row["shape"] if row else "all rows"])
    return table(["what", "of what", "bar", "worst", "", "at"], lines)


def group_table(group, rows, bars):
    mine = sorted((row for row in rows if group_of(row) == group), key=lambda row: (row["what"], natural(row["shape"])))
    if not mine:
        return NOTHING
    commands = []
    lines = []
    for row in mine:
        command = (row["command"] or "").replace(ROOT + os.sep, "")
        if command not in commands:
            commands.append(command)
        bar = bar_of(row, bars)
        low, high = quartiles(row)
        ratio = "" if group == "ceiling" else f"{row['ratio']:.3g} [{low:.3g} … {high:.3g}]"
        cells = [row["what"], row["shape"], figure(row["ours"]), figure(row["peer"]), row["unit"], ratio,
                 bar["bar"] if bar else "", verdict(row, bar), f"{row['error']:.1e}" if row["error"] else "",
                 commands.index(command) + 1]
        if group == "ceiling":
            cells = [row["what"], row["shape"], figure(row["ours"]), row["unit"], cells[-1]]
        lines.append(cells)
    head = ["what", "shape", "ours", "peer", "unit", "ratio [quartiles]", "bar", "", "error", "again"]
    if group == "ceiling":
        head = ["what", "shape", "measured", "unit", "again"]
    again = "".join(f"{i}. `{command}`\n" for i, command in enumerate(commands, 1))
    return table(head, lines) + "\nAgain:\n\n" + again


def operations(points):
    """Of one sample of a channel: two transforms of Q complex points and a product for Q new samples."""
    return 10 * math.log2(points) + 6


def limits(rows):
    ceilings = {(row["what"], int(re.search(r"threads=(\d+)", row["shape"])[1])): number(row["ours"])
                for row in rows if group_of(row) == "ceiling"}
    lines = []
    for row in rows:
        shape = re.search(r"N=(\d+) channels=(\d+) threads=(\d+)", row["shape"])
        if row["what"] not in ("cpu against FFTW overlap-save", "cpu against FFTW planar") or shape is None:
            continue
        size, channels, threads = (int(text) for text in shape.groups())
        fma, copy = ceilings.get(("ceiling multiply-add", threads)), ceilings.get(("ceiling memory copy", threads))
        if not fma or not copy:
            continue
        rate = number(row["ours"]) * 1e6
        work, moved = operations(size / 2) * rate / 1e9, 8 * rate / 1e9
        lines.append((channels, threads, size, [channels, size, threads, figure(row["ours"]), f"{operations(size / 2):.0f}",
                      f"{work:.1f}", f"{100 * work / fma:.0f} %", 8, f"{moved:.2f}", f"{100 * moved / copy:.0f} %"]))
    if not lines:
        return NOTHING
    return table(["channels", "N", "threads", "Msamples/s", "operations a sample", "Gflop/s", "of multiply-add",
                  "bytes a sample", "GB/s", "of memory copy"], [line[-1] for line in sorted(lines, key=lambda line: line[:3])])


def machine(paths):
    """The device and the date of the newest line that names them: of machine.csv, or of bench_engine's own."""
    newest = None
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if {"time", "device", "driver"} <= set(reader.fieldnames or []):
                for row in reader:
                    newest = row if newest is None or row["time"] >= newest["time"] else newest
    if newest is None:
        newest = {"time": time.strftime("%Y-%m-%d", time.gmtime()), "device": "no OpenCL device measured", "driver": "none",
                  "commit": "unknown"}
    return (f"Measured on {newest['time'][:10]} at commit {newest.get('commit') or 'unknown'}, "
            f"{newest.get('cores') or os.cpu_count()} cores, OpenCL device {newest['device']}, driver {newest['driver']}, "
            f"Linux {newest.get('kernel') or os.uname().release.split('-')[0]}.\n")


# ---- plots ---------------------------------------------------------------------------------------

def pyplot():
    """matplotlib, which only plots need."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "convolvd", "svg.fonttype": "none", "font.family": "sans-serif"})
    import matplotlib.pyplot  # pylint: disable=import-outside-toplevel
    return matplotlib.pyplot


def save(plot, folder, name):
    os.makedirs(folder, exist_ok=True)
    plot.savefig(os.path.join(folder, name), format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    pyplot().close(plot)
    return name


def plot_ratios(group, rows, bars, folder):
    """Each comparison that has a bar: its ratio for every shape, and the bar as a line."""
    names = [name for name in dict.fromkeys(bar["what"] for bar in bars if bar["group"] == group and bar["rule"] == "each")
             if any(row["what"] == name for row in rows)]
    if not names:
        return None
    counts = [sum(row["what"] == name for row in rows) for name in names]
    plot, axes = pyplot().subplots(len(names), 1, figsize=(8, 0.5 * len(names) + 0.16 * sum(counts) + 0.6), squeeze=False,
                              gridspec_kw={"height_ratios": [count + 2 for count in counts], "hspace": 0.7})
    for axis, name in zip(axes[:, 0], names):
        mine = sorted((row for row in rows if row["what"] == name), key=lambda row: natural(row["shape"]), reverse=True)
        for at, row in enumerate(mine):
            low, high = quartiles(row)
            axis.plot([low, high], [at, at], color=OURS, linewidth=1)
            axis.plot(row["ratio"], at, "o", color=OURS, markersize=3)
            bar = bar_of(row, bars)
            if bar:
                axis.plot([bar["value"]] * 2, [at - 0.5, at + 0.5], color=BAR, linewidth=1.2)
        axis.set_yticks(range(len(mine)), [row["shape"] for row in mine], fontsize=5)
        axis.set_ylim(-0.7, len(mine) - 0.3)
        axis.set_title(f"{name}: ratio, and its bar (red)", fontsize=7, loc="left")
        axis.tick_params(axis="x", labelsize=6)
        axis.grid(axis="x", linewidth=0.3)
        if min(row["ratio"] for row in mine) >= 0:
            axis.set_xlim(left=0)
    return save(plot, folder, f"{group}-ratio.svg")


def lines_over(rows, what, pattern, series, label, title, folder, name, both=True):
    """`series` names a line by the match of `pattern`, whose group 1 is the place on the x axis."""
    found = {}
    for row in rows:
        match = re.search(pattern, row["shape"])
        if row["what"] == what and match and number(row["ours"]):
            found.setdefault(series(match), []).append((int(match[1]), number(row["ours"]), number(row["peer"])))
    if not found:
        return None
    plot, axis = pyplot().subplots(figsize=(7, 3.4))
    for index, (legend, points) in enumerate(sorted(found.items())):
        points.sort()
        style = ("-", "--", ":", "-.")[index % 4]
        x = [point[0] for point in points]
        axis.plot(x, [point[1] for point in points], style, marker="o", markersize=3, color=OURS, label=f"convolvd {legend}", linewidth=1)
        if both and all(point[2] for point in points):
            axis.plot(x, [point[2] for point in points], style, marker="s", markersize=3, color=PEER, label=f"peer {legend}", linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_ylim(bottom=0)
    axis.set_xlabel(label[0], fontsize=7)
    axis.set_ylabel(label[1], fontsize=7)
    axis.set_title(title, fontsize=8, loc="left")
    axis.tick_params(labelsize=6)
    axis.legend(fontsize=5)
    axis.grid(linewidth=0.3)
    return save(plot, folder, name)


def plots(group, rows, bars, folder):
    drawn = [plot_ratios(group, rows, bars, folder)]
    if group == "cpu":
        drawn.append(lines_over(rows, "cpu against FFTW overlap-save", r"N=(\d+) channels=(\d+) threads=(\d+)",
                                lambda match: f"{int(match[2]):2d} channels, {match[3]} thread(s)", ("N", "Msamples/s"),
                                "Throughput over N, beside FFTW overlap-save", folder, "cpu-throughput.svg"))
        drawn.append(lines_over(rows, "cpu growth against zita", r"S=(\d+) L=(\d+) (\d+)ch",
                                lambda match: f"block {match[2]}, {match[3]} channels", ("taps", "ns of processor time a sample"),
                                "Cost as taps grow, beside zita-convolver", folder, "cpu-growth.svg"))
    if group == "gpu":
        drawn.append(lines_over(rows, "gpu share of copy", r"Q=(\d+) (\d+)ch (\S+)",
                                lambda match: f"{match[2]} channels {match[3]}", ("Q = N/2", "GB/s"),
                                "Bytes in and out over time; peer: the device's copy", folder, "gpu-throughput.svg"))
    return [name for name in drawn if name]


# ---- the page ------------------------------------------------------------------------------------

def rewrite(text, parts):
    """Replaces what stands between the marks; an unknown or unclosed mark ends the program."""
    def part(match):
        if match[1] not in parts:
            sys.exit(f"no results are called {match[1]!r}; known: {', '.join(parts)}")
        return f"<!-- results: {match[1]} -->\n{parts[match[1]]}<!-- end -->"
    opened, closed = len(re.findall(r"<!-- results: ", text)), len(re.findall(r"<!-- end -->", text))
    if opened != closed:
        sys.exit(f"{opened} marks '<!-- results: … -->' and {closed} marks '<!-- end -->'")
    return re.sub(r"<!-- results: (\S+) -->\n.*?<!-- end -->", part, text, flags=re.S)


def without_plots(text):
    """The lines of a page but its plots, and the empty lines around these."""
    return [line for line in text.splitlines() if line and not line.startswith("![")]


def compare(page, text, name):
    changed = list(difflib.unified_diff(without_plots(page), without_plots(text), name, "the records", n=0, lineterm=""))
    if changed:
        print("\n".join(changed) + "\nmake docs-performance writes the page anew")
    else:
        print(f"{name} shows what is recorded")
    return 1 if changed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="CSV files (default: all of bench/recorded)")
    parser.add_argument("--docs", default=os.path.join(ROOT, "docs", "performance.md"))
    parser.add_argument("--plots", help="directory of the plots (default: beside the page, in performance/)")
    parser.add_argument("--check", action="store_true", help="only compare the tables with the page")
    arguments = parser.parse_args()
    folder = arguments.plots or os.path.join(os.path.dirname(os.path.abspath(arguments.docs)), "performance")
    paths = arguments.files or sorted(glob.glob(os.path.join(check.RECORDED, "*.csv")))
    rows, bars = check.read_results(paths), check.read_bars()
    parts = {"summary": summary(rows, bars), "limits": limits(rows), "machine": machine(paths)}
    where = os.path.relpath(folder, os.path.dirname(os.path.abspath(arguments.docs)))
    for group in GROUPS:
        parts[group] = group_table(group, rows, bars)
        if not arguments.check:
            parts[group] += "".join(f"\n![{name[:-4]}]({where}/{name})\n" for name in plots(group, rows, bars, folder))
    with open(arguments.docs, encoding="utf-8") as file:
        page = file.read()
    text = rewrite(page, parts)
    if arguments.check:
        return compare(page, text, arguments.docs)
    with open(arguments.docs, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{arguments.docs}: {len(rows)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
