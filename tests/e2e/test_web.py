#!/usr/bin/python3
"""convolv-web over real HTTP and WebSocket: what it shows against what the generator sends, who may do what,
hostile requests, slow readers, and restarts of either process.

# timeout: 300
# sanitizers: yes
# parallel: yes
# takes: 3 s CPU in 36 s
"""
import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import numpy as np

import convolvd
import web_client
from web_client import Web, is_picture, is_type, receive, want

RATE, AMPLITUDE, FREQUENCY = 50000, 0.5, 1000


def stream(name="vessel", keys=""):
    return f"""
[stream {name}]
source = generator
rate = 50 kHz
channels = 4
waveform = sine
frequency = 1 kHz
amplitude = 500 mV
full scale = 1 V
block = 512 frames
filter = pass
{keys}
[filter pass]
type = lowpass
high = 10 kHz
transition = 2 kHz
"""


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 240))


def mark(folder, text):
    subprocess.run([os.path.join(convolvd.BUILD, "convolvctl"), "--socket", os.path.join(folder, "control.sock"), "mark",
                    text], check=True, capture_output=True, timeout=60)


def maps_of(process):
    with open(f"/proc/{process.process.pid}/maps", encoding="utf-8", errors="replace") as file:
        return file.read()


class World(unittest.TestCase):
    """One daemon and one convolv-web for all tests of a class."""
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.temporary = convolvd.temporary()
        cls.folder = cls.temporary.name
        page = os.path.join(cls.folder, "page")
        os.makedirs(os.path.join(page, "app"))
        for name, text in (("index.html", "<!doctype html>\n<title>x</title>"), ("app/main.js", "'use strict';"),
                           ("private.key", "secret")):
            with open(os.path.join(page, name), "w", encoding="ascii") as file:
                file.write(text)
        cls.page = page
        cls.daemon = convolvd.Daemon(cls.folder, f"[daemon]\nruntime directory = {cls.folder}\n" + stream())
        cls.web = Web(cls.folder, "--page", page, *cls.arguments)
        cls.web.wait_up()

    @classmethod
    def tearDownClass(cls):
        cls.web.signal(signal.SIGTERM)
        code = cls.web.wait()
        cls.web.kill()
        cls.daemon.kill()
        cls.temporary.cleanup()
        assert code == 0, f"convolv-web ended with {code}:\n{cls.web.output()}"


class Pages(World):
    def test_files(self):
        status, headers, body = self.web.request("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn(b"<!doctype html>", body)
        self.assertEqual(headers["content-type"], "text/html; charset=utf-8")
        policy = headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
            self.assertIn(part, policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(headers["x-content-type-options"], "nosniff")
        self.assertEqual(self.web.request("GET", "/", headers={"If-None-Match": headers["etag"]})[::2], (304, b""))
        status, headers, _ = self.web.request("GET", "/app/main.js")
        self.assertEqual((status, headers["content-type"]), (200, "text/javascript; charset=utf-8"))
        status, headers, body = self.web.request("HEAD", "/index.html")
        self.assertEqual((status, body), (200, b""))

    def test_nothing_else(self):
        for path in ("/private.key", "/app", "/app/", "/../convolvd.conf", "/%2e%2e/convolvd.conf", "/..%2fconvolvd.conf",
                     "/app/../../convolvd.conf", "//etc/passwd", "/index.html/", "/api", "/api/v1/", "/api/v1/nothing"):
            answer = self.web.raw(f"GET {path} HTTP/1.1\r\nHost: {self.web.host}\r\nConnection: close\r\n\r\n".encode())
            self.assertRegex(answer.split(b"\r\n")[0], rb"HTTP/1.1 40[0134] ", path)
            self.assertNotIn(b"[stream", answer)
            self.assertNotIn(b"secret", answer)

    def test_read_again(self):
        before = self.web.request("GET", "/app/main.js")[1]["etag"]
        with open(os.path.join(self.page, "app", "main.js"), "w", encoding="ascii") as file:
            file.write("'new';")
        self.assertEqual(self.web.request("GET", "/app/main.js")[1]["etag"], before)
        self.web.signal(signal.SIGHUP)
        convolvd.wait_for(lambda: self.web.request("GET", "/app/main.js")[2] == b"'new';", "the new file")

    def test_api(self):
        status, body = self.web.get("/api/v1/status")
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(body)["status"]["streams"][0]["name"], "vessel")
        status, body = self.web.get("/api/v1/streams")
        self.assertEqual((status, json.loads(body)["streams"][0]["channels"]), (200, 4))
        status, body = self.web.get("/api/v1/commands")
        self.assertIn("gain", [command["name"] for command in json.loads(body)["commands"]])
        for text in ("first", "second"):
            mark(self.folder, text)
        events = []

        def have_come():
            events[:] = json.loads(self.web.get("/api/v1/events?since=0")[1])["events"]
            return any("second" in event["text"] for event in events)
        convolvd.wait_for(have_come, "the events")
        last = events[-1]["number"]
        self.assertEqual([event["number"] for event in json.loads(self.web.get(f"/api/v1/events?since={last}")[1])["events"]],
                         [last])
        status, body = self.web.get("/metrics")
        self.assertEqual(status, 200)
        self.assertIn(b"\nconvolvd_up 1\n", body)
        self.assertEqual(json.loads(self.web.get("/healthz")[1]), {"ok": True, "daemon": True})

    def test_observer(self):
        """Without a token one may look from this machine, and change nothing."""
        session = json.loads(self.web.get("/api/v1/session")[1])
        self.assertEqual((session["role"], session["holder"], session["control"]), ("observe", "", False))
        status, answer = self.web.post("/api/v1/gain", {"stream": "vessel", "gain_db": -6})
        self.assertEqual((status, answer["code"]), (403, "role"))
        self.assertEqual(self.web.post("/api/v1/nothing", {})[0], 404)
        self.assertEqual(self.web.post("/api/v1/watch", {})[0], 404)
        self.assertEqual(self.web.post("/api/v1/login", {"token": "0" * 64})[0], 401)


class Hostile(World):
    arguments = ("--clients", "8")

    def status_of(self, data):
        answer = self.web.raw(data)
        return answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/") else "closed"

    def test_hosts(self):
        for host in ("evil.example", f"evil.example:{self.web.port}", "", f"localhost:{self.web.port + 1}", "127.0.0.1",
                     "[::1", "x" * 400):
            self.assertIn(self.status_of(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()), ("403", "closed"), host)
        self.assertIn(self.status_of(b"GET /healthz HTTP/1.1\r\n\r\n"), ("403", "closed"))
        good = f"GET /healthz HTTP/1.1\r\nHost: localhost:{self.web.port}\r\nConnection: close\r\n\r\n"
        self.assertEqual(self.status_of(good.encode()), "200")

    def test_origins(self):
        for origin in ("http://evil.example", "null", f"http://localhost:{self.web.port}", "https://127.0.0.1",
                       f"http://127.0.0.1:{self.web.port + 1}", f"http://127.0.0.1:{self.web.port}.evil.example"):
            self.assertEqual(self.web.get("/api/v1/status", Origin=origin)[0], 403, origin)
            self.assertEqual(self.web.post("/api/v1/login", {}, Origin=origin)[0], 403, origin)

            async def upgrade(origin=origin):
                async with self.web.live(origin=origin):
                    pass
            with self.assertRaises(Exception, msg=origin):
                run(upgrade())
        self.assertEqual(self.web.get("/api/v1/status", Origin=f"http://{self.web.host}")[0], 200)

    def test_upgrades(self):
        def upgrade(path="/api/v1/live", protocol="Sec-WebSocket-Protocol: convolv.v1\r\n", host=None):
            return self.status_of((f"GET {path} HTTP/1.1\r\nHost: {host or self.web.host}\r\nUpgrade: websocket\r\n"
                                   "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                                   f"Sec-WebSocket-Version: 13\r\n{protocol}\r\n").encode())
        for status in (upgrade(path="/"), upgrade(path="/api/v1/live/x"), upgrade(host="evil.example"),
                       upgrade(protocol=""), upgrade(protocol="Sec-WebSocket-Protocol: chat\r\n")):
            self.assertIn(status, ("403", "404", "closed"))

    def test_bodies(self):
        def post(head, body=b""):
            return self.status_of(f"POST /api/v1/mark HTTP/1.1\r\nHost: {self.web.host}\r\n{head}Connection: close\r\n\r\n"
                                  .encode() + body)
        json_type = "Content-Type: application/json\r\n"
        self.assertEqual(post(json_type), "411")
        self.assertEqual(post(json_type + "Content-Length: 65537\r\n"), "413")
        self.assertEqual(post(json_type + "Content-Length: 99999999999999999999\r\n"), "411")
        self.assertIn(post(json_type + "Content-Length: -1\r\n"), ("411", "closed"))
        self.assertEqual(post("Content-Length: 2\r\n", b"{}"), "415")
        self.assertEqual(post("Content-Type: text/plain\r\nContent-Length: 2\r\n", b"{}"), "415")
        self.assertEqual(post(json_type + "Content-Length: 3\r\n", b"[1]"), "400")
        self.assertEqual(post(json_type + "Content-Length: 4\r\n", b"\xff{}\n"), "400")
        self.assertEqual(post(json_type + "Content-Length: 17\r\n", b'{"a":1,  "a": 2 }'), "400")
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"):
            self.assertIn(self.status_of(f"{method} / HTTP/1.1\r\nHost: {self.web.host}\r\nContent-Length: 0\r\n\r\n".encode()),
                          ("405", "400", "403", "404", "closed"), method)
        self.still_serves()

    def test_garbage(self):
        random = np.random.default_rng(3)
        for size in (1, 100, 5000, 100000):
            with socket.create_connection(("127.0.0.1", self.web.port), timeout=5) as connection:
                try:
                    connection.sendall(random.bytes(size))
                except OSError:
                    pass
        long = f"GET /{'a' * 20000} HTTP/1.1\r\nHost: {self.web.host}\r\n\r\n"
        self.assertIn(self.status_of(long.encode()), ("414", "431", "400", "404", "405", "closed"))
        long = f"GET / HTTP/1.1\r\nHost: {self.web.host}\r\nAuthorization: Bearer {'a' * 1000}\r\nConnection: close\r\n\r\n"
        self.assertIn(self.status_of(long.encode()), ("431", "closed"))
        self.still_serves()

    def test_messages(self):
        """What is no want is answered, or ends that session alone."""
        async def talk():
            async with self.web.live() as session:
                for text in ("", "nonsense", "[]", '{"type": "want"}', '{"type": "want", "id": 1, "stream": "vessel"}',
                             '{"type": "want", "id": 1, "stream": "nowhere", "view": "scope"}',
                             '{"type": "want", "id": 1, "stream": "vessel", "view": "scope", "channels": [5]}'):
                    await session.send(text)
                    await receive(session, is_type("error"))
                for number in range(2, 18):
                    await web_client.send(session, type="want", id=number, stream="vessel", view="scope", channels=[1])
                await web_client.send(session, type="want", id=99, stream="vessel", view="scope", channels=[1])
                error = await receive(session, lambda m: is_type("error")(m) and m["id"] == 99)
                self.assertIn("16", error["error"])
            for message in ("x" * 5000, b"\0\1"):
                async with self.web.live() as session:
                    await session.send(message)
                    with self.assertRaises(web_client.websockets.ConnectionClosed):
                        while True:
                            await asyncio.wait_for(session.recv(), 20)
        run(talk())
        self.still_serves()

    def test_too_many(self):
        """Connections beyond --clients are refused; those there stay, and one that ends makes room."""
        connections = [socket.create_connection(("127.0.0.1", self.web.port), timeout=5) for _ in range(30)]
        time.sleep(0.5)
        ended = 0
        for connection in connections:
            connection.settimeout(0.05)
            try:
                ended += connection.recv(1) == b""
            except socket.timeout:
                pass
            except ConnectionResetError:
                ended += 1
        self.assertGreaterEqual(ended, 22)
        for connection in connections:
            connection.close()
        self.still_serves()

    def still_serves(self):
        def served():
            try:
                return self.web.get("/healthz")[0] == 200
            except (OSError, http.client.HTTPException):
                return False
        convolvd.wait_for(served, "an answer")


class Views(World):
    def test_scope(self):
        """The picture is the sine that the generator makes, aligned by its rising crossing."""
        async def look():
            async with self.web.live() as session:
                said = await want(session, 1, stream="vessel", view="scope", side="input", channels=[1, 3], frames=500,
                                  trigger="level", level=0.1, pretrigger=100)
                self.assertEqual((said["rate_hz"], said["unit"], said["channels"]), (RATE, ["V", "V"], [1, 3]))
                picture = await receive(session, is_picture(1))
                self.assertEqual((picture.kind, picture.channels, picture.points), (web_client.FRAMES, 2, 500))
                self.assertEqual((picture.trigger, picture.flags & web_client.TRIGGERED), (100, 1))
                x = picture.values[0]
                self.assertTrue(x[99] < 0.1 <= x[100])
                n = picture.first + np.arange(500)
                expected = AMPLITUDE * np.sin(2 * np.pi * FREQUENCY / RATE * n)
                self.assertLess(np.abs(x - expected).max(), 1e-4)
                self.assertEqual(picture.ranges, [])
                later = await receive(session, is_picture(1))
                self.assertGreater(later.first, picture.first)
                await want(session, 2, stream="vessel", view="scope", channels=[2], frames=100, single=True)
                await receive(session, is_picture(2))
                with self.assertRaises(asyncio.TimeoutError):
                    await receive(session, is_picture(2), 1)
        run(look())

    def test_envelope(self):
        async def look():
            async with self.web.live() as session:
                said = await want(session, 1, stream="vessel", view="envelope", side="input", seconds=2, points=100)
                self.assertEqual(said["channels"], [1, 2, 3, 4])
                picture = await receive(session, lambda m: is_picture(1)(m) and not m.invalid()[-20:].any())
                self.assertEqual(picture.frames_per_point, said["frames_per_point"])
                low, high = picture.values[0::2], picture.values[1::2]
                low, high = picture.values.reshape(4, 2, -1)[:, 0], picture.values.reshape(4, 2, -1)[:, 1]
                self.assertTrue(np.allclose(low[:, -20:], -AMPLITUDE, atol=1e-3))
                self.assertTrue(np.allclose(high[:, -20:], AMPLITUDE, atol=1e-3))
        run(look())

    def test_spectrum(self):
        """Power density: its peak lies at the sine's frequency and its sum is the mean square."""
        async def look():
            async with self.web.live() as session:
                await want(session, 2, stream="vessel", view="spectrum", channels=[1], fft=1024, average=8)
                picture = await receive(session, lambda m: is_picture(2)(m) and m.flags & web_client.COMPLETE)
                self.assertEqual((picture.kind, picture.points), (web_client.SPECTRUM, 513))
                density = picture.values[0]
                self.assertLess(abs(np.argmax(density) * picture.frames_per_point - FREQUENCY), picture.frames_per_point)
                self.assertAlmostEqual(float(density.sum() * picture.frames_per_point), AMPLITUDE ** 2 / 2, delta=1e-3)
        run(look())

    def test_ascan(self):
        """A period of the sine, averaged: each A-scan is the same."""
        async def look():
            async with self.web.live() as session:
                await want(session, 1, stream="vessel", view="ascan", side="input", channels=[1], frames=50, period=500,
                           average=4)
                for _ in range(3):
                    picture = await receive(session, is_picture(1))
                    self.assertEqual((picture.averages, picture.first % 500), (4, 0))
                    self.assertLess(np.abs(picture.values[0] - AMPLITUDE *
                                           np.sin(2 * np.pi * FREQUENCY / RATE * np.arange(50))).max(), 1e-4)
        run(look())

    def test_news(self):
        """Hello, status twice a second, levels at least ten times, events."""
        async def look():
            async with self.web.live() as session:
                hello = await receive(session, is_type("hello"))
                self.assertEqual((hello["role"], hello["names"]["causes"][2]), ("observe", "network"))
                await receive(session, is_type("levels"))
                began, levels, statuses = time.monotonic(), 0, 0
                while time.monotonic() - began < 2:
                    message = await receive(session, lambda m: True)
                    levels += is_type("levels")(message)
                    statuses += is_type("status")(message)
                    if is_type("levels")(message):
                        self.assertAlmostEqual(message["rms"][3], AMPLITUDE / 2 ** 0.5, delta=0.01)
                        self.assertAlmostEqual(message["peak"][0], AMPLITUDE, delta=0.01)
                if not convolvd.SANITIZED:
                    self.assertGreaterEqual(levels, 16)
                    self.assertGreaterEqual(statuses, 2)
                mark(self.folder, "load step 2")
                event = await receive(session, is_type("event"))
                self.assertEqual(event["event"]["kind"], "mark")
                self.assertIn("load step 2", event["event"]["text"])
        run(look())

    def test_slow_reader(self):
        """A browser that reads nothing loses pictures and is told how many; others lose none."""
        async def look():
            async with self.web.live(max_queue=1) as slow, self.web.live() as other:
                for number in range(1, 9):
                    await want(slow, number, stream="vessel", view="scope", channels=[1, 2, 3, 4], frames=20000,
                               trigger="auto")
                slow.transport.pause_reading()
                await want(other, 1, stream="vessel", view="scope", channels=[1], frames=200, trigger="auto")
                began, pictures = time.monotonic(), 0
                while time.monotonic() - began < 6:
                    pictures += is_picture(1)(await receive(other, lambda m: True))
                self.assertGreater(pictures, 6 if convolvd.SANITIZED else 60)
                slow.transport.resume_reading()
                shed = await receive(slow, is_type("shed"))
                self.assertGreater(shed["pictures"], 0)
                await receive(slow, is_picture(1))
        run(look())


class Roles(unittest.TestCase):
    """Tokens, sessions, TLS: who may do what, and that the daemon decides by the holder's role."""

    def setUp(self):
        self.temporary = convolvd.temporary()
        self.folder = self.temporary.name
        self.addCleanup(self.temporary.cleanup)
        self.anna, anna = web_client.new_token("anna", "control")
        self.bert, bert = web_client.new_token("bert", "observe")
        self.tokens = os.path.join(self.folder, "tokens")
        with open(self.tokens, "w", encoding="ascii") as file:
            file.write(f"{anna}\n{bert}\n")
        os.chmod(self.tokens, 0o600)

    def start(self, *arguments, **options):
        daemon = convolvd.Daemon(self.folder, f"[daemon]\nruntime directory = {self.folder}\n" + stream())
        self.addCleanup(daemon.kill)
        web = Web(self.folder, "--tokens", self.tokens, *arguments, **options)
        self.addCleanup(web.kill)
        web.wait_up()
        return daemon, web

    def test_control(self):
        daemon, web = self.start("--allow-control")
        gain = {"stream": "vessel", "gain_db": -6}
        self.assertEqual(web.post("/api/v1/gain", gain)[0], 403)
        self.assertEqual(web.post("/api/v1/gain", gain, Authorization=f"Bearer {self.bert}")[0], 403)
        self.assertEqual(web.post("/api/v1/gain", gain, Authorization=f"Bearer {self.anna[::-1]}")[0], 401)
        self.assertEqual(web.post("/api/v1/gain", gain, Authorization=self.anna)[0], 401)
        status, answer = web.post("/api/v1/gain", gain, Authorization=f"Bearer {self.anna}")
        self.assertEqual((status, answer["ok"]), (200, True))
        convolvd.wait_for(lambda: daemon.said("anna via"), "who asked, in the log")
        self.assertNotIn(self.anna, daemon.output() + web.output())

    def test_cookies(self):
        _, web = self.start("--allow-control")
        origin = f"http://{web.host}"
        status, headers, body = web.request("POST", "/api/v1/login", json.dumps({"token": self.anna}),
                                            {"Content-Type": "application/json", "Origin": origin})
        self.assertEqual((status, json.loads(body)["role"]), (200, "control"))
        cookie = headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
            self.assertIn(part, cookie)
        self.assertNotIn(self.anna, cookie)
        pair = cookie.split(";")[0]
        gain = {"stream": "vessel", "gain_db": -6}
        self.assertEqual(web.post("/api/v1/gain", gain, Cookie=pair)[0], 403)  # no origin: nobody's page
        self.assertEqual(web.post("/api/v1/gain", gain, Cookie=pair, Origin="http://evil.example")[0], 403)
        self.assertEqual(web.post("/api/v1/gain", gain, Cookie=pair, Origin=origin)[0], 200)

        async def role(**headers):
            async with web.live(headers, origin=origin) as session:
                hello = await receive(session, is_type("hello"))
                return hello["role"], hello["holder"]
        self.assertEqual(run(role(Cookie=pair)), ("control", "anna"))
        self.assertEqual(run(role()), ("observe", ""))
        self.assertEqual(web.post("/api/v1/logout", {}, Cookie=pair, Origin=origin)[0], 200)
        self.assertEqual(web.post("/api/v1/gain", gain, Cookie=pair, Origin=origin)[0], 403)

    def test_wrong_logins_stop_no_one_else(self):
        """Wrong logins of one client: another address is answered as before, and a valid token always logs in, from the
        same address too, as behind a proxy."""
        _, web = self.start()
        wrong = json.dumps({"token": "0" * 64})

        def login(body, address="127.0.0.1"):
            connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20, source_address=(address, 0))
            try:
                connection.request("POST", "/api/v1/login", body, {"Content-Type": "application/json"})
                return connection.getresponse().status
            finally:
                connection.close()
        self.assertEqual(login(wrong), 401)
        for number in range(10):
            self.assertIn(login(wrong), (401, 429))
            self.assertEqual(login(json.dumps({"token": self.bert})), 200)
        self.assertEqual(login(wrong, "127.0.0.2"), 401)

    def test_observing_only(self):
        """Unless --allow-control is given, a holder of the role control observes too."""
        _, web = self.start()
        status, answer = web.post("/api/v1/mute", {"stream": "vessel", "mute": True}, Authorization=f"Bearer {self.anna}")
        self.assertEqual((status, answer["code"]), (403, "role"))

    def test_required(self):
        _, web = self.start("--require-token")
        for path in ("/api/v1/status", "/metrics", "/api/v1/events", "/api/v1/streams"):
            self.assertEqual(web.get(path)[0], 401, path)
            self.assertEqual(web.get(path, Authorization=f"Bearer {self.bert}")[0], 200, path)
        self.assertEqual(web.get("/healthz")[0], 200)
        self.assertEqual(web.post("/api/v1/mark", {"text": "x"})[0], 401)

        async def join():
            async with web.live() as session:
                await receive(session, is_type("hello"))
        with self.assertRaises(Exception):
            run(join())

    def test_tls(self):
        key, certificate = (os.path.join(self.folder, name) for name in ("key.pem", "certificate.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=localhost", "-keyout", key, "-out", certificate, "-days", "1"],
                       check=True, capture_output=True)
        _, web = self.start("--certificate", certificate, "--key", key, tls=True)
        status, headers, _ = web.request("POST", "/api/v1/login", json.dumps({"token": self.bert}),
                                         {"Content-Type": "application/json", "Origin": f"https://{web.host}"})
        self.assertEqual(status, 200)
        self.assertIn("Secure", headers["set-cookie"])
        self.assertEqual(web.get("/api/v1/status")[0], 200)

    def test_exposure(self):
        """Beyond loopback nothing starts without TLS and tokens, and a wrong tokens file stops the start."""
        def said(*arguments):
            done = subprocess.run([os.path.join(convolvd.BUILD, "convolv-web"), *arguments], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        self.assertIn("--certificate", said("--listen", "*:0"))
        self.assertIn("--certificate", said("--listen", "[::]:0", "--tokens", self.tokens))
        self.assertIn("go together", said("--certificate", "x"))
        self.assertIn("such as", said("--listen", "localhost"))
        os.chmod(self.tokens, 0o622)
        self.assertIn("chmod", said("--listen", "127.0.0.1:0", "--tokens", self.tokens))


class Restarts(unittest.TestCase):
    def test_daemon(self):
        """The daemon goes and comes: the page is told, and pictures go on."""
        with convolvd.temporary() as folder:
            config = f"[daemon]\nruntime directory = {folder}\n" + stream()
            first = convolvd.Daemon(folder, config)
            web = Web(folder)
            try:
                web.wait_up()

                async def look():
                    async with web.live() as session:
                        await want(session, 1, stream="vessel", view="scope", channels=[1], frames=100, trigger="auto")
                        await receive(session, is_picture(1))
                        first.stop()
                        down = await receive(session, lambda m: is_type("daemon")(m) and not m["up"])
                        self.assertTrue(down["reason"])
                        self.assertEqual(web.get("/api/v1/status")[0], 503)
                        self.assertIn(b"\nconvolvd_up 0\n", web.get("/metrics")[1])
                        second = convolvd.Daemon(folder, config)
                        try:
                            await receive(session, lambda m: is_type("daemon")(m) and m["up"])
                            await receive(session, is_picture(1))
                            event = await receive(session, lambda m: is_type("levels")(m))
                            self.assertEqual(event["stream"], "vessel")
                            # A reload with fewer channels: what is shown follows.
                            with open(second.path, "w", encoding="utf-8") as file:
                                file.write(f"[device]\ndevice = {convolvd.DEVICE}\n\n"
                                           + config.replace("channels = 4", "channels = 2"))
                            second.signal(signal.SIGHUP)
                            await receive(session, lambda m: is_type("status")(m)
                                          and len(m["status"]["streams"][0]["channels"]) == 2)
                            await receive(session, is_picture(1))
                            await receive(session, lambda m: is_type("levels")(m) and len(m["rms"]) == 2)
                        finally:
                            second.kill()
                run(look())
            finally:
                web.kill()
                first.kill()

    def test_web(self):
        """convolv-web goes: the daemon runs on, has nobody to write for, and shows another one the same."""
        with convolvd.temporary() as folder:
            daemon = convolvd.Daemon(folder, f"[daemon]\nruntime directory = {folder}\n" + stream())
            try:
                async def look(web):
                    async with web.live() as session:
                        await want(session, 1, stream="vessel", view="envelope", seconds=1, points=50)
                        await receive(session, is_picture(1))
                for kill in (True, False, True):
                    web = Web(folder)
                    web.wait_up()
                    run(look(web))
                    if not kill:
                        web.signal(signal.SIGTERM)
                        self.assertEqual(web.wait(), 0)
                    web.kill()
                    convolvd.wait_for(lambda: "convolvd watch" not in maps_of(daemon), "the ring's end")
                self.assertEqual(daemon.stream()["frames_out"]["shed"]["overload"], 0)
            finally:
                daemon.kill()


class Start(unittest.TestCase):
    """What is printed first leads to the page, and the process makes way for the daemon."""

    def begin(self, *words, before=()):
        with convolvd.temporary() as folder:
            web = subprocess.Popen([*before, os.path.join(convolvd.BUILD, "convolv-web"), "--directory", folder, *words],
                                   stdout=subprocess.PIPE, text=True)
            with web.stdout:
                try:
                    line = web.stdout.readline()
                    return line, (os.sched_getscheduler(web.pid), os.getpriority(os.PRIO_PROCESS, web.pid))
                finally:
                    web.terminate()
                    web.wait(convolvd.PATIENCE_S)

    def test_the_address(self):
        for address in ("127.0.0.1", "127.0.0.2", "[::1]"):
            port = convolvd.free_port()
            self.assertEqual(self.begin("--listen", f"{address}:{port}")[0], f"convolv-web: http://{address}:{port}/\n")

    def test_watchdog(self):
        """It pings the service manager while its loop turns."""
        with convolvd.temporary() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = os.path.join(folder, "notify")
            manager.bind(path)
            manager.settimeout(convolvd.PATIENCE_S)
            web = Web(folder, environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
            self.addCleanup(web.kill)
            said = [manager.recv(4096) for _ in range(4)]
            self.assertEqual(said.count(b"WATCHDOG=1"), 3, said)

    def test_it_makes_way(self):
        """For programs that compute; a priority that somebody chose stays."""
        given = os.getpriority(os.PRIO_PROCESS, 0)
        self.assertEqual(self.begin("--listen", "127.0.0.1:0")[1], (os.SCHED_OTHER if given else os.SCHED_IDLE, given))
        self.assertEqual(self.begin("--listen", "127.0.0.1:0", before=("nice", "-n", "3"))[1], (os.SCHED_OTHER, given + 3))
        self.assertEqual(self.begin("--listen", "127.0.0.1:0", before=("chrt", "-b", "0"))[1], (os.SCHED_BATCH, given))


class Plugin(unittest.TestCase):
    """libwebsockets loads its plugin for libuv by name, when convolv-web starts."""

    def start(self, hidden):
        """convolv-web in a mount namespace where something lies over the plugin, or nothing does."""
        listed = subprocess.run(["dpkg", "-L", "libwebsockets-evlib-uv"], capture_output=True, text=True, check=False).stdout
        plugin = next((line for line in listed.splitlines() if line.endswith(".so")), None)
        if plugin is None:
            self.skipTest("the plugin is not Debian's")
        over = f"mount --bind /dev/null {plugin} && " if hidden else ""
        with convolvd.temporary() as folder:
            return subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", f"{over}exec nice -n 1 timeout -s TERM 2 \"$0\" \"$@\"",
                                   os.path.join(convolvd.BUILD, "convolv-web"), "--directory", folder, "--listen", "127.0.0.1:0"],
                                  capture_output=True, text=True, timeout=60, check=False)

    @unittest.skipIf(convolvd.SANITIZED, "what a failed start has not freed is left to the end of the process")
    def test_a_missing_plugin_is_one_clear_message(self):
        if self.start(hidden=False).stderr.startswith("unshare:"):
            self.skipTest("no mount namespace here")
        done = self.start(hidden=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "convolv-web: libwebsockets finds no plugin for libuv: install libwebsockets-evlib-uv\n")


if __name__ == "__main__":
    unittest.main()
