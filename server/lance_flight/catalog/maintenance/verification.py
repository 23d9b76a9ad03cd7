"""Verification of a version: its files, checksums, and every row against its partition.

Spec: Partitioning (the rows of a partition table all have its values); pruning and joins rest on that. Reads everything, and
changes nothing.

An older release computed some partition fields otherwise (`Snapshot.doubtful_fields`): until each table has been looked
through once, nothing is pruned by these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.bulk.pieces import BY_THREADS, PieceWork
from lance_flight.catalog.commits.removals import rows_removed
from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.manifests.snapshot import DERIVED_VALUES, PartitionContext, PartitionTable, Snapshot
from lance_flight.catalog.storage.names import ROW_ADDRESS
from lance_flight.catalog.storage.retries import MOVE_ROWS, retry
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import DATA, INDICES, damage_of, deletion_damage, index_damage
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import all_segments
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import Source, source_of
from lance_flight.errors import Conflict, Corrupt, LanceFlightError, SerializationFailure
from lance_flight.model.checksums import Checksum
from lance_flight.model.grouping import match
from lance_flight.model.naming import MANIFEST
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, PartitionField

VERIFICATION_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.utf8(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("checksum", pa.utf8(), nullable=False),
        pa.field("misplaced_rows", pa.int64(), nullable=False),
        pa.field("problem", pa.utf8()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedTable:
    """One partition table: its rows, how many of them belong elsewhere, and what is wrong with the first, or with the table."""

    object_id: str
    checksum: Checksum
    misplaced: int = 0
    problem: str | None = None

    @property
    def is_sound(self) -> bool:
        """True if all rows could be read, and are where they belong."""
        return self.problem is None and not self.misplaced

    def __str__(self) -> str:
        elsewhere = f"{self.misplaced:,} rows belong elsewhere; " if self.misplaced else ""
        return f"{self.object_id}: {elsewhere}{self.problem or 'sound'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport(OperationReport):
    """Report of the verification of one snapshot, table by table, and its differences from a backup."""

    snapshot: int
    tables: tuple[VerifiedTable, ...]
    reads_rows: bool = True
    differences: tuple[str, ...] = ()

    @property
    def checksum(self) -> Checksum:
        """Checksum of all rows, which stays the same through operations that move rows and change none."""
        return sum((table.checksum for table in self.tables), Checksum())

    @property
    def unsound(self) -> list[VerifiedTable]:
        """The tables with which something is wrong."""
        return [table for table in self.tables if not table.is_sound]

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong in any table."""
        return not self.unsound and not self.differences

    @property
    def as_table(self) -> pa.Table:
        """One row for each partition table."""
        return pa.Table.from_pylist([_row(table) for table in self.tables], schema=VERIFICATION_SCHEMA)

    @property
    def lines(self) -> list[str]:
        return [
            *map(str, self.unsound),
            *(f"[{Corrupt.code}] {difference}" for difference in self.differences),
            str(self),
        ]

    def __str__(self) -> str:
        outcome = f"{len(self.unsound):,} not sound" if self.unsound else "all sound"
        if not self.reads_rows:
            return f"snapshot {self.snapshot}, data files of {len(self.tables):,} tables: {outcome}"
        return (
            f"snapshot {self.snapshot}, {self.checksum.rows:,} rows in {len(self.tables):,} partition tables,"
            f" checksum {self.checksum}: {outcome}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One partition table, and what its rows must have as their values: one row, by the columns of `fields`."""

    root: Store
    table: PartitionTable
    fields: tuple[PartitionField, ...]
    values: pa.Table
    schema: NamespaceSchema
    evaluate: Evaluate
    reads_rows: bool = True

    def run(self) -> VerifiedTable:
        """Read and verify the whole table."""
        checksum, misplaced, problem = Checksum(), 0, None
        try:
            problem = self._damage()
            for batch in self._rows() if self.reads_rows else ():
                checksum += Checksum.of([batch])
                wrong = self._find_misplaced_rows(batch)
                misplaced += len(wrong)
                if len(wrong) and problem is None:
                    problem = self._describe_row(batch.slice(int(wrong[0]), 1))
        except LanceFlightError as exc:
            problem = str(exc)
        except UNREADABLE as exc:
            problem = self.root.words(exc)
        return VerifiedTable(object_id=self.table.object_id, checksum=checksum, misplaced=misplaced, problem=problem)

    def _damage(self) -> str | None:
        """Return what is wrong with the first data file of the table that is not as it was written; None where all are."""
        if self.root.is_remote:
            return None
        pin = partitions.resolve(self.root.child(self.table.location), self.table.pin)
        dataset = partitions.open_at(self.root.child(self.table.location).uncached, pin)
        return damage_of_version(self.root, dataset, partitions.places_of_data(dataset, self.table.location, pin))

    def undo(self, result: VerifiedTable) -> None:
        """Do nothing: verification writes nothing."""

    def _rows(self) -> Iterator[pa.RecordBatch]:
        plain = self.schema.plain
        scan = Scan(source=plain, schema=plain, ids=self.schema.ids)
        store = self.root.child(self.table.location).uncached
        context = PartitionContext(self.schema, self.table.identity)
        return scan.read([lambda: [Source(partitions.open_at(store, self.table.pin), contexts=(context,))]])

    def _find_misplaced_rows(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the rows whose partition values are not the table's."""
        if not self.fields:
            return np.zeros(0, np.int64)
        return np.flatnonzero(match(self._values(batch), self.values) < 0)

    def _values(self, batch: pa.RecordBatch) -> pa.Table:
        return partition_values(pa.Table.from_batches([batch]), self.fields, self.schema.source_paths, self.evaluate)

    def _describe_row(self, row: pa.RecordBatch) -> str:
        values, expected = (
            ", ".join(map(str, value.to_pylist()[0].values())) for value in (self._values(row), self.values)
        )
        names = ", ".join(field.field_id for field in self.fields)
        return f"a row has {names} = {values}; expected {expected}"


def verify(
    namespace: Table,
    evaluate: Evaluate,
    snapshot: Snapshot | None = None,
    work: PieceWork = BY_THREADS,
    *,
    reads_rows: bool = True,
) -> VerificationReport:
    """Check the data files of a snapshot (None: the newest one), read all rows, and report what is wrong.

    Without `reads_rows` nothing but the size and the checksum of each file is looked at.

    A partition field one of whose columns was dropped cannot be computed, and is not looked at.
    """
    newest = namespace.snapshot()
    checked = newest if snapshot is None else snapshot
    with namespace.hold(checked, is_newest=checked.version == newest.version):
        checks = [replace(check, reads_rows=reads_rows) for check in _checks(namespace.store, checked, evaluate)]
        tables = work.do(checks, 0, len(checks), len(checks))
        tables += _manifest(namespace, checked)
    return VerificationReport(snapshot=checked.version, tables=tuple(tables), reads_rows=reads_rows)


def _manifest(namespace: Table, snapshot: Snapshot) -> Iterator[VerifiedTable]:
    """Yield what is wrong with the files of the rows of `__manifest`."""
    if not namespace.is_partitioned or namespace.branch is not None or namespace.store.is_remote:
        return
    dataset = namespace.log.open(snapshot.version)
    problem = damage_of_version(namespace.store, dataset, {None: f"{MANIFEST}/{DATA}"})
    if problem is not None:
        yield VerifiedTable(object_id=MANIFEST, checksum=Checksum(), problem=problem)


def damage_of_version(root: Store, dataset: LanceDataset, places: Mapping[int | None, str]) -> str | None:
    """Return what is wrong with the first data file of a version that is not as it was written; None where all are."""
    for fragment in dataset.get_fragments():
        for file in fragment.metadata.files:
            damage = damage_of(Path(root.uri, places[file.base_id], file.path), file.file_size_bytes)
            if damage is not None:
                return f"[{Corrupt.code}] data file {damage}"
        deletions = fragment.metadata.deletion_file
        if deletions is not None:
            above = PurePosixPath(places[deletions.base_id]).parent
            damage = deletion_damage(Path(root.uri, above, deletions.path(fragment.fragment_id)), deletions.id)
            if damage is not None:
                return f"[{Corrupt.code}] deletion file {damage}"
    for segment in all_segments(dataset):
        damage = index_damage(Path(root.uri, PurePosixPath(places[segment.base_id]).parent, INDICES, segment.uuid))
        if damage is not None:
            return f"[{Corrupt.code}] index segment {damage}; DROP INDEX and CREATE INDEX build it anew"
    return None


def _checks(root: Store, snapshot: Snapshot, evaluate: Evaluate) -> Iterator[Check]:
    known = snapshot.schema.sources.keys()
    for tables in snapshot.tables:
        fields = tuple(field for field in tables.spec.fields if known >= set(field.source_ids))
        values = tables.values.select([field.column for field in fields])
        for place, table in enumerate(tables.tables()):
            yield Check(
                root=root,
                table=table,
                fields=fields,
                # A slice would be pickled with all that it was cut from.
                values=values.take([place]),
                schema=snapshot.schema,
                evaluate=evaluate,
            )


def _row(table: VerifiedTable) -> dict[str, object]:
    return {
        "object_id": table.object_id,
        "rows": table.checksum.rows,
        "checksum": str(table.checksum),
        "misplaced_rows": table.misplaced,
        "problem": table.problem,
    }


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
    moved = [rewritten_tables for name in names if (rewritten_tables := _move(namespace, name, evaluate)) is not None]
    # A branch has the metadata with which it began; rows of its own may lie elsewhere.
    if namespace.branch is None:
        with suppress(Conflict):
            namespace.log.update_metadata(namespace.snapshot(), {DERIVED_VALUES: str(True)})
    return moved


def _move(namespace: PartitionedNamespace, name: str, evaluate: Evaluate) -> RewrittenTables | None:
    (moved,) = retry(
        MOVE_ROWS, namespace.store.name, lambda _: [_moved_column(namespace, name, evaluate)], on=SerializationFailure
    )
    return moved


def _moved_column(namespace: PartitionedNamespace, name: str, evaluate: Evaluate) -> RewrittenTables | None:
    """Move the misplaced rows of one table; None where it has none, or is not there any more."""
    transaction = namespace.begin()
    snapshot, root = transaction.base, namespace.store
    table = snapshot.tables_named([name]).get(name)
    if table is None:
        return None
    misplaced = _Misplaced(root, snapshot, table, evaluate)
    written = namespace.write_files(snapshot, misplaced.rows(), evaluate, is_stored=True)
    if not written:
        return None
    with namespace.discarding(snapshot, written):
        gone = rows_removed(root, snapshot, {table: np.concatenate(misplaced.addresses)})
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
        own = self.snapshot.row(self.table.object_id).select([field.column for field in fields])
        scan = Scan(source=plain, schema=plain.append(pa.field(ROW_ADDRESS, pa.uint64())), ids=self.snapshot.schema.ids)
        for batch in scan.read([lambda: [source_of(self.root, self.snapshot, self.table)]]):
            rows = pa.Table.from_batches([batch])
            values = partition_values(rows, fields, self.snapshot.schema.source_paths, self.evaluate)
            wrong = rows.filter(pa.array(match(values, own) < 0))
            if wrong.num_rows:
                self.addresses.append(wrong[ROW_ADDRESS].to_numpy())
                yield wrong.drop_columns([ROW_ADDRESS])
