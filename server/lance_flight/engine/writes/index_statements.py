"""CREATE INDEX, DROP INDEX and REINDEX: what they say, read token by token, and their doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.indexing import (
    IndexingReport,
    create_index,
    drop_index,
    refresh_indices,
)
from lance_flight.catalog.manifests.indices import IndexRules, indices_of
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.engine.sql import references, with_options
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.errors import AlreadyExists, InvalidInput, Unsupported
from lance_flight.model.index_kinds import OptionValue

MIN_ROWS = "min_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIndex:
    """CREATE INDEX [IF NOT EXISTS] [name] ON t (column) [USING kind] [WITH (option = value, …)]."""

    table: TableRef
    column: str
    name: str | None = None
    kind: str = "btree"
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    if_not_exists: bool = False

    @property
    def rules(self) -> IndexRules:
        """The index that it asks for; `min_rows` stands among its options."""
        options = {name: value for name, value in self.options.items() if name != MIN_ROWS}
        least = self.options.get(MIN_ROWS)
        if least is not None and type(least) is not int:
            raise InvalidInput(f"option {MIN_ROWS!r} of an index is {least!r}; expected a number of rows")
        return IndexRules(
            column=self.column,
            kind=self.kind,
            name=self.name,
            options=options,
            min_rows=least,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIndex:
    """DROP INDEX [IF EXISTS] name ON t."""

    table: TableRef
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindex:
    """REINDEX [TABLE] t [INDEX name]: what indices lack of the rows that there are now (`name` None: all indices)."""

    table: TableRef
    name: str | None = None


IndexChange = CreateIndex | DropIndex


def read_create(cursor: Cursor) -> CreateIndex:
    """Read what follows CREATE INDEX."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = None if cursor.accept("ON") else cursor.name("the name of an index, or ON")
    if name is not None:
        cursor.expect("ON")
    table = references.table(cursor)
    cursor.expect("(")
    column = cursor.name("a column name")
    cursor.expect(")")
    kind = cursor.name("the kind of an index") if cursor.accept("USING") else "btree"
    options = with_options.in_brackets(cursor) if cursor.accept("WITH") else {}
    cursor.end()
    return CreateIndex(table=table, column=column, name=name, kind=kind, options=options, if_not_exists=if_not_exists)


def read_drop(cursor: Cursor) -> DropIndex:
    """Read what follows DROP INDEX."""
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the name of an index")
    cursor.expect("ON")
    table = references.table(cursor)
    cursor.end()
    return DropIndex(table=table, name=name, if_exists=if_exists)


def read_reindex(cursor: Cursor) -> Reindex:
    """Read what follows REINDEX."""
    cursor.accept("TABLE")
    table = references.table(cursor)
    name = cursor.name("the name of an index") if cursor.accept("INDEX") else None
    cursor.end()
    return Reindex(table=table, name=name)


def change_index(root: Root, name: TableName, statement: IndexChange, progress: Progress | None = None) -> None:
    """Make an index, or take one away."""
    namespace = _partitioned(root.table(name), name)
    known = {each.name for each in indices_of(namespace.snapshot())}
    match statement:
        case CreateIndex():
            called = statement.rules.called
            if called not in known:
                create_index(namespace, statement.rules, progress)
            elif not statement.if_not_exists:
                raise AlreadyExists(f"table {name.name!r} has an index {called!r}; REINDEX brings it up to date")
        case DropIndex():
            if statement.name in known or not statement.if_exists:
                drop_index(namespace, statement.name)


def reindexed(namespace: PartitionedNamespace, name: str | None, progress: Progress | None = None) -> pa.Table:
    """What was added to an index, or to each of them."""
    reports = refresh_indices(namespace, progress) if name is None else [create_index(namespace, name, progress)]
    return IndexingReport.rows_of(reports)


def _partitioned(table: Table, name: TableName) -> PartitionedNamespace:
    if not isinstance(table, PartitionedNamespace):
        raise Unsupported(f"table {name.name!r} is not partitioned, and gets its indices by Lance's own tools")
    return table
