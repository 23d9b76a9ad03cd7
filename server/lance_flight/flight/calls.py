"""Context of a call beside its command: its caller, the options in its headers, and its registration as running.

`CallMiddleware` is the one place that reads headers and writes them. A caller whom the authentication does not let in gets no further.

A proxy in front of a server says who its clients are: their addresses, behind a secret that both know. Clients in Java are told
other types of parameters.

Handshake: exchanges a password for a token.

Most clients send the password in a header, and get the token in one. Others send both in messages, Flight's first way
(`BasicAuth` in Flight.proto), and come back with the header `auth-token-bin`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from types import MappingProxyType

import pyarrow as pa
from pyarrow import flight

from lance_flight import audit
from lance_flight.audit import AuditEvent, EventKind, Subject
from lance_flight.backend_values import PeerRequest, SessionState
from lance_flight.connections import holder_of, may_hold, release
from lance_flight.errors import InvalidInput, LimitExceeded, Refused, Unauthenticated, Unavailable
from lance_flight.flight.authentication import (
    ANONYMOUS,
    AUTHORIZATION,
    Authentication,
    Basic,
    Principal,
    Proof,
    credential_of,
)
from lance_flight.flight.backend import Backend, Caller
from lance_flight.flight.peers import ACTION, open_request, sealed_request
from lance_flight.flight.status import handler
from lance_flight.flight.tickets import OF_A_COOKIE, OF_A_TOKEN, SessionCookie, SessionCookies, new_key
from lance_flight.threads import ThreadState

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


PROXY_HEADER = "lance-flight-proxy"


def client_of(headers: Mapping[str, Sequence[str | bytes]], secret: str) -> str | None:
    """Return the address that a proxy says of its client, as gRPC writes it; None if no proxy with this secret says one.

    >>> client_of({PROXY_HEADER: ["hush 10.0.0.1:4000"]}, "hush"), client_of({PROXY_HEADER: ["hush ::1:4000"]}, "hush")
    ('ipv4:10.0.0.1:4000', 'ipv6:%5B::1%5D:4000')
    >>> client_of({PROXY_HEADER: ["guessed 10.0.0.1:4000"]}, "hush"), client_of({PROXY_HEADER: [" 10.0.0.1:4000"]}, "")
    (None, None)
    """
    values = headers.get(PROXY_HEADER, ())
    if not secret or len(values) != 1:
        return None
    sent, _, client = str(values[0]).rpartition(" ")
    host, _, port = client.rpartition(":")
    if not hmac.compare_digest(sent.encode(), secret.encode()):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return f"ipv6:%5B{address}%5D:{port}" if isinstance(address, IPv6Address) else f"ipv4:{address}:{port}"


JAVA_USER_AGENT = "grpc-java"
"""Prefix of the user agent of every gRPC client in Java."""


def java_parameters(parameters: pa.Schema) -> pa.Schema:
    """Replace the units of parameters by those that the JDBC driver writes.

    The Flight SQL JDBC driver (18.3) writes milliseconds into a parameter of any unit, and days into a date of milliseconds:
    otherwise another time would be stored silently. So the units that it writes are reported to it; bound values are cast to
    whatever they are compared with or stored in. JDBC itself hands the driver no more than milliseconds.

    Where a statement wants no type, others are told null, which ADBC and Go's `database/sql` take for any. That driver takes nothing but NULL
    for it: it is told utf8, for which it refuses everything but texts, rather than a number, to which it would cut other numbers.

    >>> java_parameters(pa.schema({"$1": pa.timestamp("us", "UTC"), "$2": pa.time64("ns"), "$3": pa.null()}))
    $1: timestamp[ms, tz=UTC]
    $2: time32[ms]
    $3: string
    """
    return pa.schema([field.with_type(_written_type(field.type)) for field in parameters], metadata=parameters.metadata)


def _written_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.utf8()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", kind.tz)
    if pa.types.is_time(kind):
        return pa.time32("ms")
    return pa.date32() if pa.types.is_date64(kind) else kind


MIDDLEWARE = "lance-flight"
SET_COOKIE = "set-cookie"
TRACING = "lance-flight-tracing"
"""Name of the middleware under which a server may have a `tracing.TracingMiddlewareFactory`."""

ENDPOINTS_HEADER = "lance-flight-endpoints"
COMPRESSION_HEADER = "lance-flight-compression"
INGEST_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "lance-flight-partition-by": "partition_by",
        "lance-flight-stable-row-ids": "stable_row_ids",
        "lance-flight-file-version": "file_version",
        "lance-flight-overwrite": "overwrite",
        "lance-flight-commit-id": "commit_id",
    }
)
"""Options of an ingest by the headers that carry them, for drivers without ingest options."""
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
MOST_ENDPOINTS = 256

_OFFERING = frozenset([flight.FlightMethod.DO_ACTION, flight.FlightMethod.GET_FLIGHT_INFO])
_AUTHORIZATION, _COOKIES = "authorization", "cookie"
_CODECS = ("lz4", "zstd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Context of one call: its caller, the most endpoints that its answer may have, and the codec of its record batches.

    `ingest_options` are for drivers that can send headers with an ingest and no options. `offered` is the key of a cookie that the
    answer carries, which is to find the caller's session; one that `has_token` is found by that.
    """

    caller: Caller
    endpoints: int = 1
    compression: str | None = None
    ingest_options: Mapping[str, str] = field(default_factory=dict)
    has_token: bool = False
    offered: str | None = None
    is_cancelled: Callable[[], bool] = lambda: False

    def cookie(self, cookies: SessionCookies, state: SessionState) -> str | None:
        """Return the cookie that the answer sets for a session in some state; None if its client has it, or is told by its connection alone."""
        key = self.caller.session if self.has_token else self.caller.cookie or self.offered
        known = self.caller.state.generation if self.caller.state is not None else 0
        is_new = self.offered is not None or self.caller.is_from_elsewhere or state.generation > known
        if key is None or not is_new:
            return None
        name = OF_A_TOKEN if self.has_token else OF_A_COOKIE
        return f"{name}={cookies.write(self.caller.principal, key, state)}"


class InFlight:
    """Counter of running calls, which can be closed for new ones. `most` bounds them, and each holder has its share."""

    def __init__(self, most: int = sys.maxsize) -> None:
        self.most = most
        self._held: Counter[str] = Counter()
        self._count = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._count

    def enter(self, *, goes_on: bool = False) -> None:
        """Count a call that begins; raise `Unavailable` once new calls are refused, unless it continues an earlier one."""
        with self._changed:
            if self._is_closed and not goes_on:
                raise Unavailable(
                    "the server is stopping and takes no new calls; expected another server, or a later try"
                )
            self._count += 1

    def hold(self, holder: str) -> None:
        """Count a call that has begun for a holder; raise `LimitExceeded` if that has its share, until `leave`."""
        with self._changed:
            own, all_held = self._held[holder], self._held.total()
            if not may_hold(own, self.most - all_held):
                raise LimitExceeded(
                    f"{own} calls of {holder!r} run, and {all_held} of all, of {self.most} (running_calls), of which some are for others;"
                    " expected a later try"
                )
            self._held[holder] += 1

    def leave(self, holder: str | None = None) -> None:
        """Count a call as ended, its stream included."""
        with self._changed:
            self._count -= 1
            if holder is not None:
                release(self._held, holder)
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse new calls; running ones continue."""
        with self._changed:
            self._is_closed = True

    def wait(self, seconds: float) -> bool:
        """Wait at most so many seconds until no call is running, and return whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, seconds)


class Waiting:
    """Tracks whether the client of a call still waits for its answer; never after the call has ended. Safe to share among threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled: Callable[[], bool] | None = None
        self._has_ended = False

    def begin(self, is_cancelled: Callable[[], bool]) -> None:
        """Query `is_cancelled` from now on, until the call ends."""
        self._is_cancelled = is_cancelled

    def end(self) -> None:
        """Mark the call as ended; its cancellation state may not be read afterwards."""
        with self._lock:
            self._has_ended = True

    def is_gone(self) -> bool:
        """Return whether the call has ended or its client has disconnected."""
        with self._lock:
            return self._has_ended or (self._is_cancelled is not None and self._is_cancelled())


@dataclass(frozen=True, slots=True)
class _CallCookie:
    """Session cookie that came with a call, if it could be read, or the key of one that is `offered` to a client without any."""

    said: SessionCookie | None = None
    offered: str | None = None
    is_from_elsewhere: bool = False
    has_ended: bool = False


class CallMiddleware(flight.ServerMiddleware):
    """Middleware of one call: its principal, its headers by lower-case name, and its session cookie.

    `principal` is None where the certificate of the connection tells it, which is known to the handlers alone; `granted` the
    token that a Handshake is answered with, `client` the address that a proxy says of its client. A call with a `request` of another server is answered by that alone.
    """

    def __init__(
        self,
        in_flight: InFlight,
        authentication: Authentication,
        principal: Principal | None,
        headers: Mapping[str, Sequence[str]],
        *,
        granted: str | None,
        cookie: _CallCookie,
        request: PeerRequest | None,
        client: str | None = None,
    ) -> None:
        super().__init__()
        self._in_flight = in_flight
        self._authentication = authentication
        self._principal = principal
        self.waiting = Waiting()
        self.headers = headers
        self.granted = granted
        self.cookie = cookie
        self.request = request
        self.client = client
        self.thread_state: ThreadState | None = None
        self._holder: str | None = None

    def hold(self, holder: str) -> None:
        """Count the call for a holder; `LimitExceeded` if that has too many."""
        self._in_flight.hold(holder)
        self._holder = holder

    def principal(self, certificate: bytes) -> Principal:
        """Return the principal of the call, over a connection with the certificate of this name."""
        return self._principal or self._authentication.certificate_principal(certificate.decode())

    def sending_headers(self) -> dict[str, str]:
        """Send the token of a Handshake, and the deletion of a cookie that finds no session."""
        headers = {} if self.granted is None else {_AUTHORIZATION: f"Bearer {self.granted}"}
        return headers | {SET_COOKIE: f"{OF_A_COOKIE}=; Max-Age=0"} if self.cookie.has_ended else headers

    def call_completed(self, exception: Exception | None) -> None:
        """Mark the call as ended, with or without an error."""
        self.waiting.end()
        self._in_flight.leave(self._holder)
        if self.thread_state is not None:
            self.thread_state.end()


class CallMiddlewareFactory(flight.ServerMiddlewareFactory):
    """Admits calls, each with its principal, and reads their session cookies."""

    def __init__(
        self,
        in_flight: InFlight,
        backend: Backend,
        authentication: Authentication,
        handshake: Handshake,
        cookies: SessionCookies,
        *,
        proxy_secret: str = "",
    ) -> None:
        super().__init__()
        self._cookies, self._proxy_secret = cookies, proxy_secret
        self._in_flight = in_flight
        self._backend = backend
        self._authentication = authentication
        self._handshake = handshake

    @handler
    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]) -> CallMiddleware:
        """Admit a new call of pyarrow's server."""
        return self.admit(info.method, headers)

    def admit(self, method: flight.FlightMethod, headers: Mapping[str, Sequence[str]]) -> CallMiddleware:
        """Admit a new call or raise `Unauthenticated`; other errors in headers are left to `call_of`, which can report them better."""
        audit.enter(Subject())
        is_handshake = method == flight.FlightMethod.HANDSHAKE
        asked = sealed_request(headers)
        request = None if asked is None else open_request(self._cookies.sealer, asked, time.time())
        if not self._authentication.is_open:
            headers = with_token(headers)
        is_told_later = request is not None or (is_handshake and self._handshake.begin(headers))
        principal = None if is_told_later else self._authentication.admit(headers)
        granted = self._authentication.grant(principal) if is_handshake else None
        if is_handshake and principal is not None:
            record_handshake(principal)
        middleware = CallMiddleware(
            self._in_flight,
            self._authentication,
            principal,
            headers,
            granted=granted,
            cookie=self._cookie_of(method, principal, headers),
            request=request,
            client=client_of(headers, self._proxy_secret),
        )
        self._in_flight.enter(goes_on=method == flight.FlightMethod.DO_GET)
        # The last step that can fail: only a call that has begun gets `call_completed`, on the same thread.
        middleware.thread_state = ThreadState()
        return middleware

    def _cookie_of(
        self, method: flight.FlightMethod, principal: Principal | None, headers: Mapping[str, Sequence[str]]
    ) -> _CallCookie:
        """Read the cookie with the key of the session, or the one with the settings of a session that is told by a token."""
        sent = headers.get(_COOKIES, ())
        if _has_session_token(principal, headers):
            text = _cookie_named(OF_A_TOKEN, sent)
            return _CallCookie(None if text is None else self._cookies.read(text))
        text = _cookie_named(OF_A_COOKIE, sent)
        if text is None:
            return _CallCookie(offered=new_key() if method in _OFFERING else None)
        cookie = self._cookies.read(text)
        is_own = cookie is not None and cookie.home == self._cookies.home
        has_ended = cookie is None or (is_own and not self._backend.knows(cookie.key))
        return _CallCookie(cookie, is_from_elsewhere=not is_own, has_ended=has_ended)


def call_of(context: flight.ServerCallContext) -> Call:
    """Return the context of a call; raise `InvalidInput` for a header with an invalid value."""
    middleware: CallMiddleware = context.get_middleware(MIDDLEWARE)
    peer = middleware.client or context.peer()
    audit.enter(Subject(client=peer))
    if middleware.request is not None:
        raise Refused(f"a call of another server asks for nothing but the action {ACTION}")
    came = middleware.cookie
    if came.has_ended:
        raise InvalidInput(
            f"cookie {OF_A_COOKIE} finds no session: it was closed, was idle for too long, or is another server's;"
            " expected a call without the cookie, which begins a new one"
        )
    principal = middleware.principal(context.peer_identity())
    middleware.hold(holder_of(principal.name, peer))
    audit.enter(Subject(principal=principal.name, client=peer))
    told_by = _told_by(principal, middleware.headers)
    session = _session(principal, told_by, middleware.headers, peer)
    has_token = told_by == _AUTHORIZATION
    # Beside a token a cookie is of use if it is that token's.
    said = None if has_token and came.said is not None and came.said.key != session else came.said
    if said is not None and said.principal != principal.name:
        raise Refused("the session of this cookie belongs to another principal")
    middleware.waiting.begin(context.is_cancelled)
    return Call(
        caller=Caller(
            principal=principal.name,
            groups=principal.groups,
            proof=principal.proof.value,
            peer=peer,
            connection=context.peer(),
            session=session,
            is_connection=told_by is None,
            cookie=None if has_token or said is None else said.key,
            state=None if said is None else said.state,
            is_from_elsewhere=came.is_from_elsewhere,
            is_gone=middleware.waiting.is_gone,
            trace=getattr(context.get_middleware(TRACING), "context", None),
            is_java=any(str(agent).startswith(JAVA_USER_AGENT) for agent in middleware.headers.get("user-agent", ())),
        ),
        endpoints=_endpoints(middleware.headers.get(ENDPOINTS_HEADER)),
        compression=_compression(middleware.headers.get(COMPRESSION_HEADER)),
        ingest_options={
            option: str(value)
            for header, option in INGEST_HEADERS.items()
            for value in list(middleware.headers.get(header, ()))[:1]
        },
        has_token=has_token,
        offered=came.offered,
        is_cancelled=middleware.waiting.is_gone,
    )


def _cookie_named(wanted: str, values: Sequence[str]) -> str | None:
    """Return the value of a cookie among those of a call; None without it."""
    for pair in (pair for value in values for pair in value.split(";")):
        name, _, text = pair.strip().partition("=")
        if name == wanted:
            return text.strip('"')
    return None


def _has_session_token(principal: Principal | None, headers: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a call has a token that identifies a single client.

    A password, and a token of another issuer, may be shared by many clients. Without authentication a
    token serves no other purpose.
    """
    return (
        principal is not None
        and principal.proof in {Proof.SESSION_TOKEN, Proof.NOTHING}
        and bool(headers.get(_AUTHORIZATION))
    )


def _told_by(principal: Principal, headers: Mapping[str, Sequence[str]]) -> str | None:
    """Return the header that identifies the session; None if only the connection does."""
    if _has_session_token(principal, headers):
        return _AUTHORIZATION
    return _COOKIES if headers.get(_COOKIES) else None


def _session(principal: Principal, told_by: str | None, headers: Mapping[str, Sequence[str]], peer: str) -> str:
    """Return the key of a principal's session: its token, else its cookies, else its connection.

    Ports are reused by other clients, so that the client's library is part of a connection's key.
    """
    if told_by is not None:
        digest = hashlib.sha256("\0".join(map(str, headers[told_by])).encode()).hexdigest()
        return f"{told_by} {digest} {principal.name}"
    return " ".join(["peer", peer, *map(str, headers.get("user-agent", ())), principal.name])


def _endpoints(values: Sequence[str] | None) -> int:
    if values is None:
        return 1
    text = values[-1]
    if not (text.isdecimal() and 1 <= int(text) <= MOST_ENDPOINTS):
        raise InvalidInput(f"header {ENDPOINTS_HEADER} is {text!r}; expected a number from 1 to {MOST_ENDPOINTS}")
    return int(text)


def _compression(values: Sequence[str] | None) -> str | None:
    if values is None or values[-1] == "none":
        return None
    if values[-1] not in _CODECS:
        raise InvalidInput(f"header {COMPRESSION_HEADER} is {values[-1]!r}; expected none, {' or '.join(_CODECS)}")
    return values[-1]
