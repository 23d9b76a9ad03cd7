"""Distribution of written rows over tasks: Spark brings the rows of a partition together, so that a write makes few files.

Where a row lies is decided when it is written. The distribution only decides how many files a partition gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.catalog.plain_table import table_at
from lance_flight.errors import InvalidInput
from lance_flight.model.arrow_types import field_at
from lance_flight.model.hashing import hash_class
from pyarrow import types

from lance_flight_client.spark.connector.definitions import partitioning_of
from lance_flight_client.spark.connector.properties import distribution_options
from lance_flight_client.spark.connector.relations import DirectTable, Relation
from lance_flight_client.spark.connector.table_options import TableWriteOptions
from lance_flight_client.spark.connector.writes import NewTable

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


def distribute_rows(relation: Relation, command: str, options: TableWriteOptions) -> dict[str, Any]:
    """Return how the rows of a write come to its tasks; empty where they stay in theirs.

    A server stores rows itself, whatever tasks send them. Without the fields that the JVM does not compute, a task gets the rows
    of several partitions, and still all rows of each. `InvalidInput` names a column to sort by that is not there.
    """
    if not isinstance(relation, DirectTable | NewTable) or command in _ROWS_STAY:
        return {}
    snapshot = table_at(relation.store).snapshot() if isinstance(relation, NewTable) else relation.plan.open_table()[1]
    options = distribution_options(options, snapshot.schema.notes)
    fields = [] if options.distribution == "none" else partitioning_of(snapshot)
    keys = [field for field in fields if _is_computed(field, relation.source)]
    sorted_by = options.sort_by or ()
    for name in sorted_by:
        if name.column not in relation.source.names:
            raise InvalidInput(
                f"'sort_by' names {name.column!r}; expected columns of {', '.join(relation.source.names)}, or ALTER TABLE … WRITE UNORDERED"
            )
    is_moved = bool(keys or (sorted_by and options.distribution == "range"))
    return {
        "keys": keys,
        "is_range": options.distribution == "range",
        "bytes": (options.target_file_size or 0) if is_moved else 0,
        "sorted": [key._asdict() for key in sorted_by],
    }


def _is_computed(field: Mapping[str, Any], source: pa.Schema) -> bool:
    takes = _COMPUTED.get(field["transform"])
    return takes is not None and all(takes(field_at(source, column).type) for column in field["columns"])
