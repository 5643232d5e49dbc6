#!/usr/bin/python3
# long: yes, servers elect a leader for seconds; what it guards in check is the rest of test_cluster
# parallel: yes
# takes: 3 s CPU in 14 s
"""Partitions on three servers, of which the one that leads the log is killed: the other two elect a leader, and
lost = doubled = wrong = 0."""
import time
import unittest

import cluster_world
import convolvd as c
from cluster_world import GATEWAY, RATE, WORKER


class Servers(cluster_world.Cluster):
    def test_the_leader_of_the_log_is_killed(self):
        self.server(3).ready()
        self.start("gateway", GATEWAY + "replicas = 3\n")
        for name in ("a", "b"):
            self.start(name, WORKER + "replicas = 3\n")
        self.wait_frames(RATE // 2)
        with self.client() as client:
            leader = client.api("STREAM.INFO.convolvd:rig:log", {})["cluster"]["leader"]
        ahead = self.newest().next
        killed_ns = time.time_ns()
        next(server for server in self.servers.all if server.name == leader).kill()
        self.wait_frames(ahead + 2 * RATE)
        log = self.hold()
        times = [record.appended_ns for record in log if record.kind == "data"]
        still = max(after - before for before, after in zip(times, times[1:]) if after > killed_ns) / 1e9
        takes = sum(record.kind == "take" for record in log)
        c.note(f"test_cluster_servers: leader of three killed: standstill {still:.2f} s, {takes - 1} takes after it")
        self.hold_bar(still, 20.0)


if __name__ == "__main__":
    unittest.main()
