#!/usr/bin/python3
# parallel: yes
# threads: yes
# long: also, owners killed, frozen and stopped in order, at random
# timeout: 300
# takes: 4 s CPU in 10 s
# takes-long: 60 s CPU in 120 s
"""Events of analyses of a partition: LOG holds each once and in order, to the byte those of a worker that nothing happened
to, whatever becomes of the owners. The order of faults is another one in every run; CONVOLVD_TEST_SEED, which a failure
prints, brings it again."""
import os
import random
import unittest

import cluster_events
import convolvd as c
from cluster_world import RATE

LONG = os.environ.get("CONVOLVD_TEST_LONG")
SEED = int(os.environ.get("CONVOLVD_TEST_SEED") or random.SystemRandom().randrange(1 << 32))


class EventsOfAPartition(cluster_events.Events):
    def see(self, log, least):
        count = self.hold_events(log)
        takes = sum(record.kind == "take" for record in log)
        c.note(f"test_cluster_events: {count} events, {takes} terms, longest standstill {self.standstill(log):.2f} s: "
               "lost = doubled = wrong = 0")
        self.assertGreater(count, least)

    def test_a_worker_killed(self):
        self.begin(text=self.worker())
        self.wait_frames(0, more=RATE)
        self.kill()
        self.see(self.end_of_input(), 100)

    @unittest.skipUnless(LONG, "long")
    def test_owners_killed_frozen_and_stopped(self):
        rng = random.Random(SEED)
        self.begin(text=self.worker())
        faults = 3 * [self.kill, self.freeze, self.hand_over]
        rng.shuffle(faults)
        for fault in faults:
            with self.subTest(seed=SEED, fault=fault.__name__):
                self.wait_frames(0, more=rng.randrange(RATE // 10, 2 * RATE))
                fault()
        self.see(self.end_of_input(), 1000)


if __name__ == "__main__":
    unittest.main()
