"""Results over OSC (docs/osc.md): subscribes to a stream and reads its `result` messages, over UDP or TCP.

Packets are read with every length checked; what is none of ours is counted and dropped.
"""
from __future__ import annotations

import socket
import struct
import time

import numpy as np

from convolv._address import resolve, split_host_port
from convolv._block import Block, Range, causes_of
from convolv._errors import Error
from convolv._results import Results

_PACKET_MAX = 1 << 20
_RENEW_S = 15.0  # a lease lasts 60 s unless the daemon's `lease` is shorter
_ASK_AGAIN_S = 0.25
_DEPTH_MAX = 4
_CODES = {"i": struct.Struct(">i"), "h": struct.Struct(">q"), "f": struct.Struct(">f"), "d": struct.Struct(">d")}

Value = int | float | str | bytes | memoryview

_EPOCH_START, _EPOCH_END, _INVALID, _SHED, _GAIN, _PARTIAL = 1, 2, 4, 8, 16, 32
_RESULT_TYPES = "hhiiiffb"
_INFO_TYPES = "sfiiisffffhhsf"


def message(address: str, types: str = "", *values: Value) -> bytes:
    """
    >>> message("/convolvd/list", "i", 9001)
    b'/convolvd/list\\x00\\x00,i\\x00\\x00\\x00\\x00#)'
    """
    out = _padded(address.encode()) + _padded(b"," + types.encode())
    for kind, value in zip(types, values, strict=True):
        out += _padded(str(value).encode()) if kind == "s" else _CODES[kind].pack(value)
    return out


def _padded(text: bytes) -> bytes:
    return text + b"\0" * (4 - len(text) % 4)


def parse(data: memoryview) -> tuple[str, str, list[Value]] | None:
    """(address, types, values) of one message; None: malformed."""
    address = _string(data, 0)
    types = _string(data, address[1]) if address else None
    if address is None or types is None or not types[0].startswith(","):
        return None
    values: list[Value] = []
    at = types[1]
    for kind in types[0][1:]:
        if kind == "s":
            found = _string(data, at)
            if found is None:
                return None
            values.append(found[0])
            at = found[1]
        elif kind == "b":
            size = struct.unpack_from(">I", data, at)[0] if len(data) - at >= 4 else _PACKET_MAX
            if size > len(data) - at - 4:
                return None
            values.append(data[at + 4:at + 4 + size])
            at += 4 + (size + 3 & ~3)
        else:
            code = _CODES.get(kind)
            if code is None or len(data) - at < code.size:
                return None
            values.append(code.unpack_from(data, at)[0])
            at += code.size
    return (address[0], types[0][1:], values) if at == len(data) else None


def _string(data: memoryview, at: int) -> tuple[str, int] | None:
    text = bytes(data[at:at + 4096])
    end = text.find(b"\0")
    following = at + end + 4 - end % 4
    if end < 0 or following > len(data):
        return None
    return text[:end].decode("utf-8", "replace"), following


def messages(data: memoryview, depth: int = 0) -> list[tuple[str, str, list[Value]] | None]:
    """The messages of a packet, those of bundles too; None for each element that is malformed."""
    if data[:8] != b"#bundle\0":
        return [parse(data)]
    found: list[tuple[str, str, list[Value]] | None] = []
    at = 16
    while depth < _DEPTH_MAX and at + 4 <= len(data):
        size = struct.unpack_from(">I", data, at)[0]
        if size > len(data) - at - 4:
            break
        found += messages(data[at + 4:at + 4 + size], depth + 1)
        at += 4 + size
    return found if at == len(data) else [*found, None]


class _Framer:
    """Packets of a TCP connection, each behind its length."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, data: bytes) -> list[memoryview] | None:
        """The packets that are complete; None: the other side does not send lengths."""
        self._left += data
        packets: list[memoryview] = []
        at = 0
        while len(self._left) - at >= 4:
            size = struct.unpack_from(">I", self._left, at)[0]
            if size > _PACKET_MAX:
                return None
            if len(self._left) - at < 4 + size:
                break
            packets.append(memoryview(bytes(self._left[at + 4:at + 4 + size])))
            at += 4 + size
        del self._left[:at]
        return packets


class OscResults(Results):
    """The results of one stream, by a subscription that renews itself."""

    def __init__(self, address: str, stream: str, *, tcp: bool, timeout: float | None, until_end: bool,
                 answer_timeout: float = 5.0) -> None:
        super().__init__(timeout, until_end)
        if not stream or not stream.isascii() or any(c in stream for c in "/ *?[]{}#,"):
            raise Error(f"'{stream}' is no stream: write osc://HOST:PORT/STREAM")
        split_host_port(address)
        self._prefix, self._tcp = f"/convolvd/{stream}/", tcp
        self._name = f"osc{'+tcp' if tcp else ''}://{address}/{stream}"
        self._framer = _Framer()
        self._packets: list[memoryview] = []
        self._sequence: int | None = None
        self._next: tuple[int, int] | None = None
        self._renew_s = 0.0
        self.rate_hz, self.channels = 0.0, 0
        self._refusal: str | None = None
        self._socket = self._connect(address)
        try:
            self._ask(answer_timeout)
        except Error:
            self.close()
            raise

    def _connect(self, address: str) -> socket.socket:
        where = resolve(address, kind=socket.SOCK_STREAM if self._tcp else socket.SOCK_DGRAM)
        connection = socket.socket(where.family, socket.SOCK_STREAM if self._tcp else socket.SOCK_DGRAM)
        try:
            connection.settimeout(5)
            if not self._tcp:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            connection.connect(where.where)
        except OSError as error:
            connection.close()
            raise Error(f"{self._name}: {error.strerror or error}") from None
        connection.setblocking(False)
        return connection

    def _ask(self, answer_timeout: float) -> None:
        """Waits until the daemon has told the stream's properties."""
        deadline = time.monotonic() + answer_timeout
        while self.channels == 0:
            self._send(self._prefix + "info")
            self.timeout, kept = None, self.timeout
            self._wait_for_info(min(time.monotonic() + _ASK_AGAIN_S, deadline))
            self.timeout = kept
            if self._refusal is not None:
                raise Error(f"{self._name}: {self._refusal}")
            if self.channels == 0 and (self.ended or time.monotonic() >= deadline):
                raise Error(f"{self._name}: nobody answers; does [osc] of the daemon have this address, "
                            "and may this machine ask (`allow`)?")
        self._renew()

    def _wait_for_info(self, deadline: float) -> None:
        while self.channels == 0 and self._refusal is None and not self.ended and time.monotonic() < deadline:
            if self._poll() is None:
                time.sleep(0.002)

    def _renew(self) -> None:
        self._renew_s = time.monotonic() + _RENEW_S
        self._send(self._prefix + "subscribe", "s", "results")

    def _send(self, address: str, types: str = "", *values: Value) -> None:
        packet = message(address, types, *values)
        try:
            self._socket.send(struct.pack(">I", len(packet)) + packet if self._tcp else packet)
        except (BlockingIOError, ConnectionError):
            pass  # it is asked again

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._send(self._prefix + "unsubscribe")
        self._socket.close()
        self.ended = True

    def _wake_s(self) -> float:
        return max(0.0, self._renew_s - time.monotonic())

    def _read(self) -> bool:
        """Reads what is there; False: nothing."""
        try:
            data = self._socket.recv(_PACKET_MAX)
        except BlockingIOError:
            return False
        except ConnectionError:
            self.ended = self._tcp
            return False
        if self._tcp and not data:
            self.ended = True
            return False
        packets = self._framer.feed(data) if self._tcp else [memoryview(data)]
        if packets is None:
            self.ledger.datagrams += 1
            self.ledger.reject("malformed")
            self.ended = True
            return False
        self._packets += packets
        return True

    def _poll(self) -> Block | None:
        if self.channels and time.monotonic() >= self._renew_s:
            self._renew()
        while True:
            while self._packets:
                block = self._take_packet()
                if block is not None:
                    return block
            if not self._read():
                return None

    def _take_packet(self) -> Block | None:
        """The first message that waits; a bundle is replaced by its messages."""
        data = self._packets.pop(0)
        if data[:8] == b"#bundle\0":
            return self._take_bundle(data)
        self.ledger.datagrams += 1
        return self._take(parse(data))

    def _take_bundle(self, data: memoryview) -> Block | None:
        """The daemon sends none; of others only what is no result is of use."""
        for found in messages(data):
            self.ledger.datagrams += 1
            if found is not None and found[0].endswith("/result"):
                found = None
            self._take(found)
        return None

    def _take(self, found: tuple[str, str, list[Value]] | None) -> Block | None:
        if found is None:
            self.ledger.reject("malformed")
            return None
        address, types, values = found
        self._heard()
        if address == self._prefix + "result":
            return self._result(types, values)
        self.ledger.other += 1
        if address == "/prove" and types == "i":
            self._send("/convolvd/prove", "i", values[0])
            self._send(self._prefix + "info")
        elif address == self._prefix + "info" and types[:len(_INFO_TYPES)] == _INFO_TYPES:
            channels, rate_hz = values[3], values[13]
            assert isinstance(channels, int) and isinstance(rate_hz, float)
            if rate_hz > 0 and 1 <= channels <= 65536:
                self.rate_hz, self.channels = rate_hz, channels
        elif address == "/convolvd/error" and types == "ss" and str(values[0]).startswith(self._prefix):
            self._refusal = str(values[1])
        return None

    def _result(self, types: str, values: list[Value]) -> Block | None:
        if types != _RESULT_TYPES or self.channels == 0:
            self.ledger.reject("malformed")
            return None
        sequence, first, channels, epoch, flags, latency_us, delay, blob = values
        assert isinstance(sequence, int) and isinstance(first, int) and isinstance(channels, int)
        assert isinstance(epoch, int) and isinstance(flags, int) and isinstance(blob, memoryview)
        assert isinstance(latency_us, float) and isinstance(delay, float)
        if channels != self.channels or len(blob) % (4 * channels) or first < 0 or not 0 <= latency_us < 1e15:
            self.ledger.reject("size")
            return None
        samples = np.frombuffer(blob, ">f4").astype(np.float32).reshape(-1, channels)
        epoch &= 0xFFFFFFFF
        causes = causes_of(flags >> 16 & 0xFFFF)
        end = first + len(samples)
        # The message says which causes there are, not which frames of it they flag.
        invalid = (Range(first, end, causes),) if flags & _INVALID and len(samples) else ()
        expected = self._next[1] if self._next is not None and self._next[0] == epoch else 0
        missing = (Range(min(expected, first), first, causes),) if flags & _SHED else ()
        lost = max(0, sequence - self._sequence - 1) if self._sequence is not None else 0
        self._sequence = sequence
        block = Block(samples, first, epoch, self.rate_hz, invalid, missing, latency_ns=round(latency_us * 1e3),
                      delay_frames=delay, epoch_start=bool(flags & _EPOCH_START), epoch_end=bool(flags & _EPOCH_END),
                      partial=bool(flags & _PARTIAL), gain_differs=bool(flags & _GAIN), receive_ns=time.time_ns(),
                      lost_before=lost)
        self._count(block, expected)
        return block

    def _count(self, block: Block, expected: int) -> None:
        ledger = self.ledger
        new_epoch = self._next is None or self._next[0] != block.epoch
        if self._next is None:
            expected = block.first_frame  # joined while the epoch was running
        self._next = (block.epoch, block.end_frame)
        ledger.epochs += new_epoch
        ledger.accepted += 1
        ledger.lost += block.lost_before
        ledger.frames += len(block)
        ledger.frames_lost += max(0, block.first_frame - expected)
        ledger.frames_invalid += sum(piece.until - piece.first for piece in block.invalid)
        ledger.frames_shed += sum(piece.until - piece.first for piece in block.missing)
