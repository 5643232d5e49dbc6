#!/usr/bin/python3
# timeout: 400
# long: yes, each change takes seconds; what it guards in check is test_cluster_changes
# parallel: yes
# takes: 44 s CPU in 110 s
# threads: yes
"""Partitions whose filter, gains and mutes change while their owners are killed, stopped and made to hand over, before,
in and just behind each change: LOG holds the samples of a worker that nobody disturbed."""
import signal
import time
import unittest

from cluster_world import HOP, RATE
from test_cluster_changes import World

FADE = ("--how", "fade", "--fade", "400ms")
# what is changed, how many frames ahead, and how far behind its frame LOG is when the owner dies: None: at once
SEQUENCE = (
    (("filter", "rig", "g", *FADE), 2000, None),
    (("gain", "rig", -3), 1000, None),
    (("filter", "rig", "long", *FADE), 3000, 2500),  # in the fade, with a larger ring
    (("mute", "rig", "--output", 1), 1000, 0),
    (("filter", "rig", "f", "--how", "clear"), 1000, HOP // 2),  # history is still silence
    (("mute", "rig", "off", "--output", 1), 1000, None),
    (("filter", "rig", "long", "--how", "hard"), 2000, 100),  # back to more history than the ring holds
    (("gain", "rig", 0, "--output", 2), RATE // 2, None),
    (("filter", "rig", "g", *FADE), 1000, 7000),
)


class Kills(World):
    def sequence(self, end):
        frames = []
        for words, ahead, behind in SEQUENCE:
            frames.append(self.change(*words, ahead=ahead + 2 * RATE))  # time to prepare it on a busy machine
            if behind is not None:
                self.wait_frames(frames[-1] + behind)
            end()
            self.wait_frames(frames[-1] + 9000)  # a fade has 8000
        got, records = self.hold_both(frames[-1] + RATE)
        self.hold_records(records, frames)
        return got, records

    def test_an_owner_is_killed_around_each_change(self):
        self.begin_both()
        _, records = self.sequence(lambda: self.restart(self.kill_owner()))
        self.assertEqual(sum(record.kind == "take" for record in records), len(SEQUENCE) + 1)

    def test_an_owner_hands_over_around_each_change(self):
        self.begin_both()

        def hand_over():
            self.assertEqual(self.ctl(self.owner(), "cluster", "hand-over", "rig").returncode, 0)
        _, records = self.sequence(hand_over)
        self.assertGreaterEqual(sum(record.kind == "release" for record in records), len(SEQUENCE))

    def test_an_owner_stands_still_around_each_change(self):
        """What it still holds of the change is of no use when it goes on: it takes what the log says by then."""
        self.begin_both()

        def stand_still():
            owner = self.owner()
            self.daemons[owner].process.send_signal(signal.SIGSTOP)
            time.sleep(2)
            self.daemons[owner].process.send_signal(signal.SIGCONT)
            self.daemons[owner].wait_said("no more")
        self.sequence(stand_still)

    def test_the_only_worker_is_killed(self):
        """Whoever is started next finds the change in the log, whatever record that ends with."""
        self.begin_both(("a",))

        def anew():
            name = self.kill_owner()
            time.sleep(1.5)
            self.restart(name)
        self.sequence(anew)


if __name__ == "__main__":
    unittest.main()
