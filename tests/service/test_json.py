"""Columns of JSON over the wire: what drivers send and get."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest

from tests.service.server_process import Server

DOCS = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"k": "a", "n": [1, 2]}', None, '"é"']))
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "site": ["x", "y", "y"], "doc": DOCS})
READ = [(1, '{"k":"a","n":[1,2]}'), (2, None), (3, '"é"')]


@pytest.mark.parametrize("partition_by", [None, "site"], ids=["plain", "in partitions"])
def test_documents_go_in_and_out_as_arrow_json(server: Server, table: str, partition_by: str | None) -> None:
    assert server.ingest(table, ROWS, partition_by=partition_by) == 3
    found = server.query(f"SELECT id, doc FROM {table} ORDER BY id")
    assert found.schema.field("doc").type == pa.json_()
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == READ
    assert found.to_pandas()["doc"].map(lambda text: None if pd.isna(text) else json.loads(text)).to_list() == [
        {"k": "a", "n": [1, 2]},
        None,
        "é",
    ]
    field = server.connection.adbc_get_table_schema(table).field("doc")
    assert field.type == pa.json_()
    assert (
        server.value(
            f"SELECT data_type FROM information_schema.columns WHERE table_name = '{table}' AND column_name = 'doc'"
        )
        == "JSON"
    )


def test_texts_are_documents_in_parameters_and_ingests(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, doc JSON)")
    assert server.run(f"INSERT INTO {table} VALUES (?, ?)", (1, '{"b": 1, "a": 2}')) == 1
    assert server.ingest(table, pa.table({"id": [2], "doc": ["[1 ]"]}), mode="append") == 1
    assert server.run(f"UPDATE {table} SET doc = ? WHERE id = ?", ("true", 2)) == 1
    assert server.rows(f"SELECT id, doc FROM {table} WHERE doc = ? OR id = ?", ("true", 1)) == [
        (1, '{"a":2,"b":1}'),
        (2, "true"),
    ]
    assert "'{a}' in row 1" in server.refuses(f"INSERT INTO {table} VALUES (?, ?)", (3, "{a}"))


def test_documents_that_are_too_deep_end_no_server(server: Server, table: str) -> None:
    deep = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[" * 200_000 + "]" * 200_000]))
    with pytest.raises(Exception, match="more than 128 arrays and objects deep"):
        server.ingest(table, pa.table({"doc": deep}))
    server.run(f"CREATE TABLE {table} (doc JSON)")
    assert "arrays and objects deep" in server.refuses(f"INSERT INTO {table} VALUES ('{'[' * 5000}{']' * 5000}')")
    assert server.value("SELECT 1") == 1


def test_documents_are_published_with_their_branch(server: Server, table: str) -> None:
    server.ingest(table, ROWS, partition_by="site")
    server.run(f"ALTER TABLE {table} CREATE BRANCH draft")
    server.run(f"INSERT INTO \"{table}@draft\" VALUES (4, 'z', '[4]')")
    assert server.rows(f"SELECT id, doc FROM {table} ORDER BY id") == READ
    server.run(f"ALTER TABLE {table} PUBLISH BRANCH draft")
    assert server.rows(f"SELECT id, doc FROM {table} ORDER BY id") == [*READ, (4, "[4]")]
