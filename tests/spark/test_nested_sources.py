"""Partition fields over fields inside structs, as Spark writes and reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from lance_flight_client.spark.clustering import cluster_by_partition
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.stock import stored_tables

COLUMNS = "id BIGINT, s STRUCT<a: BIGINT, `in`: STRUCT<at: TIMESTAMP>>"
ROWS: list[tuple[Any, ...]] = [
    (1, (1, (datetime(2024, 7, 1, tzinfo=UTC),))),
    (2, (1, (datetime(2025, 7, 1, tzinfo=UTC),))),
    (3, (2, None)),
    (4, None),
]


@pytest.mark.parametrize("way", ["root", "uri"])
def test_a_table_is_made_clustered_and_read_by_fields_inside_structs(
    server: Server, spark: SparkSession, table: str, way: str
) -> None:
    options = {"root": str(server.root), "table": table, "partition_by": "s.a, year(s.`in`.at)".replace("`", '"')}
    frame = spark.createDataFrame(ROWS, COLUMNS)
    frame.write.format("lance_flight").mode("append").options(**options).save()
    again = cluster_by_partition(frame.selectExpr("id + 10 AS id", "s"), str(server.root), table)
    again.write.format("lance_flight").mode("append").options(root=str(server.root), table=table).save()
    found = {
        tuple(stored.values.values()): sorted(stored.dataset.to_table()["id"].to_pylist())
        for stored in stored_tables(server.root / table)
    }
    assert found == {(1, 2024): [1, 11], (1, 2025): [2, 12], (2, None): [3, 13], (None, None): [4, 14]}
    place = {"root": str(server.root)} if way == "root" else {"uri": server.uri}
    read = spark.read.format("lance_flight").options(table=table, **place)
    assert sorted(row.id for row in read.option("filter", "s.a = 1").load().collect()) == [1, 2, 11, 12]
    assert sorted(row.id for row in read.option("filter", "s.a IS NULL").load().collect()) == [4, 14]
