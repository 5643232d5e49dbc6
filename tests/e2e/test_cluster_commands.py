#!/usr/bin/python3
# parallel: yes
# takes: 5 s CPU in 20 s
"""The five minutes of docs/cluster.md as a new user has them: the page's own server, gateway and workers, in order, with
other addresses and a lower rate; then its lines of `convolvctl cluster`, with three servers as they say."""
import os
import re
import shlex
import signal
import subprocess
import threading
import unittest

import convolvd as c
import nats_servers
from test_docs import lines, read

PAGE = "docs/cluster.md"
RATE = "20 kHz"


class Commands(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder, self.port = folder.name, c.free_port()
        blocks = re.findall(r"```ini\n(.*?)```", read(PAGE), re.DOTALL)
        self.assertEqual(len(blocks), 5)
        self.gateway, self.worker, multicast, stream_of_two, outlets = blocks
        cluster, _, filters = self.worker.partition("[stream")
        self.multicast = cluster + multicast + "[filter" + filters.partition("[filter")[2].partition("[sink")[0]
        self.one_of_two = cluster + stream_of_two + self.gateway[self.gateway.index("[filter"):]
        self.with_outlets = self.worker + outlets.replace("/srv", self.folder)
        self.commands = lines(PAGE)

    def command(self, begin):
        found = [line for line in self.commands if line.startswith(begin)]
        self.assertEqual(len(found), 1, begin)
        return found[0]

    def here(self, text, servers):
        """With addresses of this test, and a signal that two cores of a test machine can compute beside others."""
        for old, new in (("nats://192.0.2.1:4222", servers), ("*:5004", f"127.0.0.1:{self.port}"), ("1 MHz", RATE),
                         ("eth1", "lo"), ("239.1.2.3:5004", f"239.77.9.2:{self.port}"), ("95 kHz", "2 kHz"), ("300 kHz", "6 kHz"), ("60 kHz", "1 kHz")):
            text = text.replace(old, new)
        return text

    def start(self, name, text, servers):
        folder = f"{self.folder}/{name}"
        os.makedirs(folder)
        text = self.here(text, servers).replace("[cluster]\n", f"[cluster]\nidentity = {name}\n")
        daemon = c.Daemon(folder, text)
        self.addCleanup(daemon.kill)
        return daemon

    def run_line(self, line):
        done = subprocess.run(shlex.split(line), cwd=self.folder, capture_output=True, text=True, check=False, timeout=c.PATIENCE_S,
                              env={**os.environ, "PATH": c.BUILD + ":" + os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_the_configurations_are_accepted(self):
        for name, text in (("gateway", self.gateway), ("worker", self.worker), ("multicast", self.multicast),
                           ("one-of-two", self.one_of_two), ("with-outlets", self.with_outlets)):
            with open(f"{self.folder}/{name}.conf", "w", encoding="utf-8") as file:
                file.write(text)
            self.run_line(f"convolvd --check {name}.conf")

    def test_input_by_multicast(self):
        """The page's stream and config/standby.conf, each with two workers, of which one is killed."""
        for number, text in enumerate((self.multicast, read("config/standby.conf"))):
            with nats_servers.Servers(1) as servers:
                workers = [self.start(f"{name}{number}", text, servers.urls) for name in "ab"]
                c.wait_for(lambda: any("owns the log" in worker.output() for worker in workers), "an owner")
                owner = next(worker for worker in workers if "owns the log" in worker.output())
                rig = threading.Thread(target=c.rig, args=(self.folder, self.port, "--to", f"239.77.9.2:{self.port}", "--interface",
                                                           "lo", "--rate", 20000, "--channels", 4, "--signal", "noise", "--frames", 80000))
                rig.start()
                c.wait_for(lambda: owner.stream("rig1")["sinks"][0]["partition"]["appended"] > 10, "results")
                owner.kill()
                other = next(worker for worker in workers if worker is not owner)
                self.wait_owns(other)
                rig.join()
                c.wait_for(lambda: other.stream("rig1")["sinks"][0]["partition"]["lag_ns"] is not None, "results of the other")
                self.assertGreater(other.stream("rig1")["frames_in"]["received"], 20000)
                other.kill()

    def test_five_minutes(self):
        port, = nats_servers.free_ports(1)
        line = self.command("nats-server -js").replace("/var/lib/nats", f"{self.folder}/nats") \
            .replace("192.0.2.1", "127.0.0.1").replace("4222", str(port)).replace("nats-server", nats_servers.SERVER)
        server = subprocess.Popen(shlex.split(line), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        url = f"nats://127.0.0.1:{port}"
        c.wait_for(lambda: self.answers(port), "the server")
        self.start("gateway", self.gateway, url).wait_said("owns the raw of partition rig1 from term 1 on")
        workers = {name: self.start(name, self.worker, url) for name in ("a", "b")}
        first, second = self.in_order(workers)
        # Not before they are ready, or the first has computed all of it when it is killed.
        rig = threading.Thread(target=c.rig, args=(self.folder, self.port, "--format", "L16", "--rate", 20000, "--channels", 4,
                                                   "--signal", "noise", "--frames", 120000))
        rig.start()
        self.addCleanup(rig.join)
        c.wait_for(lambda: self.appended(workers[first]) > 5000, "results in LOG")
        workers[first].signal(signal.SIGKILL)
        self.wait_owns(workers[second])
        c.wait_for(lambda: self.appended(workers[second]) > 5000, "results of the second worker")
        with open(f"{self.folder}/worker.conf", "w", encoding="utf-8") as file:
            file.write(self.here(self.worker, url))
        # This server knows no users: no credentials.
        said = self.run_line(self.command("convolvctl cluster --config").replace(" --credentials administrator", ""))
        self.assertRegex(said, rf"rig1 +log.*\b{second}\b")

    @staticmethod
    def wait_owns(worker):
        """From a term behind the first one: where the machine pauses for longer than a lease, the owner changes more often."""
        c.wait_for(lambda: re.search(r"owns the log of partition rig1 from term ([2-9]|\d\d)", worker.output()), "an owner after the first")

    def in_order(self, workers):
        """Names: the one that owns LOG first, the other."""
        def owners():
            return [name for name, worker in workers.items() if "owns the log of partition rig1 from term 1 on" in worker.output()]
        c.wait_for(owners, "an owner")
        return sorted(workers, key=lambda name: name not in owners())

    @staticmethod
    def appended(worker):
        return worker.stream("rig1")["sinks"][0]["delivered"]

    @staticmethod
    def answers(port):
        try:
            nats_servers.Client(port).close()
            return True
        except OSError:
            return False

    def test_logs_on_three_servers(self):
        servers = nats_servers.Servers(3).__enter__()
        self.addCleanup(servers.__exit__)
        servers.ready()
        with open(f"{self.folder}/worker.conf", "w", encoding="utf-8") as file:
            file.write(self.here(self.worker, servers.urls))
        line = self.command("convolvctl cluster create").replace(" --credentials administrator", "")

        def created():
            try:
                self.run_line(line)
            except AssertionError as error:
                if "no suitable peers" not in str(error):
                    raise
                return False  # a leader that has not heard of all servers yet
            return True
        c.wait_for(created, "three servers that know each other", pause_s=0.5)
        with nats_servers.Client(servers[0].port) as client:
            for kind in ("raw", "log"):
                config = client.api(f"STREAM.INFO.convolvd:rig1:{kind}", {})["config"]
                self.assertEqual(config["num_replicas"], 3, kind)


if __name__ == "__main__":
    unittest.main()
