"""Results from recordings: WAV, RF64 and W64 files of a recording sink, with their sidecars.

The file is mapped, not read: blocks are decoded as they are asked for. A recording may grow meanwhile; what its
header and its sidecar say at the opening counts.
"""
from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from convolv._block import Block, Range
from convolv._errors import Error
from convolv._format import SampleFormat, sample_format
from convolv._results import Results

Path = str | os.PathLike[str]
Json = dict[str, Any]


class _Header(NamedTuple):
    form: SampleFormat
    channels: int
    rate_hz: int
    data_from: int
    data_bytes: int


def _chunks(data: mmap.mmap) -> Iterator[tuple[bytes, int, int]]:
    """(name, first byte, bytes) of each chunk, cut to the file's length."""
    w64 = data[:4] == b"riff"
    at, long_bytes = (40, -1) if w64 else (12, -1)
    while at + (24 if w64 else 8) <= len(data):
        name = bytes(data[at:at + 4])
        if w64:
            begin, size = at + 24, struct.unpack_from("<Q", data, at + 16)[0] - 24
            following = at + 24 + (size + 7 & ~7)
        else:
            begin, size = at + 8, struct.unpack_from("<I", data, at + 4)[0]
            if name == b"data" and size == 0xFFFFFFFF and long_bytes >= 0:
                size = long_bytes
            following = begin + size + size % 2
            if name == b"ds64" and len(data) >= begin + 16:
                long_bytes = struct.unpack_from("<Q", data, begin + 8)[0]
        if size < 0 or following <= at:
            return
        yield name, begin, min(size, len(data) - begin)
        at = following


def _header(data: mmap.mmap, path: str) -> _Header:
    if not (data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE") and not (data[:4] == b"riff" and data[24:28] == b"wave"):
        raise Error(f"{path}: it is no WAV, RF64 or W64 recording")
    kind = channels = rate_hz = bits = 0
    for name, begin, size in _chunks(data):
        if name == b"fmt " and size >= 16:
            kind, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", data, begin)
            if kind == 0xFFFE and size >= 26:
                kind = struct.unpack_from("<H", data, begin + 24)[0]
        elif name == b"data":
            names = {(3, 32): "f32le", (1, 8): "u8", (1, 16): "s16le", (1, 24): "s24le", (1, 32): "s32le"}
            if (kind, bits) not in names or not 1 <= channels <= 65535 or rate_hz < 1:
                raise Error(f"{path}: its samples are of format {kind} with {bits} bits, which no recording sink writes")
            return _Header(sample_format(names[kind, bits]), channels, rate_hz, begin, size)
    raise Error(f"{path}: it holds no samples")


def _read_sidecar(path: str) -> Json:
    try:
        with open(path + ".json", encoding="utf-8") as file:
            sidecar = json.load(file)
    except FileNotFoundError:
        raise Error(f"{path}.json: there is no sidecar; with sidecar=False the samples are read alone") from None
    except OSError as error:
        raise Error(f"{path}.json: {error.strerror}") from None
    except ValueError as error:
        raise Error(f"{path}.json: it is no sidecar: {error}") from None
    if not isinstance(sidecar, dict) or not isinstance(sidecar.get("first_frame"), int):
        raise Error(f"{path}.json: it is no sidecar of a recording")
    return sidecar


class _File:
    """One recording."""

    def __init__(self, path: Path, with_sidecar: bool) -> None:
        self.path = os.fspath(path)
        self.sidecar: Json = _read_sidecar(self.path) if with_sidecar else {}
        try:
            with open(self.path, "rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise Error(f"{self.path}: {error.strerror if isinstance(error, OSError) else 'it is empty'}") from None
        self.header = _header(self._data, self.path)
        self._frame_bytes = self.header.channels * self.header.form.size
        self.frames = self.header.data_bytes // self._frame_bytes
        frames = self.sidecar.get("frames")
        if isinstance(frames, int):
            self.frames = min(self.frames, frames)
        self.rate_hz = self._number("rate_hz", float(self.header.rate_hz))
        self.first_frame = int(self._number("first_frame", 0))
        self.epoch = int(self._number("epoch", 0))
        self._factor, self._offset = self._scale()
        self._invalid = self._ranges("invalid")
        self._steps = [(int(step["frame"]), int(step["step_ns"])) for step in self.sidecar.get("clock_steps") or []
                       if isinstance(step, dict) and "frame" in step and "step_ns" in step]

    def _number(self, name: str, otherwise: float) -> float:
        value = self.sidecar.get(name, otherwise)
        return value if isinstance(value, (int, float)) else otherwise

    def _scale(self) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.float64] | None]:
        """(factor, offset) of each channel to its unit; None: the samples are values already."""
        channels = self.sidecar.get("channels")
        whole = self.sidecar.get("content") == "input"
        if not isinstance(channels, list) or len(channels) != self.header.channels or \
                (self.header.form.kind == "f" and not whole):
            return None, None

        def column(name: str, otherwise: float) -> npt.NDArray[np.float64]:
            return np.array([float(channel.get(name, otherwise)) for channel in channels or ()])
        factor = column("full_scale", 1.0)
        if not whole:
            return factor, None
        return factor / 10 ** (column("gain_db", 0.0) / 20), column("offset", 0.0)

    def _ranges(self, name: str) -> list[Range]:
        """Of this file's epoch. One that names another epoch (`missing_before`) is left to the sidecar."""
        found = []
        for piece in self.sidecar.get(name) or []:
            if isinstance(piece, dict) and "epoch" not in piece:
                causes = frozenset([str(piece["cause"])]) if "cause" in piece else frozenset()
                found.append(Range(int(piece["from"]), int(piece["until"]), causes))
        return found

    def block(self, at: int, frames: int) -> Block:
        """Frames [at, at + frames) of the file."""
        begin = self.header.data_from + at * self._frame_bytes
        wire = memoryview(self._data)[begin:begin + frames * self._frame_bytes]
        samples = self.header.form.decode(wire, self.header.channels)
        wire.release()
        if self._factor is not None:
            samples = samples * self._factor
        if self._offset is not None:
            samples = samples - self._offset
        first, until = self.first_frame + at, self.first_frame + at + frames
        side = self.sidecar
        block = Block(samples, first, self.epoch, self.rate_hz, described=bool(side))
        block.invalid = tuple(Range(max(r.first, first), min(r.until, until), r.causes)
                              for r in self._invalid if r.first < until and r.until > first)
        block.missing = tuple(self._ranges("missing_before")) if at == 0 else ()
        if side:
            block.capture_ns = (int(self._number("capture_time_ns", 0)) + round(at * 1e9 / self.rate_hz)
                                + sum(step for frame, step in self._steps if self.first_frame < frame <= first))
            block.clock, block.clock_error_ns = str(side.get("clock")), int(self._number("clock_error_ns", 0))
            block.delay_frames, block.aligned = self._number("delay_frames", 0.0), bool(side.get("aligned"))
            block.decimate, block.record = int(self._number("decimation", 1)), int(self._number("record", 0))
            block.partial = any(r.first < until and r.until > first for r in self._ranges("partial"))
            block.epoch_start = first == 0 and at == 0
            self._gains(block)
        return block

    def _gains(self, block: Block) -> None:
        """Those in force at the end of the block."""
        for change in self.sidecar.get("gains") or []:
            if isinstance(change, dict) and int(change.get("first_frame", 0)) < max(block.end_frame, 1):
                block.gain_from, block.gain_changes = int(change.get("first_frame", 0)), int(change.get("changes", 0))
                block.gain_differs = any(gain != 0 for gain in change.get("gain_db") or []) or \
                    any(change.get("muted") or [])

    def close(self) -> None:
        self._data.close()


class RecordingResults(Results):
    """The frames of one recording, or of several (a sink's `rotate` and epochs) in the order of their frames."""

    def __init__(self, paths: Sequence[Path], *, block_frames: int, sidecar: bool, timeout: float | None,
                 until_end: bool) -> None:
        super().__init__(timeout, until_end)
        if not paths or block_frames < 1:
            raise Error("give at least one recording, and blocks of at least one frame")
        self._files: list[_File] = []
        try:
            for path in paths:
                self._files.append(_File(path, sidecar))
            first = self._files[0]
            for file in self._files:
                if (file.header.channels, file.rate_hz) != (first.header.channels, first.rate_hz):
                    raise Error(f"{file.path}: {file.header.channels} channels at {file.rate_hz:g} Hz are not of one "
                                f"stream with those of {first.path}")
        except Error:
            self.close()
            raise
        self._files.sort(key=lambda file: (file.epoch, file.first_frame))
        self.rate_hz, self.channels = first.rate_hz, first.header.channels
        self._block_frames = block_frames
        self._file, self._at = 0, 0

    @property
    def sidecars(self) -> list[Json]:
        """What the sidecars say, one for each file in order: filters, gains, devices, `missing_after` …"""
        return [file.sidecar for file in self._files]

    @property
    def complete(self) -> bool:
        """Whether every file has ended and no write to it failed."""
        return all(file.sidecar.get("complete") is True for file in self._files)

    def _poll(self) -> Block | None:
        while self._file < len(self._files):
            file = self._files[self._file]
            frames = min(self._block_frames, file.frames - self._at)
            if frames > 0:
                block = file.block(self._at, frames)
                self._at += frames
                self._count(block)
                return block
            self._file, self._at = self._file + 1, 0
        self.ended = True
        return None

    def _count(self, block: Block) -> None:
        self._heard()
        self.ledger.accepted += 1
        self.ledger.datagrams += 1
        self.ledger.frames += len(block)
        self.ledger.undescribed += not block.described
        self.ledger.frames_invalid += int(np.count_nonzero(~block.valid))
        self.ledger.frames_shed += sum(piece.until - piece.first for piece in block.missing)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self.ended = True
