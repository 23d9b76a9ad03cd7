"""Sessions that read only: no statement changes anything that lasts, and nothing gives them their rights back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import UNLIMITED
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.statements.sessions import assign
from lance_flight.errors import InvalidInput, LanceFlightError, Refused

from tests.engine.database import filled
from tests.engine.statement_needs import NEEDS

TABLES = (
    "CREATE TABLE t (x BIGINT, s VARCHAR) PARTITIONED BY (bucket(2, x))",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "ALTER TABLE t CREATE TAG old",
    "ALTER TABLE t CREATE BRANCH b",
    "CREATE TABLE u (x BIGINT)",
    "INSERT INTO u VALUES (1)",
    "CREATE SCHEMA s",
    "CREATE TABLE s.t (x BIGINT)",
    "CREATE VIEW v AS SELECT x FROM t",
)
PRIVATE = ("leases", "expiring")
"""Directories of what running processes say of themselves; the one around them is made for the first lease."""


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("reading"), *TABLES)


def stored(root: Path) -> dict[str, bytes]:
    files = (file for file in root.rglob("*") if file.is_file() and not set(PRIVATE) & set(file.parts))
    return {str(file): file.read_bytes() for file in files} | {
        str(place): b""
        for place in root.rglob("*")
        if place.is_dir() and place.name != ".lance-flight" and not set(PRIVATE) & set(place.parts)
    }


def reading() -> Scope:
    return Scope(access=UNLIMITED.for_reading())


def test_no_statement_changes_what_lasts(engine: Engine, tmp_path: Path) -> None:
    before, ran = stored(tmp_path), []
    for statement in NEEDS:
        try:
            engine.execute(statement, scope=reading())
            ran.append(statement)
        except LanceFlightError:
            continue
    changed = {name for name, content in stored(tmp_path).items() if before.get(name) != content}
    assert changed | (before.keys() - stored(tmp_path).keys()) == set()
    assert len(ran) > 20


CHANGES = [
    "INSERT INTO t VALUES (3, 'c')",
    "UPDATE t SET s = 'z'",
    "DELETE FROM t",
    "TRUNCATE TABLE t",
    "DROP TABLE u",
    "DROP VIEW v",
    "CREATE SCHEMA another",
    "DROP SCHEMA s",
    "CREATE TABLE w (x BIGINT)",
    "CREATE VIEW w AS SELECT 1 AS x",
    "ALTER TABLE t ADD COLUMN y BIGINT",
    "ALTER TABLE t CREATE TAG new",
    "ALTER TABLE t DROP BRANCH b",
    "ALTER TABLE t COMPACT",
    "VACUUM t RETAIN 0 HOURS FORCE",
]


@pytest.mark.parametrize("statement", CHANGES)
def test_a_change_is_refused_by_name(engine: Engine, statement: str) -> None:
    with pytest.raises(Refused, match=r"the session reads only \(SET access = 'read'\)"):
        engine.execute(statement, scope=reading())


def test_an_ingest_is_refused(engine: Engine) -> None:
    rows = pa.table({"x": [3], "s": ["c"]}).to_reader()
    with pytest.raises(Refused, match="the session reads only"):
        engine.ingest(TableName("public", "t"), rows, create_missing=False, existing=IfExists.APPEND, scope=reading())
    assert engine.query("SELECT count(*) FROM t").column(0).to_pylist() == [2]


def test_a_session_keeps_it() -> None:
    session = Session()
    assign(session, "access", "read")
    for value in ("write", None):
        with pytest.raises(InvalidInput, match="begin another one to write"):
            assign(session, "access", value)
    with pytest.raises(InvalidInput, match="access is 'all'; expected 'read' or 'write'"):
        assign(Session(), "access", "all")
    assert session.reads_only
