#!/usr/bin/python3
# timeout: 240
# parallel: yes
# takes: 4 s CPU in 5 s
"""The detector of hits against one that is written from docs/analysis.md alone (reference_hits.py), over random
signals, settings, losses and cuts: frames, counts, flags and causes are equal, values to 1e-12; and the reference
against the closed forms of bursts, so that both rest on mathematics."""
import json
import subprocess
import unittest

import numpy as np

import convolvd as c
import reference_hits as r

CASES = 70
RATES = (1e6, 10e6, 44100.0, 2e8, 1 / 3)
CAUSES = 12
EXACT = ("frame", "channel", "flags", "causes", "last_frame", "peak_frame", "counts", "counts_to_peak", "first_sample")
VALUES = ("amplitude", "peak_db", "rise_us", "duration_us", "energy_eu", "strength_nvs", "average_khz",
          "initiation_khz", "reverberation_khz", "rms", "noise_rms", "ra_us_v", "crest", "impulse", "clearance", "shape",
          "threshold", "margin_db", "centroid_khz")


def detected(x, rate, settings, unit="V", taps=1, invalid=(), saturated=(), seed=0):
    """The events of the daemon's detector."""
    lines = [f"{x.shape[1]} {rate!r} {unit} {taps} {x.shape[0]} {seed}"]
    lines += [f"invalid {low} {high} {cause}" for low, high, cause in invalid]
    lines += [f"saturated {low} {high} {channel}" for low, high, channel in saturated]
    lines += [f"set {key} = {value}" for key, value in settings.items()]
    case = "\n".join(lines + ["samples\n"]).encode() + x.astype("<f4").tobytes()
    done = subprocess.run([f"{c.BUILD}/tests/hits_of"], input=case, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()[-500:]
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- random cases -------------------------------------------------------------------------------------------------

def ranges(rng, frames, most, what):
    found, at = [], int(rng.integers(0, 500))
    while at < frames and len(found) < most:
        found.append((at, min(frames, at + 1 + int(rng.integers(0, rng.choice((3, 150))))), int(rng.integers(0, what))))
        at += int(rng.integers(0, 900))
    return found


def signal(rng, frames, channels):
    """Noise with bursts; often in steps, so that samples equal each other and the threshold."""
    x = rng.normal(0, 0.02, (frames, channels))
    for channel in range(channels):
        for start in rng.integers(0, frames, rng.integers(1, 8)):
            n = min(int(rng.integers(1, 800)), frames - start)
            t = np.arange(n)
            x[start:start + n, channel] += rng.uniform(0.05, 2) * np.exp(-t / rng.uniform(2, 200)) * np.sin(
                t * rng.uniform(0.05, 3) + rng.uniform(0, 6))
    if rng.integers(0, 3) == 0:
        x += rng.uniform(-0.3, 0.3)
    step = rng.choice((0, 0, 1 / 64, 1 / 4))
    return (np.round(x / step) * step if step else x).astype(np.float32)


def random_options(rng, rate):
    """For the reference; times in frames."""
    o = {"hdt": int(rng.choice((0, 1, 5, 30, 70, 200))), "hlt": int(rng.choice((0, 0, 3, 100))),
         "pdt": int(rng.choice((0, 0, 2, 40))), "longest": int(rng.choice((1, 64, 300, 10 ** 6))),
         "counts": str(rng.choice(("positive", "both", "plain"))), "energy": str(rng.choice(("duration", "hit"))),
         "pre": int(rng.choice((0, 1, 30))), "post": int(rng.choice((0, 10, 300))),
         "record": int(rng.choice((0, 1, 50, 2000))), "interval": int(rng.choice((0, 0, 64, 777))),
         "picker": str(rng.choice(("threshold", "aic", "hinkley", "energy-ratio"))),
         "interpolate": bool(rng.integers(0, 2)), "window": int(rng.choice((0, 20, 100))),
         "alpha": float(rng.choice((2, 5, 50))), "ratio": int(rng.choice((1, 5, 20))),
         "points": int(rng.choice((0, 0, 64, 256)))}
    if o["interval"]:
        o["floating"], o["floating_time"] = float(rng.choice((0, 1.5, 3))), int(rng.choice((64, 1000, 20000)))
    if o["picker"] != "threshold" or o["points"]:
        o["hdt"] = max(o["hdt"], 5)  # thousands of them would take the reference minutes
    if o["points"]:
        o["bands"] = [(0.0, rate / 8), (rate / 10, rate / 2)]
    return o


def settings_of(o, thresholds):
    s = {"threshold": ", ".join(f"{u!r} V" for u in thresholds), "hdt": f"{o['hdt']} frames", "hlt": f"{o['hlt']} frames",
         "pdt": f"{o['pdt']} frames", "max duration": f"{o['longest']} frames", "counts": o["counts"],
         "energy over": o["energy"], "pre-trigger": f"{o['pre']} frames", "post-duration": f"{o['post']} frames",
         "max record": f"{o['record']} frames", "noise interval": f"{o['interval']} frames",
         "floating threshold": repr(o.get("floating", 0.0)), "picker": o["picker"],
         "interpolate": "yes" if o["interpolate"] else "no", "pick window": f"{o['window']} frames",
         "alpha": repr(o["alpha"]), "ratio window": f"{o['ratio']} frames", "spectrum": f"{o['points']} frames"}
    if o.get("floating"):
        s["floating time"] = f"{o['floating_time']} frames"
    if o.get("bands"):
        s["bands"] = ", ".join(f"{low!r} Hz - {high!r} Hz" for low, high in o["bands"])
    return s


class Reference(unittest.TestCase):
    def near(self, got, expected, name, relative=1e-12, scale=0.0):
        if expected is None or got is None:
            self.assertEqual(got, expected, name)
        else:
            self.assertLessEqual(abs(got - expected), relative * max(abs(expected), scale), f"{name}: {got} {expected}")

    def compare(self, got, expected, where):
        for name in EXACT:
            self.assertEqual(got[name], expected[name], f"{where}: {name}")
        for name in VALUES:
            self.near(got[name], expected[name], f"{where}: {name}")
        for name in expected:
            if name.startswith("partial"):
                self.near(got[name], expected[name], f"{where}: {name}", scale=1)
        # Differences of sums: relative to what is subtracted.
        self.near(got["kurtosis"], expected["kurtosis"], where + ": kurtosis", 1e-9)
        self.near(got["skewness"], expected["skewness"], where + ": skewness", 1e-9, 1)
        self.assertEqual(got["samples"], [float(f"{value:.9g}") for value in expected["samples"]], where)
        self.compare_bins(got, expected, where)
        self.compare_pick(got, expected, where)

    def compare_bins(self, got, expected, where):
        """Bins that are as good as each other, to the digits of double, may change places."""
        X = expected.get("magnitudes")
        for name in ("peak_khz", "median_khz"):
            if X is None:
                self.assertIsNone(got[name], f"{where}: {name}")
                continue
            k = round(got[name] * 1e3 / expected["bin_hz"])
            self.near(got[name] * 1e3, k * expected["bin_hz"], f"{where}: {name}")
            if name == "peak_khz":
                good = k >= 1 and X[k] >= X[1:].max() * (1 - 1e-9)
            else:
                sums, half = np.cumsum(X), X.sum() / 2
                good = sums[k] >= half * (1 - 1e-12) and (k == 0 or sums[k - 1] <= half * (1 + 1e-12))
            self.assertTrue(good, f"{where}: {name}: {got[name]} {expected[name]}")

    def compare_pick(self, got, expected, where):
        criterion = expected.get("criterion")
        if criterion is None:
            self.near(got["pick_frames"], expected["pick_frames"], where + ": pick", 1e-9, 1)
        elif got["pick_frames"] != expected["pick_frames"]:
            # Two places that are as good as each other, to the digits of double.
            self.assertIsNotNone(got["pick_frames"], where)
            shift = int(got["pick_frames"] - expected["pick_frames"])
            best = int(np.argmin(criterion))
            finite = np.abs(criterion[np.isfinite(criterion)])
            self.assertLessEqual(criterion[best + shift] - criterion[best], 1e-9 * finite.max(), where + ": pick")

    def test_random_signals(self):
        seen, flags = 0, 0
        for case in range(CASES):
            rng = np.random.default_rng(case)
            channels, frames, rate = int(rng.integers(1, 5)), int(rng.integers(1, 2000)), RATES[case % len(RATES)]
            x = signal(rng, frames, channels)
            o = random_options(rng, rate)
            taps = int(rng.choice((1, 50)))
            thresholds = [float(rng.choice((0.0, 0.0625, 0.1, 0.25, 1.0))) for _ in range(channels)]
            invalid = [] if case % 3 == 0 else ranges(rng, frames, 200, CAUSES)
            saturated = ranges(rng, frames, 50, channels)
            events = detected(x, rate, settings_of(o, thresholds), "V", taps, invalid, saturated, seed=case % 4)
            expected = r.hits(x, rate, threshold=thresholds, invalid=invalid, saturated=saturated, settling=taps - 1, **o)
            ordered = [event for event in events if event["ordered"]]
            at_once = sorted((e for e in events if not e["ordered"]), key=lambda e: (e["frame"], e["channel"]))
            self.assertEqual([dict(e, ordered=0) for e in ordered], at_once, f"case {case}")
            for k, (got, hit) in enumerate(zip(ordered, expected)):
                self.compare(got, hit, f"case {case}, hit {k} of {len(expected)}, {o}")
                flags |= got["flags"]
            self.assertEqual(len(ordered), len(expected), f"case {case}: {o}")
            seen += len(expected)
        self.assertGreater(seen, 1500)
        self.assertEqual(flags, r.TIMEOUT | r.SATURATED | r.AFTER_TIMEOUT | r.CUT | r.EDGE | r.INCOMPLETE)

    # ---- closed forms ---------------------------------------------------------------------------------------------

    def test_bursts(self):
        """The reference, on samples in double, against the closed forms to 1e-12."""
        rate, A = 1e6, 0.7
        for n, N in ((10, 16), (10, 64), (20, 32), (40, 128)):
            M = n * N
            i = np.arange(M)
            sine, cosine = np.sin(2 * np.pi * i / N), np.cos(2 * np.pi * (i - M // 2) / N)
            T, cot = M / rate, 1 / np.tan(np.pi / N)
            shapes = {
                "rect": (sine, A ** 2 * T / 2, 2 * A * T / N * cot),
                "sin2": (np.sin(np.pi * i / M) ** 2 * cosine, 3 * A ** 2 * T / 16, A * T / N * cot),
                "triangle": ((1 - np.abs(2 * i / M - 1)) * cosine, A ** 2 / (2 * rate) * (
                    M / 3 + 2 / (3 * M) + 2 / (M * np.sin(2 * np.pi / N) ** 2)), None)}
            for shape, (x, energy, strength) in shapes.items():
                x = np.concatenate([np.zeros(50), A * x, np.zeros(300)])[:, None]
                hit, = r.hits(x, rate, threshold=0.0, hdt=200)
                self.near(hit["energy_eu"], energy / 1e-14, shape)
                if strength:
                    self.near(hit["strength_nvs"], strength / 1e-9, shape)
                for theta in (0.13, 0.3):
                    c_ = {"rect": n, "sin2": n / np.pi * np.arccos(np.sqrt(theta)), "triangle": n / 2 * (1 - theta)}[shape]
                    positive = n if shape == "rect" else 1 + 2 * int(c_)
                    negative = n if shape == "rect" else 2 * int(c_ + 0.5)
                    hit, = r.hits(x, rate, threshold=theta * A, hdt=200)
                    both, = r.hits(x, rate, threshold=theta * A, hdt=200, counts="both")
                    self.assertEqual(hit["counts"], positive, f"{shape} {n} {N} {theta}")
                    self.assertEqual(both["counts"], (positive + negative + 1) // 2, f"{shape} {n} {N} {theta}")


if __name__ == "__main__":
    unittest.main()
