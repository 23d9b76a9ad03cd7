"""Addresses of peers: one server each, or every address that a name resolves to (`dns+grpc://name:port`), looked up again and again."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

DNS = "dns+"
"""Prefix of an address that stands for several servers."""
LOOKUP_SECONDS = 5.0
"""Time for which what a name resolved to is taken."""

log = logging.getLogger(__name__)

Lookup = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Address of one server, and the `name` that its certificate has where that is not the one in the address."""

    uri: str
    name: str | None = None


@dataclass(slots=True, kw_only=True)
class PeerAddresses:
    """Resolver of addresses. A name that cannot be looked up stands for the addresses that it had before."""

    lookup: Lookup = field(default_factory=lambda: hosts_of)
    now: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[float, tuple[PeerAddress, ...]]] = field(default_factory=dict)

    def resolve(self, addresses: Sequence[str]) -> Iterator[PeerAddress]:
        """Yield the address of each server."""
        for address in addresses:
            if address.startswith(DNS):
                yield from self._resolved(address)
            else:
                yield PeerAddress(address)

    def _resolved(self, address: str) -> tuple[PeerAddress, ...]:
        looked_up, known = self._known.get(address, (float("-inf"), ()))
        if self.now() - looked_up < LOOKUP_SECONDS:
            return known
        parts = urlsplit(address.removeprefix(DNS))
        name, port = parts.hostname or "", parts.port or 0
        try:
            hosts = self.lookup(name, port)
        except OSError as exc:
            log.warning("the name %r of peers cannot be looked up: %s", name, exc.strerror)
        else:
            known = tuple(PeerAddress(f"{parts.scheme}://{_bracket(host)}:{port}", name) for host in hosts)
        self._known[address] = (self.now(), known)
        return known


def hosts_of(name: str, port: int) -> list[str]:
    """Return the addresses of a name, all of one family: a server that has addresses of both is asked once."""
    found = [
        (family, str(address[0]))
        for family, _, _, _, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    ]
    families = {family for family, _ in found}
    family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    return sorted({host for each, host in found if each == family})


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
