"""Connections: their addresses, the closing of one, for which gRPC's servers in Python have no call, and certificates.

Certificates and key for a server's TLS connections.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificate chain and its key, in PEM; with `client_ca`, clients need certificates signed by that authority."""

    certificate: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None = None


_OWN_FILES = Path("/proc/self/fd")


def bracket_host(host: str) -> str:
    """Return a host as it is written before a port, with IPv6 addresses in brackets.

    >>> bracket_host("::1"), bracket_host("127.0.0.1")
    ('[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host else host


def close_connection(peer: str) -> bool:
    """Close the connection with the client at an address as gRPC writes it (`ipv4:10.0.0.1:4000`), which ends all of its calls.

    Returns whether there was one: there is none where the system does not list the files of a process, nor at an address of another kind.
    """
    wanted = _address(peer)
    if wanted is None or not _OWN_FILES.is_dir():
        return False
    # A connection of our own to another server may have the same address at its other end.
    ports = {one.getsockname()[1] for one in _own_sockets() if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)}
    for connection in _own_sockets():
        with suppress(OSError):
            host, port, *_ = connection.getpeername()
            if (_plain(host), port) == wanted and connection.getsockname()[1] in ports:
                connection.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _own_sockets() -> Iterator[socket.socket]:
    """Yield the Internet sockets of this process, each open until the next one."""
    for file in _OWN_FILES.iterdir():
        with suppress(OSError, ValueError):
            # A descriptor of our own stays what it is while it is looked at, whatever becomes of gRPC's.
            own = os.dup(int(file.name))
            try:
                opened = socket.socket(fileno=own)
            except OSError:
                os.close(own)  # it is no socket
                continue
            with opened:
                if opened.family in {socket.AF_INET, socket.AF_INET6}:
                    yield opened


def _address(peer: str) -> tuple[str, int] | None:
    """Return the host and the port of a peer; None if it is not at an IP address."""
    kind, _, address = unquote(peer).partition(":")
    host, _, port = address.rpartition(":")
    if kind not in {"ipv4", "ipv6"}:
        return None
    try:
        return _plain(host.strip("[]")), int(port)
    except ValueError:
        return None


def _plain(host: str) -> str:
    """Return an IP address in one form, whatever version its socket is of."""
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
