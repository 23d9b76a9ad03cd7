"""Rows into tables whose columns have changed: in files as few as those of a new table, that read back as they were."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.commits import writer
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine

from tests.stock import stored_tables

NAME = TableName("public", "t")
CHANGES = [
    pytest.param("SELECT 1", id="none"),
    pytest.param("ALTER TABLE t ADD COLUMN extra DOUBLE", id="added"),
    pytest.param("ALTER TABLE t ADD COLUMN extra DOUBLE AS (id / 2)", id="computed"),
    pytest.param("ALTER TABLE t RENAME COLUMN s.x TO y", id="renamed inside"),
    pytest.param("ALTER TABLE t DROP COLUMN n", id="dropped"),
    pytest.param("ALTER TABLE t ALTER COLUMN n TYPE BIGINT", id="widened"),
    pytest.param("ALTER TABLE t ALTER COLUMN n DROP NOT NULL", id="nullable"),
    pytest.param("ALTER TABLE t ALTER COLUMN id SET NOT NULL", id="not null"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_many_batches_become_one_file_in_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    engine = Engine(Root(Store(str(tmp_path))), target_partitions=2)
    engine.update("CREATE TABLE t (id BIGINT, p VARCHAR, n INT NOT NULL, s STRUCT<x INT>) PARTITIONED BY (p)")
    engine.update("INSERT INTO t VALUES (1, 'a', 1, named_struct('x', 1)), (2, 'b', 2, NULL)")
    if change.startswith("ALTER"):
        engine.update(change)
    before = engine.query("SELECT * FROM t")
    files = {t.object_id: len(t.dataset.get_fragments()) for t in stored_tables(tmp_path / "t")}
    monkeypatch.setattr(writer, "CHUNK_ROWS", before.num_rows)
    reader = pa.RecordBatchReader.from_batches(before.schema, before.to_batches() * 5)
    assert engine.ingest(NAME, reader, create_missing=False, existing=IfExists.APPEND) == 5 * before.num_rows
    after = {t.object_id: len(t.dataset.get_fragments()) for t in stored_tables(tmp_path / "t")}
    assert after == {object_id: count + 1 for object_id, count in files.items()}
    expected = sorted(map(str, before.to_pylist() * 6))
    assert sorted(map(str, engine.query("SELECT * FROM t").to_pylist())) == expected


def test_a_struct_stays_null_where_its_fields_are_not(tmp_path: Path) -> None:
    engine = Engine(Root(Store(str(tmp_path))), target_partitions=2)
    engine.update("CREATE TABLE t (id BIGINT, s STRUCT<x INT, y STRUCT<u INT, v VARCHAR>>) PARTITIONED BY (id)")
    engine.update("INSERT INTO t VALUES (1, NULL), (2, named_struct('x', 2, 'y', named_struct('u', 1, 'v', 'w')))")
    before = engine.query("SELECT * FROM t ORDER BY id").to_pylist()
    engine.update("ALTER TABLE t ALTER COLUMN s.x SET NOT NULL")
    assert engine.query("SELECT * FROM t ORDER BY id").to_pylist() == before
    engine.update("INSERT INTO t SELECT id + 2, s FROM t")
    assert engine.query("SELECT s FROM t WHERE id > 2 ORDER BY id").to_pylist() == [{"s": row["s"]} for row in before]
