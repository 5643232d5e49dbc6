"""Results over RTP: what libconvolv's receiver does, in Python.

`Receiver.feed` turns one datagram into a block. A datagram passes these checks, each with a counter of its own:

    length → RTP → tag → payload type → whole frames → sender → sequence → block

Nothing that arrives raises. Sequence numbers prove loss, order and duplicates within the last 8192 packets; the frame
number of the header extension says where samples belong. A late packet is delivered late, under its own number.
"""
from __future__ import annotations

import socket
import struct
import time

from convolv import _rtp
from convolv._address import SO_RXQ_OVFL, SO_TIMESTAMPNS, open_receiver
from convolv._auth import Opener
from convolv._block import Block, Ledger, Range, Stages, causes_of, clock_name
from convolv._errors import Error
from convolv._format import Samples, SampleFormat
from convolv._results import Results

_WINDOW = 8192
_EPOCHS_KEPT = 4
_DATAGRAM_MAX = 65535
_U64 = (1 << 64) - 1
_TIMESPEC, _U32 = struct.Struct("@qq"), struct.Struct("@I")


class Receiver:
    """Packets of one sender to blocks; reads no socket. `payload_type`: -1 learns it from the first packet."""

    def __init__(self, form: SampleFormat, channels: int, rate_hz: float, full_scale: float = 1.0,
                 payload_type: int = -1, secret: bytes | None = None) -> None:
        if not 1 <= channels <= 1024:
            raise Error("channels: give 1 to 1024")
        if not rate_hz > 0 or not full_scale > 0:
            raise Error("full scale and rate: give values above 0")
        if payload_type > 127:
            raise Error("payload type: give 0 to 127, or -1 to learn it")
        self.ledger = Ledger()
        self.heard = False
        """Whether the last datagram was of the sender followed."""
        self._form, self._channels, self._rate_hz = form, channels, rate_hz
        self._scale = 1.0 if form.kind == "f" else full_scale
        self._frame_bytes = channels * form.size
        self._payload_type = payload_type
        self._opener = Opener(secret) if secret is not None else None
        self._ssrc = -1
        self._candidate = (-1, -1)
        self._first_sequence = self._newest_sequence = 0
        self._first_timestamp = self._newest_timestamp = 0
        self._seen = bytearray(_WINDOW)
        self._next_frames: dict[int, int] = {}
        self._own_epoch = -1

    def feed(self, datagram: bytes | bytearray | memoryview, receive_ns: int | None = None) -> Block | None:
        """The block of a datagram; None when it was a heartbeat or rejected (see the ledger)."""
        self.ledger.datagrams += 1
        self.heard = False
        data = memoryview(datagram)
        packet = _rtp.parse(data) if len(data) <= _DATAGRAM_MAX else None
        if packet is None:
            return self._reject("malformed" if len(data) <= _DATAGRAM_MAX else "truncated")
        why = self._opener.open(packet.sequence, data) if self._opener is not None else None
        if why is not None:
            return self._reject(why)
        info = packet.info
        if info is not None and packet.payload_type == _rtp.HEARTBEAT_TYPE and not packet.payload \
                and info.flags & _rtp.HEARTBEAT:
            return self._take_heartbeat(packet.ssrc)
        why = self._refusal(packet)
        if why is not None:
            return self._reject(why)
        return self._accept(packet, receive_ns)

    def _reject(self, why: str) -> Block | None:
        self.ledger.reject(why)
        return None

    def _take_heartbeat(self, ssrc: int) -> Block | None:
        """It repeats the number of the newest packet, so it is none of the sequence."""
        if self._ssrc not in (-1, ssrc):
            return self._reject("ssrc")
        self.heard = True
        self.ledger.heartbeats += 1
        return None

    def _refusal(self, packet: _rtp.Packet) -> str | None:
        info, size = packet.info, len(packet.payload)
        if self._payload_type >= 0 and packet.payload_type != self._payload_type:
            return "payload type"
        # A packet without frames reports a hole, or that an epoch began or ended.
        reports = info is not None and (info.flags & (_rtp.EPOCH_START | _rtp.EPOCH_END) or info.hole[1] > 0)
        if size % self._frame_bytes or (size == 0 and not reports):
            return "size"
        if info is not None and (info.first_frame > _U64 // 4 or info.hole[0] > info.first_frame):
            return "malformed"
        return None if self._follow(packet) else "ssrc"

    def _follow(self, packet: _rtp.Packet) -> bool:
        """True for the sender that is followed. Two packets in order prove a new one, which it then follows."""
        if packet.ssrc == self._ssrc:
            return True
        if self._ssrc >= 0 and self._candidate != (packet.ssrc, packet.sequence):
            self._candidate = (packet.ssrc, (packet.sequence + 1) & 0xFFFF)
            return False
        self._own_epoch += 1
        self._candidate = (-1, -1)
        self._ssrc = packet.ssrc
        # One cycle above zero, so that packets older than the first have numbers too.
        self._first_sequence = self._newest_sequence = 0x10000 + packet.sequence
        self._first_timestamp = self._newest_timestamp = (1 << 32) + packet.timestamp
        self._seen = bytearray(_WINDOW)
        self.ledger.senders += 1
        return True

    def _extend(self, sequence16: int) -> tuple[int, int, bool] | str:
        """(extended sequence number, packets lost before it, late), or why it is rejected."""
        step = (sequence16 - self._newest_sequence + 0x8000 & 0xFFFF) - 0x8000
        sequence = self._newest_sequence + step
        seen, ledger = self._seen, self.ledger
        if step > 0:
            if step >= _WINDOW:
                self._seen = seen = bytearray(_WINDOW)
            elif step > 1:
                for passed in range(self._newest_sequence + 1, sequence):
                    seen[passed % _WINDOW] = 0
            seen[sequence % _WINDOW] = 1
            self._newest_sequence = sequence
            ledger.lost += step - 1
            return sequence, step - 1, False
        if -step >= _WINDOW:
            return "old"
        if seen[sequence % _WINDOW]:
            return "duplicate"
        seen[sequence % _WINDOW] = 1
        if step == 0:
            return sequence, 0, False  # the very first
        if sequence < self._first_sequence:
            ledger.lost += self._first_sequence - sequence - 1
            self._first_sequence = sequence
        else:
            ledger.lost -= 1
        return sequence, 0, True

    def _accept(self, packet: _rtp.Packet, receive_ns: int | None) -> Block | None:
        time_step = (packet.timestamp - self._newest_timestamp + 0x80000000 & 0xFFFFFFFF) - 0x80000000
        timestamp = self._newest_timestamp + time_step
        if packet.info is None and timestamp < self._first_timestamp:
            return self._reject("old")  # its frame number would be negative
        extended = self._extend(packet.sequence)
        if isinstance(extended, str):
            return self._reject(extended)
        _, lost_before, late = extended
        self._newest_timestamp = max(self._newest_timestamp, timestamp)
        self._payload_type = packet.payload_type
        samples = self._form.decode(packet.payload, self._channels, self._scale)
        if packet.info is not None:
            block = self._described(packet.info, samples)
        else:
            block = Block(samples, timestamp - self._first_timestamp, self._own_epoch, self._rate_hz, described=False)
            self.ledger.undescribed += 1
        block.receive_ns, block.lost_before, block.late = receive_ns, lost_before, late
        self._count(block)
        return block

    def _described(self, info: _rtp.Info, samples: Samples) -> Block:
        flags, frames = info.flags, len(samples)
        first, stages = info.first_frame, info.stages_100ns
        invalid: tuple[Range, ...] = ()
        until = min(info.invalid_until, frames)
        if flags & _rtp.INVALID and info.invalid_from < until:
            invalid = (Range(first + info.invalid_from, first + until, causes_of(info.causes)),)
        hole_first, hole_frames, hole_causes = info.hole
        missing = (Range(hole_first, hole_first + hole_frames, causes_of(hole_causes)),) if hole_frames else ()
        return Block(
            samples, first, info.epoch, self._rate_hz, invalid, missing, _rtp.ns_from_ntp(info.ntp),
            clock_name(info.clock), _rtp.clock_error(info.clock_error_ns), (sum(stages) + info.egress_100ns) * 100,
            Stages(stages[0] * 100, stages[1] * 100, stages[2] * 100, stages[3] * 100, info.egress_100ns * 100),
            info.delay_half_frames / 2 / info.decimate, bool(flags & _rtp.ALIGNED), info.decimate, info.record,
            bool(flags & _rtp.EPOCH_START), bool(flags & _rtp.EPOCH_END), bool(flags & _rtp.PARTIAL),
            bool(flags & _rtp.GAIN), info.gain[1], info.gain[0])

    def _count(self, block: Block) -> None:
        """Counts frames, and those missing inside epochs; a late block takes back those that it brings."""
        ledger, frames = self.ledger, len(block.samples)
        expected = self._next_frames.get(block.epoch)
        if expected is None:
            while len(self._next_frames) >= _EPOCHS_KEPT:
                del self._next_frames[next(iter(self._next_frames))]
            # The receiver joined while the first epoch was running: earlier frames are not lost.
            expected = block.first_frame if ledger.epochs == 0 else 0
            ledger.epochs += 1
            self._next_frames[block.epoch] = expected
        if block.first_frame >= expected:
            # Time stamps of another program's stream also jump at a pause, where no packet is missing.
            if block.described or block.lost_before:
                ledger.frames_lost += block.first_frame - expected
            self._next_frames[block.epoch] = block.first_frame + frames
        else:
            ledger.frames_lost = max(0, ledger.frames_lost - frames)
        self.heard = True
        ledger.accepted += 1
        ledger.reordered += block.late
        ledger.frames += frames
        for piece in block.invalid:
            ledger.frames_invalid += piece.until - piece.first
        for piece in block.missing:
            ledger.frames_shed += piece.until - piece.first


class RtpResults(Results):
    """A receiver with its socket."""

    def __init__(self, address: str, receiver: Receiver, rate_hz: float, channels: int, *, interface: str | None,
                 receive_buffer_bytes: int, timeout: float | None, until_end: bool) -> None:
        super().__init__(timeout, until_end)
        self.rate_hz, self.channels = rate_hz, channels
        self._receiver = receiver
        self.ledger = receiver.ledger
        self._socket, granted = open_receiver(address, interface, receive_buffer_bytes)
        self.ledger.receive_buffer_bytes = granted
        self._buffer = bytearray(_DATAGRAM_MAX + 1)
        self._view = memoryview(self._buffer)
        self._room = socket.CMSG_SPACE(_TIMESPEC.size) + socket.CMSG_SPACE(_U32.size)
        self._drops_seen = 0

    @property
    def port(self) -> int:
        """The bound port, for an address with port 0."""
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
        self.ended = True

    def _poll(self) -> Block | None:
        while True:
            try:
                size, controls, _, _ = self._socket.recvmsg_into((self._buffer,), self._room)
            except BlockingIOError:
                return None
            except ConnectionRefusedError:
                continue  # reports a datagram that somebody else sent
            receive_ns = 0
            for level, kind, data in controls:
                if level != socket.SOL_SOCKET:
                    continue
                if kind == SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
                    seconds, ns = _TIMESPEC.unpack_from(data)
                    receive_ns = seconds * 1_000_000_000 + ns
                elif kind == SO_RXQ_OVFL and len(data) >= _U32.size:
                    drops = _U32.unpack_from(data)[0]
                    self.ledger.kernel_drops += drops - self._drops_seen & 0xFFFFFFFF
                    self._drops_seen = drops
            block = self._receiver.feed(self._view[:size], receive_ns or time.time_ns())
            if self._receiver.heard:
                self._heard()
            if block is not None:
                return block
