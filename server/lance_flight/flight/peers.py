"""Questions among servers over the same root, each sealed under their shared key, and the addresses of these servers.

```text
header lance-flight-peer = base64url of a sealed JSON: [format, seconds since 1970, question, subject, principal, machine, reaches siblings]
```

Of several replicas on a machine, others know one address: whichever is asked there passes the question on to its siblings, once, and answers for
all. A machine that is asked by itself, as where a name resolves to all of them, answers with nothing.

The action `PeerRequest` answers it: an Arrow stream for rows, a word for an outcome. A call with this header can do nothing else.
"""

from __future__ import annotations

import importlib
import json
import logging
import secrets
import socket
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from lance_flight.backend_values import CancelStatus, PeerOperation, PeerRequest
from lance_flight.connections import Tls, bracket_host
from lance_flight.errors import TicketError, Unauthenticated
from lance_flight.flight.tickets import TicketSealer

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
                yield from self._resolve(address)
            else:
                yield PeerAddress(address)

    def _resolve(self, address: str) -> tuple[PeerAddress, ...]:
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
            known = tuple(PeerAddress(f"{parts.scheme}://{bracket_host(host)}:{port}", name) for host in hosts)
        self._known[address] = (self.now(), known)
        return known


def hosts_of(name: str, port: int) -> list[str]:
    """Return the addresses of a name, all of one family: a server that has addresses of both is asked once."""
    addresses = [
        (family, str(address[0]))
        for family, _, _, _, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    ]
    families = {family for family, _ in addresses}
    family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    return sorted({host for literal, host in addresses if literal == family})


T = TypeVar("T")

HEADER = "lance-flight-peer"
ACTION = "PeerRequest"
SECONDS = 2.0
"""Time for an answer."""
SILENT_SECONDS = 10.0
"""Time for which a server is not asked that did not answer: system tables are not slow for as long as it is away."""
VALID_SECONDS = 60.0
"""Time in which a question is answered after it was asked: clocks differ, and calls wait."""
SIBLING_SECONDS = 1.0
"""Time for an answer of another replica of the same machine, within that of the server which has passed the question on."""
_FORMAT = 2
_NAME_BYTES = 8
_OPERATIONS = frozenset(operation.value for operation in PeerOperation)
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def seal_request(sealer: TicketSealer, request: PeerRequest, now: float) -> bytes:
    """Return the value of the header for a question that is asked now."""
    fields = [
        _FORMAT,
        now,
        request.operation.value,
        request.subject,
        request.principal,
        request.machine,
        request.reaches_siblings,
    ]
    return urlsafe_b64encode(sealer.peer(json.dumps(fields).encode()))


def open_request(sealer: TicketSealer, text: str, now: float) -> PeerRequest:
    """Open the value of the header; raise `Unauthenticated` for one that was not sealed under this key a moment ago."""
    try:
        format, asked_at, *request = json.loads(sealer.open_peer(urlsafe_b64decode(text)))
    except (ValueError, TicketError):
        raise Unauthenticated(f"header {HEADER} was not written under the key of this server") from None
    if format != _FORMAT or abs(now - asked_at) > VALID_SECONDS:
        raise Unauthenticated(f"header {HEADER} is of another format, or {abs(now - asked_at):.0f} seconds old")
    question, subject, principal, machine, reaches_siblings = request
    if question not in _OPERATIONS:
        raise Unauthenticated(f"header {HEADER} asks for {question!r}, which a newer release does")
    return PeerRequest(
        operation=PeerOperation(question),
        subject=subject,
        principal=principal,
        machine=machine,
        reaches_siblings=reaches_siblings,
    )


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The replicas of one machine: its random name, which all of them have, and the addresses of the others."""

    machine: str = field(default_factory=lambda: secrets.token_hex(_NAME_BYTES))
    siblings: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class FlightPeers:
    """The other servers over a root (`engine.runtime.statement_registry.Peers`), which are called with the certificate of this one, and told by its authority.

    `addresses` are those of other machines, and may be replaced; a certificate is replaced by `renew`. An answer has `seconds` to come.
    """

    addresses: Sequence[str]
    sealer: TicketSealer
    tls: Tls | None = None
    neighbours: Neighbours = field(default_factory=Neighbours)
    seconds: float = SECONDS
    now: Callable[[], float] = time.time
    resolver: PeerAddresses = field(default_factory=PeerAddresses)
    clients: dict[tuple[PeerAddress, Tls | None], flight.FlightClient] = field(default_factory=dict, repr=False)
    silent: dict[PeerAddress, float] = field(default_factory=dict, repr=False)

    def rows(self, table: str, principal: str | None) -> Iterable[pa.Table]:
        return self._ask(PeerOperation.ROWS, table, principal, _rows)

    def kill(self, statement: str, principal: str | None) -> CancelStatus | None:
        return next(iter(self._ask(PeerOperation.KILL, statement, principal, _status)), None)

    def cancel(self, statement: str, principal: str) -> Iterable[CancelStatus]:
        return self._ask(PeerOperation.CANCEL, statement, principal, _status)

    def local(self, request: PeerRequest) -> FlightPeers | None:
        machine = self.neighbours.machine
        if request.reaches_siblings and request.machine == machine:
            return None
        siblings = self.neighbours.siblings if request.reaches_siblings else ()
        return replace(self, addresses=(), neighbours=Neighbours(machine, siblings), seconds=SIBLING_SECONDS)

    def renew(self, tls: Tls) -> None:
        """Call with another certificate, and expect those of another authority, from now on."""
        self.tls = tls
        self.clients.clear()
        self.silent.clear()

    def _ask(
        self, operation: PeerOperation, subject: str, principal: str | None, decode: Callable[[bytes], T]
    ) -> list[T]:
        """Return the answers of all that have one, which are asked at once; a server that did not answer is left alone for a while."""
        request = PeerRequest(
            operation=operation, subject=subject, principal=principal, machine=self.neighbours.machine
        )
        beyond = replace(request, reaches_siblings=True)
        asked = [
            *((PeerAddress(sibling), request) for sibling in self.neighbours.siblings),
            *((address, beyond) for address in self.resolver.resolve(self.addresses)),
        ]
        now = self.now()
        asked = [(address, request) for address, request in asked if self.silent.get(address, 0.0) <= now]
        if not asked:
            return []
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = pool.map(lambda pair: self._ask_one(pair[0], pair[1], decode), asked)
            return [answer for of_peer in answers for answer in of_peer]

    def _ask_one(self, address: PeerAddress, request: PeerRequest, decode: Callable[[bytes], T]) -> list[T]:
        """Return the answer of one server; nothing where it has none, does not answer, or in another way than this release does."""
        header = (HEADER.encode(), seal_request(self.sealer, request, self.now()))
        options = flight.FlightCallOptions(self.seconds, headers=[header])
        try:
            (result,) = self._client(address).do_action(flight.Action(ACTION, b""), options)
            answer = result.body.to_pybytes()
            return [decode(answer)] if answer else []
        except (flight.FlightError, pa.ArrowException, ValueError) as exc:
            message = str(exc).partition(". Detail:")[0]
            log.warning("the server at %s does not answer its peers: %s", address.uri, message)
            self.silent[address] = self.now() + SILENT_SECONDS
            return []

    def _client(self, address: PeerAddress) -> flight.FlightClient:
        tls = self.tls if address.uri.startswith("grpc+tls") else None
        client = self.clients.get((address, tls))
        if client is None:
            client = self.clients[address, tls] = self._connect(address, tls)
        return client

    def _connect(self, address: PeerAddress, tls: Tls | None) -> flight.FlightClient:
        options: dict[str, Any] = {"generic_options": [("grpc.enable_http_proxy", 0)]}
        is_here = urlsplit(address.uri).hostname in _LOOPBACK
        if tls is not None and tls.client_ca is not None:
            options |= {"cert_chain": tls.certificate, "private_key": tls.key, "tls_root_certs": tls.client_ca}
        if tls is not None and tls.client_ca is not None and is_here:
            # A certificate names the address that clients know. Replicas have the same one; without verification pyarrow would show none.
            options["tls_root_certs"] = tls.certificate + b"\n" + tls.client_ca
            options["override_hostname"] = importlib.import_module("lance_flight.flight.tls").name_of(tls.certificate)
        elif tls is not None and is_here:
            options["disable_server_verification"] = True
        elif address.name is not None:
            # Also where a proxy in front of each server has the certificate.
            options["override_hostname"] = address.name
        return flight.connect(address.uri, **options)


def sealed_request(headers: Mapping[str, Sequence[str | bytes]]) -> str | None:
    """Return the value of the header among those of a call; None without it."""
    values = headers.get(HEADER, ())
    return str(values[0]) if values else None


def _rows(answer: bytes) -> pa.Table:
    return pa.ipc.open_stream(answer).read_all()


def _status(answer: bytes) -> CancelStatus:
    return CancelStatus(answer.decode())
