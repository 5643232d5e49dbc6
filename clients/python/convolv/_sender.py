"""Sending: arrays to datagrams as a rig sends them (RTP, headerless UDP, or UDP with a 64-bit sequence number).

`Sender` builds and transmits; it never waits. `Stream` and convolv.aio.Stream wait for it, each in its own way, when
a datagram is not due yet or the kernel has no room.
"""
from __future__ import annotations

import errno
import random
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from convolv._address import UDP_SEGMENT, open_sender, split_url
from convolv._auth import TRAILER_BYTES, Key, Sealer, read_key
from convolv._errors import Error
from convolv._format import Wire, sample_format

FRAMINGS = {"rtp": 12, "udp": 0, "udp-seq": 8}
_UDP_PAYLOAD_MAX = 65507
_SEGMENTS_MAX = 64
_RETRY_S = 1e-4
_RETRIES_MAX = 10_000  # 1 s, then the datagram counts as failed
_BEHIND_S = 0.1
_NO_ROOM = (errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM)
_CANNOT_CUT = (errno.EINVAL, errno.EMSGSIZE, errno.EIO, errno.ENOPROTOOPT, errno.EOPNOTSUPP)


@dataclass(slots=True)
class SentLedger:
    """What was sent. built = queued + datagrams + failed, at every instant."""

    built: int = 0
    frames: int = 0
    """Frames in the datagrams built."""
    queued: int = 0
    datagrams: int = 0
    """Taken by the kernel."""
    bytes: int = 0
    """UDP payload of these."""
    failed: int = 0
    """Not taken by the kernel."""
    refused: int = 0
    """How often the other side said that nobody listens (ICMP)."""
    saturated: int = 0
    """Samples clipped by an integer format, or NaN."""
    late: int = 0
    """How often the program was more than 0.1 s behind, so that what followed was sent later, not faster."""


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """As the keywords of Stream."""

    rate_hz: float
    channels: int = 1
    format: str = "L16"
    full_scale: float = 1.0
    framing: str = "rtp"
    bits: int = 0
    left: bool = False
    packet_frames: int = 0
    mtu: int = 1500
    payload_type: int = 96
    ssrc: int | None = None
    big_endian_sequence: bool = False
    key: Key | None = None
    interface: str | None = None
    ttl: int = 1
    send_buffer_bytes: int = 0
    segment: bool = False
    pace: bool = True


def _check(options: SenderOptions) -> None:
    checks = (
        (1 <= options.channels <= 1024, "channels: give 1 to 1024"),
        (options.rate_hz > 0, "rate_hz: give the frames per second"),
        (options.full_scale > 0, "full_scale: give the value of full scale, above 0"),
        (options.framing in FRAMINGS, f"framing '{options.framing}' is not known: write rtp, udp or udp-seq"),
        (68 <= options.mtu <= 65535, "mtu: give 68 to 65535 bytes"),
        (options.packet_frames >= 0, "packet_frames: give the frames of a datagram, or 0 for as many as the mtu allows"),
        (0 <= options.payload_type <= 127, "payload_type: give 0 to 127"),
        (1 <= options.ttl <= 255, "ttl: give 1 to 255 hops"),
        (options.key is None or options.framing != "udp",
         "key: tags need sequence numbers; use the framing rtp or udp-seq"),
    )
    for good, sentence in checks:
        if not good:
            raise Error(sentence)


class Sender:
    """One stream of samples to one address."""

    def __init__(self, address: str, options: SenderOptions) -> None:
        _check(options)
        scheme, where = split_url(address)
        if scheme not in ("", "udp", "rtp"):
            raise Error(f"'{address}': samples are sent to udp://HOST:PORT")
        self._options = options
        self._form = sample_format(options.format, options.bits, options.left)
        self._rtp = options.framing == "rtp"
        self._header_bytes = FRAMINGS[options.framing]
        self._frame_bytes = options.channels * self._form.size
        self._sealer = Sealer(read_key(options.key), options.framing) if options.key is not None else None
        self._socket, self.address = open_sender(where, options.interface, options.ttl, options.send_buffer_bytes)
        try:
            self.packet_frames = self._choose_packet()
        except Error:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._segment = options.segment
        self.ledger = SentLedger()
        self._start_s: float | None = None
        self._passed_frames = 0
        self._retries = 0
        self.ssrc = random.getrandbits(32) if options.ssrc is None else options.ssrc
        self._sequence = self._timestamp = 0
        self._numbers()

    def _numbers(self) -> None:
        """Random ones of RTP, as RFC 3550 asks for; a count from 0 of the other framings."""
        self._sequence = random.getrandbits(16) if self._rtp else 0
        self._timestamp = random.getrandbits(32) if self._rtp else 0

    def _choose_packet(self) -> int:
        options, own = self._options, self._header_bytes + (TRAILER_BYTES if self._sealer else 0)
        ip = (40 if self.address.family == socket.AF_INET6 else 20) + 8
        frames = options.packet_frames or max(1, (options.mtu - ip - own) // self._frame_bytes)
        limit = (_UDP_PAYLOAD_MAX - own) // self._frame_bytes
        if frames > limit:
            raise Error(f"a packet of {frames} frames of {self._frame_bytes} bytes does not fit a datagram: "
                        f"at most {limit} frames")
        return frames

    # ---- encoding ----

    def encode(self, values: npt.ArrayLike, codes: bool) -> Wire:
        """Frames as the wire has them, one row a frame."""
        array = np.asarray(values)
        if array.ndim == 1 and self._options.channels == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != self._options.channels:
            raise Error(f"an array of shape {array.shape} was given; this stream takes (frames, {self._options.channels})")
        if array.dtype.kind not in "iuf":
            raise Error(f"an array of {array.dtype} was given; send real numbers")
        if codes:
            wire, saturated = self._form.encode_codes(array)
        else:
            scale = self._options.full_scale
            wire, saturated = self._form.encode(array if scale == 1 else array / scale)
        self.ledger.saturated += saturated
        return wire

    # ---- building ----

    def _headers(self, count: int, marker: bool) -> npt.NDArray[np.uint8]:
        """One row a datagram, for `count` full ones from the next on (the last may be shorter)."""
        n = np.arange(count, dtype=np.uint64)
        if self._rtp:
            row = np.dtype([("first", "u1"), ("type", "u1"), ("sequence", ">u2"), ("timestamp", ">u4"), ("ssrc", ">u4")])
            header = np.zeros(count, row)
            header["first"], header["type"], header["ssrc"] = 0x80, self._options.payload_type, self.ssrc
            header["sequence"] = n + np.uint64(self._sequence) & np.uint64(0xFFFF)
            header["timestamp"] = n * np.uint64(self.packet_frames) + np.uint64(self._timestamp) & np.uint64(0xFFFFFFFF)
            if marker:
                header["type"][0] |= 0x80
            return header.view(np.uint8).reshape(count, self._header_bytes)
        order = ">u8" if self._options.big_endian_sequence else "<u8"
        header8 = (n + np.uint64(self._sequence)).astype(order)
        return header8.view(np.uint8).reshape(count, 8)[:, :self._header_bytes]

    def build(self, wire: Wire, marker: bool) -> list[memoryview]:
        """The datagrams of these frames: full ones and a shorter last one."""
        frames, per = len(wire), self.packet_frames
        if frames == 0:
            return []
        count = -(-frames // per)
        rows = np.zeros((count, self._header_bytes + per * self._frame_bytes), np.uint8)
        if self._header_bytes:
            rows[:, :self._header_bytes] = self._headers(count, marker)
        full = frames // per
        rows[:full, self._header_bytes:] = wire[:full * per].reshape(full, per * self._frame_bytes)
        rest = (frames - full * per) * self._frame_bytes
        if rest:
            rows[full, self._header_bytes:self._header_bytes + rest] = wire[full * per:].reshape(-1)
        flat, size = rows.reshape(-1).data, rows.shape[1]
        last = size if not rest else self._header_bytes + rest
        datagrams = [flat[at * size:at * size + (size if at < count - 1 else last)] for at in range(count)]
        if self._sealer is not None:
            datagrams = [memoryview(self._sealer.seal(self._sequence + at, bytes(datagram)))
                         for at, datagram in enumerate(datagrams)]
        self._sequence += count
        self._timestamp = self._timestamp + frames & 0xFFFFFFFF
        self.ledger.built += count
        self.ledger.queued += count
        self.ledger.frames += frames
        return datagrams

    # ---- sending ----

    def steps(self, values: npt.ArrayLike, codes: bool, new_record: bool) -> Iterator[float]:
        """Sends an array; yields the seconds to wait before each step. A datagram is due when its last frame would
        have been acquired."""
        wire = self.encode(values, codes)
        per, at = self.packet_frames, 0
        # So many at once that an array of any size needs little memory.
        chunk = max(1, (1 << 20) // (per * self._frame_bytes)) * per
        while at < len(wire):
            piece = wire[at:at + chunk]
            datagrams = self.build(piece, new_record and at == 0)
            yield from self._send_due(datagrams, len(piece))
            at += len(piece)

    def _send_due(self, datagrams: list[memoryview], frames: int) -> Iterator[float]:
        first, per = 0, self.packet_frames
        while first < len(datagrams):
            until = len(datagrams)
            if self._options.pace:
                next_due = min((first + 1) * per, frames)
                acquired = self._acquired(next_due)
                if acquired < frames:
                    until = int(acquired // per)
                if until <= first:
                    yield (next_due - acquired) / self._options.rate_hz
                    continue
            done = self._transmit(datagrams, first, until)
            if done == first:
                yield _RETRY_S
            first = done
        self._passed_frames += frames

    def _acquired(self, next_due: int) -> float:
        """Frames of the running array that would have been acquired by now. `next_due`: how many the next datagram
        needs; a program that is too late for it shifts the schedule, so that it sends later, not faster."""
        now, rate_hz = time.monotonic(), self._options.rate_hz
        if self._start_s is None:
            self._start_s = now
        behind_s = now - self._start_s - (self._passed_frames + next_due) / rate_hz
        if behind_s > _BEHIND_S:
            self._start_s += behind_s
            self.ledger.late += 1
        return (now - self._start_s) * rate_hz - self._passed_frames

    def _transmit(self, datagrams: list[memoryview], first: int, until: int) -> int:
        """Passes datagrams to the kernel as long as it takes them; returns the first that it did not."""
        ledger = self.ledger
        while first < until:
            count = self._group(datagrams, first, until) if self._segment else 1
            try:
                if count > 1:
                    size = struct.pack("=H", len(datagrams[first]))
                    sent = self._socket.sendmsg(datagrams[first:first + count], [(socket.IPPROTO_UDP, UDP_SEGMENT, size)])
                else:
                    sent = self._socket.send(datagrams[first])
            except ConnectionRefusedError:
                ledger.refused += 1  # reports an earlier datagram: the kernel did not try this one
                continue
            except OSError as error:
                if count > 1 and error.errno in _CANNOT_CUT:
                    self._segment = False  # this kernel or route cannot cut
                    continue
                if error.errno in _NO_ROOM and self._retries < _RETRIES_MAX:
                    self._retries += 1
                    return first
                ledger.failed += count
            else:
                ledger.datagrams += count
                ledger.bytes += sent
            self._retries = 0
            ledger.queued -= count
            first += count
        return first

    def _group(self, datagrams: list[memoryview], first: int, until: int) -> int:
        """How many datagrams from `first` on the kernel can cut out of one message: equal ones, the last may be
        shorter."""
        size = len(datagrams[first])
        limit = min(until - first, _SEGMENTS_MAX, max(1, _UDP_PAYLOAD_MAX // size))
        for n in range(1, limit):
            if len(datagrams[first + n]) < size:
                return n + 1
        return limit

    def skip(self, frames: int) -> None:
        """Frames that were not acquired: the time stamp and the clock go on."""
        self._timestamp = self._timestamp + frames & 0xFFFFFFFF
        self._passed_frames += frames

    def restart(self) -> None:
        """Acts as a restarted rig: new SSRC, sequence number and time stamp from the next datagram on."""
        self.ssrc = random.getrandbits(32)
        self._numbers()
        self._start_s, self._passed_frames = None, 0
        if self._sealer is not None:
            self._sealer.begin()

    def close(self) -> None:
        self._socket.close()
