#!/usr/bin/python3
# long: yes, faults that take seconds; what it guards in check is test_cluster_two_gateways
# takes: 4 s CPU in 60 s
"""Two gateways that receive one rig by multicast (cluster_gateways), each of them and the server on a host of its own
(network_world): real multicast through a bridge, and hosts that are cut off from rig and server at once."""
import time
import unittest

import cluster_gateways
import nats_servers
import network_world
from cluster_world import RATE


class Hosts(cluster_gateways.Gateways):
    @classmethod
    def setUpClass(cls):
        lacks = network_world.missing()
        if lacks:
            raise unittest.SkipTest(lacks)
        cls.network = network_world.Network(1)
        cls.addClassCleanup(cls.network.close)
        cls.at = {name: cls.network.host(name) for name in ("s0", "g", "h", "alone", "a")}

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

    def test_cut_off(self):
        """From rig and server: taken for dead after a lease, refused when it is back, and the one that waits from then on."""
        self.begin(seconds=20)
        self.wait_holds("h")
        self.cut_off("g", 5)
        self.wait_frames(0, more=RATE)
        self.daemons["g"].wait_said("owns the raw of partition rig no more")
        self.daemons["g"].wait_said("h appends the raw of partition rig: this gateway waits")
        time.sleep(1.5)
        self.kill("h")
        self.wait_frames(0, more=RATE)
        raw = self.hold_raw()
        self.assertEqual(self.takes(raw), 3)
        self.note("cut off for 5 s, then the other one killed", raw)

    def test_the_one_that_waits_was_cut_off(self):
        """For longer than `max gap`, and long ago: it goes on like any other, in the same epoch."""
        self.begin(seconds=14)
        self.cut_off("h", 3)
        time.sleep(4)
        self.assertEqual(self.gateway(), "g")
        self.kill("g")
        self.wait_frames(0, more=RATE)
        raw = self.hold_raw()
        self.assertEqual(self.takes(raw), 2)
        self.note("the other one cut off before, then killed", raw)


if __name__ == "__main__":
    unittest.main()
