"""The SQLAlchemy dialect signs in over TLS: by a user and a password, by a token, and is turned away otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tests.flight.identities import PASSWORDS, TOKENS
from tests.flight.identity_files import IdentityFiles
from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> IdentityFiles:
    return IdentityFiles(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def server(place: IdentityFiles) -> Iterator[Server]:
    with serving(place.path / "root", *place.arguments) as running:
        yield running


def url(server: Server, **query: str) -> sa.URL:
    port = int(server.uri.rpartition(":")[2])
    return sa.URL.create("lance_flight", host="localhost", port=port, query=query)


def principal(where: sa.URL) -> str:
    engine = sa.create_engine(where)
    try:
        with engine.connect() as connection:
            return str(connection.execute(sa.text("SELECT CURRENT_USER")).scalar())
    finally:
        engine.dispose()


def test_signs_in(server: Server, place: IdentityFiles) -> None:
    trusted = url(server, tls_ca=str(place.path / "ca"))
    assert principal(trusted.set(username="alice", password=PASSWORDS["alice"])) == "alice"
    assert principal(trusted.update_query_dict({"token": TOKENS["alice"]})) == "alice"
    assert principal(trusted.update_query_dict({"token_file": str(place.path / "token of bob")})) == "bob"


def test_is_turned_away(server: Server, place: IdentityFiles) -> None:
    trusted = url(server, tls_ca=str(place.path / "ca"))
    for wrong in (
        trusted,
        trusted.set(username="alice", password=PASSWORDS["alice"][::-1]),
        trusted.update_query_dict({"token": "wrong"}),
    ):
        with pytest.raises(DBAPIError, match="unauthenticated"):
            principal(wrong)
    with pytest.raises(DBAPIError, match="certificate"):
        principal(url(server, tls="true", token=TOKENS["alice"]))
