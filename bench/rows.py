"""The rows that benches append to a CSV file, which bench/check.py and bench/record.py read."""
import csv
import os

COLUMNS = ["what", "shape", "ours", "peer", "ratio", "bar", "unit", "median", "spread", "error", "command"]


def append(path, rows, columns=COLUMNS):
    """Adds the rows, dicts with these columns; a new file begins with their names."""
    fresh = not os.path.exists(path)
    with open(path, "a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        if fresh:
            writer.writeheader()
        writer.writerows(rows)
