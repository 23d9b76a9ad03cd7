"""What ALTER TABLE does to whole partitions: one dataclass for each form, read from its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.sql import Cursor
from lance_flight.engine.tokens import Kind
from lance_flight.errors import SqlError

_TYPED = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME")


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
    for word in ("TRUE", "FALSE"):
        if cursor.accept(word):
            return word.lower()
    if cursor.accept("X"):
        return _bytes(cursor.string(what))
    sign = "-" if cursor.accept("-") else ""
    if not sign and any(cursor.accept(word) for word in _TYPED):
        return cursor.string(what)
    kind = None if cursor.done else cursor.tokens[cursor.at].kind
    if kind is not Kind.NUMBER and (sign or kind is not Kind.STRING):
        raise cursor.error(what)
    return sign + cursor.word(what)


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as exc:
        raise SqlError(f"X{digits!r} is no binary literal; expected hexadecimal digits, two for each byte") from exc
