"""Bounds of the schema of a table: fields, depth of types, lengths of names, comments and defaults.

Arrow's libraries read no type that is more than 64 deep, and recursion over a deeper one ends the process.
"""

from __future__ import annotations

import pyarrow as pa

from lance_flight.errors import LimitExceeded
from lance_flight.model.nested import children

MOST_FIELDS = 10_000
"""Most columns of a table, with the fields inside them."""
MOST_DEPTH = 50
"""Most types within one another, as in a list of lists."""
LONGEST_NAME = 1_000
"""Most bytes of the name of a column, or of a field inside one."""
LONGEST_TEXT = 1 << 16
"""Most bytes of a comment, a default, or anything else that is stored with a column."""
MOST_PARTITION_FIELDS = 100
"""Most fields of a partition spec."""
_SHOWN = 40


def check_schema(schema: pa.Schema) -> None:
    """Raise `LimitExceeded` for a schema that is too wide or too deep, or has a name, a comment or a default that is too long."""
    check_field_count(len(schema))
    count, left = 0, [(field, 1) for field in schema]
    while left:
        field, depth = left.pop()
        count += 1
        if depth > MOST_DEPTH:
            raise LimitExceeded(
                f"a column has more than {MOST_DEPTH} types within one another; expected at most {MOST_DEPTH}"
            )
        check_field_count(count)
        check_length("the name of a column", field.name.encode(), LONGEST_NAME)
        for key, text in (field.metadata or {}).items():
            check_length(
                f"{key[:_SHOWN].decode(errors='replace')!r} of column {field.name[:_SHOWN]!r}", text, LONGEST_TEXT
            )
        left += [(inner, depth + 1) for inner in children(field.type)]


def check_field_count(count: int) -> None:
    """Raise `LimitExceeded` for so many columns and fields inside them."""
    if count > MOST_FIELDS:
        raise LimitExceeded(
            f"there are more than {MOST_FIELDS:,} columns, with the fields inside them; expected at most {MOST_FIELDS:,}, or lists and maps"
        )


def check_partition_fields(count: int) -> None:
    """Raise `LimitExceeded` for so many fields of a partition spec."""
    if count > MOST_PARTITION_FIELDS:
        raise LimitExceeded(
            f"the table would be partitioned by more than {MOST_PARTITION_FIELDS} fields; expected at most {MOST_PARTITION_FIELDS}"
        )


def check_length(what: str, text: bytes, most: int = LONGEST_TEXT) -> None:
    """Raise `LimitExceeded` for a text with more bytes than it may have."""
    if len(text) > most:
        raise LimitExceeded(f"{what} has {len(text):,} bytes; expected at most {most:,}")
