#!/usr/bin/python3
"""The command `watch` itself: the ring is sealed and read-only, follows its requests, ends with its
connection, is refused beyond four viewers, and costs nothing when nobody looks.

# parallel: yes
# takes: 0 s CPU in 2 s
"""
import fcntl
import json
import mmap
import os
import socket
import struct
import time
import unittest

import convolvd

F_GET_SEALS = 1034
SEALS = {"seal": 1, "shrink": 2, "grow": 4, "future write": 16}
SLOT, HEADER, VALUES = 4096, 4096, 296


class Viewer:
    def __init__(self, folder, name="observe.sock"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(os.path.join(folder, name))
        self.rest = b""

    def ask(self, **request):
        """(answer, descriptors)"""
        self.socket.sendall(json.dumps({"command": "watch", **request}).encode() + b"\n")
        found = []
        while b"\n" not in self.rest:
            part, fds, _, _ = socket.recv_fds(self.socket, 65536, 4)
            assert part, "the daemon has closed the connection"
            self.rest += part
            found += fds
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line), found

    def close(self):
        self.socket.close()


def newest(ring, count):
    """(kind, stream, flags, request, points, channels, first frame) of the newest records."""
    slots = struct.unpack_from("<I", ring, 12)[0]
    written = struct.unpack_from("<Q", ring, 16)[0]
    found = []
    for number in range(max(0, written - count), written):
        at = HEADER + number % slots * SLOT
        name = bytes(ring[at + 8:at + 72]).split(b"\0")[0].decode()
        _, _, first, _, _, _ = struct.unpack_from("<QQQqqd", ring, at + 72)
        kind, flags, points, _, _, channels, _, request = struct.unpack_from("<8I", ring, at + 120)
        found.append((kind, name, flags, request, points, channels, first))
    return found


class Watch(unittest.TestCase):
    def setUp(self):
        self.temporary = convolvd.temporary()
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name
        config = f"[daemon]\nruntime directory = {self.folder}\n"
        for name in ("a", "b"):
            config += f"[stream {name}]\nsource = generator\nrate = 20 kHz\nchannels = 3\nblock = 256 frames\nfilter = pass\n"
        config += "[filter pass]\ntype = lowpass\nhigh = 5 kHz\ntransition = 1 kHz\n"
        self.daemon = convolvd.Daemon(self.folder, config)
        self.addCleanup(self.daemon.kill)

    def viewer(self):
        viewer = Viewer(self.folder)
        self.addCleanup(viewer.close)
        return viewer

    def rings(self):
        with open(f"/proc/{self.daemon.process.pid}/maps", encoding="utf-8", errors="replace") as file:
            return file.read().count("convolvd watch")

    def test_sealed(self):
        viewer = self.viewer()
        answer, (fd,) = viewer.ask(levels=True)
        self.assertTrue(answer["ok"])
        seals = fcntl.fcntl(fd, F_GET_SEALS)
        for name, seal in SEALS.items():
            self.assertTrue(seals & seal, name)
        size = os.fstat(fd).st_size
        with self.assertRaises(PermissionError):
            mmap.mmap(fd, size)
        with self.assertRaises(PermissionError):
            os.write(fd, b"x")
        with self.assertRaises(PermissionError):
            os.ftruncate(fd, 0)
        mmap.mmap(fd, size, prot=mmap.PROT_READ).close()
        os.close(fd)

    def test_requests(self):
        viewer = self.viewer()
        answer, (fd,) = viewer.ask(levels=True)
        ring = mmap.mmap(fd, os.fstat(fd).st_size, prot=mmap.PROT_READ)
        convolvd.wait_for(lambda: {r[1] for r in newest(ring, 20)} == {"a", "b"}, "levels of both streams")
        self.assertEqual({r[0] for r in newest(ring, 20)}, {0})
        answer, fds = viewer.ask(streams=[{"stream": "a", "side": "output", "minmax": True, "channels": [2]},
                                          {"stream": "nowhere", "side": "input"}])
        self.assertEqual(fds, [])
        self.assertEqual((answer["request"], answer["streams"][0]["channels"]), (2, 3))
        self.assertIn("no such stream", answer["streams"][1]["error"])

        def shown():
            records = newest(ring, 30)
            return all(r[1] == "a" and r[3] == 2 for r in records) and {r[0] for r in records} == {1, 2}
        convolvd.wait_for(shown, "minima, maxima and frames of a alone")
        self.assertEqual({r[5] for r in newest(ring, 30) if r[0] == 2}, {1})
        answer, _ = viewer.ask(streams=[{"stream": "a", "side": "left"}])
        self.assertEqual((answer["ok"], answer["code"]), (False, "argument"))
        answer, _ = viewer.ask(streams=[{"stream": "a", "side": "input", "channels": [0]}])
        self.assertEqual(answer["code"], "argument")
        # Frame numbers follow one another: nothing is skipped at this rate.
        time.sleep(0.5)
        frames = [(r[6], r[4]) for r in newest(ring, 60) if r[0] == 2]
        self.assertTrue(all(a + n == b for (a, n), (b, _) in zip(frames, frames[1:])), frames)
        ring.close()

    def test_ends(self):
        """The ring goes with its connection; a fifth viewer is refused until one has gone."""
        self.assertEqual(self.rings(), 0)
        viewers = [self.viewer() for _ in range(5)]
        for viewer in viewers[:4]:
            self.assertTrue(viewer.ask(levels=True)[0]["ok"])
        self.assertEqual(self.rings(), 4)
        answer, fds = viewers[4].ask(levels=True)
        self.assertEqual((answer["code"], fds), ("limit", []))
        viewers[0].close()
        convolvd.wait_for(lambda: self.rings() == 3, "the first viewer's end")
        self.assertTrue(viewers[4].ask(levels=True)[0]["ok"])
        for viewer in viewers[1:]:
            viewer.close()
        convolvd.wait_for(lambda: self.rings() == 0, "the end of all")
        self.assertEqual(self.daemon.stop()["streams"][0]["name"], "a")


if __name__ == "__main__":
    unittest.main()
