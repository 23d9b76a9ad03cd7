"""Indices of partition tables: built in pieces, and made part of their tables in the commit that moves the pins.

Lance's own indices: its readers use them for filters and searches, and the rows say nothing else with them. A table that is
written to has the index for the files that it covers; the rest is read as without one, until the next run adds a segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice

import lance
import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.bulk.pieces import THREADS, Progress, Runner, of_tables
from lance_flight.catalog.commits.staging import repinned
from lance_flight.catalog.maintenance.index_segments import (
    MOST_SEGMENTS,
    BuildSegment,
    check_possible,
    stage,
    stage_without,
)
from lance_flight.catalog.maintenance.vector_options import vector_options
from lance_flight.catalog.manifests.evolution import Evolution
from lance_flight.catalog.manifests.indices import IndexDefinition, IndexRules, index_named, indices_of, note_of
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import said_of
from lance_flight.catalog.storage.opening import OPENERS, map_tables
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.index_coverage import Coverage
from lance_flight.catalog.tables.lineage import are_new
from lance_flight.catalog.tables.schema_adapter import identified, path_within
from lance_flight.errors import AlreadyExists
from lance_flight.faults import failpoint
from lance_flight.model.index_kinds import Family, OptionValue
from lance_flight.model.nested import field_at
from lance_flight.model.pins import FixedPin

TABLES_PER_COMMIT = 256
"""Work that is interrupted is lost back to the last commit."""
LARGE_PART = 0.5
"""Part of a table that may be missing in an index; above it, the index is built anew as a whole."""

INDEXING_SCHEMA = pa.schema(
    [
        pa.field("name", pa.utf8(), nullable=False),
        pa.field("tables", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("snapshot", pa.int64(), nullable=False),
    ]
)

_Place = tuple[str, FixedPin]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingReport:
    """Report of indexing: the snapshot that shows it, and how many of the tables and rows it has covered."""

    snapshot: int
    name: str
    table_count: int
    tables: int
    rows: int

    @staticmethod
    def rows_of(reports: Sequence[IndexingReport]) -> pa.Table:
        """Return one row for each index."""
        return pa.Table.from_pylist([asdict(report) for report in reports], schema=INDEXING_SCHEMA)

    def __str__(self) -> str:
        return (
            f"index {self.name}: {self.tables:,} of {self.table_count:,} partition tables, {self.rows:,} rows,"
            f" snapshot {self.snapshot}"
        )


class _Indexing:
    """The change that gives some more tables an index, made on one snapshot after another (`evolution.Change`)."""

    def __init__(self, root: Store, rules: IndexRules | str, run: Runner, progress: Progress | None) -> None:
        self._root = root
        self._rules = rules
        self._run = run
        self._progress = progress
        self._built: dict[str, tuple[BuildSegment, lance.Index]] = {}
        self._staged: dict[_Place, FixedPin] = {}
        self._settled: set[str] = set()
        self._now: list[BuildSegment] = []
        self.done: list[BuildSegment] = []

    def __call__(self, snapshot: Snapshot) -> Evolution | None:
        definition, is_new = self._defined(snapshot)
        tables = snapshot.all_tables()
        open_ones = [table for table in tables if table.object_id not in self._settled]
        with ThreadPoolExecutor(OPENERS, thread_name_prefix="indexing") as pool:
            todo = dict(islice(self._incomplete_tables(pool, snapshot, definition, open_ones), TABLES_PER_COMMIT))
            self._build([piece for piece in todo.values() if not self._is_built(piece)], len(tables))
            operation = f"index {definition.name} of {len(todo)} partitions"
            pins = list(pool.map(partial(self._stage, said_of(operation, ())), todo.values()))
        self._now = list(todo.values())
        if not todo and not is_new:
            return None
        rows = repinned(snapshot.rows_of([table.object_id for table in todo]), pins) if todo else None
        notes = note_of([*indices_of(snapshot), definition]) if is_new else {}
        return Evolution(operation=operation, rows=rows, notes=notes)

    def committed(self) -> bool:
        """Take the last tables for done, whatever is written to them from now on; whether there were any."""
        self.done += self._now
        self._settled.update(piece.object_id for piece in self._now)
        return bool(self._now)

    def _defined(self, snapshot: Snapshot) -> tuple[IndexDefinition, bool]:
        """Return the index, and whether the snapshot has it not yet."""
        if isinstance(self._rules, str):
            return index_named(snapshot, self._rules), False
        definition = self._rules.defined(snapshot)
        known = {each.name: each for each in indices_of(snapshot)}.get(definition.name)
        if known is None:
            column = field_at(snapshot.schema.plain, self._rules.column)
            # Of a field inside structs the trial makes a column, whose name has no dots.
            check_possible(self._root, column.with_name(column.name.rpartition(".")[2]), definition)
        elif known != definition:
            raise AlreadyExists(f"index {definition.name!r} is there already, of another column, kind or options")
        return definition, known is None

    def _incomplete_tables(
        self,
        pool: ThreadPoolExecutor,
        snapshot: Snapshot,
        definition: IndexDefinition,
        tables: Sequence[PartitionTable],
    ) -> Iterator[tuple[PartitionTable, BuildSegment]]:
        """Yield the tables that lack the index, or a part of it, with the work."""
        for start in range(0, len(tables), TABLES_PER_COMMIT):
            batch = tables[start : start + TABLES_PER_COMMIT]
            for table, piece in zip(batch, pool.map(partial(self._piece, snapshot, definition), batch), strict=True):
                if piece is None:
                    self._settled.add(table.object_id)
                else:
                    yield table, piece

    def _piece(self, snapshot: Snapshot, definition: IndexDefinition, table: PartitionTable) -> BuildSegment | None:
        """Return the work for one table.

        None where the index is about all its files, or it is too small, or lacks the column.
        """
        store = self._root.child(table.location)
        base = partitions.resolve(store, table.pin)
        dataset = partitions.open_at(store, base)
        columns = identified(dataset, snapshot.schema)
        found = path_within(columns, snapshot.schema, definition.field_id)
        fragments = {fragment.fragment_id: fragment.count_rows() for fragment in dataset.get_fragments()}
        if found is None or sum(fragments.values()) < max(definition.min_rows, 1):
            return None
        column = ".".join(found[0])
        coverage = Coverage.of(dataset, definition.name, column, definition.of_kind)
        if not coverage.missing:
            return None
        is_small = sum(fragments[number] for number in coverage.missing) < LARGE_PART * sum(fragments.values())
        added = is_small and len(coverage.segments) < MOST_SEGMENTS
        # Lance looks into the segments of a text index as if they were one, where a row that was changed has two texts.
        if definition.of_kind.family is Family.TEXT:
            added = added and are_new(dataset, coverage.missing)
        chosen = {number: fragments[number] for number in (coverage.missing if added else fragments)}
        options = _options(dataset, column, definition, chosen)
        if options is None:
            return None
        # On a branch of the namespace the table is forked only now.
        base = partitions.base_of(store, base, snapshot.table_branch)
        return BuildSegment(
            object_id=table.object_id,
            table=store,
            base=base,
            place=self._root.child(partitions.place_of_files(table.location, base)),
            column=column,
            kind=definition.of_kind,
            options=tuple(options.items()),
            name=definition.name,
            fragments=frozenset(chosen),
            rows=sum(chosen.values()),
        )

    def _build(self, pieces: Sequence[BuildSegment], total: int) -> None:
        told = of_tables(self._progress, len(self._settled), len(pieces), total)
        for piece, index in zip(pieces, self._run(pieces, told), strict=True):
            self._built[piece.table.uri] = piece, index
        failpoint("data_written")

    def _is_built(self, piece: BuildSegment) -> bool:
        """Return whether a segment that was built on an older version of the table is as good for this one."""
        if piece.table.uri not in self._built:
            return False
        before, _ = self._built[piece.table.uri]
        if before.base == piece.base:
            return before == piece
        then, now = (_files(partitions.open_at(piece.table, base)) for base in (before.base, piece.base))
        files = all(now.get(number) == then[number] for number in before.fragments)
        return files and before.column == piece.column and before.fragments <= piece.fragments

    def _stage(self, said: Mapping[str, str], piece: BuildSegment) -> FixedPin:
        key = piece.table.uri, piece.base
        if key not in self._staged:
            before, index = self._built[piece.table.uri]
            self._staged[key] = stage(_on(piece, before), index, said)
            failpoint("table_staged")
        return self._staged[key]


def create_index(
    namespace: Table,
    rules: IndexRules | str,
    progress: Progress | None = None,
    *,
    run: Runner = THREADS,
) -> IndexingReport:
    """Give the namespace an index, and those of its partition tables that lack it, or go on with one that has the name.

    A part of the tables at a time, each part in one commit with their pins: what was interrupted goes on where it was.
    """
    # The transaction keeps what it reads from being vacuumed, and adds what a foreign namespace lacks for writes.
    reading = namespace.begin()
    indexing = _Indexing(namespace.store, rules, run, progress)
    version = namespace.evolve(indexing)
    while indexing.committed():
        version = namespace.evolve(indexing)
    return IndexingReport(
        snapshot=version,
        name=rules if isinstance(rules, str) else rules.called,
        table_count=reading.base.table_count,
        tables=len(indexing.done),
        rows=sum(piece.rows for piece in indexing.done),
    )


def refresh_indices(
    namespace: Table, progress: Progress | None = None, *, run: Runner = THREADS
) -> list[IndexingReport]:
    """Bring all indices up to date with the files that there are now."""
    names = [definition.name for definition in indices_of(namespace.snapshot())]
    return [
        create_index(namespace, name, _of_several(progress, place, len(names)), run=run)
        for place, name in enumerate(names)
    ]


def _of_several(progress: Progress | None, before: int, indices: int) -> Progress | None:
    """Return a callback that reports the tables of one of several indices to `progress`, after those of `before` indices."""
    return None if progress is None else lambda done, total: progress(before * total + done, indices * total)


def drop_index(namespace: Table, name: str) -> int:
    """Remove an index from the namespace and all its tables, in one commit, and return the version of that commit."""
    reading = namespace.begin()
    index_named(reading.base, name)

    def without(snapshot: Snapshot) -> Evolution | None:
        left = [each for each in indices_of(snapshot) if each.name != name]
        tables = snapshot.all_tables()
        pins = map_tables(partial(_without, namespace.store, snapshot.table_branch, name), tables, "indexing")
        moved = {table.object_id: pin for table, pin in zip(tables, pins, strict=True) if pin is not None}
        rows = repinned(snapshot.rows_of(list(moved)), list(moved.values())) if moved else None
        return Evolution(operation=f"drop index {name} of {len(moved)} partitions", rows=rows, notes=note_of(left))

    return namespace.evolve(without)


def _options(
    dataset: LanceDataset, column: str, definition: IndexDefinition, fragments: Mapping[int, int]
) -> Mapping[str, OptionValue] | None:
    """Return what a segment over some files (with their rows) is built with; None where there is nothing to build it of."""
    if definition.of_kind.family is not Family.VECTOR:
        return definition.options
    return vector_options(dataset, column, definition.of_kind, definition.options, fragments)


def _without(root: Store, branch: str | None, name: str, table: PartitionTable) -> FixedPin | None:
    store = root.child(table.location)
    base = partitions.resolve(store, table.pin)
    if all(index.name != name for index in partitions.open_at(store, base).describe_indices()):
        return None
    return stage_without(store, partitions.base_of(store, base, branch), name, said_of(f"drop index {name}", ()))


def _on(piece: BuildSegment, before: BuildSegment) -> BuildSegment:
    """Return the piece as it was built, to be staged on what the table is now."""
    return replace(before, base=piece.base)


def _files(dataset: LanceDataset) -> dict[int, list[str]]:
    return {f.fragment_id: [file.path for file in f.metadata.files] for f in dataset.get_fragments()}
