"""Rows that came and went from snapshot to snapshot of a namespace.

A table's fragments never change: two versions of it differ in the fragments that only one of them has, and in the rows
that are deleted in one of them, so nothing else is read. Maintenance writes rows anew that are there already: where it
took part in a snapshot, equal rows that went and came are not a change.

Rows that were only written anew are no additions. A snapshot that removes or changes rows is another matter: whoever has
been given them already is not told otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from lance import LanceFragment

from lance_flight.catalog.commits.transaction import MOVES
from lance_flight.catalog.manifests.snapshot import Latest, PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import Difference
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import OPENERS
from lance_flight.catalog.storage.whole_files import ROW_ADDRESS
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.rows import ROW_ID_FIELD
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import PinnedTable, Source
from lance_flight.errors import NotFound, QueryFailed, Unsupported

INSERT = "insert"
DELETE = "delete"

_ADDRESS = pa.field(ROW_ADDRESS, pa.uint64())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsMoved:
    """Rows of one fragment that were inserted or deleted: those at `addresses` (None: all of it)."""

    change: str
    source: Source
    addresses: np.ndarray | None = None

    def read(self, schema: pa.Schema, ids: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with these columns, by their field ids."""
        addressed = self.addresses is not None and ROW_ADDRESS not in schema.names
        scan = Scan(
            source=schema,
            schema=pa.schema([*schema, _ADDRESS]) if addressed else schema,
            ids=ids,
        )
        for batch in scan.read([lambda: [self.source]]):
            if self.addresses is None:
                yield batch
                continue
            mine = np.isin(batch.column(ROW_ADDRESS).to_numpy(), self.addresses)
            yield batch.filter(pa.array(mine)).select(schema.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One table from one version to another in one snapshot (None: it is not there); `partition` is its object id.

    With `is_rewritten` some of its rows may only have been written anew.
    """

    snapshot: int
    partition: str | None
    before: PinnedTable | None
    after: PinnedTable | None
    is_rewritten: bool = False

    def moved_rows(self, schema: pa.Schema, ids: Mapping[str, int]) -> list[RowsMoved]:
        """Return the rows that went, and those that came."""
        before, after = (None if table is None else table.source for table in (self.before, self.after))
        moved = list(_moved_rows(before, after))
        return _without_equals(moved, schema, ids) if self.is_rewritten else moved


View = Callable[[Snapshot], Snapshot]
"""Function that restricts a snapshot to the tables that a caller may see."""


def steps_of(table: Table, first: int, last: int, view: View = lambda snapshot: snapshot) -> Iterator[Step]:
    """Return what each snapshot after `first`, up to `last`, did to each partition table, as far as they are in `view`.

    Where snapshots between two have expired, all that they did is told of the later one.
    """
    did = table.log.operations(first, last)
    known = [version for version, _ in table.log.history() if first <= version <= last]
    for old, new in pairwise(known):
        yield from steps_between(table, old, new, did.get(new, ""), view)


def steps_between(
    table: Table, old: int, new: int, operation: str, view: View = lambda snapshot: snapshot
) -> Iterator[Step]:
    """Return what was done to each partition table from one snapshot to another, the last of it by an `operation`."""
    moves = [part.startswith(MOVES) for part in operation.split("; ")]
    if new == old + 1 and all(moves):
        return
    steps = _steps(table.store, view(table.snapshot(old)), view(table.snapshot(new)))
    yield from (replace(step, is_rewritten=new != old + 1 or any(moves)) for step in steps)


def _steps(root: Store, old: Snapshot, new: Snapshot) -> Iterator[Step]:
    changed = [name for name in Difference.between(old, new).object_ids if name in old.table_ids | new.table_ids]
    before, after = old.tables_named(changed), new.tables_named(changed)
    for object_id in sorted(before.keys() | after.keys()):
        left, right = before.get(object_id), after.get(object_id)
        if left is not None and isinstance(left.pin, Latest) and right is not None:
            # The first of our writers pins what it finds; what a table without a pin was before is not known.
            continue
        tables = (None if table is None else pin_table(root, table, at) for table, at in ((left, old), (right, new)))
        yield Step(snapshot=new.version, partition=object_id, before=next(tables), after=next(tables))


def pin_table(root: Store, table: PartitionTable, snapshot: Snapshot) -> PinnedTable:
    """Return a partition table as a snapshot has it; `Unsupported` for one that had no fixed version then."""
    context = snapshot.context_of(table)
    if isinstance(table.pin, Latest):
        raise Unsupported(f"partition table {table.object_id!r} had no fixed version in snapshot {snapshot.version}")
    store = root.child(table.location)
    return PinnedTable(store, partitions.resolve(store, table.pin), context=context)


def _moved_rows(before: Source | None, after: Source | None) -> Iterator[RowsMoved]:
    old, new = _fragments(before), _fragments(after)
    for name, fragment in old.items():
        if name not in new:
            yield RowsMoved(change=DELETE, source=_source(before, fragment))
        elif _deletion_key(fragment) != _deletion_key(new[name]):
            was, stays = _addresses(before, fragment), _addresses(after, new[name])
            gone = was[~np.isin(_offsets(was), _offsets(stays))]
            back = stays[~np.isin(_offsets(stays), _offsets(was))]
            if len(gone):
                yield RowsMoved(change=DELETE, source=_source(before, fragment), addresses=gone)
            if len(back):
                yield RowsMoved(change=INSERT, source=_source(after, new[name]), addresses=back)
    for name, fragment in new.items():
        if name not in old:
            yield RowsMoved(change=INSERT, source=_source(after, fragment))


def _fragments(table: Source | None) -> dict[str, LanceFragment]:
    """Return the fragments by their first file: a restore may reuse their numbers, but never its name."""
    fragments = () if table is None else table.dataset.get_fragments()
    return {fragment.metadata.files[0].path: fragment for fragment in fragments}


def _source(table: Source | None, fragment: LanceFragment) -> Source:
    if table is None:
        raise AssertionError("a fragment of no table")
    return replace(table, fragments=(fragment,))


def _deletion_key(fragment: LanceFragment) -> str | None:
    """Return what tells the deleted rows of one version of a fragment from those of another."""
    path: str | None = fragment.deletion_file()
    return path


def _addresses(table: Source | None, fragment: LanceFragment) -> np.ndarray:
    """Return where the rows lie that are not deleted."""
    scan = Scan(source=pa.schema([]), schema=pa.schema([_ADDRESS]), ids={})
    parts = [batch.column(ROW_ADDRESS).to_numpy() for batch in scan.read([lambda: [_source(table, fragment)]])]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _offsets(addresses: np.ndarray) -> np.ndarray:
    return addresses & np.uint64(0xFFFFFFFF)


def _without_equals(moved: Sequence[RowsMoved], schema: pa.Schema, ids: Mapping[str, int]) -> list[RowsMoved]:
    """Return the same without rows that went and came with the same values, as often as they did both."""
    listed = [(part, *_list_rows(part, schema, ids)) for part in moved]
    gone, come = (
        Counter(value for part, _, values in listed if part.change == change for value in values)
        for change in (DELETE, INSERT)
    )
    left = {DELETE: gone & come, INSERT: gone & come}
    kept_parts = []
    for part, addresses, values in listed:
        kept = np.array([not _take(left[part.change], value) for value in values], bool)
        if kept.any():
            kept_parts.append(replace(part, addresses=addresses[kept]))
    return kept_parts


def _list_rows(part: RowsMoved, schema: pa.Schema, ids: Mapping[str, int]) -> tuple[np.ndarray, list[str]]:
    """Return the addresses of rows, and their values as text."""
    # Where rows have ids of their own, equal ones are not the same.
    named = (ROW_ID_FIELD,) if part.source.dataset.has_stable_row_ids else ()
    wanted = pa.schema([*schema, *named, _ADDRESS])
    rows = pa.Table.from_batches(part.read(wanted, ids), wanted)
    columns = [column.to_pylist() for column in rows.columns[:-1]]
    return rows[ROW_ADDRESS].to_numpy(), list(map(repr, zip(*columns, strict=True)))


def _take(counted: Counter[str], value: str) -> bool:
    counted[value] -= 1
    return counted[value] >= 0


MayHold = Callable[[Snapshot], Collection[str]]
"""The object ids of those partition tables of a snapshot that can hold rows which are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Rows of one fragment of a partition table, as they were when they came: those at `addresses` (None: all)."""

    table: PinnedTable
    fragment: int
    rows: int
    addresses: np.ndarray | None = field(default=None, repr=False)

    def read(self, schema: pa.Schema, ids: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Return the rows with these columns, by their field ids."""
        source = self.table.source
        source = replace(source, fragments=(source.dataset.get_fragment(self.fragment),))
        return RowsMoved(change=INSERT, source=source, addresses=self.addresses).read(schema, ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Reader of the additions to one namespace, in the tables that `may_hold` leaves (None: all).

    With `allows_changes` the rows that a change brings are additions as well, and nothing is said of those that go.
    """

    namespace: Table
    may_hold: MayHold | None = None
    allows_changes: bool = False

    def all_of(self, version: int) -> list[Added]:
        """Return every row of a snapshot."""
        snapshot = self.snapshot(version)
        kept = None if self.may_hold is None else self.may_hold(snapshot)
        tables = snapshot.all_tables()
        steps = [
            Step(
                snapshot=version,
                partition=table.object_id,
                before=None,
                after=pin_table(self.namespace.store, table, snapshot),
            )
            for table in tables
            if kept is None or table.object_id in kept
        ]
        return [added for moved in self._moved_steps(steps, snapshot) for added in moved.rows]

    def between(self, first: int, last: int) -> list[Added]:
        """Return the rows that each snapshot after `first`, up to `last`, added, in this order.

        `QueryFailed` names the first that removed or changed rows, and what it did; `NotFound` one that has expired.
        """
        did = self.namespace.log.operations(first, last)
        return [
            added
            for old, new in pairwise(range(first, last + 1))
            for added in self._added_rows(old, new, did.get(new, ""))
        ]

    def snapshot(self, version: int) -> Snapshot:
        """Return a snapshot whose rows can be streamed.

        `NotFound` for one that has expired, `Unsupported` for one that is not fixed.
        """
        try:
            snapshot = self.namespace.snapshot(version)
        except NotFound as exc:
            raise NotFound(
                f"snapshot {version} of {self.namespace.store.name!r} is not there any more, and what it added was not"
                " read yet: VACUUM keeps snapshots for as long as it is told, and for those who read them"
            ) from exc
        if snapshot.floating:
            # What comes to such a table comes without a snapshot.
            raise Unsupported(
                f"snapshot {version} of {self.namespace.store.name!r} has tables without a fixed version, such as"
                f" {snapshot.floating[0].object_id!r}; the first write of this library gives them one"
            )
        return snapshot

    def _added_rows(self, old: int, new: int, operation: str) -> Iterator[Added]:
        before, after = self.snapshot(old), self.snapshot(new)
        steps = list(steps_between(self.namespace, old, new, operation))
        if self.may_hold is not None and steps:
            kept = {*self.may_hold(before), *self.may_hold(after)}
            steps = [step for step in steps if step.partition in kept]
        for moved in self._moved_steps(steps, after):
            if moved.removes and not self.allows_changes:
                raise QueryFailed(
                    f"snapshot {new} of {self.namespace.store.name!r} removed or changed rows that were there before:"
                    f" {operation or 'done by another writer'}"
                )
            yield from moved.rows

    def _moved_steps(self, steps: Sequence[Step], snapshot: Snapshot) -> Iterator[_Moved]:
        """Return what each step did, several tables at a time."""
        columns = pa.schema([field.with_nullable(nullable=True) for field in snapshot.schema.arrow])
        with ThreadPoolExecutor(OPENERS, thread_name_prefix="additions") as pool:
            yield from pool.map(lambda step: _Moved.by(step, columns, snapshot.schema.ids), steps)


@dataclass(frozen=True, slots=True)
class _Moved:
    """The rows that a step added, and whether it removed any."""

    rows: tuple[Added, ...]
    removes: bool

    @classmethod
    def by(cls, step: Step, columns: pa.Schema, ids: Mapping[str, int]) -> _Moved:
        moved = step.moved_rows(columns, ids)
        came = [_added_by(step.after, move) for move in moved if move.change == INSERT and step.after is not None]
        return cls(tuple(came), any(move.change == DELETE for move in moved))


def _added_by(table: PinnedTable, moved: RowsMoved) -> Added:
    (fragment,) = moved.source.fragments or ()
    rows = fragment.count_rows() if moved.addresses is None else len(moved.addresses)
    return Added(table=table, fragment=fragment.fragment_id, rows=rows, addresses=moved.addresses)
