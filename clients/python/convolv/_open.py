"""`results`: opens whatever results come from, by how it is written. `collect`: blocks of one epoch as one array."""
from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from convolv._address import split_url
from convolv._auth import Key, read_key
from convolv._block import Block, Range
from convolv._errors import Error
from convolv._format import sample_format
from convolv._osc import OscResults
from convolv._receiver import Receiver, RtpResults
from convolv._recording import RecordingResults
from convolv._results import Results
from convolv._sdp import read_sdp
from convolv._tap import TapResults, run_tap

Path = str | os.PathLike[str]
Source = Path | Sequence[Path] | BinaryIO

_RECORDINGS = (".wav", ".rf64", ".w64")


def results(source: Source, *, format: str | None = None, channels: int | None = None, rate_hz: float | None = None,
            full_scale: float | None = None, payload_type: int | None = None, key: Key | None = None,
            interface: str | None = None, receive_buffer_bytes: int = 16 << 20, tap: bool | Path = False,
            sidecar: bool = True, block_frames: int = 65536, timeout: float | None = None,
            until_end: bool = False) -> Results:
    """The results of a stream, block by block.

    `source` is one of

    - an SDP file (`bearing.sdp`), which the daemon's sink writes: address, format, channels and rate are there;
    - `udp://HOST:PORT`, the address of an RTP sink; then `channels`, `rate_hz` and, unless f32be, `format` and
      `full_scale` are as in the sink;
    - `osc://HOST:PORT/STREAM`, or `osc+tcp://…`: a subscription at the daemon's OSC server;
    - recordings with their sidecars (`.wav`, `.rf64`, `.w64`), one or a list;
    - a file object: the pipe of `convolv-tap --pipe`, such as `sys.stdin.buffer`.

    `tap` puts a convolv-tap between the network and this program (True, or the path of the program): it reads the
    socket at rates that Python cannot, and passes whole runs of packets on. `key` checks the tags of the sink's `key`.
    `block_frames`: frames of a block of recordings. Iteration ends after `timeout` seconds without a block, and
    with `until_end` when an epoch has ended.

    >>> with results("bearing.sdp", timeout=10) as blocks:
    ...     for block in blocks:
    ...         peak = abs(block.samples[block.valid]).max(initial=0)
    ...         if block.end_frame > 4096:
    ...             break
    """
    if not isinstance(source, (str, os.PathLike, Sequence)):
        return TapResults(source, timeout=timeout, until_end=until_end)
    if not isinstance(source, (str, os.PathLike)):
        return RecordingResults(source, block_frames=block_frames, sidecar=sidecar, timeout=timeout, until_end=until_end)
    text = os.fspath(source)
    scheme, rest = split_url(text)
    if scheme in ("osc", "osc+tcp"):
        address, _, stream = rest.partition("/")
        return OscResults(address, stream, tcp=scheme == "osc+tcp", timeout=timeout, until_end=until_end)
    if not scheme and text.lower().endswith(_RECORDINGS):
        return RecordingResults([text], block_frames=block_frames, sidecar=sidecar, timeout=timeout, until_end=until_end)
    if scheme not in ("", "udp", "rtp") or (not scheme and not text.lower().endswith(".sdp")):
        raise Error(f"'{text}': results come from an SDP file, udp://HOST:PORT, osc://HOST:PORT/STREAM or a recording")
    address, payload, scale = rest, -1 if payload_type is None else payload_type, full_scale
    if not scheme:
        described = read_sdp(text)
        address, scale = described.address, full_scale or described.full_scale
        payload = described.payload_type if payload_type is None else payload_type
        format, channels, rate_hz = format or described.format, channels or described.channels, rate_hz or described.rate_hz
    if rate_hz is None:
        raise Error(f"'{text}': give rate_hz and channels as the sink has them, or its SDP file")
    format, channels, scale = format or "f32be", channels or 1, scale or 1.0
    if tap:
        options = {"--listen": address, "--format": format, "--channels": channels, "--rate": repr(float(rate_hz)),
                   "--full-scale": repr(float(scale)), "--receive-buffer": receive_buffer_bytes,
                   "--interface": interface, "--key": key, "--payload-type": payload if payload >= 0 else None}
        return run_tap(tap, options, timeout=timeout, until_end=until_end)
    receiver = Receiver(sample_format(format), channels, rate_hz, scale, payload,
                        read_key(key) if key is not None else None)
    return RtpResults(address, receiver, rate_hz, channels, interface=interface,
                      receive_buffer_bytes=receive_buffer_bytes, timeout=timeout, until_end=until_end)


@dataclass(frozen=True, eq=False)
class Collected:
    """Frames [first_frame, first_frame + len(samples)) of an epoch, each at its number."""

    samples: npt.NDArray[np.float64]
    """(frames, channels); NaN where no frame came."""
    valid: npt.NDArray[np.bool_]
    """For each frame, whether it came and depends on true input alone."""
    first_frame: int
    epoch: int
    rate_hz: float
    capture_ns: int | None
    """Of the first block's first frame."""
    missing: tuple[Range, ...]
    """What the daemon could not compute."""


def collect(blocks: Iterable[Block], frames: int | None = None, first_frame: int | None = None) -> Collected:
    """Blocks of the first epoch that comes, as one array: each frame at its number, never shifted.

    `frames`: stops once so many from `first_frame` on (None: from the first block's) are there or known to be missing;
    None: until the epoch ends or `blocks` does.

    >>> with results("filtered.wav") as blocks:
    ...     recorded = collect(blocks, frames=1000)
    >>> recorded.samples.shape
    (1000, 2)
    """
    pieces: list[Block] = []
    missing: list[Range] = []
    for block in blocks:
        if not pieces:
            first_frame = block.first_frame if first_frame is None else first_frame
        elif block.epoch != pieces[0].epoch:
            break
        pieces.append(block)
        missing += block.missing
        assert first_frame is not None
        if block.epoch_end or (frames is not None and block.end_frame >= first_frame + frames):
            break
    if not pieces or first_frame is None:
        raise Error("no block came")
    end = max(piece.end_frame for piece in pieces)
    count = max(0, end - first_frame) if frames is None else frames
    samples = np.full((count, pieces[0].samples.shape[1]), np.nan)
    valid = np.zeros(count, dtype=bool)
    for piece in pieces:
        skip = max(0, first_frame - piece.first_frame)
        at = piece.first_frame + skip - first_frame
        kept = piece.samples[skip:][:max(0, count - at)]
        samples[at:at + len(kept)] = kept
        valid[at:at + len(kept)] = piece.valid[skip:skip + len(kept)]
    return Collected(samples, valid, first_frame, pieces[0].epoch, pieces[0].rate_hz, pieces[0].capture_ns, tuple(missing))
