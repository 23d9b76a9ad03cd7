"""What ALTER TABLE does to a table: one dataclass for each form, read from its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.points import Point, point
from lance_flight.engine.writes import partition_fields
from lance_flight.engine.writes.partition_alterations import (
    OfPartitions,
    attach_table,
    detach_partition,
    drop_partition,
)
from lance_flight.engine.writes.partition_fields import PartitionDef
from lance_flight.model.schema_changes import DropColumn, Path, RenameColumn, SetNullable


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """ADD COLUMN path type [NOT NULL] [DEFAULT value | AS (expression)]: all but the path as SQL text."""

    path: Path
    type: str
    nullable: bool = True
    default: str | None = None
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class SetType:
    """ALTER COLUMN path [SET DATA] TYPE type, as SQL text."""

    path: Path
    type: str


@dataclass(frozen=True, slots=True)
class Rename:
    """RENAME TO name: the table, within its schema."""

    name: str


OfColumn = AddColumn | DropColumn | RenameColumn | SetType | SetNullable
OfBranch = CreateBranch | DropBranch | PublishBranch
Alteration = CreateTag | DropTag | Rollback | OfBranch | OfColumn | OfPartitions | SetPartitionedBy | Rename


def alteration(cursor: Cursor) -> Alteration:
    """Read what follows ALTER TABLE t."""
    for words, read in _FORMS.items():
        if cursor.accept(*words):
            found = read(cursor)
            cursor.end()
            return found
    raise cursor.error(", ".join(map(" ".join, _FORMS)) + ", REWRITE PARTITIONS or COMPACT")


def _added(cursor: Cursor) -> AddColumn:
    path = _path(cursor)
    kind = cursor.type(",", "NOT", "NULL", "DEFAULT", "AS")
    if not kind:
        raise cursor.error(f"the type of column {'.'.join(path)!r}")
    nullable = not cursor.accept("NOT", "NULL")
    if cursor.accept("DEFAULT"):
        return AddColumn(path=path, type=kind, nullable=nullable, default=cursor.rest())
    expression = cursor.bracketed() if cursor.accept("AS") else None
    return AddColumn(path=path, type=kind, nullable=nullable, expression=expression)


def _altered(cursor: Cursor, path: Path) -> OfColumn:
    if cursor.accept("SET", "NOT", "NULL"):
        return SetNullable(path, nullable=False)
    if cursor.accept("DROP", "NOT", "NULL"):
        return SetNullable(path, nullable=True)
    cursor.accept("SET", "DATA")
    if not cursor.accept("TYPE"):
        raise cursor.error("TYPE, SET DATA TYPE, SET NOT NULL or DROP NOT NULL")
    return SetType(path, cursor.rest())


def _path(cursor: Cursor) -> Path:
    """A column, or one inside others: names with dots between them."""
    names = [cursor.name("the name of a column")]
    while cursor.accept("."):
        names.append(cursor.name("the name of a column"))
    return tuple(names)


def _as_of(cursor: Cursor) -> Point | None:
    return _point(cursor) if cursor.accept("AS", "OF") else None


def _point(cursor: Cursor) -> Point:
    return point(cursor.word("a version, a tag or a time"))


def _tag(cursor: Cursor) -> str:
    return cursor.word("the name of a tag")


def _branch(cursor: Cursor) -> str:
    return cursor.word("the name of a branch")


def _renamed(cursor: Cursor) -> RenameColumn:
    path = _path(cursor)
    cursor.expect("TO")
    return RenameColumn(path, cursor.name("the new name"))


_FORMS: Mapping[tuple[str, ...], Callable[[Cursor], Alteration]] = MappingProxyType(
    {
        ("ADD", "COLUMN"): _added,
        ("DROP", "COLUMN"): lambda cursor: DropColumn(_path(cursor)),
        ("RENAME", "COLUMN"): _renamed,
        ("ALTER", "COLUMN"): lambda cursor: _altered(cursor, _path(cursor)),
        ("RENAME", "TO"): lambda cursor: Rename(cursor.name("the new name of the table, without a schema")),
        ("SET", "PARTITIONED", "BY"): lambda cursor: SetPartitionedBy(partition_fields.in_brackets(cursor)),
        ("DROP", "PARTITION"): drop_partition,
        ("ATTACH", "TABLE"): attach_table,
        ("DETACH", "PARTITION"): detach_partition,
        ("CREATE", "TAG"): lambda cursor: CreateTag(_tag(cursor), _as_of(cursor)),
        ("DROP", "TAG"): lambda cursor: DropTag(_tag(cursor)),
        ("ROLLBACK", "TO"): lambda cursor: Rollback(_point(cursor)),
        ("CREATE", "BRANCH"): lambda cursor: CreateBranch(_branch(cursor), _as_of(cursor)),
        ("DROP", "BRANCH"): lambda cursor: DropBranch(_branch(cursor)),
        ("PUBLISH", "BRANCH"): lambda cursor: PublishBranch(_branch(cursor)),
    }
)
