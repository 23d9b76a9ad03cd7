"""The metadata commands over the wire: schemas as the proto's comments write them, filters, order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from lance_flight.errors import NotFound
from lance_flight.flight import wire
from lance_flight.flight.backend import PrimaryKey
from lance_flight.flight.metadata import like
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import MetadataCommand
from pyarrow import flight

from tests.flight.flight_backend import FLIGHTS, CannedBackend
from tests.flight.statements import descriptor

FOREIGN_KEYS = """
    pk_catalog_name: utf8
    pk_db_schema_name: utf8
    pk_table_name: utf8 not null
    pk_column_name: utf8 not null
    fk_catalog_name: utf8
    fk_db_schema_name: utf8
    fk_table_name: utf8 not null
    fk_column_name: utf8 not null
    key_sequence: int32 not null
    fk_key_name: utf8
    pk_key_name: utf8
    update_rule: uint8 not null
    delete_rule: uint8 not null
"""
TABLES = """
    catalog_name: utf8
    db_schema_name: utf8
    table_name: utf8 not null
    table_type: utf8 not null
"""

PROTO_SCHEMAS: dict[str, tuple[MetadataCommand, str]] = {
    "GetCatalogs": (wire.GetCatalogs(), "catalog_name: utf8 not null"),
    "GetDbSchemas": (wire.GetDbSchemas(), "catalog_name: utf8\ndb_schema_name: utf8 not null"),
    "GetTables": (wire.GetTables(), TABLES),
    "GetTables, include_schema": (wire.GetTables(include_schema=True), TABLES + "table_schema: bytes not null"),
    "GetTableTypes": (wire.GetTableTypes(), "table_type: utf8 not null"),
    "GetPrimaryKeys": (
        wire.GetPrimaryKeys(table="flights"),
        """
        catalog_name: utf8
        db_schema_name: utf8
        table_name: utf8 not null
        column_name: utf8 not null
        key_sequence: int32 not null
        key_name: utf8
        """,
    ),
    "GetExportedKeys": (wire.GetExportedKeys(table="flights"), FOREIGN_KEYS),
    "GetImportedKeys": (wire.GetImportedKeys(table="flights"), FOREIGN_KEYS),
    "GetCrossReference": (wire.GetCrossReference(pk_table="flights", fk_table="planes"), FOREIGN_KEYS),
    "GetSqlInfo": (
        wire.GetSqlInfo(),
        """
        info_name: uint32 not null
        value: dense_union<string_value: utf8 not null=0, bool_value: bool not null=1, bigint_value: int64 not null=2, \
int32_bitmask: int32 not null=3, string_list: list<item: utf8> not null=4, \
int32_to_int32_list_map: map<int32, list<item: int32>> not null=5> not null
        """,
    ),
    "GetXdbcTypeInfo": (
        wire.GetXdbcTypeInfo(),
        """
        type_name: utf8 not null
        data_type: int32 not null
        column_size: int32
        literal_prefix: utf8
        literal_suffix: utf8
        create_params: list<item: utf8 not null>
        nullable: int32 not null
        case_sensitive: bool not null
        searchable: int32 not null
        unsigned_attribute: bool
        fixed_prec_scale: bool not null
        auto_increment: bool
        local_type_name: utf8
        minimum_scale: int32
        maximum_scale: int32
        sql_data_type: int32 not null
        datetime_subcode: int32
        num_prec_radix: int32
        interval_precision: int32
        """,
    ),
}


def in_proto_words(schema: pa.Schema) -> list[str]:
    text = [str(field).removeprefix("pyarrow.Field<").removesuffix(">") for field in schema]
    return [line.replace(": string", ": utf8").replace(": binary", ": bytes") for line in text]


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def answer(client: flight.FlightClient, command: MetadataCommand) -> pa.Table:
    info = client.get_flight_info(descriptor(command))
    (endpoint,) = info.endpoints
    table = client.do_get(endpoint.ticket).read_all()
    table.validate(full=True)
    assert table.schema.equals(info.schema, check_metadata=True)
    return table


@pytest.mark.parametrize(("command", "expected"), PROTO_SCHEMAS.values(), ids=PROTO_SCHEMAS.keys())
def test_every_result_has_the_schema_of_the_proto(
    client: flight.FlightClient, command: MetadataCommand, expected: str
) -> None:
    assert in_proto_words(answer(client, command).schema) == lines(expected)
    assert in_proto_words(client.get_schema(descriptor(command)).schema) == lines(expected)


@pytest.mark.parametrize("command", [command for command, schema in PROTO_SCHEMAS.values() if "key" in schema])
def test_there_are_no_keys(client: flight.FlightClient, command: MetadataCommand) -> None:
    assert answer(client, command).num_rows == 0


def test_catalogs(client: flight.FlightClient) -> None:
    assert answer(client, wire.GetCatalogs()).to_pydict() == {"catalog_name": ["lance"]}


DB_SCHEMAS = {
    "all": (wire.GetDbSchemas(), ["public", "staging"]),
    "of a catalog": (wire.GetDbSchemas(catalog="lance"), ["public", "staging"]),
    "without a catalog": (wire.GetDbSchemas(catalog=""), []),
    "of no catalog of ours": (wire.GetDbSchemas(catalog="lan%"), []),
    "by pattern": (wire.GetDbSchemas(db_schema_filter_pattern="p%"), ["public"]),
    "by a pattern that matches nothing": (wire.GetDbSchemas(db_schema_filter_pattern=""), []),
}


@pytest.mark.parametrize(("command", "expected"), DB_SCHEMAS.values(), ids=DB_SCHEMAS.keys())
def test_schemas(client: flight.FlightClient, command: wire.GetDbSchemas, expected: list[str]) -> None:
    assert answer(client, command).column("db_schema_name").to_pylist() == expected


FOUND = {
    "all, in order": (
        wire.GetTables(),
        ["public.flights", "public.planes", "public.recent_flights", "staging.flights"],
    ),
    "without a catalog": (wire.GetTables(catalog=""), []),
    "of a schema": (wire.GetTables(db_schema_filter_pattern="staging"), ["staging.flights"]),
    "by name": (wire.GetTables(table_name_filter_pattern="flights"), ["public.flights", "staging.flights"]),
    "by pattern": (wire.GetTables(table_name_filter_pattern="pl_n%"), ["public.planes"]),
    "by an escaped pattern": (wire.GetTables(table_name_filter_pattern=r"recent\_%"), ["public.recent_flights"]),
    "views": (wire.GetTables(table_types=("VIEW",)), ["public.recent_flights"]),
    "of a type that is not there": (wire.GetTables(table_types=("SYSTEM TABLE",)), []),
    "SQL in a pattern": (wire.GetTables(table_name_filter_pattern="' OR 1=1 --"), []),
}


@pytest.mark.parametrize(("command", "expected"), FOUND.values(), ids=FOUND.keys())
def test_tables(client: flight.FlightClient, command: wire.GetTables, expected: list[str]) -> None:
    rows = answer(client, command).to_pylist()
    assert [f"{row['db_schema_name']}.{row['table_name']}" for row in rows] == expected


def test_a_name_that_is_empty_is_null(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.listed = {("", "", "loose", "TABLE"): FLIGHTS}
    (row,) = answer(client, wire.GetTables(catalog="")).to_pylist()
    assert row == {"catalog_name": None, "db_schema_name": None, "table_name": "loose", "table_type": "TABLE"}


def test_table_types_are_those_that_may_be_listed(client: flight.FlightClient, backend: CannedBackend) -> None:
    expected = {"table_type": ["LOCAL TEMPORARY", "TABLE", "VIEW"]}
    assert answer(client, wire.GetTableTypes()).to_pydict() == expected
    backend.listed = {}
    assert set(answer(client, wire.GetTableTypes()).to_pydict()["table_type"]) >= {"LOCAL TEMPORARY", "TABLE"}


def test_primary_keys_are_those_of_the_named_table(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.listed = {
        ("lance", "public", "t", "TABLE"): FLIGHTS,
        ("lance", "other", "t", "TABLE"): FLIGHTS,
        ("", "", "t", "TABLE"): FLIGHTS,
        ("lance", "public", "u", "TABLE"): FLIGHTS,
    }
    backend.keys = {"t": PrimaryKey("t_pkey", ("b", "a"))}

    def keys(**said: str) -> list[tuple[str | None, str | None, str, int]]:
        rows = answer(client, wire.GetPrimaryKeys(**said)).to_pylist()
        assert {row["key_name"] for row in rows} <= {"t_pkey"}
        return [(*tuple(row.values())[:2], row["column_name"], row["key_sequence"]) for row in rows]

    of_public = [("lance", "public", "b", 1), ("lance", "public", "a", 2)]
    assert keys(table="t", db_schema="public") == of_public
    assert keys(table="t", catalog="") == [(None, None, "b", 1), (None, None, "a", 2)]
    assert keys(table="t", catalog="lance") == [("lance", "other", "b", 1), ("lance", "other", "a", 2), *of_public]
    assert keys(table="u") == []
    assert keys(table="%") == []


def flights_columns(client: flight.FlightClient) -> dict[str, dict[str, str]]:
    command = wire.GetTables(
        include_schema=True, db_schema_filter_pattern="public", table_name_filter_pattern="flights"
    )
    (row,) = answer(client, command).to_pylist()
    schema = pa.ipc.read_schema(pa.py_buffer(row["table_schema"]))
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        ("id", pa.int64(), False),
        ("price", pa.decimal128(9, 2), True),
        ("carrier", pa.utf8(), True),
    ]
    prefix = b"ARROW:FLIGHT:SQL:"
    return {
        field.name: {
            key.removeprefix(prefix).decode(): value.decode()
            for key, value in field.metadata.items()
            if key.startswith(prefix)
        }
        for field in schema
    }


def test_a_table_schema_is_an_ipc_message_with_metadata_on_every_column(client: flight.FlightClient) -> None:
    common = {
        "CATALOG_NAME": "lance",
        "DB_SCHEMA_NAME": "public",
        "SCHEMA_NAME": "public",
        "TABLE_NAME": "flights",
        "IS_AUTO_INCREMENT": "0",
        "IS_READ_ONLY": "0",
        "IS_SEARCHABLE": "1",
    }
    assert flights_columns(client) == {
        "id": {**common, "TYPE_NAME": "BIGINT", "PRECISION": "19", "SCALE": "0", "IS_CASE_SENSITIVE": "0"},
        "price": {
            **common,
            "TYPE_NAME": "DECIMAL",
            "PRECISION": "9",
            "SCALE": "2",
            "IS_CASE_SENSITIVE": "0",
            "REMARKS": "in euros",
        },
        "carrier": {**common, "TYPE_NAME": "VARCHAR", "IS_CASE_SENSITIVE": "1"},
    }


def test_a_table_that_is_dropped_while_tables_are_listed_is_left_out(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    backend.failures["planes"] = NotFound("no table 'planes'")
    names = answer(client, wire.GetTables(include_schema=True)).column("table_name").to_pylist()
    assert names == ["flights", "recent_flights", "flights"]


def test_schemas_are_read_of_the_tables_that_are_asked_for_alone(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    backend.failures["flights"] = AssertionError("not asked for")
    assert answer(client, wire.GetTables(include_schema=True, table_name_filter_pattern="planes")).num_rows == 1


PATTERNS = {
    "no pattern": (None, "anything", True),
    "the empty pattern": ("", "a", False),
    "the empty name": ("", "", True),
    "% is any run": ("%", "", True),
    "% in the middle": ("f%s", "flights", True),
    "% over lines": ("a%b", "a\n\nb", True),
    "_ is one character": ("_", "a", True),
    "_ is not none": ("_", "", False),
    "_ is not two": ("_", "ab", False),
    "the whole name": ("light", "flights", False),
    "letter case counts": ("Flights", "flights", False),
    "no regex": ("a.c", "abc", False),
    "no regex, bracket": ("[a]", "[a]", True),
    "escaped _": (r"a\_b", "a_b", True),
    "escaped _ is no wildcard": (r"a\_b", "axb", False),
    "escaped %": (r"\%", "%", True),
    "escaped backslash": (r"a\\b", r"a\b", True),
    "escaped backslash before a wildcard": (r"a\\_", r"a\x", True),
    "a backslash before a letter": (r"a\b", r"a\b", True),
    "a backslash at the end": ("a\\", "a\\", True),
}


@pytest.mark.parametrize(("pattern", "name", "expected"), PATTERNS.values(), ids=PATTERNS.keys())
def test_patterns_are_those_of_like(pattern: str | None, name: str, expected: bool) -> None:  # noqa: FBT001
    assert like(pattern)(name) is expected


def test_types_are_ordered_by_number_and_name(client: flight.FlightClient) -> None:
    rows = answer(client, wire.GetXdbcTypeInfo()).to_pylist()
    keys = [(row["data_type"], row["type_name"]) for row in rows]
    assert keys == sorted(keys)
    assert {name for _, name in keys} == {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "TINYINT UNSIGNED",
        "SMALLINT UNSIGNED",
        "INTEGER UNSIGNED",
        "BIGINT UNSIGNED",
        "REAL",
        "DOUBLE",
        "DECIMAL",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMPTZ",
        "INTERVAL",
        "VARCHAR",
        "VARBINARY",
    }


TYPES_BY_NUMBER: dict[str, tuple[int, list[str]]] = {
    "bigint": (pb.XDBC_BIGINT, ["BIGINT", "BIGINT UNSIGNED"]),
    "timestamp": (pb.XDBC_TIMESTAMP, ["TIMESTAMP", "TIMESTAMPTZ"]),
    "unknown is a number like any other": (pb.XDBC_UNKNOWN_TYPE, []),
}


@pytest.mark.parametrize(("number", "expected"), TYPES_BY_NUMBER.values(), ids=TYPES_BY_NUMBER.keys())
def test_types_by_number(client: flight.FlightClient, number: int, expected: list[str]) -> None:
    assert answer(client, wire.GetXdbcTypeInfo(data_type=number)).column("type_name").to_pylist() == expected


TYPE_ROWS: dict[str, dict[str, Any]] = {
    "BIGINT UNSIGNED": {"column_size": 20, "unsigned_attribute": True, "num_prec_radix": 10, "minimum_scale": 0},
    "DECIMAL": {"create_params": ["precision", "scale"], "maximum_scale": 76, "literal_prefix": None},
    "DOUBLE": {"column_size": 53, "num_prec_radix": 2},
    "TIMESTAMPTZ": {
        "sql_data_type": pb.XDBC_DATETIME,
        "datetime_subcode": pb.XDBC_SUBCODE_TIMESTAMP_WITH_TIMEZONE,
        "unsigned_attribute": None,
    },
    "VARCHAR": {"literal_prefix": "'", "searchable": pb.SEARCHABLE_FULL, "case_sensitive": True},
}


@pytest.mark.parametrize(("name", "expected"), TYPE_ROWS.items(), ids=TYPE_ROWS.keys())
def test_what_is_said_of_a_type(client: flight.FlightClient, name: str, expected: dict[str, Any]) -> None:
    rows = answer(client, wire.GetXdbcTypeInfo()).to_pylist()
    (row,) = [row for row in rows if row["type_name"] == name]
    assert {key: row[key] for key in expected} == expected
