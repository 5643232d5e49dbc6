#!/usr/bin/python3
# parallel: yes
# takes: 7 s CPU in 13 s
# sanitizers: yes
"""The main way through the house: rig -> RTP -> daemon -> RTP -> tap, against numpy, frame by
frame: every sample the definition has, tail included, at its own frame number, and nothing else."""
import os
import unittest

import numpy as np

import convolvd as c

RATE = 48000


def config(rx, tx, channels, taps_path, stream="", sink=""):
    return f"""
[stream s]
source = rtp
address = 127.0.0.1:{rx}
rate = {RATE} Hz
channels = {channels}
filter = h
{stream}
""" + c.file_filter("h", taps_path) + c.rtp_sink("out", "s", tx, sink)


#        name            channels  format   taps   frames  packet      stream keys                  sink format
CASES = [("one channel",      1, "L16",      65,  20000, ["--packet", 160],  "block = 256 frames",       "f32be"),
         ("odd packets",      3, "L24",     129,  20000, ["--packet", 97],   "format = L24\nblock = 512 frames", "f32be"),
         ("random packets",   2, "f32be",   300,  20000, ["--packet", 180, "--packet-min", 1],
          "format = f32be\nblock = 256 frames", "f32be"),
         ("long filter",      1, "L16",    5000,  30000, [], "block = 256 frames",                       "f32be"),
         ("one tap",          1, "s32be",     1,   9999, [], "format = s32be\nblock = 1000 frames",      "f32be"),
         ("16 channels",     16, "L16",     257,  10000, [], "block = 1024 frames",                      "f32be"),
         ("two taps, L24 out", 2, "L16",      2,  20000, [], "block = 300 frames",                       "L24")]


class Thin(unittest.TestCase):
    def pass_through(self, name, channels, form, taps, frames, packet, stream, sink_format):
        rx, tx = c.free_port(), c.free_port()
        with c.temporary() as folder:
            h = c.random_taps(len(name), taps)
            taps_path = os.path.join(folder, "h.npy")
            np.save(taps_path, h)
            # The signal is known before anything is sent: 16-bit codes fit every format exactly.
            x = c.noise_codes(taps, frames, channels) / 32768
            c.write_wav16(os.path.join(folder, "x.wav"), RATE, c.noise_codes(taps, frames, channels))
            want = c.convolve(x, h)
            np.save(os.path.join(folder, "want.npy"), want)
            gain = c.peak_response(h)
            expect = ["--expect", os.path.join(folder, "want.npy"), "--input-norm", str(gain * np.linalg.norm(x)),
                      "--input-peak", str(gain * np.abs(x).max()), "--until-end", "--timeout", c.PATIENCE_S,
                      "--format", sink_format]
            sink = f"format = {sink_format}"
            with c.Daemon(folder, config(rx, tx, channels, taps_path, stream, sink)) as daemon, \
                    c.Tap(folder, tx, *expect, channels=channels) as tap:
                sent = c.rig(folder, rx, "--file", os.path.join(folder, "x.wav"), "--format", form, *packet)
                c.wait_for(lambda: daemon.stream()["frames_in"]["received"] == frames, "all frames")
                status = daemon.stop()
                got = tap.finish()
                stream_status = status["streams"][0]
                self.assertEqual(sent["frames"], frames)
                self.assertEqual(stream_status["datagrams"]["read"], sent["datagrams_sent"])
                self.assertEqual(stream_status["datagrams"]["accepted"], sent["datagrams_sent"])
                self.assertEqual(stream_status["frames_in"]["timeline"], frames)
                self.assertEqual(stream_status["frames_out"]["out"], frames + taps - 1)
                self.assertEqual(stream_status["sinks"][0]["delivered"], frames + taps - 1)
                self.assertEqual(stream_status["sinks"][0]["packets"], got["accepted"])
                # Settling and tail, and not one frame more.
                self.assertEqual(stream_status["invalid"]["settling"], taps - 1)
                self.assertEqual(stream_status["invalid"]["tail"], taps - 1)
                self.assertEqual(stream_status["invalid_frames"], min(2 * (taps - 1), frames + taps - 1))
                self.assertEqual([got["frames"], got["lost"], got["frames_lost"]], [frames + taps - 1, 0, 0])
                self.assertEqual(len(got["epochs"]), 1)
                epoch = got["epochs"][0]
                self.assertEqual([epoch["first_frame"], epoch["end_frame"], epoch["start"], epoch["end"]],
                                 [0, frames + taps - 1, True, True])
                self.assertEqual(got["expect"]["compared"], frames + taps - 1)
                self.assertEqual(got["expect"]["beyond"], 0)
                lsb = 2.0 ** -23 if sink_format == "L24" else 0.0
                c.assert_within(tap.frames(), want, x, h, lsb=lsb, what=name)
                c.note(f"{name}: ||e||2 {got['expect']['e2']:.2g} of {got['expect']['limit2']:.2g}")

    def test_cases(self):
        for case in CASES:
            with self.subTest(case[0]):
                self.pass_through(*case)


if __name__ == "__main__":
    unittest.main(verbosity=2)
