#!/usr/bin/python3
# parallel: yes
# takes: 5 s CPU in 50 s
"""Other sinks of a partition's stream, beside LOG: RTP and recordings. Only the owner of a term sends, under LOG's numbers: who
drops what comes twice has each frame once, with LOG's bytes, whoever computed it, and recordings say which frames they have.

CONVOLVD_TEST_KILLS: how often the owner is killed in a row [2]."""
import glob
import json
import os
import signal
import subprocess
import time
import unittest

import numpy as np

import cluster_standby
import cluster_world
import convolvd as c
from cluster_world import CHANNELS, RATE, WORKER

KILLS = int(os.environ.get("CONVOLVD_TEST_KILLS", "2"))
FRAME = 4 * CHANNELS
OUTLETS = """[sink wire]
type = rtp
stream = rig
address = 127.0.0.1:{port}
[sink disk]
type = recording
stream = rig
path = {folder}/{name}.wav
container = wav
"""


def hold_packets(test, log, packets, stamp=0):
    """Every frame of LOG came by RTP, once for whoever drops what comes twice, by frame number and by sequence number alike.
    Returns how many frames came again."""
    want = b"".join(record.samples for record in log)
    have, by_sequence, again = {}, {}, 0
    test.assertEqual(len({packet[2] for packet in packets}), 1, "several SSRCs")
    for sequence, timestamp, _, epoch, first, frames, _, _, payload in packets:
        test.assertEqual(epoch, 0)
        stamp = timestamp - first if stamp is None else stamp
        test.assertEqual(timestamp, (first + stamp) % 2 ** 32)
        if first in have:
            again += frames
            test.assertEqual(have[first] == payload, True, f"frame {first}: other samples")
        have[first] = payload
        test.assertEqual(by_sequence.setdefault(sequence, first), first, "one sequence number for other frames")
    test.assertEqual(len(by_sequence), len(have), "frames under two sequence numbers")
    test.assertEqual(len(by_sequence), max(by_sequence) - min(by_sequence) + 1, "sequence numbers are left out")
    at = 0
    for first in sorted(have):
        test.assertEqual(first, at, "frames are lost")
        at += len(have[first]) // FRAME
    test.assertGreaterEqual(at, len(want) // FRAME)  # what is not in LOG yet was sent already
    got = np.frombuffer(b"".join(have[first] for first in sorted(have)), ">f4")[:len(want) // 4]
    test.assertEqual(got.astype("<f4").tobytes() == want, True, "not LOG's bytes")
    return again


class Outlets(cluster_world.Cluster):
    def begin(self, workers=("a", "b"), outlets=OUTLETS):
        self.port = c.free_port()
        self.worker = WORKER + outlets
        self.results = c.Results(self.port, FRAME)
        self.server()
        self.start("gateway", cluster_world.GATEWAY)
        for name in workers:
            self.again(name)
        self.wait_frames(RATE // 2)

    def again(self, name):
        self.start(name, self.worker, port=self.port)

    def kill(self, name):
        self.daemons[name].process.kill()
        self.daemons[name].process.wait()

    def hold_packets(self):
        log = self.end_of_input()
        time.sleep(0.5)
        return hold_packets(self, log, self.results.finish())

    def hold_recordings(self, stopped):
        """Of workers that were stopped in order: each file holds the frames of LOG that its sidecar says. Which frames of LOG
        each worker's files have."""
        log = self.records("log")
        want = np.frombuffer(b"".join(record.samples for record in log), "<f4").reshape(-1, CHANNELS)
        held = []
        for name in stopped:
            files = [path for path in glob.glob(f"{self.folder.name}/{name}*.wav")]
            self.assertTrue(files, f"{name} has recorded nothing")
            frames = np.zeros(len(want), bool)
            for path in files:
                with open(f"{path}.json", encoding="utf-8") as file:
                    sidecar = json.load(file)
                first, samples = sidecar["first_frame"], np.asarray(c.read_recording(path), "<f4").reshape(-1, CHANNELS)
                self.assertEqual((sidecar["epoch"], sidecar["frames"]), (0, len(samples)), path)
                self.assertEqual(samples.tobytes() == want[first:first + len(samples)].tobytes(), True, f"{path}: not LOG's frames")
                frames[first:first + len(samples)] = True
            held.append(frames)
        return held

    def test_killed_in_a_row(self):
        self.begin()
        for _ in range(KILLS):
            name = self.owner()
            self.kill(name)
            self.wait_frames(0, more=RATE // 2)
            self.again(name)
        again = self.hold_packets()
        c.note(f"test_cluster_outlets: killed {KILLS} times: {again} frames came again")

    def test_stands_still(self):
        """It is taken for dead, and sends nothing when it goes on."""
        self.begin()
        name = self.owner()
        process = self.daemons[name].process
        process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        sent = len(self.results.packets)
        process.send_signal(signal.SIGCONT)
        self.daemons[name].wait_said("no more")
        self.wait_frames(0, more=RATE)
        self.assertGreater(len(self.results.packets), sent)
        again = self.hold_packets()
        c.note(f"test_cluster_outlets: stopped for 4 s: {again} frames came again")

    def test_recordings_of_each_term(self):
        """Handed over to and fro, by command and as they end: each recording has its terms' frames, and all of them together
        each frame of LOG."""
        self.begin()
        for term in range(1, 4):
            answer = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--socket",
                                     os.path.join(self.folder.name, self.owner(), "control.sock"), "cluster",
                                     "hand-over", "rig"], capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            cluster_world.wait_value(lambda: (newest := self.newest()) and newest.kind == "data" and newest.term > term, "the next term")
            self.wait_frames(0, more=RATE // 4)
        for _ in range(2):
            name = self.owner()
            self.daemons[name].signal(signal.SIGTERM)
            self.wait_frames(0, more=RATE // 2)
            self.daemons[name].wait()
            self.again(name)
        self.hold_packets()
        for name in ("a", "b"):
            self.daemons[name].stop()
        held = self.hold_recordings(("a", "b"))
        self.assertTrue((held[0] | held[1]).all(), "frames are in no recording")
        self.assertTrue(held[0].any() and held[1].any())


class Unacknowledged(cluster_standby.Standby):
    """The input comes by multicast, and goes on while the servers do not."""

    def start(self, name, text, sample_format="f32be", port=0, before=None):
        if name == "alone":
            return super().start(name, text, sample_format, port, before)
        text = text.replace("[cluster]\n", "[cluster]\nlease = 0.5 s\n")
        return super().start(name, text + OUTLETS.replace("{port}", str(self.results_port)), sample_format, port, before)

    def test_nothing_is_sent_for_longer_than_a_lease(self):
        """The server stands still: the owner sends for a lease, then nothing; and all of it, some frames once more, when the
        server goes on."""
        self.results_port = c.free_port()
        self.results = c.Results(self.results_port, FRAME)
        self.begin("a", keys="hold = 15 s\n")
        self.servers[0].signal(signal.SIGSTOP)
        before = len(self.results.packets)
        time.sleep(0.4)
        self.assertGreater(len(self.results.packets), before)
        time.sleep(1.1)
        sent = len(self.results.packets)
        time.sleep(1.5)
        self.assertEqual(len(self.results.packets), sent)
        self.servers[0].signal(signal.SIGCONT)
        self.wait_frames(0, more=3 * RATE)
        for _ in range(3):  # in a pause of the machine nothing is sent that could come again
            self.servers[0].signal(signal.SIGSTOP)  # longer than a lease, and the connection outlives it
            time.sleep(0.8)
            self.servers[0].signal(signal.SIGCONT)
            self.wait_frames(0, more=RATE)
        log = self.hold()
        time.sleep(0.5)
        again = hold_packets(self, log, self.results.finish(), stamp=None)
        self.assertGreater(again, 0)
        c.note(f"test_cluster_outlets: the server stopped for 3 s, then three times for 0.8 s: {again} frames came again")


if __name__ == "__main__":
    unittest.main()
