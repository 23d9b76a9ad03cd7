"""Parameter types that are reported to clients in Java.

The Flight SQL JDBC driver (18.3) writes milliseconds into a parameter of any unit, and days into a date of milliseconds:
otherwise another time would be stored silently. So the units that it writes are reported to it; bound values are cast to
whatever they are compared with or stored in. JDBC itself hands the driver no more than milliseconds.

Where a statement wants no type, others are told null, which ADBC and Go's `database/sql` take for any. That driver takes nothing but NULL
for it: it is told utf8, for which it refuses everything but texts, rather than a number, to which it would cut other numbers.
"""

from __future__ import annotations

import pyarrow as pa

USER_AGENT = "grpc-java"
"""Prefix of the user agent of every gRPC client in Java."""


def java_parameters(parameters: pa.Schema) -> pa.Schema:
    """Replace the units of parameters by those that the driver writes.

    >>> java_parameters(pa.schema({"$1": pa.timestamp("us", "UTC"), "$2": pa.time64("ns"), "$3": pa.null()}))
    $1: timestamp[ms, tz=UTC]
    $2: time32[ms]
    $3: string
    """
    return pa.schema([field.with_type(_written_type(field.type)) for field in parameters], metadata=parameters.metadata)


def _written_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.utf8()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", kind.tz)
    if pa.types.is_time(kind):
        return pa.time32("ms")
    return pa.date32() if pa.types.is_date64(kind) else kind
