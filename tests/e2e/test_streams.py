#!/usr/bin/python3
# kernels: plain, streams and their order are tested, and many lengths compiled
# parallel: yes
# threads: yes
# takes: 9 s CPU in 23 s
"""What streams do over UDP beside filtering one endless signal: records with their tails, partial
blocks of a silent source, chains, calibration, alignment, values that are not finite, several
rigs, recordings cut at exact frames, and the drain. Held against numpy by frame number."""
import glob
import os
import signal
import socket
import struct
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000


def rtp_stream(name, rx, keys="", rate=RATE):
    return f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{rx}\nrate = {rate} Hz\nfilter = h\n{keys}\n"


def noise(*more):
    return ["--signal", "noise", "--amplitude", 0.2, "--rate", RATE, "--format", "f32be", *more]


class Streams(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name
        self.rx, self.tx = c.free_port(), c.free_port()

    def path(self, name):
        return os.path.join(self.folder, name)

    def received(self, daemon, frames, stream=None):
        c.wait_for(lambda: daemon.stream(stream)["frames_in"]["received"] >= frames, f"{frames} frames")

    # ---- records -------------------------------------------------------------------------

    def records(self, tail):
        """Four records of 3000 frames, 10 ms apart: each convolved alone, with its own tail."""
        h = c.random_taps(1, 700)
        text = rtp_stream("s", self.rx, f"mode = record\nformat = f32be\nblock = 512 frames\ntail = {tail}") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            sent = c.rig(self.folder, self.rx, *noise("--frames", 12000, "--record", 3000, "--pause", "10 ms", "--packet",
                                                      250, "--write", self.path("x.npy")))
            self.received(daemon, 12000)
            stream = daemon.stop()["streams"][0]
            got = tap.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        self.assertEqual([sent["records"], stream["records"], stream["epochs"], len(got["epochs"])], [4, 4, 4, 4])
        length = 3000 + (699 if tail == "yes" else 0)
        for i, epoch in enumerate(got["epochs"]):
            self.assertEqual([epoch["epoch"], epoch["record"], epoch["first_frame"], epoch["end_frame"]], [i, i, 0, length])
            self.assertTrue(epoch["start"] and epoch["end"] and epoch["marker"])
            piece = x[3000 * i:3000 * (i + 1)]
            c.assert_within(tap.frames(i), c.convolve(piece, h)[:length], x, h, what=f"record {i}")
            mask = c.flagged(got, i, length)
            self.assertEqual(c.runs(mask), [(0, 699)] + ([(3000, 3699)] if tail == "yes" else []))
            if i > 0:
                before = got["epochs"][i - 1]
                # Time stamps and capture times advance by the record and its pause: 3000 + 480 frames.
                # A tail longer than the pause pushes the next record's time stamp on.
                self.assertEqual(epoch["timestamp"] - before["timestamp"], max(3480, length))
                self.assertAlmostEqual((epoch["capture_ns"] - before["capture_ns"]) * 1e-9, 3480 / RATE, delta=0.05)
        self.assertEqual(stream["frames_in"]["timeline"], 12000)
        self.assertEqual(sum(stream["frames_in"]["gap"].values()), 0)
        self.assertEqual(stream["frames_out"]["out"], 4 * length)

    def test_records_with_tails(self):
        self.records("yes")

    def test_records_without_tails(self):
        self.records("no")

    def test_an_end_is_told_after_the_last_frame(self):
        """Each record has been processed to its last frame, by the idle flush, before the next one
        shows that it has ended."""
        h = c.random_taps(1, 64)
        text = rtp_stream("s", self.rx, "mode = record\nformat = f32be\nblock = 512 frames\ntail = no\nidle flush = 5 ms") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            c.rig(self.folder, self.rx, *noise("--frames", 3000, "--record", 1000, "--pause", "200 ms", "--packet", 250))
            self.received(daemon, 3000)
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] == 3000, "every frame out")
            daemon.stop()
            got = tap.finish(number=signal.SIGTERM)
        self.assertEqual([(e["first_frame"], e["end_frame"], e["start"], e["end"]) for e in got["epochs"]],
                         [(0, 1000, True, True)] * 3)

    def test_a_packet_lost_inside_a_record_is_a_gap(self):
        h = c.random_taps(2, 33)
        text = rtp_stream("s", self.rx, "mode = record\nformat = f32be\nreorder = 100 ms\nmax misorder = 100 ms") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            sent = c.rig(self.folder, self.rx, *noise("--frames", 12000, "--record", 6000, "--pause", "20 ms", "--packet",
                                                      200, "--loss", "8 %", "--clean", 1000, "--seed", 5, "--write",
                                                      self.path("x.npy")))
            missing = [tuple(pair) for pair in sent["missing"]]
            # The rule of this test: neither record's first nor last packet is among them.
            self.assertTrue(missing and all(b % 6000 != 0 and a % 6000 != 0 for a, b in missing), missing)
            self.received(daemon, 12000 - sent["frames_dropped"])
            stream = daemon.stop()["streams"][0]
            tap.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        filled = x.copy()
        for a, b in missing:
            filled[a:b] = 0
        self.assertEqual(stream["records"], 2)
        self.assertEqual(stream["frames_in"]["gap"]["network"], sent["frames_dropped"])
        for i in range(2):
            c.assert_within(tap.frames(i), c.convolve(filled[6000 * i:6000 * (i + 1)], h), x, h, what=f"record {i}")

    # ---- time ----------------------------------------------------------------------------

    def test_a_silent_source_has_its_partial_block_processed(self):
        h = c.random_taps(3, 65)
        text = rtp_stream("s", self.rx, "format = f32be\nblock = 4096 frames\nidle flush = 50 ms") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            # A rig stopped in the middle of a block and let go on: nothing may show in the samples.
            with c.Process("convolv-rig", ["--to", f"127.0.0.1:{self.rx}", "--write", self.path("x.npy"), "--packet", 100,
                                           *noise("--frames", 20000)]) as rig:
                for after in (3000, 9000):
                    self.received(daemon, after)
                    rig.signal(signal.SIGSTOP)
                    time.sleep(0.1)

                    def flushed():
                        now = daemon.stream()
                        return now["frames_out"]["out"] == now["frames_in"]["received"]
                    c.wait_for(flushed, "the partial block")
                    rig.signal(signal.SIGCONT)
                self.assertEqual(rig.wait(), 0)
            self.received(daemon, 20000)
            stream = daemon.stop()["streams"][0]
            ledger = tap.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        c.assert_within(tap.frames(), c.convolve(x, h), x, h)
        self.assertGreater(ledger["partial_packets"], 0)
        self.assertEqual(stream["invalid_frames"], 2 * 64)
        self.assertEqual(sum(stream["frames_in"]["gap"].values()), 0)

    def test_silence_makes_no_gap(self):
        """Only the reorder window gives up a missing packet, not the idle flush, however short."""
        h = c.random_taps(14, 65)
        text = rtp_stream("s", self.rx, "format = f32be\nblock = 256 frames\nidle flush = 20 ms\nreorder = 10 s\n"
                                        "max misorder = 10 s") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx)
        x = np.random.default_rng(14).normal(0, 0.2, (1000, 1)).astype(np.float32)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rig:
                for i in (0, 1, 2, 4, 5, 3, 6, 7, 8, 9):
                    if i == 3:
                        self.received(daemon, 500)
                        time.sleep(0.2)
                    rig.sendto(struct.pack(">BBHII", 0x80, 96, i, 100 * i, 77)
                               + x[100 * i:100 * (i + 1)].astype(">f4").tobytes(), ("127.0.0.1", self.rx))
            self.received(daemon, 1000)
            stream = daemon.stop()["streams"][0]
            tap.finish(number=signal.SIGTERM)
        self.assertEqual(sum(stream["frames_in"]["gap"].values()), 0)
        c.assert_within(tap.frames(), c.convolve(x, h), x, h)

    def test_the_rate_is_measured(self):
        text = rtp_stream("s", self.rx, "format = f32be") + "[filter h]\ntype = identity\n" + c.rtp_sink("out", "s", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            c.rig(self.folder, self.rx, *noise("--seconds", 3, "--ppm", 5000, "--packet", 48))
            self.received(daemon, 3 * RATE)
            stream = daemon.stop()["streams"][0]
            got = tap.finish(number=signal.SIGTERM)
        self.assertAlmostEqual(stream["rate_ppm"], 5000, delta=1500)
        self.assertAlmostEqual(stream["measured_rate_hz"], RATE * (1 + stream["rate_ppm"] * 1e-6), delta=0.01)
        latency = got["latency_ns"]
        # A block of 1024 frames takes 21.2 ms to be received at this clock, less one packet.
        self.assertAlmostEqual(latency["accumulate"]["p50"] * 1e-9, (1024 - 48) / (RATE * 1.005), delta=0.01)
        self.assertGreater(latency["arrival - capture"]["p50"], 0)
        self.assertGreater(latency["device"]["p50"], 0)

    def test_the_drain_keeps_what_was_received(self):
        h = c.random_taps(4, 300)
        text = rtp_stream("s", self.rx, "format = f32be\nblock = 2000 frames") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, "--until-end", "--timeout", 30) as tap, \
                c.Process("convolv-rig", ["--to", f"127.0.0.1:{self.rx}", "--write", self.path("x.npy"), "--packet", 111,
                                          *noise("--seconds", 60)]) as rig:
            self.received(daemon, 30000)
            begun = time.monotonic()
            stream = daemon.stop()["streams"][0]
            self.assertLess(time.monotonic() - begun, 5 + c.PATIENCE_S * c.SANITIZED)
            tap.finish()
            rig.signal(signal.SIGTERM)
            rig.wait()
        x = np.load(self.path("x.npy"))[:stream["frames_in"]["received"]]
        self.assertEqual(stream["frames_out"]["out"], len(x) + 299)
        c.assert_within(tap.frames(), c.convolve(x, h), x, h)

    # ---- chains --------------------------------------------------------------------------

    def test_a_chain_adds_delays_and_invalid_ranges(self):
        """band-pass -> low-pass over UDP, with a gap: both outputs exact, ranges grown by each filter."""
        first, second = c.random_taps(5, 101), c.random_taps(6, 57)
        other = c.free_port()
        text = rtp_stream("a", self.rx, "format = f32be\nblock = 256 frames\nreorder = 100 ms\nmax misorder = 100 ms") \
            + "[stream b]\nsource = stream a\nfilter = g\nblock = 700 frames\n" \
            + c.taps_file(self.folder, "h", first, "50 frames") + c.taps_file(self.folder, "g", second, "28 frames") \
            + c.rtp_sink("a-out", "a", self.tx) + c.rtp_sink("b-out", "b", other)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, name="a") as tap_a, \
                c.Tap(self.folder, other, name="b") as tap_b:
            sent = c.rig(self.folder, self.rx, *noise("--frames", 20000, "--packet", 200, "--loss", "2 %", "--clean", 2000,
                                                      "--seed", 8, "--write", self.path("x.npy")))
            self.received(daemon, 20000 - sent["frames_dropped"], "a")
            status = {stream["name"]: stream for stream in daemon.stop()["streams"]}
            got_a, got_b = tap_a.finish(number=signal.SIGTERM), tap_b.finish(number=signal.SIGTERM)
        missing = [tuple(pair) for pair in sent["missing"]]
        self.assertTrue(missing and missing[-1][1] < 20000, "choose another seed")
        x = np.load(self.path("x.npy"))
        filled = x.copy()
        for a, b in missing:
            filled[a:b] = 0
        c.assert_within(tap_a.frames(), c.convolve(filled, first), x, first, what="first")
        whole = np.convolve(first, second)
        # What the second stream sees is the first one's float32 output: its error passes through the second filter.
        want = c.convolve(filled, whole)
        limit2, limit_max = c.bound(want, x, first)
        error = tap_b.frames() - want
        gain = 1 + c.peak_response(second)
        self.assertEqual(error.shape, (20000 + len(whole) - 1, 1))
        self.assertLessEqual(np.linalg.norm(error), gain * limit2)
        self.assertLessEqual(np.abs(error).max(), gain * limit_max)
        self.assertEqual([got_a["delay_frames"], got_b["delay_frames"]], [50, 78])
        for name, got, reach, stretch in (("a", got_a, 100, 100), ("b", got_b, 156, 156)):
            frames = 20000 + reach
            expected = np.zeros(frames, dtype=bool)
            expected[:stretch] = True
            expected[20000:] = True
            for begin, end in missing:
                expected[begin:end + stretch] = True
            self.assertEqual(status[name]["invalid_frames"], expected.sum(), name)
            self.assertFalse((expected & ~c.flagged(got, 0, frames)).any(), name)

    def test_envelope_then_low_pass(self):
        """The chain of the manual: a complex band-pass, its envelope, and a low-pass on that."""
        n = np.arange(129) - 64
        band = 2 * np.hanning(129) / np.hanning(129).sum() * np.exp(2j * np.pi * 0.2 * n)
        smooth = np.hanning(33) / np.hanning(33).sum()
        text = rtp_stream("a", self.rx, "format = f32be\noutput = envelope") + "[stream b]\nsource = stream a\nfilter = g\n" \
            + c.taps_file(self.folder, "h", band) + c.taps_file(self.folder, "g", smooth) + c.rtp_sink("out", "b", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            c.rig(self.folder, self.rx, *noise("--frames", 10000, "--write", self.path("x.npy")))
            self.received(daemon, 10000, "a")
            daemon.stop()
            tap.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        envelope = np.abs(c.convolve(x, band))
        c.assert_within(tap.frames(), c.convolve(envelope, smooth), np.concatenate([x, envelope]), band)

    # ---- values --------------------------------------------------------------------------

    def test_calibration_levels_and_overload(self):
        h = c.random_taps(9, 17)
        codes = c.noise_codes(9, 20000, 2, amplitude=0.2)
        codes[5000, 0], codes[5001, 0], codes[7000, 1] = 32767, -32768, 32767
        c.write_wav16(self.path("x.wav"), RATE, codes)
        text = rtp_stream("s", self.rx, "channels = 2\nfull scale = 10 V, 5 V\npreamp = 20 dB, 0 dB\n"
                                        "offset = 50 mV, -1 V") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx) \
            + c.rtp_sink("int", "s", c.free_port(), "format = L16\nfull scale = 0.5 V")
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, channels=2) as tap:
            c.rig(self.folder, self.rx, "--file", self.path("x.wav"))
            self.received(daemon, 20000)
            stream = daemon.stop()["streams"][0]
            tap.finish(number=signal.SIGTERM)
        x = codes / 32768 * np.array([10 / 10, 5.0]) - np.array([0.05, -1.0])
        y = c.convolve(x, h)
        for channel in range(2):
            level = stream["channels"][channel]
            self.assertEqual(level["unit"], "V")
            self.assertEqual(level["frames"], 20000)
            self.assertAlmostEqual(level["dc"], x[:, channel].mean(), delta=1e-5)
            self.assertAlmostEqual(level["rms"], np.sqrt((x[:, channel] ** 2).mean()), delta=1e-5)
            self.assertAlmostEqual(level["peak"], np.abs(x[:, channel]).max(), delta=1e-5)
            self.assertEqual(level["overloads"], int(np.isin(codes[:, channel], [32767, -32768]).sum()))
        c.assert_within(tap.frames(), y, x, h)
        # Saturation of the integer sink: codes beyond +32767.5 and -32768.5, but for what lies within the error bound.
        scaled = y / 0.5 * 32768
        sure = int(((scaled > 32767.6) | (scaled < -32768.6)).sum())
        possible = int(((scaled > 32767.4) | (scaled < -32768.4)).sum())
        saturated = stream["sinks"][1]["saturated"]
        self.assertTrue(sure <= saturated <= possible and sure > 0, (sure, saturated, possible))

    def test_integer_sink_with_full_scale(self):
        h = c.random_taps(10, 33)
        text = rtp_stream("s", self.rx, "format = f32be\nfull scale = 2 V") + c.taps_file(self.folder, "h", h) \
            + c.rtp_sink("out", "s", self.tx, "format = L24\nfull scale = 4 V\nsdp = " + self.path("s.sdp"))
        with c.Daemon(self.folder, text) as daemon:
            with c.Process("convolv-tap", ["--sdp", self.path("s.sdp"), "--write", self.path("tap.npy")]) as tap:
                tap.wait_said(f"listening on 127.0.0.1:{self.tx}, L24, 1 channel, 48000 Hz")
                c.rig(self.folder, self.rx, *noise("--frames", 10000, "--write", self.path("x.npy")))
                self.received(daemon, 10000)
                daemon.stop()
                tap.signal(signal.SIGTERM)
                self.assertEqual(tap.wait(), 0, tap.output())
        x = 2 * np.load(self.path("x.npy"))
        c.assert_within(np.load(self.path("tap.npy")), c.convolve(x, h), x, h, lsb=4 * 2.0 ** -23)

    def test_align_applies_the_delay(self):
        h = np.hanning(101)[1:-1]
        h /= h.sum()
        text = rtp_stream("s", self.rx, "format = f32be\nalign = yes\nblock = 300 frames") \
            + c.taps_file(self.folder, "h", h, "49 frames") + c.rtp_sink("out", "s", self.tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx) as tap:
            c.rig(self.folder, self.rx, *noise("--frames", 10000, "--write", self.path("x.npy")))
            self.received(daemon, 10000)
            stream = daemon.stop()["streams"][0]
            got = tap.finish(number=signal.SIGTERM)
        x = np.load(self.path("x.npy"))
        self.assertEqual([got["delay_frames"], got["aligned"]], [49, True])
        self.assertEqual(stream["frames_out"]["shed"]["aligned"], 49)
        c.assert_within(tap.frames(), c.convolve(x, h)[49:], x, h)

    def test_values_that_are_not_finite(self):
        """NaN and infinity become zero and an invalid range as long as the filter remembers them."""
        h = c.random_taps(11, 65)
        text = rtp_stream("s", self.rx, "format = f32be\nblock = 256 frames\nchannels = 2") \
            + c.taps_file(self.folder, "h", h) + c.rtp_sink("out", "s", self.tx)
        x = np.random.default_rng(11).normal(0, 0.2, (6000, 2)).astype(np.float32)
        bad = [(1000, 0, np.nan), (1001, 1, np.inf), (3000, 0, -np.inf)]
        for frame, channel, value in bad:
            x[frame, channel] = value
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, self.tx, channels=2) as tap:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rig:
                for i in range(60):
                    packet = struct.pack(">BBHII", 0x80, 96, i, 100 * i, 77) + x[100 * i:100 * (i + 1)].astype(">f4").tobytes()
                    rig.sendto(packet, ("127.0.0.1", self.rx))
                    time.sleep(0.001)
            self.received(daemon, 6000)
            stream = daemon.stop()["streams"][0]
            got = tap.finish(number=signal.SIGTERM)
        clean = np.where(np.isfinite(x), x, 0).astype(np.float64)
        c.assert_within(tap.frames(), c.convolve(clean, h), clean, h)
        self.assertEqual([channel["non_finite"] for channel in stream["channels"]], [2, 1])
        seen = c.flagged(got, 0, 6064)
        for frame, _, _ in bad:
            self.assertTrue(seen[frame:frame + 65].all(), frame)
        self.assertFalse(seen[400:900].any() or seen[1600:2900].any() or seen[3600:5900].any())
        self.assertGreaterEqual(stream["invalid"]["non-finite"], 66 + 65)

    # ---- several ---------------------------------------------------------------------------

    def test_two_rigs_two_streams(self):
        """One convolv-rig as two rigs of different ports; each stream is its own."""
        h = c.random_taps(12, 129)
        ports = [(self.rx, self.tx), (c.free_port(), c.free_port())]
        text = c.taps_file(self.folder, "h", h)
        for i, (rx, tx) in enumerate(ports):
            text += rtp_stream(f"s{i}", rx, f"format = f32be\nblock = {(300, 1024)[i]} frames") + c.rtp_sink(f"out{i}", f"s{i}", tx)
        with c.Daemon(self.folder, text) as daemon, c.Tap(self.folder, ports[0][1], name="t0") as t0, \
                c.Tap(self.folder, ports[1][1], name="t1") as t1:
            c.rig(self.folder, ports[0][0], "--to", f"127.0.0.1:{ports[1][0]}", *noise("--frames", 15000, "--write",
                                                                                     self.path("x.npy")))
            self.received(daemon, 15000, "s0")
            self.received(daemon, 15000, "s1")
            daemon.stop()
            for tap in (t0, t1):
                tap.finish(number=signal.SIGTERM)
        x0, x1 = np.load(self.path("x.npy")), np.load(self.path("x.npy.1"))
        self.assertFalse(np.array_equal(x0, x1))
        c.assert_within(t0.frames(), c.convolve(x0, h), x0, h)
        c.assert_within(t1.frames(), c.convolve(x1, h), x1, h)

    # ---- recordings ------------------------------------------------------------------------

    def test_recordings_rotate_at_exact_frames(self):
        h = c.random_taps(13, 65)
        text = rtp_stream("s", self.rx, "block = 500 frames") + c.taps_file(self.folder, "h", h) \
            + f"[sink cut]\ntype = recording\nstream = s\npath = {self.folder}/cut.wav\nrotate = 100 ms\n" \
            + f"[sink raw]\ntype = recording\nstream = s\npath = {self.folder}/raw.wav\nrecord = input\n"
        codes = c.noise_codes(13, 20000, 1)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        with c.Daemon(self.folder, text) as daemon:
            c.rig(self.folder, self.rx, "--file", self.path("x.wav"))
            self.received(daemon, 20000)
            stream = daemon.stop()["streams"][0]
        x = codes / 32768
        want = c.convolve(x, h)
        pieces = []
        for path in glob.glob(self.path("cut*.wav")):
            pieces.append((c.load_json(path + ".json"), c.read_recording(path).reshape(-1, 1)))
        pieces.sort(key=lambda piece: piece[0]["first_frame"])
        self.assertEqual([len(samples) for _, samples in pieces], [4800] * 4 + [20064 - 4 * 4800])
        for i, (sidecar, samples) in enumerate(pieces):
            self.assertEqual([sidecar["first_frame"], sidecar["frames"], sidecar["complete"]], [4800 * i, len(samples), True])
            self.assertAlmostEqual((sidecar["capture_time_ns"] - pieces[0][0]["capture_time_ns"]) * 1e-9, 0.1 * i, delta=0.03)
        c.assert_within(np.concatenate([samples for _, samples in pieces]), want, x, h)
        self.assertEqual(pieces[0][0]["invalid"], [{"from": 0, "until": 64, "cause": "settling"}])
        self.assertEqual(pieces[-1][0]["invalid"], [{"from": 20000, "until": 20064, "cause": "tail"}])
        raw = c.read_recording(self.path("raw.wav")).reshape(-1, 1)
        self.assertTrue(np.array_equal(raw, codes), "the raw recording is the input, code by code")
        self.assertEqual(stream["sinks"][0]["delivered"], 20064)
        self.assertEqual(stream["sinks"][1]["delivered"], 20000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
