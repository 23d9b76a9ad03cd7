"""ADBC from Python in full: objects at every depth, schemas, ingests, transactions, partitions, cancellation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error, NotSupportedError, ProgrammingError

from tests.service.server_process import Server, serving

ROWS = pa.table({"id": [1, 2, 3], "site": ["Oslo", "Lima", None]})
ENDPOINTS = "adbc.flight.sql.rpc.call_header.lance-flight-endpoints"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("adbc") / "root"
    (root / "other").mkdir(parents=True)
    with serving(root) as running:
        running.run("CREATE TABLE flights (id bigint NOT NULL, price decimal(9, 2)) PARTITIONED BY (id)")
        running.run("INSERT INTO flights VALUES (1, 12.5), (2, NULL), (3, 1)")
        running.run("CREATE TABLE other.planes (tail varchar)")
        yield running


OBJECTS = {
    "catalogs": ({"depth": "catalogs"}, [{"catalog_name": "lance", "catalog_db_schemas": None}]),
    "schemas": ({"depth": "db_schemas"}, {"other": None, "public": None}),
    "schemas by a pattern": ({"depth": "db_schemas", "db_schema_filter": "o%"}, {"other": None}),
    "tables": ({"depth": "tables"}, {"other": {"planes": None}, "public": {"flights": None}}),
    "tables by a pattern": (
        {"depth": "tables", "table_name_filter": "pl%"},
        {"other": {"planes": None}, "public": {}},
    ),
    "tables of a type": ({"depth": "tables", "table_types_filter": ["VIEW"]}, {"other": {}, "public": {}}),
    "columns": (
        {"depth": "all"},
        {"other": {"planes": ["tail"]}, "public": {"flights": ["id", "price"]}},
    ),
    "columns by a pattern": (
        {"depth": "columns", "column_name_filter": "pr%"},
        {"other": {"planes": []}, "public": {"flights": ["price"]}},
    ),
    "of another catalog": ({"depth": "all", "catalog_filter": "elsewhere"}, []),
}


@pytest.mark.parametrize(("asked", "expected"), OBJECTS.values(), ids=OBJECTS.keys())
def test_objects_at_every_depth(server: Server, asked: dict[str, Any], expected: object) -> None:
    found = server.connection.adbc_get_objects(**asked).read_all().to_pylist()
    if isinstance(expected, list):
        assert found == expected
    else:
        (catalog,) = found
        assert {s["db_schema_name"]: _tables(s["db_schema_tables"]) for s in catalog["catalog_db_schemas"]} == expected


def _tables(listed: list[dict[str, Any]] | None) -> dict[str, list[str] | None] | None:
    if listed is None:
        return None
    return {
        table["table_name"]: None
        if table["table_columns"] is None
        else [column["column_name"] for column in table["table_columns"]]
        for table in listed
    }


def test_what_is_said_of_a_column(server: Server) -> None:
    (catalog,) = server.connection.adbc_get_objects(depth="all", table_name_filter="flights").read_all().to_pylist()
    (table,) = (t for s in catalog["catalog_db_schemas"] for t in s["db_schema_tables"])
    key, price = table["table_columns"]
    assert (key["ordinal_position"], price["ordinal_position"]) == (1, 2)
    assert (key["xdbc_data_type"], price["xdbc_data_type"]) == (-5, 3)
    assert (key["xdbc_type_name"], price["xdbc_type_name"]) == ("BIGINT", "DECIMAL")


def test_table_types(server: Server) -> None:
    assert server.connection.adbc_get_table_types() == ["LOCAL TEMPORARY", "TABLE", "VIEW"]


def test_the_schema_of_a_table(server: Server) -> None:
    schema = server.connection.adbc_get_table_schema("planes", db_schema_filter="other")
    assert schema.names == ["tail"]
    with pytest.raises(Error, match="No table found"):
        server.connection.adbc_get_table_schema("nowhere")


def test_partitions(server: Server) -> None:
    with server.connection.cursor() as cursor, dbapi.connect(server.uri, autocommit=True) as another:
        cursor.adbc_statement.set_options(**{ENDPOINTS: "3"})
        partitions, schema = cursor.adbc_execute_partitions("SELECT id FROM flights")
        assert len(partitions) == 3
        assert schema is None or schema.names == ["id"]
        read = []
        for partition in partitions:
            with another.cursor() as reader:
                reader.adbc_read_partition(partition)
                read += reader.fetchall()
        assert sorted(read) == [(1,), (2,), (3,)]


def test_errors_are_those_of_the_dbapi(server: Server) -> None:
    with server.connection.cursor() as cursor:
        with pytest.raises(ProgrammingError):
            cursor.execute("SELECT nope FROM flights")
        with pytest.raises(NotSupportedError):
            cursor.adbc_ingest("passing", ROWS, mode="create", db_schema_name="other", temporary=True)
