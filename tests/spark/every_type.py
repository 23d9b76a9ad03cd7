"""A column of every type that Spark reads, with the ends of its range."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

DAY = dt.date(2025, 3, 1)
NOW = dt.datetime(1969, 3, 1, 7, 8, 9, 123456)
TYPES: dict[str, tuple[pa.DataType, list[object]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, 127]),
    "int16": (pa.int16(), [-32768, 32767]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "uint32": (pa.uint32(), [0, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, 2**64 - 1]),
    "float32": (pa.float32(), [-1.5, float("inf")]),
    "float64": (pa.float64(), [-0.0, float("nan")]),
    "decimal5": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01")]),
    "decimal18": (pa.decimal128(18, 0), [Decimal(-(10**18) + 1), Decimal(10**18 - 1)]),
    "decimal19": (pa.decimal128(19, 0), [Decimal(-(10**19) + 1), Decimal(10**19 - 1)]),
    "decimal38": (pa.decimal128(38, 9), [Decimal("-1.000000001"), Decimal(10**28)]),
    "text": (pa.utf8(), ["", "ü" * 20]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "date": (pa.date32(), [DAY, dt.date(1900, 1, 1)]),
    "moment": (pa.timestamp("us"), [NOW, dt.datetime(2500, 1, 1)]),
    "moment_utc": (pa.timestamp("ms", "UTC"), [dt.datetime(2025, 1, 1, tzinfo=dt.UTC)] * 2),
    "duration": (pa.duration("us"), [dt.timedelta(days=-1), dt.timedelta(microseconds=1)]),
    "list": (pa.list_(pa.int32()), [[], [1, None]]),
    "decimals": (pa.list_(pa.decimal128(5, 2)), [[Decimal("1.10")], [None]]),
    "struct": (
        pa.struct({"a": pa.decimal128(9, 1), "b": pa.struct({"c": pa.utf8()})}),
        [{"a": Decimal("1.5"), "b": {"c": "x"}}, {"a": None, "b": None}],
    ),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], [3.0, 4.0]]),
}
NULLS = {"none": [], "some": [None], "only": None}


def typed(nulls: str) -> pa.Table:
    """A column of each type, with nulls among its values or instead of them."""
    given = NULLS[nulls]
    names = {
        name: pa.array([None] * 4 if given is None else [*found, *given, *found], kind)
        for name, (kind, found) in TYPES.items()
    }
    return pa.table(names)
