#!/usr/bin/python3
# timeout: 400
# long: yes, four daemons for a minute
# parallel: yes
# takes: 75 s CPU in 71 s
"""Twelve partitions and three workers: whoever comes last gets its share, and who leaves leaves it to the others; each
log holds each frame once."""
import time
import unittest

import cluster_world
import convolvd as c
from cluster_world import GATEWAY, WORKER

PARTITIONS = [f"p{n}" for n in range(12)]


def of_all(text):
    """The sections behind [cluster] once for each partition."""
    head, _, rest = text.partition("[stream rig]")
    rest = "[stream rig]" + rest
    streams, _, filters = rest.partition("[filter")
    filters, _, sinks = filters.partition("[sink")
    each = streams + "[sink" + sinks
    parts = [each.replace("[stream rig]", f"[stream {name}]").replace("stream = rig", f"stream = {name}")
             .replace("partition = rig", f"partition = {name}").replace("[sink raw]", f"[sink raw-{name}]")
             .replace("[sink log]", f"[sink log-{name}]") for name in PARTITIONS]
    return head + "[filter" + filters + "".join(parts)


class Share(cluster_world.Cluster):
    def owned(self, worker):
        """The partitions that the worker owns."""
        return {sink["partition"]["name"] for stream in self.daemons[worker].status()["streams"] for sink in stream["sinks"]
                if sink["partition"]["state"] == "owns"}

    def shares(self, workers):
        return {worker: self.owned(worker) for worker in workers}

    def wait_shares(self, workers, least, seconds):
        """Until every partition has one owner, and each worker `least` of them, for two seconds."""
        def shared():
            first = self.shares(workers)
            good = sorted(name for owned in first.values() for name in owned) == PARTITIONS_SORTED and \
                all(len(owned) >= least for owned in first.values())
            if not good:
                return None
            time.sleep(2)
            return first if self.shares(workers) == first else None
        return cluster_world.wait_value(shared, f"{least} partitions for each of {workers}", seconds)

    def test_workers_come_and_go(self):
        self.server()
        self.start("gateway", of_all(GATEWAY))
        self.start("a", of_all(WORKER))
        self.wait_shares(["a"], 12, 20)
        self.start("b", of_all(WORKER))
        self.start("c", of_all(WORKER))
        began = time.monotonic()
        three = self.wait_shares(["a", "b", "c"], 2, 60)
        c.note(f"test_cluster_share: 12 partitions of one worker among three after {time.monotonic() - began:.0f} s: "
               + ", ".join(f"{name} {len(owned)}" for name, owned in three.items()))
        self.daemons["c"].process.kill()
        self.daemons["c"].process.wait()
        two = self.wait_shares(["a", "b"], 2, 20)
        self.assertTrue(three["a"] <= two["a"] and three["b"] <= two["b"], "a partition moved that need not")
        self.daemons["gateway"].stop()  # twelve logs would grow faster than they are read
        for name in PARTITIONS:
            self.partition_name = name
            self.hold()


PARTITIONS_SORTED = sorted(PARTITIONS)

if __name__ == "__main__":
    unittest.main()
