"""Signed, versioned, self-contained tickets, prepared handles, session tokens and session cookies: data only.

```text
sealed = version (1 byte) + kind (1 byte) + bytes of the principal (2 bytes, little-endian) + principal + payload
         + HMAC-SHA256 (32 bytes) over all before it
```

Any server that holds the same 32-byte key opens what another one has sealed, for the principal that it was sealed for; nothing
is kept on a server for it.

```text
cookie = base64url of a sealed JSON: [format, key, home, generation, settings, kept]
```

`key` finds the session on the server `home`. Another server begins one under the same key, with the settings; what is kept on
`home` alone (a transaction, temporary tables) is missed there once, with an error.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from lance_flight.backend_values import SessionState
from lance_flight.errors import Refused, TicketError
from lance_flight.flight.backend import SqlOrPlan
from lance_flight.flight.wire import SubstraitPlan

KEY_BYTES = 32

_VERSION = 2
_HEADER = 2
_LENGTH = 2
_INSTANT = struct.Struct(">q")
"""Encoding of a time: microseconds since 1970."""
_NEVER = 0
_MICROSECONDS = 1_000_000
_MAC = hashlib.sha256().digest_size


class _Kind(Enum):
    ROWS = b"R"
    NO_ROWS = b"N"
    PREPARED = b"P"
    SESSION = b"S"
    COOKIE = b"C"
    PEER = b"Q"


_KINDS = {kind.value: kind for kind in _Kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTicket:
    """Ticket of one endpoint of a query: the payload that the backend reads its rows from, until it `expires`."""

    payload: bytes
    expires: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRowsTicket:
    """Ticket of a statement that returns no rows and has been run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Prepared statement: SQL text or a plan, its bound parameters as an IPC stream, and the compressed schema that describes them.

    `identity` tells apart equal statements of different clients; binding keeps it. `replica` is the server that made it, and remembers
    the parameters of clients that go on using a handle without any.
    """

    text: SqlOrPlan
    replica: str = ""
    transaction_id: bytes | None = None
    parameters: bytes | None = None
    described: bytes | None = None
    identity: str = field(default_factory=lambda: secrets.token_hex(16))


class TicketSealer:
    """Seals and opens tickets and handles with one key of `KEY_BYTES` bytes."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes; expected {KEY_BYTES}")
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)

    def ticket(self, ticket: RowsTicket | NoRowsTicket, principal: str) -> bytes:
        """Seal the ticket of one endpoint for its principal."""
        match ticket:
            case RowsTicket(payload=payload, expires=expires):
                return self._seal(_Kind.ROWS, principal, _to_instant(expires) + payload)
            case NoRowsTicket():
                return self._seal(_Kind.NO_ROWS, principal, b"")

    def open_ticket(self, sealed: bytes, principal: str) -> RowsTicket | NoRowsTicket:
        """Open a ticket; raise `TicketError` for one that was not sealed with this key, `Refused` for another principal's."""
        match self._opened_for(principal, sealed, "ticket"):
            case _Kind.ROWS, payload:
                return RowsTicket(payload=payload[_INSTANT.size :], expires=_from_instant(payload[: _INSTANT.size]))
            case _Kind.NO_ROWS, b"":
                return NoRowsTicket()
        raise TicketError("this is no ticket of a result; expected one from the endpoints of a FlightInfo")

    def handle(self, prepared: Prepared, principal: str) -> bytes:
        """Seal the handle of a prepared statement for its principal."""
        return self._seal(_Kind.PREPARED, principal, _to_json(prepared))

    def open_handle(self, sealed: bytes, principal: str) -> Prepared:
        """Open a handle; raise `TicketError` for one that was not sealed with this key, `Refused` for another principal's."""
        match self._opened_for(principal, sealed, "prepared statement handle"):
            case _Kind.PREPARED, payload:
                return _from_json(payload)
        raise TicketError("this is no handle of a prepared statement; expected one from CreatePreparedStatement")

    def session(self, user: str, payload: bytes) -> bytes:
        """Seal the claims of a user's session token."""
        return self._seal(_Kind.SESSION, user, payload)

    def open_session(self, sealed: bytes) -> tuple[str, bytes]:
        """Open a session token and return its user and claims; raise `TicketError` for any other text."""
        kind, user, payload = self._open(sealed, "session token")
        if kind is not _Kind.SESSION:
            raise TicketError("this is no session token; expected one from a Handshake")
        return user, payload

    def cookie(self, principal: str, payload: bytes) -> bytes:
        """Seal what the cookie of a principal's session says."""
        return self._seal(_Kind.COOKIE, principal, payload)

    def open_cookie(self, sealed: bytes) -> tuple[str, bytes]:
        """Open a session cookie and return its principal and what it says; raise `TicketError` for any other text."""
        kind, principal, payload = self._open(sealed, "session cookie")
        if kind is not _Kind.COOKIE:
            raise TicketError("this is no session cookie; expected one that a server has set")
        return principal, payload

    def peer(self, payload: bytes) -> bytes:
        """Seal a question of one server to another."""
        return self._seal(_Kind.PEER, "", payload)

    def open_peer(self, sealed: bytes) -> bytes:
        """Open a question of another server; raise `TicketError` for any other text."""
        kind, _, payload = self._open(sealed, "question of a server")
        if kind is not _Kind.PEER:
            raise TicketError("this is no question of a server over the same root")
        return payload

    def _seal(self, kind: _Kind, principal: str, payload: bytes) -> bytes:
        name = principal.encode()
        signed = bytes([_VERSION]) + kind.value + len(name).to_bytes(_LENGTH, "little") + name + payload
        return signed + self._mac(signed)

    def _mac(self, signed: bytes) -> bytes:
        """Compute the HMAC-SHA256 of bytes; unlike `hmac.digest` it releases Python's lock for long ones alone."""
        keyed = self._keyed.copy()
        keyed.update(signed)
        return keyed.digest()

    def _opened_for(self, principal: str, sealed: bytes, what: str) -> tuple[_Kind, bytes]:
        kind, owner, payload = self._open(sealed, what)
        if owner != principal:
            raise Refused(f"the {what} belongs to another principal")
        return kind, payload

    def _open(self, sealed: bytes, what: str) -> tuple[_Kind, str, bytes]:
        signed, mac = sealed[:-_MAC], sealed[-_MAC:]
        if len(signed) < _HEADER or not hmac.compare_digest(mac, self._mac(signed)):
            raise TicketError(
                f"a {what} of {len(sealed)} bytes was not issued under the key of this server, or was altered"
            )
        if signed[0] != _VERSION:
            raise TicketError(f"a {what} of version {signed[0]}; this server reads version {_VERSION}")
        begin = _HEADER + _LENGTH
        end = begin + int.from_bytes(signed[_HEADER:begin], "little")
        kind = signed[1:_HEADER]
        if kind not in _KINDS:
            raise TicketError(f"a {what} of the kind {kind!r}, which a server of another release has issued")
        return _KINDS[kind], signed[begin:end].decode(), signed[end:]


def _to_instant(moment: datetime | None) -> bytes:
    return _INSTANT.pack(_NEVER if moment is None else round(moment.timestamp() * _MICROSECONDS))


def _from_instant(data: bytes) -> datetime | None:
    (number,) = _INSTANT.unpack(data)
    return None if number == _NEVER else datetime.fromtimestamp(number / _MICROSECONDS, UTC)


_KEYS = frozenset({"identity", "text", "replica", "transaction_id", "parameters", "described"})


def _to_json(prepared: Prepared) -> bytes:
    value = {
        "identity": prepared.identity,
        "text": _statement_to_json(prepared.text),
        "replica": prepared.replica,
        "transaction_id": _to_text(prepared.transaction_id),
        "parameters": _to_text(prepared.parameters),
        "described": _to_text(prepared.described),
    }
    return json.dumps(value, separators=(",", ":")).encode()


def _from_json(payload: bytes) -> Prepared:
    value: dict[str, Any] = json.loads(payload)
    unknown = value.keys() - _KEYS
    if unknown:
        raise TicketError(
            f"a prepared statement handle with {', '.join(sorted(unknown))}, which a newer server has issued"
        )
    return Prepared(
        identity=value["identity"],
        text=_statement_from_json(value["text"]),
        replica=value.get("replica", ""),
        transaction_id=_to_bytes(value["transaction_id"]),
        parameters=_to_bytes(value["parameters"]),
        described=_to_bytes(value.get("described")),
    )


def _statement_to_json(statement: SqlOrPlan) -> str | list[str]:
    if isinstance(statement, str):
        return statement
    return [b64encode(statement.plan).decode(), statement.version]


def _statement_from_json(value: str | list[str]) -> SqlOrPlan:
    if isinstance(value, str):
        return value
    plan, version = value
    return SubstraitPlan(plan=b64decode(plan), version=version)


def _to_text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


OF_A_COOKIE = "arrow_flight_session_id"
"""Name of the cookie that tells a session apart, the same as in Arrow's own servers."""
OF_A_TOKEN = "lance_flight_session"  # noqa: S105 - a name
"""Name of the cookie that has the settings of a session which is told apart by a token."""
_ID_BYTES = 16
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCookie:
    """Content of a cookie: the principal and the key of its session, the server that has it, and the state that it was in."""

    principal: str
    key: str
    home: str
    state: SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCookies:
    """Writes and reads the cookies of the server `home`."""

    sealer: TicketSealer
    home: str

    def write(self, principal: str, key: str, state: SessionState) -> str:
        """Return the value of a cookie for a session of this server."""
        value = [_FORMAT, key, self.home, state.generation, dict(state.settings), list(state.kept)]
        sealed = self.sealer.cookie(principal, json.dumps(value, separators=(",", ":")).encode())
        return urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, text: str) -> SessionCookie | None:
        """Return what a cookie says; None for one that was not written under this key, or in another format."""
        try:
            principal, payload = self.sealer.open_cookie(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (ValueError, TicketError):
            return None
        format, *fields = json.loads(payload)
        if format != _FORMAT:
            return None
        key, home, generation, settings, kept = fields
        return SessionCookie(
            principal=principal,
            key=key,
            home=home,
            state=SessionState(generation=generation, settings=settings, kept=tuple(kept)),
        )


def new_key() -> str:
    """Return a random key for a session."""
    return secrets.token_urlsafe(_ID_BYTES)
