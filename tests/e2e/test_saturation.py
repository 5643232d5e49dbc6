#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 2 s
"""Hits that rest on inputs near full scale have the flag saturated, to the frame: an input code of at least
95 % of full scale in a - (S-1) ... b of one of the hit's inputs, S the longest filter. In every kind of format,
decimated, aligned, through a chain, and where the stream is handed over between that input and the hit."""
import json
import os
import signal
import socket
import struct
import unittest

import numpy as np

import convolvd as c
import test_hand_over as hand_over

RATE = 100000
TAPS = 33
CHAIN_TAPS = 18
PACKET = 90
SPACING = 300


def pairs(gaps, codes):
    """(frame of a loud input, its channel, its value, frame of a hit behind it) for each gap and code."""
    found = []
    for code in codes:
        for gap in gaps:
            found.append((200 + len(found) * SPACING, len(found) % 2, code, 200 + len(found) * SPACING + gap))
    return found


def signals(cases):
    x = np.zeros((cases[-1][3] + 3 * SPACING, 2))
    for loud, channel, value, hit in cases:
        x[loud, channel] = value
        x[hit, :] = 0.5
    return x


class Format:
    def __init__(self, name, encode, least, below):
        self.name, self.encode, self.least, self.below = name, encode, least, below


def integers(name, bits, kind):
    half = 1 << (bits - 1)
    least = -(-half * 19 // 20)

    def encode(x):
        return np.round(x * half).clip(-half, half - 1).astype(kind).tobytes()
    return Format(name, encode, least / half, (least - 1) / half)


def s24be(x):
    codes = np.round(x * (1 << 23)).clip(-(1 << 23), (1 << 23) - 1).astype(">i4")
    return codes.reshape(-1).view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()


def u16le(x):
    return (np.round(x * 32768).clip(-32768, 32767).astype(np.int32) + 32768).astype("<u2").tobytes()


WIDE = integers("", 24, ">i4")
FORMATS = [integers("s16be", 16, ">i2"), Format("s24be", s24be, WIDE.least, WIDE.below), integers("s32le", 32, "<i4"),
           Format("u16le", u16le, 31130 / 32768, 31129 / 32768),
           Format("f32le", lambda x: x.astype("<f4").tobytes(), float(np.nextafter(np.float32(0.95), np.float32(1))),
                  float(np.float32(0.95)))]


class Saturation(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.root = folder.name
        self.addCleanup(folder.cleanup)
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sender.close)
        self.runs = 0

    def new_run(self, form):
        self.runs += 1
        self.folder = os.path.join(self.root, str(self.runs))
        os.mkdir(self.folder)
        self.port = c.free_port()
        self.form = form
        self.sent = 0
        for name, taps in (("f", TAPS), ("g", CHAIN_TAPS)):
            h = np.zeros(taps)
            h[0], h[-1] = 1, 1e-6
            np.save(f"{self.folder}/{name}.npy", h)

    def config(self, keys="", chain=False, hits="threshold = 0.3 V\nhdt = 50 us\n"):
        analysed = "b" if chain else "a"
        return (f"[device]\ndevice = {c.DEVICE}\n[stream a]\nsource = rtp\naddress = 127.0.0.1:{self.port}\nrate = {RATE} Hz\n"
                f"channels = 2\nformat = {self.form.name}\nfull scale = 1 V\nunit = V\nblock = 64 frames\nidle flush = 10 s\n"
                f"filter = f\n{'' if chain else keys}"
                + (f"[stream b]\nsource = stream a\nblock = 64 frames\nidle flush = 10 s\nfilter = g\n{keys}" if chain else "")
                + c.file_filter("f", f"{self.folder}/f.npy") + c.file_filter("g", f"{self.folder}/g.npy")
                + f"[analysis bursts]\ntype = hits\nstream = {analysed}\n{hits}"
                f"[sink lines]\ntype = jsonl\nanalysis = bursts\npath = {self.folder}/hits.jsonl\n")

    def send(self, x):
        payload, size = self.form.encode(x), len(self.form.encode(x[:1]))
        for at in range(0, len(x), PACKET):
            part = payload[at * size:(at + PACKET) * size]
            self.sender.sendto(struct.pack(">BBHII", 0x80, 96, self.sent % 65536, (1 << 20) + self.frames, 0xFACE) + part,
                               ("127.0.0.1", self.port))
            self.frames += len(part) // size
            self.sent += 1

    def flagged(self):
        """{(frame, channel from 0): saturated} of all hits."""
        hits = {}
        for name in ("hits.jsonl", "hits-0002.jsonl"):
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    for line in map(json.loads, file):
                        if "frame" in line:
                            hits[line["frame"], line["channel"] - 1] = "saturated" in line["flags"]
        return hits

    def run_daemon(self, x, config):
        self.frames = 0
        with c.Daemon(self.folder, config) as daemon:
            self.send(x)
            c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] >= len(x), "the packets")
            daemon.stop()
        return self.flagged()

    def check(self, cases, hits, taps, least, at=lambda frame: frame):
        for loud, channel, value, hit in cases:
            for other in (0, 1):
                want = other == channel and abs(value) >= least and hit - (taps - 1) <= loud
                self.assertEqual(hits.get((at(hit), other)), want, (loud, channel, value, hit - loud, other))

    def test_every_format_to_the_frame(self):
        for form in FORMATS:
            with self.subTest(form.name):
                self.new_run(form)
                cases = pairs((TAPS - 1, TAPS, 8, 70), (form.least, form.below, -form.least))
                self.check(cases, self.run_daemon(signals(cases), self.config()), TAPS, form.least)

    def test_decimated_and_aligned(self):
        form = FORMATS[0]
        cases = pairs((TAPS - 2, TAPS - 1, TAPS, TAPS + 1, TAPS + 2), (form.least, form.below))
        for keys, factor, delay in (("decimate = 3\n", 3, 0), ("align = yes\ndelay = 12 frames\n", 1, 12)):
            with self.subTest(keys):
                self.new_run(form)
                x = signals(cases)
                config = self.config()
                if factor > 1:
                    config = self.config(keys, hits="threshold = 0.3 V\nhdt = 60 us\n")
                    on = [(loud, channel, value, hit) for loud, channel, value, hit in cases if hit % factor == 0]
                    self.assertGreater(len(on), 2)
                else:
                    on = cases
                    config = config.replace("filter = f\n", "filter = f\nalign = yes\n").replace(
                        f"path = {self.folder}/f.npy\ndelay = 0 frames\n", f"path = {self.folder}/f.npy\ndelay = {delay} frames\n")
                hits = self.run_daemon(x, config)
                self.check(on, hits, TAPS, form.least, lambda frame, f=factor, d=delay: frame // f - d)

    def test_through_a_chain(self):
        form = FORMATS[0]
        self.new_run(form)
        both = TAPS + CHAIN_TAPS - 1
        cases = pairs((both - 1, both, 8), (form.least, form.below))
        self.check(cases, self.run_daemon(signals(cases), self.config(chain=True)), both, form.least)

    def test_a_stream_handed_over_in_between(self):
        """The next daemon has only the input that its filter still needs, which is enough."""
        form = FORMATS[0]
        for gap in (TAPS - 1, TAPS):
            with self.subTest(gap):
                self.new_run(form)
                manager = hand_over.Manager(self.folder)
                self.addCleanup(manager.close)
                loud = 64 * 9 - 3
                x = signals([(loud, 0, form.least, loud + gap)])
                self.frames = 0
                with hand_over.start(self.folder, self.config(), manager) as daemon:
                    self.send(x[:64 * 9])
                    c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] >= self.frames, "the packets")
                    daemon.stop(signal.SIGUSR2)
                    c.wait_for(lambda: manager.state() is not None, "the state")
                with hand_over.start(self.folder, self.config(), manager) as daemon:
                    self.send(x[64 * 9:])
                    c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] >= self.frames, "the packets")
                    daemon.stop()
                hits = self.flagged()
                self.assertEqual(hits[loud, 0], True)
                self.assertEqual(hits[loud + gap, 0], gap < TAPS)

    def replay(self, keys):
        """A recording of floats up to 5 with hits: how many, how many saturated, and the first channel's status."""
        self.new_run(FORMATS[0])
        x = np.zeros((4000, 2), "<f4")
        x[1000:1100], x[3000:3100] = 5, 0.5
        with open(f"{self.folder}/x.wav", "wb") as file:
            data = x.tobytes()
            file.write(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 3, 2, RATE, 8 * RATE, 8, 32)
                       + b"data" + struct.pack("<I", len(data)) + data)
        config = (f"[device]\ndevice = {c.DEVICE}\n[stream a]\nsource = file\npath = {self.folder}/x.wav\nunit = g\n{keys}filter = f\n"
                  + c.file_filter("f", f"{self.folder}/f.npy")
                  + f"[analysis bursts]\ntype = hits\nstream = a\nthreshold = 0.01 g\n[sink lines]\ntype = jsonl\nanalysis = bursts\npath = {self.folder}/hits.jsonl\n")
        with c.Daemon(self.folder, config, wait=False) as daemon:
            daemon.wait()
        hits = self.flagged()
        return len(hits), sum(hits.values()), c.load_json(daemon.status_path)["streams"][0]["channels"][0]

    def test_floats_saturate_only_where_a_full_scale_is_written(self):
        """5 g are no overload of a recording in g; of one in shares of 5 g they are. The full scale is that at the sensor."""
        for keys, saturated, overloads, full_scale in (("preamp = 20 dB\n", 0, 0, None), ("full scale = 5 g\npreamp = 20 dB\n", 2, 100, 0.5)):
            with self.subTest(keys):
                found, flagged, channel = self.replay(keys)
                self.assertEqual((found, flagged, channel["overloads"], channel["full_scale"]), (4, saturated, overloads, full_scale))


if __name__ == "__main__":
    unittest.main()
