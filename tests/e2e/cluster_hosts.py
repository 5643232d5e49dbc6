"""The daemons of a cluster and three servers, each on a host of its own (network_world): what is cut off sends into the
void, and nobody is told."""
import cluster_world
import nats_servers
import network_world

CLIENTS, ROUTES = 0, 1  # networks
PORT, ROUTE_PORT = 4222, 6222
WORKERS = ("a", "b", "c")
SERVERS = ("s0", "s1", "s2")


class Hosts(cluster_world.Cluster):
    def setUp(self):
        lacks = network_world.missing()
        if lacks:
            self.skipTest(lacks)
        super().setUp()
        network = network_world.Network(2)
        self.addCleanup(network.close)
        self.at = {name: network.host(name, (CLIENTS, ROUTES)) for name in SERVERS}
        self.at.update({name: network.host(name) for name in ("gateway", *WORKERS, "alone")})
        self.faulty = set()  # names of servers and daemons
        self.servers = nats_servers.Servers(0)
        self.addCleanup(self.servers.__exit__)
        routes = ", ".join(f'"nats://{self.at[name].address(ROUTES)}:{ROUTE_PORT}"' for name in SERVERS)
        for name in SERVERS:
            host = self.at[name]
            self.servers.all.append(nats_servers.Server(
                self.servers.folder, PORT, name, 'lame_duck_duration: "30s"\nlame_duck_grace_period: "1s"\n'
                f'cluster {{ name: "test", listen: "{host.address(ROUTES)}:{ROUTE_PORT}", routes: [{routes}] }}',
                host.address(CLIENTS), host.enter))
        self.servers.__enter__()
        with self.client() as client:
            client.wait_for_leader()

    def server_of(self, name):
        return self.servers[SERVERS.index(name)]

    def client(self):
        """Of a server that nothing is wrong with."""
        server = next(server for server in self.servers.all if server.name not in self.faulty)
        return nats_servers.Client(server.port, host=server.host)

    def start(self, name, text, *arguments, before=None, **more):
        return super().start(name, text + "replicas = 3\nwindow = 7200 s\n", *arguments, before=before or self.at[name].enter, **more)

    def cut_off(self, name, networks=None):
        for network in networks or self.at[name].networks:
            self.at[name].pull(network)

    def connect(self, name):
        for network in self.at[name].networks:
            self.at[name].plug(network)

    def wait_frames(self, frames, more=0, epoch=None):
        try:
            return super().wait_frames(frames, more, epoch)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def report(self):
        """What servers and daemons say when LOG does not go on."""
        lines = []
        for server in self.servers.all:
            with nats_servers.Client(server.port, host=server.host) as client:
                for kind in ("raw", "log"):
                    lines.append(f"{server.name}: {kind}: {client.api(f'STREAM.INFO.convolvd:rig:{kind}', {}, timeout=2)}")
        for name, daemon in self.daemons.items():
            lines.append(f"{name}: {daemon.process.poll()}")
            lines.extend(f"   {line}" for line in daemon.lines[-8:])
            if daemon.process.poll() is None:
                stream = daemon.stream("rig")
                lines.append(f"   {stream['datagrams']} {stream['sinks']}")
        return "\n".join(lines)
