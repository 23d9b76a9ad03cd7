"""Distribution of written rows over tasks: Spark brings the rows of a partition together, so that a write makes few files.

Where a row lies is decided when it is written. The distribution only decides how many files a partition gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.catalog.plain_table import table_at
from lance_flight.errors import InvalidInput
from lance_flight.model.arrow_types import field_at
from lance_flight.model.hashing import hash_class
from pyarrow import types

from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.definitions import layout_at_server, partitioning_of
from lance_flight_client.spark.connector.properties import distribution_options
from lance_flight_client.spark.connector.relations import DirectTable, Relation, ServerTable
from lance_flight_client.spark.connector.table_options import TableWriteOptions
from lance_flight_client.spark.connector.writes import NewServerTable, NewTable

_ROWS_STAY = frozenset({"UPDATE", "DELETE"})
"""Commands whose tasks read whole partitions, and write the rows that they have read."""


def _is_whole(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_integer, types.is_decimal, types.is_string, types.is_large_string))


def _is_moment(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_timestamp, types.is_date))


_COMPUTED: Mapping[str, Callable[[pa.DataType], bool]] = MappingProxyType(
    {
        **dict.fromkeys(("bucket", "multi_bucket"), lambda kind: hash_class(kind) is not None),
        **dict.fromkeys(("year", "month", "day", "hour"), _is_moment),
        "truncate": _is_whole,
        "identity": lambda kind: not types.is_nested(kind),
    }
)
"""Transforms that the JVM computes (`WrittenKeys`), each with the types of columns that it takes."""


def distribute_rows(relation: Relation, command: str, options: TableWriteOptions, backend: SqlRunner) -> dict[str, Any]:
    """Return how the rows of a write come to its tasks; empty where they stay in theirs.

    Without the fields that the JVM does not compute, a task gets the rows
    of several partitions, and still all rows of each. `InvalidInput` names a column to sort by that is not there.
    """
    layout = None if command in _ROWS_STAY else _layout(relation, backend)
    if layout is None:
        return {}
    notes, partitioning = layout
    chosen = distribution_options(options, notes)
    fields = [] if chosen.distribution == "none" else partitioning
    keys = [field for field in fields if _is_computed(field, relation.source)]
    for name in options.sort_by or ():
        if name.column not in relation.source.names:
            raise InvalidInput(
                f"'sort_by' names {name.column!r}; expected columns of {', '.join(relation.source.names)}"
            )
    # A column that the table has no more orders nothing.
    sorted_by = [key for key in chosen.sort_by or () if key.column in relation.source.names]
    is_moved = bool(keys or (sorted_by and chosen.distribution == "range"))
    return {
        "keys": keys,
        "is_range": chosen.distribution == "range",
        "bytes": (chosen.target_file_size or 0) if is_moved else 0,
        "sorted": [key._asdict() for key in sorted_by],
    }


def _layout(relation: Relation, backend: SqlRunner) -> tuple[Mapping[str, str], Sequence[Mapping[str, Any]]] | None:
    """Return the metadata and the partition fields of what takes rows; None for what takes none."""
    match relation:
        case NewTable(store=store):
            snapshot = table_at(store).snapshot()
        case DirectTable(plan=plan):
            _, snapshot = plan.open_table()
        case NewServerTable(session=session, name=name):
            return layout_at_server(session, name)
        case ServerTable(options=read) if read.table is not None:
            return layout_at_server(backend, read.table)
        case _:
            return None
    return snapshot.schema.notes, partitioning_of(snapshot)


def _is_computed(field: Mapping[str, Any], source: pa.Schema) -> bool:
    takes = _COMPUTED.get(field["transform"])
    return takes is not None and all(takes(field_at(source, column).type) for column in field["columns"])
