"""Authentication tags (docs/security.md): SRTP's construction with HMAC-SHA-256, 24 bytes behind the payload.

    | header | payload | rollover 6 | version 1 | tag 16 | 24 |
    |<------------- authenticated ------------->|
"""
from __future__ import annotations

import hmac
import os
import re
import stat
import time

from convolv._errors import Error

TRAILER_BYTES = 24
_TAG_BYTES = 16
_SIGNED_BYTES = 7  # of the trailer: rollover and version
_VERSION = b"\x01"
_WINDOW = 4096
_ROLLOVER_MASK = (1 << 48) - 1
_P_BIT = 0x20

LABELS = {"rtp": b"convolvd 1 rtp input", "udp-seq": b"convolvd 1 udp-seq input", "results": b"convolvd 1 rtp results"}

Key = bytes | str | os.PathLike[str]


def read_key(key: Key) -> bytes:
    """32 bytes as they are, or those of a key file: 64 hexadecimal digits, neither readable nor writable by others."""
    if isinstance(key, bytes):
        if len(key) != 32:
            raise Error(f"key: {len(key)} bytes; give 32 bytes, or the path of a key file")
        return key
    path = os.fspath(key)
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(256)
    except OSError as error:
        raise Error(f"key {path}: {error.strerror}") from None
    if stat.S_IMODE(mode) & (stat.S_IWGRP | stat.S_IRWXO):
        raise Error(f"key {path}: others may read or change it; run chmod 600 {path}")
    if not re.fullmatch(rb"\s*[0-9a-fA-F]{64}\s*", text):
        raise Error(f"key {path}: it must hold 64 hexadecimal digits, as `openssl rand -hex 32` writes them")
    return bytes.fromhex(text.decode("ascii").strip())


def _derive(secret: bytes, use: str) -> bytes:
    return hmac.digest(secret, LABELS[use], "sha256")


class Sealer:
    """Tags the packets of one sender. `use`: rtp or udp-seq, whose keys differ."""

    def __init__(self, secret: bytes, use: str) -> None:
        self._key, self._rtp = _derive(secret, use), use != "udp-seq"
        self._rollover = 0
        self.begin()

    def begin(self) -> None:
        """Numbers packets from the time of this start or restart on; never goes back."""
        now = (time.time_ns() << 16) // 1_000_000_000
        self._rollover = now if now > self._rollover else self._rollover + 1
        self._newest = -1

    def seal(self, sequence: int, packet: bytes) -> bytes:
        """The packet with its tag; call it in the order of sending."""
        sequence &= 0xFFFF
        if sequence <= self._newest:
            self._rollover += 1
        self._newest = sequence
        first = bytes((packet[0] | _P_BIT,)) + packet[1:] if self._rtp else packet
        signed = first + (self._rollover & _ROLLOVER_MASK).to_bytes(6, "big") + _VERSION
        return signed + hmac.digest(self._key, signed, "sha256")[:_TAG_BYTES] + bytes((TRAILER_BYTES,))


class Opener:
    """Checks the tags of results: each packet authentic, and taken once."""

    def __init__(self, secret: bytes) -> None:
        self._key = _derive(secret, "results")
        self._newest = -1
        self._seen = bytearray(_WINDOW)

    def open(self, sequence: int, packet: bytes | memoryview) -> str | None:
        """None, or why the packet is rejected: auth or replay."""
        if len(packet) < TRAILER_BYTES or packet[-1] != TRAILER_BYTES:
            return "auth"
        signed, tag = packet[:-_TAG_BYTES - 1], packet[-_TAG_BYTES - 1:-1]
        if signed[-1:] != _VERSION or not hmac.compare_digest(hmac.digest(self._key, signed, "sha256")[:_TAG_BYTES], tag):
            return "auth"
        rollover = int.from_bytes(signed[-_SIGNED_BYTES:-1], "big")
        return None if self._enter(rollover << 16 | sequence) else "replay"

    def _enter(self, index: int) -> bool:
        """Enters an index into the window; False: it was there, or is too old to know."""
        step = index - self._newest
        if self._newest < 0 or step >= _WINDOW:
            self._seen = bytearray(_WINDOW)
        elif step > 0:
            for passed in range(self._newest + 1, index):
                self._seen[passed % _WINDOW] = 0
        elif step <= -_WINDOW or self._seen[index % _WINDOW]:
            return False
        self._newest = max(self._newest, index)
        self._seen[index % _WINDOW] = 1
        return True
