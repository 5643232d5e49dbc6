"""What results are made of: blocks of samples with the daemon's description of them, and the counts of a receiver."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from convolv._format import Samples

CAUSES = ("settling", "tail", "network", "socket", "late", "overload", "non-finite", "filter change", "device",
          "upstream", "capture", "sender", "device, uncertain")
CLOCKS = ("receive", "source", "declared", "converter", "receive batch")

_NO_CAUSES: frozenset[str] = frozenset()
_sets: dict[int, frozenset[str]] = {0: _NO_CAUSES}


def causes_of(bits: int) -> frozenset[str]:
    """The names of a mask of causes; bits that have none yet become `cause N`."""
    found = _sets.get(bits)
    if found is None:
        found = frozenset(CAUSES[n] if n < len(CAUSES) else f"cause {n}" for n in range(16) if bits >> n & 1)
        _sets[bits] = found  # at most 65536
    return found


def clock_name(number: int) -> str:
    return CLOCKS[number] if number < len(CLOCKS) else f"clock {number}"


class Range(NamedTuple):
    """Frames [first, until) of an epoch, and why they are invalid or missing."""

    first: int
    until: int
    causes: frozenset[str] = _NO_CAUSES


class Stages(NamedTuple):
    """Where the latency of a block went, in nanoseconds (docs/accounting.md)."""

    accumulate_ns: int
    ingest_ns: int
    wait_ns: int
    device_ns: int
    egress_ns: int


@dataclass(slots=True, eq=False)
class Block:
    """Frames of a result, in order, with what is known of them.

    `samples[n]` holds frame `first_frame + n` of epoch `epoch`, one column a channel, in the stream's unit. Frame
    numbers are the daemon's: nothing is shifted, and the filter's delay is declared in `delay_frames`.
    """

    samples: Samples
    first_frame: int
    epoch: int
    rate_hz: float
    invalid: tuple[Range, ...] = ()
    """Frames of this block that do not depend on true input alone."""
    missing: tuple[Range, ...] = ()
    """Frames before this block that the daemon could not compute."""
    capture_ns: int | None = None
    """When the first frame was at the converter, in nanoseconds since 1970; None: not known here."""
    clock: str | None = None
    """What the capture time rests on: receive, source, declared, converter, receive batch."""
    clock_error_ns: int | None = None
    """Bound of the capture time's error; None: not known."""
    latency_ns: int | None = None
    """Last frame received by the daemon to the result built, filter delay left out; None: not known here."""
    stages: Stages | None = None
    delay_frames: float = 0.0
    """The filter's delay; applied to frame numbers only when `aligned`."""
    aligned: bool = False
    decimate: int = 1
    record: int = 0
    epoch_start: bool = False
    epoch_end: bool = False
    partial: bool = False
    """Some frames were computed before their whole block had come (`idle flush`)."""
    gain_differs: bool = False
    """Gains or mutes differ from those of the configuration, from frame `gain_from` of the epoch on."""
    gain_changes: int = 0
    gain_from: int = 0
    described: bool = True
    """The daemon described the block; else `first_frame` counts time stamps and the rest is not known."""
    receive_ns: int | None = None
    """When it reached this machine, in nanoseconds since 1970."""
    lost_before: int = 0
    """Packets or messages that were lost on the way here, before this one."""
    late: bool = False
    """Older than the newest block: it fills an earlier gap."""

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def end_frame(self) -> int:
        """One more than the number of the last frame."""
        return self.first_frame + len(self.samples)

    @property
    def frame_numbers(self) -> npt.NDArray[np.int64]:
        """The number of each frame within its epoch."""
        return np.arange(self.first_frame, self.end_frame, dtype=np.int64)

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """For each frame, whether it depends on true input alone."""
        mask = np.ones(len(self.samples), dtype=bool)
        for piece in self.invalid:
            mask[max(0, piece.first - self.first_frame):max(0, piece.until - self.first_frame)] = False
        return mask

    @property
    def causes(self) -> frozenset[str]:
        """Every cause of the block's invalid frames."""
        return _NO_CAUSES.union(*(piece.causes for piece in self.invalid))

    @property
    def capture_times_ns(self) -> npt.NDArray[np.int64]:
        """When each frame was at the converter, in nanoseconds since 1970."""
        if self.capture_ns is None:
            raise ValueError("the capture time is not known here: OSC does not carry it")
        times: npt.NDArray[np.int64] = np.rint(np.arange(len(self.samples)) * (1e9 / self.rate_hz)).astype(np.int64)
        times += self.capture_ns
        return times


@dataclass(slots=True)
class Ledger:
    """What a receiver has seen. datagrams = accepted + heartbeats + other + the sum of rejected, at every instant."""

    datagrams: int = 0
    accepted: int = 0
    heartbeats: int = 0
    other: int = 0
    """OSC messages that are no results: answers, errors, other topics."""
    rejected: dict[str, int] = field(default_factory=dict)
    """How many, by reason: malformed, payload type, ssrc, size, truncated, duplicate, old, auth, replay."""
    kernel_drops: int = 0
    """Dropped because this program did not read its socket in time."""
    lost: int = 0
    """Packets or messages missing by their sequence numbers."""
    reordered: int = 0
    senders: int = 0
    frames: int = 0
    frames_lost: int = 0
    """Frames missing inside epochs, those that the daemon could not compute included; a late block takes its own back."""
    frames_invalid: int = 0
    frames_shed: int = 0
    """Frames that the daemon reported as not computed."""
    epochs: int = 0
    undescribed: int = 0
    receive_buffer_bytes: int = 0

    def reject(self, why: str) -> None:
        self.rejected[why] = self.rejected.get(why, 0) + 1

