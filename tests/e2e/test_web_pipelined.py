#!/usr/bin/python3
"""Pipelined requests: convolv-web answers the first request completely, closes the connection and serves the next
client, for every second request and segmentation, with TLS and without.

# timeout: 240
# sanitizers: yes
# parallel: yes
# takes: 3 s CPU in 6 s
"""
import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import unittest

import convolvd
from web_client import Web, new_token

LARGE = b"/" * 1000000


def request(line, *fields, body=b""):
    return "\r\n".join([f"{line} HTTP/1.1", "Host: HOST", *fields, "", ""]).encode() + body


def post(body, path="/api/v1/mark", fields=("Content-Type: application/json",)):
    return request(f"POST {path}", *fields, f"Content-Length: {len(body)}", body=body)


UPGRADE = ("Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
           "Sec-WebSocket-Protocol: convolv.v1")
REQUESTS = {
    "get": (request("GET /healthz"), 200),
    "get with a body": (request("GET /healthz", "Content-Length: 30", body=30 * b"x"), 200),
    "head": (request("HEAD /healthz"), 200),
    "keep-alive": (request("GET /metrics", "Connection: keep-alive"), 200),
    "post": (post(b'{"text": "x"}'), 503),
    "post without a body": (post(b"", "/api/v1/logout"), 200),
    "post with a surplus": (post(b'{"text": "x"}') + b"{}", 503),
    "post too long": (request("POST /api/v1/mark", "Content-Length: 99999"), 413),
    "post in chunks": (request("POST /api/v1/mark", "Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"), 411),
    "put": (request("PUT /", "Content-Length: 3", body=b"xyz"), 405),
    "upgrade": (request("GET /api/v1/live", "Upgrade: websocket", *UPGRADE), 101),
    "upgrade elsewhere": (request("GET /healthz", "Upgrade: websocket", *UPGRADE), 404),
    "upgrade with a body": (request("GET /api/v1/live", "Upgrade: websocket", "Content-Length: 9", *UPGRADE,
                                    body=9 * b"x"), 101),
    "upgrade to another": (request("GET /healthz", "Connection: Upgrade", "Upgrade: tarry"), 403),
    "upgrade to HTTP/2": (request("GET /healthz", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
                                  "HTTP2-Settings: AAMAAABkAAQAAP__"), 200),
}
SECOND_ONLY = {"half a request": b"GET /healthz HTT", "half a body": post(99 * b"x")[:-50], "no request": 300 * b"\0\r\n"}


class Pipelined(unittest.TestCase):
    tls = False

    @classmethod
    def setUpClass(cls):
        cls.temporary = convolvd.temporary()
        cls.folder = folder = cls.temporary.name
        page = os.path.join(folder, "page")
        os.makedirs(os.path.join(page, "app"))
        with open(os.path.join(page, "app", "large.js"), "wb") as file:
            file.write(LARGE)
        arguments = ["--page", page]
        if cls.tls:
            key, certificate = (os.path.join(folder, name) for name in ("key.pem", "certificate.pem"))
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                            "-subj", "/CN=localhost", "-keyout", key, "-out", certificate, "-days", "1"],
                           check=True, capture_output=True)
            arguments += ["--certificate", certificate, "--key", key]
        cls.web = Web(folder, *arguments, tls=cls.tls)

    @classmethod
    def tearDownClass(cls):
        cls.web.signal(signal.SIGTERM)
        code = cls.web.wait()
        cls.web.kill()
        cls.temporary.cleanup()
        assert code == 0, f"convolv-web ended with {code}:\n{cls.web.output()}"

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.web.port), timeout=convolvd.PATIENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ssl._create_unverified_context().wrap_socket(plain) if self.tls else plain

    def exchange(self, *parts, half_close=False):
        """Sends each part by itself; returns all that the server sends until it ends the connection."""
        answer = b""
        with self.connect() as connection:
            for part in parts:
                try:
                    connection.sendall(part.replace(b"HOST", self.web.host.encode()))
                except (BrokenPipeError, ConnectionResetError):  # it has closed behind its answer
                    break
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            while got := connection.recv(1 << 16):  # a reset fails here
                answer += got
        return answer

    def check(self, answer, status, what):
        """The answer is one, and whole."""
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        self.assertRegex(lines[0], f"^http/1.[01] {status} ", what)
        fields = dict(line.split(": ", 1) if ": " in line else line.split(":", 1) for line in lines[1:])
        if status in (200, 405, 411, 413) and "head" not in what[0]:
            self.assertEqual(len(body), int(fields["content-length"]), what)
            self.assertEqual(fields["connection"], "close", what)

    def upgraded(self, *parts):
        """Like exchange, of a request that becomes a WebSocket: the answer's head. The client leaves."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part.replace(b"HOST", self.web.host.encode()))
            return connection.recv(1 << 16)

    def test_pairs(self):
        seconds = {name: data for name, (data, _) in REQUESTS.items()} | SECOND_ONLY
        for (first, (data, status)), (second, more) in itertools.product(REQUESTS.items(), seconds.items()):
            for parts in ((data + more,), (data, more), (data[:-3], data[-3:] + more), (data + more[:20], more[20:])):
                what = (first, second, [len(part) for part in parts])
                with self.subTest(what):
                    if status == 101:
                        self.check(self.upgraded(*parts), status, what)
                    else:
                        self.check(self.exchange(*parts), status, what)
            self.assertEqual(self.web.get("/healthz")[0], 200, (first, second))

    def test_many(self):
        """Many requests, and much input that is no request."""
        get, _ = REQUESTS["get"]
        for parts in ((40 * get,), 40 * (get,), (get, 200 * REQUESTS["post"][0]), (get + 100000 * b"x",)):
            self.check(self.exchange(*parts), 200, ("many",))

    def test_a_large_answer_is_whole(self):
        """The server drops input behind the request; the client still gets the answer that it has not read yet."""
        large = request("GET /app/large.js")
        for parts in ((large,), (large, 50000 * b"x"), (large + REQUESTS["post"][0], 50 * large)):
            answer = self.exchange(*parts)
            self.assertEqual(answer.partition(b"\r\n\r\n")[2], LARGE, [len(part) for part in parts])

    def test_a_client_that_sends_no_more(self):
        for name, (data, status) in REQUESTS.items():
            if status != 101 and not self.tls:  # a TLS client ends both ways at once
                self.check(self.exchange(data, half_close=True), status, (name,))


class PipelinedTls(Pipelined):
    tls = True


class Commands(unittest.TestCase):
    def test_once(self):
        """A command with more behind its body is carried out once."""
        with convolvd.temporary() as folder:
            daemon = convolvd.Daemon(folder, f"[daemon]\nruntime directory = {folder}\n"
                                     "[stream s]\nsource = generator\nrate = 1 kHz\nchannels = 1\nfilter = f\n"
                                     "[filter f]\ntype = lowpass\nhigh = 100 Hz\n")
            self.addCleanup(daemon.kill)
            tokens = os.path.join(folder, "tokens")
            token, line = new_token("anna", "control")
            with open(tokens, "w", encoding="ascii") as file:
                file.write(line + "\n")
            os.chmod(tokens, 0o600)
            web = Web(folder, "--tokens", tokens, "--allow-control")
            self.addCleanup(web.kill)
            web.wait_up()
            allowed = ("Content-Type: application/json", f"Authorization: Bearer {token}")
            for number, more in enumerate((b"", b"{}", post(b"{}"), 3 * request("GET /healthz"), 9000 * b"x")):
                data = post(json.dumps({"text": f"mark {number}."}).encode(), fields=allowed) + more
                self.assertIn(b" 200 OK", web.raw(data.replace(b"HOST", web.host.encode())).split(b"\r\n")[0])
            self.assertEqual(web.post("/api/v1/mark", {"text": "the last"}, Authorization=f"Bearer {token}")[0], 200)

            def texts():
                return [event["text"] for event in json.loads(web.get("/api/v1/events?since=0")[1])["events"]]
            convolvd.wait_for(lambda: any("the last" in text for text in texts()), "the last mark")
            for number in range(5):
                self.assertEqual(sum(f"mark {number}." in text for text in texts()), 1, texts())


if __name__ == "__main__":
    unittest.main()
