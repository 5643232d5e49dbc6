#!/usr/bin/python3
# parallel: yes
"""bench/record.py and the records: kept in the repository, judged without a run, and what the page shows."""
import csv
import os
import shutil
import subprocess
import tempfile
import unittest

import convolvd as c

HEAD = "what,shape,ours,peer,ratio,bar,unit,median,spread,error,command\n"
ECHO = "daemon against echo"


def row(what, shape, ratio):
    return f"{what},{shape},1,1,{ratio},,x,{ratio},,0,again\n"


class BenchRecord(unittest.TestCase):
    """A copy of the programs, with records and results of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bench = os.path.join(folder.name, "bench")
        os.makedirs(os.path.join(self.bench, "results"))
        for name in ("check.py", "record.py", "rows.py", "bars.csv"):
            shutil.copy(os.path.join(c.ROOT, "bench", name), self.bench)

    def write(self, name, *rows, head=HEAD):
        with open(os.path.join(self.bench, name), "w", encoding="utf-8") as file:
            file.write(head + "".join(rows))

    def run_program(self, name, *arguments):
        result = subprocess.run(["/usr/bin/python3", os.path.join(self.bench, name), *arguments], capture_output=True,
                                text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def recorded(self, group):
        with open(os.path.join(self.bench, "recorded", f"{group}.csv"), encoding="utf-8", newline="") as file:
            return {(line["what"], line["shape"]): float(line["ratio"]) for line in csv.DictReader(file)}

    def test_the_last_line_of_each_row_is_kept_by_group(self):
        self.write("results/a.csv", row(ECHO, "L16", 1.2), row("cpu latency", "N=2048", 0.5), row(ECHO, "L16", 1.4))
        self.assertEqual(self.run_program("record.py")[0], 0)
        self.assertEqual(self.recorded("daemon"), {(ECHO, "L16"): 1.4})
        self.assertEqual(self.recorded("cpu"), {("cpu latency", "N=2048"): 0.5})

    def test_rows_stay_until_they_are_measured_again_or_dropped(self):
        self.write("results/a.csv", row(ECHO, "L16", 1.2), row(ECHO, "f32", 1.3), row("daemon p99", "f32", 0.9))
        self.run_program("record.py")
        self.write("results/a.csv", row(ECHO, "L16", 1.5))
        self.run_program("record.py")
        self.assertEqual(self.recorded("daemon"), {(ECHO, "L16"): 1.5, (ECHO, "f32"): 1.3, ("daemon p99", "f32"): 0.9})
        self.run_program("record.py", "--drop")
        self.assertEqual(self.recorded("daemon"), {(ECHO, "L16"): 1.5, ("daemon p99", "f32"): 0.9})

    def test_dropping_rows_of_one_kind_leaves_the_others(self):
        self.write("results/a.csv", row(ECHO, "L16", 1.2), row(ECHO, "f32", 1.3), row("daemon p99", "f32", 0.9))
        self.run_program("record.py")
        self.write("results/a.csv", row(ECHO, "L16", 1.5), row("daemon p99", "L16", 0.8))
        self.run_program("record.py", "--drop", "--only", ECHO)
        self.assertEqual(self.recorded("daemon"), {(ECHO, "L16"): 1.5, ("daemon p99", "f32"): 0.9})

    def test_shapes_stand_in_the_order_of_their_numbers(self):
        self.write("results/a.csv", row(ECHO, "PoCL 5.0", 1), row(ECHO, "N=1024", 1), row(ECHO, "N=256", 1))
        self.run_program("record.py")
        self.assertEqual(list(self.recorded("daemon")), [(ECHO, "N=256"), (ECHO, "N=1024"), (ECHO, "PoCL 5.0")])

    def test_the_machine(self):
        self.write("results/engine.csv", "2026-01-02T03,abc,some CPU,1.0\n", "2026-01-01T03,old,other,0.9\n",
                   head="time,commit,device,driver\n")
        self.run_program("record.py")
        with open(os.path.join(self.bench, "recorded", "machine.csv"), encoding="utf-8") as file:
            self.assertIn(f"2026-01-02T03,abc,some CPU,1.0,{os.cpu_count()},", file.read())

    def test_records_are_judged_without_a_run(self):
        self.write("results/a.csv", row(ECHO, "L16", 0.5))
        self.run_program("record.py")
        os.remove(os.path.join(self.bench, "results", "a.csv"))
        code, out = self.run_program("check.py", "--group", "daemon")
        self.assertEqual(code, 1)
        self.assertIn(f"MISSED   {ECHO}", out)

    def test_what_was_measured_here_counts_before_the_record(self):
        self.write("results/a.csv", row(ECHO, "L16", 0.5))
        self.run_program("record.py")
        self.write("results/a.csv", row(ECHO, "L16", 1.5))
        self.assertIn(f"held     {ECHO}", self.run_program("check.py", "--group", "daemon")[1])


class Repository(unittest.TestCase):
    def program(self, *words):
        return subprocess.run(["/usr/bin/python3", *words], cwd=c.ROOT, capture_output=True, text=True, check=False)

    def test_every_bar_of_a_recorded_group_has_a_row(self):
        """But for channels carried by JACK, of which no whole run was recorded yet."""
        folder = os.path.join(c.ROOT, "bench", "recorded")
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        out = self.program("bench/check.py", *files).stdout
        missing = [line for line in out.splitlines() if line.startswith("MISSING") and "jack channels" not in line]
        self.assertEqual(missing, [], out)
        for group in ("cpu", "gpu", "daemon"):
            self.assertNotIn(f"nothing  of the group {group}", out)

    def test_the_page_shows_the_records(self):
        result = self.program("bench/report.py", "--check")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
