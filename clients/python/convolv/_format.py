"""Sample formats: how samples lie on the wire and in files, as arrays (daemon/wire/format.h in C).

A code is normalised to [-1, 1): signed c / 2^(bits-1); unsigned (offset binary) (c - 2^(bits-1)) / 2^(bits-1);
float as it is. Encoding rounds to nearest even and saturates, counted; decoding is exact.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from convolv._errors import Error

Samples = npt.NDArray[np.floating[Any]]
Wire = npt.NDArray[np.uint8]
Buffer = bytes | bytearray | memoryview | Wire

_NAMES = {"u8": ("u", 1, False), "s8": ("s", 1, False), "L16": ("s", 2, True), "L24": ("s", 3, True)}
for _kind, _size in (("s", 2), ("u", 2), ("s", 3), ("u", 3), ("s", 4), ("u", 4), ("f", 4)):
    for _order in ("le", "be"):
        _NAMES[f"{_kind}{8 * _size}{_order}"] = (_kind, _size, _order == "be")


@dataclass(frozen=True)
class SampleFormat:
    """One sample on the wire: `kind` s (signed), u (offset binary) or f (IEEE 754 binary32), `size` bytes of which
    `bits` bits are significant, the top ones if `left`."""

    kind: str
    size: int
    big_endian: bool
    bits: int
    left: bool = False

    @property
    def half(self) -> float:
        """Codes of full scale."""
        return float(1 << (self.bits - 1))

    def encode(self, values: npt.ArrayLike) -> tuple[Wire, int]:
        """Normalised values (frames, channels) to the bytes of each frame, and how many were clipped."""
        array = np.asarray(values)
        if self.kind == "f":
            with np.errstate(over="ignore"):
                return _bytes(array.astype(self._dtype()), 4), 0
        scaled = array.astype(np.float64) * self.half
        within = (scaled < self.half - 0.5) & (scaled >= -self.half - 0.5)
        saturated = int(scaled.size - np.count_nonzero(within))
        if saturated:
            scaled = np.where(np.isnan(scaled), 0.0, np.clip(scaled, -self.half, self.half - 1))
        return self._pack(np.rint(scaled).astype(np.int64)), saturated

    def encode_codes(self, codes: npt.ArrayLike) -> tuple[Wire, int]:
        """The same for the codes themselves: signed numbers, of unsigned formats too, in [-half, half)."""
        array = np.asarray(codes)
        if self.kind == "f" or array.dtype.kind not in "iu":
            raise Error("codes are integers of an integer format; send values with send()")
        clipped = np.clip(array.astype(np.int64), -int(self.half), int(self.half) - 1)
        return self._pack(clipped), int(np.count_nonzero(clipped != array))

    def _pack(self, codes: npt.NDArray[np.int64]) -> Wire:
        if self.kind == "u":
            codes = codes + int(self.half)
        if self.left:
            codes = codes << (8 * self.size - self.bits)
        return _bytes(codes.astype(self._dtype("i" if self.kind == "s" else "u")), self.size, self.big_endian)

    def decode(self, wire: Buffer, channels: int, scale: float = 1.0) -> Samples:
        """Whole frames as an array (frames, channels) of its own: float32 of a float format, else float64, times
        `scale`."""
        if self.kind == "f":
            floats = np.frombuffer(wire, self._dtype()).astype(np.float32).reshape(-1, channels)
            return floats if scale == 1.0 else floats.astype(np.float64) * scale
        return (self._codes(wire) * (scale / self.half)).reshape(-1, channels)

    def _codes(self, wire: Buffer) -> npt.NDArray[np.float64]:
        if self.size == 3:
            words = np.zeros((len(wire) // 3, 4), np.uint8)
            at = slice(0, 3) if self.big_endian else slice(1, 4)
            words[:, at] = np.frombuffer(wire, np.uint8).reshape(-1, 3)
            whole = words.view(">i4" if self.big_endian else "<i4")[:, 0] >> 8
        else:
            whole = np.frombuffer(wire, self._dtype("i"))
        if self.bits == 8 * self.size:
            signed = whole.astype(np.float64)
            if self.kind == "u":  # offset binary: the top bit is the other way round
                signed += np.where(signed < 0, self.half, -self.half)
            return signed
        words64 = whole.astype(np.int64)
        if self.left:
            words64 >>= 8 * self.size - self.bits
        words64 &= int(2 * self.half) - 1
        if self.kind == "u":
            return (words64 - int(self.half)).astype(np.float64)
        return np.where(words64 >= self.half, words64 - 2 * self.half, words64).astype(np.float64)

    def _dtype(self, kind: str | None = None) -> np.dtype[Any]:
        return _word_dtype(kind or self.kind, 4 if self.size == 3 else self.size, self.big_endian)


@lru_cache
def _word_dtype(kind: str, size: int, big_endian: bool) -> np.dtype[Any]:
    return np.dtype(f"{'>' if big_endian else '<'}{kind}{size}")


def _bytes(words: npt.NDArray[Any], size: int, big_endian: bool = True) -> Wire:
    """The low `size` bytes of each word, frame by frame."""
    frames = len(words)
    wire = np.ascontiguousarray(words).reshape(frames, -1).view(np.uint8)
    if size != words.dtype.itemsize:
        skip = words.dtype.itemsize - size if big_endian else 0
        wire = wire.reshape(frames, -1, words.dtype.itemsize)[:, :, skip:skip + size].reshape(frames, -1)
    return np.ascontiguousarray(wire)


def sample_format(name: str, bits: int = 0, left: bool = False) -> SampleFormat:
    """A format by its name: L16, L24, u8, s8, s16le, s16be, …, f32le, f32be. `bits`: significant ones of its word,
    0 for all of them.

    >>> sample_format("L24")
    SampleFormat(kind='s', size=3, big_endian=True, bits=24, left=False)
    """
    found = {key.lower(): row for key, row in _NAMES.items()}.get(name.lower())
    if found is None:
        raise Error(f"'{name}' is no sample format: write L16, L24, s32be, f32be, u8, s16le …")
    kind, size, big_endian = found
    form = SampleFormat(kind, size, big_endian, 8 * size)
    if bits in (0, form.bits):
        return form
    if kind == "f" or not 2 <= bits <= form.bits:
        raise Error(f"{bits} bits do not fit the format {name}: give 2 to {form.bits}")
    return replace(form, bits=bits, left=left)
