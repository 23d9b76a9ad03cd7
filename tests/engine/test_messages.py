"""What a client is told: never where a server keeps its tables, nor where a library was built; of planning, what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.ingest import TableProperties, create
from lance_flight.errors import LanceFlightError

from tests.engine.database import open_engine

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = open_engine(tmp_path)
    for name, layout in (("plain", ""), ("parts", "id")):
        by = TableProperties.by(layout)
        create(engine.root, TableName("public", name), ROWS.schema, by, [ROWS])
    return engine


def spoil(*patterns: str) -> Callable[[Path], None]:
    def overwrite(root: Path) -> None:
        for file in [file for pattern in patterns for file in root.glob(pattern)]:
            file.write_bytes(b"no such thing" * 20)

    return overwrite


def remove(*patterns: str) -> Callable[[Path], None]:
    def unlink(root: Path) -> None:
        for file in [file for pattern in patterns for file in root.glob(pattern)]:
            file.unlink()

    return unlink


DAMAGE = {
    "versions": spoil("plain.lance/_versions/*", "parts/*/_versions/*"),
    "an old version": spoil(
        "*/_versions/18446744073709551614.manifest", "parts/*/_versions/18446744073709551614.manifest"
    ),
    "data of garbage": spoil("plain.lance/data/*", "parts/*dataset/data/*"),
    "no data": remove("plain.lance/data/*", "parts/*dataset/data/*"),
    "no versions": remove("plain.lance/_versions/*", "parts/*dataset/_versions/*"),
}
STATEMENTS = [
    "SELECT id FROM {t}",
    "SELECT sum(id) FROM {t} GROUP BY id",
    "SELECT id FROM {t}@1",
    'SELECT id FROM "{t}@nope"',
    'SELECT id FROM "{t}@2020-01-01"',
    "SELECT * FROM {t}$partitions",
    "SELECT * FROM {t}$snapshots",
    "SELECT * FROM {t}$files",
    "DESCRIBE {t}",
    "INSERT INTO {t} VALUES (4)",
    "CREATE TABLE {t} (id INT)",
]


@pytest.mark.parametrize("table", ["plain", "parts"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_no_message_has_a_path_of_the_server(tmp_path: Path, engine: Engine, damage: str, table: str) -> None:
    DAMAGE[damage](tmp_path)
    messages = []
    for statement in STATEMENTS:
        sql = statement.format(t=table)
        try:
            engine.query(sql) if sql[0] in "SD" else engine.update(sql)
        except LanceFlightError as exc:
            messages.append(f"{sql}: {exc}")
    assert messages
    hidden = (str(tmp_path).lstrip("/"), ".rs:")
    assert [message for message in messages if any(part in message for part in hidden)] == []


UNPLANNED = {
    "an expression that is missing": ("SELECT * FROM plain WHERE id =", "Expected: an expression, found: EOF"),
    "a text in the place of an operator": (
        "SELECT * FROM plain WHERE id = 1 'it''s'",
        "Expected: end of statement, found: 'it's' at line 1, column 34",
    ),
    "a rule of the optimiser": ("SELECT * FROM plain LIMIT -1", "LIMIT must be >= 0, '-1' was provided"),
    "several statements": ("SELECT 1; SELECT 2", "the text has several statements, which ; divides; expected one"),
    "a key over a subquery": (
        "SELECT id FROM parts ORDER BY (SELECT max(id) FROM parts) > id",
        "DataFusion cannot sort or divide rows",
    ),
    "a window over a subquery": (
        "SELECT sum(id) OVER (PARTITION BY (SELECT max(id) FROM parts) > id) FROM parts",
        "DataFusion cannot sort or divide rows",
    ),
    "a key of two functions": ("SELECT id FROM parts ORDER BY -murmur3(id)", "DataFusion cannot sort by a function"),
    "a subquery for each row": (
        "SELECT p.id, n.id FROM parts p CROSS JOIN LATERAL (SELECT id FROM plain ORDER BY abs(id - p.id) LIMIT 1) n",
        "DataFusion cannot plan a subquery that names a column of the query around it there",
    ),
    "a search as a value": (
        "SELECT full_text_search('plain', 'word', 'x')",
        "full_text_search gives rows of a table, not a value; expected it behind FROM or JOIN",
    ),
}


@pytest.mark.parametrize(("statement", "says"), UNPLANNED.values(), ids=UNPLANNED)
def test_what_cannot_be_planned_is_said_without_the_layers_of_datafusion(
    engine: Engine, statement: str, says: str
) -> None:
    engine.update("ALTER TABLE plain ADD COLUMN word VARCHAR")
    with pytest.raises(LanceFlightError) as raised:
        engine.query(statement)
    assert str(raised.value).startswith(says)


def test_keys_that_datafusion_cannot_sort_by_are_sorted_by_as_the_error_says(engine: Engine) -> None:
    below = "SELECT id FROM (SELECT *, (SELECT max(id) FROM parts) > id AS key FROM parts) ORDER BY key, id"
    assert engine.query(below).num_rows > 0
    keys = engine.query("SELECT id, -murmur3(id) AS key FROM parts").to_pylist()
    found = engine.query("SELECT id FROM (SELECT *, -murmur3(id) AS key FROM parts) ORDER BY key")
    assert found["id"].to_pylist() == [row["id"] for row in sorted(keys, key=lambda row: row["key"])]
