"""Metadata that describes a column to clients beside its Arrow type (proto: CommandGetTables), under `ARROW:FLIGHT:SQL:` keys.

The Flight SQL JDBC driver (18.3) takes precision, scale and case sensitivity of a result's columns from there alone:
without it `ResultSetMetaData` tells of no digits of a decimal.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lance_flight.flight.backend import Caller
from lance_flight.flight.metadata import sql_types
from lance_flight.flight.normalise import client_schema

_PREFIX = "ARROW:FLIGHT:SQL:"


def result_schema(schema: pa.Schema, caller: Caller) -> pa.Schema:
    """Return the schema of a query's rows as it is sent to `caller`: with metadata of its columns for a client in Java."""
    sent = client_schema(schema)
    if not caller.is_java:
        return sent
    return pa.schema([described(field, {}) for field in sent], metadata=sent.metadata)


def described(field: pa.Field, where: Mapping[str, object]) -> pa.Field:
    """Return a column with metadata of its type, and of what is known of it by name; unknown values are left out.

    >>> described(pa.field("price", pa.decimal128(9, 2)), {}).metadata[b"ARROW:FLIGHT:SQL:SCALE"]
    b'2'
    """
    known = {
        **where,
        "TYPE_NAME": sql_types.type_name(field.type),
        "PRECISION": sql_types.precision(field.type),
        "SCALE": sql_types.scale(field.type),
        "IS_AUTO_INCREMENT": 0,
        "IS_CASE_SENSITIVE": int(sql_types.is_case_sensitive(field.type)),
        "IS_READ_ONLY": 0,
        "IS_SEARCHABLE": 1,
    }
    told = {_PREFIX + key: str(value) for key, value in known.items() if value is not None}
    return field.with_metadata({**(field.metadata or {}), **told})
