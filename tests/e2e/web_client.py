"""convolv-web for the tests: starts it beside a daemon, speaks HTTP and WebSocket to it, takes its pictures
apart by the layout in docs/web.md."""
import asyncio
import http.client
import json
import os
import re
import socket
import ssl
import struct
import subprocess

import numpy as np
import websockets

import convolvd

HEAD = struct.Struct("<IHHIIQQddqIIiI")
MINMAX, FRAMES, SPECTRUM = 1, 2, 3
TRIGGERED, CLIPPED, RECORD, COMPLETE = 1, 2, 4, 8


class Picture:
    def __init__(self, data):
        (magic, self.kind, self.want, self.channels, self.points, self.epoch, self.first, self.frames_per_point,
         self.rate, self.capture_ns, count, self.flags, self.trigger, self.averages) = HEAD.unpack_from(data)
        assert magic == 0x31564E43, hex(magic)
        self.ranges = [struct.unpack_from("<IIII", data, HEAD.size + 16 * i)[:3] for i in range(count)]
        values = np.frombuffer(data, "<f4", offset=HEAD.size + 16 * count)
        rows = 2 * self.channels if self.kind == MINMAX else self.channels
        self.values = values.reshape(rows, self.points)

    def invalid(self):
        mask = np.zeros(self.points, np.uint32)
        for start, points, causes in self.ranges:
            mask[start:start + points] |= causes
        return mask


class Web(convolvd.Process):
    """convolv-web beside the daemon whose sockets lie in `folder`; ready when the constructor returns."""

    def __init__(self, folder, *arguments, tls=False, environment=None):
        super().__init__("convolv-web", ["--directory", folder, "--listen", "127.0.0.1:0", *arguments], environment,
                         convolvd.chosen_priority)
        self.tls = tls
        try:
            self.wait_said("convolv-web: http", 30)
        except AssertionError:
            self.kill()
            raise
        self.port = int(re.search(r"https?://[^ ]*:(\d+)/", self.output()).group(1))
        self.host = f"127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) of one request."""
        if self.tls:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20,
                                                     context=ssl._create_unverified_context())
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path, **headers):
        status, _, body = self.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return status, body

    def post(self, path, arguments, **headers):
        given = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        status, _, body = self.request("POST", path, json.dumps(arguments).encode(), given)
        return status, json.loads(body)

    def raw(self, data, seconds=20):
        """What comes back for these bytes until the connection ends."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            try:
                while part := connection.recv(65536):
                    got += part
            except (ConnectionResetError, socket.timeout):
                pass
        return got

    def wait_up(self):
        convolvd.wait_for(lambda: json.loads(self.get("/healthz")[1])["daemon"], "the daemon in /healthz")

    def live(self, headers=None, **options):
        scheme = "wss" if self.tls else "ws"
        options.setdefault("max_size", None)
        if headers:
            # websockets 14 (Debian 13 has 15, Debian 12 has 10) renamed the argument.
            modern = int(websockets.version.version.split(".")[0]) >= 14
            options["additional_headers" if modern else "extra_headers"] = headers
        return websockets.connect(f"{scheme}://{self.host}/api/v1/live", subprotocols=["convolv.v1"], **options)


async def receive(session, condition, seconds=None):
    """The first message for which the condition holds: a dict, or a Picture."""
    async def wait():
        while True:
            message = await session.recv()
            message = json.loads(message) if isinstance(message, str) else Picture(message)
            if condition(message):
                return message
    return await asyncio.wait_for(wait(), seconds or convolvd.PATIENCE_S)


def is_type(name):
    return lambda message: isinstance(message, dict) and message["type"] == name


def is_picture(want):
    return lambda message: isinstance(message, Picture) and message.want == want


async def send(session, **message):
    await session.send(json.dumps(message))


async def want(session, number, **parameters):
    """Asks for pictures; what the server says of the want."""
    await send(session, type="want", id=number, **parameters)
    return await receive(session, lambda m: isinstance(m, dict) and m["type"] in ("wanted", "error")
                         and m["id"] == number)


def new_token(name, role):
    """(token, line of the file)"""
    text = subprocess.run([os.path.join(convolvd.BUILD, "convolv-web"), "--new-token", name, "--role", role],
                          check=True, capture_output=True, text=True).stdout
    token = re.search(r"^([0-9a-f]{64})$", text, re.M).group(1)
    line = re.search(rf"^({name} {role} [0-9a-f]{{64}})$", text, re.M).group(1)
    return token, line
