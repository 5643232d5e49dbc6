"""`Hits`: events of the daemon's analyses as records: hits, intervals, sources, A-scans, conditions.

A record has the event's place and time as attributes and its values by name, whatever type of analysis made it; the
daemon's own table says which values there are, with units.
"""
from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from convolv._control import Json, Lines, Path, connect, read_answer, request_line
from convolv._errors import Error

_PLACE = ("number", "channel", "epoch", "record", "frame", "arrival_ns", "capture_ns", "clock_error_ns")


@dataclass(frozen=True, slots=True)
class Hit:
    """One event of an analysis. `hit.peak_db` is `hit.values["peak_db"]`; what is undefined is NaN.

    channel
        From 1, as everywhere that people read.
    frame
        The first frame of it, in its epoch.
    arrival_ns
        Realtime of that frame less the filter's delay: when the wave was at the sensor.
    flags, causes
        Why to be careful: cut, timeout, saturated …; and the causes of missing frames.
    """

    analysis: str
    kind: str
    number: int
    channel: int
    epoch: int
    record: int
    frame: int
    arrival_ns: int
    capture_ns: int
    clock: str
    clock_error_ns: int
    delay_frames: float
    flags: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name in ("values", "parameters"):
            raise AttributeError(name)  # a copy that is not filled yet
        for table in (self.values, self.parameters):
            if name in table:
                return table[name]
        raise AttributeError(f"this {self.kind} has no value {name}; it has {', '.join(self.values)}")


def _numbers(table: Any) -> dict[str, float]:
    return {str(name): float("nan") if value is None else value for name, value in dict(table or {}).items()}


def hit_of(event: Json) -> Hit:
    """An event as the daemon and its JSON files write it."""
    try:
        return Hit(str(event["analysis"]), str(event["kind"]), int(event["number"]), int(event["channel"]),
                   int(event["epoch"]), int(event.get("record", 0)), int(event["frame"]), int(event["arrival_ns"]),
                   int(event["capture_ns"]), str(event.get("clock", "")), int(event.get("clock_error_ns", 0)),
                   float(event.get("delay_frames", 0)), tuple(map(str, event.get("flags", ()))),
                   tuple(map(str, event.get("causes", ()))), _numbers(event.get("parameters")),
                   _numbers(event.get("values")))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Error("this is no event of an analysis", "format") from None


def records(hits: Iterable[Hit]) -> npt.NDArray[Any]:
    """Hits as one structured array, a field a value, for numpy and pandas (`pandas.DataFrame(records(hits))`). Values
    that some hits lack are NaN there."""
    hits = list(hits)
    names = list(dict.fromkeys(name for hit in hits for table in (hit.values, hit.parameters) for name in table))
    kinds: list[tuple[str, Any]] = [(name, np.int64) for name in _PLACE] + [(name, np.float64) for name in names]
    kinds.append(("flags", object))
    array = np.empty(len(hits), dtype=kinds)
    for row, hit in zip(array, hits):
        for name in _PLACE:
            row[name] = getattr(hit, name)
        for name in names:
            row[name] = hit.values.get(name, hit.parameters.get(name, float("nan")))
        row["flags"] = " ".join(hit.flags)
    return array


@dataclass(frozen=True, slots=True)
class Transient:
    """The samples of an event: a hit's transient, an averaged A-scan, a spectrum."""

    samples: npt.NDArray[np.float32]
    first: int  #: frames from the event's frame to samples[0], negative for a pre-trigger
    rate_hz: float
    unit: str


class Hits:
    """Events of analyses as they happen; iterate, or call `next`. `missed` counts those that this program was too
    slow for: files hold them all.

    analysis
        Its name; none: all of them.
    kind
        hit, interval, source, ascan or condition; none: all kinds.
    since
        Begins with those that the daemon still keeps after this number; 0: all of them. None: with what comes.
    timeout
        Iteration ends when nothing came for so many seconds; None: never.

    >>> with Hits("vessel", timeout=5) as hits:
    ...     for hit in hits:
    ...         print(hit.channel, hit.peak_db)
    """

    def __init__(self, analysis: str | None = None, *, kind: str | None = None, since: int | None = None,
                 timeout: float | None = None, path: Path | None = None, instance: str | None = None) -> None:
        self.timeout, self.missed = timeout, 0
        link, self.path = connect(path, "observe", instance, 10.0)
        self._lines = Lines(link)
        asked = {"analysis": analysis, "kind": kind, "since": since}
        try:
            self._lines.send(request_line("hits", {name: value for name, value in asked.items() if value is not None}))
            first = self._lines.next(10.0)
            if first is None:
                raise Error("the daemon does not answer", "timeout")
            read_answer(first)
        except Error:
            self.close()
            raise

    def fileno(self) -> int:
        return self._lines.fileno()

    def next(self, timeout: float | None = None) -> Hit | None:
        """The next event; None when none came within `timeout` seconds (None: waits without end)."""
        while True:
            line = self._lines.next(timeout)
            if line is None:
                return None
            try:
                got = json.loads(line)
            except ValueError:
                got = None
            if not isinstance(got, dict):
                raise Error("the daemon sent a line that is no event", "format")
            if "analysis_event" in got:
                return hit_of(got["analysis_event"])
            self.missed += int(got.get("missed", 0))

    def transient(self, hit: Hit) -> Transient:
        """The samples of an event, while the daemon keeps them; Error where it keeps them no more."""
        link, _ = connect(self.path, "observe", None, 10.0)
        lines = Lines(link)
        parts: list[npt.NDArray[np.float32]] = []
        try:
            while True:  # a long one comes in parts
                at = sum(len(part) for part in parts)
                lines.send(request_line("transient", {"analysis": hit.analysis, "number": hit.number, "from": at}))
                line = lines.next(10.0)
                if line is None:
                    raise Error("the daemon does not answer", "timeout")
                answer = read_answer(line)
                parts.append(np.frombuffer(base64.b64decode(answer["samples"], validate=True), dtype="<f4"))
                if len(parts[-1]) == 0 or at + len(parts[-1]) >= int(answer["sample_count"]):
                    break
            return Transient(np.concatenate(parts).astype(np.float32), int(answer["first_sample"]),
                             float(answer["rate_hz"]), str(answer.get("unit", "")))
        except (KeyError, TypeError, ValueError):
            raise Error("the daemon's answer holds no samples", "format") from None
        finally:
            lines.close()

    def close(self) -> None:
        self._lines.close()

    def __iter__(self) -> Iterator[Hit]:
        return self

    def __next__(self) -> Hit:
        hit = self.next(self.timeout)
        if hit is None:
            raise StopIteration
        return hit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def read_hits(path: Path) -> Iterator[Hit]:
    """The events of a file of a `jsonl` sink, one by one; a last line that is not whole (the daemon writes it, or was
    stopped) is left out."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                event = json.loads(line)
            except ValueError:
                raise Error(f"{path}, line {number}: it is no JSON") from None
            if isinstance(event, dict) and "kind" in event and "number" in event:
                yield hit_of(event)
