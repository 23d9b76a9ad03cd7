"""Parser of PARTITIONED BY: the fields of a partition spec in SQL."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.errors import SqlError
from lance_flight.model.schema import LONGEST_NAME, Path, check_length, check_partition_fields
from lance_flight.model.transforms import TRANSFORMS


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDef:
    """Field of PARTITIONED BY: a transform (with its parameters) or an expression of columns, and an optional name.

    A column is a path: its name, and those of fields inside its structs.
    """

    transform: str
    columns: tuple[Path, ...]
    arguments: tuple[int, ...] = ()
    expression: str | None = None
    field_id: str | None = None


def parse_partition_by(text: str) -> tuple[PartitionDef, ...]:
    """Parse a PARTITIONED BY list without its brackets, the format of the ingest option.

    >>> [field.transform for field in parse_partition_by("year(ts), bucket(16, id), country")]
    ['year', 'bucket', 'identity']
    >>> parse_partition_by("day(s.at)")[0].columns
    (('s', 'at'),)
    """
    cursor = Cursor.over(text)
    fields = _fields(cursor)
    cursor.end()
    return fields


def in_brackets(cursor: Cursor) -> tuple[PartitionDef, ...]:
    """Read the list of fields with its brackets."""
    cursor.expect("(")
    fields = _fields(cursor)
    cursor.expect(")")
    return fields


def any_in_brackets(cursor: Cursor) -> tuple[PartitionDef, ...]:
    """Read the list of fields with its brackets, between which nothing may stand."""
    return () if cursor.accept("(", ")") else in_brackets(cursor)


def _fields(cursor: Cursor) -> tuple[PartitionDef, ...]:
    fields = [_field(cursor)]
    while cursor.accept(","):
        fields.append(_field(cursor))
        check_partition_fields(len(fields))
    return tuple(fields)


def _field(cursor: Cursor) -> PartitionDef:
    name = cursor.name("a column or a transform")
    transform, expression = "identity", None
    arguments: list[int] = []
    columns: tuple[Path, ...] = (_inside(cursor, name),)
    if cursor.accept("("):
        transform = name
        if name == "expr":
            transform, expression = "expression", cursor.string("the expression, a string")
            cursor.expect(",")
        elif name not in TRANSFORMS:
            raise SqlError(f"no partition transform {name!r}; expected one of {', '.join((*TRANSFORMS, 'expr'))}")
        else:
            for _ in TRANSFORMS[name].parameters():
                arguments.append(cursor.number(f"the number of {name}"))
                cursor.expect(",")
        columns = _column_list(cursor)
    field_id = cursor.name("a field id") if cursor.accept("AS") else None
    check_length("the name of a partition field", (field_id or "").encode(), LONGEST_NAME)
    check_length("the expression of a partition field", (expression or "").encode())
    return PartitionDef(
        transform=transform, columns=columns, arguments=tuple(arguments), expression=expression, field_id=field_id
    )


def _column_list(cursor: Cursor) -> tuple[Path, ...]:
    columns = [_inside(cursor, cursor.name("a column name"))]
    while cursor.accept(","):
        columns.append(_inside(cursor, cursor.name("a column name")))
    cursor.expect(")")
    return tuple(columns)


def _inside(cursor: Cursor, name: str) -> Path:
    """Read the rest of a column path, whose first name was read."""
    path = [name]
    while cursor.accept("."):
        path.append(cursor.name("the name of a field inside the column"))
    return tuple(path)
