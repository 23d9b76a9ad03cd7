"""ALTER TABLE … CREATE BRANCH, DROP BRANCH and PUBLISH BRANCH."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from lance_flight.catalog.evolving.publication import publish
from lance_flight.catalog.namespace import PartitionedNamespace, partitioned
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.sql.time_travel import Point, naming, read_as_of
from lance_flight.engine.statements.alterations.alteration import HistoryAlteration
from lance_flight.engine.statements.changes import Changes


class _BranchAlteration(HistoryAlteration):
    """Alteration of the branches of a table, independent of the session's branch."""

    __slots__ = ()

    def root_of(self, changes: Changes) -> Root:
        return changes.root.on_branch(None)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        self.alter_branches(name, partitioned(table, "has no branches"))

    @abstractmethod
    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        """Execute the alteration."""


@dataclass(frozen=True, slots=True)
class CreateBranch(_BranchAlteration):
    """ALTER TABLE t CREATE BRANCH name [AS OF point]."""

    forms = ("ALTER TABLE t CREATE BRANCH",)

    table: TableRef
    branch: str
    at: Point | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> CreateBranch:
        branch, at = _branch(cursor), read_as_of(cursor)
        return cls(table, branch, at)

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        with naming(name, self.at):
            table.create_branch(self.branch, self.at)


@dataclass(frozen=True, slots=True)
class DropBranch(_BranchAlteration):
    """ALTER TABLE t DROP BRANCH name."""

    forms = ("ALTER TABLE t DROP BRANCH",)

    table: TableRef
    branch: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DropBranch:
        return cls(table, _branch(cursor))

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        table.drop_branch(self.branch)


@dataclass(frozen=True, slots=True)
class PublishBranch(_BranchAlteration):
    """ALTER TABLE t PUBLISH BRANCH name."""

    forms = ("ALTER TABLE t PUBLISH BRANCH",)
    # The partitions that two branches have changed are named.
    needs = (Privilege.SELECT,)

    table: TableRef
    branch: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> PublishBranch:
        return cls(table, _branch(cursor))

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        publish(table, self.branch)


def _branch(cursor: Cursor) -> str:
    return cursor.word("the name of a branch")
