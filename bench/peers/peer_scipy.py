#!/usr/bin/python3
"""The peer scipy: signal.oaconvolve in single precision over all channels at once; the protocol stands in
program.h."""
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
import numpy as np
from scipy.signal import oaconvolve


def main():
    shape = None
    for line in sys.stdin:
        channels, fft, for_ns = line.split()
        if shape != (channels, fft):
            shape = (channels, fft)
            hop, random = int(fft) // 2, np.random.default_rng(1)
            blocks = max(4, (1 << 20) // (hop * int(channels)))
            h = (random.standard_normal((int(channels), hop)) / np.sqrt(hop)).astype(np.float32)
            x = random.standard_normal((int(channels), blocks * hop)).astype(np.float32)
            y = oaconvolve(x, h, axes=1)
            want = np.array([[np.dot(h[c].astype(float), x[c, n - hop + 1:n + 1][::-1].astype(float))
                              for n in range(x.shape[1] - 9, x.shape[1])] for c in range(len(x))])
            got = y[:, x.shape[1] - 9:x.shape[1]]
            error = np.linalg.norm(got - want) / np.linalg.norm(want)
        start, runs = time.perf_counter_ns(), 0
        while runs == 0 or time.perf_counter_ns() - start < float(for_ns):
            oaconvolve(x, h, axes=1)
            runs += 1
        print(f"{(time.perf_counter_ns() - start) / runs / x.size:.6g} {error:.3g}", flush=True)


if __name__ == "__main__":
    main()
