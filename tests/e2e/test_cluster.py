#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 3 s CPU in 8 s
"""Partitions: a gateway, workers and a real NATS server. Whatever dies, stops or comes back, LOG holds each
frame once, in order, with the samples that an undisturbed daemon computes from RAW: lost = doubled = wrong = 0."""
import json
import os
import subprocess
import unittest

import api_schema
import cluster_world
import convolvd as c
import nats_servers
from cluster_world import GATEWAY, RATE, WORKER


class Partitions(cluster_world.Cluster):
    def test_one_worker_computes_what_a_daemon_computes(self):
        self.begin(("a",))
        self.wait_frames(0, more=RATE)
        log = self.end_of_input()
        self.assertEqual(sum(record.kind == "take" for record in log), 1)

    def test_a_worker_killed(self):
        self.begin()
        self.kill_owners(1)
        self.see_in_status()
        log = self.hold()
        self.assertEqual(sum(record.kind == "take" for record in log), 2)
        self.compare_with_an_undisturbed_run(log)
        worst = self.standstill(log)
        c.note(f"test_cluster: worker killed: standstill {worst:.2f} s")
        self.hold_bar(worst, 2.0)

    def test_a_worker_that_comes_late_catches_up(self):
        """It waits for the log again and again; a block of its results is longer than a record."""
        self.server()
        fast = {"rate = {rate} Hz": "rate = 400 kHz", "block = {hop}": "block = 2048"}
        texts = []
        for text in (GATEWAY, WORKER + "message = 4 KiB\n"):
            for old, new in fast.items():
                text = text.replace(old, new)
            texts.append(text)
        gateway = self.start("gateway", texts[0])
        cluster_world.wait_value(lambda: (newest := self.newest("raw")) and newest.next > 200000, "RAW")
        gateway.stop()
        end = [record for record in self.records("raw") if record.kind == "data"][-1].next
        self.start("a", texts[1])
        cluster_world.wait_value(lambda: (newest := self.newest()) and newest.next == end + cluster_world.TAPS - 1, "the tail")
        self.assertEqual(len([record for record in self.hold() if record.kind == "take"]), 1)

    def see_in_status(self):
        """The status of whoever owns a log says so, and how long the log stood still before."""
        gateway, worker = (api_schema.check("sink", self.daemons[name].stream("rig")["sinks"][0])["partition"]
                           for name in ("gateway", self.owner()))
        for partition, log, term in ((gateway, "raw", 1), (worker, "log", 2)):
            self.assertEqual((partition["name"], partition["log"], partition["state"], partition["term"],
                              partition["takes"], partition["connected"]), ("rig", log, "owns", term, 1, True))
            self.assertGreaterEqual(partition["appended"], partition["acknowledged"])
            self.assertGreater(partition["acknowledged"], 0)
            self.assertLess(partition["lag_ns"], 10e9)
        self.assertTrue(worker["owner"].endswith(self.owner()), worker["owner"])
        self.assertIsNone(gateway["standstill_ns"])
        self.assertGreater(worker["standstill_ns"], 0)
        table = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--status", "--socket",
                                os.path.join(self.folder.name, self.owner(), "observe.sock")],
                               capture_output=True, text=True, timeout=30, check=True).stdout
        self.assertRegex(table, r"owns log rig, term 2 of \S+; connected; taken 1 times, \d+ records appended.*; lag \d+\.\d+ s;")

    def test_a_partition_handed_over(self):
        """The owner gives it up by command, and the other worker takes it; who does not own refuses."""
        self.begin()
        first = self.owner()
        other = "b" if first == "a" else "a"
        for name, partition, why in ((other, "rig", "does not own"), (first, "nobody", "no partition of that name")):
            refused = self.ctl(name, "cluster", "hand-over", partition)
            self.assertEqual((refused.returncode, why in refused.stderr), (1, True), refused.stderr)
        answer = self.ctl(first, "--json", "cluster", "hand-over", "rig")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(api_schema.check("answer.cluster-hand-over", json.loads(answer.stdout))["term"], 1)
        self.wait_frames(0, more=RATE // 2)
        self.assertEqual((self.owner(), self.newest().term), (other, 2))
        log = self.hold()
        self.assertIn("release", [record.kind for record in log])
        still = self.standstill(log)
        c.note(f"test_cluster: hand-over by command: standstill {still:.2f} s")
        self.hold_bar(still, 1.5)

    def cluster(self, *words):
        """convolvctl cluster at the servers: what it says, and its exit status."""
        config = os.path.join(self.folder.name, "cluster.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(GATEWAY.format(urls=self.servers.urls, rate=RATE, channels=2, hop=256))
        result = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "cluster", *words, "--config", config], capture_output=True,
                                text=True, timeout=30, check=False)
        return result.stdout + result.stderr, result.returncode

    def test_logs_made_and_listed(self):
        """An administrator makes the logs as sinks make theirs; then partitions, owners and lag are listed."""
        self.server()
        self.assertEqual(json.loads(self.cluster("--json")[0]), {"cluster": "convolvd", "partitions": {}, "workers": []})
        made = {"partition": "rig", "logs": ["convolvd:rig:raw", "convolvd:rig:log"]}
        self.assertEqual(json.loads(self.cluster("create", "rig", "--json")[0]), made)
        self.assertEqual(self.cluster("create", "rig"), ("convolvd:rig:raw is there\nconvolvd:rig:log is there\n", 0))
        said, status = self.cluster("create", "rig", "--storage", "memory")
        self.assertEqual((status, "is kept otherwise" in said), (1, True), said)
        self.assertIn("convolvd:rig2:log is there", self.cluster("create", "rig2", "--storage", "memory", "--window", "60 s")[0])
        self.assertEqual(self.configured("rig2", "log")["max_age"], 60 * 10 ** 9)
        by_hand = [self.configured("rig", kind) for kind in ("raw", "log")]
        with nats_servers.Client(self.servers[0].port) as client:
            for stream in ("rig:raw", "rig:log", "rig2:raw", "rig2:log"):
                client.api(f"STREAM.DELETE.convolvd:{stream}", {})
        self.start("gateway", GATEWAY)
        self.start("a", WORKER)
        self.wait_frames(RATE // 2)
        self.assertEqual([self.configured("rig", kind) for kind in ("raw", "log")], by_hand)
        listed = json.loads(self.cluster("--json")[0])["partitions"]["rig"]
        self.assertEqual([(listed[kind]["owner"], listed[kind]["answers"], listed[kind]["term"]) for kind in ("raw", "log")],
                         [("gateway", True, 1), ("a", True, 1)])
        self.assertLess(listed["lag_frames"], 5 * RATE)
        self.daemons.pop("a").kill()
        self.assertRegex(self.cluster()[0], r"rig +log  a \(gone\) +1 +0 +\d+ +\d+ ")

    def configured(self, partition, kind):
        with nats_servers.Client(self.servers[0].port) as client:
            return client.api(f"STREAM.INFO.convolvd:{partition}:{kind}", {})["config"]

    def test_an_owner_that_is_stopped_in_order_hands_over(self):
        self.begin()
        name = self.owner()
        self.daemons[name].stop()
        self.wait_frames(0, more=RATE // 2)
        log = self.hold()
        self.assertIn("release", [record.kind for record in log])
        still = self.standstill(log)
        c.note(f"test_cluster: hand-over by SIGTERM: standstill {still:.2f} s")
        self.hold_bar(still, 1.5)


if __name__ == "__main__":
    unittest.main()
