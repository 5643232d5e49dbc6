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
from convolv._control import LINE_MAX, Command, Event, Json, Path, Table, connect, read_answer, read_event, request_line
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


class Events:
    """As `convolv.Control().events()`: an asynchronous iterator."""

    def __init__(self, link: _Link, next_number: int) -> None:
        self._link = link
        self.missed, self.next_number = 0, next_number

    async def next(self) -> Event:
        """The next event, waited for without end."""
        while True:
            got = read_event(await self._link.line())
            if isinstance(got, Event):
                return got
            self.missed += got

    def close(self) -> None:
        self._link.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self.next()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()


class _Link:
    """Lines of a connection to the daemon."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self._reader, self._writer, self.path = reader, writer, path

    @classmethod
    async def open(cls, path: Path | None, role: str, instance: str | None, timeout: float) -> Self:
        link, found = await asyncio.to_thread(connect, path, role, instance, timeout)
        link.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=link, limit=LINE_MAX)
        return cls(reader, writer, found)

    async def send(self, line: bytes) -> None:
        self._writer.write(line)
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise Error(f"the daemon has gone: {error.strerror or error}", "gone") from None

    async def line(self) -> bytes:
        try:
            return await self._reader.readuntil()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            raise Error("the daemon has closed the connection", "gone") from None

    def close(self) -> None:
        self._writer.close()


class Control:
    """As `convolv.Control`; its commands are awaited. Use it with `async with`, or await open().

    >>> async def main():
    ...     async with Control() as control:
    ...         await control.mute("bearing", True, output=2)
    ...         return (await control.streams())["streams"][0]["name"]
    >>> asyncio.run(main())
    'bearing'
    """

    def __init__(self, path: Path | None = None, *, role: str = "control", instance: str | None = None,
                 timeout: float = 10.0) -> None:
        self._where = (path, role, instance)
        self.timeout = timeout
        self._link: _Link | None = None
        self._one = asyncio.Lock()
        self.table = Table({})

    async def open(self) -> Self:
        """Connects; a second time does nothing."""
        if self._link is None:
            self._link = await _Link.open(*self._where, self.timeout)
            self.table = Table(await self.request("commands"))
        return self

    @property
    def role(self) -> str:
        """What this connection may do: observe or control."""
        return self.table.role

    async def request(self, command: str, **arguments: Any) -> Json:
        """Sends a command as it is written, not checked by the table, and returns the answer."""
        return await self._call(command, arguments)

    async def _call(self, command: str, arguments: Json) -> Json:
        link = self._link
        if link is None:
            raise Error("not connected: use `async with`, or await open()")
        async with self._one:
            await link.send(request_line(command, arguments))
            try:
                line = await asyncio.wait_for(link.line(), self.timeout)
            except BaseException as error:
                link.close()  # a late answer would be taken for that to the next request
                if isinstance(error, asyncio.TimeoutError):
                    raise Error(f"{command}: the daemon does not answer within {self.timeout:g} s", "timeout") from None
                raise
        return read_answer(line)

    async def events(self, since: int | None = None) -> Events:
        """What happens, over a connection of its own: from now on, or first what is kept after number `since`."""
        await self.open()
        assert self._link is not None
        link = await _Link.open(self._link.path, self.role or "observe", None, self.timeout)
        try:
            await link.send(request_line("events", {} if since is None else {"since": since}))
            answer = read_answer(await asyncio.wait_for(link.line(), self.timeout))
        except BaseException:
            link.close()
            raise
        return Events(link, int(answer.get("next", 0)))

    def __getattr__(self, name: str) -> Command:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return Command(self.table, self.table.name(name), self._call)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()
