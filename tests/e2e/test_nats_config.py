#!/usr/bin/python3
# sanitizers: no
# parallel: yes
# takes: 1 s CPU in 6 s
"""The servers' configurations of config/nats, with other paths and ports: TLS and nothing else, one server and three,
and what each role may do."""
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import unittest

import numpy as np

from test_nats_log import TAP, Log
from nats_servers import Client, Server, free_ports

CONFIG = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "config", "nats")
ROLES = ("administrator", "gateway", "worker", "reader")
LOG, RAW = "convolvd.lab.vessel.log", "convolvd.lab.vessel.raw"


def certificates(folder):
    """A certificate authority, and one certificate for 127.0.0.1 of its own."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/server.key",
                    "-out", f"{folder}/server.pem"], check=True, stderr=subprocess.DEVNULL)
    shutil.copy(f"{folder}/server.pem", f"{folder}/ca.pem")


def open_and_count(path, words):
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as file:
        return file.read().count(words)


class Configured(Server):
    """A server with a file of config/nats."""

    def __init__(self, folder, name, file, port, route, routes):
        self.folder, self.name, self.port = folder, name, port
        self.config = os.path.join(folder, f"{name}.conf")
        self.process = None
        with open(os.path.join(CONFIG, file), encoding="utf-8") as example:
            text = example.read()
        for old, new in (("/etc/nats/", f"{folder}/"), ("/var/lib/nats", f"{folder}/{name}"), ("0.0.0.0:4222", f"127.0.0.1:{port}"),
                         ("0.0.0.0:6222", f"127.0.0.1:{route}"), ("server_name: nats-1", f"server_name: {name}")):
            text = text.replace(old, new)
        text = re.sub(r"routes: \[.*\]", f"routes: [ {', '.join(routes)} ]", text)
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(text)
        shutil.copy(os.path.join(CONFIG, "users.conf"), folder)


class Config(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="nats-config-")
        certificates(cls.folder)
        for role in ROLES:
            os.environ[f"NATS_{role.upper()}"] = f"{role}-secret"
        cls.servers = []

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def tearDown(self):
        for server in self.servers:
            server.stop()
            shutil.rmtree(os.path.join(self.folder, server.name), ignore_errors=True)
        self.servers.clear()

    def start(self, file, count):
        ports = free_ports(2 * count)
        routes = [f'"nats://127.0.0.1:{port}"' for port in ports[count:]]
        for i in range(count):
            self.servers.append(Configured(self.folder, f"nats-{i + 1}", file, ports[i], ports[count + i], routes).start(wait=False))
        for server in self.servers:
            server.wait(tls=self.context())

    def context(self):
        return ssl.create_default_context(cafile=f"{self.folder}/ca.pem")

    def client(self, role, server=0):
        return Client(self.servers[server].port, tls=self.context(), user=role, **{"pass": f"{role}-secret"})

    def refused(self, client, subject):
        """Whether the server says that the client may not publish there."""
        client.publish(subject)
        client.send(b"PING\r\n")
        return client.errors_until_pong() == [f"-ERR 'Permissions Violation for Publish to \"{subject}\"'"]

    def test_one_server(self):
        self.start("one-server.conf", 1)
        with self.assertRaises((OSError, ConnectionError)):
            Client(self.servers[0].port, user="worker", **{"pass": "worker-secret"})  # without TLS
        with self.assertRaises(OSError):
            Client(self.servers[0].port, tls=self.context(), user="worker", **{"pass": "wrong"})
        with self.assertRaises(OSError):
            Client(self.servers[0].port, tls=self.context())
        with self.client("administrator") as administrator, self.client("gateway") as gateway, \
                self.client("worker") as worker, self.client("reader") as reader:
            administrator.create("lab:vessel:log", LOG, "file")
            gateway.create("lab:vessel:raw", RAW, "file")
            self.assertEqual(gateway.append(RAW, b"x")["seq"], 1)
            self.assertEqual(worker.append(LOG, b"x")["seq"], 1)
            self.assertEqual(reader.message("lab:vessel:log", 1), b"x")
            self.assertTrue(reader.api("CONSUMER.CREATE.lab:vessel:log.r-1", {
                "stream_name": "lab:vessel:log", "config": {"name": "r-1", "deliver_subject": "_INBOX.r", "ack_policy": "none"}})["config"])
            for client, subjects in (
                    (gateway, (LOG, "convolvd.lab.other.raw", "$JS.API.STREAM.CREATE.lab:vessel:log")),
                    (worker, (RAW, "convolvd.lab.other.log", "$JS.API.STREAM.CREATE.lab:vessel:raw")),
                    (reader, (RAW, LOG, f"{LOG}.owner.1", "convolvd.lab.presence.x", "$JS.API.STREAM.CREATE.x",
                              "$JS.API.CONSUMER.CREATE.lab:vessel:raw.r-1"))):
                for subject in subjects + ("$JS.API.STREAM.DELETE.lab:vessel:log", "$JS.API.STREAM.PURGE.lab:vessel:log",
                                           "$JS.API.STREAM.UPDATE.lab:vessel:log", "$JS.API.STREAM.MSG.DELETE.lab:vessel:log",
                                           "$JS.API.STREAM.SNAPSHOT.lab:vessel:log"):
                    self.assertTrue(self.refused(client, subject), subject)
            # A candidate's question reaches the owner, whose answer reaches the candidate.
            worker.subscribe(f"{LOG}.owner.3", 9)
            with self.client("worker") as candidate:
                worker.send(b"PING\r\n")
                self.assertEqual(worker.errors_until_pong(), [])
                candidate.publish(f"{LOG}.owner.3", b"", f"{candidate.inbox}.q")
                worker.publish(worker.next()[1])
                self.assertEqual(candidate.next()[0], f"{candidate.inbox}.q")

    # What is tried, and by whom it may be done; what is here for nobody, nobody but the server may do.
    ATTEMPTS = (
        (RAW, "administrator gateway"), (LOG, "administrator worker"),
        ("convolvd.lab.other.raw", "administrator"), ("convolvd.lab.other.log", "administrator"),
        (f"{RAW}.owner.1", "administrator gateway"), (f"{LOG}.owner.1", "administrator worker"),
        ("convolvd.lab.presence.x", "administrator gateway worker"),
        ("$JS.API.STREAM.CREATE.lab:vessel:raw", "administrator gateway"),
        ("$JS.API.STREAM.CREATE.lab:vessel:log", "administrator"), ("$JS.API.STREAM.CREATE.lab:other:raw", "administrator"),
        ("$JS.API.STREAM.INFO.lab:vessel:raw", "administrator gateway worker"),
        ("$JS.API.STREAM.INFO.lab:vessel:log", "administrator worker reader"),
        ("$JS.API.STREAM.MSG.GET.lab:vessel:raw", "administrator gateway worker"),
        ("$JS.API.STREAM.MSG.GET.lab:vessel:log", "administrator worker reader"),
        ("$JS.API.STREAM.MSG.GET.lab:other:raw", "administrator"), ("$JS.API.STREAM.MSG.GET.lab:other:log", "administrator"),
        ("$JS.API.STREAM.NAMES", "administrator"), ("$JS.API.STREAM.LIST", "administrator"),
        ("$JS.API.CONSUMER.CREATE.lab:vessel:raw.x", "administrator worker"),
        ("$JS.API.CONSUMER.CREATE.lab:vessel:log.x", "administrator worker reader"),
        ("$JS.API.CONSUMER.CREATE.lab:other:log.x", "administrator"),
        ("$JS.API.STREAM.UPDATE.lab:vessel:raw", "administrator"), ("$JS.API.STREAM.UPDATE.lab:vessel:log", "administrator"),
        ("$JS.API.STREAM.MSG.DELETE.lab:vessel:raw", "administrator"), ("$JS.API.STREAM.MSG.DELETE.lab:vessel:log", "administrator"),
        ("$JS.API.STREAM.SNAPSHOT.lab:vessel:log", "administrator"), ("$JS.API.STREAM.RESTORE.lab:vessel:log", "administrator"),
        ("$JS.API.STREAM.LEADER.STEPDOWN.lab:vessel:log", "administrator"),
        ("$JS.API.STREAM.PEER.REMOVE.lab:vessel:log", "administrator"), ("$JS.API.META.LEADER.STEPDOWN", "administrator"),
        ("$SYS.REQ.SERVER.PING", ""), ("_INBOX.of.somebody.else", ""), ("anything", ""),
        ("$JS.API.STREAM.PURGE.lab:vessel:raw", "administrator"), ("$JS.API.STREAM.PURGE.lab:vessel:log", "administrator"),
        ("$JS.API.STREAM.DELETE.lab:vessel:raw", "administrator"), ("$JS.API.STREAM.DELETE.lab:vessel:log", "administrator"))

    def test_each_role_may_do_what_security_md_says(self):
        """The administrator last: what nobody else may remove is there until then."""
        self.start("one-server.conf", 1)
        with self.client("administrator") as administrator:
            administrator.create("lab:vessel:log", LOG, "file")
            administrator.create("lab:vessel:raw", RAW, "file")
            for role in ROLES[1:]:
                with self.client(role) as client:
                    done = {subject for subject, _ in self.ATTEMPTS if not self.refused(client, subject)}
                    self.assertEqual(done, {subject for subject, who in self.ATTEMPTS if role in who.split()}, role)
            for stream in ("lab:vessel:raw", "lab:vessel:log"):
                self.assertGreater(administrator.state(stream)["last_seq"], 0)
            done = {subject for subject, _ in self.ATTEMPTS if not self.refused(administrator, subject)}
            self.assertEqual(done, {subject for subject, who in self.ATTEMPTS if "administrator" in who.split()})
            self.assertIsNone(administrator.state("lab:vessel:log"))

    def ctl(self, role, *words):
        """convolvctl cluster as a user of the first server; (exit status, what it said)."""
        for name, text in (("credentials", f"{role}:{role}-secret\n"),
                           ("lab.conf", f"[cluster]\nname = lab\nservers = tls://127.0.0.1:{self.servers[0].port}\nidentity = me\n"
                                        f"ca = {self.folder}/ca.pem\n[stream s]\nsource = generator\nrate = 1 kHz\nfilter = f\n"
                                        "[filter f]\ntype = identity\n")):
            with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([os.path.join(os.path.dirname(TAP), "convolvctl"), "cluster", *words, "--config", f"{self.folder}/lab.conf",
                               "--credentials", f"{self.folder}/credentials"], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout or done.stderr

    def test_convolvctl_cluster(self):
        self.start("one-server.conf", 1)
        status, said = self.ctl("administrator", "create", "vessel")
        self.assertEqual((status, said.splitlines()[:2]), (0, ["lab:vessel:raw is there", "lab:vessel:log is there"]), said)
        status, said = self.ctl("administrator", "--json")
        self.assertEqual((status, list(json.loads(said)["partitions"])), (0, ["vessel"]), said)
        for words in (("--json",), ("create", "other")):
            status, said = self.ctl("worker", *words)
            self.assertNotEqual(status, 0, said)
        with self.client("administrator") as administrator:
            self.assertIsNone(administrator.state("lab:other:log"))

    def tap(self, credentials, *options):
        """convolv-tap at the first server, as a user; (exit status, what it said)."""
        path = f"{self.folder}/credentials"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{credentials}\n")
        done = subprocess.run([TAP, "--log", f"tls://127.0.0.1:{self.servers[0].port}/lab/vessel", "--frames", "500",
                               *(("--credentials", path) if credentials else ()), *options], capture_output=True, text=True, check=False,
                              timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_a_reader(self):
        """What the daemon's own connection makes of TLS, a certificate and a password."""
        self.start("one-server.conf", 1)
        with self.client("administrator") as administrator, self.client("worker") as worker:
            administrator.create("lab:vessel:log", LOG, "file")
            worker.append(LOG, b"no record")
            log = Log(worker, "vessel", np.ones((1, 500, 2), "<f4"), create=False)
            log.sequence = 1
            log.data(500)
            ca = f"{self.folder}/ca.pem"
            status, said = self.tap("reader:reader-secret", "--ca", ca)
            self.assertEqual(status, 0, said)
            self.assertIn("1 malformed", said)
            for credentials, options, why in (
                    ("reader:wrong", ("--ca", ca), f"refuses the user of {self.folder}/credentials: "),
                    ("gateway:gateway-secret", ("--ca", ca), "does not permit this user what it needs: Permissions Violation"),
                    ("reader:reader-secret", (), "no TLS with")):  # a certificate that nobody vouches for
                status, said = self.tap(credentials, "--wait", "1 s", *options)
                self.assertEqual(status, 2, said)
                self.assertIn("may this user read it", said)
                self.assertIn(why, said)
            self.assertIn("refuses a user without credentials", self.tap(None, "--wait", "1 s", "--ca", ca)[1])

    def refused_tap(self, name, password):
        """A server with the user reader:new, and a convolv-tap whose file has another password, after three refusals: libnats
        alone gives up after two."""
        folder = f"{self.folder}/{name}"
        os.mkdir(folder)
        server = Server(folder, free_ports(1)[0], extra=f"authorization {{ user: reader, password: {password} }}")
        self.servers.append(server)
        server.start()
        credentials = f"{folder}/credentials"
        with open(credentials, "w", encoding="utf-8") as file:
            file.write("reader:old\n")
        tap = subprocess.Popen([TAP, "--log", f"{server.url}/lab/vessel", "--credentials", credentials, "--frames", "500",
                                "--wait", "30 s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while open_and_count(os.path.join(folder, "one.log"), "authentication error") < 3 and tap.poll() is None:
            time.sleep(0.05)
        return server, credentials, tap

    def reads(self, server, password, tap):
        """The tap reads a log and ends."""
        with Client(server.port, user="reader", **{"pass": password}) as client:
            Log(client, "vessel", np.ones((1, 500, 2), "<f4")).data(500)
        out, error = tap.communicate(timeout=60)
        self.assertEqual(tap.returncode, 0, out + error)
        self.assertIn("no connection to NATS: 127.0.0.1:", error)

    def test_let_in_later(self):
        """The server learns the password of a user whom it has refused again and again."""
        server, _, tap = self.refused_tap("later", "new")
        server.stop()
        with open(server.config, encoding="utf-8") as file:
            text = file.read().replace("password: new", "password: old")
        with open(server.config, "w", encoding="utf-8") as file:
            file.write(text)
        server.start()
        self.reads(server, "old", tap)

    def test_credentials_corrected(self):
        """A file of credentials is read at each attempt, also one that was missing meanwhile."""
        server, credentials, tap = self.refused_tap("corrected", "new")
        os.remove(credentials)
        with open(credentials + ".new", "w", encoding="utf-8") as file:
            file.write("reader:new\n")
        os.rename(credentials + ".new", credentials)
        self.reads(server, "new", tap)

    def test_three_servers(self):
        self.start("three-servers.conf", 3)
        with self.client("administrator") as administrator:
            administrator.wait_for_leader()
            administrator.create("lab:vessel:log", LOG, "file", 3)
        with self.client("worker", 2) as worker:
            self.assertEqual(worker.append(LOG, b"x")["seq"], 1)
            self.assertEqual(len(worker.api("STREAM.INFO.lab:vessel:log", {})["cluster"]["replicas"]), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
