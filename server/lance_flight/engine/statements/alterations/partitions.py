"""ALTER TABLE over whole partitions: DROP PARTITION, ATTACH TABLE, DETACH PARTITION."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.statements.alterations.alteration import NOT_ALTERED, Alteration
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import MAKING, REMOVING, Required, on
from lance_flight.engine.writes.partition_changes import attach_table, detach_partition, drop_partition, plain_name
from lance_flight.engine.writes.partition_values import PartitionValue, partition_values
from lance_flight.errors import Unsupported


@dataclass(frozen=True, slots=True)
class DropPartition(Alteration):
    """ALTER TABLE t DROP PARTITION (field = value, …)."""

    forms = ("ALTER TABLE t DROP PARTITION",)
    frees_room = True
    needs = REMOVING

    table: TableRef
    values: tuple[PartitionValue, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DropPartition:
        return cls(table, partition_values(cursor))

    def run(self, changes: Changes) -> int:
        changes.check_alone(NOT_ALTERED)
        return changes.together(partial(drop_partition, table_name(self.table), self.values))


@dataclass(frozen=True, slots=True)
class AttachTable(Alteration):
    """ALTER TABLE t ATTACH TABLE 'path' PARTITION (field = value, …) [TRUSTED]."""

    forms = ("ALTER TABLE t ATTACH TABLE",)
    # The error for an existing partition reveals that it exists.
    needs = (Privilege.INSERT, Privilege.SELECT)

    table: TableRef
    path: str
    values: tuple[PartitionValue, ...]
    trusted: bool = False

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> AttachTable:
        path = cursor.text_or_name("the name of a table, or its path")
        cursor.expect("PARTITION")
        values = partition_values(cursor)
        trusted = cursor.accept("TRUSTED")
        return cls(table, path, values, trusted)

    def also(self, name: TableName) -> Iterable[Required]:
        return on(plain_name(self.path), Privilege.DDL, *REMOVING)

    def run(self, changes: Changes) -> int:
        changes.begin_steps(NOT_ALTERED)
        name = table_name(self.table)
        _check_lasting(changes.root, name, plain_name(self.path))
        return attach_table(changes.root, name, self.path, self.values, trusted=self.trusted)


@dataclass(frozen=True, slots=True)
class DetachPartition(Alteration):
    """ALTER TABLE t DETACH PARTITION (field = value, …) [TO name]."""

    forms = ("ALTER TABLE t DETACH PARTITION",)
    needs = REMOVING

    table: TableRef
    values: tuple[PartitionValue, ...]
    to: str | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DetachPartition:
        values = partition_values(cursor)
        to = cursor.text_or_name("the name of a new table") if cursor.accept("TO") else None
        return cls(table, values, to)

    def also(self, name: TableName) -> Iterable[Required]:
        return () if self.to is None else on(TableName(name.db_schema, self.to), *MAKING)

    def run(self, changes: Changes) -> int:
        changes.begin_steps(NOT_ALTERED)
        name = table_name(self.table)
        _check_lasting(changes.root, name)
        check_target = partial(changes.access.check_all_rows, Privilege.INSERT)
        return detach_partition(changes.root, name, self.values, self.to, check_target)


def _check_lasting(root: Root, *moved: TableName) -> None:
    """Refuse to move rows between temporary and lasting tables as files."""
    for each in moved:
        if root.is_temporary(each):
            raise Unsupported(f"table {each.name!r} is temporary, and neither gives partitions away nor becomes one")
