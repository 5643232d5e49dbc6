#!/usr/bin/python3
# parallel: yes
"""A restart goes on in the middle of the epoch: SIGUSR2 makes the daemon hand its streams over through the
service manager's descriptor store, and the next one continues them, without settling. The manager here is
the test's own; test_systemd.py has the real one."""
import array
import os
import signal
import socket
import struct
import tempfile
import unittest

import numpy as np

import convolvd as c

RATE = 48000
TAPS = 129
PACKET = 100


class Manager:
    """A service manager with a descriptor store."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(c.PATIENCE_S)
        self.store = None

    def close(self):
        self.socket.close()
        if self.store is not None:
            os.close(self.store)

    def wait(self, said):
        """Takes messages until one says that."""
        while True:
            text, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4))
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and b"FDSTORE=1" in text:
                    assert b"FDNAME=convolvd-state" in text
                    self.store = array.array("i", data[:4])[0]
            if said in text.decode():
                return


class HandOver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.state = f"{self.folder}/state"
        os.mkdir(self.state)
        self.ports = {name: c.free_port() for name in ("in", "out", "chain")}
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sender.close)
        self.manager = Manager(self.folder)
        self.addCleanup(self.manager.close)
        self.taps = c.random_taps(1, TAPS)
        np.save(f"{self.folder}/f.npy", self.taps)
        self.codes = c.noise_codes(9, 200 * PACKET, 1)
        self.sent = 0

    def config(self, extra="", gain=1):
        return f"[daemon]\nstate directory = {self.state}\n[device]\ndevice = {c.DEVICE}\n" \
               f"[stream a]\nsource = rtp\naddress = 127.0.0.1:{self.ports['in']}\nrate = {RATE} Hz\nchannels = 1\n" \
               f"format = s16be\nfull scale = {gain}\nblock = 256\nfilter = f\n{extra}" \
               f"[stream b]\nsource = stream a\nblock = 64\ndecimate = 3\nfilter = f\n" \
               + c.file_filter("f", f"{self.folder}/f.npy") + c.rtp_sink("out", "a", self.ports["out"]) \
               + c.rtp_sink("chain", "b", self.ports["chain"])

    def send(self, packets):
        for _ in range(packets):
            codes = self.codes[self.sent * PACKET:(self.sent + 1) * PACKET]
            self.sender.sendto(struct.pack(">BBHII", 0x80, 96, (65500 + self.sent) % 65536, 7 + self.sent * PACKET, 0xC0FFEE)
                               + codes.astype(">i2").tobytes(), ("127.0.0.1", self.ports["in"]))
            self.sent += 1

    def daemon(self, config):
        """With what the store holds, if anything."""
        environment = {"NOTIFY_SOCKET": self.manager.path}
        if self.manager.store is None:
            return c.Daemon(self.folder, config, environment=environment)
        program = f"{self.folder}/start.sh"
        with open(program, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec 3</proc/{os.getpid()}/fd/{self.manager.store}\nLISTEN_PID=$$ LISTEN_FDS=1 '
                       f'LISTEN_FDNAMES=convolvd-state exec {c.BUILD}/convolvd "$@"\n')
        os.chmod(program, 0o755)
        daemon = c.Daemon(self.folder, config, program=program, environment=environment)
        self.manager.wait("FDSTOREREMOVE=1")
        return daemon

    def taken(self, daemon):
        c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] >= self.sent * PACKET, "the packets")

    def hand_over(self, daemon):
        status = daemon.stop(signal.SIGUSR2)
        self.manager.wait("FDSTORE=1")
        self.assertIn("2 streams handed over", daemon.output())
        return status

    def results(self, packets, frames):
        """Samples and flags of one epoch, each frame once."""
        self.assertEqual({p[3] for p in packets}, {0})
        self.assertEqual(len({p[2] for p in packets}), 1)
        got, flagged, seen = np.full(frames, np.nan), np.zeros(frames, int), np.zeros(frames, int)
        for before, after in zip(packets, packets[1:]):
            self.assertEqual((before[0] + 1) % 65536, after[0])
            self.assertEqual((after[1] - before[1]) % 2**32, before[5])
        for _, _, _, _, first, count, causes, (start, until), payload in packets:
            got[first:first + count] = np.frombuffer(payload, ">f4")
            seen[first:first + count] += 1
            flagged[first + start:first + until] |= causes
        self.assertTrue((seen == 1).all(), "a frame is missing, or came twice")
        return got, flagged

    def test_restarts_do_not_settle(self):
        out, chain = c.Results(self.ports["out"]), c.Results(self.ports["chain"])
        for packets in (61, 1, 50, 88):  # inside blocks, and one between two whole blocks
            with self.daemon(self.config()) as daemon:
                self.send(packets)
                self.taken(daemon)
                if self.sent < 200:
                    self.hand_over(daemon)
                    continue
                status = daemon.stop()
        frames = 200 * PACKET
        got, flagged = self.results(out.finish(), frames + TAPS - 1)
        x = self.codes / 32768
        c.assert_within(got[:, None], c.convolve(x, self.taps), x, self.taps)
        self.assertEqual([(i.start, i.stop) for i in self.spans(flagged)], [(0, TAPS - 1), (frames, frames + TAPS - 1)])
        twice = -(-(frames + 2 * (TAPS - 1)) // 3)
        _, flagged = self.results(chain.finish(), twice)
        self.assertEqual(sum(flagged[(2 * TAPS) // 3 + 1:frames // 3] != 0), 0)
        a = status["streams"][0]
        self.assertEqual(a["epochs"], 1)
        self.assertEqual(a["datagrams"]["read"], 200)
        self.assertEqual(a["frames_in"]["received"], frames)
        self.assertEqual(a["frames_out"]["out"], frames + TAPS - 1)

    @staticmethod
    def spans(flagged):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], flagged != 0, [0]))))
        return [slice(a, b) for a, b in zip(edges[::2], edges[1::2])]

    def test_what_differs_begins_a_new_epoch(self):
        """Another calibration, another filter, no state, a damaged one: the next epoch, and the log says why."""
        def damaged(number):
            data = bytearray(os.pread(self.manager.store, 1 << 20, 0))
            data[number] ^= 1
            os.close(self.manager.store)
            self.manager.store = os.memfd_create("convolvd-state", os.MFD_ALLOW_SEALING)
            os.write(self.manager.store, data)
            sealed = 0x1 | 0x2 | 0x4 | 0x8  # F_SEAL_SEAL, SHRINK, GROW, WRITE
            if number >= 0:
                import fcntl
                fcntl.fcntl(self.manager.store, 1033, sealed)
        cases = [("its filters, gains or calibration differ", lambda: {"gain": 2}),
                 ("it is damaged", lambda: damaged(900) or {}),
                 ("is version 1", lambda: damaged(4) or {}),
                 ("no memory file", lambda: damaged(-1) or {}),
                 ("its filters, gains or calibration differ", lambda: {"extra": "decimate = 2\n"})]
        for number, (why, change) in enumerate(cases):
            with self.subTest(why):
                self.sent = 0
                with self.daemon(self.config()) as daemon:
                    self.send(30)
                    self.taken(daemon)
                    before = daemon.stream("a")["epochs"]
                    self.hand_over(daemon)
                with self.daemon(self.config(**change())) as daemon:
                    self.assertTrue(daemon.said(why), daemon.output())
                    self.assertTrue(daemon.said("new epoch"), daemon.output())
                    self.send(30)
                    c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] >= 29 * PACKET, "the packets")
                    self.assertEqual(daemon.stream("a")["epochs"], before + 1)
                    daemon.stop()
                os.close(self.manager.store)
                self.manager.store = None

    def test_a_reload_goes_on_where_the_filter_stays(self):
        out = c.Results(self.ports["out"])
        with c.Daemon(self.folder, self.config()) as daemon:
            for number, extra in enumerate(("idle flush = 10 s\n", "idle flush = 20 s\n", "")):
                self.send(37)
                self.taken(daemon)
                with open(daemon.path, "w", encoding="utf-8") as file:
                    file.write(self.config(extra))
                daemon.signal(signal.SIGHUP)
                self.send(12)  # while it reloads
                c.wait_for(lambda: daemon.output().count("reloaded: ") > number, "the reload")
            self.send(200 - self.sent)
            self.taken(daemon)
            status = daemon.stop()
        self.assertNotIn("new epoch:", daemon.output())
        frames = 200 * PACKET
        got, flagged = self.results(out.finish(), frames + TAPS - 1)
        x = self.codes / 32768
        c.assert_within(got[:, None], c.convolve(x, self.taps), x, self.taps)
        self.assertEqual([(i.start, i.stop) for i in self.spans(flagged)], [(0, TAPS - 1), (frames, frames + TAPS - 1)])
        self.assertEqual(status["streams"][0]["frames_in"]["received"], frames)

    def test_without_a_manager_it_stops(self):
        with c.Daemon(self.folder, self.config(), environment={"NOTIFY_SOCKET": ""}) as daemon:
            self.send(30)
            self.taken(daemon)
            self.assertEqual(daemon.stop(signal.SIGUSR2)["streams"][0]["frames_out"]["out"], 30 * PACKET + TAPS - 1)


if __name__ == "__main__":
    unittest.main()
