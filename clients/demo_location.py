"""The acoustic emission part of `make demo`: convolvd runs config/ae-location.conf, finds hits on four sensors of a
simulated plate and locates their sources, whose true places the configuration says."""
import json
import math
import os
import re
import statistics
import subprocess

SECONDS = 4
SHOWN = 3


def points(text):
    """`150 mm 120 mm, 420 mm 310 mm` as [(150, 120), (420, 310)]."""
    return [tuple(float(number) for number in re.findall(r"[\d.]+", point)) for point in text.split(",")]


def sources(path):
    with open(path, encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    return [event["values"] for event in events if event.get("kind") == "source"]


class Location:
    def __init__(self, build, folder, config, say):
        self.program, self.say = os.path.join(os.path.abspath(build), "convolvd"), say
        self.folder = os.path.join(folder, "location")
        os.mkdir(self.folder)
        with open(config, encoding="utf-8") as text:
            lines = text.read()
        self.truth = points(re.search(r"^sources = (.*)$", lines, re.M).group(1))
        with open(os.path.join(self.folder, "ae-location.conf"), "w", encoding="utf-8") as copy:
            copy.write(re.sub(r"^duration = .*$", f"duration = {SECONDS} s", lines, flags=re.M))

    def run(self):
        """The words of the demo's last line; None when sources are missing or too far off."""
        done = subprocess.run([self.program, "ae-location.conf"], cwd=self.folder, capture_output=True, text=True,
                              timeout=120, check=False)
        if done.returncode != 0:
            self.say("   " + done.stderr.strip()[-500:])
            return None
        found = sources(os.path.join(self.folder, "sources.jsonl"))
        errors = []
        for v in found:
            x, y = min(self.truth, key=lambda place: math.dist(place, (v["x_mm"], v["y_mm"])))
            errors.append(math.dist((x, y), (v["x_mm"], v["y_mm"])))
            if len(errors) <= SHOWN:
                self.say(f"   source at ({x:g}, {y:g}) mm, located at ({v['x_mm']:.1f} ± {v['sigma_x_mm']:.1f}, "
                         f"{v['y_mm']:.1f} ± {v['sigma_y_mm']:.1f}) mm: error {errors[-1]:.1f} mm")
        if not errors:
            self.say("   no source was located")
            return None
        median = statistics.median(errors)
        self.say(f"   {len(found)} sources in {SECONDS} s, median error {median:.1f} mm")
        return f"{len(found)} sources located to {median:.1f} mm" if median < 5 else None
