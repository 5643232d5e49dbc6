#!/usr/bin/python3
# parallel: yes
# takes: 3 s CPU in 10 s
"""Who takes a partition: a worker without room does not, nor one that is configured otherwise while others are there;
a partition is handed to a worker by name, and straight back."""
import json
import os
import subprocess
import time
import unittest

import api_schema
import cluster_world
import convolvd as c
from cluster_world import RATE, WORKER

FULL = WORKER.replace("identity = {name}", "identity = {name}\ncapacity = 0 %")
OTHER = WORKER.replace("type = nats\nstream", "type = nats\nmessage = 8 KiB\nstream")


class Candidates(cluster_world.Cluster):
    def partition(self, name):
        return api_schema.check("sink", self.daemons[name].stream("rig")["sinks"][0])["partition"]

    def workers(self):
        """As convolvctl lists them: name → what they tell."""
        said = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--json", "cluster", "--config", self.daemons["a"].path],
                              capture_output=True, text=True, timeout=30, check=True)
        return {worker["worker"]: worker for worker in json.loads(said.stdout)["workers"]}

    def test_full_and_other_workers_do_not_stand(self):
        self.begin(("a",))
        self.start("b", FULL)
        self.start("d", OTHER)
        self.daemons["d"].wait_said("does not stand for partition rig")
        cluster_world.wait_value(lambda: self.partition("b")["workers"] == 2, "b to hear of a")
        b, d = self.partition("b"), self.partition("d")
        self.assertEqual((b["standing"], b["capacity"], d["standing"], d["workers"]), ("full", 0, "other configuration", 1))
        listed = self.workers()
        self.assertEqual(set(listed), {"a", "b", "d"})
        self.assertEqual((listed["b"]["room"], listed["a"]["config"] == listed["b"]["config"],
                          listed["a"]["config"] == listed["d"]["config"]), (False, True, False))
        for worker, why in (("b", "has no room"), ("d", "no other worker"), ("a", "no other worker")):
            refused = self.ctl("a", "cluster", "hand-over", "rig", worker)
            self.assertEqual((refused.returncode, why in refused.stderr), (1, True), refused.stderr)
        self.daemons["a"].process.kill()
        self.daemons["a"].process.wait()
        time.sleep(3)
        self.assertEqual(self.newest().term, 1, "b has no room, and d another configuration than b")
        self.daemons.pop("b").stop()
        self.wait_frames(0, more=RATE // 2)
        self.assertEqual((self.newest().term, self.owner()), (2, "d"))
        self.hold()

    def test_handed_to_one_by_name_and_straight_back(self):
        self.begin()
        first = self.owner()
        other = "b" if first == "a" else "a"
        cluster_world.wait_value(lambda: all(self.partition(name)["workers"] == 2 for name in (first, other)), "both to meet")
        for term, (giver, taker) in enumerate([(first, other), (other, first), (first, other)], start=1):
            answer = self.ctl(giver, "--json", "cluster", "hand-over", "rig", taker)
            self.assertEqual((answer.returncode, json.loads(answer.stdout or "{}").get("term")), (0, term), answer.stderr)
            cluster_world.wait_value(lambda: self.newest().kind == "data" and self.newest().term > term, "the next term", 5)
            self.assertEqual(self.owner(), taker)
        self.wait_frames(0, more=RATE // 2)
        stills = self.standstills(self.hold())
        c.note("test_cluster_candidates: handed over three times, straight back: standstills "
               + " ".join(f"{still:.2f}" for still in stills) + " s")
        self.hold_bar(max(stills), 1.0)


if __name__ == "__main__":
    unittest.main()
