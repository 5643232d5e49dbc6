"""OSC for the tests, from its specification, byte by byte: what is said, what is answered, the blocks
of a signal and its results. Nothing here shares a line with the daemon.
"""
import socket
import struct
import time

import numpy as np

import convolvd as c


def text(value):
    data = value.encode() + b"\0"
    return data + b"\0" * (-len(data) % 4)


def blob(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


def message(address, types="", *arguments):
    """T, F and N among the types have no argument."""
    out = text(address) + text("," + types)
    for kind, value in zip((t for t in types if t not in "TFN"), arguments):
        out += {"s": text, "b": blob}.get(kind, lambda v, k=kind: struct.pack({"i": ">i", "h": ">q", "f": ">f"}[k], v))(value)
    return out


def bundle(*elements, tag=1):
    return b"#bundle\0" + struct.pack(">Q", tag) + b"".join(struct.pack(">I", len(e)) + e for e in elements)


def parse(data):
    def string(at):
        end = data.index(b"\0", at)
        return data[at:end].decode(), at + (end - at) // 4 * 4 + 4
    address, at = string(0)
    types, at = string(at)
    values = []
    for kind in types[1:]:
        if kind == "s":
            value, at = string(at)
        elif kind == "b":
            size = struct.unpack_from(">I", data, at)[0]
            value, at = data[at + 4:at + 4 + size], at + 4 + (size + 3) // 4 * 4
        else:
            code = {"i": ">i", "h": ">q", "f": ">f"}[kind]
            value = struct.unpack_from(code, data, at)[0]
            at += struct.calcsize(code)
        values.append(value)
    assert at == len(data)
    return address, types[1:], values


class Client:
    """One UDP socket that asks and is answered."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        c.make_receive_buffer(self.socket)
        self.socket.bind((host, 0))
        self.to = (host, port)

    def send(self, *arguments):
        self.socket.sendto(message(*arguments), self.to)

    def raw(self, data):
        self.socket.sendto(data, self.to)

    def receive(self, seconds=None):
        self.socket.settimeout(seconds or c.PATIENCE_S)
        return parse(self.socket.recv(65536))

    def await_(self, address, seconds=None):
        deadline = time.monotonic() + (seconds or c.PATIENCE_S)
        while True:
            got = self.receive(max(0.01, deadline - time.monotonic()))
            if got[0] == address:
                return got

    def silent(self, seconds=0.5):
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(65536) is None
        except socket.timeout:
            return True

    def close(self):
        self.socket.close()


class Tcp:
    """A connection, with length prefixes or SLIP."""

    def __init__(self, port, slip=False):
        self.socket = socket.create_connection(("127.0.0.1", port), c.PATIENCE_S)
        self.slip, self.left = slip, b""

    def send(self, data):
        if self.slip:
            data = b"\xc0" + data.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc") + b"\xc0"
        else:
            data = struct.pack(">I", len(data)) + data
        self.socket.sendall(data)

    def receive(self):
        while True:
            if self.slip:
                packet, end, rest = self.left.partition(b"\xc0")
                if end:
                    self.left = rest
                    if packet:
                        return parse(packet.replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb"))
                    continue
            elif len(self.left) >= 4 and len(self.left) >= 4 + struct.unpack(">I", self.left[:4])[0]:
                size = struct.unpack(">I", self.left[:4])[0]
                packet, self.left = self.left[4:4 + size], self.left[4 + size:]
                return parse(packet)
            data = self.socket.recv(65536)
            assert data, "the connection was closed"
            self.left += data

    def close(self):
        self.socket.close()


def blocks(stream, x, how="hh", size=64, first=0, dtype=">f4"):
    """The messages of a signal, 64 frames each, in one of the forms."""
    for n in range(0, len(x), size):
        sequence, frame, piece = first // size + n // size, first + n, x[n:n + size].astype(dtype).tobytes()
        address = f"/convolvd/{stream}/block"
        if how == "hh":
            yield message(address, "hhb", sequence, frame, piece)
        elif how == "iiii":
            yield message(address, "iiiib", 0, sequence, 0, frame, piece)
        elif how == "ii":
            yield message(address, "iib", sequence, frame, piece)
        elif how == "b":
            yield message(address, "b", piece)
        else:
            samples = x[n:n + size].ravel()
            yield message(address, "f" * len(samples), *map(float, samples))


def gather(receive, frames, channels=2, narrow=False):
    """Results until so many frames are there: samples, their flags, latencies, first frames."""
    y, flags, latencies, expected = [], np.zeros(frames, dtype=int), [], None
    while sum(map(len, y)) < frames:
        address, types, values = receive()
        if not address.endswith("/result"):
            continue
        if narrow:
            assert types == "iiiiiiiffb", types
            sequence, first, values = values[0] << 32 | values[1], values[2] << 32 | values[3], values[4:]
        else:
            assert types == "hhiiiffb", types
            sequence, first, values = values[0], values[1], values[2:]
        assert expected is None or sequence == expected, f"message {sequence} came instead of {expected}"
        expected = sequence + 1
        assert values[0] == channels
        samples = np.frombuffer(values[5], ">f4").reshape(-1, channels)
        assert first == sum(map(len, y)), f"frame {first} came after {sum(map(len, y))}"
        flags[first:first + len(samples)] |= values[2]
        latencies.append(values[3])
        y.append(samples)
    return np.concatenate(y).astype(float)[:frames], flags, latencies
