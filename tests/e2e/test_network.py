#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 6 s
# sanitizers: yes
"""Every way into the daemon and every sample format: rig -> UDP -> daemon -> recording, against
numpy, frame by frame; and what others send to its ports, counted under its name.

One daemon has a stream for each case, so that all of them also run beside each other.
"""
import os
import signal
import socket
import struct
import time
import unittest
import warnings

import numpy as np
from scipy.io import wavfile

import convolvd as c

RATE = 50000
FRAMES = 4000
CHANNELS = 2
TAPS = c.random_taps(5, 31)


def quantised(x, bits):
    half = 2.0 ** (bits - 1)
    return np.clip(np.rint(x * half), -half, half - 1) / half


#        name            address       rig: framing, format and more           stream keys                       bits
FORMATS = [
    ("u8",              "udp",     ["u8"],                                     "format = u8",                        8),
    ("s16le",           "udp",     ["s16le"],                                  "format = s16le",                    16),
    ("s16be",           "udp",     ["s16be"],                                  "format = s16be",                    16),
    ("u16le",           "udp",     ["u16le"],                                  "format = u16le",                    16),
    ("u16be",           "udp",     ["u16be"],                                  "format = u16be",                    16),
    ("s24le",           "udp",     ["s24le"],                                  "format = s24le",                    24),
    ("s24be",           "udp",     ["s24be"],                                  "format = s24be",                    24),
    ("s32le",           "udp",     ["s32le"],                                  "format = s32le",                    32),
    ("s32be",           "udp",     ["s32be"],                                  "format = s32be",                    32),
    ("f32le",           "udp",     ["f32le"],                                  "format = f32le",                    24),
    ("f32be",           "udp",     ["f32be"],                                  "format = f32be",                    24),
    ("12 right",        "udp",     ["s16le", "--bits", 12],                    "format = s16le\nbits = 12",         12),
    ("12 left",         "udp",     ["u16be", "--bits", 12, "--justify", "left"], "format = u16be\nbits = 12\njustify = left", 12),
    ("14 left",         "udp",     ["s16be", "--bits", 14, "--justify", "left"], "format = s16be\nbits = 14\njustify = left", 14),
    ("24 in 32",        "udp",     ["s32le", "--bits", 24, "--justify", "left"], "format = s32le\nbits = 24\njustify = left", 24),
]

WAYS = [
    ("numbered",        "udp-seq", ["s16le"],                                  "format = s16le\nsequence order = little", 16),
    ("numbered big",    "udp-seq", ["s16le", "--sequence-order", "big"],        "format = s16le\nsequence order = big", 16),
    ("any address",     "rtp",     ["L16"],                                    "format = L16",                      16),
    ("IPv6",            "rtp",     ["L16"],                                    "format = L16",                      16),
    ("group",           "rtp",     ["L16", "--interface", "lo"],               "format = L16\ninterface = lo",      16),
    ("wrap",            "rtp",     ["L16", "--wrap", "--packet", 7],           "format = L16",                      16),
    ("pinned",          "rtp",     ["L24", "--ssrc", 77, "--payload-type", 100], "format = L24\nssrc = 77\npayload type = 100", 16),
]

# (bind, send to) with {} for the port
ADDRESSES = {"any address": ("*:{}", "127.0.0.1:{}"), "IPv6": ("[::1]:{}", "[::1]:{}"),
             "group": ("239.255.41.1:{}", "239.255.41.1:{}")}


def has_v6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def config(cases, ports, folder):
    text = f"[filter h]\ntype = file\npath = {folder}/h.npy\ndelay = 0 frames\n"
    for number, (name, framing, _, keys, _) in enumerate(cases):
        bind = ADDRESSES.get(name, ("127.0.0.1:{}", ""))[0].format(ports[number])
        text += f"""
[stream s{number}]
source = {framing}
address = {bind}
rate = {RATE} Hz
channels = {CHANNELS}
block = 256 frames
filter = h
{keys}

[sink w{number}]
type = recording
stream = s{number}
path = {folder}/w{number}.wav
format = f32
"""
    return text


class Ways(unittest.TestCase):
    def all_of(self, cases):
        cases = [case for case in cases if case[0] != "IPv6" or has_v6()]
        ports = [c.free_port() for _ in cases]
        with c.temporary() as folder:
            np.save(os.path.join(folder, "h.npy"), TAPS)
            codes = c.noise_codes(6, FRAMES, CHANNELS)
            c.write_wav16(os.path.join(folder, "x.wav"), RATE, codes)
            with c.Daemon(folder, config(cases, ports, folder)) as daemon:
                ledgers = []
                for number, (name, framing, words, _, _) in enumerate(cases):
                    to = ADDRESSES.get(name, ("", "127.0.0.1:{}"))[1].format(ports[number])
                    ledgers.append(self.send(folder, to, framing, words))
                c.wait_for(lambda: all(s["frames_in"]["received"] == FRAMES for s in daemon.status()["streams"]),
                           "all frames")
                status = daemon.stop()
            for number, (name, _, _, _, bits) in enumerate(cases):
                with self.subTest(name):
                    stream = next(s for s in status["streams"] if s["name"] == f"s{number}")
                    self.assertEqual(stream["datagrams"]["accepted"], ledgers[number]["datagrams_sent"])
                    self.assertEqual(stream["frames_in"]["timeline"], FRAMES)
                    x = quantised(codes / 32768, bits)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", wavfile.WavFileWarning)
                        _, got = wavfile.read(os.path.join(folder, f"w{number}.wav"))
                    c.assert_within(got.astype(np.float64), c.convolve(x, TAPS), x, TAPS, what=name)

    def send(self, folder, to, framing, words):
        path = os.path.join(folder, "rig.json")
        process = c.Process("convolv-rig", ["--to", to, "--framing", framing, "--file", os.path.join(folder, "x.wav"),
                                            "--ledger", path, "--format", *words])
        with process:
            self.assertEqual(process.wait(), 0, process.output())
        return c.load_json(path)["rigs"][0]

    def test_formats(self):
        self.all_of(FORMATS)

    def test_ways(self):
        self.all_of(WAYS)


def rtp(sequence, stamp, payload=b"\x01\x02" * 20, ssrc=1, kind=96, version=2, marker=0):
    return struct.pack(">BBHII", version << 6, marker << 7 | kind, sequence & 0xFFFF, stamp & 0xFFFFFFFF, ssrc) + payload


class Strangers(unittest.TestCase):
    """What is not the stream's is rejected under its name, and moves nothing."""

    def test_each_reject_has_its_name(self):
        #          datagram                                                     from         counted as
        strangers = [(b"",                                                      "127.0.0.1", "malformed"),
                     (b"\x80\x60\x00",                                          "127.0.0.1", "malformed"),
                     (rtp(2, 20, version=1),                                    "127.0.0.1", "version"),
                     (rtp(2, 20, version=0),                                    "127.0.0.1", "version"),
                     (rtp(2, 20, kind=97),                                      "127.0.0.1", "payload type"),
                     (struct.pack(">BBH", 0x80, 200, 6) + bytes(24),            "127.0.0.1", "payload type"),  # RTCP
                     (rtp(2, 20, payload=b"\x01\x02\x03"),                      "127.0.0.1", "size"),
                     (rtp(2, 20, payload=b""),                                  "127.0.0.1", "empty"),
                     (rtp(2, 20),                                               "127.0.0.2", "address"),
                     (rtp(2, 20, ssrc=9),                                       "127.0.0.1", "ssrc"),
                     (rtp(2, 20 + 10_000_000),                                  "127.0.0.1", "unconfirmed jump"),
                     (rtp(900, 20),                                             "127.0.0.1", "unconfirmed jump"),
                     (rtp(1, 20 * 1),                                           "127.0.0.1", "duplicate")]
        port = c.free_port()
        with c.temporary() as folder:
            np.save(os.path.join(folder, "h.npy"), TAPS)
            text = config([("one", "rtp", [], "format = L16", 16)], [port], folder)
            text = text.replace(f"channels = {CHANNELS}", "channels = 1").replace("block = 256", "block = 20")
            with c.Daemon(folder, text) as daemon, sender("127.0.0.1") as ours, sender("127.0.0.2") as theirs:
                to = ("127.0.0.1", port)
                sent = 0
                for sequence in (0, 1):
                    ours.sendto(rtp(sequence, 20 * sequence), to)
                    sent += 1
                expect = {}
                accepted = 2
                for number, (datagram, origin, name) in enumerate(strangers):
                    (ours if origin == "127.0.0.1" else theirs).sendto(datagram, to)
                    # The true sender goes on: what had to be confirmed is not.
                    ours.sendto(rtp(number + 2, 20 * (number + 2)), to)
                    sent += 2
                    accepted += 1
                    expect[name] = expect.get(name, 0) + 1
                c.wait_for(lambda: daemon.stream()["datagrams"]["read"] == sent, "all datagrams")
                status = daemon.stop()["streams"][0]
                rejected = {name: count for name, count in status["datagrams"]["rejected"].items() if count > 0}
                self.assertEqual(rejected, expect)
                self.assertEqual(status["datagrams"]["accepted"], accepted)
                self.assertEqual(status["epochs"], 1)
                self.assertEqual(status["frames_in"]["timeline"], 20 * accepted)
                self.assertEqual(status["frames_in"]["received"], 20 * accepted)


class Loss(unittest.TestCase):
    def test_the_socket_and_the_network_are_told_apart(self):
        """The daemon stands still while a rig goes on: what does not fit the receive buffer is lost
        in the socket, which says so; what the rig never sent is lost on the network."""
        rate, packet = 200000, 100
        rx = c.free_port()
        with c.temporary() as folder:
            np.save(os.path.join(folder, "h.npy"), TAPS)
            # Of GRO batches the kernel counts the batches that it dropped, not their datagrams.
            keys = "format = L16\nreceive = recvmmsg\nreceive buffer = 64 KiB\nmax gap = 9 s"
            text = config([("one", "rtp", [], keys, 16)], [rx], folder)
            text = text.replace(f"channels = {CHANNELS}", "channels = 1").replace(f"rate = {RATE} Hz", f"rate = {rate} Hz")
            path = os.path.join(folder, "rig.json")
            with c.Daemon(folder, text) as daemon, c.Process("convolv-rig", [
                    "--to", f"127.0.0.1:{rx}", "--rate", rate, "--packet", packet, "--seconds", 2.5, "--loss", 0.01,
                    "--ledger", path]) as rig:
                c.wait_for(lambda: daemon.stream()["frames_in"]["received"] > rate / 4, "some frames")
                daemon.signal(signal.SIGSTOP)
                time.sleep(0.4)
                daemon.signal(signal.SIGCONT)
                self.assertEqual(rig.wait(), 0, rig.output())
                sent = c.load_json(path)["rigs"][0]
                c.wait_for(lambda: sum(daemon.stream()["datagrams"][name] for name in ("read", "kernel_drops"))
                           == sent["datagrams_sent"], "all datagrams")
                status = daemon.stop()["streams"][0]
        gap, datagrams, invalid = status["frames_in"]["gap"], status["datagrams"], status["invalid"]
        # A jump may lose the packet that would have confirmed it, and be held again.
        unconfirmed = datagrams["rejected"]["unconfirmed jump"]
        lost = sent["datagrams_dropped"] + unconfirmed
        self.assertEqual(datagrams["accepted"], sent["datagrams_sent"] - datagrams["kernel_drops"] - unconfirmed,
                         datagrams["rejected"])
        # Of frames behind the last packet it took, or before the first, the daemon cannot know; drops behind the last
        # are counted all the same.
        unknown = packet * (sent["datagrams_sent"] + sent["datagrams_dropped"]) - status["frames_in"]["timeline"]
        told = gap, datagrams, sent, unknown
        for cause, frames in (("socket", packet * datagrams["kernel_drops"]), ("network", packet * lost)):
            self.assertLessEqual(gap[cause], frames, told)
            self.assertGreaterEqual(gap[cause], frames - unknown, told)
        self.assertGreater(gap["socket"], 100 * packet, told)
        self.assertEqual(sum(gap.values()), gap["socket"] + gap["network"])
        self.assertEqual(status["epochs"], 1)
        self.assertGreater(invalid["socket"], gap["socket"])


def sender(address):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind((address, 0))
    return one


if __name__ == "__main__":
    unittest.main()
