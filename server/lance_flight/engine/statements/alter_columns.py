"""ALTER TABLE … ADD, DROP, RENAME and ALTER COLUMN, one or several of them; comments and primary keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from lance_flight.catalog.bulk.shared_writes import Evolution
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.schema_evolution import SchemaEvolution
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.engine.query.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import Cursor, TableRef, table_name
from lance_flight.engine.statements.create_table import CONSTRAINTS, primary_key, read_notes
from lance_flight.engine.statements.kinds import Changes, HistoryAlteration, Required, on
from lance_flight.engine.writes.column_changes import (
    ColumnChange,
    ColumnChanges,
    added_column,
    annotate,
    changed_default,
    widened_column,
)
from lance_flight.engine.writes.computed_columns import SqlExpression
from lance_flight.errors import LimitExceeded, Unsupported
from lance_flight.model.schema_changes import (
    CommentOn,
    DropColumn,
    MoveColumn,
    Notes,
    Path,
    RenameColumn,
    SetComment,
    SetNotes,
    SetNullable,
    SetPrimaryKey,
    show_path,
)

_LISTED = "ADD COLUMN, DROP COLUMN, RENAME COLUMN or ALTER COLUMN"


class _ColumnAction(ABC):
    """Change of one column, or of a nested field, given by its path."""

    __slots__ = ()

    path: Path

    @property
    @abstractmethod
    def operation(self) -> str:
        """Return the name of the operation in the table's history."""

    @property
    def reads(self) -> bool:
        """True if rows are read to compute or to check the column."""
        return False

    @abstractmethod
    def change(self) -> ColumnChange:
        """Return the change of the schema."""


MOST_ACTIONS = 1_000
"""Changes of columns in one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumnAction(_ColumnAction):
    """ADD COLUMN [IF NOT EXISTS] path type [NOT NULL] [DEFAULT value | AS (expression)] [COMMENT 'text']: type and values as SQL text."""

    path: Path
    type: str
    nullable: bool = True
    default: str | None = None
    expression: str | None = None
    comment: str | None = None
    if_not_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> AddColumnAction:
        if any(cursor.peek(*words) for words in CONSTRAINTS):
            raise cursor.error("the name of a column")
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        path = _path(cursor)
        kind = cursor.type(",", "NOT", "NULL", "DEFAULT", "AS", "COMMENT")
        if not kind:
            raise cursor.error(f"the type of column {'.'.join(path)!r}")
        nullable = not cursor.accept("NOT", "NULL")
        default = _default(cursor) if cursor.accept("DEFAULT") else None
        expression = cursor.read_bracket() if cursor.accept("AS") else None
        comment = cursor.string("a comment in quotes") if cursor.accept("COMMENT") else None
        return cls(
            path=path,
            type=kind,
            nullable=nullable,
            default=default,
            expression=expression,
            comment=comment,
            if_not_exists=if_not_exists,
        )

    @property
    def operation(self) -> str:
        return f"add column {show_path(self.path)}"

    @property
    def reads(self) -> bool:
        return self.expression is not None or (not self.nullable and self.default is None)

    def change(self) -> ColumnChange:
        added = added_column(self.path, self.type, nullable=self.nullable, default=self.default, comment=self.comment)
        values = None if self.expression is None else SqlExpression(self.expression)
        return ColumnChange(added, values, is_optional=self.if_not_exists)


@dataclass(frozen=True, slots=True)
class DropColumnAction(_ColumnAction):
    """DROP COLUMN [IF EXISTS] path."""

    path: Path
    if_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> DropColumnAction:
        if cursor.peek("CONSTRAINT") and cursor.at + 1 < len(cursor.tokens) and not cursor.peek("CONSTRAINT", ","):
            raise cursor.error("the name of a column")
        if_exists = cursor.accept("IF", "EXISTS")
        return cls(_path(cursor), if_exists)

    @property
    def operation(self) -> str:
        return f"drop column {show_path(self.path)}"

    def change(self) -> ColumnChange:
        return ColumnChange(DropColumn(self.path), is_optional=self.if_exists)


@dataclass(frozen=True, slots=True)
class RenameColumnAction(_ColumnAction):
    """RENAME COLUMN path TO name."""

    path: Path
    name: str

    @classmethod
    def read(cls, cursor: Cursor) -> RenameColumnAction:
        path = _path(cursor)
        cursor.expect("TO")
        return cls(path, cursor.name("the new name"))

    @property
    def operation(self) -> str:
        return f"rename column {show_path(self.path)} to {self.name}"

    @property
    def reads(self) -> bool:
        # Row policies go by the names of columns.
        return True

    def change(self) -> ColumnChange:
        return ColumnChange(RenameColumn(self.path, self.name))


@dataclass(frozen=True, slots=True)
class RetypeColumnAction(_ColumnAction):
    """ALTER COLUMN path [SET DATA] TYPE type, as SQL text."""

    path: Path
    type: str

    @property
    def operation(self) -> str:
        return f"alter column {show_path(self.path)} type {self.type}"

    @property
    def reads(self) -> bool:
        return True

    def change(self) -> ColumnChange:
        return ColumnChange(widened_column(self.path, self.type))


@dataclass(frozen=True, slots=True)
class SetNullableAction(_ColumnAction):
    """ALTER COLUMN path SET NOT NULL, or DROP NOT NULL."""

    path: Path
    nullable: bool

    @property
    def operation(self) -> str:
        return f"alter column {show_path(self.path)} {'drop' if self.nullable else 'set'} not null"

    @property
    def reads(self) -> bool:
        return not self.nullable

    def change(self) -> ColumnChange:
        return ColumnChange(SetNullable(self.path, nullable=self.nullable))


@dataclass(frozen=True, slots=True)
class CommentColumnAction(_ColumnAction):
    """ALTER COLUMN path COMMENT 'text'; NULL removes the comment."""

    path: Path
    text: str | None

    @property
    def operation(self) -> str:
        return f"comment on column {show_path(self.path)}"

    def change(self) -> ColumnChange:
        return ColumnChange(SetComment(self.path, self.text))


@dataclass(frozen=True, slots=True)
class SetDefaultAction(_ColumnAction):
    """ALTER COLUMN path SET DEFAULT value, as SQL text, or DROP DEFAULT (None)."""

    path: Path
    value: str | None

    @property
    def operation(self) -> str:
        return f"alter column {show_path(self.path)} {'drop default' if self.value is None else f'set default {self.value}'}"

    def change(self) -> ColumnChange:
        return ColumnChange(changed_default(self.path, self.value))


@dataclass(frozen=True, slots=True)
class MoveColumnAction(_ColumnAction):
    """ALTER COLUMN path FIRST, or AFTER a column of the same level."""

    path: Path
    after: str | None

    @property
    def operation(self) -> str:
        return f"alter column {show_path(self.path)} {'first' if self.after is None else f'after {self.after}'}"

    def change(self) -> ColumnChange:
        return ColumnChange(MoveColumn(self.path, self.after))


@dataclass(frozen=True, slots=True)
class AlterColumns(HistoryAlteration):
    """ALTER TABLE t with one or several of ADD, DROP, RENAME and ALTER COLUMN, made one after the other in one commit."""

    forms: ClassVar[tuple[str, ...]] = (
        "ALTER TABLE t ADD COLUMN",
        "ALTER TABLE t DROP COLUMN",
        "ALTER TABLE t RENAME COLUMN",
        "ALTER TABLE t ALTER COLUMN",
    )

    table: TableRef
    actions: tuple[_ColumnAction, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> AlterColumns:
        cursor.at -= 1 + (cursor.last == "COLUMN")
        return cls(table, _read_actions(cursor))

    def also(self, name: TableName) -> Iterable[Required]:
        return on(name, Privilege.SELECT) if any(action.reads for action in self.actions) else ()

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        table.evolve(SchemaEvolution(table.store, self.column_changes(root, name)))

    def column_changes(self, root: Root, name: TableName) -> ColumnChanges:
        operation = ", ".join(action.operation for action in self.actions)
        return ColumnChanges(root, name, tuple(action.change() for action in self.actions), operation)


@dataclass(frozen=True, slots=True)
class BeginWrite(AlterColumns):
    """BEGIN WRITE 'name' INTO t [VERSION n], and changes of columns as of ALTER TABLE: begins a shared ingest of rows with these columns.

    `COMMIT WRITE` commits the columns together with the rows. Until then nobody sees them.
    """

    forms = ("BEGIN WRITE",)

    name: str
    version: int | None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef | None = None) -> BeginWrite:
        name = cursor.string("the name of a shared ingest")
        cursor.expect("INTO")
        table = references.table(cursor)
        version = cursor.number("a version") if cursor.accept("VERSION") else None
        return cls(table, _read_actions(cursor), name, version)

    @property
    def label(self) -> str:
        return "BeginWrite"

    def run(self, changes: Changes) -> int:
        changes.check_alone("BEGIN WRITE")
        name = table_name(self.table)
        asked, table = self.column_changes(changes.root, name), changes.root.table(name)

        def plan(snapshot: Snapshot) -> Evolution:
            planned = asked.plan(table, snapshot) if isinstance(table, PartitionedNamespace) else None
            if planned is None:
                raise Unsupported(
                    f"BEGIN WRITE into {name.name!r}: columns of a plain table, computed ones, and types of partition values are not"
                    " changed together with rows; expected ALTER TABLE first"
                )
            return planned

        changes.shared().begin(self.name, table, self.version, plan)
        return 0


def _check_count(count: int) -> None:
    if count > MOST_ACTIONS:
        raise LimitExceeded(
            f"the statement has more than {MOST_ACTIONS:,} changes of columns; expected at most {MOST_ACTIONS:,}, and the others in the next"
        )


def _read_actions(cursor: Cursor) -> tuple[_ColumnAction, ...]:
    actions = [_action(cursor)]
    while cursor.accept(","):
        actions.append(_action(cursor))
        _check_count(len(actions))
    return tuple(actions)


def _action(cursor: Cursor) -> _ColumnAction:
    for word, read in _ACTIONS.items():
        if not cursor.peek(word, "TO") and cursor.accept(word):
            cursor.accept("COLUMN")
            return read(cursor)
    raise cursor.error(_LISTED)


def _altered_action(cursor: Cursor) -> _ColumnAction:
    path = _path(cursor)
    if cursor.accept("SET", "NOT", "NULL"):
        return SetNullableAction(path, nullable=False)
    if cursor.accept("DROP", "NOT", "NULL"):
        return SetNullableAction(path, nullable=True)
    if cursor.accept("COMMENT"):
        return CommentColumnAction(
            path, None if cursor.accept("NULL") else cursor.string("a comment in quotes, or NULL")
        )
    if cursor.accept("SET", "DEFAULT"):
        value = _default(cursor)
        return SetDefaultAction(path, None if value.upper() == "NULL" else value)
    if cursor.accept("DROP", "DEFAULT"):
        return SetDefaultAction(path, None)
    if cursor.accept("FIRST"):
        return MoveColumnAction(path, None)
    if cursor.accept("AFTER"):
        return MoveColumnAction(path, cursor.name("the name of a column"))
    cursor.accept("SET", "DATA")
    if not cursor.accept("TYPE"):
        raise cursor.error(
            "TYPE, SET DATA TYPE, SET NOT NULL, DROP NOT NULL, SET DEFAULT, DROP DEFAULT, FIRST, AFTER or COMMENT"
        )
    kind = cursor.type(",", "USING")
    if not kind:
        raise cursor.error(f"the type of column {show_path(path)!r}")
    return RetypeColumnAction(path, kind)


def _default(cursor: Cursor) -> str:
    value = cursor.until(",", "COMMENT")
    if not value:
        raise cursor.error("a value")
    return value


def _path(cursor: Cursor) -> Path:
    """Read the path of a column or a nested field: names separated by dots."""
    names = [cursor.name("the name of a column")]
    while cursor.accept("."):
        names.append(cursor.name("the name of a column"))
    return tuple(names)


_ACTIONS: Mapping[str, Callable[[Cursor], _ColumnAction]] = MappingProxyType(
    {
        "ADD": AddColumnAction.read,
        "DROP": DropColumnAction.read,
        "RENAME": RenameColumnAction.read,
        "ALTER": _altered_action,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentStatement(HistoryAlteration):
    """COMMENT ON TABLE t IS 'text', COMMENT ON COLUMN t.c IS 'text'; NULL removes the comment."""

    forms = ("COMMENT ON TABLE", "COMMENT ON COLUMN")

    table: TableRef
    column: str | None
    text: str | None

    @classmethod
    def read(cls, cursor: Cursor) -> CommentStatement:
        if cursor.last == "COLUMN":
            table, column = references.column(cursor)
        else:
            table, column = references.table(cursor), None
        cursor.expect("IS")
        text = None if cursor.accept("NULL") else cursor.string("a comment in quotes, or NULL")
        return cls(table=table, column=column, text=text)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        about = "table" if self.column is None else f"column {self.column}"
        annotate(table, CommentOn(self.column, self.text), operation=f"comment on {about}")


@dataclass(frozen=True, slots=True)
class SetMetadata(HistoryAlteration):
    """ALTER TABLE t SET METADATA [REPLACE] [COLUMN c] ('key' = 'text', …), …: NULL removes a key, and REPLACE all others."""

    forms = ("ALTER TABLE t SET METADATA",)

    table: TableRef
    notes: tuple[Notes, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> SetMetadata:
        notes = [_notes(cursor)]
        while cursor.accept(","):
            notes.append(_notes(cursor))
            _check_count(len(notes))
        return cls(table, tuple(notes))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        annotate(table, SetNotes(self.notes), operation="set metadata")


def _notes(cursor: Cursor) -> Notes:
    replaces = cursor.accept("REPLACE")
    column = cursor.name("the name of a column") if cursor.accept("COLUMN") else None
    return Notes(column, read_notes(cursor), replaces)


@dataclass(frozen=True, slots=True)
class AddPrimaryKey(HistoryAlteration):
    """ALTER TABLE t ADD [CONSTRAINT name] PRIMARY KEY (column, …) [NOT ENFORCED]."""

    forms = ("ALTER TABLE t ADD PRIMARY KEY", "ALTER TABLE t ADD CONSTRAINT")

    table: TableRef
    columns: tuple[str, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> AddPrimaryKey:
        if cursor.last == "KEY":
            cursor.at -= 2
        else:
            cursor.name("the name of the constraint")
        return cls(table, primary_key(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        annotate(table, SetPrimaryKey(self.columns), operation=f"add primary key {', '.join(self.columns)}")


@dataclass(frozen=True, slots=True)
class DropPrimaryKey(HistoryAlteration):
    """ALTER TABLE t DROP PRIMARY KEY."""

    forms = ("ALTER TABLE t DROP PRIMARY KEY",)

    table: TableRef

    @classmethod
    def read(cls, _: Cursor, table: TableRef) -> DropPrimaryKey:
        return cls(table)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        annotate(table, SetPrimaryKey(()), operation="drop primary key")
