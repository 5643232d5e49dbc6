#!/usr/bin/python3
# parallel: yes
"""Who a stream listens to, with real sockets: two senders on one host, a restarted one, a pinned one. One
daemon has a stream for each case."""
import socket
import struct
import time
import unittest

import numpy as np

import convolvd as c

RATE = 20000
FRAMES = 20  # of a packet: 1 ms


def rtp(number, ssrc, frames=FRAMES, channels=1, step=None):
    header = struct.pack(">BBHII", 0x80, 96, number & 0xFFFF, (step or frames) * number & 0xFFFFFFFF, ssrc)
    return header + bytes(2 * frames * channels)


def numbered(number, _):
    return struct.pack("<Q", number) + bytes(2 * FRAMES)


def plain(_number, _):
    return bytes(2 * FRAMES)


def stream(name, source, port, keys="", channels=1):
    return f"""
[stream {name}]
source = {source}
address = 127.0.0.1:{port}
rate = {RATE} Hz
channels = {channels}
format = {"L16" if source == "rtp" else "s16le"}
block = 64 frames
filter = h
{keys}
"""


def sender():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    return one


class Senders(unittest.TestCase):
    def run_streams(self, streams, play):
        """A daemon with these streams, name -> (source, keys, …); play(daemon, ports), its last status by name and
        its log."""
        ports = {name: c.free_port() for name in streams}
        with c.temporary() as folder:
            text = c.taps_file(folder, "h", np.ones(1))
            for name, (source, *more) in streams.items():
                text += stream(name, source, ports[name], *more)
            with c.Daemon(folder, text) as daemon:
                play(daemon, ports)
                status = daemon.stop()
                return {one["name"]: one for one in status["streams"]}, daemon.lines

    def test_two_senders_on_one_host(self):
        """The one that came first is followed; the other is refused by name, and named once in the log."""
        cases = {"rtp": ("rtp", rtp, "ssrc"), "seq": ("udp-seq", numbered, "source"), "plain": ("udp", plain, "source")}
        packets = 300

        def play(_daemon, ports):
            with sender() as first, sender() as second:
                for number in range(packets):
                    for name, (_, build, _) in cases.items():
                        to = ("127.0.0.1", ports[name])
                        first.sendto(build(number, 1), to)
                        if number >= 2 and number % 2 == 0:  # two in a row, as two programs interleave
                            second.sendto(build(number + 70000, 2), to)
                            second.sendto(build(number + 70001, 2), to)
                    time.sleep(FRAMES / RATE)

        got, lines = self.run_streams({name: (source, "") for name, (source, _, _) in cases.items()}, play)
        for name, (_, _, reject) in cases.items():
            with self.subTest(name):
                datagrams = got[name]["datagrams"]
                c.note(f"two senders, {name}: {got[name]['epochs']} epochs, {sum(got[name]['frames_in']['gap'].values())} "
                       f"gap frames")
                self.assertEqual(got[name]["epochs"], 1)
                self.assertEqual(datagrams["accepted"], packets)
                self.assertEqual(datagrams["rejected"][reject], packets - 2)
                self.assertEqual(got[name]["frames_in"]["timeline"], packets * FRAMES)
                self.assertEqual(sum(got[name]["frames_in"]["gap"].values()), 0)
                named = [line for line in lines if f"stream {name}: " in line and "refused" in line]
                self.assertEqual(len(named), 1, named)

    def test_a_restarted_rig_is_back_after_the_takeover(self):
        """Another SSRC, or another port, of the same host waits until the first has been silent for `takeover`."""
        cases = {"rtp": ("rtp", rtp, "ssrc"), "seq": ("udp-seq", numbered, "source"), "plain": ("udp", plain, "source")}
        takeover = 0.25
        sent = {}

        def play(daemon, ports):
            with sender() as first, sender() as second:
                for name, (_, build, _) in cases.items():
                    for number in range(20):
                        first.sendto(build(number, 1), ("127.0.0.1", ports[name]))
                until = time.monotonic() + 2 * takeover
                while time.monotonic() < until:
                    for name, (_, build, _) in cases.items():
                        number = sent[name] = sent.get(name, 0) + 1
                        second.sendto(build(number + 70000, 2), ("127.0.0.1", ports[name]))
                    time.sleep(0.01)
                c.wait_for(lambda: all(daemon.stream(name)["datagrams"]["read"] == 20 + sent[name] for name in cases),
                           "all datagrams")

        got, lines = self.run_streams({name: (source, f"takeover = {takeover} s") for name, (source, _, _) in cases.items()},
                                      play)
        for name, (_, _, reject) in cases.items():
            with self.subTest(name):
                refused = got[name]["datagrams"]["rejected"][reject]
                self.assertEqual(got[name]["datagrams"]["accepted"], 20 + sent[name] - refused)
                self.assertGreater(refused, 0.6 * takeover / 0.01 * 0.5)
                self.assertLess(refused, sent[name] * 0.9)
                self.assertEqual(got[name]["epochs"], 2)
                self.assertEqual(got[name]["datagrams"]["senders"], 1)
                self.assertEqual(sum(f"stream {name}: new sender: follows" in line for line in lines), 1)

    def test_a_pinned_ssrc_is_the_only_one(self):
        def play(_daemon, ports):
            with sender() as first, sender() as second:
                for number in range(10):
                    first.sendto(rtp(number, 1), ("127.0.0.1", ports["pinned"]))
                for number in range(5):
                    second.sendto(rtp(number, 2), ("127.0.0.1", ports["pinned"]))

        got, _ = self.run_streams({"pinned": ("rtp", "ssrc = 2\ntakeover = 1 ms")}, play)
        self.assertEqual(got["pinned"]["datagrams"]["rejected"]["ssrc"], 10)
        self.assertEqual(got["pinned"]["datagrams"]["accepted"], 5)

    def test_a_wrong_channel_count_is_refused(self):
        """Packets of 4 and of 1 channels into streams of 2: refused from the ninth on, what came before is flagged.
        One odd step of the time stamps is none of that: the frames that it leaves out are the sender's."""
        #        sent channels, stamps step by; expected accepted, message
        cases = {"four": (4, FRAMES, "write `channels = 4`"), "one": (1, FRAMES, "write `channels = 1`"),
                 "three": (3, FRAMES, "write `channels = 3`"), "right": (2, FRAMES, None)}
        packets = 60

        def play(daemon, ports):
            with sender() as one:
                for number in range(packets):
                    for name, (channels, step, _) in cases.items():
                        stamp = number * step + (7 if name == "right" and number == 30 else 0)
                        packet = struct.pack(">BBHII", 0x80, 96, number, stamp, 1) + b"\x10" * (2 * FRAMES * channels)
                        one.sendto(packet, ("127.0.0.1", ports[name]))
                    time.sleep(FRAMES / RATE)
                c.wait_for(lambda: all(daemon.stream(name)["datagrams"]["read"] == packets for name in cases), "all")

        got, lines = self.run_streams({name: ("rtp", "", 2) for name in cases}, play)
        for name, (_, _, message) in cases.items():
            with self.subTest(name):
                one = got[name]
                unflagged = one["frames_out"]["out"] - one["invalid_frames"]
                c.note(f"wrong channel count, {name}: {one['datagrams']['accepted']} packets accepted, "
                       f"{unflagged} frames unflagged")
                if message is None:
                    self.assertGreater(one["datagrams"]["accepted"], packets - 2)
                    self.assertEqual(one["datagrams"]["rejected"]["channels"], 0)
                    self.assertEqual(one["invalid"]["sender"], 7)
                    continue
                self.assertLess(one["datagrams"]["accepted"], 10)
                self.assertEqual(one["datagrams"]["rejected"]["channels"], packets - one["datagrams"]["accepted"])
                self.assertGreater(one["invalid"]["sender"], 0)
                self.assertEqual(unflagged, 0)
                self.assertEqual(sum(f"stream {name}: " in line and message in line for line in lines), 1)


if __name__ == "__main__":
    unittest.main()
