"""Questions among servers over the same root, over Flight: each is sealed under the key that they share.

```text
header lance-flight-peer = base64url of a sealed JSON: [format, seconds since 1970, question, subject, principal]
```

The action `PeerRequest` answers it: an Arrow stream for rows, a word for an outcome. A call with this header can do nothing else.
"""

from __future__ import annotations

import json
import logging
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from lance_flight.backend_values import CancelStatus, PeerOperation, PeerRequest
from lance_flight.errors import TicketError, Unauthenticated
from lance_flight.flight.encryption import Tls
from lance_flight.flight.tickets import TicketSealer

T = TypeVar("T")

HEADER = "lance-flight-peer"
ACTION = "PeerRequest"
SECONDS = 2.0
"""Time for an answer."""
SILENT_SECONDS = 10.0
"""Time for which a server is not asked that did not answer: system tables are not slow for as long as it is away."""
VALID_SECONDS = 60.0
"""Time in which a question is answered after it was asked: clocks differ, and calls wait."""
_FORMAT = 1
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

log = logging.getLogger(__name__)


def seal_request(sealer: TicketSealer, request: PeerRequest, now: float) -> bytes:
    """Return the value of the header for a question that is asked now."""
    said = [_FORMAT, now, request.operation.value, request.subject, request.principal]
    return urlsafe_b64encode(sealer.peer(json.dumps(said).encode()))


def open_request(sealer: TicketSealer, text: str, now: float) -> PeerRequest:
    """Open the value of the header; raise `Unauthenticated` for one that was not sealed under this key a moment ago."""
    try:
        format, asked_at, *said = json.loads(sealer.open_peer(urlsafe_b64decode(text)))
    except (ValueError, TicketError):
        raise Unauthenticated(f"header {HEADER} was not written under the key of this server") from None
    if format != _FORMAT or abs(now - asked_at) > VALID_SECONDS:
        raise Unauthenticated(f"header {HEADER} is of another format, or {abs(now - asked_at):.0f} seconds old")
    question, subject, principal = said
    return PeerRequest(operation=PeerOperation(question), subject=subject, principal=principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPeers:
    """The servers at some addresses (`engine.runtime.peers.Peers`), which are called with the certificate of this one, and told by its authority."""

    addresses: Sequence[str]
    sealer: TicketSealer
    tls: Tls | None = None
    now: Callable[[], float] = time.time
    _clients: dict[str, flight.FlightClient] = field(default_factory=dict, repr=False)
    _silent: dict[str, float] = field(default_factory=dict, repr=False)

    def rows(self, table: str, principal: str | None) -> Iterable[pa.Table]:
        return self._ask(PeerRequest(operation=PeerOperation.ROWS, subject=table, principal=principal), _rows)

    def kill(self, statement: str, principal: str | None) -> CancelStatus | None:
        request = PeerRequest(operation=PeerOperation.KILL, subject=statement, principal=principal)
        return next((status for status in self._ask(request, _status) if status is not None), None)

    def cancel(self, statement: str, principal: str) -> Iterable[CancelStatus]:
        request = PeerRequest(operation=PeerOperation.CANCEL, subject=statement, principal=principal)
        return [status for status in self._ask(request, _status) if status is not None]

    def _ask(self, request: PeerRequest, decode: Callable[[bytes], T]) -> list[T]:
        """Return the answers of all that answer, which are asked at once; one that did not is left alone for a while."""
        now = self.now()
        asked = [address for address in self.addresses if self._silent.get(address, 0.0) <= now]
        if not asked:
            return []
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = pool.map(lambda address: self._ask_one(address, request, decode), asked)
            return [answer for found in answers for answer in found]

    def _ask_one(self, address: str, request: PeerRequest, decode: Callable[[bytes], T]) -> list[T]:
        """Return the answer of one server; nothing where it does not answer, or in another way than this release does."""
        header = (HEADER.encode(), seal_request(self.sealer, request, self.now()))
        options = flight.FlightCallOptions(SECONDS, headers=[header])
        try:
            (result,) = self._client(address).do_action(flight.Action(ACTION, b""), options)
            return [decode(result.body.to_pybytes())]
        except (flight.FlightError, pa.ArrowException, ValueError) as exc:
            log.warning("the server at %s does not answer its peers: %s", address, str(exc).partition(". Detail:")[0])
            self._silent[address] = self.now() + SILENT_SECONDS
            return []

    def _client(self, address: str) -> flight.FlightClient:
        if address not in self._clients:
            tls = self.tls if address.startswith("grpc+tls") else None
            is_mutual = tls is not None and tls.client_ca is not None
            self._clients[address] = flight.connect(
                address,
                tls_root_certs=tls.client_ca if tls is not None else None,
                cert_chain=tls.certificate if tls is not None and is_mutual else None,
                private_key=tls.key if tls is not None and is_mutual else None,
                # A certificate names the address that clients know.
                disable_server_verification=tls is not None and urlsplit(address).hostname in _LOOPBACK,
                generic_options=[("grpc.enable_http_proxy", 0)],
            )
        return self._clients[address]


def sealed_request(headers: Mapping[str, Sequence[str | bytes]]) -> str | None:
    """Return the value of the header among those of a call; None without it."""
    found = headers.get(HEADER, ())
    return str(found[0]) if found else None


def _rows(answer: bytes) -> pa.Table:
    return pa.ipc.open_stream(answer).read_all()


def _status(answer: bytes) -> CancelStatus | None:
    return CancelStatus(answer.decode()) if answer else None
