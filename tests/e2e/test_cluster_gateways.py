#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 16 s
"""A gateway that is killed and started again, also after RAW has become too old for its window, and two for one
partition: RAW goes on with an epoch of its own, no frame stands in it twice, and LOG has all that RAW has."""
import os
import time
import unittest
import unittest.mock

import cluster_world
from cluster_world import GATEWAY, RATE, TAPS, WORKER


class Gateways(cluster_world.Cluster):
    def setUp(self):
        super().setUp()
        self.dropped = {"raw": [], "log": []}  # records that the logs had once

    def kill(self, name):
        process = self.daemons[name].process
        process.kill()
        process.wait()

    def state(self, kind):
        with self.client() as client:
            return client.state(f"convolvd:rig:{kind}")

    def records(self, kind, first=1):
        return self.dropped[kind] + super().records(kind, max(first, self.state(kind)["first_seq"]))

    def drop_all(self, kind):
        """Until the log has no record any more; from then on it keeps them."""
        cluster_world.wait_value(lambda: self.state(kind)["messages"] == 0, f"an empty {kind}")
        stream = f"convolvd:rig:{kind}"
        with self.client() as client:
            config = {**client.api(f"STREAM.INFO.{stream}", {})["config"], "max_age": 0}
            self.assertNotIn("error", client.api(f"STREAM.UPDATE.{stream}", config))

    def wait_epoch(self, epoch):
        return cluster_world.wait_value(lambda: (n := self.newest()) and n.epoch == epoch and n.next > RATE // 2 and n,
                                        f"epoch {epoch} in LOG")

    def begin_and_kill(self, *names, window=""):
        self.server()
        self.start("gateway", GATEWAY + window)
        self.start("a", WORKER + window)
        self.wait_frames(RATE // 2)
        for name in names:
            self.kill(name)
        time.sleep(0.3)
        self.dropped = {kind: super(Gateways, self).records(kind) for kind in self.dropped if window}

    def test_killed_and_started_again(self):
        self.begin(workers=("a",))
        for epoch in (1, 2):
            self.kill("gateway")
            killed_ns = time.time_ns()
            self.start("gateway", GATEWAY)
            self.wait_epoch(epoch)
        log = [record for record in self.hold() if record.kind == "data"]
        self.still_since(log, killed_ns, "gateway killed and started at once", 3)
        raw = [record for record in self.records("raw") if record.kind == "data"]
        self.assertEqual([record.epoch for record in raw if record.first_missing == 0], [0, 1, 2])
        for epoch in (0, 1):  # with the tail behind the last frame of RAW
            self.assertEqual([record.next for record in log if record.epoch == epoch][-1],
                             [record.next for record in raw if record.epoch == epoch][-1] + TAPS - 1)

    def test_gone_for_longer_than_the_window(self):
        self.begin_and_kill("gateway", window="window = 2 s\n")
        self.dropped["log"] = []
        with self.client() as client:  # only RAW becomes too old
            stream = "convolvd:rig:log"
            client.api(f"STREAM.UPDATE.{stream}", {**client.api(f"STREAM.INFO.{stream}", {})["config"], "max_age": 0})
        self.drop_all("raw")
        last = self.state("raw")["last_seq"]
        started_ns = time.time_ns()
        self.start("gateway", GATEWAY)
        self.wait_epoch(last)  # none of those dropped can have had that number
        self.still_since(self.hold(), started_ns, "gateway away for longer than RAW's window, from its start on", 3, forgot=True)

    def test_all_gone_for_longer_than_the_window(self):
        self.begin_and_kill("gateway", "a", window="window = 2 s\n")
        self.drop_all("raw")
        self.drop_all("log")
        last = self.state("raw")["last_seq"]
        self.start("a", WORKER)
        self.start("gateway", GATEWAY)
        self.wait_epoch(last)
        self.dropped["log"] = []  # another chain
        self.hold()

    def test_raw_is_gone_with_its_server(self):
        """The gateway makes it anew and appends what its spool holds, under the same numbers: LOG, which was kept, goes on."""
        self.server()
        gateway = self.start("gateway", GATEWAY + "storage = memory\n")
        self.start("a", WORKER)
        self.wait_frames(RATE // 2)
        killed_ns = time.time_ns()
        self.servers[0].kill()
        self.servers[0].start()
        self.wait_frames(0, more=RATE)
        gateway.wait_said("from term 2 on")
        log = self.hold()
        self.assertEqual({record.epoch for record in log}, {0})
        self.still_since(log, killed_ns, "RAW gone with its server, which is back at once", 2.5)

    def test_raw_is_made_anew_in_other_records(self):
        """Nobody computes meanwhile: RAW is then longer than it was, and the worker's next frame lies far before the record from
        which LOG says to read on."""
        self.server()
        self.start("gateway", GATEWAY + "storage = memory\n")
        worker = self.start("a", WORKER)
        self.wait_frames(RATE // 2)
        worker.kill()
        before = self.newest("raw").sequence
        self.servers[0].kill()
        self.servers[0].start()
        cluster_world.wait_value(lambda: (newest := self.newest("raw")) and newest.sequence > before + 10, "RAW made anew")
        self.start("b", WORKER)
        self.wait_frames(0, more=RATE)
        self.assertEqual({record.epoch for record in self.hold()}, {0})

    def test_raw_is_gone_and_the_gateway_is_started_anew(self):
        """LOG was kept: with a state directory the gateway goes on behind the epochs that it has had, and no frame is taken
        for one that LOG has."""
        state = os.path.join(self.folder.name, "state")
        os.mkdir(state)
        self.server()
        self.start("a", WORKER)
        with unittest.mock.patch.dict(os.environ, STATE_DIRECTORY=state):
            gateway = self.start("gateway", GATEWAY + "storage = memory\n")
            self.wait_frames(2 * RATE)
            gateway.stop()
            self.servers[0].kill()
            self.servers[0].start()
            started_ns = time.time_ns()
            self.start("gateway", GATEWAY + "storage = memory\n")
        self.wait_epoch(1)
        log = [record for record in self.records("log") if record.kind == "data"]
        second = [record for record in log if record.epoch == 1]
        self.assertEqual((second[0].first_missing, second[0].first), (0, 0))
        self.assertEqual({record.epoch for record in log}, {0, 1})
        self.still_since([record for record in log if record.epoch == 1], started_ns, "RAW gone, gateway started anew, from its start on", 3, forgot=True)

    def test_a_second_gateway_waits(self):
        """… says so, and goes on when the first has gone, with an epoch of its own and nothing of before."""
        self.begin(workers=("a",))
        second = self.start("second", GATEWAY.replace("identity = gateway", "identity = second"))
        second.wait_said("gateway appends the raw of partition rig: this gateway waits")
        self.wait_frames(0, more=RATE)
        self.assertNotIn("owns the raw", second.output())
        ledger = second.stream("rig")["sinks"][0]
        self.assertGreater(ledger["partition"]["repeated_frames"], RATE // 2)
        self.assertEqual(sum(ledger["dropped"].values()), 0)
        self.assertLess(ledger["pending"], RATE)
        before = len(self.records("raw"))
        killed_ns = time.time_ns()
        self.kill("gateway")
        self.wait_epoch(1)
        self.still_since(self.hold(), killed_ns, "gateway killed, a second one waits", 2.5)
        raw = self.records("raw")[before - 1:]
        gap = [(b.capture_ns - a.appended_ns) / 1e9 for a, b in zip(raw, raw[1:]) if b.kind == "data" and b.first_missing == 0]
        self.assertEqual(len(gap), 1)
        self.assertLess(abs(gap[0]), 2.0)  # not what the second had kept from before


if __name__ == "__main__":
    unittest.main()
