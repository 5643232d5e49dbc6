"""NATS servers for tests: one, or three that form a cluster, on loopback ports of their own, and a client that
speaks the protocol itself, so that what a test asserts does not rest on what it tests."""
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import convolvd

SERVER = shutil.which("nats-server") or "/usr/sbin/nats-server"
NO_PEERS = 10005  # an error of JetStream's API: no suitable peers for placement


def free_ports(count):
    """Ports of TCP that nobody has now; a server that finds one taken ends, and start says so."""
    return [convolvd.free_port(socket.SOCK_STREAM) for _ in range(count)]


class Server:
    """One nats-server with JetStream and a folder of its own; `before` runs in its process first."""

    host, before = "127.0.0.1", None

    def __init__(self, folder, port, name="one", extra="", host=None, before=None, memory="1G", max_file="4G"):
        self.folder, self.port, self.name = folder, port, name
        self.host, self.before = host or self.host, before
        self.config = os.path.join(folder, f"{name}.conf")
        self.process = None
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f'server_name: "{name}"\nlisten: "{self.host}:{port}"\n'
                       f'jetstream {{ store_dir: "{folder}/{name}", max_mem: {memory}, max_file: {max_file} }}\n{extra}\n')

    @property
    def url(self):
        return f"nats://{self.host}:{self.port}"

    def start(self, wait=True):
        self.process = subprocess.Popen([SERVER, "-c", self.config, "-l", os.path.join(self.folder, f"{self.name}.log")],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=self.before)
        if wait:
            self.wait()
        return self

    def wait(self, seconds=10, tls=None):
        """Until it answers; with TLS it then refuses a client without a name, which is an answer too."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                with open(os.path.join(self.folder, f"{self.name}.log"), encoding="utf-8") as log:
                    raise AssertionError("nats-server ended:\n" + log.read()[-2000:])
            try:
                Client(self.port, tls=tls, host=self.host).close()
                return
            except PermissionError:
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(f"nats-server {self.name} does not answer on port {self.port}")

    def kill(self):
        self.signal(signal.SIGKILL)

    def signal(self, number):
        self.process.send_signal(number)
        if number != signal.SIGSTOP and number != signal.SIGCONT:
            self.process.wait(10)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


class Servers:
    """One server, or three that replicate to each other; a context manager."""

    def __init__(self, count=1, extra="", **more):
        self.folder = tempfile.mkdtemp(prefix="nats-")
        ports = free_ports(2 * count)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[count:])
        self.all = []
        for i in range(count):
            cluster = "" if count == 1 else \
                f'cluster {{ name: "test", listen: "127.0.0.1:{ports[count + i]}", routes: [{routes}] }}\n'
            self.all.append(Server(self.folder, ports[i], f"s{i}", cluster + extra, **more))

    def __enter__(self):
        for server in self.all:
            server.start(wait=False)
        for server in self.all:
            server.wait()
        return self

    def __exit__(self, *unused):
        for server in self.all:
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __getitem__(self, index):
        return self.all[index]

    @property
    def urls(self):
        return ", ".join(server.url for server in self.all)

    def ready(self):
        with Client(self[0].port) as client:
            client.wait_for_leader()
        return self


class Client:
    """As much of the protocol as tests need; blocking."""

    def __init__(self, port, tls=None, host="127.0.0.1", **connect):
        self.socket = socket.create_connection((host, port), timeout=5)
        self.buffer = b""
        try:
            self.greet(tls, connect)
        except Exception:
            self.socket.close()
            raise

    def greet(self, tls, connect):
        if not self.line().startswith(b"INFO"):
            raise OSError("no greeting")
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.inbox = f"_INBOX.test{os.getpid()}x{id(self):x}x{time.monotonic_ns():x}"
        self.count = 0
        options = {"verbose": False, "headers": True, "no_responders": True, "lang": "test", **connect}
        self.send(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
        while True:
            line = self.line()
            if line.startswith(b"PONG"):
                break
            if line.startswith(b"-ERR"):
                raise PermissionError(line.decode())
        self.subscribe(self.inbox + ".*", 1)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.socket.close()

    def more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise OSError("closed")
        self.buffer += data

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def send(self, data):
        self.socket.sendall(data)

    def errors_until_pong(self):
        """What the server has refused of what was sent, after a PING."""
        errors = []
        self.socket.settimeout(5)
        while not (line := self.line()).startswith(b"PONG"):
            if line.startswith(b"-ERR"):
                errors.append(line.decode())
        return errors

    def wait_for_leader(self, seconds=30):
        """Until JetStream has elected one."""
        until = time.monotonic() + seconds
        while "error" in self.api("INFO", {}, timeout=1):
            if time.monotonic() > until:
                raise AssertionError("the servers elect no leader")
            time.sleep(0.1)

    def subscribe(self, subject, number):
        self.send(f"SUB {subject} {number}\r\n".encode())

    def publish(self, subject, payload=b"", reply="", headers=None):
        if headers is None:
            self.send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
            return
        head = ("NATS/1.0\r\n" + "".join(f"{key}: {value}\r\n" for key, value in headers.items()) + "\r\n").encode()
        self.send(f"HPUB {subject} {reply} {len(head)} {len(head) + len(payload)}\r\n".encode() + head + payload + b"\r\n")

    def next(self, timeout=5):
        """(subject, reply, head, payload) of the next message; None when none comes."""
        self.socket.settimeout(timeout)
        try:
            while True:
                line = self.line()
                if line.startswith(b"PING"):
                    self.send(b"PONG\r\n")
                words = line.decode().split()
                if words[:1] not in (["MSG"], ["HMSG"]):
                    continue
                head = int(words[-2]) if words[0] == "HMSG" else 0
                size = int(words[-1])
                while len(self.buffer) < size + 2:
                    self.more()
                data, self.buffer = self.buffer[:size], self.buffer[size + 2:]
                reply = words[3] if len(words) == (6 if words[0] == "HMSG" else 5) else ""
                return words[1], reply, data[:head], data[head:]
        except TimeoutError:
            return None

    def request(self, subject, payload=b"", headers=None, timeout=5):
        self.count += 1
        reply = f"{self.inbox}.{self.count}"
        self.publish(subject, payload, reply, headers)
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            message = self.next(max(0.01, until - time.monotonic()))
            if message is None:
                return None
            if message[0] == reply:
                return message
        return None

    def api(self, verb, body, timeout=5):
        """An answer of JetStream's API; {"error": …} also where there is none."""
        message = self.request(f"$JS.API.{verb}", json.dumps(body).encode(), timeout=timeout)
        if message is None or not message[3]:
            return {"error": {"description": "no answer"}}
        return json.loads(message[3])

    def create(self, name, subject, storage="memory", replicas=1, **more):
        wanted = {"name": name, "subjects": [subject], "storage": storage, "num_replicas": replicas, "retention": "limits",
                  "discard": "old", "max_msgs": -1, "max_bytes": -1, "max_age": 0, **more}
        until = time.monotonic() + 15
        while True:
            answer = self.api(f"STREAM.CREATE.{name}", wanted, timeout=15)
            # A leader just elected has not heard of all servers yet.
            if answer.get("error", {}).get("err_code") != NO_PEERS or time.monotonic() > until:
                break
            time.sleep(0.1)
        assert "error" not in answer, answer
        return answer

    def append(self, subject, payload=b"", **headers):
        """The answer to an append; keys of `headers` with _ for -."""
        message = self.request(subject, payload, {key.replace("_", "-"): value for key, value in headers.items()})
        return json.loads(message[3]) if message and message[3] else None

    def message(self, stream, sequence):
        """The bytes of a stream's message."""
        answer = self.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence})
        return base64.b64decode(answer["message"].get("data", "")) if "message" in answer else None

    def state(self, stream):
        return self.api(f"STREAM.INFO.{stream}", {}).get("state")
