#!/usr/bin/python3
# parallel: yes
# takes: 0 s CPU in 12 s
"""What a stream loses is in the log: when it happens, as a sum where it goes on, and what is left at the end.
One daemon, and a stream for each loss; real sockets."""
import signal
import socket
import struct
import time
import unittest

import numpy as np

import convolvd as c

RATE = 20000
FRAMES = 100  # of a packet: 5 ms
STREAMS = {"drops": "receive buffer = 4 KiB\nreceive = recvmmsg\nmax gap = 9 s", "half": "", "silent": "",
           "overlap": "", "epochs": "max gap = 10 ms", "senders": "takeover = 10 ms"}
# The words behind the count.
PHRASES = {"drops": "datagrams were dropped", "overlap": "frames were dropped because packets overlap",
           "epochs": "new epoch", "senders": "new sender"}


def rtp(number, stamp, ssrc=1):
    return struct.pack(">BBHII", 0x80, 96, number & 0xFFFF, stamp & 0xFFFFFFFF, ssrc) + bytes(2 * FRAMES)


class Losses(unittest.TestCase):
    def setUp(self):
        self.ports = {name: c.free_port() for name in STREAMS}
        self.sent = {name: 0 for name in STREAMS}
        self.stamp = {name: 0 for name in STREAMS}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)

    def send(self, name, packets=1, skip=0, ssrc=1):
        for _ in range(packets):
            self.stamp[name] += skip
            self.socket.sendto(rtp(self.sent[name], self.stamp[name], ssrc), ("127.0.0.1", self.ports[name]))
            self.stamp[name] += FRAMES
            self.sent[name] += 1
            skip = 0

    def lose(self, daemon):
        """Every loss but silence and a slow sender."""
        daemon.signal(signal.SIGSTOP)
        self.send("drops", 60)
        daemon.signal(signal.SIGCONT)
        self.send("drops", 2)
        self.send("overlap", skip=-10)
        self.send("epochs", skip=RATE)
        self.send("epochs", 3)
        time.sleep(0.05)
        self.ssrc += 1
        self.send("senders", 3, ssrc=self.ssrc)

    def test_each_loss_is_logged(self):
        keys = "\n".join(f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{self.ports[name]}\nrate = {RATE} Hz\n"
                         f"channels = 1\nformat = L16\nblock = 64 frames\nfilter = h\n{more}\n"
                         for name, more in STREAMS.items())
        self.ssrc = 1
        with c.temporary() as folder:
            with c.Daemon(folder, c.taps_file(folder, "h", np.ones(3)) + keys) as daemon:
                for name in STREAMS:
                    self.send(name, 3)
                self.lose(daemon)
                began = time.monotonic()
                while time.monotonic() - began < 7.5:
                    self.send("half")
                    self.send("overlap")
                    time.sleep(2 * FRAMES / RATE)
                for _ in range(5):
                    self.socket.sendto(b"GET / HTTP/1.1\r\n", ("127.0.0.1", self.ports["silent"]))
                for name in ("drops", "overlap", "epochs", "senders"):
                    self.assertTrue(any(f"stream {name}: " in line and PHRASES[name] in line
                                        for line in daemon.lines), f"{name}\n{daemon.output()}")
                self.lose(daemon)
                daemon.wait_said("stream silent: no frames for 1", 8)  # 10 s, or 11 on a busy machine
                self.assertTrue(daemon.said("5 datagrams came and were refused (version 5)"), daemon.output())
                self.assertTrue(daemon.said("they are no RTP"), daemon.output())
                self.send("silent", 3)
                daemon.wait_said("stream silent: frames arrive again", 5)
                pending = len(daemon.lines)
                self.lose(daemon)  # less than 10 s after the last line
                c.wait_for(lambda: daemon.stream("overlap")["frames_in"]["in_packets"]["overlap"] == 30, "the overlap")
                status = daemon.stop()
            lines = daemon.lines
        self.assertTrue(any("stream half: " in line and "of 20000 Hz" in line for line in lines), daemon.output())
        streams = {one["name"]: one for one in status["streams"]}
        drops = streams["drops"]["datagrams"]["kernel_drops"]
        self.assertGreater(drops, 20)
        c.note(f"losses: {drops} datagrams dropped by the socket, all of them in the log")
        # The sums of all lines are what was lost: none is pending at the exit.
        for name, count in (("drops", drops), ("overlap", 30), ("epochs", 3), ("senders", 3)):
            with self.subTest(name):
                self.assertEqual(self.sum_of(lines, name), count, "\n".join(lines))
                self.assertGreater(self.sum_of(lines[pending:], name), 0)
        carried = streams["overlap"]["frames_in"]["in_packets"]
        self.assertEqual(carried["frames"], streams["overlap"]["frames_in"]["received"] + carried["overlap"] + carried["late"])
        self.assertEqual(carried["frames"], FRAMES * self.sent["overlap"])

    def sum_of(self, lines, name):
        """The sum of the counts in front of the phrase, over all lines about the stream."""
        total = 0
        for line in lines:
            before, found, _ = line.partition(" " + PHRASES[name])
            if found and f"stream {name}: " in line and before.split()[-1].isdigit():
                total += int(before.split()[-1])
        return total


if __name__ == "__main__":
    unittest.main()
