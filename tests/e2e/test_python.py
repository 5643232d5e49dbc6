#!/usr/bin/python3
# parallel: yes
# takes: 2 s CPU in 19 s
"""clients/python against the running daemon: what `Stream` sends and `results` yields, from RTP, OSC, convolv-tap's
pipe and recordings, equals scipy's convolution frame by frame; formats, tags, records and asyncio; hostile packets are
counted and never raise. Nothing is aligned, scaled or searched."""
import asyncio
import contextlib
import os
import random
import socket
import struct
import sys
import threading
import time
import unittest

import numpy as np
import scipy.signal

import convolvd as c

sys.path.insert(0, os.path.join(c.ROOT, "clients", "python"))
import convolv  # noqa: E402
from convolv import _rtp  # noqa: E402
from convolv._auth import Opener, Sealer  # noqa: E402
from convolv._format import sample_format  # noqa: E402
from convolv._osc import messages, parse  # noqa: E402
from convolv._receiver import Receiver  # noqa: E402

RATE = 48000
FRAMES = 12000
KEY = "00112233445566778899aabbccddeeff" * 2
TAP = os.path.join(c.BUILD, "convolv-tap")


def scipy_convolve(x, h):
    """The oracle: scipy, in double."""
    return np.stack([scipy.signal.fftconvolve(x[:, n].astype(np.float64), h) for n in range(x.shape[1])], axis=1)


class Setting:
    """A daemon with one stream of two channels: RTP in; RTP, OSC and a recording out."""

    def __init__(self, folder, form="f32be", source="", sink="format = f32", taps=151, full_scale=1.0, stream=""):
        self.folder = folder
        self.rx, self.tx, self.osc = c.free_port(), c.free_port(), c.free_port()
        self.sdp, self.wav = os.path.join(folder, "s.sdp"), os.path.join(folder, "s.wav")
        self.h = c.random_taps(3, taps)
        self.text = (
            f"[osc]\naddress = 127.0.0.1:{self.osc}\ntcp address = 127.0.0.1:{self.osc}\n"
            f"[stream s]\nsource = rtp\naddress = 127.0.0.1:{self.rx}\nrate = {RATE} Hz\nformat = {form}\nchannels = 2\n"
            f"filter = h\nblock = 256 frames\nfull scale = {full_scale}\n{source}\n{stream}\n"
            + c.taps_file(folder, "h", self.h, "75 frames")
            + c.rtp_sink("out", "s", self.tx, f"sdp = {self.sdp}\n{sink}")
            + "[sink osc]\ntype = osc\nstream = s\n"
            f"[sink file]\ntype = recording\nstream = s\npath = {self.wav}\nformat = f32\n")
        self.form, self.full_scale = form, full_scale

    def daemon(self):
        return c.Daemon(self.folder, self.text)

    def stream(self, **options):
        return convolv.Stream(f"udp://127.0.0.1:{self.rx}", rate_hz=RATE, channels=2,
                              **{"format": self.form, "full_scale": self.full_scale, **options})

    def origins(self):
        return {"rtp": self.sdp, "udp": f"udp://127.0.0.1:{self.tx}", "osc": f"osc://127.0.0.1:{self.osc}/s",
                "osc+tcp": f"osc+tcp://127.0.0.1:{self.osc}/s"}


class Python(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_key(self, name="stream.key"):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(KEY + "\n")
        os.chmod(self.path(name), 0o600)
        return self.path(name)

    def noise(self, frames=FRAMES, amplitude=0.2):
        return np.random.default_rng(5).normal(0, amplitude, (frames, 2)).astype(np.float32)

    def assert_collected(self, got, x, h, lsb=0.0, frames=None, what="result"):
        """The frames of an epoch from 0 on against scipy's, frame by frame."""
        want = scipy_convolve(x, h)
        frames = len(want) if frames is None else frames
        self.assertEqual((got.first_frame, got.epoch), (0, 0), what)
        c.assert_within(got.samples[:frames], want[:frames], x, h, lsb, what)

    # ---- the whole way ----

    def test_every_origin_gives_the_same_frames(self):
        at = Setting(self.folder)
        x, came = self.noise(), {}
        with at.daemon() as daemon:
            origins = {**at.origins(), "tap": at.sdp}
            del origins["udp"]  # the same port
            del origins["rtp"]

            def gather(name, opened):
                came[name] = (convolv.collect(opened), opened)
            with at.stream() as stream:
                opened = {name: convolv.results(origin, timeout=c.PATIENCE_S, **({"tap": TAP} if name == "tap" else {}))
                          for name, origin in origins.items()}
                threads = [threading.Thread(target=gather, args=item, daemon=True) for item in opened.items()]
                for thread in threads:
                    thread.start()
                before = time.time_ns()
                stream.send(x)
                sent = stream.ledger
                c.wait_for(lambda: daemon.stream()["frames_in"]["received"] == FRAMES, "all frames")
                daemon.stop()
                for thread in threads:
                    thread.join(c.PATIENCE_S)
        self.assertEqual([sent.frames, sent.failed, sent.saturated, sent.queued], [FRAMES, 0, 0, 0])
        self.assertEqual(sent.built, sent.datagrams)
        with convolv.results(at.wav) as opened["file"]:
            gather("file", opened["file"])
            self.assertTrue(opened["file"].complete)
        for name, (got, result) in came.items():
            with self.subTest(name):
                result.close()
                self.assert_collected(got, x, at.h, what=name)
                self.assertEqual([result.channels, result.rate_hz], [2, RATE])
                self.assertEqual([result.ledger.lost, result.ledger.frames_lost, result.ledger.epochs or 1], [0, 0, 1])
                self.assertEqual(result.ledger.frames, FRAMES + 150)
                # Settling and tail are flagged to the frame, except by OSC, which flags messages.
                valid = np.zeros(FRAMES + 150, dtype=bool)
                valid[150:FRAMES] = True
                if name.startswith("osc"):
                    self.assertFalse(got.valid[:150].any() or got.valid[FRAMES:].any())
                    self.assertTrue(got.valid[512:FRAMES - 512].all())
                else:
                    self.assertTrue((got.valid == valid).all())
                    self.assertLess(abs(got.capture_ns - before), 5e9)

    def test_a_block_says_what_the_daemon_knows(self):
        at = Setting(self.folder)
        with at.daemon(), convolv.results(at.sdp, timeout=c.PATIENCE_S) as results, at.stream() as stream:
            self.assertEqual(results.presence, "unknown")
            now = time.time_ns()
            stream.send(self.noise())
            blocks = []
            for block in results:
                blocks.append(block)
                if block.end_frame >= 4096:
                    break
            self.assertEqual(results.presence, "results")
        first, last = blocks[0], blocks[-1]
        self.assertTrue(first.described and first.epoch_start and not first.epoch_end and not first.late)
        self.assertEqual([first.first_frame, first.epoch, first.record, first.decimate, first.delay_frames],
                         [0, 0, 0, 1, 75.0])
        self.assertEqual(first.invalid[0][:2], (0, min(150, len(first))))
        self.assertEqual(first.causes, {"settling"})
        self.assertEqual((last.invalid, last.causes), ((), frozenset()))
        self.assertTrue(last.valid.all())
        self.assertEqual(first.clock, "receive")
        self.assertEqual(last.latency_ns, sum(last.stages))
        self.assertGreater(last.stages.device_ns, 0)
        self.assertLess(last.latency_ns, 10e9)
        self.assertTrue(np.array_equal(last.frame_numbers, np.arange(last.first_frame, last.end_frame)))
        times = last.capture_times_ns
        self.assertLess(abs(times[0] - now - last.first_frame / RATE * 1e9), 5e9)
        self.assertLess(abs((times[-1] - times[0]) - (len(last) - 1) * 1e9 / RATE), 2)
        self.assertGreater(last.receive_ns, last.capture_ns - 10**9)

    def datagram(self, send, port):
        """The one datagram that `send` sends to the port."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
            raw.bind(("127.0.0.1", port))
            raw.settimeout(c.PATIENCE_S)
            send()
            return raw.recv(65536)

    def test_formats_are_encoded_as_libconvolv_encodes(self):
        """Each payload of the daemon byte by byte as convolv-rig sends it, clipped samples and fewer bits too; and
        back by the definition."""
        values = np.random.default_rng(1).normal(0, 0.6, (500, 2)).astype(np.float32)
        values[:6, 0] = [1.0, -1.0, 1.5 / 128, 0.5 / 32768, 1.5 / 32768, -0.5 / 32768]
        self.write_float_wav(self.path("x.wav"), values)
        for form, *bits in (("u8",), ("s8",), ("s16le",), ("L16",), ("u16be",), ("L24",), ("s24le",), ("u24le",),
                            ("s32be",), ("u32le",), ("f32be",), ("f32le",), ("s16be", 12, False), ("u16le", 14, True)):
            with self.subTest(form):
                port, word = c.free_port(), sample_format(form, *bits)

                def python():
                    with convolv.Stream(f"127.0.0.1:{port}", rate_hz=1e6, channels=2, format=form, framing="udp",
                                        pace=False, packet_frames=500, bits=word.bits, left=word.left) as stream:
                        stream.send(values)
                        self.saturated = stream.ledger.saturated

                def libconvolv():
                    extra = ["--bits", word.bits, "--justify", "left" if word.left else "right"] if bits else []
                    self.rig = c.rig(self.folder, port, "--file", self.path("x.wav"), "--framing", "udp", "--format", form,
                                     "--packet", 500, *extra)
                wire = self.datagram(python, port)
                self.assertEqual(wire, self.datagram(libconvolv, port))
                self.assertEqual(self.saturated, self.rig["saturated"])
                back, half = word.decode(wire, 2), word.half
                if word.kind == "f":
                    self.assertTrue(np.array_equal(back, values))
                    continue
                want = np.clip(np.rint(values.astype(np.float64) * half) / half, -1, (half - 1) / half)
                self.assertTrue(np.array_equal(back, want))
                self.assertEqual(bytes(word.encode_codes((back * half).astype(np.int64))[0]), wire)
        wire, clipped = sample_format("L16").encode(np.array([[np.nan, np.inf, -np.inf]]))
        self.assertEqual((bytes(wire), clipped), (b"\0\0\x7f\xff\x80\0", 3))

    def write_float_wav(self, path, values):
        data = values.astype("<f4").tobytes()
        with open(path, "wb") as file:
            file.write(struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 3, values.shape[1],
                                   RATE, RATE * values.shape[1] * 4, values.shape[1] * 4, 32, b"data", len(data)) + data)

    def test_integers_and_units(self):
        at = Setting(self.folder, "L16", full_scale=10.0, sink="format = L24\nfull scale = 20")
        codes = c.noise_codes(4, FRAMES, 2)
        with at.daemon(), convolv.results(at.sdp, timeout=c.PATIENCE_S) as results, at.stream() as stream:
            stream.send_codes(codes[:5000])
            stream.send(codes[5000:] / 32768 * 10.0)
            got = convolv.collect(results, frames=FRAMES - FRAMES % 256)
            self.assertEqual(stream.ledger.saturated, 0)
        self.assert_collected(got, codes / 32768 * 10.0, at.h, 20 / 2**23, FRAMES - FRAMES % 256)

    def test_tags(self):
        key = self.write_key()
        at = Setting(self.folder, source=f"key = {key}", sink=f"format = f32\nkey = {key}")
        x, frames = self.noise(), FRAMES - FRAMES % 256
        with at.daemon() as daemon, at.stream() as stranger, at.stream(key=key) as stream:
            with convolv.results(at.sdp, key=bytes.fromhex(KEY), timeout=c.PATIENCE_S) as results:
                stranger.send(x[:500])
                stream.send(x)
                got = convolv.collect(results, frames=frames)
                self.assertEqual(results.ledger.rejected, {})
            self.assert_collected(got, x, at.h, frames=frames)
            self.assertGreater(daemon.stream()["datagrams"]["rejected"]["auth"], 0)
            with convolv.results(at.sdp, key=b"\x01" * 32, timeout=1.5) as wrong:
                self.assertIsNone(wrong.next(2.5))
                self.assertEqual(wrong.ledger.accepted + wrong.ledger.heartbeats, 0)
                self.assertGreater(wrong.ledger.rejected["auth"], 0)
        with self.assertRaisesRegex(convolv.Error, "chmod 600"):
            os.chmod(key, 0o644)
            at.stream(key=key)

    def test_records_skips_and_restarts(self):
        """A record begins at its marker; a skip is a gap of exactly so many frames; a restarted rig is a new epoch."""
        at = Setting(self.folder, stream="mode = record")
        x = self.noise(2048)
        with at.daemon(), convolv.results(at.sdp, timeout=c.PATIENCE_S) as results, at.stream() as stream:
            for record in range(3):
                stream.send(x * (record + 1), new_record=True)
                stream.skip(500)
            stream.send(x[:10], new_record=True)
            for record in range(3):
                got = convolv.collect(results)
                self.assertEqual(got.first_frame, 0)
                c.assert_within(got.samples, scipy_convolve(x * (record + 1), at.h), x * (record + 1), at.h)
        os.unlink(at.sdp)
        at = Setting(self.folder, stream="takeover = 300 ms")
        with at.daemon(), convolv.results(at.sdp, timeout=c.PATIENCE_S) as results, at.stream() as stream:
            stream.send(x[:1000])
            stream.skip(100)
            stream.send(x[1100:])
            time.sleep(0.5)
            stream.restart()
            stream.send(x[:1024])
            stream.send(x[1024:])
            got = convolv.collect(results)
            gap = x.copy()
            gap[1000:1100] = 0
            c.assert_within(got.samples, scipy_convolve(gap, at.h), gap, at.h)
            self.assertFalse(got.valid[1000:1250].any())
            self.assertTrue(got.valid[150:1000].all() and got.valid[1250:2048].all())
            again = convolv.collect(results, frames=1024)
            self.assertEqual((again.epoch, again.first_frame), (1, 0))
            c.assert_within(again.samples, scipy_convolve(x, at.h)[:1024], x, at.h)

    def test_pace(self):
        """A second of signal takes a second; a program that was away sends later, not faster."""
        with convolv.Stream("udp://127.0.0.1:9", rate_hz=RATE, channels=1) as stream:
            started = time.monotonic()
            stream.send(np.zeros(RATE // 2))
            self.assertGreaterEqual(time.monotonic() - started, 0.499)
            time.sleep(0.3)
            started = time.monotonic()
            stream.send(np.zeros(RATE // 4))
            self.assertGreater(time.monotonic() - started, 0.2)
            self.assertGreaterEqual(stream.ledger.late, 1)  # a busy machine is away, too
            self.assertEqual(stream.ledger.datagrams + stream.ledger.failed, stream.ledger.built)

    def test_segments_are_the_datagrams_of_single_sends(self):
        datagrams = []
        for segment in (False, True):
            port = c.free_port()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
                c.make_receive_buffer(raw)
                raw.bind(("127.0.0.1", port))
                raw.settimeout(c.PATIENCE_S)
                with convolv.Stream(f"udp://127.0.0.1:{port}", rate_hz=1e6, framing="udp-seq", segment=segment,
                                    pace=False, packet_frames=100) as stream:
                    stream.send(np.linspace(-1, 1, 12345))
                    datagrams.append([raw.recv(65536) for _ in range(stream.ledger.datagrams)])
                    self.assertEqual(stream.ledger.bytes, sum(map(len, datagrams[-1])))
        self.assertEqual(len(datagrams[0]), 124)
        self.assertEqual(datagrams[0], datagrams[1])

    def test_asyncio(self):
        at = Setting(self.folder)
        x, frames = self.noise(), FRAMES - FRAMES % 256

        async def gather(origin):
            samples = np.full((frames, 2), np.nan)
            async with convolv.aio.results(origin, timeout=c.PATIENCE_S) as results:
                ready.release()
                async for block in results:
                    samples[block.first_frame:block.end_frame] = block.samples[:frames - block.first_frame]
                    if block.end_frame >= frames:
                        return samples
            raise AssertionError("the results ended")

        async def send():
            for _ in range(3):
                await ready.acquire()
            async with convolv.aio.Stream(f"udp://127.0.0.1:{at.rx}", rate_hz=RATE, channels=2, format="f32be") as stream:
                await stream.send(x)

        async def both():
            return await asyncio.gather(send(), *(gather(at.origins()[name]) for name in ("rtp", "osc", "osc+tcp")))
        ready = asyncio.Semaphore(0)
        with at.daemon():
            _, *came = asyncio.run(both())
        for samples in came:
            c.assert_within(samples, scipy_convolve(x, at.h)[:frames], x, at.h)

    # ---- silence and the end ----

    def test_silence_and_death(self):
        """Heartbeats tell a silent source from a dead daemon, by RTP and through the tap."""
        at = Setting(self.folder)
        for tap in (False, TAP):
            with self.subTest(tap=tap), convolv.results(f"udp://127.0.0.1:{at.tx}", rate_hz=RATE, channels=2,
                                                        tap=tap) as results:
                with at.daemon(), at.stream() as stream:
                    stream.send(self.noise(2048))
                    self.assertEqual(results.next(c.PATIENCE_S).first_frame, 0)
                    while results.next(2.2) is not None:
                        pass
                    self.assertEqual(results.presence, "silent")
                    self.assertGreater(results.ledger.heartbeats, 0)
                    self.assertLess(results.quiet_s, 2.5)
                while not results.ended and results.presence != "dead":
                    results.next(0.5)
                self.assertGreaterEqual(results.quiet_s, 3)

    # ---- hostile input ----

    def test_malformed_packets_are_counted_and_never_raise(self):
        """Random bytes, and results with bytes changed, cut and added: every one has exactly one name."""
        header = struct.pack(">BBHIIHH", 0x90, 96, 7, 1000, 5, 0xBEDE, 17)
        elements = (b"\x17" + bytes(8) + b"\x2f" + bytes(16) + b"\x3f" + bytes(16) + b"\x4f" + bytes(16) +
                    b"\x53" + bytes(4) + b"\x61\x00\x01")
        good = header + elements + bytes(80)
        self.assertIsNotNone(_rtp.parse(memoryview(good)).info)
        seed = random.Random(11)
        receiver = Receiver(sample_format("f32be"), 2, 48000.0)
        tagged = Receiver(sample_format("L24"), 3, 48000.0, secret=bytes(32))
        for n in range(20000):
            data = bytearray(good if n % 4 else seed.randbytes(seed.randrange(200)))
            for _ in range(seed.randrange(4)):
                if data:
                    data[seed.randrange(len(data))] = seed.randrange(256)
            data = data[:seed.randrange(len(data) + 1)] if n % 3 == 0 else data
            for one in (receiver, tagged):
                block = one.feed(data)
                if block is not None:
                    self.assertEqual(block.valid.shape, (len(block),))
        for one in (receiver, tagged):
            ledger = one.ledger
            self.assertEqual(ledger.datagrams, 20000)
            self.assertEqual(ledger.datagrams, ledger.accepted + ledger.heartbeats + sum(ledger.rejected.values()))
        self.assertGreater(receiver.ledger.rejected["malformed"], 1000)
        self.assertGreater(receiver.ledger.accepted, 0)
        self.assertEqual(set(tagged.ledger.rejected), {"malformed", "auth"})
        for n in range(20000):
            data = seed.randbytes(seed.randrange(64)) if n % 2 else \
                bytes(seed.choice(b"/,#bundle\0sbihf\xff\x01") for _ in range(4 * seed.randrange(24)))
            parse(memoryview(data))
            messages(memoryview(b"#bundle\0" + bytes(8) + data))

    def test_the_receiver_follows_sequence_and_sender(self):
        def packet(sequence, first, ssrc=9, frames=2):
            info = struct.pack(">BQB4IBBBHIIIBQIIBHHBH", 0x17, 0, 0x2F, 0, 0, 0, 0, 0x3F, 0, 0, 0, 0, 0, 0, 0x4F, first,
                               0, 0, 0x53, 0, 0, 0x61, 1)
            return struct.pack(">BBHIIHH", 0x90, 96, sequence & 0xFFFF, first, ssrc, 0xBEDE, 17) + info + bytes(4 * frames)
        receiver = Receiver(sample_format("f32be"), 1, 1e6)
        given = [(65534, 0), (65535, 2), (0, 4), (3, 10), (1, 6), (3, 10), (2, 8), (4, 12)]
        blocks = [receiver.feed(packet(*one)) for one in given]
        self.assertEqual([b.first_frame if b else None for b in blocks], [0, 2, 4, 10, 6, None, 8, 12])
        self.assertEqual([b.late for b in blocks if b], [False, False, False, False, True, True, False])
        self.assertEqual(blocks[3].lost_before, 2)
        ledger = receiver.ledger
        self.assertEqual([ledger.lost, ledger.reordered, ledger.frames_lost, ledger.rejected], [0, 2, 0, {"duplicate": 1}])
        self.assertIsNone(receiver.feed(packet(70, 100, ssrc=3)))
        self.assertIsNone(receiver.feed(packet(90, 100, ssrc=3)))
        self.assertIsNotNone(receiver.feed(packet(91, 102, ssrc=3)))
        self.assertEqual((ledger.senders, ledger.rejected["ssrc"]), (2, 2))
        self.assertIsNone(receiver.feed(packet(92, 104) + b"\0"))
        self.assertEqual(ledger.rejected["size"], 1)

    def test_tags_are_those_of_libconvolv(self):
        """A sealed packet opens once; of another key, changed, or again it does not."""
        secret = bytes.fromhex(KEY)
        with convolv.results("udp://127.0.0.1:0", rate_hz=1, key=secret) as results:
            self.assertGreater(results.port, 0)
        sealer = Sealer(secret, "rtp")
        sealed = sealer.seal(5, b"\x80" + bytes(20))
        self.assertEqual(len(sealed), 21 + 24)
        self.assertEqual(Opener(secret).open(5, sealed), "auth")  # input is no result
        sealer = Sealer(secret, "results")
        opener = Opener(secret)
        packets = [(n & 0xFFFF, sealer.seal(n & 0xFFFF, b"\x80" + bytes(20))) for n in range(65530, 65545)]
        self.assertEqual([opener.open(n, packet) for n, packet in packets], [None] * 15)
        self.assertEqual([opener.open(n, packet) for n, packet in packets], ["replay"] * 15)
        changed = bytearray(sealer.seal(9, b"\x80" + bytes(20)))
        changed[3] ^= 1
        self.assertEqual(opener.open(9, bytes(changed)), "auth")

    # ---- recordings ----

    def test_recordings_of_every_container(self):
        """Rotated files and raw input, in the units of their sidecars; gaps as gaps."""
        at = Setting(self.folder, "L16", full_scale=5.0)
        text = at.text + "".join(
            f"[sink {name}]\ntype = recording\nstream = s\npath = {self.path(name)}-.{container}\ncontainer = {container}\n{keys}\n"
            for name, container, keys in (("raw", "w64", "record = input"), ("long", "rf64", "format = f32\nrotate = 64 KiB"),
                                          ("codes", "wav", "format = s24\nfull scale = 8")))
        codes = c.noise_codes(8, FRAMES, 2)
        with c.Daemon(self.folder, text) as daemon, at.stream() as stream:
            stream.send_codes(codes[:6000])
            stream.skip(32)
            stream.send_codes(codes[6032:])
            c.wait_for(lambda: daemon.stream()["frames_in"]["timeline"] == FRAMES, "all frames")
            daemon.stop()
        x = codes / 32768 * 5.0
        x[6000:6032] = 0
        want = scipy_convolve(x, at.h)
        files = {name: sorted(os.path.join(self.folder, f) for f in os.listdir(self.folder)
                              if f.startswith(name + "-") and not f.endswith(".json")) for name in ("raw", "long", "codes")}
        self.assertGreater(len(files["long"]), 1)
        with convolv.results(files["raw"][0], block_frames=1000) as raw:
            got = convolv.collect(raw)
        self.assertTrue(np.array_equal(got.samples, x))
        self.assertEqual(c.runs(~got.valid), [(6000, 6032)])
        with convolv.results(list(reversed(files["long"]))) as parts:
            got = convolv.collect(parts)
            self.assertEqual(len(parts.sidecars), len(files["long"]))
        c.assert_within(got.samples, want, x, at.h)
        self.assertEqual(c.runs(got.valid), [(150, 6000), (6032 + 150, FRAMES)])
        with convolv.results(files["codes"]) as one:
            c.assert_within(convolv.collect(one).samples, want, x, at.h, 8 / 2**23)
        os.unlink(files["codes"][0] + ".json")
        with self.assertRaisesRegex(convolv.Error, "no sidecar"):
            convolv.results(files["codes"][0])
        with convolv.results(files["codes"][0], sidecar=False) as alone:
            self.assertFalse(next(alone).described)

    # ---- steering ----

    def test_control_speaks_the_daemon_s_table(self):
        """Commands, their arguments and help come from `commands`; changes take effect at the frame that is answered;
        events tell who."""
        at = Setting(self.folder)
        x = self.noise()
        path = os.path.join(self.folder, "control.sock")
        with at.daemon(), convolv.Control(path) as control, control.events(timeout=c.PATIENCE_S) as events, \
                convolv.results(at.sdp, timeout=c.PATIENCE_S) as results, at.stream() as stream:
            self.assertEqual(control.role, "control")
            answer = control.request("commands")
            for row in answer["commands"]:
                command = getattr(control, row["name"].replace("-", "_"))
                for argument in row["arguments"] if row["name"] != "events" else ():
                    self.assertIn(argument["sentence"], command.__doc__)
                self.assertIn(row["name"].replace("-", "_"), dir(control))
            self.assertEqual([s["name"] for s in control.streams()["streams"]], ["s"])
            self.assertEqual(control.status(format="json")["status"]["streams"][0]["name"], "s")
            self.assertEqual(control.gain.request("s", -6, output=2),
                             {"command": "gain", "stream": "s", "gain_db": -6, "output": 2})
            stream.send(x[:4096])
            frame = control.gain("s", -20.0, output=2)["frame"]
            stream.send(x[4096:])
            got = convolv.collect(results, frames=FRAMES - FRAMES % 256)
            want = scipy_convolve(x, at.h)[:len(got.samples)]
            want[frame:, 1] *= 10 ** (-20 / 20)
            c.assert_within(got.samples, want, x, at.h)
            kinds = []
            while "gain" not in kinds:
                event = next(events)
                kinds.append(event.kind)
            with control.events(since=0, timeout=c.PATIENCE_S) as kept:
                self.assertIn(event, (next(kept) for _ in range(event.number + 1)))
            self.assertEqual((event.stream, event.frame), ("s", frame))
            self.assertIn(str(os.getuid()), event.who)
            for call, sentence in (
                    (lambda: control.gain("s"), "needs gain_db"), (lambda: control.gain("s", 1, level=2), "no argument level"),
                    (lambda: control.gain("s", 1, stream="s"), "twice"), (lambda: control.streams(1), "0 arguments"),
                    (lambda: control.gain("t", 1), "t"), (lambda: control.gain("s", 1e9), "-200"),
                    (lambda: control.request("nonsense"), "nonsense|no such|no command"),
                    (lambda: control.request("gain", stream={1}), "not JSON serializable")):
                with self.subTest(sentence), self.assertRaisesRegex(convolv.Error, sentence):
                    call()
            with self.assertRaises(AttributeError):
                control.nonsense()
            self.assertEqual(control.streams()["streams"][0]["name"], "s")  # still in step
            with convolv.Control(os.path.join(self.folder, "observe.sock")) as observer:
                self.assertEqual(observer.role, "observe")
                with self.assertRaises(convolv.Error) as refused:
                    observer.gain("s", 1)
                self.assertTrue(refused.exception.code)
        with self.assertRaisesRegex(convolv.Error, "control.sock: .*start one"):
            convolv.Control(path)

    def test_control_by_asyncio(self):
        at = Setting(self.folder)

        async def steer():
            path = os.path.join(self.folder, "control.sock")
            async with convolv.aio.Control(path) as control, await control.events() as events:
                await asyncio.gather(*(control.mute("s", bool(n % 2)) for n in range(4)))
                event = await asyncio.wait_for(events.next(), c.PATIENCE_S)
                with self.assertRaisesRegex(convolv.Error, "needs gain_db"):
                    await control.gain("s")
                return event.kind, (await control.streams())["streams"][0]["name"]
        with at.daemon():
            self.assertEqual(asyncio.run(steer()), ("mute", "s"))

    def test_a_daemon_that_lies(self):
        """Lines that are no answers raise a sentence and hang nothing."""
        path = os.path.join(self.folder, "control.sock")
        for answer, sentence in ((b"nonsense\n", "no JSON"), (b"[1]\n", "no JSON"), (b"", "closed"), (b"x" * 100, "closed"),
                                 (b'{"ok": false, "error": "no", "code": "c"}\n', "no"), (None, "does not answer")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
                server.bind(path)
                server.listen(1)

                def serve():
                    link, _ = server.accept()
                    with link:
                        link.recv(1000)
                        if answer is None:
                            link.recv(1000)
                        with contextlib.suppress(BrokenPipeError):
                            link.sendall(answer or b"")
                thread = threading.Thread(target=serve, daemon=True)
                thread.start()
                with self.subTest(answer), self.assertRaisesRegex(convolv.Error, sentence):
                    convolv.Control(path, timeout=c.PATIENCE_S if answer is not None else 0.2)
                thread.join(c.PATIENCE_S)
            os.unlink(path)

    # ---- mistakes have sentences ----

    def test_errors(self):
        port = c.free_port()
        with open(self.path("bad.wav"), "wb") as file:
            file.write(b"RIFF????WAVEfmt ")
        with open(self.path("bad.sdp"), "wb") as file:
            file.write(b"v=0\n")

        def stream(address=f"udp://127.0.0.1:{port}", **options):
            with convolv.Stream(address, rate_hz=options.pop("rate_hz", 1e6), **options) as one:
                one.send(np.zeros((4, 3)))

        def pipe():
            read, write = os.pipe()
            os.write(write, bytes(300))
            with os.fdopen(read, "rb") as file, os.fdopen(write, "wb"):
                convolv.results(file)
        cases = (
            (lambda: stream("http://x:1"), "udp://HOST:PORT"), (lambda: stream("udp://127.0.0.1"), "HOST:PORT"),
            (lambda: stream("udp://*:5"), "needs a host"), (lambda: stream(format="L17"), "no sample format"),
            (lambda: stream(channels=0), "1 to 1024"), (stream, r"shape \(4, 3\)"), (lambda: stream(rate_hz=0), "rate_hz"),
            (lambda: stream(framing="tcp"), "rtp, udp or udp-seq"), (lambda: stream(key=b"1"), "32 bytes"),
            (lambda: stream(framing="udp", key=bytes(32)), "sequence numbers"), (lambda: stream(interface="nope0"), "ip link"),
            (lambda: stream(packet_frames=99999), "does not fit"), (lambda: convolv.results("x.mp3"), "SDP file"),
            (lambda: convolv.results(self.path("none.sdp")), "No such file"),
            (lambda: convolv.results(self.path("bad.sdp")), "not the SDP"),
            (lambda: convolv.results(self.path("bad.wav"), sidecar=False), "no samples"),
            (lambda: convolv.results(f"udp://127.0.0.1:{port}"), "rate_hz"),
            (lambda: convolv.results(f"osc://127.0.0.1:{port}"), "/STREAM"),
            (lambda: convolv.results(f"osc+tcp://127.0.0.1:{port}/s"), "refused"), (pipe, "convolv-tap --pipe"),
            (lambda: convolv.results(f"udp://127.0.0.1:{port}", rate_hz=1, format="L17", tap=TAP), "no sample format"),
            (lambda: convolv.results(f"udp://127.0.0.1:{port}", rate_hz=1, tap="/nonexistent"), "No such file"))
        for call, sentence in cases:
            with self.subTest(sentence), self.assertRaisesRegex(convolv.Error, sentence):
                call()


class Hits(unittest.TestCase):
    """Events of analyses from the daemon, as records and from its file."""

    CONFIG = """
[stream vessel]
source = generator
waveform = ae
rate = 200 kHz
channels = 2
full scale = 1 V
format = L16
block = 512 frames
filter = none

[filter none]
type = identity

[analysis bursts]
type = hits
stream = vessel
threshold = 60 dB
pre-trigger = 100 us
max record = 5 ms

[sink list]
type = jsonl
analysis = bursts
path = {folder}/hits.jsonl
"""

    def test_hits_as_they_happen_and_from_the_file(self):
        with c.temporary() as folder:
            daemon = c.Daemon(folder, self.CONFIG.format(folder=folder))
            try:
                with convolv.Hits("bursts", path=f"{folder}/observe.sock", since=0, timeout=c.PATIENCE_S) as hits:
                    got = [hit for _, hit in zip(range(6), hits)]
                    self.assertEqual(hits.missed, 0)
                    wave = hits.transient(got[-1])
                with self.assertRaisesRegex(convolv.Error, "no analysis nobody"):
                    convolv.Hits("nobody", path=f"{folder}/observe.sock")
                last = got[-1]
                self.assertEqual([hit.number for hit in got], list(range(got[0].number, got[0].number + 6)))
                self.assertEqual((wave.rate_hz, wave.unit, wave.samples.dtype), (200e3, "V", np.float32))
                self.assertEqual(abs(wave.samples[round(last.rise_us * 0.2) - wave.first]), np.float32(last.amplitude))
                with self.assertRaisesRegex(AttributeError, "no value loudness; it has amplitude"):
                    last.loudness
                table = convolv.records(got)
                self.assertEqual(list(table["channel"]), [hit.channel for hit in got])
                self.assertTrue(np.array_equal(table["peak_db"], [hit.peak_db for hit in got]))
                self.assertTrue(np.isnan(table["noise_rms"]).all())  # null in the daemon's words
            finally:
                daemon.stop()
            filed = {hit.number: hit for hit in convolv.read_hits(f"{folder}/hits.jsonl")}
            for hit in got:
                same = filed[hit.number]
                self.assertEqual((same.frame, same.channel, same.epoch, same.flags), (hit.frame, hit.channel, hit.epoch, hit.flags))
                self.assertEqual(same.peak_db, hit.peak_db)
            with open(f"{folder}/cut.jsonl", "w", encoding="utf-8") as file:
                with open(f"{folder}/hits.jsonl", encoding="utf-8") as whole:
                    file.write(whole.read()[:-20])
            self.assertEqual(len(list(convolv.read_hits(f"{folder}/cut.jsonl"))), len(filed) - 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
