"""Handshake: exchanges a password for a token.

Most clients send the password in a header, and get the token in one. Others send both in messages, Flight's first way
(`BasicAuth` in Flight.proto), and come back with the header `auth-token-bin`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyarrow import flight

from lance_flight import audit
from lance_flight.audit import AuditEvent, EventKind, Subject
from lance_flight.errors import Unauthenticated
from lance_flight.flight.identity.authentication import (
    ANONYMOUS,
    AUTHORIZATION,
    Authentication,
    Basic,
    Principal,
    Proof,
    credential_of,
)
from lance_flight.flight.status import handler

TOKEN = "auth-token-bin"  # noqa: S105 - the header, not what stands in it


class Handshake(flight.ServerAuthHandler):
    """Server side of a Handshake; without a handler gRPC answers it with UNIMPLEMENTED."""

    def __init__(self, authentication: Authentication) -> None:
        super().__init__()
        self._authentication = authentication
        self._known: dict[int, bool] = {}

    def begin(self, headers: Mapping[str, Sequence[str | bytes]]) -> bool:
        """Return whether a Handshake has to authenticate by a message, since its headers carry no credential.

        `authenticate` is called after this on the same thread, without the headers of the call.
        """
        is_known = (
            bool(headers.get(AUTHORIZATION)) if self._authentication.is_open else credential_of(headers) is not None
        )
        self._known[threading.get_ident()] = is_known
        return not is_known

    @handler
    def authenticate(self, outgoing: flight.ServerAuthSender, incoming: flight.ServerAuthReader) -> None:
        """Answer a Handshake of pyarrow's server."""
        self.answer(outgoing, incoming)

    def answer(self, outgoing: flight.ServerAuthSender, incoming: flight.ServerAuthReader) -> None:
        """Answer a password in a message with a token; a credential in a header is accepted whatever the message contains.

        A client that is still writing when the answer comes may abort, so its message is read first.
        """
        message = b""
        with contextlib.suppress(OSError):  # no message at all
            message = incoming.read()
        if self._known.pop(threading.get_ident(), False):
            return
        if not message:
            self._authentication.admit({})
            return
        user = ANONYMOUS if self._authentication.is_open else self._authentication.authenticate(_password(message))
        record_handshake(user)
        outgoing.write((self._authentication.grant(user) or "").encode())

    def is_valid(self, token: bytes) -> bytes:
        """Accept every call: what its token proves is the authentication's to say."""
        return b""


def record_handshake(principal: Principal) -> None:
    """Record a Handshake that has let a principal in; Flight does not say from which address."""
    if principal.proof is Proof.NOTHING:
        return
    subject = Subject(principal=principal.name)
    reason = "a Handshake proves the principal"
    audit.record(AuditEvent(kind=EventKind.LOGIN, subject=subject, action=principal.proof.value, reason=reason))


def with_token(headers: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Add the token of Flight's basic handshake, if there is one, to the headers as a bearer token."""
    tokens = [_text(token) for token in headers.get(TOKEN, ()) if token]
    if not tokens or headers.get(AUTHORIZATION):
        return headers
    return {**headers, AUTHORIZATION: [f"Bearer {tokens[0]}"]}


def _password(message: bytes) -> Basic:
    """Decode the user and the password of a Handshake's message."""
    try:
        credentials = flight.BasicAuth.deserialize(message)
    except pa.ArrowInvalid as exc:
        raise Unauthenticated("the message of the Handshake is no BasicAuth") from exc
    return Basic(user=_text(credentials.username), password=_text(credentials.password))


def _text(value: str | bytes) -> str:
    try:
        return value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError:
        raise Unauthenticated("what the call says of who calls is not UTF-8") from None
