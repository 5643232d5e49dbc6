#!/usr/bin/python3
# sanitizers: no, LD_PRELOAD comes before the sanitizer's own library
# parallel: yes
# kernels: plain, counting and waiting is tested, no figure
# takes: 20 s CPU in 25 s
"""bench_gpu --together: devices of one host at once, here PoCL's, one process each."""
import csv
import os
import re
import signal
import subprocess
import tempfile
import unittest

import convolvd as c

BENCH = os.path.join(c.BUILD, "bench", "bench_gpu")
SMALL = ["--mib", "2", "--ms", "5"]
FIRST, SECOND = "0000:3b:00.0", "0000:af:00.0"
CONTESTS = 4  # host to host, copies, bank, bank alone


def environment(devices=2):
    """PoCL's device so many times, with PCI addresses as a GPU's driver tells them."""
    return {**os.environ, "POCL_DEVICES": " ".join(["pthread"] * devices), "FAULTY_PCI": "khr",
            "FAULTY_PCI_AT": f"{FIRST} {SECOND}", "LD_PRELOAD": os.path.join(c.BUILD, "tests", "faulty_opencl.so")}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Together(unittest.TestCase):
    def start(self, devices, *arguments, present=2):
        process = subprocess.Popen([BENCH, "--together", devices, *SMALL, *arguments], env=environment(present),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def run_to_the_end(self, devices, *arguments, present=2):
        process = self.start(devices, *arguments, present=present)
        out, log = process.communicate(timeout=240)
        return process.returncode, out, log

    def table(self, out):
        """First word of each line of the table, with its four figures."""
        lines = {}
        for line in out.splitlines():
            found = re.fullmatch(r"(\d+|sum) .*" + r"\s+([\d.e+-]+)" * CONTESTS, line)
            if found:
                lines[found.group(1)] = [float(figure) for figure in found.groups()[1:]]
        return lines

    def test_two_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "together.csv")
            code, out, log = self.run_to_the_end("af:00.0,0", "--repetitions", "1", "--ms", "25", "--csv", path)
            self.assertEqual(code, 0, log)
            with open(path, encoding="utf-8", newline="") as file:
                rows = {row["what"]: row for row in csv.DictReader(file)}
            check = subprocess.run(["/usr/bin/python3", os.path.join(c.ROOT, "bench", "check.py"), "--group", "together",
                                    path], capture_output=True, text=True, check=False).stdout
        self.assertEqual(len(set(re.findall(r"process (\d+)", out))), 2, out)
        lines = self.table(out)
        self.assertEqual(set(lines), {"0", "1", "sum"}, out)
        self.assertLess(out.index(SECOND), out.index(FIRST), "in the order of the words")
        for contest in range(CONTESTS):
            both = [lines[name][contest] for name in ("0", "1")]
            self.assertGreater(min(both), 0)
            self.assertAlmostEqual(sum(both), lines["sum"][contest], delta=1e-4 * sum(both))
        at_once = [float(share) for share in re.findall(r"(\d\.\d\d) of the (?:time|copies|bank's)", out)]
        self.assertEqual(len(at_once), CONTESTS, out)
        self.assertGreater(min(at_once[:3]), 0, "side by side, however loaded the machine is")
        self.assertEqual(at_once[3], 0, "alone is alone")
        for what, contest, bar in (("gpu together duplex", 0, ">=0.9"), ("gpu together bank", 2, ">=0.95")):
            row, ours, peer = rows[what], *lines["sum"][contest:contest + 2]
            self.assertAlmostEqual(float(row["ours"]), ours, delta=1e-4 * ours)
            self.assertAlmostEqual(float(row["peer"]), peer, delta=1e-4 * peer)
            self.assertAlmostEqual(float(row["ratio"]), ours / peer, delta=1e-3)
            self.assertTrue(row["shape"].startswith("2 devices "), row)
            self.assertEqual(row["bar"], bar)
            self.assertTrue(0 < float(row["error"]) <= 1e-6, row)
            self.assertIn("--together af:00.0,0", row["command"])
            self.assertRegex(check, rf"(held|MISSED) +{what} +bar {bar} ")

    def test_one_device(self):
        code, out, log = self.run_to_the_end("0", "--repetitions", "2", present=1)
        self.assertEqual(code, 0, log)
        lines = self.table(out)
        self.assertEqual(lines["0"], lines["sum"], out)
        self.assertIn("1 device ", out)

    def started(self, *arguments):
        """A run that does not end by itself: (process, ids of its members)."""
        process = self.start("0,1", "--repetitions", "256", "--ms", "100", *arguments)
        members = [int(re.search(r"process (\d+)", process.stdout.readline()).group(1)) for _ in range(2)]
        return process, members

    def assert_ended(self, process, members, *words):
        out, log = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, log)
        for word in words:
            self.assertIn(word, log)
        self.assertNotIn("gpu together", out)
        for pid in members:
            self.assertFalse(alive(pid))

    def test_a_device_dies(self):
        process, members = self.started()
        c.wait_for(lambda: len(os.listdir(f"/proc/{members[1]}/task")) > 3, "the device's threads")
        os.kill(members[1], signal.SIGKILL)
        self.assert_ended(process, members, f"process {members[1]} of device 1", "was killed by signal 9", "no figures")

    def test_a_device_hangs(self):
        process, members = self.started("--limit", "4")
        os.kill(members[1], signal.SIGSTOP)
        self.assert_ended(process, members, f"process {members[1]} of device 1", "keeps the others waiting for 4 s")

    def test_the_bench_itself_dies(self):
        process, members = self.started()
        process.kill()
        process.wait()
        c.wait_for(lambda: not any(alive(pid) for pid in members), "the members end")

    def test_devices_that_are_not_there(self):
        for devices, words in (("all", "there is no GPU"), ("0,0", "no further device '0'"), ("7", 'no OpenCL device "7"'),
                               (",", "names no device")):
            code, out, log = self.run_to_the_end(devices)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(words, log)


if __name__ == "__main__":
    unittest.main()
