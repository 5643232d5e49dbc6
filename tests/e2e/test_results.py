#!/usr/bin/python3
# parallel: yes
# takes: 2 s CPU in 4 s
"""Integer results: encoded on the device where all of a stream's sinks agree, by the sinks where one
of them needs floats; the same codes and the same counts of clipped samples either way."""
import os
import signal
import unittest

import numpy as np

import convolvd as c

RATE = 48000
FRAMES = 20000
FULL_SCALE = 0.13  # clips


class Results(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def stream(self, name, keys=""):
        self.rx[name] = c.free_port()
        return f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{self.rx[name]}\nrate = {RATE} Hz\nformat = L16\n" \
               f"channels = 2\nfilter = h\nblock = 256 frames\n{keys}\n"

    def l16(self, stream):
        self.tx[stream] = c.free_port()
        return c.rtp_sink(f"to-{stream}", stream, self.tx[stream], f"format = L16\nfull scale = {FULL_SCALE} FS")

    def wav(self, stream, form):
        scale = f"full scale = {FULL_SCALE} FS" if form != "f32" else ""
        return f"[sink file-{stream}]\ntype = recording\nstream = {stream}\npath = {self.path(stream + '.wav')}\n" \
               f"format = {form}\n{scale}\n"

    def test_same_codes_everywhere(self):
        self.rx, self.tx = {}, {}
        h = c.random_taps(3, 151)
        c.write_wav16(self.path("x.wav"), RATE, c.noise_codes(6, FRAMES, 2, 0.9))
        text = c.taps_file(self.folder, "h", h, "75 frames")
        text += self.stream("floats") + self.l16("floats") + self.wav("floats", "f32")
        for name, keys in (("rule", ""), ("local", "variant = local"), ("general", "variant = general")):
            text += self.stream(name, keys) + self.l16(name)
        text += self.stream("aligned", "align = yes") + self.wav("aligned", "s16")
        with c.Daemon(self.folder, text) as daemon:
            taps = {name: c.Tap(self.folder, port, "--format", "L16", "--full-scale", FULL_SCALE, channels=2,
                                name=f"tap-{name}") for name, port in self.tx.items()}
            try:
                for port in self.rx.values():
                    c.rig(self.folder, port, "--file", self.path("x.wav"))
                c.wait_for(lambda: all(s["frames_in"]["received"] == FRAMES for s in daemon.status()["streams"]),
                           "all frames")
                status = {stream["name"]: stream for stream in daemon.stop()["streams"]}
                for tap in taps.values():
                    tap.finish(number=signal.SIGTERM)
            finally:
                for tap in taps.values():
                    tap.kill()
            got = {name: np.rint(tap.frames() / FULL_SCALE * 32768).astype(np.int64) for name, tap in taps.items()}
            said = daemon.output()
        for name, how in (("floats", "floats"), ("rule", "s16be"), ("local", "s16be"), ("general", "s16be"),
                          ("aligned", "s16le")):
            self.assertRegex(said, f"stream {name}: .*results in {how}")
        # The encoder's rule, of the floats that were recorded beside the codes.
        floats = c.read_recording(self.path("floats.wav")).astype(np.float64)
        scaled = np.rint(floats * (1 / FULL_SCALE) * 32768)
        want = np.clip(scaled, -32768, 32767)
        clipped = int((want != scaled).sum())
        self.assertGreater(clipped, 100)
        self.assertTrue((got["floats"] == want).all())
        self.assertEqual(status["floats"]["sinks"][0]["saturated"], clipped)
        for name in ("rule", "local", "general"):
            with self.subTest(name):
                # Another variant's floats differ in their last bits.
                self.assertLessEqual(np.abs(got[name] - want).max(), 0 if name == "rule" else 1)
                self.assertEqual(status[name]["sinks"][0]["delivered"], len(want))
                self.assertLessEqual(abs(status[name]["sinks"][0]["saturated"] - clipped), 0 if name == "rule" else 3)
        with open(self.path("aligned.wav"), "rb") as file:
            aligned = np.frombuffer(file.read()[-2 * 2 * (len(want) - 75):], dtype="<i2").reshape(-1, 2)
        self.assertTrue((aligned == want[75:]).all())
        self.assertEqual(status["aligned"]["sinks"][0]["saturated"], int((want != scaled)[75:].sum()))
        self.assertEqual(c.load_json(self.path("aligned.wav.json"))["saturated_samples"], int((want != scaled)[75:].sum()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
