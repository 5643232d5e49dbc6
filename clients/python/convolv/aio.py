"""The same for asyncio: `Stream`, `results` and `Control` that wait on the event loop instead of blocking.

>>> async def main():
...     async with results("bearing.sdp", until_end=True) as blocks, \\
...             Stream("udp://127.0.0.1:5004", rate_hz=48e3, channels=2, full_scale=10) as stream:
...         await stream.send(numpy.zeros((4800, 2)))
...         async for block in blocks:
...             if block.end_frame >= 4096:
...                 return block.epoch
>>> asyncio.run(main())
0
"""
from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from convolv._block import Block, Ledger
from convolv._errors import Error
from convolv._open import Source
from convolv._open import results as open_results
from convolv._results import Results
from convolv._sender import Sender, SenderOptions, SentLedger


class AsyncResults:
    """An asynchronous iterator of blocks around `convolv.Results`. What may wait for an answer is opened in a thread,
    by `async with` or the first block."""

    def __init__(self, source: Source, options: dict[str, Any]) -> None:
        self._source, self._options = source, options
        self._inner: Results | None = None

    async def open(self) -> Self:
        """Opens what is to be read; a second time does nothing."""
        if self._inner is None:
            self._inner = await asyncio.to_thread(open_results, self._source, **self._options)
        return self

    @property
    def results(self) -> Results:
        """What is read: its rate, channels, ledger, presence."""
        if self._inner is None:
            raise Error("the results are not open yet: use `async with`, or await open()")
        return self._inner

    @property
    def ledger(self) -> Ledger:
        return self.results.ledger

    async def next(self, timeout: float | None = None) -> Block | None:
        """The next block; None when none came within `timeout` seconds, or at the end."""
        await self.open()
        inner = self.results
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            block = inner.take()
            if block is not None or inner.ended:
                await asyncio.sleep(0)  # other tasks run, however fast blocks come
                return block
            left = inner._wake_s() if deadline is None else min(inner._wake_s(), deadline - time.monotonic())
            if deadline is not None and time.monotonic() >= deadline:
                return None
            await _readable(inner.fileno(), max(0.0, left))

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Block:
        block = await self.next(self._options.get("timeout"))
        if block is None:
            raise StopAsyncIteration
        return block

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()


async def _readable(descriptor: int, timeout: float) -> None:
    """Waits until the descriptor is readable, `timeout` seconds at most."""
    if descriptor < 0:
        return
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    def wake() -> None:
        if not ready.done():
            ready.set_result(None)
    loop.add_reader(descriptor, wake)
    try:
        await asyncio.wait_for(ready, timeout)
    except asyncio.TimeoutError:
        pass
    finally:
        loop.remove_reader(descriptor)


def results(source: Source, **options: Any) -> AsyncResults:
    """As `convolv.results`, to be used with `async with` and `async for`."""
    return AsyncResults(source, options)


class Stream:
    """As `convolv.Stream`; `send` and `send_codes` are awaited."""

    def __init__(self, address: str, *, rate_hz: float, **options: Any) -> None:
        try:
            chosen = SenderOptions(rate_hz, **options)
        except TypeError as error:
            raise Error(f"Stream: {error}") from None
        self._sender = Sender(address, chosen)

    @property
    def ledger(self) -> SentLedger:
        """What was sent."""
        return self._sender.ledger

    @property
    def packet_frames(self) -> int:
        """Frames of a full datagram."""
        return self._sender.packet_frames

    async def send(self, values: npt.ArrayLike, new_record: bool = False) -> None:
        """Sends values of shape (frames, channels) in the stream's unit, each packet when it is due."""
        for wait_s in self._sender.steps(values, False, new_record):
            await asyncio.sleep(wait_s)

    async def send_codes(self, codes: npt.ArrayLike, new_record: bool = False) -> None:
        """The same with the codes of an integer format."""
        for wait_s in self._sender.steps(codes, True, new_record):
            await asyncio.sleep(wait_s)

    def skip(self, frames: int) -> None:
        """Frames that were not acquired: the time stamp and the pace go on by so many."""
        self._sender.skip(frames)

    def restart(self) -> None:
        """Acts as a restarted rig."""
        self._sender.restart()

    def close(self) -> None:
        self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()
