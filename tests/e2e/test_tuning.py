#!/usr/bin/python3
# parallel: yes
# kernels: plain, choosing is tested, and many plans compiled
# takes: 12 s CPU in 17 s
"""Plans chosen by measurement: --explain before and after --tune, and the daemon that follows it."""
import os
import re
import subprocess
import tempfile
import unittest

import convolvd as c

CONFIG = """[device]
device = {device}
{cache}
[stream quick]
source = generator
waveform = noise
rate = 100 kHz
channels = 4
pace = fast
duration = 20000 frames
latency = 5 ms
filter = band
[stream pair]
source = generator
waveform = noise
rate = 100 kHz
channels = 2
pace = fast
duration = 20000 frames
block = 128
filter = band
[filter band]
type = bandpass
low = 10 kHz
high = 30 kHz
taps = 201
"""


class Tuning(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="convolvd-tuning-")
        self.addCleanup(self.folder.cleanup)
        self.cache = os.path.join(self.folder.name, "cache")
        os.mkdir(self.cache)
        self.config = self.write(f"cache = {self.cache}")

    def write(self, cache):
        path = os.path.join(self.folder.name, "a.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(device=c.DEVICE, cache=cache))
        return path

    def run_convolvd(self, *arguments, program="convolvd", more=None):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("CACHE_DIRECTORY", "STATE_DIRECTORY")}
        return subprocess.run([os.path.join(c.BUILD, program), *arguments], capture_output=True, text=True,
                              timeout=4 * c.PATIENCE_S, check=False, env={**environment, **(more or {})})

    def explained(self, *arguments):
        result = self.run_convolvd(*arguments, "--explain", self.config)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_rule_then_measurement(self):
        before = self.explained()
        self.assertEqual(before.count("by rule: nothing was measured"), 2, before)
        self.assertEqual(before.count("CHOSEN"), 2, before)
        # 5 ms are 500 frames: half of it goes into collecting a block, 128 is the longest power of two.
        self.assertRegex(before, r"stream quick: \S+, blocks of 128 frames")

        tuned = self.run_convolvd("--tune", self.config)
        self.assertEqual(tuned.returncode, 0, tuned.stderr)
        self.assertIn("stream quick: measuring", tuned.stderr)
        plans = dict(re.findall(r"^stream (\w+): (\S+, blocks of \d+ frames, N = \d+)$", tuned.stdout, re.M))
        self.assertEqual(set(plans), {"quick", "pair"}, tuned.stdout)
        self.assertTrue(os.path.getsize(os.path.join(self.cache, "wisdom.json")) > 100)

        after = self.explained()
        for stream, plan in plans.items():
            self.assertRegex(after, rf"stream {stream}: {re.escape(plan)}, \d+ partitions?, by measurement")
        self.assertEqual(after.count("CHOSEN"), 2, after)
        self.assertGreater(after.count("times the time per frame"), 4, after)

        log = self.run_convolvd("-v", self.config)
        self.assertEqual(log.returncode, 0, log.stderr)
        for stream, plan in plans.items():
            variant, rest = plan.split(", ", 1)
            self.assertRegex(log.stderr, rf"stream {stream}: variant {re.escape(variant)}, {re.escape(rest)}, "
                             r"\d+ partitions?, results in \S+, chosen by measurement")

        forced = self.explained("--variant", "general")
        self.assertEqual(forced.count(": general, "), 2, forced)
        self.assertEqual(forced.count("because `variant` or `fft` asks for it"), 2, forced)

    def test_spilled_registers_are_told(self):
        # As NVIDIA's compiler would tell of them. From then on the cache of programs does.
        spill = {"CONVOLVD_TEST_SPILL": "overlap_add_gather:24"}
        tuned = self.run_convolvd("--variant", "overlap-add", "--tune", self.config, program="convolvd-test", more=spill)
        self.assertEqual(tuned.returncode, 0, tuned.stderr)
        measured = re.findall(r"^    overlap-add .*  N .* us .*$", tuned.stdout, re.M)
        self.assertGreater(len(measured), 2, tuned.stdout)
        self.assertEqual([line for line in measured if "  spills 24 bytes  " not in line], [], tuned.stdout)
        self.assertIn("overlap_add.cl keeps 24 bytes of an item's registers in memory", tuned.stderr)
        explained = self.explained("--variant", "overlap-add")
        self.assertEqual(explained.count("  24 bytes of a work-item's registers spill to memory: it is slower"), 2, explained)
        self.assertNotIn("spill", self.explained("--variant", "general"))

        with open(self.config, encoding="utf-8") as file:
            config = file.read().replace("pace = fast\nduration = 20000 frames\n", "")
        with c.Daemon(self.folder.name, config, "--variant", "overlap-add") as daemon:
            self.assertEqual([stream["plan"]["spilled_bytes"] for stream in daemon.status()["streams"]], [24, 24])

    def test_damaged_wisdom_is_told_and_forgotten(self):
        with open(os.path.join(self.cache, "wisdom.json"), "w", encoding="utf-8") as file:
            file.write('{"format": 1, "entries": [')
        result = self.run_convolvd("--explain", self.config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("wisdom.json is not taken into account", result.stderr)
        self.assertIn("by rule", result.stdout)

    def test_nowhere_to_keep_it(self):
        result = self.run_convolvd("--tune", self.write(""))
        self.assertEqual(result.returncode, 1)
        self.assertIn("`cache = DIRECTORY`", result.stderr)

    def test_latency_too_short(self):
        with open(self.config, encoding="utf-8") as file:
            text = file.read()
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text.replace("latency = 5 ms", "latency = 200 us"))
        result = self.run_convolvd("--check", self.config)
        self.assertEqual(result.returncode, 1)
        self.assertIn("write at least 320 us", result.stderr)


if __name__ == "__main__":
    unittest.main()
