"""Maintenance as executors do it, here in threads: the rows stay as they are, in fewer or other files. No JVM runs here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.errors import DataError, LanceFlightError, NotFound, SchemaError, Unsupported
from lance_flight_client.spark import maintenance

from tests.engine.database import Database

pytestmark = pytest.mark.usefixtures("in_threads")

NONE: Any = None
"""No session."""
VALUES = ", ".join(f"({n}, 'c{n % 3}', DATE '2025-0{1 + n % 2}-01')" for n in range(24))


@pytest.fixture
def aged(database: Database, table: str) -> str:
    """A table under two specs, in many small files, with deleted rows."""
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, c VARCHAR, day DATE) PARTITIONED BY (c)")
    database.run(f"INSERT INTO {table} VALUES {VALUES}")
    database.run(f"INSERT INTO {table} SELECT id + 100, c, day FROM {table}")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY (month(day), bucket(2, id))")
    database.run(f"INSERT INTO {table} SELECT id + 1000, c, day FROM {table} WHERE id < 12")
    database.run(f"INSERT INTO {table} VALUES (5000, NULL, NULL)")
    database.run(f"DELETE FROM {table} WHERE id IN (3, 4)")
    return table


def everything(database: Database, table: str) -> list[tuple[Any, ...]]:
    return database.rows(f"SELECT * FROM {table} ORDER BY id")


def version(database: Database, table: str) -> int:
    return int(database.value(f"SELECT max(version) FROM {table}$snapshots"))


def doubled(batch: pa.RecordBatch) -> pa.Array:
    return pc.multiply(batch["id"], 2)


BACKFILLS = [
    pytest.param({"values": "id % 7 + 1"}, "id % 7 + 1", id="an expression"),
    pytest.param(
        {"values": "upper(c) || '!'", "data_type": "VARCHAR"}, "upper(c) || '!'", id="an expression with a type"
    ),
    pytest.param({"values": doubled, "data_type": "BIGINT"}, "id * 2", id="a function"),
    pytest.param({"values": lambda b: b["c"], "data_type": "VARCHAR", "columns": ["c"]}, "c", id="a lambda"),
    pytest.param({"values": lambda b: [1] * b.num_rows, "data_type": "INT"}, "1", id="a function that returns a list"),
]


@pytest.fixture
def fill(database: Database, aged: str) -> Callable[..., Any]:
    return partial(maintenance.backfill, NONE, str(database.root), aged, "more")


@pytest.mark.parametrize(("options", "expected"), BACKFILLS)
def test_a_column_is_filled(
    database: Database, aged: str, fill: Callable[..., Any], options: dict[str, Any], expected: str
) -> None:
    before, at = everything(database, aged), version(database, aged)
    assert fill(**options).snapshot == at + 1
    shown = database.rows(f"SELECT id, c, day, more, {expected} AS e FROM {aged} ORDER BY id")
    assert [row[:3] for row in shown] == before
    assert all(row[3] == row[4] for row in shown)


REFUSED = [
    pytest.param({"values": "id / 0"}, (LanceFlightError, "zero"), id="a division by zero"),
    pytest.param({"values": "nope + 1"}, (LanceFlightError, "nope"), id="an unknown column"),
    pytest.param({"values": "now()"}, (SchemaError, "now"), id="another value each time"),
    pytest.param(
        {"values": lambda b: b["id"][:1], "data_type": "BIGINT"}, (DataError, "returned 1 values for"), id="too few"
    ),
    pytest.param(
        {"values": lambda b: ["x"] * b.num_rows, "data_type": "INT"}, (DataError, "no int32"), id="another type"
    ),
    pytest.param({"values": lambda b: b["id"]}, (LanceFlightError, "expected its type"), id="no type"),
    pytest.param({"values": doubled, "data_type": "INT", "columns": ["ID2"]}, (NotFound, "'ID2'"), id="no such column"),
]


@pytest.mark.parametrize(("options", "refusal"), REFUSED)
def test_a_column_that_cannot_be_filled_is_refused_and_nothing_is_left(
    database: Database,
    aged: str,
    fill: Callable[..., Any],
    options: dict[str, Any],
    refusal: tuple[type[LanceFlightError], str],
) -> None:
    at, files = version(database, aged), data_files(database.root / aged)
    error, says = refusal
    with pytest.raises(error, match=says):
        fill(**options)
    assert version(database, aged) == at
    assert data_files(database.root / aged) == files


def data_files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.glob("*/data/*.lance")}


def test_a_plain_table_is_maintained_but_has_no_partitions_to_rewrite(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT)")
    for number in range(3):
        database.run(f"INSERT INTO {table} VALUES ({number})")
    report = maintenance.compact(NONE, str(database.root), table)
    assert [(each.files_before, each.files_after) for each in report.tables] == [(3, 1)]
    assert maintenance.verify(NONE, str(database.root), table).is_sound
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,), (2,)]
    with pytest.raises(Unsupported, match=f"'{table}' is not partitioned"):
        maintenance.rewrite(NONE, str(database.root), table)
