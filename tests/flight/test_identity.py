"""Who is let in, over the wire: every RPC, with every credential that proves nobody, and with another's belongings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.flight import wire
from lance_flight.flight.passwords import hash_of
from lance_flight.flight.server import FlightSqlServer
from pyarrow import flight

from tests.flight.flight_backend import KEY, NUMBERS, CannedBackend
from tests.flight.handshakes import Unanswered
from tests.flight.identities import (
    ANOTHER_KEY,
    EXPIRED_TOKEN,
    LIFETIME,
    PASSWORDS,
    TOKENS,
    Identities,
    basic,
    calling,
    claims,
    signed,
    signed_in,
    users_text,
)
from tests.flight.statements import SELECT, begin, descriptor, prepare
from tests.flight.visits import FREE, REFUSALS, Visit, info, refusal


@pytest.fixture
def identities(tmp_path: Path) -> Identities:
    return Identities(tmp_path)


@pytest.fixture
def server(backend: CannedBackend, identities: Identities) -> Iterator[FlightSqlServer]:
    backend.updates["INSERT"] = 1
    with FlightSqlServer(backend, KEY, authentication=identities.authentication) as running:
        yield running


def owned(visit: Visit) -> wire.PreparedStatementQuery:
    return wire.PreparedStatementQuery(prepared_statement_handle=visit.handle)


PARAMETERS = pa.table({"1": [1], "2": ["a"]})
BOUND = {
    "DoGet of a ticket": lambda v: v.client.do_get(v.ticket, v.options).read_all(),
    "GetFlightInfo of a prepared statement": lambda v: info(v, owned(v)),
    "GetSchema of a prepared statement": lambda v: v.client.get_schema(descriptor(owned(v)), v.options),
    "DoPut of parameters": lambda v: v.put(owned(v), PARAMETERS),
    "DoPut of a prepared update": lambda v: v.put(
        wire.PreparedStatementUpdate(prepared_statement_handle=v.handle), PARAMETERS
    ),
    "CancelFlightInfo": lambda v: v.act(wire.CancelFlightInfo(info=v.info)),
    "CancelQuery": lambda v: v.act(wire.CancelQuery(info=v.info)),
    "RenewFlightEndpoint": lambda v: v.act(
        wire.RenewFlightEndpoint(endpoint=flight.FlightEndpoint(v.ticket, []).serialize())
    ),
    "ClosePreparedStatement": lambda v: v.act(wire.ClosePreparedStatement(prepared_statement_handle=v.handle)),
}
"""What is done with a ticket or a handle, which belong to somebody."""

RPCS = BOUND | FREE
LATER = {
    "an unknown action": "invalid_input",
    "ListFlights": "unsupported",
    "DoExchange": "unsupported",
    "DoPut of a prepared update": "invalid_input",
}
"""What some are answered with once the caller is let in."""


CREDENTIALS: dict[str, Callable[[str], str | None]] = {
    "none": lambda _: None,
    "an empty header": lambda _: "",
    "a wrong password": lambda _: basic("alice", "wrong"),
    "an empty password": lambda _: basic("alice", ""),
    "another's password": lambda _: basic("alice", PASSWORDS["bob"]),
    "an unknown user": lambda _: basic("mallory", PASSWORDS["alice"]),
    "anonymous by name": lambda _: basic("anonymous", ""),
    "Basic that is no Base64": lambda _: "Basic !!!",
    "Basic without a colon": lambda _: "Basic YWxpY2U=",
    "Basic without its padding": lambda _: basic("alice", "wrong!").rstrip("="),
    "Basic that is no UTF-8": lambda _: "Basic /zr/",
    "another scheme": lambda _: "Digest username=alice",
    "an unknown token": lambda _: "Bearer let-me-in",
    "an empty token": lambda _: "Bearer ",
    "a token with a changed end": lambda token: token[:-4] + "AAAA",
    "a token with a changed user": lambda token: token[:16] + ("A" if token[16] != "A" else "B") + token[17:],
    "a token cut short": lambda token: token[:-8],
    "a static token that has expired": lambda _: f"Bearer {EXPIRED_TOKEN}",
    "the hash of a static token": lambda _: f"Bearer {hash_of(TOKENS['alice'])}",
    "a static token as a password": lambda _: basic("alice", TOKENS["alice"]),
    "a JSON web token of another key": lambda _: f"Bearer {signed(ANOTHER_KEY)}",
    "a JSON web token that has expired": lambda _: f"Bearer {signed(exp=1)}",
    "a JSON web token of another issuer": lambda _: f"Bearer {signed(iss='https://elsewhere.example')}",
    "a JSON web token of nobody signed": lambda _: f"Bearer {jwt.encode(claims(), None, 'none')}",
    "a JSON web token for anonymous": lambda _: f"Bearer {signed(sub='anonymous')}",
    "a session token as a password": lambda token: basic("alice", token.removeprefix("Bearer ")),
}


def visit_of(server: FlightSqlServer, client: flight.FlightClient, owner: str) -> Callable[[str | None], Visit]:
    """What a visitor comes with, be it his or not: the ticket and the handle of an owner."""
    options = calling(owner)
    ticket = client.get_flight_info(descriptor(SELECT), options).endpoints[0].ticket
    handle = prepare(client, "SELECT numbers", options).prepared_statement_handle
    return lambda header: Visit(client, calling(header), ticket, handle)


def forget(backend: CannedBackend) -> None:
    for seen in (backend.ran, backend.described, backend.ingested, backend.callers, backend.ended, backend.cancelled):
        seen.clear()


def is_untouched(backend: CannedBackend) -> bool:
    return not any(
        (
            backend.ran,
            backend.described,
            backend.ingested,
            backend.callers,
            backend.ended,
            backend.cancelled,
            backend.sessions,
        )
    )


TRIED: dict[str, int] = {}


@pytest.mark.parametrize("rpc", RPCS)
def test_no_rpc_takes_a_credential_that_proves_nobody(
    server: FlightSqlServer, client: flight.FlightClient, backend: CannedBackend, identities: Identities, rpc: str
) -> None:
    token = signed_in(client, "alice")
    visit = visit_of(server, client, token)
    forget(backend)
    outcomes = {name: refusal(RPCS[rpc], visit(make(token))) for name, make in CREDENTIALS.items()}
    identities.clock.now += LIFETIME + 1
    outcomes["an expired token"] = refusal(RPCS[rpc], visit(token))
    identities.clock.now -= LIFETIME
    identities.users.write_text(users_text({"bob": PASSWORDS["bob"]}))
    outcomes["the token of a user who is gone"] = refusal(RPCS[rpc], visit(token))
    identities.users.write_text(users_text(PASSWORDS | {"alice": "new"}))
    outcomes["the token of an older password"] = refusal(RPCS[rpc], visit(token))
    identities.users.write_text("[users")
    outcomes["anything, with a file that says nothing"] = refusal(RPCS[rpc], visit(token))
    assert outcomes == dict.fromkeys(outcomes, "unauthenticated")
    assert is_untouched(backend)
    TRIED[rpc] = len(outcomes)


def test_how_many_were_tried(say: Callable[[str], None]) -> None:
    say(f"identity: {len(TRIED)} RPCs, {sum(TRIED.values())} calls with credentials that prove nobody, accepted 0")


@pytest.mark.parametrize("rpc", RPCS)
def test_every_rpc_takes_each_kind_of_credential(
    server: FlightSqlServer, client: flight.FlightClient, backend: CannedBackend, rpc: str
) -> None:
    visit = visit_of(server, client, signed_in(client, "alice"))
    forget(backend)
    for header in (
        basic("alice", PASSWORDS["alice"]),
        signed_in(client, "alice"),
        f"Bearer {TOKENS['alice']}",
        f"Bearer {signed()}",
    ):
        assert refusal(RPCS[rpc], visit(header)) == LATER.get(rpc)
    groups = {("all", "alices"), ("machines",), ("from elsewhere",)}
    assert {(caller.principal, caller.groups) for caller in backend.callers} <= {("alice", names) for names in groups}


@pytest.mark.parametrize("rpc", BOUND)
def test_nobody_uses_what_is_anothers(
    server: FlightSqlServer, client: flight.FlightClient, backend: CannedBackend, rpc: str
) -> None:
    visit = visit_of(server, client, signed_in(client, "alice"))
    forget(backend)
    assert refusal(RPCS[rpc], visit(signed_in(client, "bob"))) == "refused"
    with pytest.raises(REFUSALS, match="belongs to another principal"):
        RPCS[rpc](visit(basic("bob", PASSWORDS["bob"])))
    assert not any((backend.ran, backend.described, backend.callers, backend.cancelled))


def test_the_words_are_the_same_whatever_is_wrong(client: flight.FlightClient) -> None:
    said = set()
    for user, password in [("alice", "wrong"), ("mallory", "wrong"), ("alice", ""), ("", "")]:
        with pytest.raises(flight.FlightUnauthenticatedError) as raised:
            client.authenticate_basic_token(user, password)
        said.add(str(raised.value))
    assert len(said) == 1
    assert "[unauthenticated] the user or the password is wrong" in said.pop()


def test_a_header_that_proves_nobody_is_answered_as_such(client: flight.FlightClient) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"\[unauthenticated\]"):
        client.get_flight_info(descriptor(SELECT), calling(None, (b"auth-token-bin", b"\xff\xfe")))


class Answered(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    """Keeps the headers of every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[dict[str, list[str]]] = []

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        seen = self.headers

        class _Call(flight.ClientMiddleware):  # type: ignore[misc]
            def received_headers(self, headers: dict[str, list[str]]) -> None:
                seen.append(headers)

        return _Call()


def test_a_token_is_given_once_and_by_a_handshake_alone(server: FlightSqlServer) -> None:
    answered = Answered()
    with flight.connect(server.uri, middleware=[answered]) as client:
        header = signed_in(client, "alice")
        assert [len(headers.get("authorization", [])) for headers in answered.headers if headers] == [1]
        answered.headers.clear()
        options = calling(basic("alice", PASSWORDS["alice"]))
        client.get_flight_info(descriptor(SELECT), options)
        begin(client, options)
        client.authenticate(Unanswered(), calling(header))
    assert all("authorization" not in headers for headers in answered.headers)


def test_anonymous_callers_are_let_in_where_that_is_asked_for_and_wrong_ones_never(
    backend: CannedBackend, tmp_path: Path
) -> None:
    identities = Identities(tmp_path, allow_anonymous=True)
    with (
        FlightSqlServer(backend, KEY, authentication=identities.authentication) as server,
        flight.connect(server.uri) as client,
    ):
        client.get_flight_info(descriptor(SELECT))
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.get_flight_info(descriptor(SELECT), calling(basic("alice", "wrong")))
        client.get_flight_info(descriptor(SELECT), calling(signed_in(client, "alice")))
    assert [caller.principal for caller in backend.callers] == ["anonymous", "alice"]


@pytest.mark.parametrize(("key", "is_taken"), [(KEY, True), (bytes(32), False)], ids=["same key", "another key"])
def test_another_server_takes_a_token_if_it_has_the_same_key(
    client: flight.FlightClient, backend: CannedBackend, tmp_path: Path, key: bytes, *, is_taken: bool
) -> None:
    header = signed_in(client, "alice")
    (tmp_path / "other").mkdir()
    other = Identities(tmp_path / "other", key=key)
    other.users.write_text((tmp_path / "users.toml").read_text())
    with (
        FlightSqlServer(backend, key, authentication=other.authentication) as server,
        flight.connect(server.uri) as second,
    ):
        call = Visit(second, calling(header), flight.Ticket(b""), b"")
        assert refusal(lambda v: info(v, SELECT), call) == (None if is_taken else "unauthenticated")


def test_each_token_of_a_handshake_is_a_session(
    client: flight.FlightClient, server: FlightSqlServer, backend: CannedBackend
) -> None:
    tokens = [signed_in(client, user) for user in ("alice", "alice", "bob")]
    for token in tokens:
        for _ in range(2):
            with flight.connect(server.uri) as another:
                another.get_flight_info(descriptor(SELECT), calling(token))
    sessions = [caller.session for caller in backend.callers]
    assert sessions[::2] == sessions[1::2]
    assert len(set(sessions)) == 3


SHARED = {
    "a password": basic("alice", PASSWORDS["alice"]),
    "a static token": f"Bearer {TOKENS['alice']}",
    "a JSON web token": f"Bearer {signed()}",
}


@pytest.mark.parametrize("header", SHARED.values(), ids=SHARED.keys())
def test_connections_with_one_credential_are_sessions_of_their_own(
    server: FlightSqlServer, backend: CannedBackend, header: str
) -> None:
    options = calling(header)
    for _ in range(2):
        with flight.connect(server.uri) as client:
            for _ in range(2):
                client.get_flight_info(descriptor(SELECT), options)
    assert len({caller.session for caller in backend.callers}) == 2
    assert all(caller.is_connection for caller in backend.callers)


def test_adbc_signs_in_with_a_user_and_a_password(server: FlightSqlServer, backend: CannedBackend) -> None:
    kwargs = {"username": "alice", "password": PASSWORDS["alice"]}
    with dbapi.connect(server.uri, db_kwargs=kwargs, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT numbers")
        assert cursor.fetch_arrow_table().equals(NUMBERS)
        assert cursor.adbc_ingest("t", NUMBERS, mode="create") == 4
    assert {caller.principal for caller in backend.callers} == {"alice"}
    assert len({caller.session for caller in backend.callers}) == 1


def test_adbc_is_told_that_the_password_is_wrong(server: FlightSqlServer) -> None:
    with pytest.raises(Error, match=r"\[unauthenticated\] the user or the password is wrong") as raised:
        dbapi.connect(server.uri, db_kwargs={"username": "alice", "password": "wrong secret"})
    assert "wrong secret" not in str(raised.value)
