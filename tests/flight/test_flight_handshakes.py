"""Handshakes with a password in their message, Flight's first way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lance_flight.flight.server import FlightSqlServer
from pyarrow import flight

from tests.flight.flight_backend import KEY, NUMBERS, CannedBackend
from tests.flight.handshakes import InMessages, Unanswered, password
from tests.flight.identities import PASSWORDS, TOKENS, Identities, calling
from tests.flight.statements import SELECT, descriptor


@pytest.fixture
def server(backend: CannedBackend, tmp_path: Path) -> Iterator[FlightSqlServer]:
    with FlightSqlServer(backend, KEY, authentication=Identities(tmp_path).authentication) as running:
        yield running


@pytest.mark.parametrize("user", PASSWORDS)
def test_a_password_is_answered_with_a_token_that_is_good_for_calls(
    client: flight.FlightClient, backend: CannedBackend, user: str
) -> None:
    client.authenticate(InMessages(password(user, PASSWORDS[user])))
    info = client.get_flight_info(descriptor(SELECT))
    assert client.do_get(info.endpoints[0].ticket).read_all().equals(NUMBERS)
    assert {caller.principal for caller in backend.callers} == {user}
    assert len({caller.session for caller in backend.callers}) == 1


REFUSED = {
    "a wrong password": password("alice", "wrong"),
    "an empty password": password("alice", ""),
    "another's password": password("alice", PASSWORDS["bob"]),
    "an unknown user": password("mallory", PASSWORDS["alice"]),
    "nobody": password("", ""),
    "anonymous by name": password("anonymous", ""),
    "a static token as a password": password("alice", TOKENS["alice"]),
    "no BasicAuth": b"\xff\xff",
    "not UTF-8": b"\x12\x02\xfe\xfe\x1a\x01x",
    "no word": b"",
}


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED.keys())
def test_any_other_message_is_refused(
    client: flight.FlightClient, backend: CannedBackend, message: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.authenticate(InMessages(message))
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.get_flight_info(descriptor(SELECT))
    assert backend.callers == []
    assert not any(secret in caplog.text for secret in (*PASSWORDS.values(), *TOKENS.values()))


def test_a_token_that_is_none_is_refused(client: flight.FlightClient) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.get_flight_info(
            descriptor(SELECT), flight.FlightCallOptions(headers=[(b"auth-token-bin", b"let me in")])
        )


def test_a_header_goes_before_the_message(client: flight.FlightClient) -> None:
    client.authenticate(Unanswered(b"\xff\xff"), calling(f"Bearer {TOKENS['alice']}"))


def test_a_wrong_header_is_not_made_good_by_the_message(client: flight.FlightClient) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.authenticate(Unanswered(password("alice", PASSWORDS["alice"])), calling("Bearer nonsense"))
