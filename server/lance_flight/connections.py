"""Connections: their addresses and certificates, whom one counts for and how much of a server it may hold, and its closing."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
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


ANONYMOUS = "anonymous"
"""Principal of callers without a credential; no credential can prove this name."""
SHARE = 3
"""A holder has at most so many times as much as it leaves free: three quarters of all if it is alone, and others of the rest."""
_NETWORK = 64
"""Bits of an IPv6 address that are a site's: it has all addresses below."""
KEPT_HOLDERS = 1_024
"""Connections whose holder is known: a search asks for it seven times."""


@lru_cache(KEPT_HOLDERS)
def holder_of(principal: str, peer: str) -> str:
    """Return whom a call counts for: its principal, or without a credential the address of its client, as gRPC writes it.

    >>> holder_of("ann", "ipv4:10.0.0.1:4000"), holder_of("anonymous", "ipv4:10.0.0.1:4000")
    ('ann', 'anonymous at 10.0.0.1')
    >>> holder_of("anonymous", "ipv6:%5B2001:db8::7%5D:4000"), holder_of("anonymous", "unix:")
    ('anonymous at 2001:db8::/64', 'anonymous')
    """
    if principal != ANONYMOUS:
        return principal
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return principal
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None and not address.is_loopback:
        return f"{ANONYMOUS} at {ip_network((address, _NETWORK), strict=False)}"
    return f"{ANONYMOUS} at {getattr(address, 'ipv4_mapped', None) or address}"


def release(held: Counter[str], holder: str) -> None:
    """Count one part less of a holder, and drop one without any."""
    held[holder] -= 1
    if not held[holder]:
        del held[holder]


def may_hold(held: int, free: int) -> bool:
    """Return whether a holder of `held` parts may take one more of the `free` ones; the first one it may always.

    >>> [sum(may_hold(held, most - held) for held in range(most)) for most in (1, 2, 4, 16)]
    [1, 1, 3, 12]
    """
    return free > 0 and (held == 0 or held + 1 <= SHARE * (free - 1))
