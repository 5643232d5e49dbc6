"""Addresses and sockets: `udp://HOST:PORT`, or HOST:PORT alone; `[HOST]:PORT` for IPv6, `*:PORT` to receive on."""
from __future__ import annotations

import ipaddress
import socket
import struct
from typing import NamedTuple

from convolv._errors import Error

# Options that the socket module of Python 3.11 does not name (linux/socket.h, linux/udp.h).
SO_TIMESTAMPNS = 35
SO_RXQ_OVFL = 40
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
UDP_SEGMENT = 103


class Address(NamedTuple):
    family: int
    where: tuple[str | int, ...]
    """As the socket module wants it."""
    multicast: bool

    def text(self) -> str:
        host, port = self.where[:2]
        return f"[{host}]:{port}" if self.family == socket.AF_INET6 else f"{host}:{port}"


def split_url(text: str) -> tuple[str, str]:
    """(scheme, rest); an empty scheme where there is none."""
    scheme, found, rest = text.partition("://")
    return (scheme.lower(), rest) if found else ("", text)


def split_host_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Error(f"'{text}' is not an address: write HOST:PORT, or [HOST]:PORT for IPv6")
    return host, int(port)


def resolve(text: str, receiver: bool = False, kind: int = socket.SOCK_DGRAM) -> Address:
    host, port = split_host_port(text)
    if host == "*" and not receiver:
        raise Error(f"'{text}': a destination needs a host, as in 127.0.0.1:{port}")
    if host == "*":
        return Address(socket.AF_INET, ("0.0.0.0", port), False)
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=kind)[0]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise Error(f"'{text}': {reason}") from None
    return Address(family, where, ipaddress.ip_address(str(where[0]).partition("%")[0]).is_multicast)


def interface_number(name: str | None) -> int:
    if not name:
        return 0
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise Error(f"there is no interface '{name}': `ip link` lists them") from None


def _buffer(connection: socket.socket, forced: int, plain: int, size: int) -> None:
    """Asks for a buffer beyond the system's limit, else for what it allows."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, forced, size)
    except OSError:
        connection.setsockopt(socket.SOL_SOCKET, plain, size)


def open_sender(text: str, interface: str | None, ttl: int, buffer_bytes: int) -> tuple[socket.socket, Address]:
    """A UDP socket that is connected to the address."""
    address = resolve(text)
    number = interface_number(interface)
    connection = socket.socket(address.family, socket.SOCK_DGRAM)
    try:
        if address.multicast and address.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            if number:
                connection.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=4s4si", b"", b"", number))
        elif address.multicast:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
            if number:
                connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, number)
        if buffer_bytes:
            _buffer(connection, SO_SNDBUFFORCE, socket.SO_SNDBUF, buffer_bytes)
        connection.connect(address.where)
    except OSError as error:
        connection.close()
        raise Error(f"{text}: {error.strerror}") from None
    return connection, address


def _join(connection: socket.socket, address: Address, interface: int) -> None:
    group = socket.inet_pton(address.family, str(address.where[0]).partition("%")[0])
    if address.family == socket.AF_INET:
        request = struct.pack("=4s4si", group, b"", interface)
        connection.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    else:
        connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, struct.pack("=16sI", group, interface))


def open_receiver(text: str, interface: str | None, buffer_bytes: int) -> tuple[socket.socket, int]:
    """A UDP socket bound to the address, its group joined, with receive times and counts of drops; and the
    receive buffer that the kernel granted."""
    address = resolve(text, receiver=True)
    number = interface_number(interface)
    connection = socket.socket(address.family, socket.SOCK_DGRAM)
    try:
        connection.setblocking(False)
        if address.multicast:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _buffer(connection, SO_RCVBUFFORCE, socket.SO_RCVBUF, min(buffer_bytes, 1 << 30))
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        connection.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        connection.bind(address.where)
    except OSError as error:
        connection.close()
        busy = " (another program listens there: choose another port)" if error.errno == 98 else ""
        raise Error(f"cannot receive on {text}: {error.strerror}{busy}") from None
    try:
        if address.multicast:
            _join(connection, address, number)
    except OSError as error:
        connection.close()
        raise Error(f"cannot join {text}: {error.strerror} (name the interface, as `ip link` lists it)") from None
    # The kernel doubles what was asked, for its own use.
    return connection, connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
