#!/usr/bin/python3
"""Keeps measurements for the page and for `make bench-check`: from bench/results/ into bench/recorded/.

    bench/record.py [--drop] [--only WHAT] [--to DIRECTORY] [FILE...]

bench/results/ holds every run of this machine and belongs to nobody else; bench/recorded/ is part of the
repository and holds one row of every (what, shape) that docs/performance.md shows, a file a group. The last
line of each row in the FILEs (default: all CSV files of bench/results) replaces the recorded one. --drop: rows
that a FILE does not hold again go, of each `what` that it holds (a shape that is no longer measured). --only: of
one `what`, so that --drop leaves the others alone, of which a run may have measured a part.

The machine of the processor's figures, as bench_engine names it, is recorded in machine.csv.
"""
import argparse
import csv
import glob
import os
import re

import check

COLUMNS = check.COLUMNS[:-1] + ["error_allowed", "command"]
MACHINE = ["time", "commit", "device", "driver", "cores", "kernel"]


def natural(text):
    """Sorts N=256 before N=1024."""
    return [(0, float(word), "") if word.isdigit() else (1, 0.0, word)
            for word in re.split(r"(\d+)", text) if word]


def group_of(row):
    return row["what"].split(" ")[0]


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return set(reader.fieldnames or []), list(reader)


def write(path, columns, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def record_rows(paths, folder, drop, only=None):
    """How many rows are new or replaced."""
    measured = {}
    for path in paths:
        columns, rows = read(path)
        if set(check.COLUMNS) <= columns:
            measured.update({(row["what"], row["shape"]): row for row in rows if only in (None, row["what"])})
    names = {row["what"] for row in measured.values()}
    for group in sorted({group_of(row) for row in measured.values()}):
        path = os.path.join(folder, f"{group}.csv")
        kept = {(row["what"], row["shape"]): row for row in (read(path)[1] if os.path.exists(path) else [])
                if not (drop and row["what"] in names)}
        kept.update({key: row for key, row in measured.items() if group_of(row) == group})
        write(path, COLUMNS, sorted(kept.values(), key=lambda row: (row["what"], natural(row["shape"]))))
    return len(measured)


def record_machine(paths, folder):
    """bench_engine ran on this machine, so its number of cores and its kernel are added here."""
    newest = None
    for path in paths:
        columns, rows = read(path)
        if {"time", "device", "driver"} <= columns:
            newest = max(rows + ([newest] if newest else []), key=lambda row: row["time"], default=newest)
    if newest is not None:
        row = dict(newest, cores=newest.get("cores") or os.cpu_count(),
                   kernel=newest.get("kernel") or os.uname().release.split("-")[0])
        write(os.path.join(folder, "machine.csv"), MACHINE, [row])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="CSV files (default: all of bench/results)")
    parser.add_argument("--drop", action="store_true", help="leave out rows that were not measured again")
    parser.add_argument("--only", metavar="WHAT", help="take rows of this `what` alone")
    parser.add_argument("--to", default=check.RECORDED, help="directory of the records (default: bench/recorded)")
    arguments = parser.parse_args()
    paths = arguments.files or sorted(glob.glob(os.path.join(check.HERE, "results", "*.csv")))
    os.makedirs(arguments.to, exist_ok=True)
    count = record_rows(paths, arguments.to, arguments.drop, arguments.only)
    record_machine(paths, arguments.to)
    print(f"{arguments.to}: {count} rows of {len(paths)} files")


if __name__ == "__main__":
    main()
