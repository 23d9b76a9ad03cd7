"""Repair of a table: damaged versions are left for the newest readable one, and missing partitions are given up by name.

Each kind of damage is looked for by itself and mended in one commit; rows are never dropped, and a `__manifest` row
only where there is nothing left that it could stand for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.commits.removals import all_removed, edit_of
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.manifests.snapshot import PIN_COLUMNS, PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import OPERATION, Revision, commit
from lance_flight.catalog.storage.durability import committing, flush
from lance_flight.catalog.storage.lance_columns import all_rows
from lance_flight.catalog.storage.names import PRIVATE, VERSIONS, parse_version
from lance_flight.catalog.storage.retries import conflicts
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import BYTES, LENGTH, MALFORMED, split_fields
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.schema_adapter import identify_columns, partly_stored
from lance_flight.errors import Corrupt, LanceFlightError, NewerFormat, NotFound, storage_error
from lance_flight.model.grouping import group
from lance_flight.model.naming import COLUMN_PREFIX, MANIFEST, is_table_directory
from lance_flight.model.pins import Latest
from lance_flight.model.schema import TABLE_FIELD_ID

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
    try:
        for _, kind, _, value in split_fields(transaction):
            if kind != BYTES or OPERATION.encode() not in value:
                continue
            with suppress(*MALFORMED, UnicodeDecodeError, KeyError):
                entry = {number: part for number, _, _, part in split_fields(value)}
                if entry[1] == OPERATION.encode():
                    return entry[2].decode()
    except MALFORMED:
        return None
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
