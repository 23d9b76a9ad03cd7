"""The published test vectors of murmur3, as Arrow arrays."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

VECTORS = json.loads((Path(__file__).parent / "data" / "murmur3.json").read_text())


def vector_array(kind: pa.DataType, value: Any) -> pa.Array:
    """One row of the vector file as an array: values that JSON does not have are written as strings."""
    if value is None:
        return pa.nulls(1, kind)
    if pa.types.is_timestamp(kind):
        wall, _, fraction = value.removesuffix("Z").partition(".")
        instant = datetime.fromisoformat(wall if datetime.fromisoformat(wall).tzinfo else f"{wall}+00:00")
        nanoseconds = int(instant.timestamp()) * 10**9 + int(fraction.ljust(9, "0") or 0)
        return pa.array([nanoseconds]).view(pa.timestamp("ns", kind.tz)).cast(kind)
    if pa.types.is_date(kind):
        return pa.array([date.fromisoformat(value)], kind)
    if pa.types.is_time(kind):
        return pa.array([time.fromisoformat(value)], kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(value)], kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([bytes.fromhex(value)], kind)
    return pa.array([float(value) if pa.types.is_floating(kind) else value], kind)


def vector_name(row: dict[str, Any]) -> str:
    return " ".join(
        str(row[key]) for key in ("type", "types", "value", "values", "murmur3", "num_buckets") if key in row
    )
