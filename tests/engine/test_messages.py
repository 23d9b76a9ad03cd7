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


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("messages")
    engine = open_engine(place)
    for name, layout in (("plain", ""), ("parts", "id")):
        by = TableProperties.by(layout)
        create(engine.root, TableName("public", name), ROWS.schema, by, [ROWS])
    return place


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


def test_keys_that_datafusion_cannot_sort_by_are_sorted_by_as_the_error_says(engine: Engine) -> None:
    below = "SELECT id FROM (SELECT *, (SELECT max(id) FROM parts) > id AS key FROM parts) ORDER BY key, id"
    assert engine.query(below).num_rows > 0
    keys = engine.query("SELECT id, -murmur3(id) AS key FROM parts").to_pylist()
    found = engine.query("SELECT id FROM (SELECT *, -murmur3(id) AS key FROM parts) ORDER BY key")
    assert found["id"].to_pylist() == [row["id"] for row in sorted(keys, key=lambda row: row["key"])]
