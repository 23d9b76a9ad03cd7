"""Clients that send a user and a password to a server that asks nobody: all of them are let in, as anonymous."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from pyarrow import flight

from tests.flight.handshakes import InMessages, password
from tests.flight.statements import reader
from tests.service.server_process import Server

WHO = "SELECT CURRENT_USER AS who"


def asked(client: flight.FlightClient, options: flight.FlightCallOptions | None = None) -> str:
    """Who the server takes a client for."""
    return str(reader(client, WHO, options).read_all()["who"][0].as_py())


def by_header(server: Server, user: str, word: str) -> str:
    with flight.connect(server.uri) as client:
        name, token = client.authenticate_basic_token(user, word)
        assert (name, token[:7]) == (b"authorization", b"Bearer ")
        return asked(client, flight.FlightCallOptions(headers=[(name, token)]))


def by_message(server: Server, user: str, word: str) -> str:
    with flight.connect(server.uri) as client:
        client.authenticate(InMessages(password(user, word)))
        return asked(client)


def by_adbc(server: Server, user: str, word: str) -> str:
    given = {"username": user, "password": word}
    with dbapi.connect(server.uri, db_kwargs=given, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(WHO)
        return str(cursor.fetchone()[0])


@pytest.mark.parametrize("way", [by_header, by_message, by_adbc])
@pytest.mark.parametrize(
    ("user", "word"), [("alice", "secret"), ("anonymous", "x")], ids=["a user", "anonymous by name"]
)
def test_a_password_that_nobody_asks_for_lets_in_as_anonymous(
    server: Server, way: Callable[[Server, str, str], str], user: str, word: str
) -> None:
    assert way(server, user, word) == "anonymous"


def test_two_clients_with_one_password_have_a_session_each(server: Server) -> None:
    given = {"username": "alice", "password": "secret"}
    with (
        dbapi.connect(server.uri, db_kwargs=given, autocommit=True) as one,
        dbapi.connect(server.uri, db_kwargs=given, autocommit=True) as other,
        one.cursor() as mine,
        other.cursor() as theirs,
    ):
        mine.execute("CREATE TEMPORARY TABLE of_one AS SELECT 1 AS id")
        mine.execute("SELECT id FROM of_one")
        assert mine.fetchall() == [(1,)]
        with pytest.raises(Error, match="of_one"):
            theirs.execute("SELECT id FROM of_one")
