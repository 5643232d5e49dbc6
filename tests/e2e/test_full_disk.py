#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 8 s
"""A disk that is really full (a small tmpfs in a mount namespace of the test's own): recordings of results and of raw
input, and files of events, say what they lack and why, at once or when there is space again."""
import ctypes
import glob
import json
import os
import sqlite3
import sys
import tempfile
import unittest

import convolvd as c

CLONE_NEWNS, MS_REMOUNT, MS_REC, MS_PRIVATE = 0x20000, 0x20, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)
LOSSES = 4


def mount(source, target, kind, flags, data):
    if LIBC.mount(source, target.encode(), kind, flags, data) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def config(folder, source, sinks):
    text = (f"[stream s]\nsource = generator\nrate = 200 kHz\nchannels = 2\nformat = f32le\nunit = V\nwaveform = noise\n"
            f"amplitude = 0.25 V\nblock = 256\n{source}filter = f\n[filter f]\ntype = identity\n"
            f"[analysis a]\ntype = hits\nstream = s\nthreshold = 0 V\nhdt = 2 frames\nmax duration = 200 frames\n")
    for name, keys in sinks.items():
        text += f"[sink {name}]\npath = {folder}/{keys}\n"
    return text


RECORDINGS = {"out": "out.wav\ntype = recording\nstream = s\nmin free = 0 B",
              "raw": "raw.wav\ntype = recording\nstream = s\nrecord = input\nmin free = 0 B"}
EVENTS = {"lines": "a.jsonl\ntype = jsonl\nanalysis = a", "table": "a.csv\ntype = csv\nanalysis = a",
          "vallen": "a.pridb\ntype = vallen\nanalysis = a\nrange = 10 V\nflush = 20 ms\nmin free = 0 B"}


def sidecars(folder, stem):
    """The sidecars of a sink's files in order of their frames, each held against its file."""
    found = []
    for path in glob.glob(f"{folder}/{stem}*.wav"):
        sidecar = c.load_json(path + ".json")
        assert sidecar["frames"] == len(c.read_recording(path)), (path, sidecar)
        found.append(sidecar)
    return sorted(found, key=lambda sidecar: sidecar["first_frame"])


def covered(found):
    """[from, until) of each file and each missing range, in order."""
    ranges = [(s["first_frame"], s["first_frame"] + s["frames"]) for s in found]
    for sidecar in found:
        ranges += [(m["from"], m["until"]) for m in sidecar["missing_before"] + sidecar["missing_after"]]
    return sorted(ranges)


class FullDisk(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)
        self.disk = tempfile.mkdtemp(dir=self.folder)
        mount(b"none", self.disk, b"tmpfs", 0, b"size=2m")
        self.addCleanup(LIBC.umount2, self.disk.encode(), 2)

    def resize(self, size):
        mount(b"none", self.disk, b"tmpfs", MS_REMOUNT, f"size={size}".encode())

    def sinks(self, daemon):
        stream = daemon.stream()
        return {sink["name"]: sink for sink in stream["sinks"] + stream["analyses"][0]["sinks"]}

    def expect_whole(self, stem, frames):
        """Files and missing ranges together are all frames, each once."""
        at = 0
        for begin, end in covered(sidecars(self.disk, stem)):
            self.assertEqual(begin, at)
            at = end
        self.assertEqual(at, frames)

    def wait(self, daemon, condition, what):
        c.wait_for(lambda: condition(self.sinks(daemon)), what)

    def test_recordings_on_a_disk_that_stays_full(self):
        with c.Daemon(self.folder, config(self.disk, "pace = fast\nduration = 600000 frames\n", RECORDINGS), wait=False) as daemon:
            self.assertEqual(daemon.wait(), LOSSES, daemon.output())
        for stem in RECORDINGS:
            last = sidecars(self.disk, stem)[-1]
            self.assertEqual((last["complete"], last["error"], last["ended"]),
                             (False, "No space left on device", "disk"), stem)
            self.expect_whole(stem, 600000)

    def test_space_comes_back(self):
        """Recordings and events go on, and the place of the loss is in each of them."""
        with c.Daemon(self.folder, config(self.disk, "", {**RECORDINGS, **EVENTS})) as daemon:
            self.wait(daemon, lambda sinks: all(sink["dropped"].get("disk", 0) > 0 for sink in sinks.values()), "a full disk")
            before = self.sinks(daemon)
            self.resize("200m")
            self.wait(daemon, lambda sinks: all(sink["delivered"] > before[name]["delivered"] for name, sink in sinks.items()),
                      "deliveries")
            status = daemon.stop()["streams"][0]
        for stem in RECORDINGS:
            found = sidecars(self.disk, stem)
            self.assertEqual((found[0]["complete"], found[0]["error"]), (False, "No space left on device"))
            self.assertEqual((found[-1]["complete"], found[-1]["ended"]), (True, "end"))
            self.expect_whole(stem, status["frames_out"]["out"])
        events = {sink["name"]: sink for sink in status["analyses"][0]["sinks"]}
        with open(f"{self.disk}/a.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        with open(f"{self.disk}/a.csv", encoding="utf-8") as file:
            notes = [json.loads(line[1:]) for line in file if line.startswith("#")]
        for name, objects in (("lines", lines), ("table", notes)):
            self.assertNotIn("lost", objects[-1] if name == "lines" else {})  # it comes before the events that follow
            lost = [line["lost"] for line in objects if "lost" in line]
            self.assertEqual(sum(one["events"] for one in lost), events[name]["dropped"]["disk"])
            self.assertEqual({one["error"] for one in lost}, {"No space left on device"})
        with sqlite3.connect(f"{self.disk}/a.pridb") as db:
            labels = [row[0] for row in db.execute("SELECT Data FROM ae_markers") if "lost" in (row[0] or "")]
        self.assertEqual(sum(int(label.split()[0]) for label in labels), events["vallen"]["dropped"]["disk"])

    def test_a_disk_that_is_full_at_the_start(self):
        """Recordings begin when there is space; files of events are refused with what to do."""
        with open(f"{self.disk}/filler", "wb") as filler:
            try:
                filler.write(bytes(4 << 20))
                filler.flush()
            except OSError:
                pass
        with c.Daemon(self.folder, config(self.disk, "", RECORDINGS)) as daemon:
            c.wait_for(lambda: all(sink["dropped"].get("disk", 0) > 0 for sink in daemon.stream()["sinks"]), "a full disk")
            self.resize("200m")
            c.wait_for(lambda: all(sink["delivered"] > 0 for sink in daemon.stream()["sinks"]), "deliveries")
            status = daemon.stop()["streams"][0]
        for stem in RECORDINGS:
            self.expect_whole(stem, status["frames_out"]["out"])
        for name in glob.glob(f"{self.disk}/*.wav*"):
            os.remove(name)
        used = os.statvfs(self.disk)
        self.resize(f"{(used.f_blocks - used.f_bfree) * used.f_frsize}")
        for name, keys in EVENTS.items():
            with c.Daemon(self.folder, config(self.disk, "", {name: keys}), wait=False) as daemon:
                self.assertNotEqual(daemon.wait(), 0)
                self.assertRegex(daemon.output(), f"sink {name}: .*(free some space|disk is full|full)")
            self.assertEqual(os.listdir(self.disk), ["filler"])


if __name__ == "__main__":
    if LIBC.unshare(CLONE_NEWNS) != 0 or LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        print("a mount namespace is not allowed here")
        sys.exit(77)
    unittest.main(verbosity=2)
