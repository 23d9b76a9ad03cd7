"""Base classes of the forms of ALTER TABLE."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import ClassVar

from lance_flight.catalog.manifests.snapshot import check_in_place
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Access, Privilege
from lance_flight.engine.sql.references import table_name
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import ChangeStatement, Required, TableStatement, on

NOT_ALTERED = "tables are not altered"


class Alteration(TableStatement, ChangeStatement):
    """Form of ALTER TABLE t, which `needs` DDL on the table, and more if rows are read to compute or to check a column."""

    __slots__ = ()

    needs: ClassVar[tuple[Privilege, ...]] = ()
    is_cancellable = True

    @property
    def label(self) -> str:
        return "AlterTable"

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        name = table_name(self.table)
        if name not in own:
            yield from on(name, Privilege.DDL, *self.needs)
            yield from self.also(name)

    def also(self, name: TableName) -> Iterable[Required]:
        """List further privileges: those that depend on the statement's clauses, and those on other tables."""
        return ()


class HistoryAlteration(Alteration):
    """Alteration of a table's name, its columns or its history; it affects no rows."""

    __slots__ = ()

    def run(self, changes: Changes) -> int:
        changes.check_alone(NOT_ALTERED)
        root, name = self.root_of(changes), table_name(self.table)
        table = root.table(name)
        self.check_columns(changes.access, root.governing_table(name))
        check_in_place(name.name, table.snapshot().misplaced)
        changes.cancellation.begin_commit()
        self.alter(root, name, table)
        return 0

    def root_of(self, changes: Changes) -> Root:
        """Return the root in which the table is looked up."""
        return changes.root

    def check_columns(self, access: Access, name: TableName) -> None:
        """Raise `Refused` if the principal could read columns afterwards that it may not read now."""

    @abstractmethod
    def alter(self, root: Root, name: TableName, table: Table) -> None:
        """Execute the alteration."""
