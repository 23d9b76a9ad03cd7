"""What ALTER TABLE does to whole partitions: one dataclass for each form, read from its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.errors import SqlError


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """`field = literal`: the text or bytes of the literal, None for NULL."""

    field_id: str
    literal: str | bytes | None


@dataclass(frozen=True, slots=True)
class DropPartition:
    """DROP PARTITION (field = value, …)."""

    values: tuple[PartitionValue, ...]


@dataclass(frozen=True, slots=True)
class AttachTable:
    """ATTACH TABLE 'path' PARTITION (field = value, …) [TRUSTED]."""

    path: str
    values: tuple[PartitionValue, ...]
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class DetachPartition:
    """DETACH PARTITION (field = value, …) [TO name]."""

    values: tuple[PartitionValue, ...]
    to: str | None = None


OfPartitions = DropPartition | AttachTable | DetachPartition


def attach_table(cursor: Cursor) -> AttachTable:
    """Read what follows ATTACH TABLE."""
    path = cursor.text_or_name("the name of a table, or its path")
    cursor.expect("PARTITION")
    values = _values(cursor)
    return AttachTable(path, values, cursor.accept("TRUSTED"))


def detach_partition(cursor: Cursor) -> DetachPartition:
    """Read what follows DETACH PARTITION."""
    values = _values(cursor)
    return DetachPartition(values, cursor.text_or_name("the name of a new table") if cursor.accept("TO") else None)


def drop_partition(cursor: Cursor) -> DropPartition:
    """Read what follows DROP PARTITION."""
    return DropPartition(_values(cursor))


def _values(cursor: Cursor) -> tuple[PartitionValue, ...]:
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
