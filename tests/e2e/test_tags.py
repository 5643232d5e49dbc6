#!/usr/bin/python3
# parallel: yes
"""Authentication tags from end to end, over real sockets: convolv-rig --key feeds a daemon whose stream and sink
have a key, convolv-tap --key takes the results. Between them stands somebody who records every packet, sends them
again, changes them, and makes some of his own. The tags are computed here once more, with Python's hmac."""
import hashlib
import hmac
import os
import socket
import struct
import subprocess
import threading
import unittest

import numpy as np

import convolvd as c

RATE, FRAMES, TRAILER = 20000, 4000, 24
SECRET = bytes(range(100, 132))


def tag_of(packet, label):
    key = hmac.new(SECRET, label, hashlib.sha256).digest()
    return hmac.new(key, packet[:-17], hashlib.sha256).digest()[:16]


class Eavesdropper(threading.Thread):
    """Passes datagrams on to `to` and keeps them."""

    def __init__(self, to):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.2)
        self.port, self.to, self.kept, self.stopping = self.socket.getsockname()[1], ("127.0.0.1", to), [], False
        self.start()

    def run(self):
        while not self.stopping:
            try:
                self.kept.append(self.socket.recv(65536))
            except socket.timeout:
                continue
            self.send(self.kept[-1])

    def send(self, packet):
        self.socket.sendto(packet, self.to)

    def stop(self):
        self.stopping = True
        self.join()
        self.socket.close()


class Auth(unittest.TestCase):
    def setUp(self):
        self.folder = c.temporary()
        self.addCleanup(self.folder.cleanup)
        self.key = os.path.join(self.folder.name, "key")
        with open(self.key, "w", encoding="ascii") as file:
            file.write(SECRET.hex() + "\n")
        os.chmod(self.key, 0o600)

    def text(self, port, out, source="rtp"):
        return c.taps_file(self.folder.name, "h", np.ones(1)) + f"""
[stream s]
source = {source}
address = 127.0.0.1:{port}
rate = {RATE} Hz
channels = 1
format = {"L16" if source == "rtp" else "s16le"}
block = 64 frames
filter = h
key = {self.key}

[sink out]
type = rtp
stream = s
address = 127.0.0.1:{out}
key = {self.key}
sdp = none
"""

    def rig(self, port, *words):
        subprocess.run([os.path.join(c.BUILD, "convolv-rig"), "--to", f"127.0.0.1:{port}", "--rate", str(RATE), "--frames",
                        str(FRAMES), "--packet", "20", "--signal", "counter", "--quiet", *words], check=True, timeout=60)

    def run_between(self, source, framing, attack):
        """What the daemon counted and convolv-tap took while attack(input, output) played between them."""
        port, out = c.free_port(), c.free_port()
        inward, outward = Eavesdropper(port), Eavesdropper(out)
        tap = c.Tap(self.folder.name, out, "--key", self.key, "--until-end", rate=RATE, write=False)
        with tap, c.Daemon(self.folder.name, self.text(port, outward.port, source)) as daemon:
            def stream():
                return daemon.status()["streams"][0]
            self.rig(inward.port, "--framing", framing, "--format", "L16" if source == "rtp" else "s16le", "--key", self.key)
            c.wait_for(lambda: stream()["datagrams"]["accepted"] >= FRAMES // 20 - 1, "the rig's packets")
            attack(inward, outward)
            sent = len(inward.kept)
            c.wait_for(lambda: stream()["datagrams"]["read"] >= sent + self.attacked, "the attack")
            status = daemon.stop()
            ledger = tap.finish()
        inward.stop()
        outward.stop()
        return status["streams"][0]["datagrams"], ledger, inward.kept, outward.kept

    def test_rtp(self):
        forged = {}

        def attack(inward, outward):
            packets = list(inward.kept)
            for packet in packets:
                inward.send(packet)  # recorded
            for packet in packets[:50]:
                inward.send(packet[:-18] + bytes([packet[-18] ^ 1]) + packet[-17:])  # changed
            number, stamp = struct.unpack(">HI", packets[-1][2:8])
            for i in range(1, 51):  # without the key
                header = struct.pack(">BBHI", 0x80, 96, (number + i) & 0xFFFF, (stamp + 20 * i) & 0xFFFFFFFF)
                inward.send(header + packets[-1][8:12] + bytes(40))
            for packet in list(outward.kept)[:20]:
                outward.send(packet)
                inward.send(packet)  # a result is no input
            forged["replay"], forged["auth"] = len(packets), 50 + 50 + 20
            self.attacked = len(packets) + 50 + 50 + 20

        datagrams, tap, packets, results = self.run_between("rtp", "rtp", attack)
        self.assertEqual(datagrams["accepted"], FRAMES // 20)
        self.assertEqual({name: count for name, count in datagrams["rejected"].items() if count > 0}, forged)
        for packet in packets:
            self.assertEqual((packet[0] & 0x20, packet[-1]), (0x20, TRAILER))
            self.assertEqual(packet[-17:-1], tag_of(packet, b"convolvd 1 rtp input"))
        for packet in results:
            self.assertEqual(packet[-17:-1], tag_of(packet, b"convolvd 1 rtp results"))
        self.assertEqual((tap["frames"], tap["rejected"]["auth"], tap["rejected"]["replay"]), (FRAMES, 0, 20))

    def test_numbered(self):
        def attack(inward, _):
            for packet in list(inward.kept):
                inward.send(packet)
                inward.send(packet[:-TRAILER])
            self.attacked = 2 * len(inward.kept)

        datagrams, _, packets, _ = self.run_between("udp-seq", "udp-seq", attack)
        self.assertEqual(datagrams["accepted"], FRAMES // 20)
        self.assertEqual((datagrams["rejected"]["replay"], datagrams["rejected"]["auth"]), (FRAMES // 20, FRAMES // 20))
        for packet in packets:
            self.assertEqual(packet[-17:-1], tag_of(packet, b"convolvd 1 udp-seq input"))

    def test_key_files(self):
        """--check names what is wrong with a key file."""
        config = os.path.join(self.folder.name, "check.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(self.text(5004, 5006))
        for mode, text, expect in ((0o600, SECRET.hex(), None), (0o640, SECRET.hex() + "\n", None),
                                   (0o644, SECRET.hex(), "chmod 600"), (0o660, SECRET.hex(), "chmod 600"),
                                   (0o600, "secret", "64 hexadecimal digits")):
            with open(self.key, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(self.key, mode)
            done = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", config], capture_output=True, text=True,
                                  check=False, timeout=60)
            self.assertEqual(done.returncode == 0, expect is None, done.stderr)
            self.assertIn(expect or "", done.stderr)


if __name__ == "__main__":
    unittest.main()
