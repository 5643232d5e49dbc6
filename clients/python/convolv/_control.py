"""`Control`: asks and steers a running daemon over its control sockets (docs/control.md).

The daemon's own table says which commands there are, with which arguments: a command of the table is a method here,
its help is the table's, and a wrong name is refused before anything is sent. `Table` and the functions below it serve
convolv.aio too.
"""
from __future__ import annotations

import json
import os
import select
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from convolv._errors import Error

Json = dict[str, Any]
Path = str | os.PathLike[str]

ROLES = ("observe", "control")
LINE_MAX = 64 << 20
_CHUNK = 1 << 16


# ---- where the daemon is ----

def _shared_folder() -> str:
    """Where the daemon of a shell has its sockets on a machine without sessions."""
    return f"/tmp/convolvd-{os.geteuid()}"


def _is_ours(path: str) -> bool:
    """Whether nobody else may have made the socket: /tmp is everybody's."""
    if os.path.dirname(path) != _shared_folder():
        return True
    try:
        found = os.lstat(_shared_folder())
    except OSError:
        return True  # connecting says why
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def socket_paths(role: str, instance: str | None) -> list[str]:
    """The sockets of a role in the order in which convolvctl looks for them; the other role's follow each."""
    if role not in ROLES:
        raise Error(f"role '{role}' is not known: write observe or control")
    session, home = os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"
    folders = []
    if instance is not None:
        folders = [f"/run/convolvd-{instance}"]
    else:
        runtime = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        folders = [runtime] if runtime else []
        folders += [f"{folder}/convolvd" for folder in dict.fromkeys((session, home)) if folder]
        folders += [_shared_folder(), "/run/convolvd"]
    order = (role, ROLES[1 - ROLES.index(role)])
    return [f"{folder}/{name}.sock" for folder in folders for name in order]


def connect(path: Path | None, role: str, instance: str | None, timeout: float) -> tuple[socket.socket, str]:
    """A connection to the daemon, and the path of its socket."""
    paths = [os.fspath(path)] if path is not None else socket_paths(role, instance)
    tried = []
    for candidate in paths:
        if path is None and not _is_ours(candidate):
            tried.append(f"{candidate}: somebody else may write there")
            continue
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(timeout)
        try:
            link.connect(candidate)
            return link, candidate
        except OSError as error:
            link.close()
            tried.append(f"{candidate}: {error.strerror or error}")
    looked = ", ".join(tried[::1 if path is not None else 2])
    raise Error(f"no daemon answers ({looked}); start one, join the group of its socket, or name the socket: "
                "Control(\"…/control.sock\")", "no-daemon")


# ---- requests and answers ----

def request_line(command: str, arguments: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps({"command": command, **arguments}, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise Error(f"{command}: {error}") from None


def read_answer(line: bytes) -> Json:
    """What the daemon answered; raises its refusal."""
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Error("the daemon's answer is no JSON object", "format")
    if answer.pop("ok", None) is not True:
        raise Error(str(answer.get("error", "refused without a reason")), str(answer.get("code", "")))
    answer.pop("id", None)
    return answer


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in the daemon."""

    number: int
    kind: str
    severity: str
    text: str
    realtime_ns: int
    stream: str | None = None
    epoch: int | None = None
    frame: int | None = None
    who: str | None = None


def read_event(line: bytes) -> Event | int:
    """An event of a follower's line, or how many were missed."""
    try:
        got = json.loads(line)
        if "event" not in got:
            return int(got.get("missed", 0))
        event = got["event"]
        return Event(int(event["number"]), str(event["kind"]), str(event["severity"]), str(event["text"]),
                     int(event["realtime_ns"]), event.get("stream"), event.get("epoch"), event.get("frame"),
                     event.get("who"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Error("the daemon sent a line that is no event", "format") from None


class Table:
    """The commands that the daemon knows, by name, each a row as `commands` answers it."""

    def __init__(self, answer: Json) -> None:
        self.role = str(answer.get("role", ""))
        self.events = answer.get("events", [])
        self.rows: dict[str, Json] = {str(row["name"]): row for row in answer.get("commands", []) if "name" in row}

    def name(self, attribute: str) -> str:
        """The command of a method's name."""
        name = attribute.replace("_", "-")
        if name not in self.rows:
            raise AttributeError(f"the daemon has no command {name}; it has {', '.join(self.rows)}")
        return name

    def arguments(self, command: str, values: tuple[Any, ...], named: Mapping[str, Any]) -> Json:
        """The arguments of a call by their names; those that are None are left out."""
        row = self.rows.get(command)
        if row is None:
            raise Error(f"the daemon has no command {command}; it has {', '.join(self.rows)}", "unknown-command")
        names = [str(argument["name"]) for argument in row["arguments"]]
        if len(values) > len(names):
            raise Error(f"{command} takes {len(names)} arguments at most: {', '.join(names) or 'none'}", "argument")
        arguments = dict(zip(names, values))
        for name, value in named.items():
            if name not in names:
                raise Error(f"{command} has no argument {name}; it has {', '.join(names) or 'none'}", "argument")
            if name in arguments:
                raise Error(f"{command}: {name} was given twice", "argument")
            arguments[name] = value
        arguments = {name: value for name, value in arguments.items() if value is not None}
        missing = [str(a["name"]) for a in row["arguments"] if a["required"] and a["name"] not in arguments]
        if missing:
            raise Error(f"{command} needs {', '.join(missing)}", "argument")
        return arguments

    def help(self, command: str) -> str:
        row = self.rows[command]
        lines = [str(row["summary"]), ""]
        for argument in row["arguments"]:
            unit = f" [{argument['unit']}]" if "unit" in argument else ""
            optional = "" if argument["required"] else ", optional"
            lines.append(f"{argument['name']}{unit}{optional}: {argument['sentence']}")
        lines += [f"Role: {row['role']}. Answer: {row['answer']}.", f"As a request: {row['example']}"]
        return "\n".join(lines)


class Command:
    """A command of the daemon's table, to be called; `help(control.gain)` shows its arguments."""

    def __init__(self, table: Table, name: str, call: Callable[[str, Json], Any]) -> None:
        self.__name__ = name
        self.__doc__ = table.help(name)
        self._table, self._call = table, call

    def __call__(self, *values: Any, **arguments: Any) -> Any:
        return self._call(self.__name__, self._table.arguments(self.__name__, values, arguments))

    def request(self, *values: Any, **arguments: Any) -> Json:
        """The request that a call sends, as an entry of a transaction."""
        return {"command": self.__name__, **self._table.arguments(self.__name__, values, arguments)}


# ---- one connection ----

class Lines:
    """Lines of a connection."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._left = bytearray()

    def fileno(self) -> int:
        return self._link.fileno()

    def close(self) -> None:
        self._link.close()

    def send(self, line: bytes) -> None:
        try:
            self._link.sendall(line)
        except OSError as error:
            raise Error(f"the daemon has gone: {error.strerror or error}", "gone") from None

    def next(self, timeout: float | None) -> bytes | None:
        """The next line; None when none came within `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        waiter = select.poll()
        waiter.register(self._link, select.POLLIN)
        searched = 0
        while True:
            end = self._left.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._left[:end])
                del self._left[:end + 1]
                return line
            searched = len(self._left)
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1e3
            if not waiter.poll(left):
                return None
            try:
                got = self._link.recv(_CHUNK)
            except OSError as error:
                raise Error(f"the daemon has gone: {error.strerror or error}", "gone") from None
            if not got:
                raise Error("the daemon has closed the connection", "gone")
            if searched + len(got) > LINE_MAX:
                raise Error("the daemon's answer is too long", "format")
            self._left += got


class Events:
    """Events as they happen; iterate, or call `next`. `missed` counts those that this program was too slow for."""

    def __init__(self, lines: Lines, timeout: float | None, limit: float) -> None:
        self._lines = lines
        self.timeout, self.missed = timeout, 0
        first = lines.next(limit)
        if first is None:
            raise Error("the daemon does not answer", "timeout")
        self.next_number = int(read_answer(first).get("next", 0))

    def fileno(self) -> int:
        return self._lines.fileno()

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None when none came within `timeout` seconds (None: waits without end)."""
        while True:
            line = self._lines.next(timeout)
            got = read_event(line) if line is not None else None
            if not isinstance(got, int):
                return got
            self.missed += got

    def close(self) -> None:
        self._lines.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.next(self.timeout)
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Control:
    """A connection to a running daemon. Every command of its table is a method: `-` becomes `_`, arguments are given
    in the table's order or by name, and the answer is a dict. A refusal raises `convolv.Error` with the daemon's
    sentence and `code`.

    path
        The socket; without it the daemon is looked for where convolvctl looks: `$RUNTIME_DIRECTORY`, the user's
        runtime directory, `/run/convolvd`; `instance` names that of convolvd@INSTANCE.
    role
        `control`, or `observe`, which may look and change nothing. Where only the other socket may be opened, that one
        is taken.
    timeout
        Seconds to wait for an answer.

    >>> with Control() as control:
    ...     control.role
    ...     [stream["name"] for stream in control.streams()["streams"]]
    ...     answer = control.gain("bearing", -6, output=1)
    'control'
    ['bearing']
    """

    def __init__(self, path: Path | None = None, *, role: str = "control", instance: str | None = None,
                 timeout: float = 10.0) -> None:
        self.timeout = timeout
        link, self.path = connect(path, role, instance, timeout)
        self._lines = Lines(link)
        try:
            self.table = Table(self.request("commands"))
        except Error:
            self.close()
            raise

    @property
    def role(self) -> str:
        """What this connection may do: observe or control."""
        return self.table.role

    def request(self, command: str, **arguments: Any) -> Json:
        """Sends a command as it is written, not checked by the table, and returns the answer."""
        return self._call(command, arguments)

    def _call(self, command: str, arguments: Json) -> Json:
        self._lines.send(request_line(command, arguments))
        line = self._lines.next(self.timeout)
        if line is None:
            self.close()  # a late answer would be taken for that to the next request
            raise Error(f"{command}: the daemon does not answer within {self.timeout:g} s", "timeout")
        return read_answer(line)

    def events(self, since: int | None = None, timeout: float | None = None) -> Events:
        """What happens, over a connection of its own: from now on, or first what is kept after number `since`.
        Iteration ends when nothing happened for `timeout` seconds; None: never."""
        link, _ = connect(self.path, self.role or "observe", None, self.timeout)
        lines = Lines(link)
        try:
            lines.send(request_line("events", {} if since is None else {"since": since}))
            return Events(lines, timeout, self.timeout)
        except Error:
            lines.close()
            raise

    def __getattr__(self, name: str) -> Command:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return Command(self.table, self.table.name(name), self._call)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name.replace("-", "_") for name in self.table.rows)]

    def close(self) -> None:
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
