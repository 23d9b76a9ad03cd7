"""Maintenance by executors: the rows stay as they are, in fewer or other files, whatever fails and whoever else writes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.catalog.bulk.pieces import Threads
from lance_flight.catalog.tables.index_coverage import INDICES
from lance_flight.errors import DataError, LanceFlightError, NotFound, SchemaError, Unsupported
from lance_flight_client.spark import maintenance
from lance_flight_client.spark.executors import Executors
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.stock import stored_tables

# Spark's workers know the product, and not its tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

VALUES = ", ".join(f"({n}, 'c{n % 3}', DATE '2025-0{1 + n % 2}-01')" for n in range(24))


@pytest.fixture
def aged(server: Server, table: str) -> str:
    """A table under two specs, in many small files, with deleted rows."""
    server.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, c VARCHAR, day DATE) PARTITIONED BY (c)")
    server.run(f"INSERT INTO {table} VALUES {VALUES}")
    server.run(f"INSERT INTO {table} SELECT id + 100, c, day FROM {table}")
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY (month(day), bucket(2, id))")
    server.run(f"INSERT INTO {table} SELECT id + 1000, c, day FROM {table} WHERE id < 12")
    server.run(f"INSERT INTO {table} VALUES (5000, NULL, NULL)")
    server.run(f"DELETE FROM {table} WHERE id IN (3, 4)")
    return table


def everything(server: Server, table: str) -> list[tuple[Any, ...]]:
    return server.rows(f"SELECT * FROM {table} ORDER BY id")


def version(server: Server, table: str) -> int:
    return int(server.value(f"SELECT max(version) FROM {table}$snapshots"))


def told() -> tuple[list[tuple[int, int]], Any]:
    heard: list[tuple[int, int]] = []
    return heard, lambda done, total: heard.append((done, total))


def test_files_are_compacted_in_one_commit(spark: SparkSession, server: Server, aged: str) -> None:
    before, at = everything(server, aged), version(server, aged)
    heard, progress = told()
    report = maintenance.compact(spark, str(server.root), aged, progress=progress)
    assert report.versions == (at + 1,)
    assert heard[-1] == (report.table_count, report.table_count)
    assert all(len(stored.dataset.get_fragments()) == 1 for stored in stored_tables(server.root / aged))
    assert everything(server, aged) == before
    assert str(report).startswith(f"{len(report.tables)} of {report.table_count} partition tables compacted, ")
    assert maintenance.compact(spark, str(server.root), aged).versions == ()


def test_rows_are_moved_to_the_current_spec(spark: SparkSession, server: Server, aged: str) -> None:
    before = everything(server, aged)
    report = maintenance.rewrite(spark, str(server.root), aged, where="c = 'c1'")
    assert [commit.tables_before for commit in report.commits] == [1]
    assert {s.spec_id for s in stored_tables(server.root / aged)} == {1, 2}
    heard, progress = told()
    maintenance.rewrite(spark, str(server.root), aged, progress=progress)
    assert {s.spec_id for s in stored_tables(server.root / aged)} == {2}
    assert heard[0] == (0, 2)
    assert heard[-1] == (2, 2)
    assert everything(server, aged) == before


def test_what_is_where_is_verified(spark: SparkSession, server: Server, aged: str) -> None:
    at = version(server, aged)
    report = maintenance.verify(spark, str(server.root), aged)
    assert report.is_sound
    assert (report.snapshot, report.checksum.rows) == (at, len(everything(server, aged)))
    maintenance.compact(spark, str(server.root), aged)
    maintenance.rewrite(spark, str(server.root), aged)
    assert maintenance.verify(spark, str(server.root), aged).checksum == report.checksum
    assert maintenance.verify(spark, str(server.root), aged, snapshot=at).checksum == report.checksum
    stored = stored_tables(server.root / aged)[0]
    for path in Path(str(stored.dataset.uri), "data").iterdir():
        path.unlink()
    damaged = maintenance.verify(spark, str(server.root), aged)
    assert [table.object_id for table in damaged.unsound] == [stored.object_id]


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
def fill(spark: SparkSession, server: Server, aged: str) -> Callable[..., Any]:
    return partial(maintenance.backfill, spark, str(server.root), aged, "more")


@pytest.mark.parametrize(("options", "expected"), BACKFILLS)
def test_a_column_is_filled(
    server: Server, aged: str, fill: Callable[..., Any], options: dict[str, Any], expected: str
) -> None:
    before, at = everything(server, aged), version(server, aged)
    assert fill(**options).snapshot == at + 1
    shown = server.rows(f"SELECT id, c, day, more, {expected} AS e FROM {aged} ORDER BY id")
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
    server: Server,
    aged: str,
    fill: Callable[..., Any],
    options: dict[str, Any],
    refusal: tuple[type[LanceFlightError], str],
) -> None:
    at, files = version(server, aged), data_files(server.root / aged)
    error, says = refusal
    with pytest.raises(error, match=says):
        fill(**options)
    assert version(server, aged) == at
    assert data_files(server.root / aged) == files


def data_files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.glob("*/data/*.lance")}


def test_an_index_is_built_for_every_table(spark: SparkSession, server: Server, aged: str) -> None:
    before = everything(server, aged)
    report = maintenance.create_index(spark, str(server.root), aged, "id", min_rows=0)
    assert report.tables == report.table_count
    for stored in stored_tables(server.root / aged):
        assert [index.name for index in stored.dataset.describe_indices()] == ["id_idx"]
    assert everything(server, aged) == before
    assert server.rows(f"SELECT id FROM {aged} WHERE id = 101") == [(101,)]
    with pytest.raises(Unsupported, match="ngram"):
        maintenance.create_index(spark, str(server.root), aged, "day", kind="ngram", min_rows=0)
    assert (
        len(list((server.root / aged).glob(f"*/{INDICES}/*"))) - manifest_indices(server.root / aged) == report.tables
    )


def manifest_indices(place: Path) -> int:
    return len(list((place / "__manifest" / INDICES).iterdir()))


def test_a_plain_table_is_maintained_but_has_no_partitions_to_rewrite(
    spark: SparkSession, server: Server, table: str
) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT)")
    for number in range(3):
        server.run(f"INSERT INTO {table} VALUES ({number})")
    report = maintenance.compact(spark, str(server.root), table)
    assert [(each.files_before, each.files_after) for each in report.tables] == [(3, 1)]
    assert maintenance.verify(spark, str(server.root), table).is_sound
    assert server.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,), (2,)]
    with pytest.raises(Unsupported, match=f"'{table}' is not partitioned"):
        maintenance.rewrite(spark, str(server.root), table)


@dataclass(frozen=True)
class Marked:
    """A piece that leaves a file, and fails as it was told."""

    place: str
    number: int
    fault: str = ""

    def run(self) -> int:
        """Leave a file."""
        context = TaskContext.get()
        if self.fault == "is killed once" and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "raises once" and context.attemptNumber() == 0:
            raise OSError("once")
        if self.fault == "raises":
            raise OSError("always")
        if self.fault == "is refused":
            raise SchemaError("piece", ["is", "refused"])
        Path(self.place, str(self.number)).write_text("")
        return self.number

    def undo(self, result: int) -> None:
        """Take it away."""
        Path(self.place, str(result)).unlink()


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("fault", ["", "is killed once", "raises once"])
def test_every_piece_is_done_whatever_befalls_its_first_task(spark: SparkSession, tmp_path: Path, fault: str) -> None:
    pieces = [Marked(str(tmp_path), n, fault if n == 2 else "") for n in range(4)]
    heard, progress = told()
    assert Executors(spark, "test")(pieces, progress) == [0, 1, 2, 3]
    assert names(tmp_path) == ["0", "1", "2", "3"]
    assert heard[-1] == (4, 4)


@pytest.mark.parametrize("run", ["threads", "executors"])
def test_nothing_is_left_where_a_piece_is_refused(spark: SparkSession, tmp_path: Path, run: str) -> None:
    pieces = [Marked(str(tmp_path), n, "is refused" if n == 2 else "") for n in range(4)]
    runner: Any = Threads(2) if run == "threads" else Executors(spark, "test")
    with pytest.raises(SchemaError, match="piece: is; refused") as raised:
        runner(pieces)
    assert raised.value.problems == ("is", "refused")
    assert names(tmp_path) == []


def test_a_piece_that_always_fails_ends_the_work(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="always"):
        Executors(spark, "test")([Marked(str(tmp_path), 0, "raises")])


def test_pieces_beyond_one_job_come_back_in_their_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_flight_client.spark.executors.PIECES_PER_JOB", 2)
    pieces: Sequence[Marked] = [Marked(str(tmp_path), n) for n in (4, 3, 2, 1, 0)]
    heard, progress = told()
    assert Executors(spark, "test")(pieces, progress) == [4, 3, 2, 1, 0]
    assert heard[-1] == (5, 5)
    assert {(2, 5), (4, 5)} <= set(heard)
