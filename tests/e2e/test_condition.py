#!/usr/bin/python3
# parallel: yes
# kernels: plain, what follows the kernels is tested
# takes: 6 s CPU in 8 s
"""The worked examples of ultrasonics and vibration, from a signal whose answer is known: the commands of docs/bearing.md
as a reader runs them, config/bearing.conf on a recording with a tacho, config/thickness.conf on echoes of a plate."""
import csv
import os
import re
import subprocess
import unittest

import numpy as np
from scipy.io import wavfile

import convolvd as c


def example(name):
    with open(os.path.join(c.ROOT, "config", name), encoding="utf-8") as file:
        return file.read()


def replaced(text, first, last):
    """The example with its lines from key `first` to key `last` replaced by the ones that it offers in a comment."""
    offered = re.search(r"# source = .*\n(?:# \S.*\n)*", text).group(0).replace("# ", "")
    begin = text.index(f"\n{first} = ") + 1
    end = text.index("\n", text.index(f"\n{last} = ") + 1) + 1
    return text[:begin] + offered + text[end:]


def rows(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


class Page(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(c.ROOT, "docs", "bearing.md"), encoding="utf-8") as file:
            self.page = file.read()

    def write(self, folder, block):
        """A fenced block is a file; its first line names it, and says whether it goes on."""
        name, how = re.match(r"# ([\w.]+)(, continued)?\n", block).groups()
        if name.endswith(".conf") and not how:
            block = f"[device]\ndevice = {c.DEVICE}\n" + block
        with open(os.path.join(folder, name), "a" if how else "w", encoding="utf-8") as file:
            file.write(block)

    def test_each_command_of_the_page(self):
        with c.temporary() as folder:
            os.symlink(os.path.join(c.ROOT, "config"), os.path.join(folder, "config"))
            environment = {**os.environ, "PATH": f"{c.BUILD}:/usr/bin:/bin"}
            printed = {}
            for fenced, command in re.findall(r"```\w+\n(.*?)```|^    (\S[^\n]*)$", self.page, re.S | re.M):
                if fenced:
                    self.write(folder, fenced)
                    continue
                result = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, check=False,
                                        capture_output=True, timeout=4 * c.PATIENCE_S)
                self.assertEqual(result.returncode, 0, f"{command}\n{result.stderr}")
                printed.setdefault(command, []).append(result.stdout)
            self.overall(printed["python3 overall.py"][0])
            self.lines(printed["python3 lines.py"][0])
            # What the page says that --check prints, and what it says of the files.
            said = re.search(r"the frequencies to look for: (.*?)\. ", self.page.replace("\n", " ")).group(1)
            self.assertIn(said, printed["convolvd --check bearing.conf"][1])
            self.assertTrue(os.path.exists(f"{folder}/bearing-0002.csv"))

    def test_a_recording_shorter_than_one_result(self):
        """The result of what there is comes, is flagged, and both scripts of the page show it with its flags."""
        for frames in (153600, 65536, 20000):  # of three segments, of one, of none
            with self.subTest(frames=frames):
                self.one_short_recording(frames)

    def one_short_recording(self, frames):
        with c.temporary() as folder:
            wave = np.random.default_rng(4).normal(size=frames) * 500
            wavfile.write(f"{folder}/motor.wav", 51200, wave.astype("<i2"))
            blocks = re.findall(r"```\w+\n(.*?)```", self.page, re.S)
            environment = {**os.environ, "PATH": f"{c.BUILD}:/usr/bin:/bin"}
            for block in blocks[1:]:
                self.write(folder, block)
                if block.startswith("# overall.py"):
                    script, said = "overall.py", "kurtosis"
                elif block.startswith("# lines.py"):
                    script, said = "lines.py", "bpfo"
                else:
                    continue
                for command in ("convolvd bearing.conf", f"python3 {script}"):
                    result = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, check=False,
                                            capture_output=True, timeout=4 * c.PATIENCE_S)
                    self.assertEqual(result.returncode, 0, f"{command}\n{result.stderr}")
                lines = result.stdout.splitlines()
                self.assertEqual(len(lines), 1, result.stdout)
                self.assertIn(said, lines[0])
                self.assertIn("cut|incomplete", lines[0])

    def overall(self, text):
        lines = text.splitlines()
        self.assertEqual(len(lines), 5)
        self.assertIn("cut|incomplete", lines.pop())  # the end of the file cuts the last group
        for line in lines:
            self.assertNotIn("incomplete", line)
            words = line.split()
            values = dict(zip(words[::2], map(float, words[1::2])))
            self.assertAlmostEqual(values["kurtosis"], 11, delta=1)
            self.assertTrue(5000 <= values["spectral_kurtosis_hz"] <= 7000, line)
            self.assertTrue(values["velocity_mms"] > 0, line)

    def lines(self, text):
        lines = text.splitlines()
        self.assertEqual(len(lines), 5)
        self.assertIn("cut|incomplete", lines.pop())
        for line in lines:
            found = {name: (float(g), float(hz)) for name, g, hz in re.findall(r"(\w+) ([\d.]+) g at ([\d.]+) Hz", line)}
            self.assertEqual(list(found), ["bpfo", "bpfi", "bsf", "ftf"])
            # One bin is 0.78 Hz, the bursts come every 484 frames.
            self.assertAlmostEqual(found["bpfo"][1], 51200 / 484, delta=0.8)
            for other in ("bpfi", "bsf", "ftf"):
                self.assertGreater(found["bpfo"][0], 2.5 * found[other][0], line)


class Bearing(unittest.TestCase):
    RATE, SECONDS, SPEED, SLIP = 51200, 13, 24.7, 0.99

    def recording(self, path):
        """Acceleration of a struck outer race with a jitter of 1 %, and one pulse of a tacho a turn."""
        random = np.random.default_rng(3)
        frames = self.RATE * self.SECONDS
        time = np.arange(frames) / self.RATE
        bpfo = 3.58483 * self.SPEED * self.SLIP
        g = 0.5 * np.sin(2 * np.pi * self.SPEED * time) + 0.3 * random.standard_normal(frames)
        at = 0.01
        while at < self.SECONDS:
            i = np.arange(int(at * self.RATE) + 1, min(frames, int(at * self.RATE) + 600))
            ring = i / self.RATE - at
            g[i] += 4 * np.exp(-600 * ring) * np.sin(2 * np.pi * 6000 * ring)
            at += (1 + 0.01 * random.standard_normal()) / bpfo
        volts = np.stack([g * 0.1, 3 * np.sin(2 * np.pi * self.SPEED * time)], axis=1)
        c.write_wav16(path, self.RATE, np.round(volts / 5 * 32767).astype(np.int16))
        return bpfo, g

    def test_the_example(self):
        text = replaced(example("bearing.conf"), "source", "format").replace("path = motor.wav", "path = {folder}/motor.wav")
        text = text.replace("path = bearing", "path = {folder}/bearing").replace("channels = 2\n", "")
        with c.temporary() as folder:
            bpfo, g = self.recording(f"{folder}/motor.wav")
            with c.Daemon(folder, text.format(folder=folder), wait=False) as daemon:
                self.assertEqual(daemon.wait(), 0, daemon.output())
            events = [row for row in rows(f"{folder}/bearing.csv") if row["flags"] == ""]
            with open(f"{folder}/bearing.jsonl", encoding="utf-8") as file:
                self.assertIn('"samples"', file.read())
        self.assertEqual([row["channel"] for row in events], ["1", "1"])
        for row in events:
            value = {name: float(text) for name, text in row.items() if re.fullmatch(r"[-+\d.e]+", text)}
            first = int(value["frame"])
            part = g[first:first + int(value["live"])]
            # Samples are 16-bit codes of 1.5 mg.
            self.assertAlmostEqual(value["rms"], part.std(), delta=1e-3)
            self.assertAlmostEqual(value["kurtosis"], np.mean((part - part.mean()) ** 4) / part.var() ** 2, delta=2e-2)
            self.assertAlmostEqual(value["speed_hz"], self.SPEED, delta=1e-3)
            self.assertAlmostEqual(value["bpfo_hz"], 3.58483 * self.SPEED, delta=1e-2)
            self.assertAlmostEqual(value["bpfo_found_hz"], bpfo, delta=1)
            self.assertAlmostEqual(value["velocity_mms"], 500 * 9.80665 / (2 * np.pi * self.SPEED) / 2 ** 0.5, delta=0.5)
            self.assertTrue(5000 <= value["spectral_kurtosis_hz"] <= 7000)
            self.assertGreater(value["bpfo"], 2 * value["bpfi"])


class Thickness(unittest.TestCase):
    def test_the_example(self):
        text = replaced(example("thickness.conf"), "source", "excitation period")
        text = text.replace("path = ", "path = {folder}/").replace("\nduration = 2 s", "\nduration = 220 ms\npace = fast")
        with c.temporary() as folder:
            with c.Daemon(folder, text.format(folder=folder), wait=False) as daemon:
                self.assertEqual(daemon.wait(), 0, daemon.output())
            events = rows(f"{folder}/thickness.csv")
            with open(f"{folder}/thickness.jsonl", encoding="utf-8") as file:
                self.assertIn('"samples"', file.read())
        # 64 whole periods, and the A-scan of one that the end cuts.
        self.assertEqual([row["averages"] for row in events], ["16", "16", "16", "16", "1"])
        for row in events[:4]:
            self.assertEqual((row["flags"], row["alarm_1"], row["alarm_2"]), ("", "0", "0"))
            self.assertAlmostEqual(float(row["time_us_1"]), 40.8, delta=1e-4)
            self.assertAlmostEqual(float(row["thickness_mm"]), 5920 * 13.6e-6 / 2 * 1e3, delta=1e-4)
            self.assertAlmostEqual(float(row["amplitude_2"]), 0.5, delta=1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
