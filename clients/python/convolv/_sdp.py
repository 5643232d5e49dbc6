"""The SDP file of a result stream (RFC 8866), as far as a receiver needs it. Lines that it does not know are skipped."""
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from convolv._errors import Error
from convolv._format import sample_format

_FILE_BYTES_MAX = 64 << 10


@dataclass(frozen=True)
class Description:
    """Where results go and what they are."""

    address: str
    format: str
    rate_hz: float
    channels: int
    full_scale: float
    payload_type: int


def read_sdp(path: str | os.PathLike[str]) -> Description:
    try:
        with open(path, "rb") as file:
            text = file.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise Error(f"{os.fspath(path)}: {error.strerror}") from None
    try:
        return parse_sdp(text.decode("utf-8", "replace"))
    except Error as error:
        raise Error(f"{os.fspath(path)}: {error}") from None


class _Payload(NamedTuple):
    type: int
    format: str
    rate_hz: float
    channels: int


_CONNECTION = r"^c=IN (IP[46]) ([^/\s]+)"
_MEDIA = r"^m=audio (\d{1,5})(?:/\d+)? RTP/AVPF?((?: \d{1,3})+)\s*$"
# RFC 3551 section 6: the static types of linear samples need no a=rtpmap.
_STATIC = {10: _Payload(10, "L16", 44100.0, 2), 11: _Payload(11, "L16", 44100.0, 1)}


def _sections(text: str) -> tuple[str, str]:
    """What holds for the whole session, and the first audio section that is not rejected (port 0)."""
    session, *sections = re.split(r"^(?=m=)", text.replace("\r", "\n"), flags=re.M)
    for section in sections:
        media = re.match(_MEDIA, section, re.M)
        if media and 1 <= int(media.group(1)) <= 65535:
            return session, section
    return session, ""


def _payloads(section: str, types: list[str]) -> list[_Payload]:
    """In the order of preference; those of which nothing is known are left out."""
    found = []
    for number in map(int, types):
        mapped = re.search(rf"^a=rtpmap:{number} ([^/\s]+)/([\d.]+)(?:/(\d+))?", section, re.M)
        if mapped:
            found.append(_Payload(number, re.sub("^l", "L", mapped.group(1)), _number(mapped.group(2)),
                                  int((mapped.group(3) or "1")[:9])))
        elif number in _STATIC:
            found.append(_STATIC[number])
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Error("the SDP's rate or full scale is no number") from None


def _is_known(name: str) -> bool:
    try:
        sample_format(name)
    except Error:
        return False
    return True


def parse_sdp(text: str) -> Description:
    """
    >>> parse_sdp("c=IN IP4 239.1.2.3/8\\r\\nm=audio 5004 RTP/AVP 96\\r\\na=rtpmap:96 L24/48000/4\\r\\n")
    Description(address='239.1.2.3:5004', format='L24', rate_hz=48000.0, channels=4, full_scale=1.0, payload_type=96)
    """
    session, chosen = _sections(text)

    def first(pattern: str, where: str = chosen) -> re.Match[str] | None:
        return re.search(pattern, where, re.M)

    connection = first(_CONNECTION) or first(_CONNECTION, session)
    media = first(_MEDIA)
    mapped = _payloads(chosen, media.group(2).split()) if media else []
    known = [payload for payload in mapped if _is_known(payload.format)]
    if connection is None or media is None or not mapped:
        raise Error("not the SDP of an RTP stream: it needs c=IN IP4 …, m=audio PORT RTP/AVP TYPE "
                    "and a=rtpmap:TYPE FORMAT/RATE/CHANNELS")
    payload = (known or mapped)[0]
    rate, scale = first(r"^a=x-convolvd-rate:(\S+)"), first(r"^a=x-convolvd-full-scale:(\S+)")
    try:
        rate_hz = float(rate.group(1)) if rate else payload.rate_hz
        full_scale = float(scale.group(1)) if scale else 1.0
    except ValueError:
        raise Error("the SDP's rate or full scale is no number") from None
    port, payload_type, channels = int(media.group(1)), payload.type, payload.channels
    if not (0 < rate_hz < 1e15 and 0 < full_scale < 1e300 and 1 <= channels <= 1024 and 1 <= port <= 65535
            and payload_type <= 127):
        raise Error("the SDP's rate, channels, full scale or port are out of range")
    host = f"[{connection.group(2)}]" if connection.group(1) == "IP6" else connection.group(2)
    return Description(f"{host}:{port}", payload.format, rate_hz, channels, full_scale, payload_type)
