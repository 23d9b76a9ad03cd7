"""Partitions dropped, attached and detached in an object store, where files are copied instead of linked or renamed."""

from __future__ import annotations

import lance
import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.engine import Engine

from tests.object_store.bucket import Bucket


@pytest.fixture
def engine(bucket: Bucket) -> Engine:
    """A table of two partitions, and a plain one with a tag and two versions."""
    made = Engine(Root(bucket.store), target_partitions=1)
    made.update("CREATE TABLE t (p VARCHAR, n INT) PARTITIONED BY (p)")
    made.update("INSERT INTO t VALUES ('a', 1), ('b', 2)")
    made.update("CREATE TABLE x AS SELECT * FROM (VALUES ('x', 3)) AS v(p, n)")
    made.update("INSERT INTO x VALUES ('x', 4)")
    made.update("ALTER TABLE x CREATE TAG old AS OF 1")
    return made


def rows(engine: Engine, table: str) -> list[tuple[str, int]]:
    found = engine.query(f"SELECT p, n FROM {table} ORDER BY n").to_pylist()
    return [(row["p"], row["n"]) for row in found]


def test_a_table_is_attached_detached_and_dropped(engine: Engine) -> None:
    assert engine.update("ALTER TABLE t ATTACH TABLE 'x' PARTITION (p = 'x')") == 2
    assert rows(engine, "t") == [("a", 1), ("b", 2), ("x", 3), ("x", 4)]
    assert [name.name for name in engine.root.tables()] == ["t"]
    store = engine.root.store
    (place,) = [store.child("t", row) for row in _places(engine, "x")]
    assert lance.dataset(place.uri, storage_options=place.options).tags.list() == {}
    engine.update("INSERT INTO t VALUES ('x', 5)")
    assert engine.update("ALTER TABLE t DETACH PARTITION (p = 'x') TO y") == 3
    assert rows(engine, "y") == [("x", 3), ("x", 4), ("x", 5)]
    assert engine.update("ALTER TABLE t DROP PARTITION (p = 'a')") == 1
    assert rows(engine, "t") == [("b", 2)]


def _places(engine: Engine, value: str) -> list[str]:
    found: list[str] = engine.query(f"SELECT location FROM t$partitions WHERE p = '{value}'")["location"].to_pylist()
    return found
