"""Verification of a version: its files, checksums, and every row against its partition; and repair of what is damaged.

Spec: Partitioning (the rows of a partition table all have its values); pruning and joins rest on that. Verification reads everything,
and changes nothing.

An older release computed some partition fields otherwise (`Snapshot.doubtful_fields`): until each table has been looked
through once, nothing is pruned by these.

Repair leaves damaged versions for the newest readable one, and gives missing partitions up by name. Each kind of damage is looked for by
itself and mended in one commit; rows are never dropped, and a `__manifest` row only where there is nothing left that it could stand for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.bulk.pieces import BY_THREADS, PieceWork
from lance_flight.catalog.commits.writer import all_removed, edit_of, partition_values, rows_removed
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.manifests.snapshot import (
    DERIVED_VALUES,
    PIN_COLUMNS,
    Latest,
    PartitionContext,
    PartitionTable,
    Snapshot,
)
from lance_flight.catalog.manifests.version_log import OPERATION, Revision, commit
from lance_flight.catalog.storage.durability import committing, flush
from lance_flight.catalog.storage.lance_columns import all_rows
from lance_flight.catalog.storage.retries import MOVE_ROWS, conflicts, retry
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import (
    DATA,
    INDICES,
    LENGTH,
    MALFORMED,
    MESSAGES,
    PRIVATE,
    ROW_ADDRESS,
    VERSIONS,
    damage_of,
    deletion_damage,
    index_damage,
    parse_version,
)
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import all_segments
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.schema_adapter import identify_columns, partly_stored
from lance_flight.catalog.tables.sources import Source, source_of
from lance_flight.errors import (
    Conflict,
    Corrupt,
    LanceFlightError,
    NewerFormat,
    NotFound,
    SerializationFailure,
    storage_error,
)
from lance_flight.model.checksums import Checksum
from lance_flight.model.hashing import group, match
from lance_flight.model.naming import COLUMN_PREFIX, MANIFEST, is_table_directory
from lance_flight.model.schema import TABLE_FIELD_ID, NamespaceSchema
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


DAMAGED = "damaged"
"""The directory, in the private one of a table, of the version files that a repair has taken out of the way."""
_TRANSACTIONS = "_transactions"


@dataclass(frozen=True)
class DamagedVersions:
    """Versions of a table that cannot be read, and the newest one below them that can."""

    table: Table
    why: str
    damaged: tuple[int, ...]
    readable: Snapshot

    @classmethod
    def of(cls, table: Table) -> DamagedVersions | None:
        """Find those of a table; None where its newest version can be read, `Corrupt` where none can."""
        numbers = {parse_version(name) for name in table.log.place.child(VERSIONS).files()} - {None}
        damaged: list[int] = []
        first: str | None = None
        for number in sorted(filter(None, numbers), reverse=True):
            why = _problem_of(table, number)
            if why is None:
                return None if first is None else cls(table, first, tuple(damaged), table.log.snapshot(number))
            first = first or why
            damaged.append(number)
        if first is not None:
            raise Corrupt(first)
        return None

    @cached_property
    def operations(self) -> list[str]:
        """The operations of the damaged versions, oldest first, as far as their files say them."""
        lines = []
        for number in reversed(self.damaged):
            names = list(dict.fromkeys(self._operations_of(number)))
            lines.append(f"version {number}: {' or '.join(names) or 'an operation that is lost as well'}")
        return lines

    @cached_property
    def rows(self) -> int | None:
        """Number of rows in partition tables that the readable version does not show, and a damaged one may; None where there is none to ask."""
        if not self.table.is_partitioned:
            return None
        root, pinned = self.table.store, {table.location: table for table in self.readable.all_tables()}
        count = 0
        for location in {*filter(is_table_directory, root.directories()), *pinned}:
            before = pinned.get(location)
            with suppress(LanceFlightError, *UNREADABLE):
                newest = _count(root.child(location))
                count += max(newest - (0 if before is None else partitions.open_table(root, before).count_rows()), 0)
        return count

    def go_back(self) -> str:
        """Take the damaged versions out of the way, and say what was done; their files stay in the private directory of the table."""
        place = self.table.log.place
        kept = place.child(PRIVATE, DAMAGED)
        for name in place.child(VERSIONS).files():
            if parse_version(name) in self.damaged:
                place.child(VERSIONS, name).move_to(kept.child(name))
        flush(place.uri)
        return f"back at version {self.readable.version}; the files are kept in {PRIVATE}/{DAMAGED}"

    def __str__(self) -> str:
        rows = "" if self.rows is None else f", with up to {self.rows:,} rows that only these show"
        return (
            f"{self.why}; going back to version {self.readable.version} of {self.readable.committed_at:%Y-%m-%d %H:%M:%S} UTC gives up"
            f" {'; '.join(self.operations)}{rows}"
        )

    def _operations_of(self, number: int) -> Iterator[str]:
        """Yield what the files of a version, or those of the commits that may have made it, say of the operation."""
        place = self.table.log.place
        for name in place.child(VERSIONS).files():
            if parse_version(name) == number:
                content = place.child(VERSIONS).read(name)
                with suppress(*MALFORMED):
                    (length,) = LENGTH.unpack_from(content)
                    operation = _operation(content[LENGTH.size : LENGTH.size + length])
                    if operation is not None:
                        yield operation
                        return
        transactions = place.child(_TRANSACTIONS)
        for name in transactions.files():
            if name.startswith(f"{number - 1}-"):
                operation = _operation(transactions.read(name))
                if operation is not None:
                    yield operation


def _problem_of(table: Table, number: int) -> str | None:
    """Return why the rows of a version, for a plain table its schema, cannot be read; None where they can."""
    try:
        if table.is_partitioned:
            table.log.rows_at(number)
        else:
            table.log.snapshot(number)
    except NewerFormat:
        raise
    except (Corrupt, NotFound) as exc:
        return str(exc)
    except UNREADABLE as exc:
        refused = storage_error(exc)
        if refused is not None:
            raise refused from exc
        return table.store.words(exc)
    return None


def _count(place: Store) -> int:
    return int(partitions.open_at(place, Latest()).count_rows())


def _operation(transaction: bytes) -> str | None:
    """Return the operation among the properties of a transaction of Lance; None where its bytes do not say it."""
    with suppress(*MALFORMED):
        properties = MESSAGES.Transaction.FromString(transaction).transaction_properties
        return next((entry.value for entry in properties if entry.key == OPERATION), None)
    return None


OBJECT_ID = "object_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFinding:
    """One thing that is wrong with the object `name`; `mended` says how it was put right, or why it was not."""

    kind: str
    name: str
    what: str
    mended: str | None = None
    gives_up: bool = False
    """Whether rows are given up by what mends it."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}: {self.what}" + (f": {self.mended}" if self.mended else "")


REPAIR_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.utf8(), nullable=False),
        pa.field("name", pa.utf8(), nullable=False),
        pa.field("what", pa.utf8(), nullable=False),
        pa.field("mended", pa.utf8()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(OperationReport):
    """Everything that was found; with `dry_run` nothing was changed."""

    dry_run: bool
    findings: tuple[RepairFinding, ...]

    @property
    def is_sound(self) -> bool:
        """True if every finding was repaired."""
        return all(finding.mended is not None for finding in self.findings)

    @property
    def as_table(self) -> pa.Table:
        """One row for each finding."""
        return pa.Table.from_pylist([asdict(finding) for finding in self.findings], schema=REPAIR_SCHEMA)

    @property
    def gives_up(self) -> bool:
        """True if the repair of a finding gives up rows."""
        return any(finding.gives_up for finding in self.findings)

    @property
    def lines(self) -> list[str]:
        if not self.findings:
            return ["nothing is wrong"]
        unchanged = ["nothing was changed; --apply puts right what can be"] if self.dry_run else []
        return [*map(str, self.findings), *unchanged]


def repair(table: Table, *, dry_run: bool = True, go_back: bool = False) -> RepairReport:
    """Find the problems of a table, and repair those that can be; of a plain one its versions alone are looked at.

    Where the newest version is damaged nothing else can be looked at. It is repaired by going back to an older one, and only where `go_back`
    says so. `Corrupt` where no version can be read, or where columns are lost and no version that is still there has them.
    """
    damaged = DamagedVersions.of(table)
    if damaged is not None:
        goes_back = go_back and not dry_run
        finding = RepairFinding(
            kind="damaged versions",
            name=MANIFEST if table.is_partitioned else table.name,
            what=str(damaged),
            mended=damaged.go_back() if goes_back else None,
            gives_up=True,
        )
        if not goes_back:
            return RepairReport(dry_run=dry_run, findings=(finding,))
        return RepairReport(dry_run=dry_run, findings=(finding, *repair(table, dry_run=dry_run).findings))
    if not isinstance(table, PartitionedNamespace):
        return RepairReport(dry_run=dry_run, findings=())
    namespace = table
    findings = list(_columns(namespace, dry_run=dry_run))
    if not (dry_run and findings):
        # Without its columns there is nothing to look at any further.
        findings += _directories(namespace, dry_run=dry_run)
        findings += _repeats(namespace, dry_run=dry_run)
    return RepairReport(dry_run=dry_run, findings=tuple(findings))


def _columns(namespace: PartitionedNamespace, *, dry_run: bool) -> Iterator[RepairFinding]:
    """Columns of `__manifest` that a stock writer dropped, each from the newest version that has it."""
    newest = namespace.log.open()
    for older, lost in _find_lost_versions(namespace, newest):
        before = older.to_table(columns=[OBJECT_ID, *lost])
        now = newest.to_table(columns=[OBJECT_ID])[OBJECT_ID]
        if not dry_run:
            conflict = f"another writer changed {namespace.store.name!r} first"
            with committing(namespace.log.place.uri, int(newest.version)), conflicts(conflict):
                newest.merge(before, OBJECT_ID)
        yield RepairFinding(
            kind="lost columns",
            name=MANIFEST,
            what=f"the newest version has no {', '.join(lost)}; version {older.version} has",
            mended=None if dry_run else f"restored from version {older.version}",
        )
        for object_id in now.filter(pc.invert(pc.is_in(now, value_set=before[OBJECT_ID]))).to_pylist():
            yield RepairFinding(
                kind="new row",
                name=object_id,
                what=f"came after version {older.version}: its {', '.join(lost)} are unknown and count as NULL",
            )


def _find_lost_versions(
    namespace: PartitionedNamespace, newest: LanceDataset
) -> Iterator[tuple[LanceDataset, list[str]]]:
    """Yield versions with columns of ours that no newer version has, and those columns; newest first."""
    names = set(newest.schema.names)
    with suppress(Corrupt):
        namespace.snapshot()
        if names.issuperset(PIN_COLUMNS):
            return
    for version, _ in reversed(namespace.log.history()):
        older = namespace.log.open(version)
        lost = [name for name in older.schema.names if name not in names]
        if any(name.startswith(COLUMN_PREFIX) or name in PIN_COLUMNS for name in lost):
            names.update(lost)
            yield older, lost


def _directories(namespace: PartitionedNamespace, *, dry_run: bool) -> Iterator[RepairFinding]:
    """Rows of `__manifest` without a table, or without the version that they pin."""
    gone = []
    for table in namespace.snapshot().all_tables():
        place = namespace.store.child(table.location)
        try:
            partitions.open_at(place, table.pin)
        except NotFound:
            if place.has(VERSIONS):
                what = f"directory {table.location!r} has no {table.pin}"
                yield RepairFinding(kind="missing version", name=table.object_id, what=what)
            else:
                gone.append(table)
        except Corrupt as exc:
            yield RepairFinding(kind="damaged version", name=table.object_id, what=str(exc))
    if gone and not dry_run:
        _forget(namespace, gone)
    for table in gone:
        yield RepairFinding(
            kind="missing directory",
            name=table.object_id,
            what=f"there is no table in {table.location!r}: its rows are lost, and nothing says how many they were",
            mended=None if dry_run else "row removed",
            gives_up=True,
        )


def _repeats(namespace: PartitionedNamespace, *, dry_run: bool) -> Iterator[RepairFinding]:
    """Several tables for one partition value: the rows of all are taken into the largest."""
    snapshot = namespace.snapshot()
    for tables in snapshot.tables:
        groups = group(tables.values.columns, len(tables))
        for place in np.flatnonzero(np.diff(groups.starts) > 1):
            start, stop = groups.starts[place : place + 2]
            same = np.arange(start, stop) if groups.order is None else groups.order[start:stop]
            opened = [(table, partitions.open_table(namespace.store, table)) for table in tables.tables(same)]
            (kept, into), *others = sorted(opened, key=lambda pair: -pair[1].count_rows())
            finding = RepairFinding(
                kind="two tables",
                name=kept.object_id,
                what=f"{', '.join(repr(table.object_id) for table, _ in others)} has the same partition values",
            )
            if dry_run:
                yield finding
            elif not all(_fits(dataset.schema, into.schema) for _, dataset in others):
                yield replace(finding, what=f"{finding.what}, and other columns: not merged")
            elif any(_is_filled(dataset, snapshot, table) for table, dataset in others):
                yield replace(finding, what=f"{finding.what}, and files without partition columns: not merged")
            else:
                rows = _merge(namespace, kept, others)
                yield replace(finding, mended=f"{rows} rows moved")


def _merge(
    namespace: PartitionedNamespace, kept: PartitionTable, others: Sequence[tuple[PartitionTable, LanceDataset]]
) -> int:
    """Move the rows of the tables `others` into `kept` in one commit, then remove the manifest rows of the emptied tables."""
    transaction = namespace.begin()
    snapshot, root = transaction.base, namespace.store
    with namespace.changing(transaction):
        count = int(sum(dataset.count_rows() for _, dataset in others))
        now = snapshot.tables_named([kept.object_id])[kept.object_id]
        edit = edit_of(root, snapshot, now)
        base = partitions.base_of(root.child(now.location), now.pin, snapshot.table_branch)
        for _, dataset in others:
            rows = all_rows(dataset)
            edit.fragments += partitions.write_files(root.child(edit.place), base.version, rows)
        removed = all_removed(root, snapshot, [table for table, _ in others])
        transaction.add(
            [edit, *removed], f"repair: move {count} rows of {len(others)} tables into the one of their value"
        )
        version = namespace.commits.commit(transaction)
    emptied = namespace.log.snapshot(version).tables_named([table.object_id for table, _ in others])
    _forget(namespace, emptied.values())
    return count


def _fits(rows: pa.Schema, table: pa.Schema) -> bool:
    """Return whether two tables have the same columns, which are known by their ids where both have them."""
    ids = [[(field.metadata or {}).get(TABLE_FIELD_ID) for field in schema] for schema in (rows, table)]
    return bool(rows.equals(table)) and all(a is None or b is None or a == b for a, b in zip(*ids, strict=True))


def _is_filled(dataset: LanceDataset, snapshot: Snapshot, table: PartitionTable) -> bool:
    """Return whether files lack columns that readers fill, and Lance would copy as NULL."""
    return bool(partly_stored(dataset, identify_columns(dataset, snapshot.schema), table.identity.by_source))


def _forget(namespace: PartitionedNamespace, tables: Collection[PartitionTable]) -> None:
    """Take tables out of `__manifest`, but none that another writer has written to since."""

    def without(snapshot: Snapshot) -> Revision | None:
        now = snapshot.tables_named([table.object_id for table in tables])
        gone = tuple(name for name, table in now.items() if table in tables)
        return Revision(operation=f"repair: remove {len(gone)} rows of tables", removed=gone) if gone else None

    commit(namespace.log, without, namespace.snapshot)
