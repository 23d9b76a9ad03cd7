"""What ALTER TABLE does to a table: one dataclass for each form, read from its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine import partition_fields
from lance_flight.engine.partition_fields import PartitionDef
from lance_flight.engine.points import Point, point
from lance_flight.engine.sql import Cursor

_BRANCH = "the name of a branch"


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


@dataclass(frozen=True, slots=True)
class CreateBranch:
    """CREATE BRANCH name [AS OF point]."""

    name: str
    at: Point | None = None


@dataclass(frozen=True, slots=True)
class DropBranch:
    """DROP BRANCH name."""

    name: str


@dataclass(frozen=True, slots=True)
class PublishBranch:
    """PUBLISH BRANCH name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetPartitionedBy:
    """SET PARTITIONED BY (fields): a new spec version for what is written from now on."""

    fields: tuple[PartitionDef, ...]


OfBranch = CreateBranch | DropBranch | PublishBranch
Alteration = CreateTag | DropTag | Rollback | OfBranch | SetPartitionedBy


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
    if cursor.accept("CREATE", "BRANCH"):
        return CreateBranch(cursor.word(_BRANCH), _as_of(cursor))
    if cursor.accept("DROP", "BRANCH"):
        return DropBranch(cursor.word(_BRANCH))
    if cursor.accept("PUBLISH", "BRANCH"):
        return PublishBranch(cursor.word(_BRANCH))
    if cursor.accept("SET", "PARTITIONED", "BY"):
        return SetPartitionedBy(partition_fields.in_brackets(cursor))
    raise cursor.error(
        "CREATE TAG, DROP TAG, ROLLBACK TO, CREATE BRANCH, PUBLISH BRANCH, DROP BRANCH, SET PARTITIONED BY or COMPACT"
    )


def _as_of(cursor: Cursor) -> Point | None:
    return _point(cursor) if cursor.accept("AS", "OF") else None


def _point(cursor: Cursor) -> Point:
    return point(cursor.word("a version, a tag or a time"))
