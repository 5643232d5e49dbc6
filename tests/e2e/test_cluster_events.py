#!/usr/bin/python3
# parallel: yes
# threads: yes
# long: also owners killed, frozen, stopped and told to hand over at random, logs that go back, multicast, input near full scale
# timeout: 300
# takes: 4 s CPU in 10 s
# takes-long: 41 s CPU in 73 s
"""Events of analyses of a partition: LOG holds each once and in order, to the byte those of a worker that nothing happened
to, whatever becomes of the owners. The order of faults is another one in every run; CONVOLVD_TEST_SEED, which a failure
prints, brings it again."""
import json
import os
import random
import time
import unittest

import cluster_events
import cluster_standby
import cluster_world
import convolvd as c
from cluster_world import RATE

LONG = os.environ.get("CONVOLVD_TEST_LONG")
SEED = int(os.environ.get("CONVOLVD_TEST_SEED") or random.SystemRandom().randrange(1 << 32))


class EventsOfAPartition(cluster_events.Events):
    analyses = cluster_events.ALL

    def see(self, log, least):
        count = self.hold_events(log)
        takes = sum(record.kind == "take" for record in log)
        c.note(f"test_cluster_events: {count} events, {takes} terms, longest standstill {self.standstill(log):.2f} s: "
               "lost = doubled = wrong = 0")
        self.assertGreater(count, least)

    def test_a_worker_killed(self):
        self.begin(text=self.worker())
        self.tap()
        self.wait_frames(0, more=RATE)
        self.kill()
        owner = self.owner()
        log = self.end_of_input()
        events = self.events(log)
        self.hold_counts(owner, log)
        self.read(events)
        files = self.files(events)
        self.assertTrue(all(files.values()), "a worker has written nothing")
        # What the one that was killed had not written yet is missing; the rest is there once.
        self.assertFalse(files["a"] & files["b"], "an event in the files of two workers")
        self.assertGreater(len(files["a"] | files["b"]), 0.9 * len(events["bursts"]))
        self.see(log, 100)

    @unittest.skipUnless(LONG, "long")
    def test_owners_killed_frozen_stopped_and_handing_over(self):
        rng = random.Random(SEED)
        self.begin(text=self.worker())
        faults = 3 * [self.kill, self.freeze, self.stop_in_order, self.hand_over]
        rng.shuffle(faults)
        for fault in faults:
            with self.subTest(seed=SEED, fault=fault.__name__):
                self.wait_frames(0, more=rng.randrange(RATE // 10, 2 * RATE))
                fault()
        self.see(self.end_of_input(), 1000)

    @unittest.skipUnless(LONG, "long")
    def test_input_near_full_scale(self):
        """LOG tells which frames rest on it, so that events are flagged whoever finds them."""
        self.begin(text=self.worker(), gateway=cluster_world.GATEWAY.replace("waveform = noise", "waveform = noise\namplitude = 0.24"))
        for _ in range(2):
            self.wait_frames(0, more=RATE)
            self.kill()
        log = self.end_of_input()
        flagged = [line for line in self.events(log)["shots"] if "saturated" in json.loads(line)["flags"]]
        self.assertTrue(0 < len(flagged) < len(self.events(log)["shots"]))
        self.see(log, 500)

    @unittest.skipUnless(LONG, "long")
    def test_a_log_that_goes_back(self):
        """The server comes back with what it had 3 s before: the owner goes on from an older checkpoint."""
        self.begin(text=self.worker())
        ahead = self.server_forgets(3)
        self.assertLess(self.newest().next, ahead)
        self.wait_frames(ahead + RATE)
        self.kill()
        self.see(self.end_of_input(), 1000)

    @unittest.skipUnless(LONG, "long")
    def test_nobody_for_a_while(self):
        """No worker is left for some seconds; the next one computes what RAW holds."""
        self.begin(("a",), text=self.worker())
        self.wait_frames(0, more=RATE)
        self.daemons["a"].process.kill()
        self.daemons.pop("a").process.wait()
        time.sleep(3)
        self.start("b", self.worker())
        self.wait_frames(0, more=4 * RATE)
        self.see(self.end_of_input(), 1000)


@unittest.skipUnless(LONG, "long")
class EventsByMulticast(cluster_standby.Standby, cluster_events.Events):
    """Without RAW, each worker has times of its own for what it has received; all else is the same."""
    analyses = cluster_events.ALL

    def start(self, name, text, sample_format="f32be", port=0, before=None):
        return super().start(name, text + self.analyses, sample_format, port, before)

    def without_times(self, line):
        event = json.loads(line)
        return {key: value for key, value in event.items() if key not in ("capture_ns", "arrival_ns", "clock_error_ns")}

    def test_owners_killed(self):
        self.begin()
        self.kill_owners(2)
        log = self.hold()
        self.partition_name = "rig"
        events = self.events(log)
        self.partition_name = "alone"
        alone = self.events(self.records("log"))
        self.assertEqual(sorted(events), sorted(alone))
        for name, lines in events.items():
            both = min(len(lines), len(alone[name]))
            self.assertGreater(both, 0.95 * len(alone[name]), name)
            for line, other in zip(lines[:both], alone[name][:both]):
                self.assertEqual(self.without_times(line), self.without_times(other), name)
        c.note(f"test_cluster_events: multicast: {sum(map(len, events.values()))} events, {self.takes(log)} terms")


if __name__ == "__main__":
    unittest.main()
