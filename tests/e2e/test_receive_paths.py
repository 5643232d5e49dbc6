#!/usr/bin/python3
# parallel: yes
# kernels: plain, the way of packets is tested
# takes: 4 s CPU in 8 s
"""Both ways to read a socket in the running daemon: a rig sends batches with losses, and whichever
way they are read, the result is that of numpy with zeros where packets were lost, and the status
says how they were read.
"""
import os
import subprocess
import unittest

import numpy as np
from scipy.io import wavfile

import convolvd as c

RATE = 500000
FRAMES = 400000
CHANNELS = 2
PACKET = 20
TAPS = c.random_taps(9, 63)
SOURCE = """
[stream {name}]
source = {source}
address = 127.0.0.1:{port}
rate = {rate} Hz
channels = {channels}
format = {format}
block = 1024 frames
filter = h
{keys}

[sink {name}-file]
type = recording
stream = {name}
path = {folder}/{name}.wav
format = f32
"""


def config(folder, streams):
    text = f"[filter h]\ntype = file\npath = {folder}/h.npy\ndelay = 0 frames\n"
    for name, source, keys, port in streams:
        text += SOURCE.format(name=name, source=source, port=port, rate=RATE, channels=CHANNELS, folder=folder,
                              keys=keys, format="s16be" if source == "rtp" else "s16le")
    return text


class ReceivePaths(unittest.TestCase):
    def test_same_result_on_every_path(self):
        #        name        source     keys                   path at the end
        table = [("one",     "rtp",     "receive = recvmmsg",  "recvmmsg"),
                 ("batches", "rtp",     "receive = gro",       "gro"),
                 ("numbers", "udp-seq", "receive = gro",       "gro"),
                 ("chosen",  "rtp",     "receive = auto",      None),
                 ("plain",   "udp",     "",                    "recvmmsg")]
        codes = c.noise_codes(8, FRAMES, CHANNELS)
        with c.temporary() as folder:
            np.save(os.path.join(folder, "h.npy"), TAPS)
            c.write_wav16(os.path.join(folder, "x.wav"), RATE, codes)
            ports = [c.free_port() for _ in table]
            streams = [(name, source, keys, port) for (name, source, keys, _), port in zip(table, ports)]
            with c.Daemon(folder, config(folder, streams)) as daemon:
                for (name, source, _, path), port in zip(table, ports):
                    with self.subTest(name):
                        self.one_stream(daemon, folder, codes, name, source, path, port)
                status = daemon.stop()
                for name, source, _, _ in table:
                    with self.subTest(f"{name}, the samples"):
                        self.compare(folder, codes, name, next(s for s in status["streams"] if s["name"] == name))
                self.assertTrue(daemon.said("stream chosen: receive path: "), daemon.output())

    def one_stream(self, daemon, folder, codes, name, source, path, port):
        loss = ["--loss", "0.003", "--clean", "4000"] if source != "udp" else []
        sent = c.rig(folder, port, "--framing", source, "--format", "L16" if source == "rtp" else "s16le", "--file",
                     os.path.join(folder, "x.wav"), "--packet", PACKET, "--segment", *loss, name=name)
        c.wait_for(lambda: daemon.stream(name)["datagrams"]["read"] == sent["datagrams_sent"], "all datagrams")
        datagrams = daemon.stream(name)["datagrams"]
        receive = datagrams["receive"]
        self.assertEqual(datagrams["accepted"], sent["datagrams_sent"])
        self.assertEqual(datagrams["kernel_drops"], 0)
        if path is not None:
            self.assertEqual(receive["path"], path)
            self.assertEqual(receive["trials"], 0)
            self.assertEqual(receive["batches"] > 0, path == "gro")
        else:
            self.assertEqual(receive["trials"], 1)
            self.assertTrue(all(cost > 0 for cost in receive["datagram_cost_ns"].values()), receive)
        if path == "gro":
            self.assertLess(receive["messages"], datagrams["read"])
            self.assertEqual(receive["prediction_hits"], 0)
        else:
            self.assertGreater(receive["prediction_hits"], 0)
        c.note(f"{name}: {receive}")

    def compare(self, folder, codes, name, stream):
        x = codes / 32768
        missing = np.zeros(FRAMES, dtype=bool)
        for begin, end in c.load_json(os.path.join(folder, f"{name}.json"))["rigs"][0]["missing"]:
            missing[begin:end] = True
        received = FRAMES - (np.argmax(~missing[::-1]) if missing[-1] else 0)
        x = np.where(missing[:, None], 0, x)[:received]
        self.assertEqual(stream["frames_in"]["gap"]["network"], int(missing[:received].sum()))
        self.assertEqual(stream["epochs"], 1)
        _, got = wavfile.read(os.path.join(folder, f"{name}.wav"))
        c.assert_within(got.astype(np.float64), c.convolve(x, TAPS), x, TAPS, what=name)
        clocks = {piece["clock"] for piece in self.clocks(c.load_json(os.path.join(folder, f"{name}.wav.json")))}
        if name == "chosen":  # both, while it was measured
            self.assertLessEqual(clocks, {"receive", "receive batch"})
        else:
            path = stream["datagrams"]["receive"]["path"]
            self.assertEqual(clocks, {"receive batch" if path == "gro" else "receive"})

    def clocks(self, side):
        """Every object with a clock, wherever it stands in a sidecar."""
        if isinstance(side, dict):
            if "clock" in side:
                yield side
            for value in side.values():
                yield from self.clocks(value)
        elif isinstance(side, list):
            for value in side:
                yield from self.clocks(value)

    def test_headerless_has_no_choice(self):
        with c.temporary() as folder:
            np.save(os.path.join(folder, "h.npy"), TAPS)
            text = config(folder, [("plain", "udp", "receive = gro", 5004)])
            path = os.path.join(folder, "bad.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", path], capture_output=True, text=True,
                                  check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("`receive`", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
