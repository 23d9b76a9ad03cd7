"""CREATE INDEX and DROP INDEX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from lance_flight.catalog.bulk.pieces import work_beside_queries
from lance_flight.catalog.maintenance.indexing import (
    create_index,
    drop_index,
)
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.indices import IndexRules, indices_of
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor, read_bracketed_options
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import ChangeStatement, TableStatement
from lance_flight.errors import AlreadyExists, InvalidInput, SqlError
from lance_flight.model.index_kinds import OptionValue

MIN_ROWS = "min_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIndex(TableStatement, ChangeStatement):
    """CREATE [OR REPLACE] INDEX [IF NOT EXISTS] [name] ON t (column) [USING kind] [WITH (option = value, …)].

    `column` may lead into structs (`a.b`).
    """

    forms = ("CREATE INDEX", "CREATE OR REPLACE INDEX")
    is_cancellable = True
    needs = (Privilege.DDL, Privilege.SELECT)

    table: TableRef
    column: str
    name: str | None = None
    kind: str = "btree"
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    if_not_exists: bool = False
    replaces: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> CreateIndex:
        replaces = any(token.word == "REPLACE" for token in cursor.tokens[: cursor.at])
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        name = None if cursor.accept("ON") else cursor.name("the name of an index, or ON")
        if name is not None:
            cursor.expect("ON")
        table = references.table(cursor)
        cursor.expect("(")
        column = cursor.name("a column name")
        while cursor.accept("."):
            column += f".{cursor.name('the name of a field')}"
        cursor.expect(")")
        kind = cursor.name("the kind of an index") if cursor.accept("USING") else "btree"
        options = read_bracketed_options(cursor) if cursor.accept("WITH") else {}
        if replaces and if_not_exists:
            raise SqlError("CREATE OR REPLACE INDEX takes no IF NOT EXISTS; expected one of them")
        return cls(
            table=table,
            column=column,
            name=name,
            kind=kind,
            options=options,
            if_not_exists=if_not_exists,
            replaces=replaces,
        )

    @property
    def rules(self) -> IndexRules:
        """Return the definition of the index; `min_rows` is among its options."""
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

    def run(self, changes: Changes) -> int:
        changes.check_alone(_NOT_CHANGED)
        namespace, known = _table_and_indices(self.table, changes)
        called = self.rules.called
        if called not in known or self.replaces:
            work = work_beside_queries(changes.watch, is_remote=namespace.store.is_remote)
            build = partial(create_index, namespace, self.rules, work, replaces=self.replaces)
            # A statement that is cancelled is over at once; its work ends at its next check, which tables that are done survive.
            changes.cancellation.run_in_thread(build)
        elif not self.if_not_exists:
            name = table_name(self.table).name
            raise AlreadyExists(f"table {name!r} has an index {called!r}; REINDEX brings it up to date")
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIndex(TableStatement, ChangeStatement):
    """DROP INDEX [IF EXISTS] name ON t."""

    forms = ("DROP INDEX",)
    frees_room = True
    needs = (Privilege.DDL,)
    is_cancellable = True

    table: TableRef
    name: str
    if_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> DropIndex:
        if_exists = cursor.accept("IF", "EXISTS")
        name = cursor.name("the name of an index")
        cursor.expect("ON")
        table = references.table(cursor)
        return cls(table=table, name=name, if_exists=if_exists)

    def run(self, changes: Changes) -> int:
        changes.check_alone(_NOT_CHANGED)
        namespace, known = _table_and_indices(self.table, changes)
        changes.cancellation.begin_commit()
        if self.name in known or not self.if_exists:
            drop_index(namespace, self.name)
        return 0


_NOT_CHANGED = "indices are not made or dropped"


def _table_and_indices(reference: TableRef, changes: Changes) -> tuple[Table, set[str]]:
    """Return a table, and the names of the indices that it has."""
    table = changes.root.table(table_name(reference))
    return table, {definition.name for definition in indices_of(table.snapshot())}
