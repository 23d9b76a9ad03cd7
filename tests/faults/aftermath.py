"""What must hold of a table whatever stopped a write to it: its rows, its history, and that it can be written again."""

from __future__ import annotations

from pathlib import Path

from tests.faults.writes import SCHEMA, START, Row, Rows, Write, table_of
from tests.service.server_process import Server
from tests.stock import manifest, stored_rows, stored_tables

NAMES = list(SCHEMA.names)


def in_order(rows: Rows) -> Rows:
    """Rows by their ids; rows that are there twice stay so."""
    return sorted(rows, key=lambda row: row[0])


def read(server: Server, table: str) -> Rows:
    """All rows, as a client reads them."""
    return in_order(server.rows(f"SELECT id, p, n FROM {table}"))


def stored(place: Path) -> Rows:
    """All rows, as stock Lance reads the pinned version of each partition table."""
    if not stored_tables(place):
        return []
    found = stored_rows(place).select(NAMES)
    rows: list[Row] = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    return in_order(rows)


def check(server: Server, write: Write, table: str, expected: Rows | None, version: int | None = None) -> None:
    """The table holds exactly `expected` (None: it is not there), seen from every side, and the next writers write on."""
    if expected is None:
        assert "not_found" in server.refuses(f"SELECT id FROM {table}")
        assert (table,) not in server.rows("SHOW TABLES")
        server.ingest(table, table_of([(1, "a", 1)]), partition_by=write.partition_by)
        assert read(server, table) == [(1, "a", 1)]
        return
    expected = in_order(expected)
    assert read(server, table) == expected
    if write.partition_by is not None:
        _check_partitions(server, table, expected)
    if version is not None and write.visible_at == "committed" and not write.forgets:
        assert in_order(server.rows(f"SELECT id, p, n FROM {table}@{version}")) == START
    _check_next_writers(server, table, expected)


def _check_partitions(server: Server, table: str, expected: Rows) -> None:
    place = server.root / table
    assert stored(place) == expected
    values = [tuple(found.values.values()) for found in stored_tables(place)]
    assert len(values) == len(set(values)), "one table for each partition value"
    rows = server.rows(f"SELECT p, rows FROM {table}$partitions")
    assert sum(count for _, count in rows) == len(expected)
    assert len(rows) == len(values)
    snapshots = [version for (version,) in server.rows(f"SELECT version FROM {table}$snapshots ORDER BY version")]
    assert snapshots[-1] == manifest(place).version
    assert server.rows(f"SELECT spec_id, field_id FROM {table}$specs WHERE spec_id = 1") == [(1, "p")]
    assert len(server.rows(f"SELECT * FROM {table}$files")) >= len({p for _, p, _ in expected})


def _check_next_writers(server: Server, table: str, expected: Rows) -> None:
    """Rows into every partition that the write was about, and a change of all rows."""
    more: Rows = [(900 + at, p, 3) for at, p in enumerate(["a", "b", None, "x", "y", "z", "never before"])]
    assert server.ingest(table, table_of(more), "append") == len(more)
    assert server.run(f"UPDATE {table} SET n = n + 1000") == len(expected) + len(more)
    then = in_order([(i, p, n + 1000) for i, p, n in [*expected, *more]])
    assert read(server, table) == then
    if manifest_of(server, table):
        assert stored(server.root / table) == then


def manifest_of(server: Server, table: str) -> bool:
    """Whether a table is partitioned."""
    return (server.root / table / "__manifest").exists()
