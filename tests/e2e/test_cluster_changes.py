#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 4 s CPU in 14 s
"""Partitions whose filter, gains and mutes change while they run, on a real NATS server. A second partition has the same
input, and a worker that nobody disturbs: given the same commands at the same frames, both logs hold the same samples.
"""
import concurrent.futures
import json
import unittest

import numpy as np

import cluster_world
import convolvd as c
from cluster_world import CHANNELS, HOP, RATE, TAPS, GATEWAY, WORKER, wait_value

CALM_SINK = """[sink calm]
type = nats
stream = rig
partition = calm
record = input
message = 4 KiB
"""

FADE = 300 * RATE // 1000

FILTERS = """[filter g]
type = file
path = {folder}/g.npy
[filter long]
type = file
path = {folder}/long.npy
"""

COMPILES = GATEWAY[:GATEWAY.index("[sink raw]")].replace("filter = through", "filter = long")


class World(cluster_world.Cluster):
    """A gateway that writes RAW of two partitions; one of them is computed by a worker that nobody disturbs."""

    def setUp(self):
        super().setUp()
        np.save(f"{self.folder.name}/g.npy", c.random_taps(11, TAPS))
        np.save(f"{self.folder.name}/long.npy", c.random_taps(12, 5 * TAPS))

    def begin_both(self, workers=("a", "b")):
        self.server()
        # Kernels that no cache has take seconds to compile, and a change that names a frame would come too late.
        self.start("compiles", COMPILES + FILTERS)
        self.daemons.pop("compiles").stop()
        for name in workers:
            self.start(name, WORKER + FILTERS)
        self.start("calm", WORKER.replace("partition = rig", "partition = calm") + FILTERS)
        self.start("gateway", GATEWAY + CALM_SINK)
        self.wait_frames(RATE // 2)

    def restart(self, name):
        self.start(name, WORKER + FILTERS)

    def change(self, *words, ahead=RATE):
        """The same command for both partitions, at one frame ahead, which it returns."""
        def caught_up():
            log = self.newest()
            return log if self.newest("raw").next - log.next < RATE // 4 else None
        # An owner that still works off what a standstill left takes seconds of frames in a moment.
        frame = wait_value(caught_up, "an owner that has caught up").next + ahead

        def ask(whom):
            result = self.ctl(whom(), "--json", *words, "--frame", frame)
            # One that stood still for a lease meanwhile has lost the partition, and says to whom.
            return None if "not this daemon" in result.stderr + result.stdout else result
        with concurrent.futures.ThreadPoolExecutor() as pool:  # neither waits for the other's plan
            results = list(pool.map(lambda whom: wait_value(lambda: ask(whom), "an owner that takes the change"),
                                    (self.owner, lambda: "calm")))
        for result in results:
            self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
            self.assertEqual(json.loads(result.stdout)["frame"], frame)
        return frame

    def kill_owner(self):
        name = self.owner()
        self.daemons[name].process.kill()
        self.daemons[name].process.wait()
        return name

    def samples_of(self, partition):
        self.partition_name = partition
        records = self.records("log")
        self.partition_name = "rig"
        return np.concatenate([np.frombuffer(r.samples, "<f4").reshape(-1, CHANNELS) for r in records if r.kind == "data"]), records

    def hold_both(self, frames):
        """Both logs have `frames` frames, the same ones; returns them and the records of the disturbed one."""
        for partition in ("calm", "rig"):
            self.partition_name = partition
            self.wait_frames(frames)
        got, records = self.samples_of("rig")
        want, _ = self.samples_of("calm")
        at = 0
        for record in records:
            if record.kind == "data":
                self.assertEqual((record.first_missing, record.first), (at, at), "frames are lost or doubled")
                at = record.next
        both = min(len(got), len(want))
        self.assertGreaterEqual(both, frames)
        wrong = np.nonzero((got[:both] != want[:both]).any(axis=1))[0]
        runs = [(int(run[0]), int(run[-1])) for run in np.split(wrong, np.nonzero(np.diff(wrong) > 1)[0] + 1) if len(run)]
        takes = [(record.sequence, record.kind, record.next) for record in records if record.kind in ("take", "change")]
        self.assertEqual(runs[:20], [], f"{len(wrong)} frames differ from an undisturbed run; takes and changes: {takes}")
        return got[:both], records

    def hold_definition(self, got, parts):
        """parts: [(first frame, taps, gains)] in order: what the samples are; taps None: a fade."""
        x = self.signal_of(self.records("raw"))[0][:len(got)]
        for (first, taps, gains), until in zip(parts, [part[0] for part in parts[1:]] + [len(got)]):
            if taps is not None:
                want = c.convolve(x[:until], taps)[:until] * gains
                c.assert_within(got[first:until], want[first:until], x[:until], taps, what=f"frames {first} … {until}")

    def hold_records(self, records, changes):
        """One record of kind change for each, before the first frame that is computed with it."""
        told = [i for i, record in enumerate(records) if record.kind == "change"]
        self.assertEqual(len(told), len(changes))
        for i, frame in zip(told, changes):
            before = [record.next for record in records[:i] if record.kind == "data"]
            self.assertLessEqual(max(before, default=0), frame)


class Changes(World):
    def test_filter_gain_and_mute_change_and_the_owner_is_killed(self):
        self.begin_both()
        other = "b" if self.owner() == "a" else "a"
        refused = self.ctl(other, "gain", "rig", -6)
        self.assertEqual((refused.returncode, f"ask {self.host_of(self.owner())}" in refused.stderr + refused.stdout), (1, True),
                         refused.stderr + refused.stdout)
        unknown = self.ctl(self.owner(), "filter", "rig", "nobody")
        self.assertEqual((unknown.returncode, "no filter nobody" in unknown.stderr + unknown.stdout), (1, True), unknown.stderr)
        frames = []
        for words in (("gain", "rig", -6, "--output", 1), ("mute", "rig", "--output", 2)):
            frames.append(self.change(*words))
            self.wait_frames(frames[-1] + HOP)
        frames.append(self.change("filter", "rig", "g", "--how", "hard"))
        killed = self.kill_owner()  # the frame lies ahead
        self.wait_frames(frames[-1])
        self.restart(killed)
        frames.append(self.change("filter", "rig", "f", "--fade", "300ms"))
        self.wait_frames(frames[-1] + FADE // 3)
        self.kill_owner()
        got, records = self.hold_both(frames[-1] + FADE + RATE // 4)
        self.hold_records(records, frames)
        g = np.load(f"{self.folder.name}/g.npy")
        half = 10 ** (-6 / 20)
        self.hold_definition(got, [(0, self.taps, 1), (frames[0], self.taps, np.array([half, 1])),
                                   (frames[1], self.taps, np.array([half, 0])), (frames[2], g, np.array([half, 0])), (frames[3], None, None),
                                   (frames[3] + FADE, self.taps, np.array([half, 0]))])

    def host_of(self, name):
        return wait_value(lambda: self.daemons[name].stream("rig")["sinks"][0]["partition"]["owner"], "the owner's name")


if __name__ == "__main__":
    unittest.main()
