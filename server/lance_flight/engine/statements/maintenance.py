"""The statements of the operations that maintain a table, made of the table of operations; each returns what it did as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from lance_flight.catalog.bulk.pieces import Watch, work_beside_queries
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import Table, require_partitions
from lance_flight.engine.operations import DOING, OperationWork
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork, Required, on
from lance_flight.model.operations import OPERATIONS, VALUE, Name, Operation


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
