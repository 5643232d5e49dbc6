"""The SDP file of a result stream (RFC 8866), as far as a receiver needs it. Lines that it does not know are skipped."""
from __future__ import annotations

import os
import re
from dataclasses import dataclass

from convolv._errors import Error

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


def parse_sdp(text: str) -> Description:
    """
    >>> parse_sdp("c=IN IP4 239.1.2.3/8\\r\\nm=audio 5004 RTP/AVP 96\\r\\na=rtpmap:96 L24/48000/4\\r\\n")
    Description(address='239.1.2.3:5004', format='L24', rate_hz=48000.0, channels=4, full_scale=1.0, payload_type=96)
    """
    def first(pattern: str) -> re.Match[str] | None:
        return re.search(pattern, text, re.M)

    connection = first(r"^c=IN (IP[46]) ([^/\s]+)")
    media = first(r"^m=\S+ (\d{1,5}) RTP/AVP (\d{1,3})\b")
    mapped = first(rf"^a=rtpmap:{media.group(2)} ([^/\s]+)/([\d.]+)(?:/(\d{{1,5}}))?") if media else None
    if connection is None or media is None or mapped is None:
        raise Error("not the SDP of an RTP stream: it needs c=IN IP4 …, m=audio PORT RTP/AVP TYPE "
                    "and a=rtpmap:TYPE FORMAT/RATE/CHANNELS")
    rate, scale = first(r"^a=x-convolvd-rate:(\S+)"), first(r"^a=x-convolvd-full-scale:(\S+)")
    try:
        rate_hz = float(rate.group(1) if rate else mapped.group(2))
        full_scale = float(scale.group(1)) if scale else 1.0
    except ValueError:
        raise Error("the SDP's rate or full scale is no number") from None
    port, payload_type, channels = int(media.group(1)), int(media.group(2)), int(mapped.group(3) or 1)
    if not (0 < rate_hz < 1e15 and 0 < full_scale < 1e300 and 1 <= channels <= 1024 and 1 <= port <= 65535
            and payload_type <= 127):
        raise Error("the SDP's rate, channels, full scale or port are out of range")
    host = f"[{connection.group(2)}]" if connection.group(1) == "IP6" else connection.group(2)
    return Description(f"{host}:{port}", mapped.group(1), rate_hz, channels, full_scale, payload_type)
