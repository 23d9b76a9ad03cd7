"""Principals with static tokens, for tests of a server that asks who calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.flight.passwords import hash_of

BEARER = "adbc.flight.sql.authorization_header"
COOKIES = "adbc.flight.sql.rpc.with_cookie_middleware"


def token_of(name: str) -> str:
    """The token of a principal."""
    return f"the token of {name}"


def tokens_file(path: Path, names: Iterable[str]) -> str:
    """Write a file with the token of each principal; its path."""
    path.write_text("".join(f'[tokens.{name}]\nsha256 = "{hash_of(token_of(name))}"\n' for name in names))
    path.chmod(0o600)
    return str(path)


def connect(uri: str, name: str) -> dbapi.Connection:
    """A connection of a principal, which keeps its session."""
    return dbapi.connect(uri, db_kwargs={BEARER: f"Bearer {token_of(name)}", COOKIES: "true"}, autocommit=True)


def rows(uri: str, name: str, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """All rows that a principal gets."""
    with connect(uri, name) as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def refusal(uri: str, name: str, sql: str, parameters: Any = None) -> str:
    """What a principal is told of a statement that fails."""
    with pytest.raises(Error) as raised:
        rows(uri, name, sql, parameters)
    return str(raised.value)
