"""Columns and specs that change after tables were attached that never had them, and tables of many files read as one after it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.errors import SchemaError

from tests.engine.database import open_engine
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every change of tables of every type


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Two partitions of three files each."""
    made = open_engine(tmp_path, target_partitions=1)
    made.update("CREATE TABLE t (id BIGINT, p VARCHAR, n INT) PARTITIONED BY (p)")
    for number in range(3):
        made.update(f"INSERT INTO t VALUES ({number}, 'a', 1), ({number + 10}, 'b', 2)")
    return made


def attach(engine: Engine, value: str, **columns: pa.Array) -> None:
    """Attach a table of one row with these columns, and others of its own."""
    table = pa.table({"p": [value], "extra": [0.5], **columns})
    lance.write_dataset(table, f"{engine.root.store.uri}/x.lance")
    engine.update(f"ALTER TABLE t ATTACH TABLE 'x' PARTITION (p = '{value}')")


def rows(engine: Engine, columns: str, where: str = "true") -> list[tuple[object, ...]]:
    found = engine.query(f"SELECT {columns} FROM t WHERE {where} ORDER BY id").to_pydict()
    return list(zip(*found.values(), strict=True))


CHANGES = [
    pytest.param("ADD COLUMN k INT", "id, n, k", (100, 7, None), id="a new column"),
    pytest.param("ADD COLUMN k INT AS (n * 2)", "id, n, k", (100, 7, 14), id="a computed column"),
    pytest.param("RENAME COLUMN n TO m", "id, m", (100, 7), id="a new name"),
    pytest.param("DROP COLUMN n", "id, p", (100, "x"), id="a column less"),
    pytest.param("ALTER COLUMN n TYPE BIGINT", "id, n", (100, 7), id="a wider type"),
]


@pytest.mark.parametrize(("change", "columns", "expected"), CHANGES)
@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.int64(), pa.utf8()], ids=["of the same type", "of a wider one", "of text"]
)
def test_a_table_that_disagrees_changes_with_the_others(
    engine: Engine, change: str, columns: str, expected: tuple[object, ...], kind: pa.DataType
) -> None:
    attach(engine, "x", id=pa.array([100]), n=pa.array(["7"]).cast(kind))
    engine.update(f"ALTER TABLE t {change}")
    assert rows(engine, columns, "p = 'x'") == [expected]
    assert len(rows(engine, columns)) == 7
    assert engine.update("DELETE FROM t WHERE p = 'x'") == 1
    assert len(rows(engine, columns)) == 6


def test_a_column_that_a_table_never_had_is_still_null_after_a_change(engine: Engine) -> None:
    attach(engine, "x", id=pa.array([100]))
    engine.update("ALTER TABLE t RENAME COLUMN n TO m")
    engine.update("ALTER TABLE t ADD COLUMN k INT")
    assert rows(engine, "m, k", "p = 'x'") == [(None, None)]
    assert engine.update("INSERT INTO t VALUES (101, 'x', 8, 9)") == 1, "and has its place from then on"
    assert rows(engine, "m, k", "p = 'x'") == [(None, None), (8, 9)]


def test_no_column_is_called_like_one_that_a_table_brought_along(engine: Engine) -> None:
    attach(engine, "x", id=pa.array([100]))
    with pytest.raises(SchemaError, match="'extra' is there already in a partition table"):
        engine.update("ALTER TABLE t ADD COLUMN extra DOUBLE")
    assert rows(engine, "*", "p = 'x'") == [(100, "x", None)]


def test_tables_of_many_files_are_read_as_one_after_a_change(engine: Engine) -> None:
    for change in ("ADD COLUMN k INT", "DROP COLUMN n", "ADD COLUMN n VARCHAR AS (p)"):
        engine.update(f"ALTER TABLE t {change}")
        assert len(rows(engine, "*")) == 6
    assert rows(engine, "id, k, n") == [(n, None, "a") for n in range(3)] + [(n + 10, None, "b") for n in range(3)]
    assert {table.dataset.count_rows() for table in stored_tables(f"{engine.root.store.uri}/t")} == {3}
    assert max(len(table.dataset.get_fragments()) for table in stored_tables(f"{engine.root.store.uri}/t")) > 1


def test_a_partition_is_detached_in_the_columns_of_today(engine: Engine) -> None:
    engine.update("ALTER TABLE t RENAME COLUMN n TO m")
    engine.update("ALTER TABLE t ADD COLUMN k INT AS (m + 1)")
    assert engine.update("ALTER TABLE t DETACH PARTITION (p = 'a') TO y") == 3
    assert engine.query("SELECT * FROM y ORDER BY id").to_pylist() == [
        {"id": n, "p": "a", "m": 1, "k": 2} for n in range(3)
    ]
    assert engine.update("ALTER TABLE t ATTACH TABLE y PARTITION (p = 'a')") == 3
    assert rows(engine, "m, k", "p = 'a'") == [(1, 2)] * 3
