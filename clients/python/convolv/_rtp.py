"""RTP packets (RFC 3550) and the header extensions of results (RFC 8285, docs/results.md): pure functions over bytes.

Every length is checked before what it covers is read. The packets of the daemon have one layout, which one
struct reads; anything else goes the general way.
"""
from __future__ import annotations

import struct
from typing import NamedTuple

HEADER_BYTES = 12
HEARTBEAT_TYPE = 95

INVALID, EPOCH_START, EPOCH_END, ALIGNED, HEARTBEAT, GAIN, PARTIAL = 1, 2, 4, 8, 16, 32, 64

_HEADER = struct.Struct(">BBHII")
_ONE_BYTE = 0xBEDE
# The header with elements 1 to 6 in order, each with the byte that names it and its size.
_RESULT = struct.Struct(">BBHIIHHBQB4IBBBHIIIBQIIBHHBH")
_HEADS = (_ONE_BYTE, (_RESULT.size - HEADER_BYTES - 4) // 4, 0x17, 0x2F, 0x3F, 0x4F, 0x53, 0x61)
_ELEMENTS = {1: ">Q", 2: ">4I", 3: ">BBHIII", 4: ">QII", 5: ">HH", 6: ">H", 7: ">QIH", 8: ">QI"}
_NEEDED = 5

_NTP_TO_UNIX_S = 2208988800


class Info(NamedTuple):
    """The header extensions of a result."""

    ntp: int
    stages_100ns: tuple[int, int, int, int]
    clock: int
    flags: int
    causes: int
    clock_error_ns: int
    egress_100ns: int
    epoch: int
    first_frame: int
    record: int
    delay_half_frames: int
    invalid_from: int
    invalid_until: int
    decimate: int = 1
    hole: tuple[int, int, int] = (0, 0, 0)
    """First missing frame, how many, bits of causes."""
    gain: tuple[int, int] = (0, 0)
    """Frame from which the gains in force apply, how often they were changed."""


class Packet(NamedTuple):
    marker: bool
    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    payload: memoryview
    info: Info | None


def parse(data: memoryview) -> Packet | None:
    """A packet; None: malformed. Padding is left out of the payload."""
    size = len(data)
    if size >= _RESULT.size and data[0] & 0xDF == 0x90:
        (first, second, sequence, timestamp, ssrc, profile, words, head1, ntp, head2, accumulate, ingest, wait, device,
         head3, clock, flags, causes, clock_error_ns, egress, epoch, head4, first_frame, record, delay, head5,
         invalid_from, invalid_until, head6, decimate) = _RESULT.unpack_from(data)
        if (profile, words, head1, head2, head3, head4, head5, head6) == _HEADS:
            end = size if first == 0x90 else _without_padding(data, _RESULT.size)
            if end < 0:
                return None
            info = Info(ntp, (accumulate, ingest, wait, device), clock, flags, causes, clock_error_ns, egress, epoch,
                        first_frame, record, delay, invalid_from, invalid_until, decimate or 1)
            return Packet(second > 127, second & 127, sequence, timestamp, ssrc, data[_RESULT.size:end], info)
    return _parse_any(data)


def _without_padding(data: memoryview, used: int) -> int:
    """The end of the payload; -1: the padding is wrong."""
    padding = data[-1] if len(data) > used else 0
    return len(data) - padding if 0 < padding <= len(data) - used else -1


def _parse_any(data: memoryview) -> Packet | None:
    if len(data) < HEADER_BYTES or data[0] >> 6 != 2:
        return None
    first, second, sequence, timestamp, ssrc = _HEADER.unpack_from(data)
    used = HEADER_BYTES + 4 * (first & 15)
    extension: memoryview | None = None
    if first & 0x10:
        if len(data) < used + 4:
            return None
        profile, words = struct.unpack_from(">HH", data, used)
        used += 4
        if len(data) < used + 4 * words:
            return None
        if profile == _ONE_BYTE:
            extension = data[used:used + 4 * words]
        used += 4 * words
    end = _without_padding(data, used) if first & 0x20 else len(data)
    if end < 0 or len(data) < used:
        return None
    info = _parse_info(extension) if extension is not None else None
    return Packet(second > 127, second & 127, sequence, timestamp, ssrc, data[used:end], info)


def _parse_info(extension: memoryview) -> Info | None:
    """The elements of the extension; None: one that every result has is missing, or one has another size."""
    found: dict[int, tuple[int, ...]] = {}
    at = 0
    while at < len(extension):
        head = extension[at]
        at += 1
        if head == 0:
            continue
        number, size = head >> 4, (head & 15) + 1
        if number == 15 or len(extension) - at < size:
            break
        if number in _ELEMENTS:
            if size != struct.calcsize(_ELEMENTS[number]):
                return None
            found[number] = struct.unpack_from(_ELEMENTS[number], extension, at)
        at += size
    if any(number not in found for number in range(1, _NEEDED + 1)):
        return None
    accumulate, ingest, wait, device = found[2]
    clock, flags, causes, clock_error_ns, egress, epoch = found[3]
    first_frame, record, delay = found[4]
    invalid_from, invalid_until = found[5]
    hole, gain = found.get(7, (0, 0, 0)), found.get(8, (0, 0))
    return Info(found[1][0], (accumulate, ingest, wait, device), clock, flags, causes, clock_error_ns, egress, epoch,
                first_frame, record, delay, invalid_from, invalid_until, found.get(6, (1,))[0] or 1,
                (hole[0], hole[1], hole[2]), (gain[0], gain[1]))


def clock_error(clock_error_ns: int) -> int | None:
    """The bound of a capture time; None: it is saturated, so nothing is known."""
    return clock_error_ns if clock_error_ns != 0xFFFFFFFF else None


def ns_from_ntp(ntp: int) -> int:
    """Nanoseconds since 1970 of an NTP time stamp, from 1968 to 2104 (RFC 4330 section 3)."""
    seconds = ntp >> 32
    if seconds < 1 << 31:
        seconds += 1 << 32
    return (seconds - _NTP_TO_UNIX_S) * 1_000_000_000 + (((ntp & 0xFFFFFFFF) * 1_000_000_000 + (1 << 31)) >> 32)
