#!/usr/bin/python3
# long: yes, faults that take seconds; what it guards in check is test_cluster_standby
# parallel: waiting, leases and cut-off hosts, by clocks of seconds
# takes: 9 s CPU in 48 s
"""A partition whose input comes by multicast (cluster_standby), each worker and the server on a host of its own
(network_world): real multicast through a bridge, and hosts that are cut off from rig and server at once."""
import time
import unittest

import cluster_standby
import nats_servers
import network_world
from cluster_world import RATE


class Hosts(cluster_standby.Standby):
    @classmethod
    def setUpClass(cls):
        lacks = network_world.missing()
        if lacks:
            raise unittest.SkipTest(lacks)
        cls.network = network_world.Network(1)
        cls.addClassCleanup(cls.network.close)
        cls.at = {name: cls.network.host(name) for name in ("s0", "a", "b", "alone")}

    def server(self, count=1):
        self.servers = nats_servers.Servers(0)
        host = self.at["s0"]
        self.servers.all.append(nats_servers.Server(self.servers.folder, 4222, "s0", "", host.address(0), host.enter))
        self.servers.__enter__()
        self.addCleanup(self.servers.__exit__)
        return self.servers

    def start(self, name, text, sample_format="f32be", port=0, before=None):
        return super().start(name, text.replace("interface = lo", "interface = net0"), sample_format, port, self.at[name].enter)

    def send(self, *arguments, **more):
        super().send(*arguments, interface="br0", **more)

    def cut_off(self, name, seconds):
        self.at[name].pull(0)
        time.sleep(seconds)
        self.at[name].plug(0)

    def test_the_owner_is_cut_off(self):
        """From rig and server: taken for dead after a lease, and refused when it is back."""
        self.begin(seconds=14, keys="hold = 5 s\n")
        name = self.owner()
        self.cut_off(name, 5)
        self.wait_frames(0, more=RATE)
        self.daemons[name].wait_said("no more")
        log = self.hold()
        self.assertEqual(self.takes(log), 2)
        self.note("owner cut off, lease 1 s", log)

    def test_a_standby_was_cut_off(self):
        """For longer than `max gap`, and long ago: it takes over like any other, in the same epoch."""
        self.begin(seconds=14)
        name = self.owner()
        other = "b" if name == "a" else "a"
        self.cut_off(other, 3)
        time.sleep(4)
        self.assertEqual(self.owner(), name)
        self.kill(name)
        self.wait_frames(0, more=RATE)
        log = self.hold()
        self.assertEqual(self.takes(log), 2)
        self.note("standby cut off before, owner killed", log)


if __name__ == "__main__":
    unittest.main()
