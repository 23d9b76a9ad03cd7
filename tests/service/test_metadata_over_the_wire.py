"""What drivers are told of tables by Flight SQL's own calls: their columns, their comments, their keys."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_flight.flight.wire import GetPrimaryKeys

from tests.flight.statements import descriptor, read
from tests.service.server_process import Server
from tests.stock import manifest

LAYOUTS = pytest.mark.parametrize("layout", ["", " PARTITIONED BY (region)"], ids=["plain", "partitioned"])


@LAYOUTS
def test_the_schema_of_a_table_has_its_comments_and_no_hidden_column(server: Server, table: str, layout: str) -> None:
    server.run(f"CREATE TABLE {table} (region VARCHAR, id BIGINT NOT NULL, doc JSON){layout}")
    server.run(f"COMMENT ON COLUMN {table}.id IS 'a number'")
    schema = server.connection.adbc_get_table_schema(table, db_schema_filter="public")
    assert schema.names == ["region", "id", "doc"]
    assert schema.field("id").metadata[b"ARROW:FLIGHT:SQL:REMARKS"] == b"a number"
    assert (schema.field("id").nullable, schema.field("doc").type) == (False, pa.json_())


@LAYOUTS
def test_keys_are_listed(server: Server, table: str, layout: str) -> None:
    server.run(f"CREATE TABLE {table} (region VARCHAR, id BIGINT, PRIMARY KEY (id, region)){layout}")
    info = server.client.get_flight_info(descriptor(GetPrimaryKeys(table=table)))
    rows = read(server.client, info).to_pylist()
    assert [(row["column_name"], row["key_sequence"], row["key_name"]) for row in rows] == [
        ("id", 1, f"{table}_pkey"),
        ("region", 2, f"{table}_pkey"),
    ]


def test_a_broken_table_does_not_hide_the_others(server: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": [1, 2], "part": [1, 2]}), partition_by="part")
    server.run(f"CREATE TABLE {table}_beside (id INT)")
    manifest(server.root / table).update_metadata({"schema": None})
    try:
        found = server.connection.adbc_get_objects(depth="all").read_all().to_pylist()
    finally:
        server.run(f"DROP TABLE {table}")
    (catalog,) = found
    tables = [each["table_name"] for schema in catalog["catalog_db_schemas"] for each in schema["db_schema_tables"]]
    assert f"{table}_beside" in tables
