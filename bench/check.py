#!/usr/bin/python3
"""Holds measurements against the bars of bench/bars.csv.

    bench/check.py [--group cpu,gpu,daemon] [FILE...]

Every CSV file with the columns below is read: those of bench/recorded/, which are part of the repository
(bench/record.py), and then those of bench/results/, which were measured here. A row measured again counts with
its last line. For every bar
one line says whether it is held, by the worst of its rows. The exit status is 0 when all are held, 1
when one is missed, when a row's result was wrong, or when a bar of a group that was measured has no row.
A group of which nothing was measured (no GPU in this machine) is named, and fails only when --group asks for it.
"""
import argparse
import csv
import glob
import math
import os
import re
import sys

from rows import COLUMNS

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "recorded")
ERROR_MAX = 1e-6  # of the design: ||e|| over its reference; a column error_allowed adds the wire's rounding


def read_results(paths):
    """The last line of every (what, shape); lines that do not parse end the program."""
    rows = {}
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames is None or not set(COLUMNS) <= set(reader.fieldnames):
                continue
            for number, row in enumerate(reader, 2):
                try:
                    row["ratio"] = float(row["ratio"])
                    row["error"] = float(row["error"] or 0)
                    row["allowed"] = float(row.get("error_allowed") or ERROR_MAX)
                except (TypeError, ValueError):
                    sys.exit(f"{path}:{number}: not a measurement: {row}")
                rows[row["what"], row["shape"]] = row
    return list(rows.values())


def read_bars(path=os.path.join(HERE, "bars.csv")):
    with open(path, encoding="utf-8", newline="") as file:
        bars = list(csv.DictReader(file))
    for bar in bars:
        bar["below"] = bar["bar"].startswith("<=")
        bar["value"] = float(bar["bar"][2:])
    return bars


def judge(bar, rows):
    """(held, figure, row): the bar's figure, of the worst row or of all; (None, …) without a row."""
    mine = [row for row in rows if row["what"] == bar["what"] and re.search(bar["shape"], row["shape"] + " ")]
    if not mine:
        return None, math.nan, None
    if bar["rule"] == "geomean":
        worst = None
        figure = math.exp(sum(math.log(max(row["ratio"], 1e-12)) for row in mine) / len(mine))
    else:
        worst = (max if bar["below"] else min)(mine, key=lambda row: row["ratio"])
        figure = worst["ratio"]
    wrong = next((row for row in mine if not row["error"] <= row["allowed"]), None)
    if wrong is not None:
        return False, figure, wrong
    return (figure <= bar["value"] if bar["below"] else figure >= bar["value"]), figure, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="CSV files (default: all of bench/recorded and bench/results)")
    parser.add_argument("--group", help="groups that must have been measured, separated by commas")
    arguments = parser.parse_args()
    rows = read_results(arguments.files or sorted(glob.glob(os.path.join(RECORDED, "*.csv"))) +
                        sorted(glob.glob(os.path.join(HERE, "results", "*.csv"))))
    bars = read_bars()
    wanted = arguments.group.split(",") if arguments.group else []
    unknown = set(wanted) - {bar["group"] for bar in bars}
    if unknown:
        parser.error(f"no group {', '.join(sorted(unknown))} in bars.csv")
    measured = {bar["group"] for bar in bars if judge(bar, rows)[0] is not None}
    held = missed = 0
    for bar in bars:
        if wanted and bar["group"] not in wanted:
            continue
        if bar["group"] not in measured and bar["group"] not in wanted:
            continue
        good, figure, row = judge(bar, rows)
        what = f"{bar['what']}{' (geometric mean)' if bar['rule'] == 'geomean' else ''}"
        if good is None:
            print(f"MISSING  {what:45} bar {bar['bar']:7} no row measured: {bar['sentence']}")
        else:
            where = f"{row['shape']}, error {row['error']:.1e}" if row is not None else bar["sentence"]
            away = f"({(figure / bar['value'] - 1) * 100:+.0f} %)" if bar["value"] != 0 else f"({figure:+g})"
            print(f"{'held   ' if good else 'MISSED '}  {what:45} bar {bar['bar']:7} {figure:8.3f} {away}  {where}")
        held += good is True
        missed += good is not True
    for group in sorted({bar["group"] for bar in bars} - measured - set(wanted)):
        print(f"nothing  of the group {group} was measured here")
    if not measured:
        print("bench-check: nothing was measured yet: run make bench")
        return 1
    print(f"bench-check: {held} held, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
