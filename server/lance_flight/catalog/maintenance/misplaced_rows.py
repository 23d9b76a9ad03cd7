"""Moving rows of the current spec that lie under partition values other than their own to the right tables.

An older release computed some partition fields otherwise (`Snapshot.doubtful_fields`): until each table has been looked
through once, nothing is pruned by these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lance_flight.catalog.commits.removals import rows_removed
from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.manifests.properties import DERIVED_VALUES
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.storage.addresses import ROW_ADDRESS
from lance_flight.catalog.storage.retries import MOVE_ROWS, retry
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables.pinned_tables import source_of
from lance_flight.catalog.tables.scan import Scan
from lance_flight.errors import Conflict, SerializationFailure
from lance_flight.model.grouping import match
from lance_flight.model.spec import Evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenTables:
    """One commit: the snapshot that it made, the tables that it took away, those that have their rows now, and how many."""

    snapshot: int
    tables_before: int
    tables_after: int
    rows: int


def move_misplaced(namespace: PartitionedNamespace, evaluate: Evaluate) -> list[RewrittenTables]:
    """Search the tables of the current spec, move rows that lie under wrong values, and record that none does any more.

    One commit for each table that has such rows. `SerializationFailure` where others keep changing it.
    """
    snapshot = namespace.begin().base
    if not snapshot.doubtful_fields:
        return []
    names = snapshot.tables_of(snapshot.current_spec.id).rows["object_id"].to_pylist()
    moved = [found for name in names if (found := _move(namespace, name, evaluate)) is not None]
    # A branch has the metadata with which it began; rows of its own may lie elsewhere.
    if namespace.branch is None:
        with suppress(Conflict):
            namespace.manifest.update_metadata(namespace.snapshot(), {DERIVED_VALUES: str(True)})
    return moved


def _move(namespace: PartitionedNamespace, name: str, evaluate: Evaluate) -> RewrittenTables | None:
    (moved,) = retry(
        MOVE_ROWS, namespace.store.name, lambda _: [_moved(namespace, name, evaluate)], on=SerializationFailure
    )
    return moved


def _moved(namespace: PartitionedNamespace, name: str, evaluate: Evaluate) -> RewrittenTables | None:
    """Move the misplaced rows of one table; None where it has none, or is not there any more."""
    transaction = namespace.begin()
    snapshot, root = transaction.base, namespace.store
    table = snapshot.tables_named([name]).get(name)
    if table is None:
        return None
    found = _Misplaced(root, snapshot, table, evaluate)
    written = namespace.written(snapshot, found.rows(), evaluate, is_stored=True)
    if not written:
        return None
    with namespace.discarding(snapshot, written):
        gone = rows_removed(root, snapshot, {table: np.concatenate(found.addresses)})
    rows = sum(edit.rows for edit in written)
    transaction.add([*gone, *written], f"rewrite {rows} rows of 1 partitions into {len(written)}")
    with namespace.changing(transaction):
        version = namespace.commits.commit(transaction)
    return RewrittenTables(snapshot=version, tables_before=0, tables_after=len(written), rows=rows)


@dataclass(slots=True)
class _Misplaced:
    """Rows of one table with partition values that are not the table's; `addresses` of those that were read so far."""

    root: Store
    snapshot: Snapshot
    table: PartitionTable
    evaluate: Evaluate
    addresses: list[np.ndarray] = field(default_factory=list)

    def rows(self) -> Iterator[pa.Table]:
        """Read the rows, batch by batch."""
        plain, fields = self.snapshot.schema.plain, self.snapshot.spec(self.table.spec_id).fields
        own = self.snapshot.row(self.table.object_id).select([each.column for each in fields])
        scan = Scan(source=plain, schema=plain.append(pa.field(ROW_ADDRESS, pa.uint64())), ids=self.snapshot.schema.ids)
        for batch in scan.read([lambda: [source_of(self.root, self.snapshot, self.table)]]):
            rows = pa.Table.from_batches([batch])
            values = partition_values(rows, fields, self.snapshot.schema.source_paths, self.evaluate)
            wrong = rows.filter(pa.array(match(values, own) < 0))
            if wrong.num_rows:
                self.addresses.append(wrong[ROW_ADDRESS].to_numpy())
                yield wrong.drop_columns([ROW_ADDRESS])
