"""`df.write.format("lance_flight")`: what a write leaves behind, as a server, Spark and stock Lance read it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.model.hashing import murmur3
from lance_flight_client.spark.clustering import cluster_by_partition
from pyspark.sql import DataFrame, SparkSession

from tests.service.server_process import Server
from tests.stock import stored_by_value, stored_rows, stored_tables

Event = tuple[int, str | None, datetime]

COLUMNS = "id BIGINT NOT NULL, country STRING, at TIMESTAMP"
BY = "country, bucket(3, id), year(at)"


def at(year: int) -> datetime:
    return datetime(year, 7, 1, 12, tzinfo=UTC)


FIRST: list[Event] = [(number, ("no", "pt", None)[number % 3], at(2023 + number % 2)) for number in range(12)]
MORE: list[Event] = [(100 + number, ("no", None, "fr")[number % 3], at(2023 + number % 2)) for number in range(6)]


def frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    return spark.createDataFrame(list(events), COLUMNS).repartition(2)


def write(df: DataFrame, root: Path, table: str, mode: str = "append", **options: str) -> None:
    df.write.format("lance_flight").mode(mode).options(root=str(root), table=table, **options).save()


def bucket(number: int) -> int:
    return abs(int(murmur3(pa.array([number], pa.int64()))[0].as_py())) % 3


def partition(event: Event) -> tuple[str | None, int, int]:
    """The partition values of an event, computed without the product's transforms."""
    return event[1], bucket(event[0]), event[2].year


def check(server: Server, table: str, events: Sequence[Event]) -> None:
    """A table holds exactly these events, each in the partition of its values, and a server shows them."""
    by_value = stored_by_value(server.root / table)
    held = {values: sorted(row["id"] for row in found) for values, found in by_value.items() if found}
    expected: dict[tuple[str | None, int, int], list[int]] = {}
    for event in sorted(events):
        expected.setdefault(partition(event), []).append(event[0])
    assert held == expected
    shown = server.rows(f"SELECT id, country, at FROM {table} ORDER BY id")
    assert shown == sorted(events)


def version(server: Server, table: str) -> int:
    return int(server.value(f"SELECT max(version) FROM {table}$snapshots"))


def test_a_table_is_made_and_appended_to(spark: SparkSession, server: Server, table: str) -> None:
    write(frame(spark, FIRST), server.root, table, partition_by=BY)
    check(server, table, FIRST)
    before = version(server, table)
    write(frame(spark, MORE), server.root, table)
    check(server, table, FIRST + MORE)
    assert version(server, table) == before + 1
    said = server.value(f"SELECT operation FROM {table}$snapshots ORDER BY version DESC LIMIT 1")
    assert said == f"append 6 rows into {len({partition(event) for event in MORE})} partitions"
    assert {row["id"] for row in spark_rows(spark, server, table)} == {event[0] for event in FIRST + MORE}


def spark_rows(spark: SparkSession, server: Server, table: str) -> list[dict[str, object]]:
    loaded = spark.read.format("lance_flight").options(root=str(server.root), table=table).load()
    return [row.asDict(recursive=True) for row in loaded.collect()]


@pytest.fixture
def events(server: Server, table: str) -> str:
    """A table of the server's with the first events in it."""
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("country", pa.utf8()), ("at", pa.timestamp("us", "UTC"))]
    )
    columns = [pa.array(column) for column in zip(*FIRST, strict=True)]
    data = pa.Table.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    server.ingest(table, data, partition_by=BY)
    return table


def test_an_overwrite_replaces_its_partitions(spark: SparkSession, server: Server, events: str) -> None:
    before = version(server, events)
    write(frame(spark, MORE), server.root, events, "overwrite")
    check(server, events, [event for event in FIRST if partition(event) not in map(partition, MORE)] + MORE)
    assert version(server, events) == before + 1
    assert server.value(f"SELECT count(*) FROM {events}@{before}") == len(FIRST)


def test_a_plain_table_is_written_in_one_version_and_replaced(
    spark: SparkSession, server: Server, events: str, table: str
) -> None:
    plain = f"{table}_plain"
    server.run(f"CREATE TABLE {plain} AS SELECT id, country, at FROM {events}")
    place = server.root / f"{plain}.lance"
    before = lance.dataset(str(place)).version
    write(frame(spark, MORE), server.root, plain, commit_id="more")
    write(frame(spark, MORE), server.root, plain, commit_id="more")
    read = f"SELECT id, country, at FROM {plain} ORDER BY id"
    assert server.rows(read) == sorted(FIRST + MORE)
    assert server.rows(f"{read}".replace(plain, f"{plain}@{before + 1}")) == sorted(FIRST + MORE)
    write(frame(spark, MORE), server.root, plain, "overwrite")
    stored = lance.dataset(str(place)).to_table(columns=["id"])["id"].to_pylist()
    assert sorted(stored) == [event[0] for event in MORE]
    known = spark.read.format("lance_flight").options(root=str(server.root), table=plain, filter="id > 103").load()
    assert sorted(row["id"] for row in known.collect()) == [104, 105]


def test_columns_are_found_by_name_and_an_overwrite_may_have_no_rows(
    spark: SparkSession, server: Server, events: str
) -> None:
    write(frame(spark, MORE).selectExpr("at AS AT", "id AS Id"), server.root, events)
    check(server, events, FIRST + [(number, None, moment) for number, _, moment in MORE])
    write(frame(spark, []), server.root, events, "overwrite")
    assert server.value(f"SELECT count(*) FROM {events}") == len(FIRST + MORE)
    write(frame(spark, []), server.root, events, "overwrite", overwrite="table")
    check(server, events, [])


def test_values_of_every_kind_come_back(spark: SparkSession, server: Server, table: str) -> None:
    df = spark.sql(
        "SELECT id, CAST(1.25 AS DECIMAL(10, 2)) AS d, DATE'2024-02-29' AS day, TIMESTAMP_NTZ'2024-07-01 12:00:00' AS local,"
        " TIMESTAMP'2024-07-01 12:00:00' AS moment, X'00ff' AS raw, ARRAY(1, NULL) AS list, MAP('k', id) AS map,"
        " NAMED_STRUCT('a', id, 'b', 'é') AS pair, id % 2 = 0 AS even FROM range(3)"
    )
    write(df, server.root, table, partition_by="day(day), bucket(2, id)")
    found = sorted(spark_rows(spark, server, table), key=lambda row: row["id"])
    assert found == [row.asDict(recursive=True) for row in df.orderBy("id").collect()]
    stored = stored_rows(server.root / table).slice(0, 1).to_pylist()[0]
    # Noon in New York, where the session is.
    assert stored["moment"] == datetime(2024, 7, 1, 16, tzinfo=UTC)
    assert stored["local"] == datetime(2024, 7, 1, 12)
    assert (stored["d"], stored["day"], stored["raw"]) == (Decimal("1.25"), date(2024, 2, 29), b"\x00\xff")


NESTED: list[tuple[Any, ...]] = [
    (1, (1, (datetime(2024, 7, 1, tzinfo=UTC),))),
    (2, (1, (datetime(2025, 7, 1, tzinfo=UTC),))),
    (3, (2, None)),
    (4, None),
]


def test_a_table_is_made_clustered_and_read_by_fields_inside_structs(
    spark: SparkSession, server: Server, table: str
) -> None:
    rows = spark.createDataFrame(NESTED, "id BIGINT, s STRUCT<a: BIGINT, `in`: STRUCT<at: TIMESTAMP>>")
    write(rows, server.root, table, partition_by='s.a, year(s."in".at)')
    again = cluster_by_partition(rows.selectExpr("id + 10 AS id", "s"), str(server.root), table)
    write(again, server.root, table)
    found = {
        tuple(stored.values.values()): sorted(stored.dataset.to_table()["id"].to_pylist())
        for stored in stored_tables(server.root / table)
    }
    assert found == {(1, 2024): [1, 11], (1, 2025): [2, 12], (2, None): [3, 13], (None, None): [4, 14]}
    for place in ({"root": str(server.root)}, {"uri": server.uri}):
        loaded = spark.read.format("lance_flight").options(table=table, **place, filter="s.a IS NULL OR s.a = 1").load()
        assert sorted(row.id for row in loaded.collect()) == [1, 2, 4, 11, 12, 14]
