#!/usr/bin/python3
"""What the analysis `hits` costs: idle channels and 1, 100 and 10 000 hits a second and channel, on 64 channels at 1
and 10 MHz, with and without spectra; beside it numpy and numba with the same features (bench/peer_hits.py).

    bench/bench_analysis.py [--quick] [--csv FILE]

The contestants take turns on one signal; a ratio is the median of the ratios of neighbouring runs. Times are those of
the processor, of one thread. All of them find the same hits, with the same energy, or the row is WRONG."""
import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np

import peer_hits
from rows import append

BUILD = os.environ.get("CONVOLVD_BUILD", "build/gcc")
CHANNELS = 64
THRESHOLD = 1e-3         # V: 60 dB
HDT_S = 20e-6
# Rate, hits a second and channel, frames of the signal. Where it is quiet the signal stays in the cache, as results do
# that have just been computed; it holds one hit at least where there are any, which is more than its rate says.
SHAPES = ((1e6, 0, 1 << 12), (1e6, 1, 1 << 12), (1e6, 100, 1 << 15), (1e6, 1000, 1 << 15), (1e6, 10000, 1 << 14),
          (10e6, 0, 1 << 12), (10e6, 1, 1 << 12), (10e6, 100, 1 << 15), (10e6, 10000, 1 << 15))
SETTINGS = {"threshold": f"{THRESHOLD!r} V", "hdt": f"{HDT_S * 1e6:g} us"}
SPECTRA = {**SETTINGS, "spectrum": "1024 frames", "bands": "50-150 kHz", "pre-trigger": "20 us", "picker": "aic"}


def make_signal(rate, per_second, frames):
    """Noise of 40 dB(AE) and bursts of 150 kHz that die out within 50 us, at random frames of each channel."""
    rng = np.random.default_rng(int(rate + per_second))
    x = rng.normal(0, 1e-4, (frames, CHANNELS)).astype(np.float32)
    n = int(60e-6 * rate)
    t = np.arange(n) / rate
    burst = (0.1 * np.exp(-t / 10e-6) * np.sin(2 * np.pi * 150e3 * t)).astype(np.float32)
    each = frames / rate * per_second
    for channel in range(CHANNELS):
        # Evenly, so that no two run into each other; a share of the channels when there are few.
        count = int(each) + (rng.random() < each - int(each))
        if per_second and channel == 0:
            count = max(count, 1)
        for k in range(count):
            start = int((k + 0.3 * rng.random()) * frames / max(count, 1)) + 5
            x[start:start + n, channel] += burst[:max(0, frames - start)]
    return x


def aligned(x):
    """The same array at a multiple of a cache line, as the daemon has it."""
    memory = np.empty(x.size + 16, np.float32)
    skip = -memory.ctypes.data % 64 // 4
    copy = memory[skip:skip + x.size].reshape(x.shape)
    copy[:] = x
    return copy


class Ours:
    """The C program, one measurement a line."""

    def __init__(self, path, rate, settings):
        self.program = subprocess.Popen([f"{BUILD}/bench/bench_analysis", path, str(CHANNELS), repr(rate),
                                         *(f"{key}={value}" for key, value in settings.items())],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hits = None

    def run(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        ns, hits = self.program.stdout.readline().split()
        self.hits = int(hits)
        return float(ns)

    def close(self):
        self.program.stdin.close()
        self.program.wait(10)
        self.program.stdout.close()


class Peer:
    """A function of Python; its hits, and the sum of their energies, after a run."""

    def __init__(self, call):
        self.call, self.hits, self.energy = call, None, None

    def run(self):
        begin = time.thread_time_ns()
        found = self.call()
        ns = time.thread_time_ns() - begin
        self.hits, self.energy = len(found), float(np.sum(found[:, 6])) if len(found) else 0.0
        return float(ns)


def peers(x, rate):
    hdt = round(HDT_S * rate)
    found = {"numpy": Peer(lambda: np.array(peer_hits.numpy_hits(x, THRESHOLD, hdt, rate)[0]).reshape(-1, 15))}
    if peer_hits.numba:
        room = np.empty((x.shape[0] * 2, peer_hits.VALUES))
        peer_hits.numba_hits(x[:64], THRESHOLD, hdt, rate, room)  # compiles
        found["numba"] = Peer(lambda: room[:peer_hits.numba_hits(x, THRESHOLD, hdt, rate, room)])
    return found


def median(values):
    return float(np.median(values))


def measure(rate, per_second, frames, repetitions, path, command):
    x = aligned(make_signal(rate, per_second, frames))
    x.tofile(path)
    ours, spectra = Ours(path, rate, SETTINGS), Ours(path, rate, SPECTRA)
    beside = peers(x, rate)
    times = {name: [] for name in ("ours", "spectra", *beside)}
    for contestant in (ours, spectra):
        contestant.run()
    for _ in range(repetitions):
        # Short ones several times: the median of them is one run.
        for name, contestant in (("ours", ours), ("spectra", spectra), *beside.items()):
            times[name].append(median([contestant.run() for _ in range(5 if name in ("ours", "spectra") else 1)]))
    cores = {name: median(values) / (frames / rate * 1e9) for name, values in times.items()}
    wrong = [name for name, peer in beside.items()
             if peer.hits != ours.hits or abs(peer.energy / max(beside["numpy"].energy, 1e-300) - 1) > 1e-6 and ours.hits]
    shape = f"{CHANNELS} ch {rate / 1e6:g} MHz {per_second} hits/s"
    rows = []
    for name in beside:
        ratios = np.array(times[name]) / np.array(times["ours"])
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        rows.append({"what": f"hits against {name}", "shape": shape, "ours": f"{cores['ours']:.6g}",
                     "peer": f"{cores[name]:.6g}", "ratio": f"{middle:.4f}", "bar": "", "unit": "cores",
                     "median": f"{middle:.4f}", "spread": f"{low:.4f}…{high:.4f}", "error": 1 if name in wrong else 0,
                     "command": command})
    for what, name in (("hits cores", "ours"), ("hits cores with spectra", "spectra")):
        low, middle, high = np.quantile(times[name], (0.25, 0.5, 0.75)) / (frames / rate * 1e9)
        rows.append({"what": what, "shape": shape, "ours": f"{middle:.6g}", "peer": 1, "ratio": f"{middle:.4f}", "bar": "",
                     "unit": "cores", "median": f"{middle:.4f}", "spread": f"{low:.4f}…{high:.4f}",
                     "error": 1 if wrong else 0, "command": command})
    ratio = {name: median(np.array(times[name]) / np.array(times["ours"])) for name in beside}
    print(f"{shape:34} {ours.hits:6} hits {times['ours'] and median(times['ours']) / (frames * CHANNELS):8.3f} ns/sample "
          f"{cores['ours']:7.3f} cores {cores['spectra']:8.3f} with spectra and AIC"
          + "".join(f"  {name} x {ratio[name]:.1f}" for name in beside) + (f"  WRONG {wrong}" if wrong else ""), flush=True)
    ours.close()
    spectra.close()
    return rows, bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three repetitions")
    parser.add_argument("--csv", help="file to append rows to")
    arguments = parser.parse_args()
    command = shlex.join(["bench/bench_analysis.py", *sys.argv[1:]])
    if not peer_hits.numba:
        print("bench_analysis: numba is left out: no python3-numba")
    failed, rows = False, []
    with tempfile.TemporaryDirectory() as folder:
        for rate, per_second, frames in SHAPES:
            # Ten thousand hits take numpy seconds.
            repetitions = 3 if arguments.quick else 5 if per_second >= 1000 else 15
            found, wrong = measure(rate, per_second, frames, repetitions, os.path.join(folder, "signal"), command)
            rows += found
            failed |= wrong
    if arguments.csv:
        append(arguments.csv, rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
