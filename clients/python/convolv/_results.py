"""Results: an iterator of blocks, whatever they come from. Each origin says how to take a block without waiting;
waiting, time limits and ends are the same for all, here and in convolv.aio."""
from __future__ import annotations

import select
import time
from types import TracebackType
from typing import Self

from convolv._block import Block, Ledger

DEAD_S = 3.0
_SILENT_S = 1.5


class Results:
    """Blocks in order of arrival. Iterate over it, or call `next`. Close it, or use it in a `with`.

    Iteration ends when nothing came for `timeout` seconds (None: it waits without end), when an epoch has ended if
    `until_end`, and where the origin ends: a recording, or the pipe of a program that has left.
    """

    rate_hz: float
    """Frames per second."""
    channels: int
    ledger: Ledger
    """What has come so far, and what was rejected or lost, by reason."""

    def __init__(self, timeout: float | None, until_end: bool) -> None:
        self.ledger = Ledger()
        self.ended = False
        self.timeout = timeout
        self.until_end = until_end
        self._heard_s: float | None = None
        self._waiter: select.poll | None = None
        self._block_s: float | None = None

    # ---- what an origin defines ----

    def fileno(self) -> int:
        """The descriptor that is readable when something has come; -1: there is nothing to wait for."""
        return -1

    def _poll(self) -> Block | None:
        """The next block if it is there; sets `ended` when none will come."""
        raise NotImplementedError

    def _wake_s(self) -> float:
        """Seconds until `_poll` has something to do though nothing comes."""
        return 3600.0

    def close(self) -> None:
        """Gives back sockets and files. A second time does nothing."""

    # ---- the same for all ----

    def take(self) -> Block | None:
        """The next block if it is there, without waiting."""
        if self.ended:
            return None
        block = self._poll()
        if block is not None:
            self._block_s = time.monotonic()
            self.ended = self.ended or (self.until_end and block.epoch_end)
        return block

    def next(self, timeout: float | None = None) -> Block | None:
        """The next block; None when none came within `timeout` seconds (None: waits without end), or at the end."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            block = self.take()
            if block is not None or self.ended:
                return block
            left = self._wake_s() if deadline is None else min(deadline - time.monotonic(), self._wake_s())
            if deadline is not None and time.monotonic() >= deadline:
                return None
            if self.fileno() >= 0:
                if self._waiter is None:
                    self._waiter = select.poll()
                    self._waiter.register(self.fileno(), select.POLLIN)
                self._waiter.poll(max(0.0, left) * 1e3)

    @property
    def quiet_s(self) -> float:
        """How long nothing has come from the sender, heartbeats included; infinite before the first packet."""
        return float("inf") if self._heard_s is None else time.monotonic() - self._heard_s

    @property
    def presence(self) -> str:
        """`unknown` before anything came, `results`, `silent` (the daemon lives and has no results) or `dead`
        (nothing for 3 s, no heartbeat either)."""
        if self._heard_s is None:
            return "unknown"
        if self.quiet_s >= DEAD_S:
            return "dead"
        silent = self._block_s is None or time.monotonic() - self._block_s >= _SILENT_S
        return "silent" if silent else "results"

    def _heard(self) -> None:
        self._heard_s = time.monotonic()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Block:
        block = self.next(self.timeout)
        if block is None:
            raise StopIteration
        return block

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
