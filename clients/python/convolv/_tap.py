"""Results through `convolv-tap --pipe` (clients/tools/tap_pipe.h): whole runs of packets in one record, so that Python
works by the block where it would have to by the packet.

The tap reads the socket, checks and counts; this side only cuts its records. It is a program of this machine, so what
is no record of it is an error, not counted away.
"""
from __future__ import annotations

import os
import select
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO, BinaryIO, NamedTuple

import numpy as np

from convolv._block import Block, Range, Stages, causes_of, clock_name
from convolv._errors import Error
from convolv._format import Samples, Wire
from convolv._results import Results
from convolv._rtp import clock_error

_MAGIC, _VERSION = 0x50544E43, 1
_OPENING, _BLOCK, _END = 1, 2, 4  # 3 tells that nothing came for a second
_DESCRIBED, _EPOCH_START, _EPOCH_END, _ALIGNED, _PARTIAL, _GAIN_DIFFERS, _LATE = 1, 2, 4, 8, 16, 32, 64
_HEAD = struct.Struct("=IHHIIIHHIIQIIdqqIIdIIQ5qQq8Q")
_RANGE = struct.Struct("=QQII")
_RECORD_MAX = 64 << 20
_NEVER_NS = (1 << 63) - 1
_START_S = 10.0
_STOP_S = 3.0


class _Record(NamedTuple):
    """struct tap_pipe_record."""

    magic: int
    version: int
    kind: int
    bytes: int
    channels: int
    frames: int
    invalid: int
    missing: int
    sample_bytes: int
    flags: int
    first_frame: int
    epoch: int
    record: int
    rate_hz: float
    capture_ns: int
    receive_ns: int
    clock: int
    clock_error_ns: int
    delay_frames: float
    decimate: int
    gain_changes: int
    gain_from: int
    accumulate_ns: int
    ingest_ns: int
    wait_ns: int
    device_ns: int
    egress_ns: int
    lost_before: int
    quiet_ns: int
    datagrams: int
    accepted: int
    heartbeats: int
    rejected: int
    kernel_drops: int
    lost: int
    reordered: int
    frames_lost: int


class TapResults(Results):
    """The blocks of a pipe. `process`: the tap at its other end, which ends with it."""

    def __init__(self, pipe: BinaryIO | IO[bytes], *, timeout: float | None, until_end: bool,
                 process: subprocess.Popen[bytes] | None = None, said: IO[bytes] | None = None) -> None:
        super().__init__(timeout, until_end)
        self._pipe, self._process, self._said = pipe, process, said
        try:
            self._descriptor = pipe.fileno()
        except (OSError, AttributeError):
            raise Error("give the pipe of convolv-tap --pipe, such as sys.stdin.buffer") from None
        self._head = np.empty(_HEAD.size, np.uint8)
        self._body = np.empty(0, np.uint8)
        self._next: _Record | None = None
        self._used = 0
        self.rate_hz, self.channels = 0.0, 0
        os.set_blocking(self._descriptor, False)
        try:
            self._await_opening()
        except Error:
            self.close()
            raise

    def _await_opening(self) -> None:
        deadline = time.monotonic() + _START_S
        waiter = select.poll()
        waiter.register(self._descriptor, select.POLLIN)
        while self.channels == 0:
            record = self._record()
            if record is not None:
                self._take(record)
            elif self.ended or time.monotonic() >= deadline:
                raise Error(self._complaint())
            else:
                waiter.poll(max(0.0, deadline - time.monotonic()) * 1e3)

    def _complaint(self) -> str:
        """Why no record came."""
        if self._process is not None and self._said is not None:
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                return "convolv-tap does not answer"
            self._said.seek(0)
            lines = self._said.read(4096).decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else f"convolv-tap ended with {self._process.returncode}"
        return "nothing came through the pipe: run convolv-tap --pipe at its other end"

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        self.ended = True
        if self._process is not None:
            self._process.terminate()
            self._pipe.close()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._said is not None:
            self._said.close()

    # ---- records ----

    def _fill(self, room: Wire) -> bool:
        """Reads until `room` is full; False: not yet, or the pipe has ended."""
        while self._used < len(room):
            try:
                got = os.readv(self._descriptor, [room.data[self._used:]])
            except BlockingIOError:
                return False
            if got == 0:
                self.ended = True
                return False
            self._used += got
        self._used = 0
        return True

    def _poll(self) -> Block | None:
        while not self.ended:
            record = self._record()
            if record is None:
                return None
            block = self._take(record)
            if block is not None:
                return block
        return None

    def _record(self) -> _Record | None:
        """The next record, whose ranges and samples are then in `_body`; None: it is not there yet."""
        if self._next is None:
            if not self._fill(self._head):
                return None
            self._next = self._check(_Record._make(_HEAD.unpack(self._head.data)))
            self._body = np.empty(self._next.bytes - _HEAD.size, np.uint8)
        if not self._fill(self._body):
            return None
        record, self._next = self._next, None
        return record

    def _check(self, record: _Record) -> _Record:
        wanted = _HEAD.size + (record.invalid + record.missing) * _RANGE.size + \
            record.frames * record.channels * record.sample_bytes
        if record.magic != _MAGIC or record.bytes != wanted or wanted > _RECORD_MAX or record.channels == 0 or \
                record.sample_bytes not in (4, 8) or self.channels not in (0, record.channels):
            raise Error("what comes through the pipe is not from convolv-tap --pipe")
        if record.version != _VERSION:
            raise Error(f"convolv-tap --pipe speaks version {record.version}, this package version {_VERSION}: "
                        "install both of one release")
        return record

    def _take(self, record: _Record) -> Block | None:
        self._count(record)
        if record.kind == _BLOCK:
            return self._block(record)
        if record.kind == _OPENING:
            self.channels, self.rate_hz = record.channels, record.rate_hz
        self.ended = self.ended or record.kind == _END
        return None

    def _count(self, record: _Record) -> None:
        """The tap's counts, as they were when it wrote the record."""
        ledger, quiet_ns = self.ledger, record.quiet_ns
        self._heard_s = None if quiet_ns == _NEVER_NS else time.monotonic() - quiet_ns * 1e-9
        ledger.datagrams, ledger.accepted, ledger.heartbeats = record.datagrams, record.accepted, record.heartbeats
        ledger.kernel_drops, ledger.lost, ledger.reordered = record.kernel_drops, record.lost, record.reordered
        ledger.frames_lost = record.frames_lost
        if record.rejected:
            ledger.rejected["by the tap"] = record.rejected

    def _ranges(self, at: int, count: int) -> tuple[Range, ...]:
        found = (_RANGE.unpack_from(self._body.data, at + n * _RANGE.size) for n in range(count))
        return tuple(Range(first, until, causes_of(causes & 0xFFFF)) for first, until, causes, _ in found)

    def _block(self, record: _Record) -> Block:
        flags = record.flags
        ranges_bytes = (record.invalid + record.missing) * _RANGE.size
        kind = np.float32 if record.sample_bytes == 4 else np.float64
        samples: Samples = self._body[ranges_bytes:].view(kind).reshape(-1, record.channels)
        block = Block(
            samples, record.first_frame, record.epoch, self.rate_hz, self._ranges(0, record.invalid),
            self._ranges(record.invalid * _RANGE.size, record.missing), delay_frames=record.delay_frames,
            aligned=bool(flags & _ALIGNED), decimate=max(1, record.decimate), record=record.record,
            epoch_start=bool(flags & _EPOCH_START), epoch_end=bool(flags & _EPOCH_END), partial=bool(flags & _PARTIAL),
            gain_differs=bool(flags & _GAIN_DIFFERS), gain_changes=record.gain_changes, gain_from=record.gain_from,
            described=bool(flags & _DESCRIBED), receive_ns=record.receive_ns, lost_before=record.lost_before,
            late=bool(flags & _LATE))
        if block.described:
            block.capture_ns, block.clock = record.capture_ns, clock_name(record.clock)
            block.clock_error_ns = clock_error(record.clock_error_ns)
            block.stages = Stages(record.accumulate_ns, record.ingest_ns, record.wait_ns, record.device_ns,
                                  record.egress_ns)
            block.latency_ns = sum(block.stages)
        ledger = self.ledger
        ledger.frames += record.frames
        ledger.undescribed += not block.described
        ledger.epochs += block.epoch_start
        ledger.frames_invalid += sum(piece.until - piece.first for piece in block.invalid)
        ledger.frames_shed += sum(piece.until - piece.first for piece in block.missing)
        return block


def run_tap(tap: bool | str | os.PathLike[str], options: Mapping[str, object], *, timeout: float | None,
            until_end: bool) -> TapResults:
    """Starts convolv-tap (`tap`: True, or its path) and reads its pipe."""
    program = shutil.which("convolv-tap") if tap is True else os.fspath(str(tap))
    if program is None:
        raise Error("there is no convolv-tap in PATH: install convolv-tools, or give its path, as in tap=\"…/convolv-tap\"")
    command = [program, "--pipe", "--quiet"]
    for name, value in options.items():
        if isinstance(value, bytes):
            raise Error("key: convolv-tap reads a key file; give its path")
        if value is not None:
            command += [name, str(value)]
    said = tempfile.TemporaryFile()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
    except OSError as error:
        said.close()
        raise Error(f"{program}: {error.strerror}") from None
    assert process.stdout is not None
    return TapResults(process.stdout, timeout=timeout, until_end=until_end, process=process, said=said)
