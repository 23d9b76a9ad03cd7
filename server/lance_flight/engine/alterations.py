"""What ALTER TABLE does to a table's history: one dataclass for each form, read from its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.points import Point, point
from lance_flight.engine.sql import Cursor


@dataclass(frozen=True, slots=True)
class CreateTag:
    """CREATE TAG name [AS OF point]."""

    name: str
    at: Point | None = None


@dataclass(frozen=True, slots=True)
class DropTag:
    """DROP TAG name."""

    name: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """ROLLBACK TO point."""

    at: Point


Alteration = CreateTag | DropTag | Rollback


def alteration(cursor: Cursor) -> Alteration:
    """Read what follows ALTER TABLE t."""
    found = _alteration(cursor)
    cursor.end()
    return found


def _alteration(cursor: Cursor) -> Alteration:
    if cursor.accept("CREATE", "TAG"):
        return CreateTag(cursor.word("the name of a tag"), _as_of(cursor))
    if cursor.accept("DROP", "TAG"):
        return DropTag(cursor.word("the name of a tag"))
    if cursor.accept("ROLLBACK", "TO"):
        return Rollback(_point(cursor))
    raise cursor.error("CREATE TAG, DROP TAG, ROLLBACK TO or COMPACT")


def _as_of(cursor: Cursor) -> Point | None:
    return _point(cursor) if cursor.accept("AS", "OF") else None


def _point(cursor: Cursor) -> Point:
    return point(cursor.word("a version, a tag or a time"))
