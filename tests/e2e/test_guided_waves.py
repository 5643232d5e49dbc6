#!/usr/bin/python3
# parallel: yes
# takes: 3 s CPU in 3 s
"""Guided waves: the generator's tone burst through the filter that is matched to it. Each echo peaks at the frame that
the formula of docs/filters.md gives, with its amplitude, and sidecar and status tell where the excitation began."""
import os
import unittest

import numpy as np

import convolvd as c

RATE, FREQUENCY, CYCLES, PERIOD, DELAY, CHANNELS, PULSES = 1e6, 50e3, 5, 5000, 37, 4, 8
FRAMES = PERIOD * PULSES
PULSE = int(CYCLES / FREQUENCY * RATE)

CONFIG = f"""[stream plate]
source = generator
waveform = tone-burst
frequency = {FREQUENCY:.0f} Hz
cycles = {CYCLES}
window = hann
amplitude = 0.5 V
period = {PERIOD / RATE * 1e3} ms
channel delay = {DELAY} frames
rate = {RATE:.0f} Hz
channels = {CHANNELS}
full scale = 1 V
pace = fast
duration = {FRAMES} frames
block = 2048 frames
filter = echo
output = envelope
{{keys}}
[filter echo]
type = tone-burst
carrier = {FREQUENCY:.0f} Hz
cycles = {CYCLES}
analytic = yes
[sink shots]
type = recording
stream = plate
path = {{folder}}/shots.wav
format = f32
[sink raw]
type = recording
stream = plate
path = {{folder}}/raw.wav
record = input
"""


class GuidedWaves(unittest.TestCase):
    def run_once(self, keys=""):
        """Envelope, input, the sidecars of both, and the status."""
        with c.temporary() as folder:
            with c.Daemon(folder, CONFIG.format(folder=folder, keys=keys), wait=False) as daemon:
                self.assertEqual(daemon.wait(), 0, daemon.output())
                status = c.load_json(daemon.status_path)["streams"][0]
            paths = [os.path.join(folder, name) for name in ("shots.wav", "raw.wav")]
            return [c.read_recording(path).astype(np.float64) for path in paths], [c.load_json(f"{path}.json") for path in paths], \
                status

    def test_the_pulse_is_its_definition(self):
        (_, raw), _, _ = self.run_once()
        turns = FREQUENCY * np.arange(PULSE) / RATE
        pulse = 0.5 * (1 - np.cos(2 * np.pi * turns / CYCLES)) / 2 * np.sin(2 * np.pi * turns)
        want = np.zeros((FRAMES, CHANNELS))
        for start in range(0, FRAMES, PERIOD):
            for channel in range(CHANNELS):
                want[start + channel * DELAY:start + channel * DELAY + PULSE, channel] = pulse
        np.testing.assert_allclose(raw, want, atol=1e-7)

    def test_echoes_peak_where_the_formula_says(self):
        for keys, decimate, aligned in (("", 1, False), ("align = yes", 1, True)):
            (envelope, _), (side, raw_side), status = self.run_once(keys)
            self.assertEqual(side["excitation"], {"start_frame": 0, "period_frames": PERIOD})
            self.assertEqual(raw_side["excitation"], {"start_frame": 0, "period_frames": PERIOD})
            self.assertEqual(status["excitation"], {"start_frame": 0, "period_frames": PERIOD})
            self.assertEqual((side["delay_frames"], side["aligned"]), (PULSE - 1, aligned))
            applied = 0 if aligned else side["delay_frames"]
            for pulse in range(PULSES - 1):
                for channel in range(CHANNELS):
                    begin = pulse * PERIOD // decimate - side["first_frame"]
                    begin += side["excitation"]["start_frame"]
                    peak = int(begin) + int(np.argmax(envelope[int(begin):int(begin) + PERIOD, channel]))
                    flight = peak - begin - applied
                    self.assertEqual(flight, channel * DELAY, f"{keys}: pulse {pulse}, channel {channel}")
                    self.assertAlmostEqual(envelope[peak, channel], 0.5, delta=1e-5)

    def test_frames_of_the_output_are_counted_where_frames_are_kept(self):
        _, (side, raw_side), status = self.run_once("excitation = 200 frames\ndecimate = 4")
        self.assertEqual(side["excitation"], {"start_frame": 50, "period_frames": PERIOD / 4})
        self.assertEqual(raw_side["excitation"], {"start_frame": 200, "period_frames": PERIOD})
        self.assertEqual(status["excitation"], side["excitation"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
