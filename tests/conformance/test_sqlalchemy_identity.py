"""The SQLAlchemy dialect signs in over TLS: by a user and a password, by a token, and is turned away otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tests.flight.certificates import authority
from tests.flight.identities import PASSWORDS, TOKENS, tokens_text, users_text
from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, ca = tmp_path_factory.mktemp("files"), authority()
    ca.signs_a_server().write(path / "cert", path / "key")
    (path / "ca").write_bytes(ca.pem)
    (path / "token").write_text(TOKENS["bob"] + "\n")
    for name, text in {"users": users_text(), "tokens": tokens_text()}.items():
        (path / name).write_text(text)
        (path / name).chmod(0o600)
    return path


@pytest.fixture(scope="module")
def server(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    names = {"users-file": "users", "tokens-file": "tokens", "tls-certificate": "cert", "tls-key": "key"}
    arguments = [part for name, file in names.items() for part in (f"--{name}", str(place / file))]
    with serving(tmp_path_factory.mktemp("identity") / "root", *arguments) as running:
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


def test_signs_in(server: Server, place: Path) -> None:
    trusted = url(server, tls_ca=str(place / "ca"))
    assert principal(trusted.set(username="alice", password=PASSWORDS["alice"])) == "alice"
    assert principal(trusted.update_query_dict({"token": TOKENS["alice"]})) == "alice"
    assert principal(trusted.update_query_dict({"token_file": str(place / "token")})) == "bob"


def test_is_turned_away(server: Server, place: Path) -> None:
    trusted = url(server, tls_ca=str(place / "ca"))
    for wrong in (
        trusted,
        trusted.set(username="alice", password=PASSWORDS["alice"][::-1]),
        trusted.update_query_dict({"token": "wrong"}),
    ):
        with pytest.raises(DBAPIError, match="unauthenticated"):
            principal(wrong)
    with pytest.raises(DBAPIError, match="certificate"):
        principal(url(server, tls="true", token=TOKENS["alice"]))
