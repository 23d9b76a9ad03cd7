"""The types of columns: how SQL names each, the Arrow type it means, and a value of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest


@dataclass(frozen=True, slots=True)
class Sample:
    """A type in SQL, the Arrow type it means, a literal and what Python reads of it (moments: looked up by literal)."""

    sql: str
    kind: pa.DataType
    literal: str
    value: Any

    @property
    def expected(self) -> Any:
        if pa.types.is_timestamp(self.kind):
            return MOMENTS[self.literal]
        return pa.scalar(self.value).cast(self.kind).as_py() if pa.types.is_decimal(self.kind) else self.value


DATED = pa.struct({"a": pa.int32(), "date": pa.date32()})
TYPES = [
    pytest.param(Sample("BOOLEAN", pa.bool_(), "true", value=True), id="boolean"),
    pytest.param(Sample("TINYINT", pa.int8(), "-128", -128), id="tinyint"),
    pytest.param(Sample("SMALLINT", pa.int16(), "-3", -3), id="smallint"),
    pytest.param(Sample("INT", pa.int32(), "-3", -3), id="int"),
    pytest.param(Sample("INTEGER", pa.int32(), "7", 7), id="integer"),
    pytest.param(Sample("BIGINT", pa.int64(), "9007199254740993", 2**53 + 1), id="bigint"),
    pytest.param(Sample("TINYINT UNSIGNED", pa.uint8(), "255", 255), id="tinyint unsigned"),
    pytest.param(Sample("SMALLINT UNSIGNED", pa.uint16(), "65535", 65535), id="smallint unsigned"),
    pytest.param(Sample("INT UNSIGNED", pa.uint32(), "4294967295", 2**32 - 1), id="int unsigned"),
    pytest.param(Sample("BIGINT UNSIGNED", pa.uint64(), "18446744073709551615", 2**64 - 1), id="bigint unsigned"),
    pytest.param(Sample("REAL", pa.float32(), "1.5", 1.5), id="real"),
    pytest.param(Sample("FLOAT", pa.float32(), "1.5", 1.5), id="float"),
    pytest.param(Sample("DOUBLE", pa.float64(), "0.1", 0.1), id="double"),
    pytest.param(Sample("DOUBLE PRECISION", pa.float64(), "0.1", 0.1), id="double precision"),
    pytest.param(Sample("DECIMAL(10, 2)", pa.decimal128(10, 2), "12.34", "12.34"), id="decimal"),
    pytest.param(Sample("NUMERIC(5)", pa.decimal128(5, 0), "12345", "12345"), id="numeric without scale"),
    pytest.param(Sample("DECIMAL(40, 3)", pa.decimal256(40, 3), "1.125", "1.125"), id="decimal wider than 38"),
    pytest.param(Sample("VARCHAR", pa.utf8(), "'é'", "é"), id="varchar"),
    pytest.param(Sample("VARCHAR(10)", pa.utf8(), "'é'", "é"), id="varchar with a length"),
    pytest.param(Sample("TEXT", pa.utf8(), "''", ""), id="text"),
    pytest.param(Sample("CHAR(3)", pa.utf8(), "'abc'", "abc"), id="char"),
    pytest.param(Sample("BYTEA", pa.binary(), "X'00ff'", b"\x00\xff"), id="bytea"),
    pytest.param(Sample("VARBINARY", pa.binary(), "X'00ff'", b"\x00\xff"), id="varbinary"),
    pytest.param(Sample("DATE", pa.date32(), "DATE '1969-12-31'", dt.date(1969, 12, 31)), id="date"),
    pytest.param(Sample("TIME", pa.time64("ns"), "'01:02:03'", dt.time(1, 2, 3)), id="time"),
    pytest.param(Sample("TIMESTAMP", pa.timestamp("us"), "'1969-12-31T23:59:59.000001'", "us"), id="timestamp"),
    pytest.param(Sample("TIMESTAMP(0)", pa.timestamp("s"), "'2020-01-01'", "s"), id="timestamp of seconds"),
    pytest.param(Sample("TIMESTAMP(3)", pa.timestamp("ms"), "'2020-01-01'", "ms"), id="timestamp of milliseconds"),
    pytest.param(Sample("TIMESTAMP(6)", pa.timestamp("us"), "'2020-01-01'", "us"), id="timestamp of microseconds"),
    pytest.param(Sample("TIMESTAMP(9)", pa.timestamp("ns"), "'2020-01-01'", "ns"), id="timestamp of nanoseconds"),
    pytest.param(
        Sample("TIMESTAMPTZ", pa.timestamp("us", "UTC"), "'2020-01-01T02:00:00+02:00'", "us"), id="timestamptz"
    ),
    pytest.param(
        Sample("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC"), "'2020-01-01T00:00:00Z'", "us"), id="with zone"
    ),
    pytest.param(Sample("INT[]", pa.list_(pa.int32()), "[1, NULL]", [1, None]), id="array"),
]
NESTED = [
    pytest.param(
        Sample("STRUCT<a INT, date: DATE>", DATED, "row(1, DATE '2024-02-29')", {"a": 1, "date": dt.date(2024, 2, 29)}),
        id="struct",
    ),
    pytest.param(
        Sample(
            "STRUCT(a INT, date DATE)",
            DATED,
            "{'date': DATE '2024-02-29', 'a': 1}",
            {"a": 1, "date": dt.date(2024, 2, 29)},
        ),
        id="struct of DuckDB",
    ),
    pytest.param(
        Sample("MAP(VARCHAR, INT)", pa.map_(pa.utf8(), pa.int32()), "MAP {'a': 1, 'b': NULL}", [("a", 1), ("b", None)]),
        id="map",
    ),
    pytest.param(
        Sample(
            "STRUCT<m MAP<INT, HALF>[]>", pa.struct({"m": pa.list_(pa.map_(pa.int32(), pa.float16()))}), "NULL", None
        ),
        id="map of halves",
    ),
]
"""Types of columns of which CAST makes no values."""
MOMENTS = {
    "'1969-12-31T23:59:59.000001'": dt.datetime(1969, 12, 31, 23, 59, 59, 1),
    "'2020-01-01'": dt.datetime(2020, 1, 1),
    "'2020-01-01T02:00:00+02:00'": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "'2020-01-01T00:00:00Z'": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
}
