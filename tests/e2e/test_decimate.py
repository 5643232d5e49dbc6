#!/usr/bin/python3
# parallel: yes
# kernels: plain, frame numbers are tested; test_properties decimates with optimised kernels
# takes: 6 s CPU in 11 s
"""Streams that decimate: the frames that are kept, by absolute number and across gaps, their rate in
packets, SDP, recordings and status; an envelope that is low-passed and decimated in a second stream;
what `--check` says of aliases. Held against numpy and scipy in double."""
import os
import re
import signal
import subprocess
import unittest

import numpy as np
import scipy.signal

import convolvd as c

RATE = 48000


def noise(*more):
    return ["--signal", "noise", "--amplitude", 0.2, "--rate", RATE, "--format", "f32be", *more]


class Decimate(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name
        self.rx, self.tx = c.free_port(), c.free_port()

    def path(self, name):
        return os.path.join(self.folder, name)

    def sdp(self, name):
        """The SDP file of a sink, which is there as long as the sink."""
        with open(self.path(f"{name}.sdp"), encoding="utf-8") as file:
            return file.read()

    def stream(self, keys, name="a"):
        return f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{self.rx}\nrate = {RATE} Hz\nformat = f32be\n" \
               f"filter = h\n{keys}\n"

    def sinks(self, stream):
        return f"[sink out]\ntype = rtp\nstream = {stream}\naddress = 127.0.0.1:{self.tx}\n" \
               f"[sink file]\ntype = recording\nstream = {stream}\npath = {self.path('out.wav')}\nformat = f32\n"

    def received(self, daemon, frames, stream=None):
        c.wait_for(lambda: daemon.stream(stream)["frames_in"]["received"] >= frames, f"{frames} frames")

    def test_kept_frames_across_gaps(self):
        """D = 6, 48 and 32, blocks of any length: frames 0, D, 2 D … of the definition, gap or not."""
        h = c.random_taps(3, 150)
        for decimate, block, rate in ((6, 100, 8000), (48, 1000, 1000), (32, 512, 1500)):
            text = self.stream(f"decimate = {decimate}\nblock = {block} frames\nreorder = 100 ms\nmax misorder = 100 ms") \
                + c.taps_file(self.folder, "h", h, "75 frames") + self.sinks("a")
            with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, rate=rate) as tap:
                sent = c.rig(self.folder, self.rx, *noise("--frames", 20000, "--packet", 200, "--loss", "3 %", "--clean", 2000,
                                                          "--seed", 8, "--write", self.path("x.npy")))
                self.received(daemon, 20000 - sent["frames_dropped"])
                sdp = self.sdp("out")
                stream = daemon.stop()["streams"][0]
                got = tap.finish(number=signal.SIGTERM)
            x = np.load(self.path("x.npy"))
            missing = [tuple(pair) for pair in sent["missing"]]
            self.assertTrue(missing and missing[-1][1] < 20000, "choose another seed")
            for begin, end in missing:
                x[begin:end] = 0
            want = c.convolve(x, h)
            c.assert_within(tap.frames(), want[::decimate], x, h, what=f"D = {decimate}")
            self.assertTrue((tap.frames().astype(np.float32) == c.read_recording(self.path("out.wav"))).all())
            expected = np.zeros(len(want), dtype=bool)
            expected[:149] = True
            expected[20000:] = True
            for begin, end in missing:
                expected[begin:end + 149] = True
            expected = expected[::decimate]
            self.assertEqual(stream["invalid_frames"], expected.sum())
            self.assertFalse((expected & ~c.flagged(got, 0, len(expected))).any())
            # What was left out is accounted for, and the rate is the output's everywhere.
            outward = stream["frames_out"]
            self.assertEqual(outward["timeline"], 20149)
            self.assertEqual(outward["out"], len(expected))
            self.assertEqual(outward["shed"]["decimated"], 20149 - len(expected))
            self.assertEqual([stream["rate_hz"], stream["decimate"], stream["output_rate_hz"]], [RATE, decimate, rate])
            self.assertAlmostEqual(stream["delay_frames"], 75 / decimate)
            self.assertAlmostEqual(got["delay_frames"], 75 / decimate)
            self.assertEqual(got["decimation"], decimate)
            side = c.load_json(self.path("out.wav.json"))
            self.assertEqual([side["rate_hz"], side["decimation"], side["first_frame"], side["frames"]],
                             [rate, decimate, 0, len(expected)])
            self.assertAlmostEqual(side["delay_s"], 75 / RATE)
            self.assertEqual(sum(r["until"] - r["from"] for r in side["invalid"] if r["cause"] == "settling"),
                             -(-149 // decimate))
            self.assertIn(f"/{rate}/1\r\n" if "\r\n" in sdp else f"/{rate}/1\n", sdp)
            self.assertIn(f"a=x-convolvd-decimation:{decimate}", sdp)
            os.remove(self.path("out.wav"))

    def test_aligned(self):
        """With `align` frame m is the filtered signal at input frame m D, whatever the delay."""
        h = scipy.signal.firwin(101, 2000, fs=RATE)
        text = self.stream("decimate = 12\nalign = yes\nblock = 256 frames") \
            + c.taps_file(self.folder, "h", h, "50 frames") + self.sinks("a")
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, rate=RATE // 12) as tap:
            c.rig(self.folder, self.rx, *noise("--frames", 10000, "--write", self.path("x.npy")))
            self.received(daemon, 10000)
            daemon.stop()
            got = tap.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        c.assert_within(tap.frames(), c.convolve(x, h)[50::12], x, h)
        self.assertTrue(got["aligned"])

    def test_records(self):
        """Each record is an epoch of its own: its frame 0 is kept, its time stamps go on on one grid."""
        h = c.random_taps(1, 300)
        text = self.stream("mode = record\nblock = 512 frames\ndecimate = 16") + c.taps_file(self.folder, "h", h) \
            + f"[sink out]\ntype = rtp\nstream = a\naddress = 127.0.0.1:{self.tx}\n"
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, rate=RATE // 16) as tap:
            c.rig(self.folder, self.rx, *noise("--frames", 12000, "--record", 3000, "--pause", "10 ms", "--packet", 250,
                                               "--write", self.path("x.npy")))
            self.received(daemon, 12000)
            stream = daemon.stop()["streams"][0]
            got = tap.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        kept = -(-3299 // 16)
        self.assertEqual([stream["records"], len(got["epochs"])], [4, 4])
        for i, epoch in enumerate(got["epochs"]):
            self.assertEqual([epoch["epoch"], epoch["record"], epoch["first_frame"], epoch["end_frame"]], [i, i, 0, kept])
            self.assertTrue(epoch["start"] and epoch["end"])
            piece = x[3000 * i:3000 * (i + 1)]
            c.assert_within(tap.frames(i), c.convolve(piece, h)[::16], x, h, what=f"record {i}")
        self.assertEqual(stream["frames_out"]["shed"]["decimated"], 4 * (3299 - kept))

    def test_reload_to_another_rate(self):
        """A stream and the one that reads it get another rate while the daemon runs."""
        h = c.random_taps(2, 64)
        def config(decimate):
            return self.stream(f"decimate = {decimate}\nidle flush = 20 ms") + c.taps_file(self.folder, "h", h) \
                + "[stream b]\nsource = stream a\nfilter = h\ndecimate = 3\nidle flush = 20 ms\n" \
                + f"[sink out]\ntype = rtp\nstream = b\naddress = 127.0.0.1:{self.tx}\n"
        def rates(status):
            return {stream["name"]: (stream["rate_hz"], stream["output_rate_hz"]) for stream in status["streams"]}
        with c.Daemon(self.folder, config(8)) as daemon:
            self.assertEqual(rates(daemon.status()), {"a": (48000, 6000), "b": (6000, 2000)})
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(f"[device]\ndevice = {c.DEVICE}\n\n" + config(2))
            daemon.signal(signal.SIGHUP)
            c.wait_for(lambda: rates(daemon.status()) == {"a": (48000, 24000), "b": (24000, 8000)}, "the other rates")
            c.wait_for(lambda: daemon.said("reload"), "the reload's end")
            c.rig(self.folder, self.rx, *noise("--frames", 6000, "--packet", 250))
            self.received(daemon, 6000, "a")
            status = {stream["name"]: stream for stream in daemon.stop()["streams"]}
        self.assertEqual(status["a"]["frames_out"]["out"], -(-6063 // 2))
        self.assertEqual(status["b"]["frames_in"]["timeline"], -(-6063 // 2))

    def test_envelope_low_pass_decimate(self):
        """A complex band-pass and its envelope; a low-pass, 1 of 8; a second one, 1 of 5. Against scipy."""
        n = np.arange(129) - 64
        band = 2 * np.hanning(129) / np.hanning(129).sum() * np.exp(2j * np.pi * 0.2 * n)
        smooth = scipy.signal.firwin(161, 2000, fs=RATE)
        slow = scipy.signal.firwin(41, 400, fs=RATE / 8)
        other = c.free_port()
        text = self.stream("output = envelope\nblock = 200 frames") \
            + "[stream b]\nsource = stream a\nfilter = g\ndecimate = 8\nblock = 512 frames\n" \
            + "[stream c]\nsource = stream b\nfilter = k\ndecimate = 5\nblock = 64 frames\n" \
            + c.taps_file(self.folder, "h", band, "64 frames") + c.taps_file(self.folder, "g", smooth, "80 frames") \
            + c.taps_file(self.folder, "k", slow, "20 frames") + self.sinks("b") \
            + f"[sink c-out]\ntype = rtp\nstream = c\naddress = 127.0.0.1:{other}\n"
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, rate=6000, name="b") as tap, \
                c.Tap(self.folder, other, rate=1200, name="c") as tap_c:
            c.rig(self.folder, self.rx, *noise("--frames", 40000, "--write", self.path("x.npy")))
            self.received(daemon, 40000, "a")
            self.assertIn("a=x-convolvd-decimation:40", self.sdp("c-out"))
            status = {stream["name"]: stream for stream in daemon.stop()["streams"]}
            got, got_c = tap.finish(number=signal.SIGTERM), tap_c.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        envelope = np.abs(c.convolve(x, band))
        want = scipy.signal.oaconvolve(envelope, smooth[:, None], axes=0)[::8]
        c.assert_within(tap.frames(), want, np.concatenate([x, envelope]), band)
        last = scipy.signal.oaconvolve(want, slow[:, None], axes=0)[::5]
        c.assert_within(tap_c.frames(), last, np.concatenate([x, envelope]), band)
        self.assertEqual([status[s]["output_rate_hz"] for s in "abc"], [48000, 6000, 1200])
        # Delays add up along the chain, each at its own rate: exact to half a frame of the source.
        self.assertEqual([got["delay_frames"], got_c["delay_frames"]], [(64 + 80) / 8, ((64 + 80) / 8 + 20) / 5])

    def test_what_aliases_is_said_before_the_start(self):
        """`--check` against scipy: the largest gain outside the kept band over the largest inside."""
        for cutoff, decimate in ((2000, 8), (5000, 8), (700, 32)):
            h = scipy.signal.firwin(121, cutoff, fs=RATE)
            text = self.stream(f"decimate = {decimate}") + c.taps_file(self.folder, "h", h) \
                + f"[sink out]\ntype = rtp\nstream = a\naddress = 127.0.0.1:{self.tx}\n"
            with open(self.path("check.conf"), "w", encoding="utf-8") as file:
                file.write(text)
            said = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", self.path("check.conf")], check=True,
                                  capture_output=True, text=True).stdout
            f, gain = scipy.signal.freqz(h, worN=1 << 18, fs=RATE)
            edge = RATE / decimate / 2
            gain = np.abs(gain)
            want = 20 * np.log10(gain[f >= edge].max() / gain[f <= edge].max())
            self.assertIn(f"1 frame of {decimate} is kept", said)
            found = re.search(r"h: ([-+][0-9.]+) dB aliases at most, from ([0-9.]+) (k?Hz)", said)
            self.assertIsNotNone(found, said)
            self.assertAlmostEqual(float(found[1]), want, delta=0.11)


if __name__ == "__main__":
    unittest.main(verbosity=2)
