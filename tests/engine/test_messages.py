"""What a client is told never says where a server keeps its tables, nor where a library was built."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import lance_flight
import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.ingest import create
from lance_flight.engine.writes.table_properties import TableProperties
from lance_flight.errors import LanceFlightError

SOURCES = sorted(Path(lance_flight.__file__).parent.rglob("*.py"))
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(Root(Store(str(tmp_path))), target_partitions=2)
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


def raised_texts(source: Path) -> Iterator[ast.JoinedStr]:
    """The f-strings of messages: within a `raise`, or handed to what raises."""
    # The collector, in the middle of it, lets Python 3.11 miscount its recursion (python/cpython#106905).
    gc.disable()
    try:
        tree = ast.parse(source.read_text())
    finally:
        gc.enable()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            yield from (part for part in ast.walk(node) if isinstance(part, ast.JoinedStr))
        if isinstance(node, ast.With):
            yield from (part for item in node.items for part in ast.walk(item) if isinstance(part, ast.JoinedStr))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_message_is_made_of_a_uri(source: Path) -> None:
    named = [
        ast.unparse(text)
        for text in raised_texts(source)
        for part in ast.walk(text)
        if isinstance(part, ast.Attribute) and part.attr == "uri"
    ]
    assert named == []
