"""Parser of the values of a partition in a statement."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.errors import SqlError


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """`field = literal`: the text or bytes of the literal, None for NULL."""

    field_id: str
    literal: str | bytes | None


def partition_values(cursor: Cursor) -> tuple[PartitionValue, ...]:
    """Read `(field = value, …)`."""
    cursor.expect("(")
    values = [_value(cursor)]
    while cursor.accept(","):
        values.append(_value(cursor))
    cursor.expect(")")
    named = [value.field_id for value in values]
    for name in named:
        if named.count(name) > 1:
            raise SqlError(f"partition field {name!r} is given twice; expected one value for it")
    return tuple(values)


def _value(cursor: Cursor) -> PartitionValue:
    field_id = cursor.name("the id of a partition field")
    if cursor.accept("IS"):
        cursor.expect("NULL")
        return PartitionValue(field_id, None)
    cursor.expect("=")
    return PartitionValue(field_id, _literal(cursor, f"a literal for {field_id!r}"))


def _literal(cursor: Cursor, what: str) -> str | bytes | None:
    if cursor.accept("NULL"):
        return None
    return _bytes(cursor.string(what)) if cursor.accept("X") else cursor.literal(what)


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as exc:
        raise SqlError(f"X{digits!r} is no binary literal; expected hexadecimal digits, two for each byte") from exc
