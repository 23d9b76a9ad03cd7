"""How much of a root `information_schema` reads, and what it says of tables that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.engine.engine import Engine


@pytest.fixture(autouse=True)
def tables(engine: Engine) -> None:
    for name in ("a1", "a2", "b1"):
        engine.update(f"CREATE TABLE {name} (x BIGINT)")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables that are read."""
    found: list[str] = []
    read = Root.read

    def noting(root: Root, name: TableName, work: Callable[[Table], Any]) -> Any:
        found.append(name.name)
        return read(root, name, work)

    monkeypatch.setattr(Root, "read", noting)
    return found


READ = {
    "all columns": ("SELECT table_name FROM information_schema.columns", ["a1", "a2", "b1"]),
    "one table": ("SELECT column_name FROM information_schema.columns WHERE table_name = 'a2'", ["a2"]),
    "a table of no schema": ("SELECT 1 FROM information_schema.columns WHERE table_schema = 'other'", []),
    "names beside another condition": (
        "SELECT 1 FROM information_schema.columns WHERE table_name IN ('a1', 'b1') AND column_name = 'x'",
        ["a1", "b1"],
    ),
    "keys": ("SELECT 1 FROM information_schema.key_column_usage WHERE table_name > 'a2'", ["b1"]),
    "names of tables": ("SELECT table_name, table_type FROM information_schema.tables", []),
    "the first rows": ("SELECT table_name FROM information_schema.tables LIMIT 1", []),
}


@pytest.mark.parametrize(("sql", "expected"), READ.values(), ids=READ)
def test_tables_are_read_that_the_condition_leaves(
    engine: Engine, opened: list[str], sql: str, expected: list[str]
) -> None:
    engine.query(sql)
    assert opened == expected


def test_a_table_that_cannot_be_read_is_listed_without_columns(engine: Engine) -> None:
    for each in Path(engine.root.store.uri, "a2.lance", "_versions").iterdir():
        each.write_bytes(b"broken")
    listed = engine.query("SELECT table_name FROM information_schema.tables ORDER BY 1").to_pydict()
    described = engine.query("SELECT table_name FROM information_schema.columns ORDER BY 1").to_pydict()
    assert listed == {"table_name": ["a1", "a2", "b1"]}
    assert described == {"table_name": ["a1", "b1"]}


def test_functions_return_types_of_sql(engine: Engine) -> None:
    found = engine.query("SELECT DISTINCT data_type FROM information_schema.routines").column(0).to_pylist()
    assert {"BIGINT", "VARCHAR", "DOUBLE", "BIGINT[]", "BOOLEAN"} <= set(found)
    assert [kind for kind in found if kind is not None and kind != kind.upper()] == []
