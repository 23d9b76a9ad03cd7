"""Tables as a transaction's statements change them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lance_flight.catalog.commits.transaction import TableUpdate, Transaction, removed_rows
from lance_flight.catalog.commits.writer import all_removed, combine_edits, replace_rows, rows_removed
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.table import Table
from lance_flight.engine.query.access import EVERY_ROW, RowPolicy
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes.row_changes import RowDelta
from lance_flight.model.schema import NamespaceSchema

Find: TypeAlias = Callable[[pa.Schema], RowDelta]
"""Function that finds the changes of a statement in a table of these columns."""


@dataclass(frozen=True, slots=True)
class WritableTable:
    """Table as a transaction changes it, restricted by a policy on the written rows.

    Each method returns how many rows were inserted, changed and removed.
    """

    table: Table
    transaction: SqlTransaction
    policy: RowPolicy = EVERY_ROW

    @property
    def keeps_row_ids(self) -> bool:
        """True if a changed row keeps its id."""
        return self.transaction.snapshot(self.table).has_stable_row_ids

    @property
    def columns(self) -> pa.Schema:
        """Return the columns as the transaction sees them."""
        return self.schema.plain

    @property
    def schema(self) -> NamespaceSchema:
        """Return the schema as the transaction sees it."""
        return self.transaction.snapshot(self.table).schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the columns of the primary key as the transaction sees them."""
        return self.schema.primary_key

    def append(self, data: Iterable[pa.Table]) -> int:
        """Add rows, and return their number."""
        inner = self._writing()
        return self.table.write(
            inner, self._check_allowed(inner.snapshot, data), evaluate, check=self.transaction.check
        )

    def overwrite(self, data: Iterable[pa.Table], *, whole: bool = False) -> int:
        """Replace the rows of the partitions that the data falls into, or all rows of a plain table, or of the `whole` table."""
        inner = self._writing()
        come = self._check_allowed(inner.snapshot, data)
        self._check_overwritten(inner.snapshot)
        return self.overwrite_by(
            self.table.write_files(inner.snapshot, come, evaluate, check=self.transaction.check), whole=whole
        )

    def _check_overwritten(self, snapshot: Snapshot) -> None:
        self.policy.check_whole_partitions(snapshot)
        # Rows under older specs are read, and errors name their values: none may be there that the policy hides.
        self.policy.visible(snapshot)

    def overwrite_by(self, written: Sequence[TableUpdate], *, whole: bool = False) -> int:
        """Replace rows as `overwrite` does, by rows that are in files already."""
        table, inner = self.table, self._writing()
        self._check_overwritten(inner.snapshot)
        count = sum(edit.rows for edit in written)
        with table.discarding(inner.snapshot, written):
            room = (
                replace_rows(table.store, inner.snapshot, written, evaluate)
                if table.is_partitioned and not whole
                else all_removed(table.store, inner.snapshot, inner.snapshot.all_tables())
            )
        gone = removed_rows(room)
        if whole:
            # What others add meanwhile, be it a new partition, belongs to the table that is replaced.
            inner.read(inner.snapshot.table_ids)
        what = "the table" if whole else f"{len(written)} partitions"
        inner.add(combine_edits([*room, *written]), f"overwrite {what} with {count} rows in place of {gone}")
        return count + gone

    def take(self, files: Sequence[TableUpdate], find: Find | None = None) -> int:
        """Add rows that are in files already, in place of those that a query finds; return the number of both."""
        inner = self._writing()
        count, gone, did = sum(edit.rows for edit in files), 0, "append"
        edits = combine_edits(files)
        if find is not None:
            changes = find(self.columns)
            deque(changes, maxlen=0)
            room = rows_removed(self.table.store, inner.snapshot, changes.by_table)
            edits, gone, did = combine_edits([*room, *files]), removed_rows(room), "write"
        if edits:
            replaced = f" in place of {gone}" * (find is not None)
            inner.add(edits, f"{did} {count} rows{replaced} in {len(edits)} partitions")
        return count + gone

    def truncate(self) -> int:
        """Remove all rows, and return their number."""
        inner = self._writing()
        edits = all_removed(self.table.store, inner.snapshot, inner.snapshot.all_tables())
        if edits:
            inner.add(edits, f"truncate {removed_rows(edits)} rows in {len(edits)} partitions")
        return removed_rows(edits)

    def change(self, find: Find) -> int:
        """Apply the changes that a statement finds in the table."""
        table, inner = self.table, self._writing()
        changes = find(self.columns)
        come = self._check_allowed(inner.snapshot, changes)
        written = table.write_files(
            inner.snapshot, come, evaluate, number_of=changes.number_of, check=self.transaction.check
        )
        with table.discarding(inner.snapshot, written):
            gone = rows_removed(table.store, inner.snapshot, changes.by_table)
        edits = combine_edits([*gone, *written])
        if edits:
            inner.add(edits, f"{changes.kind.lower()} {changes.count} rows in {len(edits)} partitions")
        return changes.count

    def _check_allowed(self, snapshot: Snapshot, data: Iterable[pa.Table]) -> Iterable[pa.Table]:
        return self.policy.check_rows(data, snapshot.schema.plain, snapshot.schema.defaults)

    def _writing(self) -> Transaction:
        """Return the transaction on the table, begun if necessary."""
        if not self.table.is_partitioned:
            self.policy.check_unpartitioned()
        return self.transaction.writing(self.table)
