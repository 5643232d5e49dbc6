#!/usr/bin/python3
# parallel: yes
# timeout: 240
# takes: 6 s CPU in 13 s
"""Acoustic emission from sensors to sources, through the daemon: threshold picks are located within what one frame of
timing means at each place, and every command of docs/acoustic-emission.md does what the page says."""
import csv
import json
import os
import re
import subprocess
import sys
import unittest

import convolvd as c

PAGE = os.path.join(c.ROOT, "docs", "acoustic-emission.md")
EXAMPLE = os.path.join(c.ROOT, "config", "ae-location.conf")

RATE, SECONDS, SEED, VELOCITY = 2_000_000, 3, 7, 5000
SENSORS = "0 0, 600 mm 0, 600 mm 400 mm, 0 400 mm"
ISOLATED = 4000  # frames without another emission, before and behind

# Exact onsets (no rise), equal at all sensors, and no noise: what is left is the frame.
CONFIG = f"""[stream plate]
source = generator
waveform = ae
sensors = {SENSORS}
velocity = {VELOCITY} m/s
arrivals = 40 /s
frequency = 150 kHz
rise = 0
decay = 40 us
amplitude = 0.9 V
noise = 0
seed = {SEED}
pace = fast
duration = {SECONDS} s
rate = {RATE} Hz
channels = 4
format = f32le
full scale = 1 V
block = 4096 frames
filter = none
[filter none]
type = identity
[analysis hits]
type = hits
stream = plate
threshold = 5 mV
hdt = 300 us
[analysis where]
type = location
analysis = hits
sensors = {SENSORS}
velocity = {VELOCITY} m/s
[sink sources]
type = jsonl
analysis = where
path = sources.jsonl
"""


def sources(path):
    with open(path, encoding="utf-8") as lines:
        return [event for event in map(json.loads, lines) if event.get("kind") == "source"]


def emissions(folder):
    """What the same waveform says of where its emissions came from: (frame, x_mm, y_mm), isolated ones only."""
    path = os.path.join(folder, "emissions.csv")
    c.rig(folder, c.free_port(), "--signal", "ae", "--sensors", SENSORS, "--velocity", f"{VELOCITY} m/s", "--channels", "4",
          "--rate", str(RATE), "--seconds", str(SECONDS), "--arrivals", "40", "--rise", "0", "--decay", "40 us", "--noise", "0",
          "--amplitude", "0.9", "--seed", str(SEED), "--format", "u8", "--flat-out", "--emissions", path)
    with open(path, encoding="utf-8") as rows:
        every = [tuple(float(row[name]) for name in ("frame", "x_mm", "y_mm")) for row in csv.DictReader(rows)]
    return [now for before, now, after in zip([(-1e9,)] + every, every, every[1:] + [(1e18,)])
            if now[0] - before[0] > ISOLATED and after[0] - now[0] > ISOLATED
            and now[0] < SECONDS * RATE - ISOLATED]


class Location(unittest.TestCase):
    def test_within_one_frame_of_timing(self):
        with c.temporary() as folder:
            with c.Daemon(folder, CONFIG, wait=False) as daemon:
                self.assertEqual(daemon.wait(120), 0, daemon.output())
            truth = emissions(folder)
            self.assertGreater(len(truth), 40)
            found = sources(os.path.join(folder, "sources.jsonl"))
            worst, errors = 0.0, []
            for frame, x_mm, y_mm in truth:
                near = [event for event in found if frame <= event["frame"] < frame + ISOLATED]
                self.assertEqual(len(near), 1, f"an emission at frame {frame} gave {len(near)} sources")
                v = near[0]["values"]
                self.assertEqual(v["hits"], 4)
                # sigma is that of one frame of timing; deviations of picks from their mean are shorter
                dx, dy, r = (v["x_mm"] - x_mm) / v["sigma_x_mm"], (v["y_mm"] - y_mm) / v["sigma_y_mm"], v["correlation"]
                worst = max(worst, (dx * dx - 2 * r * dx * dy + dy * dy) / (1 - r * r))
                errors.append(((v["x_mm"] - x_mm) ** 2 + (v["y_mm"] - y_mm) ** 2) ** 0.5)
                # the source's own instant: the crossing of 5 mV lies a fraction of a frame behind the onset
                origin = near[0]["frame"] + v["origin_us"] * RATE / 1e6 - frame
                self.assertLess(abs(origin - 0.5), 3 * v["sigma_origin_us"] * RATE / 1e6)
            # four errors in [0, 1) frame, less their mean, have squares of at most 1 together
            self.assertLess(worst, 1.1, "an error beyond one frame of timing")
            errors.sort()
            c.note(f"{len(errors)} sources located, median error {errors[len(errors) // 2]:.2f} mm, largest {errors[-1]:.2f} mm; "
                   f"one frame is {VELOCITY / RATE * 1e3:.1f} mm of way")


class Page(unittest.TestCase):
    """The blocks of the page, in order, as a reader types them; sources are shorter here."""

    def test_every_command(self):
        with open(PAGE, encoding="utf-8") as page:
            blocks = re.findall(r"^```(sh|python|ini)\n(.*?)^```", page.read(), re.M | re.S)
        self.assertEqual([kind for kind, _ in blocks], ["sh", "python", "python", "ini"])
        with c.temporary() as home:
            environment = {**os.environ, "HOME": home, "PATH": c.BUILD + os.pathsep + os.environ["PATH"]}
            folder = os.path.join(home, "ae")

            def run(command, where):
                done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=200,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return done.stdout

            said = run(["bash", "-euc", blocks[0][1]], c.ROOT)
            self.assertIn("timing error 500 ns: 2.5 mm of way", said)
            located = run([sys.executable, "-c", blocks[1][1]], folder).splitlines()
            self.assertGreater(len(located), 60)
            self.assertIn("cluster 1", located[0])
            near = 0
            for event in sources(os.path.join(folder, "sources.jsonl")):
                v = event["values"]
                error = min(((v["x_mm"] - x) ** 2 + (v["y_mm"] - y) ** 2) ** 0.5 for x, y in ((150, 120), (420, 310)))
                near += error < 3 * max(v["sigma_x_mm"], v["sigma_y_mm"])
            self.assertGreater(near, 0.9 * len(located))
            levels = run([sys.executable, "-c", blocks[2][1]], folder).splitlines()
            self.assertEqual(len(levels), 4)
            for line in levels:  # 20 uV of noise
                self.assertRegex(line, r"noise 26\.[01] dB\(AE\)")
            with open(EXAMPLE, encoding="utf-8") as text:
                rest = text.read().partition("[filter none]")
            with open(os.path.join(folder, "mine.conf"), "w", encoding="utf-8") as mine:
                mine.write(blocks[3][1] + "".join(rest[1:]))
            self.assertIn("is valid", run(["convolvd", "--check", "mine.conf"], folder))


if __name__ == "__main__":
    unittest.main(verbosity=2)
