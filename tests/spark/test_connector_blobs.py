"""Blobs in Spark: binary columns to read, write and change, of a root and of a server, that stay blobs for everybody else."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.service.server_process import Server

LAYOUTS = ["", " PARTITIONED BY (site)"]


def filled(server: Server, table: str, layout: str) -> dict[int, bytes | None]:
    server.run(f"CREATE TABLE {table} (id BIGINT, site VARCHAR, image BLOB){layout}")
    found = {1: b"a" * 10, 2: None, 3: b"b" * 70_000, 4: b""}
    for number, value in found.items():
        literal = "NULL" if value is None else f"X'{value.hex()}'"
        server.run(f"INSERT INTO {table} VALUES ({number}, '{number % 2}', {literal})")
    return found


def images(rows: list[Any]) -> dict[int, bytes | None]:
    return {number: None if value is None else bytes(value) for number, value in rows}


@pytest.mark.parametrize(("catalog", "layout"), list(product(["lake", "far"], LAYOUTS)))
def test_blobs_are_binary_columns(sql: SparkSession, server: Server, table: str, catalog: str, layout: str) -> None:
    expected, name = filled(server, table, layout), f"{catalog}.{table}"
    assert dict(sql.table(name).dtypes) == {"id": "bigint", "site": "string", "image": "binary"}
    assert images(sql.sql(f"SELECT id, image FROM {name}").collect()) == expected
    found = sql.sql(f"SELECT id, length(image) FROM {name} WHERE image > X'61' ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, 10), (3, 70_000)]


@pytest.mark.parametrize(
    ("catalog", "layout"), [*product(["lake"], LAYOUTS), ("far", LAYOUTS[1])]
)  # a server changes no rows of plain tables for Spark
def test_blobs_stay_such_beside_what_spark_writes(
    sql: SparkSession, server: Server, table: str, catalog: str, layout: str
) -> None:
    expected, name = filled(server, table, layout), f"{catalog}.{table}"
    sql.sql(f"INSERT INTO {name} SELECT id + 10, site, image FROM {name} WHERE id = 3")
    sql.sql(f"UPDATE {name} SET image = X'ff' WHERE id = 1")
    sql.sql(f"UPDATE {name} SET id = 20 WHERE id = 2")
    sql.sql(f"DELETE FROM {name} WHERE id = 4")
    expected = {1: b"\xff", 3: expected[3], 13: expected[3], 20: None}
    assert images(sql.sql(f"SELECT id, image FROM {name}").collect()) == expected
    assert images(server.rows(f"SELECT id, image FROM {table} ORDER BY id")) == expected
    assert server.rows(
        f"SELECT data_type FROM information_schema.columns WHERE table_name = '{table}' AND column_name = 'image'"
    ) == [("BLOB",)]
