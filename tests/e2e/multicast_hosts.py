"""Daemons of a cluster and their server on hosts of their own (network_world), for tests whose input comes by
multicast: real multicast through a bridge, and hosts that are cut off from rig and server at once."""
import time
import unittest

import nats_servers
import network_world


class OnHosts:
    """Before a case of daemons on loopback (cluster_standby, cluster_gateways). HOSTS: their names; s0 has the server."""
    HOSTS = ()

    @classmethod
    def setUpClass(cls):
        lacks = network_world.missing()
        if lacks:
            raise unittest.SkipTest(lacks)
        cls.network = network_world.Network(1)
        cls.addClassCleanup(cls.network.close)
        cls.at = {name: cls.network.host(name) for name in cls.HOSTS}

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
