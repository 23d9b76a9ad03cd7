"""Rows on their way into partition tables and out of them: split by partition, held within a bound of memory, written or removed.

Lance makes at least one page of each column for every piece that it is given. Ten pages of a partition's column cost twice the time of one
to write, and a quarter more to read.

Nothing written here is visible until a `Transaction` commits it.

Removals of rows and partitions look up the partitions that rows lie in. The values are a table with the columns of one or more fields of the current spec. What a table of another spec holds is told by its own values where they
decide it, and by reading it where they do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.commits.transaction import Removal, TableUpdate
from lance_flight.catalog.manifests.manifest_rows import NewPartitions
from lance_flight.catalog.manifests.snapshot import (
    FixedPin,
    PartitionContext,
    PartitionTable,
    Snapshot,
    SpecTables,
    Version,
)
from lance_flight.catalog.storage.lance_columns import Layout, OpenFile
from lance_flight.catalog.storage.store import SMALL_BYTES, Store
from lance_flight.catalog.storage.table_versions import columns_of, kept_tables
from lance_flight.catalog.storage.whole_files import OFFSET_BITS, OFFSETS, ROW_ADDRESS
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.rows import NumberOf, by_ids, keep_row_ids
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.schema_adapter import writable
from lance_flight.catalog.tables.sources import source_of
from lance_flight.faults import failpoint
from lance_flight.machine import cores
from lance_flight.model.arrow_types import align_buffers, concatenate_tables, contiguous, without_columns
from lance_flight.model.hashing import RowGroups, group, match
from lance_flight.model.naming import directory_name
from lance_flight.model.schema import Path
from lance_flight.model.spec import Evaluate, PartitionField

DEFAULT_BYTES = 256 << 20
LEAST_BYTES = 64 << 20


@dataclass(slots=True)
class WriteMemory:
    """A budget of bytes, shared by all writers of a process: `total` for all of them, `per_write` for each (None: all).

    Each has its first `least` bytes whatever the others hold.
    """

    total: int = DEFAULT_BYTES
    per_write: int | None = None
    least: int = LEAST_BYTES
    _taken: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def taken(self) -> int:
        """The bytes that writers hold at this moment."""
        return self._taken

    def take(self, size: int, held: int) -> bool:
        """Reserve `size` bytes for a writer that has `held` bytes already; False where they are not to be had."""
        if self.per_write is not None and held + size > self.per_write:
            return False
        with self._lock:
            if self._taken + size > self.total and held + size > self.least:
                return False
            self._taken += size
            return True

    def release(self, size: int) -> None:
        """Return bytes that were taken."""
        with self._lock:
            self._taken -= size


write_memory = WriteMemory()
"""The budget of this process; a server sets its bounds before it writes anything."""


CHUNK_BYTES = 96 << 20
CHUNK_ROWS = 128 << 10  # a column of so many fits a core's cache: larger chunks take twice as long to arrange
CHUNK_ROWS_OF_A_PARTITION = 1 << 10  # in a chunk of many partitions, each of which costs the same for few rows and many
KNOWN_PARTITIONS_PER_ROW = 8
_SECONDS_BETWEEN_CHECKS = 0.1
TABLE_BYTES, COLUMN_BYTES = 1 << 10, 256  # of a table of few rows, beside their values
MOST_OPEN_FILES = 256
MOST_ROWS_IN_A_FILE = 4 << 20
PIECE_BYTES = 64 << 20  # of one partition, written while more rows come: its pages get no better by waiting
PIECE_ROWS = 1 << 20
CACHED_BYTES = 256 << 10  # in an open file, before its pages are written: smaller ones would be slow to read
WRITERS, REMOTE_WRITERS = 4, 16  # more than cores: each opens and closes files, or waits for a request
MOVERS = cores()
ROWS_NOT_WORTH_A_THREAD = 16 << 10

_Slice: TypeAlias = tuple[pa.Table, int, int]
"""Rows of a chunk that is arranged by partition, from one place to another."""


@dataclass(slots=True)
class _Pending:
    """Open files and finished files of one partition."""

    edit: TableUpdate
    version: int
    """Version that the files go on top of; 0 for a new table."""
    open_file: OpenFile | None = None
    row_ids: list[pa.Array] = field(default_factory=list)
    """Those that the rows in the open file keep: all of them, or none."""
    kept: _Pending | None = None
    """Writes of the rows that keep their ids: they have files of their own."""
    layout: Layout | None = None
    is_known: bool = False
    """True once the layout of its files has been determined, if there is one that fits the rows as they come."""
    gathered: list[_Slice] = field(default_factory=list)
    """Rows that are not written yet."""
    gathered_rows: int = 0

    def gather(self, rows: _Slice) -> None:
        """Gather rows until there are enough of them for a write."""
        self.gathered.append(rows)
        self.gathered_rows += rows[2] - rows[1]

    def take_gathered(self) -> list[_Slice]:
        """Hand over the rows that are not written yet."""
        taken, self.gathered, self.gathered_rows = self.gathered, [], 0
        return taken

    @property
    def open_files(self) -> int:
        """Number of open files."""
        return (self.open_file is not None) + (0 if self.kept is None else self.kept.open_files)

    def close_files(self) -> None:
        """Close the open files; the rows of each become a fragment."""
        if self.open_file is not None:
            ids = pa.concat_arrays(self.row_ids) if self.row_ids else None
            self.edit.fragments += keep_row_ids([self.open_file.close()], ids)
            self.open_file = None
            self.row_ids.clear()
            failpoint("file_written")
        if self.kept is not None:
            self.kept.close_files()

    @property
    def of_kept(self) -> _Pending:
        """The writes of the rows that keep their ids."""
        if self.kept is None:
            self.kept = _Pending(self.edit, self.version)
        return self.kept


class PartitionWriter:
    """Writer that splits the rows of one stream by the snapshot's current spec, and writes them next to their tables.

    Rows come in as tables of exactly the namespace schema. Each chunk is arranged by partition and kept while `write_memory` has
    room for it, so that a partition's rows are written in one piece where they fit. Two chunks of at most `CHUNK_BYTES` are in memory
    beside that, one being read while the other is written. Each partition has one open file for as long as there are not too many.
    Writers with one `mark` write new partitions into the same directories; without, each has directories of its own.
    Rows with an origin (`rows.ORIGIN_FIELDS`) that stay in their table, by `number_of`, keep their ids. `check` is called while it waits
    for its threads, and ends the write by an error: files of many partitions are written after the last row has come.
    """

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        key: bytes,
        evaluate: Evaluate,
        *,
        mark: str | None = None,
        number_of: NumberOf | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.rows = 0
        self._check = check
        self._store = store
        self._schema = snapshot.schema
        self._layout = Layout.of_new(snapshot.schema.table, snapshot.file_version)
        self._spec = snapshot.current_spec
        self._branch = snapshot.table_branch
        self._existing = snapshot.tables_of(self._spec.id)
        self._known = self._existing.values
        self._names = NewPartitions(snapshot, self._spec, key)
        self._pending: dict[int, _Pending] = {}
        self._evaluate = evaluate
        self._mark = mark
        self._number_of = number_of or (lambda _: None)
        self._threads = REMOTE_WRITERS if store.is_remote else WRITERS
        self._writers = ThreadPoolExecutor(self._threads, thread_name_prefix="partition-writer")
        self._movers = ThreadPoolExecutor(MOVERS, thread_name_prefix="row-mover")
        self._running: list[Future[None]] = []
        self._waiting: deque[tuple[_Pending, list[_Slice]]] = deque()
        """Queue of the threads that write."""
        self._held_bytes = 0
        """Of whole chunks: their memory is free only when every partition's rows of them are written."""
        self._writes_all = False
        self._chunk_rows = CHUNK_ROWS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Stop writing, and return once all writes have ended."""
        self._waiting.clear()
        for pool in (self._movers, self._writers):
            pool.shutdown(wait=True, cancel_futures=True)
        self._release()
        for pending in self._pending.values():
            # A file that is dropped while it is open waits for its runtime with the interpreter's lock in hand.
            with suppress(OSError):
                pending.close_files()

    def write_all(self, tables: Iterable[pa.Table]) -> None:
        """Write every row of `tables`."""
        for chunk in self._cut_into_chunks(tables):
            failpoint("rows_received")
            self._write(chunk)
        self._wait()
        self._write_gathered(self._pending.values(), is_end=True)
        self._wait()
        self._close_files()

    @property
    def edits(self) -> list[TableUpdate]:
        """The updates written so far, one entry per partition."""
        return [pending.edit for pending in self._pending.values()]

    def _cut_into_chunks(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the same rows in tables of about `_chunk_rows`, or `CHUNK_BYTES` where that is less."""
        held: list[pa.Table] = []
        size = rows = 0
        for table in tables:
            held.append(table)
            # A table takes memory however small it is.
            size += table.nbytes + TABLE_BYTES + COLUMN_BYTES * table.num_columns
            rows += table.num_rows
            if size >= CHUNK_BYTES or rows >= self._chunk_rows:
                if rows:
                    yield pa.concat_tables(held)
                held, size, rows = [], 0, 0
        if rows:
            yield pa.concat_tables(held)

    def _write(self, chunk: pa.Table) -> None:
        groups, numbers = self._group_rows(chunk)
        arranged = chunk if groups.order is None else self._reorder_rows(chunk, groups.order)
        self._wait()
        for number, start, stop in zip(numbers, groups.starts[:-1].tolist(), groups.starts[1:].tolist(), strict=True):
            self._pending[number].gather((arranged, start, stop))
        self.rows += chunk.num_rows
        self._chunk_rows = max(
            CHUNK_ROWS, CHUNK_ROWS_OF_A_PARTITION * len(numbers), self._known.num_rows * KNOWN_PARTITIONS_PER_ROW
        )
        size = chunk.nbytes
        if write_memory.take(size, self._held_bytes):
            self._held_bytes += size
            most = min(PIECE_ROWS, PIECE_BYTES * chunk.num_rows // max(size, 1))
            self._write_gathered([p for p in map(self._pending.__getitem__, numbers) if p.gathered_rows >= most])
        else:
            self._writes_all = True
            self._write_gathered(self._pending.values())

    def _group_rows(self, chunk: pa.Table) -> tuple[RowGroups, list[int]]:
        """Return the rows of a chunk by partition, and the numbers of the partitions; without fields there is one."""
        if self._spec.fields:
            values = partition_values(chunk, self._spec.fields, self._schema.source_paths, self._evaluate)
            groups = group(values.columns, chunk.num_rows)
            return groups, self._numbers(values.take(groups.first))
        only = np.zeros(1, np.int64)
        if not self._pending:
            self._begin(only, without_columns(1), only)
        return RowGroups(None, np.array([0, chunk.num_rows]), only), [0]

    def _write_gathered(self, partitions: Iterable[_Pending], *, is_end: bool = False) -> None:
        """Start to write the gathered rows of some partitions; at the end, close their files too."""
        due = [pending for pending in partitions if pending.gathered]
        if self._open_files + len(due) > MOST_OPEN_FILES:
            self._close_files()
        rows = sum(pending.gathered_rows for pending in due)
        parts = [(pending, pending.take_gathered()) for pending in due]
        self._waiting.extend(parts)
        if rows <= ROWS_NOT_WORTH_A_THREAD and (len(parts) == 1 or not self._store.is_remote):
            self._write_waiting(is_end=is_end, check=self._check)
        else:
            # A task for each thread and not for each partition, which costs as much as a part of its file.
            tasks = range(min(self._threads, len(parts)))
            self._running += [self._writers.submit(self._write_waiting, is_end=is_end) for _ in tasks]

    def _reorder_rows(self, chunk: pa.Table, order: np.ndarray) -> pa.Table:
        """Return the rows in another order, one column on each thread."""
        rows = pa.array(order.astype(np.uint32))
        if chunk.num_rows <= ROWS_NOT_WORTH_A_THREAD:
            return chunk.take(rows)
        return pa.Table.from_arrays(
            list(self._movers.map(lambda column: column.take(rows), chunk.columns)), schema=chunk.schema
        )

    def _write_waiting(self, *, is_end: bool, check: Callable[[], None] = lambda: None) -> None:
        while True:
            try:
                part = self._waiting.popleft()
            except IndexError:
                return
            check()
            self._write_partition(*part, is_end=is_end)

    def _write_partition(self, pending: _Pending, gathered: list[_Slice], *, is_end: bool) -> None:
        parts = [rows.slice(start, stop - start) for rows, start, stop in gathered]
        rows = (parts[0] if len(parts) == 1 else pa.concat_tables(parts)).combine_chunks()
        gathered.clear()
        pending.edit.rows += rows.num_rows
        number = self._number_of(pending.edit.object_id)
        # What is left at the end lies in the chunks that are held.
        are_small = is_end and self._held_bytes <= SMALL_BYTES
        for part, ids in by_ids(rows, self._schema.table, number):
            is_small = are_small or (is_end and part.nbytes <= SMALL_BYTES)
            self._write_rows(pending if ids is None else pending.of_kept, part, ids, is_small=is_small)
        if is_end:
            pending.close_files()

    def _write_rows(self, pending: _Pending, rows: pa.Table, ids: pa.Array | None, *, is_small: bool) -> None:
        edit = pending.edit
        store = self._store.child(edit.place)
        layout = self._layout_of(pending)
        if edit.table is not None and layout is None:
            # The table has columns of its own: Lance has to read which.
            dataset = partitions.open_table(self._store, edit.table)
            rows = writable(rows, dataset, PartitionContext(self._schema, edit.table.identity), edit.table.location)
            batches = map(align_buffers, rows.to_batches())
            reader = pa.RecordBatchReader.from_batches(rows.schema, batches)
            edit.fragments += keep_row_ids(partitions.write_files(store, pending.version, reader), ids)
            return
        layout = layout or self._layout
        if pending.open_file is None:
            pending.open_file = OpenFile(store, layout, cache_bytes=CACHED_BYTES, is_small=is_small)
            edit.files.append(pending.open_file.name)
        pending.open_file.write(rows)
        if ids is not None:
            pending.row_ids.append(ids)
        if pending.open_file.rows >= MOST_ROWS_IN_A_FILE or len(self._pending) > MOST_OPEN_FILES:
            pending.close_files()

    def _layout_of(self, pending: _Pending) -> Layout | None:
        table = pending.edit.table
        if table is not None and not pending.is_known:
            store, pin = self._store.child(table.location), table.pin
            columns = columns_of(store, pin.version) if type(pin) is Version else None
            pending.layout = self._layout.find(columns, partial(partitions.open_to_append, store, pin))
            pending.is_known = True
        return pending.layout

    @property
    def _open_files(self) -> int:
        return sum(pending.open_files for pending in self._pending.values())

    def _close_files(self) -> None:
        opened = [pending for pending in self._pending.values() if pending.open_files]
        if len(opened) == 1:
            opened[0].close_files()
            return
        for future in [self._writers.submit(pending.close_files) for pending in opened]:
            future.result()

    def _wait(self) -> None:
        running, self._running = self._running, []
        for future in running:
            while not wait([future], _SECONDS_BETWEEN_CHECKS).done:
                self._check()
            future.result()
        if self._writes_all:
            self._release()

    def _release(self) -> None:
        write_memory.release(self._held_bytes)
        self._held_bytes, self._writes_all = 0, False

    def _numbers(self, values: pa.Table) -> list[int]:
        """Return a number for each of these (distinct) partition values, which is its row in `_known`."""
        places = match(values, self._known)
        missing = values.filter(pa.array(places < 0))
        places[places < 0] = range(self._known.num_rows, self._known.num_rows + missing.num_rows)
        self._known = pa.concat_tables([self._known, missing]).combine_chunks()
        self._begin(places, values, np.flatnonzero([number not in self._pending for number in places]))
        return [int(number) for number in places]

    def _begin(self, numbers: np.ndarray, values: pa.Table, places: np.ndarray) -> None:
        """Begin with the partitions in some places of `numbers` and `values`, all tables together and all new ones together."""
        is_there = numbers[places] < len(self._existing)
        there, new = places[is_there], places[~is_there]
        if len(there):
            for place, table in zip(there.tolist(), self._existing.tables(numbers[there]), strict=True):
                base = partitions.base_of(self._store.child(table.location), table.pin, self._branch)
                files = partitions.place_of_files(table.location, base)
                edit = self._edit(values.slice(place, 1), table.object_id, table.location, files, table)
                self._pending[int(numbers[place])] = _Pending(edit, base.version)
        if len(new):
            # `take` forgets the rows of a table without columns.
            named = self._names.object_ids(values.filter(pa.array(np.isin(np.arange(values.num_rows), new))))
            for place, object_id in zip(new.tolist(), named, strict=True):
                location = directory_name(object_id, self._mark)
                edit = self._edit(values.slice(place, 1), object_id, location, location, None)
                self._pending[int(numbers[place])] = _Pending(edit, 0)

    def _edit(
        self, values: pa.Table, object_id: str, location: str, place: str, table: PartitionTable | None
    ) -> TableUpdate:
        return TableUpdate(
            spec=self._spec,
            schema=self._schema.table,
            values=values,
            object_id=object_id,
            location=location,
            place=place,
            table=table,
        )


def partition_values(
    rows: pa.Table, fields: Sequence[PartitionField], paths: Mapping[int, Path], evaluate: Evaluate
) -> pa.Table:
    """Return the partition values of each row, one column per field; `paths` are those of the sources by their ids.

    A removed source column counts as NULL, and so does a field inside a struct that is NULL.
    """
    columns = []
    for partition_field in fields:
        sources = [
            _source(rows, paths[n]) if n in paths else pa.nulls(rows.num_rows) for n in partition_field.source_ids
        ]
        columns.append(partition_field.apply(sources, evaluate))
    return pa.table(columns, names=[partition_field.column for partition_field in fields])


def _source(rows: pa.Table, path: Path) -> pa.Array:
    column = contiguous(rows[path[0]])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


@dataclass(frozen=True, slots=True)
class Held:
    """Tables whose rows all have the values, and addresses (fragment << 32 | offset) of such rows in further tables."""

    whole: tuple[PartitionTable, ...]
    partly: dict[PartitionTable, np.ndarray]


def held(root: Store, snapshot: Snapshot, wanted: pa.Table, evaluate: Evaluate) -> Held:
    """Return where the rows lie that have one of the rows of `wanted` as their values, over all spec versions."""
    fields = _fields(snapshot, wanted)
    whole: list[PartitionTable] = []
    partly: dict[PartitionTable, np.ndarray] = {}
    for tables in snapshot.tables:
        known = _known_values(tables, snapshot, fields, evaluate)
        hits = match(known, wanted.select(known.column_names)) >= 0 if known.num_columns else np.ones(len(tables), bool)
        partition_tables = tables.tables(np.flatnonzero(hits))
        if known.num_columns == len(fields):
            whole += partition_tables
            continue
        for table in partition_tables:
            addresses = _addresses(root, snapshot, table, wanted, evaluate)
            if len(addresses):
                partly[table] = addresses
    return Held(tuple(whole), partly)


def _known_values(
    tables: SpecTables, snapshot: Snapshot, fields: Sequence[PartitionField], evaluate: Evaluate
) -> pa.Table:
    """Return the values of those of `fields` that the tables' own values decide, one row for each table.

    A field of their own spec does, and so do the sources themselves, for as long as they are columns; not a doubtful one.
    """
    sure = [field for field in tables.spec.fields if field.field_id not in snapshot.doubtful_fields]
    own = {field.field_id for field in sure}
    sources = {
        field.source_ids[0]: field.column
        for field in sure
        if field.rule.keeps_value and snapshot.schema.column(field.source_ids[0]) is not None
    }
    columns = {}
    for wanted in fields if len(tables) else ():
        if wanted.field_id in own:
            columns[wanted.column] = tables.values[wanted.column]
        elif all(number in sources for number in wanted.source_ids):
            values = [tables.values[sources[number]].combine_chunks() for number in wanted.source_ids]
            columns[wanted.column] = wanted.apply(values, evaluate)
    return pa.table(columns)


def _fields(snapshot: Snapshot, wanted: pa.Table) -> list[PartitionField]:
    fields = {field.column: field for field in snapshot.current_spec.fields}
    return [fields[name] for name in wanted.column_names]


def _addresses(
    root: Store, snapshot: Snapshot, table: PartitionTable, wanted: pa.Table, evaluate: Evaluate
) -> np.ndarray:
    """Return the addresses of the rows of a table that have the values."""
    fields, schema = _fields(snapshot, wanted), snapshot.schema
    paths = schema.source_paths
    sources = dict.fromkeys(paths[n][0] for f in fields for n in f.source_ids if n in paths)
    columns = [*(schema.plain.field(name) for name in sources), pa.field(ROW_ADDRESS, pa.uint64())]
    scan = Scan(source=schema.plain, schema=pa.schema(columns), ids=schema.ids)
    addresses = []
    for batch in scan.read([lambda: [source_of(root, snapshot, table)]]):
        values = partition_values(pa.Table.from_batches([batch]), fields, paths, evaluate)
        addresses.append(batch.column(ROW_ADDRESS).to_numpy()[match(values, wanted) >= 0])
    return np.concatenate(addresses) if addresses else np.empty(0, np.uint64)


def rows_removed(root: Store, snapshot: Snapshot, gone: Mapping[PartitionTable, np.ndarray]) -> list[TableUpdate]:
    """Return one edit for each table that takes the rows at these addresses (fragment << 32 | offset) away."""
    edits = []
    for table, addresses in gone.items():
        # Deletion files are written where the version will lie that they are for.
        dataset = partitions.open_at(root.child(table.location), _base(root, snapshot, table), kept_tables.open)
        edits.append(edit_of(root, snapshot, table, Removal.of(dataset, by_fragment(addresses))))
    return edits


def all_removed(root: Store, snapshot: Snapshot, tables: Iterable[PartitionTable]) -> list[TableUpdate]:
    """Return one edit for each table that takes all its rows away; none for a table that has none."""
    opened = ((table, partitions.open_table(root, table)) for table in tables)
    edits = [edit_of(root, snapshot, table, Removal.everything(dataset)) for table, dataset in opened]
    return [edit for edit in edits if edit.removal is not None and edit.removal.removed]


def replace_rows(
    root: Store, snapshot: Snapshot, written: Sequence[TableUpdate], evaluate: Evaluate
) -> list[TableUpdate]:
    """Return what makes room for newly written rows, which are marked so: everything else that falls into their partitions.

    Tables of the current spec go as a whole. Those of older ones are read, and lose the rows whose values under the
    current spec are among the new ones.
    """
    if not written:
        return []
    for edit in written:
        edit.replaces = True
    wanted = concatenate_tables([edit.values for edit in written])
    held_rows = held(root, snapshot, wanted, evaluate)
    return [*all_removed(root, snapshot, held_rows.whole), *rows_removed(root, snapshot, held_rows.partly)]


def drop_rows(root: Store, snapshot: Snapshot, values: pa.Table, evaluate: Evaluate) -> list[TableUpdate]:
    """Return an edit for each table with rows of some partition values, columns of a part of the current spec's fields.

    Tables that hold no others go away; from those of other specs that do, the rows are taken.
    """
    held_rows = held(root, snapshot, values, evaluate)
    emptied = [table for table, gone in held_rows.partly.items() if len(gone) == _count(root, table)]
    partly = {table: gone for table, gone in held_rows.partly.items() if table not in emptied}
    drops = [table_dropped(root, snapshot, table) for table in (*held_rows.whole, *emptied)]
    return [*drops, *rows_removed(root, snapshot, partly)]


def by_fragment(addresses: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Yield the row offsets within each fragment."""
    ordered = np.sort(addresses)
    for number in np.unique(ordered >> OFFSET_BITS):
        start, end = np.searchsorted(ordered, [number << OFFSET_BITS, (number + 1) << OFFSET_BITS])
        yield int(number), (ordered[start:end] & OFFSETS).tolist()


def combine_edits(edits: Iterable[TableUpdate]) -> list[TableUpdate]:
    """Return one edit for each table, none of those given: what goes from it and what comes to it are one version."""
    by_id: dict[str, TableUpdate] = {}
    for edit in edits:
        first = by_id.get(edit.object_id)
        if first is None:
            by_id[edit.object_id] = replace(edit, fragments=[*edit.fragments], files=[*edit.files])
        else:
            first.fragments += edit.fragments
            first.files += edit.files
            first.rows += edit.rows
            first.removal = first.removal or edit.removal
            first.replaces |= edit.replaces
    return list(by_id.values())


def edit_of(root: Store, snapshot: Snapshot, table: PartitionTable, removal: Removal | None = None) -> TableUpdate:
    """Return an edit of an existing table; data files are still to be added to it."""
    place = partitions.place_of_files(table.location, _base(root, snapshot, table))
    return _edit(snapshot, table, place, removal)


def table_dropped(root: Store, snapshot: Snapshot, table: PartitionTable) -> TableUpdate:
    """Return an edit that takes a table away with all its rows."""
    # Nothing is written for it, so that no branch of the table has to be there.
    return _edit(snapshot, table, table.location, Removal(rows=_count(root, table)), drops=True)


def _edit(
    snapshot: Snapshot, table: PartitionTable, place: str, removal: Removal | None, *, drops: bool = False
) -> TableUpdate:
    spec = snapshot.spec(table.spec_id)
    return TableUpdate(
        spec=spec,
        schema=snapshot.schema.table,
        values=snapshot.row(table.object_id).select([field.column for field in spec.fields]),
        object_id=table.object_id,
        location=table.location,
        place=place,
        table=table,
        removal=removal,
        drops=drops,
    )


def _count(root: Store, table: PartitionTable) -> int:
    return int(partitions.open_table(root, table).count_rows())


def _base(root: Store, snapshot: Snapshot, table: PartitionTable) -> FixedPin:
    return partitions.base_of(root.child(table.location), table.pin, snapshot.table_branch)
