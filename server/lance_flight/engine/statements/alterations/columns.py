"""ALTER TABLE … ADD, DROP, RENAME and ALTER COLUMN."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.alterations.alteration import HistoryAlteration
from lance_flight.engine.statements.kinds import Required, on
from lance_flight.engine.writes.column_changes import added_column, alter_column, widened_column
from lance_flight.engine.writes.computed_columns import SqlExpression
from lance_flight.model import schema_changes
from lance_flight.model.schema_changes import Path, SchemaChange, SetNullable, dotted


class _ColumnAlteration(HistoryAlteration):
    """Alteration of one column of a table, or of a nested field, given by its path."""

    __slots__ = ()

    path: Path

    @property
    @abstractmethod
    def operation(self) -> str:
        """Return the name of the operation in the table's history."""

    @abstractmethod
    def change(self) -> SchemaChange:
        """Return the change of the schema."""

    @property
    def values(self) -> SqlExpression | None:
        """Return the expression that computes a new column; None without one."""
        return None

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        alter_column(root, name, table, self.change(), operation=self.operation, values=self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumnStatement(_ColumnAlteration):
    """ALTER TABLE t ADD COLUMN path type [NOT NULL] [DEFAULT value | AS (expression)]: all but the path as SQL text."""

    forms = ("ALTER TABLE t ADD COLUMN",)

    table: TableRef
    path: Path
    type: str
    nullable: bool = True
    default: str | None = None
    expression: str | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> AddColumnStatement:
        path = _path(cursor)
        kind = cursor.type(",", "NOT", "NULL", "DEFAULT", "AS")
        if not kind:
            raise cursor.error(f"the type of column {'.'.join(path)!r}")
        nullable = not cursor.accept("NOT", "NULL")
        default = cursor.rest() if cursor.accept("DEFAULT") else None
        expression = cursor.bracketed() if cursor.accept("AS") else None
        return cls(table=table, path=path, type=kind, nullable=nullable, default=default, expression=expression)

    def also(self, name: TableName) -> Iterable[Required]:
        reads = self.expression is not None or (not self.nullable and self.default is None)
        return on(name, Privilege.SELECT) if reads else ()

    @property
    def operation(self) -> str:
        return f"add column {dotted(self.path)}"

    def change(self) -> SchemaChange:
        return added_column(self.path, self.type, nullable=self.nullable, default=self.default)

    @property
    def values(self) -> SqlExpression | None:
        return None if self.expression is None else SqlExpression(self.expression)


@dataclass(frozen=True, slots=True)
class DropColumnStatement(_ColumnAlteration):
    """ALTER TABLE t DROP COLUMN path."""

    forms = ("ALTER TABLE t DROP COLUMN",)

    table: TableRef
    path: Path

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DropColumnStatement:
        return cls(table, _path(cursor))

    @property
    def operation(self) -> str:
        return f"drop column {dotted(self.path)}"

    def change(self) -> SchemaChange:
        return schema_changes.DropColumn(self.path)


@dataclass(frozen=True, slots=True)
class RenameColumnStatement(_ColumnAlteration):
    """ALTER TABLE t RENAME COLUMN path TO name."""

    forms = ("ALTER TABLE t RENAME COLUMN",)
    # Row policies go by the names of columns.
    needs = (Privilege.SELECT,)

    table: TableRef
    path: Path
    name: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> RenameColumnStatement:
        path = _path(cursor)
        cursor.expect("TO")
        name = cursor.name("the new name")
        return cls(table, path, name)

    @property
    def operation(self) -> str:
        return f"rename column {dotted(self.path)} to {self.name}"

    def change(self) -> SchemaChange:
        return schema_changes.RenameColumn(self.path, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumn(_ColumnAlteration):
    """ALTER TABLE t ALTER COLUMN path [SET DATA] TYPE type, as SQL text; or path SET|DROP NOT NULL (`type` None)."""

    forms = ("ALTER TABLE t ALTER COLUMN",)

    table: TableRef
    path: Path
    type: str | None = None
    nullable: bool = True

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> AlterColumn:
        path = _path(cursor)
        if cursor.accept("SET", "NOT", "NULL"):
            found = cls(table=table, path=path, nullable=False)
        elif cursor.accept("DROP", "NOT", "NULL"):
            found = cls(table=table, path=path)
        else:
            cursor.accept("SET", "DATA")
            if not cursor.accept("TYPE"):
                raise cursor.error("TYPE, SET DATA TYPE, SET NOT NULL or DROP NOT NULL")
            found = cls(table=table, path=path, type=cursor.rest())
        return found

    def also(self, name: TableName) -> Iterable[Required]:
        return on(name, Privilege.SELECT) if self.type is not None or not self.nullable else ()

    @property
    def operation(self) -> str:
        what = f"{'drop' if self.nullable else 'set'} not null" if self.type is None else f"type {self.type}"
        return f"alter column {dotted(self.path)} {what}"

    def change(self) -> SchemaChange:
        if self.type is None:
            return SetNullable(self.path, nullable=self.nullable)
        return widened_column(self.path, self.type)


def _path(cursor: Cursor) -> Path:
    """Read the path of a column or a nested field: names separated by dots."""
    names = [cursor.name("the name of a column")]
    while cursor.accept("."):
        names.append(cursor.name("the name of a column"))
    return tuple(names)
