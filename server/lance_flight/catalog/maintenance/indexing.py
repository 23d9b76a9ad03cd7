"""Scalar indices of partition tables: built in pieces, then made part of every table in one commit.

Lance's own indices: its readers use them for filters, and the rows say nothing else with them. A table that is written to
meanwhile gets the index for the files that it covers; the rest of its rows are read as without one, until the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import lance
from lance import LanceDataset, LanceOperation

from lance_flight.catalog import partitions
from lance_flight.catalog.disagreeing import physical
from lance_flight.catalog.evolution import Evolution
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.pieces import THREADS, Progress, Runner, of_tables
from lance_flight.catalog.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.staging import repinned
from lance_flight.catalog.store import Store
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.faults import reached
from lance_flight.model.pins import FixedPin

KINDS = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "LABEL_LIST", "NGRAM")
"""Lance's scalar indices: by order, by few values, by stretches of rows (two), by the items of lists, by parts of text."""

INDICES = "_indices"
OPENERS = 8

_Place = tuple[str, FixedPin]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRules:
    """Which index: of a column, by its name in the namespace; tables that have it for all their files are left alone."""

    column: str
    kind: str = "BTREE"
    name: str | None = None

    @property
    def called(self) -> str:
        """The name of the index in every table."""
        return self.name or f"{self.column}_idx"

    def checked(self, snapshot: Snapshot) -> IndexRules:
        """These rules, or an error that names what cannot be."""
        if self.kind.upper() not in KINDS:
            raise InvalidInput(f"index kind {self.kind!r}; expected one of {', '.join(KINDS)}")
        if self.column not in snapshot.schema.ids:
            raise NotFound.named("column", self.column, snapshot.schema.ids)
        return IndexRules(column=self.column, kind=self.kind.upper(), name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingReport:
    """What was done: the snapshot that shows it, and how many of the tables got the index, with how many rows in it."""

    snapshot: int
    name: str
    table_count: int
    tables: int
    rows: int

    def __str__(self) -> str:
        return (
            f"index {self.name}: {self.tables:,} of {self.table_count:,} partition tables, {self.rows:,} rows,"
            f" snapshot {self.snapshot}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildIndex:
    """A piece of work: the index of one column of a version of a table, over all its files and `rows`."""

    object_id: str
    table: Store
    base: FixedPin
    place: Store
    column: str
    kind: str
    name: str
    rows: int

    def run(self) -> lance.Index:
        """Write it; it is part of no version yet."""
        dataset = partitions.open_at(self.table, self.base)
        numbers = [fragment.fragment_id for fragment in dataset.get_fragments()]
        try:
            return dataset.create_index_uncommitted(
                self.column, self.kind, name=self.name, replace=True, fragment_ids=numbers
            )
        except (ValueError, TypeError, NotImplementedError) as exc:
            raise Unsupported(
                f"partition table {self.object_id!r}: no {self.kind} index of column {self.column!r}"
                f" ({dataset.schema.field(self.column).type}): {self.table.parent.words(exc)}"
            ) from exc

    def undo(self, result: lance.Index) -> None:
        """Delete its files."""
        self.place.child(INDICES, result.uuid).remove()


class _Indexing:
    """The change that gives every table its index, made on one snapshot after another (`evolution.Change`)."""

    def __init__(self, root: Store, rules: IndexRules, run: Runner, progress: Progress | None) -> None:
        self._root = root
        self._rules = rules
        self._run = run
        self._progress = progress
        self._built: dict[str, tuple[BuildIndex, lance.Index]] = {}
        self._staged: dict[_Place, FixedPin] = {}
        self.done: list[BuildIndex] = []

    def __call__(self, snapshot: Snapshot) -> Evolution | None:
        rules = self._rules.checked(snapshot)
        tables = [table for tables in snapshot.tables for table in tables.tables()]
        with ThreadPoolExecutor(OPENERS, thread_name_prefix="indexing") as pool:
            wanted = dict(zip(tables, pool.map(partial(self._wanted, snapshot, rules), tables), strict=True))
            todo = {table: piece for table, piece in wanted.items() if piece is not None}
            self._build([piece for piece in todo.values() if not self._is_built(piece)], len(tables))
            pins = list(pool.map(self._stage, todo.values()))
        self.done = list(todo.values())
        if not todo:
            return None
        rows = repinned(snapshot.rows_of([table.object_id for table in todo]), pins)
        return Evolution(operation=f"index {rules.called} of {len(todo)} partitions", rows=rows)

    def _wanted(self, snapshot: Snapshot, rules: IndexRules, table: PartitionTable) -> BuildIndex | None:
        """The work for one table; None where it has the index for all its files, no rows, or not the column."""
        store = self._root.child(table.location)
        base = partitions.resolve(store, table.pin)
        dataset = partitions.open_at(store, base)
        column = physical(dataset.schema, rules.column, snapshot.schema.ids[rules.column])
        fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
        old = next(_segments(dataset, rules.called), None)
        if column is None or not fragments or (old is not None and fragments.issubset(old.fragment_ids)):
            return None
        return BuildIndex(
            object_id=table.object_id,
            table=store,
            base=base,
            place=self._root.child(partitions.place_of_files(table.location, base)),
            column=column.name,
            kind=rules.kind,
            name=rules.called,
            rows=int(dataset.count_rows()),
        )

    def _build(self, pieces: Sequence[BuildIndex], total: int) -> None:
        told = of_tables(self._progress, total - len(pieces), len(pieces), total)
        for piece, index in zip(pieces, self._run(pieces, told), strict=True):
            self._built[piece.table.uri] = piece, index
        reached("data_written")

    def _is_built(self, piece: BuildIndex) -> bool:
        """Whether an index of an older version of the table still covers what it was built from."""
        if piece.table.uri not in self._built:
            return False
        before, index = self._built[piece.table.uri]
        then, now = (_files(partitions.open_at(piece.table, base)) for base in (before.base, piece.base))
        return before.column == piece.column and all(now.get(number) == then[number] for number in index.fragment_ids)

    def _stage(self, piece: BuildIndex) -> FixedPin:
        key = piece.table.uri, piece.base
        if key not in self._staged:
            _, index = self._built[piece.table.uri]
            old = list(_segments(partitions.open_at(piece.table, piece.base), piece.name))
            self._staged[key] = partitions.stage(piece.table, piece.base, LanceOperation.CreateIndex([index], old))
            reached("table_staged")
        return self._staged[key]


def create_index(
    namespace: PartitionedNamespace, rules: IndexRules, progress: Progress | None = None, *, run: Runner = THREADS
) -> IndexingReport:
    """Give the partition tables an index of a column, in one commit; those that have it for all their files stay as they are."""
    # The transaction keeps what it reads from being vacuumed, and adds what a foreign namespace lacks for writes.
    reading = namespace.begin()
    rules.checked(reading.base)
    indexing = _Indexing(namespace.store, rules, run, progress)
    version = namespace.evolve(indexing)
    return IndexingReport(
        snapshot=version,
        name=rules.called,
        table_count=namespace.snapshot(version).table_count,
        tables=len(indexing.done),
        rows=sum(piece.rows for piece in indexing.done),
    )


def _files(dataset: LanceDataset) -> Mapping[int, list[str]]:
    return {f.fragment_id: [file.path for file in f.metadata.files] for f in dataset.get_fragments()}


def _segments(dataset: LanceDataset, name: str) -> Iterator[lance.Index]:
    """The parts of an index that a version has, as what takes their place must name them."""
    for index in dataset.describe_indices():
        if index.name == name:
            for segment in index.segments:
                yield lance.Index(
                    uuid=segment.uuid,
                    name=index.name,
                    fields=index.fields,
                    dataset_version=segment.dataset_version_at_last_update,
                    fragment_ids=segment.fragment_ids,
                    index_version=segment.index_version,
                )
