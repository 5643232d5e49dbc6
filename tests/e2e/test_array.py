#!/usr/bin/python3
# parallel: yes
"""Velocity filters through the daemon: plane waves of known velocity sent over UDP, what comes out
held against the definition with the taps that `--design` writes, frame by frame; the levels of the
waves against what `--design` promises; and blocks of different lengths against each other."""
import os
import re
import subprocess
import unittest

import numpy as np

import convolvd as c

RATE, CHANNELS, SPACING = 48000, 16, 0.05
FRAMES = 9000
#         name        velocity [m/s], positive towards higher channels; frequency [Hz]; first frame
WAVES = [("outward",   1400, 4000,  600),
         ("echo",     -1400, 4000, 2600),
         ("at once", np.inf, 4000, 4600),
         ("slow",       560, 3500, 6600)]
LENGTH, TAPS = 900, 201


def waves():
    """Bursts with a sin² envelope, one after the other; each reaches channel n n·spacing/velocity
    later than channel 0."""
    t = np.arange(FRAMES)[:, None] / RATE
    x = np.zeros((FRAMES, CHANNELS))
    for _, velocity, frequency, first in WAVES:
        late = np.arange(CHANNELS) * SPACING / velocity
        late -= late.min()
        since = t - first / RATE - late
        inside = (since > 0) & (since < LENGTH / RATE)
        x += np.where(inside, np.sin(np.pi * since * RATE / LENGTH) ** 2 * np.sin(2 * np.pi * frequency * since), 0)
    return np.round(0.4 * 32768 * x) / 32768


FILTER = f"""
[filter fan]
type = fk
spacing = {SPACING} m
velocity low = 800 m/s
velocity high = 3 km/s
low = 2 kHz
high = 7.5 kHz
taper = 50 %
taps = {TAPS}
"""


def config(rx, tx, block, keys=""):
    return f"""
[stream s]
source = rtp
address = 127.0.0.1:{rx}
rate = {RATE} Hz
channels = {CHANNELS}
block = {block} frames
filter = fan
{FILTER}{keys}
[sink out]
type = rtp
stream = s
address = 127.0.0.1:{tx}
"""


class VelocityFilter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = waves()

    def design(self, folder, keys=""):
        """The taps, [2M-1][S], and the report, as --design gives them."""
        path, out = os.path.join(folder, "design.conf"), os.path.join(folder, "fan.npy")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config(5004, 5006, 512, keys))
        report = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--config", path, "--design", "fan", "--out", out],
                                capture_output=True, text=True, timeout=c.PATIENCE_S, check=True).stdout
        h = np.load(out)
        self.assertEqual(h.shape, (2 * CHANNELS - 1, TAPS))
        return h, report

    def definition(self, h):
        """y_m = sum over n of h_(m-n) * x_n, in double."""
        y = np.zeros((FRAMES + TAPS - 1, CHANNELS))
        for m in range(CHANNELS):
            for n in range(CHANNELS):
                y[:, m] += np.convolve(self.x[:, n], h[m - n + CHANNELS - 1])
        return y

    def through_daemon(self, folder, block, keys=""):
        rx, tx = c.free_port(), c.free_port()
        c.write_wav16(os.path.join(folder, "x.wav"), RATE, np.round(self.x * 32768).astype(np.int16))
        with c.Daemon(folder, config(rx, tx, block, keys)) as daemon, \
                c.Tap(folder, tx, "--until-end", "--timeout", c.PATIENCE_S, channels=CHANNELS) as tap:
            c.rig(folder, rx, "--file", os.path.join(folder, "x.wav"), "--format", "L16", "--packet", 37)
            c.wait_for(lambda: daemon.stream()["frames_in"]["received"] == FRAMES, "all frames")
            daemon.stop()
            ledger = tap.finish()
            self.assertEqual([ledger["frames"], ledger["lost"]], [FRAMES + TAPS - 1, 0])
            return tap.frames().astype(np.float64)

    def level(self, y, wave, channel):
        """Level of a wave at a channel against what was sent there, in dB."""
        _, velocity, _, first = WAVES[wave]
        late = np.arange(CHANNELS) * SPACING / velocity
        begin = first + int((late[channel] - late.min()) * RATE)
        sent = self.x[begin:begin + LENGTH, channel]
        got = y[begin + (TAPS - 1) // 2:begin + (TAPS - 1) // 2 + LENGTH, channel]
        return 20 * np.log10(np.linalg.norm(got) / np.linalg.norm(sent))

    def held(self, y, h, what):
        """The bound of the design, each input counting with the gain of the filter it passes."""
        want = self.definition(h)
        gain = sum(c.peak_response(one) for one in h)
        limit2 = 1e-6 * max(np.linalg.norm(want), gain * np.linalg.norm(self.x))
        self.assertFalse(np.isnan(y).any())
        self.assertLessEqual(np.linalg.norm(y - want), limit2, what)
        # Waves of the pass band fill it: the stricter bound holds too.
        self.assertLessEqual(np.linalg.norm(y - want), 1e-6 * np.linalg.norm(want), what)
        return np.linalg.norm(y - want) / np.linalg.norm(want)

    def test_waves_by_velocity_without_seams(self):
        with c.temporary() as folder:
            h, report = self.design(folder)
            results = [self.through_daemon(folder, block) for block in (256, 1000)]
            error = max(self.held(y, h, "against the definition") for y in results)
            # Seams: what blocks of one length say against blocks of another, and against the whole.
            whole = self.definition(h)
            peak = np.abs(whole).max()
            seams = max(np.abs(results[0] - results[1]).max(), *(np.abs(y - whole).max() for y in results)) / peak
            self.assertLess(seams, 1e-5)
            middle = CHANNELS // 2
            passed = self.level(results[0], 0, middle)
            self.assertLess(abs(passed), 0.5, "ripple of the wave in the fan [dB]")
            promised = float(re.search(r"channels 5 to 12 .*rejection ([0-9.]+) dB", report).group(1))
            self.assertGreater(promised, 15)
            stopped = {}
            for wave in (1, 2, 3):
                stopped[WAVES[wave][0]] = -self.level(results[0], wave, middle)
                self.assertGreater(stopped[WAVES[wave][0]], promised, WAVES[wave][0])
            c.note(f"fk: passes {passed:+.2f} dB, rejects " +
                   ", ".join(f"{name} {db:.1f} dB" for name, db in stopped.items()) +
                   f" (promised {promised} dB); seams {seams:.2g}, ||e||2 {error:.2g} of the result")

    def test_reject_takes_one_direction_out(self):
        with c.temporary() as folder:
            h, _ = self.design(folder, "fan = reject\n")
            y = self.through_daemon(folder, 512, "fan = reject\n")
            self.held(y, h, "reject")
            middle = CHANNELS // 2
            self.assertLess(self.level(y, 0, middle), -15)
            for wave in (1, 2, 3):
                self.assertLess(abs(self.level(y, wave, middle)), 1.0, WAVES[wave][0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
