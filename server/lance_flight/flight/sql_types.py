"""Supported SQL types, one row each, and the metadata that describes columns by them (proto: CommandGetTables).

The Flight SQL JDBC driver (18.3) takes precision, scale and case sensitivity of a result's columns from there alone:
without it `ResultSetMetaData` tells of no digits of a decimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import lib

from lance_flight.flight.backend import Caller
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.rows import client_schema
from lance_flight.model.type_names import datetime_precision

_LONGEST = 2**31 - 1
"""Most characters or bytes of one value: the offsets of utf8 and binary have 31 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlType:
    """Row of CommandGetXdbcTypeInfo, under the column names of its result."""

    type_name: str
    data_type: int
    sql_data_type: int
    column_size: int | None = None
    literal_prefix: str | None = None
    literal_suffix: str | None = None
    create_params: tuple[str, ...] | None = None
    nullable: int = pb.NULLABILITY_NULLABLE
    case_sensitive: bool = False
    searchable: int = pb.SEARCHABLE_BASIC
    unsigned_attribute: bool | None = None
    fixed_prec_scale: bool = False
    auto_increment: bool | None = None
    local_type_name: str | None = None
    minimum_scale: int | None = None
    maximum_scale: int | None = None
    datetime_subcode: int | None = None
    num_prec_radix: int | None = None
    interval_precision: int | None = None


def _integer(name: str, code: int, digits: int, *, unsigned: bool = False) -> SqlType:
    return SqlType(
        type_name=name,
        data_type=code,
        sql_data_type=code,
        column_size=digits,
        unsigned_attribute=unsigned,
        auto_increment=False,
        minimum_scale=0,
        maximum_scale=0,
        num_prec_radix=10,
    )


def _approximate(name: str, code: int, bits: int) -> SqlType:
    return SqlType(
        type_name=name,
        data_type=code,
        sql_data_type=code,
        column_size=bits,
        unsigned_attribute=False,
        auto_increment=False,
        num_prec_radix=2,
    )


def _moment(name: str, code: int, subcode: int, *, size: int, prefix: str, digits: int) -> SqlType:
    return SqlType(
        type_name=name,
        data_type=code,
        sql_data_type=pb.XDBC_DATETIME,
        column_size=size,
        literal_prefix=f"{prefix} '",
        literal_suffix="'",
        minimum_scale=0,
        maximum_scale=digits,
        datetime_subcode=subcode,
    )


BOOLEAN = SqlType(type_name="BOOLEAN", data_type=pb.XDBC_BIT, sql_data_type=pb.XDBC_BIT, column_size=1)
TINYINT = _integer("TINYINT", pb.XDBC_TINYINT, 3)
SMALLINT = _integer("SMALLINT", pb.XDBC_SMALLINT, 5)
INTEGER = _integer("INTEGER", pb.XDBC_INTEGER, 10)
BIGINT = _integer("BIGINT", pb.XDBC_BIGINT, 19)
TINYINT_UNSIGNED = _integer("TINYINT UNSIGNED", pb.XDBC_TINYINT, 3, unsigned=True)
SMALLINT_UNSIGNED = _integer("SMALLINT UNSIGNED", pb.XDBC_SMALLINT, 5, unsigned=True)
INTEGER_UNSIGNED = _integer("INTEGER UNSIGNED", pb.XDBC_INTEGER, 10, unsigned=True)
BIGINT_UNSIGNED = _integer("BIGINT UNSIGNED", pb.XDBC_BIGINT, 20, unsigned=True)
REAL = _approximate("REAL", pb.XDBC_REAL, 24)
DOUBLE = _approximate("DOUBLE", pb.XDBC_DOUBLE, 53)
DECIMAL = SqlType(
    type_name="DECIMAL",
    data_type=pb.XDBC_DECIMAL,
    sql_data_type=pb.XDBC_DECIMAL,
    column_size=76,
    create_params=("precision", "scale"),
    unsigned_attribute=False,
    auto_increment=False,
    minimum_scale=0,
    maximum_scale=76,
    num_prec_radix=10,
)
DATE = _moment("DATE", pb.XDBC_DATE, pb.XDBC_SUBCODE_DATE, size=10, prefix="DATE", digits=0)
TIME = _moment("TIME", pb.XDBC_TIME, pb.XDBC_SUBCODE_TIME, size=18, prefix="TIME", digits=9)
TIMESTAMP = _moment("TIMESTAMP", pb.XDBC_TIMESTAMP, pb.XDBC_SUBCODE_TIMESTAMP, size=29, prefix="TIMESTAMP", digits=9)
TIMESTAMPTZ = _moment(
    "TIMESTAMPTZ",
    pb.XDBC_TIMESTAMP,
    pb.XDBC_SUBCODE_TIMESTAMP_WITH_TIMEZONE,
    size=35,
    prefix="TIMESTAMPTZ",
    digits=9,
)
INTERVAL = SqlType(
    type_name="INTERVAL",
    data_type=pb.XDBC_INTERVAL,
    sql_data_type=pb.XDBC_INTERVAL,
    literal_prefix="INTERVAL '",
    literal_suffix="'",
    datetime_subcode=pb.XDBC_SUBCODE_UNKNOWN,
    interval_precision=9,
)
VARCHAR = SqlType(
    type_name="VARCHAR",
    data_type=pb.XDBC_VARCHAR,
    sql_data_type=pb.XDBC_VARCHAR,
    column_size=_LONGEST,
    literal_prefix="'",
    literal_suffix="'",
    case_sensitive=True,
    searchable=pb.SEARCHABLE_FULL,
)
VARBINARY = SqlType(
    type_name="VARBINARY",
    data_type=pb.XDBC_VARBINARY,
    sql_data_type=pb.XDBC_VARBINARY,
    column_size=_LONGEST,
    literal_prefix="X'",
    literal_suffix="'",
)

SQL_TYPES = (
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INTEGER,
    BIGINT,
    TINYINT_UNSIGNED,
    SMALLINT_UNSIGNED,
    INTEGER_UNSIGNED,
    BIGINT_UNSIGNED,
    REAL,
    DOUBLE,
    DECIMAL,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    VARCHAR,
    VARBINARY,
)

_BY_ARROW: Mapping[int, SqlType] = {
    lib.Type_BOOL: BOOLEAN,
    lib.Type_INT8: TINYINT,
    lib.Type_INT16: SMALLINT,
    lib.Type_INT32: INTEGER,
    lib.Type_INT64: BIGINT,
    lib.Type_UINT8: TINYINT_UNSIGNED,
    lib.Type_UINT16: SMALLINT_UNSIGNED,
    lib.Type_UINT32: INTEGER_UNSIGNED,
    lib.Type_UINT64: BIGINT_UNSIGNED,
    lib.Type_FLOAT: REAL,
    lib.Type_DOUBLE: DOUBLE,
    lib.Type_DECIMAL128: DECIMAL,
    lib.Type_DECIMAL256: DECIMAL,
    lib.Type_DATE32: DATE,
    lib.Type_DATE64: DATE,
    lib.Type_TIME32: TIME,
    lib.Type_TIME64: TIME,
    lib.Type_DURATION: INTERVAL,
    lib.Type_INTERVAL_MONTH_DAY_NANO: INTERVAL,
    lib.Type_STRING: VARCHAR,
    lib.Type_LARGE_STRING: VARCHAR,
    lib.Type_BINARY: VARBINARY,
    lib.Type_LARGE_BINARY: VARBINARY,
    lib.Type_FIXED_SIZE_BINARY: VARBINARY,
}
_NESTED_NAMES: Mapping[int, str] = {
    lib.Type_LIST: "ARRAY",
    lib.Type_LARGE_LIST: "ARRAY",
    lib.Type_FIXED_SIZE_LIST: "ARRAY",
    lib.Type_STRUCT: "STRUCT",
    lib.Type_MAP: "MAP",
}


def sql_type(kind: pa.DataType) -> SqlType | None:
    """Return the SQL type of a column that is sent as `kind`; None for a nested type."""
    if isinstance(kind, pa.BaseExtensionType):
        return sql_type(kind.storage_type)
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    return _BY_ARROW.get(kind.id)


def type_name(kind: pa.DataType) -> str:
    """Return the SQL name of the type of a column that is sent as `kind`.

    >>> type_name(pa.timestamp("us", "UTC")), type_name(pa.list_(pa.int64()))
    ('TIMESTAMPTZ', 'ARRAY')
    """
    if isinstance(kind, pa.JsonType):
        return "JSON"
    known = sql_type(kind)
    if known is not None:
        return known.type_name
    return _NESTED_NAMES.get(kind.id) or str(kind).upper()


def precision(kind: pa.DataType) -> int | None:
    """Return the digits, characters or bits of a column that is sent as `kind`; None if it has no such limit."""
    if pa.types.is_decimal(kind):
        return int(kind.precision)
    known = sql_type(kind)
    return None if known is None or known.column_size == _LONGEST else known.column_size


def scale(kind: pa.DataType) -> int | None:
    """Return the number of decimal digits of a column that is sent as `kind`; None where that has no meaning."""
    if pa.types.is_decimal(kind):
        return int(kind.scale)
    return 0 if pa.types.is_integer(kind) else datetime_precision(kind)


def is_case_sensitive(kind: pa.DataType) -> bool:
    """Return whether values of a column that is sent as `kind` differ by case."""
    known = sql_type(kind)
    return known is not None and known.case_sensitive


_PREFIX = "ARROW:FLIGHT:SQL:"


def result_schema(schema: pa.Schema, caller: Caller) -> pa.Schema:
    """Return the schema of a query's rows as it is sent to `caller`: with metadata of its columns for a client in Java."""
    sent = client_schema(schema)
    if not caller.is_java:
        return sent
    return pa.schema([describe_column(field, {}) for field in sent], metadata=sent.metadata)


def describe_column(field: pa.Field, where: Mapping[str, object]) -> pa.Field:
    """Return a column with metadata of its type, and of what is known of it by name; unknown values are left out.

    >>> describe_column(pa.field("price", pa.decimal128(9, 2)), {}).metadata[b"ARROW:FLIGHT:SQL:SCALE"]
    b'2'
    """
    known = {
        **where,
        "TYPE_NAME": type_name(field.type),
        "PRECISION": precision(field.type),
        "SCALE": scale(field.type),
        "IS_AUTO_INCREMENT": 0,
        "IS_CASE_SENSITIVE": int(is_case_sensitive(field.type)),
        "IS_READ_ONLY": 0,
        "IS_SEARCHABLE": 1,
    }
    metadata = {_PREFIX + key: str(value) for key, value in known.items() if value is not None}
    return field.with_metadata({**(field.metadata or {}), **metadata})
