"""Tables as the statements of a transaction change them: a partitioned one by edits, a plain one by a commit of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from lance_flight.catalog.commits.removals import all_removed, combined, replaced, rows_removed
from lance_flight.catalog.commits.table_updates import removed_rows
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import PLAIN_SUFFIX, Table
from lance_flight.catalog.roots.plain import PlainTable
from lance_flight.catalog.roots.plain_changes import replace_rows
from lance_flight.engine.query.policies.rows import EVERY_ROW, RowPolicy
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.functions import evaluate
from lance_flight.engine.writes.row_delta import RowDelta
from lance_flight.errors import Unsupported

Find: TypeAlias = Callable[[pa.Schema], RowDelta]
"""Finds what a statement changes in a table of these columns."""


class WritableTable(Protocol):
    """A table that is written; each method returns how many rows were inserted, changed and removed."""

    def append(self, data: Iterable[pa.Table]) -> int:
        """More rows."""
        ...

    def overwrite(self, data: Iterable[pa.Table]) -> int:
        """Rows in place of all that lies in the partitions they fall into, or in place of a whole plain table."""
        ...

    def truncate(self) -> int:
        """No rows any more."""
        ...

    def change(self, find: Find) -> int:
        """Return what a statement finds, carried out."""
        ...


def writable(table: Table, transaction: SqlTransaction, policy: RowPolicy = EVERY_ROW) -> WritableTable:
    """A table as a transaction changes it, as far as a policy allows the rows that come."""
    match table:
        case PartitionedNamespace():
            return _Partitioned(table, transaction, policy)
        case PlainTable():
            return _Plain(table, transaction, policy)


def keeps_row_ids(table: Table, transaction: SqlTransaction) -> bool:
    """Return whether a row that is changed keeps its id."""
    if isinstance(table, PartitionedNamespace):
        return transaction.snapshot(table).has_stable_row_ids
    return bool(table.open(transaction.version(table)).has_stable_row_ids)


def columns(table: Table, transaction: SqlTransaction) -> pa.Schema:
    """The columns of a table as a transaction sees them."""
    if isinstance(table, PartitionedNamespace):
        return transaction.snapshot(table).schema.plain
    return pa.schema([field.remove_metadata() for field in table.open(transaction.version(table)).schema])


@dataclass(frozen=True, slots=True)
class _Partitioned:
    table: PartitionedNamespace
    transaction: SqlTransaction
    policy: RowPolicy

    def append(self, data: Iterable[pa.Table]) -> int:
        inner = self.transaction.writing(self.table)
        return self.table.write(inner, self._allowed(inner.snapshot, data), evaluate)

    def overwrite(self, data: Iterable[pa.Table]) -> int:
        table, inner = self.table, self.transaction.writing(self.table)
        self.policy.check_whole_partitions(inner.snapshot)
        # Rows under older specs are read, and errors name their values: none may be there that the policy hides.
        self.policy.visible(inner.snapshot)
        written = table.written(inner.snapshot, self._allowed(inner.snapshot, data), evaluate)
        count = sum(edit.rows for edit in written)
        with table.discarding(inner.snapshot, written):
            room = replaced(table.store, inner.snapshot, written, evaluate)
        gone = removed_rows(room)
        inner.add(
            combined([*room, *written]), f"overwrite {len(written)} partitions with {count} rows in place of {gone}"
        )
        return count + gone

    def truncate(self) -> int:
        inner = self.transaction.writing(self.table)
        edits = all_removed(self.table.store, inner.snapshot, inner.snapshot.all_tables())
        if edits:
            inner.add(edits, f"truncate {removed_rows(edits)} rows in {len(edits)} partitions")
        return removed_rows(edits)

    def change(self, find: Find) -> int:
        table, inner = self.table, self.transaction.writing(self.table)
        changes = find(columns(table, self.transaction))
        come = self._allowed(inner.snapshot, changes)
        written = table.written(inner.snapshot, come, evaluate, number_of=changes.number_of)
        with table.discarding(inner.snapshot, written):
            gone = rows_removed(table.store, inner.snapshot, changes.by_table)
        edits = combined([*gone, *written])
        if edits:
            inner.add(edits, f"{changes.kind.lower()} {changes.count} rows in {len(edits)} partitions")
        return changes.count

    def _allowed(self, snapshot: Snapshot, data: Iterable[pa.Table]) -> Iterable[pa.Table]:
        return self.policy.checked(data, snapshot.schema.plain, snapshot.schema.defaults)


@dataclass(frozen=True, slots=True)
class _Plain:
    table: PlainTable
    transaction: SqlTransaction
    policy: RowPolicy

    def append(self, data: Iterable[pa.Table]) -> int:
        self._check()
        return self.table.append(data)

    def overwrite(self, data: Iterable[pa.Table]) -> int:
        self._check()
        new = list(data)
        gone = replace_rows(self.table.store, int(self.table.open().version), None, new)
        return gone + sum(int(part.num_rows) for part in new)

    def truncate(self) -> int:
        self._check()
        return replace_rows(self.table.store, int(self.table.open().version), None, ())

    def change(self, find: Find) -> int:
        self._check()
        version = self.transaction.version(self.table)
        changes = find(columns(self.table, self.transaction))
        come = list(changes)
        replace_rows(self.table.store, version, changes.addresses, come)
        return changes.count

    def _check(self) -> None:
        """Refuse what a plain table cannot do: policies of rows, branches, and commits together with others."""
        self.policy.check_unpartitioned()
        self.transaction.check_branch(self.table)
        if self.transaction.explicit and not self.transaction.is_draft(self.table):
            raise Unsupported(
                f"table {self.table.store.name.removesuffix(PLAIN_SUFFIX)!r} is not partitioned and cannot be written"
                " inside a transaction; commit first"
            )
