"""What must hold of a table whatever stopped a write to it: its rows, its history, and that it can be written again."""

from __future__ import annotations

from pathlib import Path

from tests.faults.writes import SCHEMA, START, Asked, Row, Rows, Write, table_of
from tests.stock import manifest, stored_rows, stored_tables

NAMES = list(SCHEMA.names)


def in_order(rows: Rows) -> Rows:
    """Rows by their ids; rows that are there twice stay so."""
    return sorted(rows, key=lambda row: row[0])


def read(asked: Asked, table: str) -> Rows:
    """All rows, as a client reads them."""
    return in_order(asked.rows(f"SELECT id, p, n FROM {table}"))


def stored(place: Path) -> Rows:
    """All rows, as stock Lance reads the pinned version of each partition table."""
    if not stored_tables(place):
        return []
    found = stored_rows(place).select(NAMES)
    rows: list[Row] = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    return in_order(rows)


def check(
    asked: Asked, write: Write, table: str, expected: Rows | None, version: int | None = None, *, is_done: bool
) -> None:
    """The table holds exactly `expected` (None: it is not there), seen from every side, and the next writers write on."""
    if write.layouts is not None:
        assert layout_of(asked, table) == write.layouts[is_done]
    if expected is None:
        assert "not_found" in asked.refuses(f"SELECT id FROM {table}")
        assert table not in {name for _, name, *_ in asked.rows("SHOW TABLES")}
        asked.ingest(table, table_of([(1, "a", 1)]), partition_by=write.partition_by)
        assert read(asked, table) == [(1, "a", 1)]
        return
    expected = in_order(expected)
    assert read(asked, table) == expected
    if write.partition_by is not None:
        _check_partitions(asked, table, expected)
    if version is not None and write.visible_at == "committed" and not write.forgets:
        assert in_order(asked.rows(f"SELECT id, p, n FROM {table}@{version}")) == START
    _check_next_writers(asked, table, expected)


def _check_partitions(asked: Asked, table: str, expected: Rows) -> None:
    place = asked.root / table
    assert stored(place) == expected
    values = [tuple(found.values.values()) for found in stored_tables(place)]
    assert len(values) == len(set(values)), "one table for each partition value"
    rows = asked.rows(f"SELECT p, rows FROM {table}$partitions")
    assert sum(count for _, count in rows) == len(expected)
    assert len(rows) == len(values)
    snapshots = [version for (version,) in asked.rows(f"SELECT version FROM {table}$snapshots ORDER BY version")]
    assert snapshots[-1] == manifest(place).version
    assert asked.rows(f"SELECT spec_id, field_id FROM {table}$specs WHERE spec_id = 1") == [(1, "p")]
    assert len(asked.rows(f"SELECT * FROM {table}$files")) >= len({p for _, p, _ in expected})


def _check_next_writers(asked: Asked, table: str, expected: Rows) -> None:
    """Rows into every partition that the write was about, and a change of all rows."""
    more: Rows = [(900 + at, p, 3) for at, p in enumerate(["a", "b", None, "x", "y", "z", "never before"])]
    assert asked.ingest(table, table_of(more), "append") == len(more)
    assert asked.run(f"UPDATE {table} SET n = n + 1000") == len(expected) + len(more)
    then = in_order([(i, p, n + 1000) for i, p, n in [*expected, *more]])
    assert read(asked, table) == then
    if version_of(asked, table) is not None:
        assert stored(asked.root / table) == then


def version_of(asked: Asked, table: str) -> int | None:
    """The version of a partitioned table; None for a plain one and for none."""
    place = asked.root / table
    return int(manifest(place).version) if (place / "__manifest").exists() else None


def layout_of(asked: Asked, table: str) -> str:
    """The columns of a table and the fields of its newest spec, as text."""
    columns = ", ".join(f"{field.name} {field.type}" for field in asked.query(f"SELECT * FROM {table} LIMIT 0").schema)
    newest = f"spec_id = (SELECT max(spec_id) FROM {table}$specs)"
    fields = asked.rows(f"SELECT field_id FROM {table}$specs WHERE {newest} ORDER BY position")
    return f"{columns} by {', '.join(field for (field,) in fields)}"
