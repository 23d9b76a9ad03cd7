"""Statements that maintain a table: CREATE INDEX and DROP INDEX, and one for each operation of the table of operations.

An operation returns what it did as rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

from lance_flight.catalog.bulk.pieces import Watch, work_beside_queries
from lance_flight.catalog.maintenance.indexing import (
    create_index,
    drop_index,
)
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import Table, require_partitions
from lance_flight.catalog.tables.indices import IndexRules, indices_of
from lance_flight.engine.operations import DOING, OperationWork
from lance_flight.engine.query.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import Cursor, TableRef, read_bracketed_options, table_name
from lance_flight.engine.statements.kinds import (
    Changes,
    ChangeStatement,
    MaintenanceStatement,
    MaintenanceWork,
    Required,
    TableStatement,
    on,
)
from lance_flight.errors import AlreadyExists, InvalidInput, SqlError
from lance_flight.model.index_kinds import OptionValue
from lance_flight.model.operations import OPERATIONS, VALUE, Name, Operation

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


@dataclass(frozen=True, slots=True)
class OperationStatement(MaintenanceStatement):
    """Statement of an operation, by its `name`; `given` are the arguments that its clauses name."""

    name: ClassVar[str]

    table: TableRef
    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef | None = None) -> Self:
        operation = OPERATIONS[cls.name]
        if table is None:
            for word in operation.statement.split()[1:-1]:
                cursor.expect(word)
            if operation.optional_word:
                cursor.accept(operation.optional_word)
            table = references.table(cursor)
        given: dict[str, Any] = {}
        while operation.clauses and not cursor.done:
            given |= _clause(cursor, operation)
        return cls(table, given)

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        yield from MaintenanceStatement.required_privileges(self, own)
        if "where" in self.given and Privilege.SELECT not in self.needs:
            # Which tables a condition leaves tells of their values.
            yield from on(table_name(self.table), Privilege.SELECT)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        operation, does = OPERATIONS[self.name], DOING[self.name]
        rules = does.rules_of(self.given)
        if operation.not_plain:
            require_partitions(table, operation.not_plain)
        beside = work_beside_queries(progress, is_remote=table.store.is_remote)
        work = OperationWork(run=beside.run, progress=beside.progress, add_rows=beside.add_rows, check=beside.check)
        return MaintenanceWork(
            does.schema, lambda: does.run(table, rules, work), is_cancellable=operation.is_cancellable
        )


def _clause(cursor: Cursor, operation: Operation) -> dict[str, Any]:
    """Read a clause of an operation, and return the argument that it names."""
    arguments = [argument for argument in operation.arguments if argument.clause]
    for argument in arguments:
        before, _, unit = argument.clause.partition(VALUE)
        if not cursor.accept(*before.split()):
            continue
        if argument.kind is bool:
            return {argument.name: True}
        if argument.kind is str:
            return {argument.name: cursor.rest()}
        if argument.kind is Name:
            return {argument.name: cursor.name(f"the name of an {argument.name}")}
        number = cursor.number(f"a number of{unit.lower()}")
        if not cursor.accept(unit.strip().removesuffix("S")):
            cursor.expect(unit.strip())
        value = argument.kind(str(number))
        return {argument.name: value if argument.per == 1 else float(number) / argument.per}
    *others, last = [argument.clause.replace(VALUE, "n") for argument in arguments]
    raise cursor.error(f"{', '.join(others)} or {last}" if others else last)


def _statement(name: str, operation: Operation) -> type[OperationStatement]:
    """Return the class of the statement of an operation."""
    words = operation.statement.replace("{table}", "t")
    members = {
        "__slots__": (),
        "__doc__": f"{' '.join([words, *(f'[{clause}]' for clause in operation.clauses.values())])}.",
        "__module__": __name__,
        "name": name,
        "forms": (words if words.startswith("ALTER") else words.split()[0],),
        "needs": tuple(Privilege[privilege] for privilege in operation.privileges),
    }
    return type(operation.procedure.title().replace("_", ""), (OperationStatement,), members)


OPERATION_STATEMENTS = tuple(
    _statement(name, operation) for name, operation in OPERATIONS.items() if operation.statement
)
