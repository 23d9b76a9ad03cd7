"""Indices of a namespace: segments built over the files of each partition table, and committed together.

Lance asks the whole table how many parts there are to be, and fails where the files of a segment have fewer vectors than
that: they are counted here first.

Lance's own indices: its readers use them for filters and searches, and the rows say nothing else with them. A table that is
written to has the index for the files that it covers; the rest is read as without one, until the next run adds a segment.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation

from lance_flight.catalog.bulk.pieces import BY_THREADS, PieceWork, Progress, check_stopped
from lance_flight.catalog.commits.transaction import repin_rows
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.manifests.snapshot import FixedPin, PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import Revision, said_of
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import OPENERS, map_tables
from lance_flight.catalog.storage.whole_files import INDICES, sealed_index
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import (
    Coverage,
    IndexDefinition,
    IndexRules,
    all_segments,
    holds_old_values,
    index_named,
    indices_of,
    note_of,
)
from lance_flight.catalog.tables.schema_adapter import identify_columns, path_within
from lance_flight.errors import AlreadyExists, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.arrow_types import field_at, is_multivector, vector_type
from lance_flight.model.index_kinds import BYTE_METRIC, PACKED_BITS, Family, IndexKind, OptionValue, metrics_of

MOST_SEGMENTS = 4
"""Every search looks into each of them: beyond that the next one takes the place of all."""


_REFUSALS = (ValueError, TypeError, NotImplementedError, KeyError, RuntimeError)
"""Errors of Lance for an index that it cannot build."""

_LATE_TASKS = (0.05, 0.25)
"""Seconds between looks for what a build that failed leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSegment:
    """A piece of work: a segment of an index over some files of a version of a table, with `rows` in them, and their `size` in bytes.

    One that `replaces` takes the place of whatever the table has under the name.
    """

    object_id: str
    table: Store
    base: FixedPin
    place: Store
    column: str
    kind: IndexKind
    options: tuple[tuple[str, OptionValue], ...]
    name: str
    fragments: frozenset[int]
    rows: int
    size: int
    replaces: bool = False

    def run(self) -> lance.Index:
        """Write the segment, which is part of no version yet; nothing of it is left if that fails or is given up."""
        dataset = partitions.open_at(self.table, self.base)
        # Lance takes no name for a segment of most scalar kinds: what these leave, the next vacuum removes.
        segment = None if self.kind.family is Family.SCALAR else str(uuid.uuid4())
        # Lance builds none of another column under a name that is there.
        name = f"{self.name} {uuid.uuid4()}" if self.replaces else self.name
        try:
            built = _built(
                dataset,
                self.column,
                self.kind,
                dict(self.options),
                name=name,
                fragments=self.fragments,
                segment=segment,
                check=check_stopped,
            )
            return replace(built, name=self.name, uuid=sealed_index(self.place.uri, built.uuid))
        except _REFUSALS as exc:
            self._give_up(segment)
            reason = self.table.parent.words(exc)
            what = _refusal(field_at(dataset.schema, self.column), self.kind, reason)
            raise Unsupported(f"partition table {self.object_id!r}: {what}") from exc
        except BaseException:
            self._give_up(segment)
            raise

    def has_files(self, result: lance.Index) -> bool:
        """Return whether the files of the segment are there: a vacuum removes one that was built long ago and is not committed."""
        return bool(self.place.child(INDICES, result.uuid).files())

    def undo(self, result: lance.Index) -> None:
        """Delete the files of the segment."""
        self._remove(result.uuid)

    def _give_up(self, segment: str | None) -> None:
        """Delete what a build has written before it failed."""
        self._remove(segment)
        if segment is None or self.place.is_remote:
            return
        # A task of Lance that is not over with the build makes the empty directory of its files again, some 10 ms later.
        for seconds in _LATE_TASKS:
            time.sleep(seconds)
            self._remove(segment)

    def _remove(self, segment: str | None) -> None:
        if segment is not None:
            self.place.child(INDICES, segment).remove()


def check_possible(root: Store, column: pa.Field, definition: IndexDefinition) -> None:
    """Refuse an index that Lance cannot build, or not with these options, by a trial build over a single row."""
    kind, options = definition.of_kind, dict(definition.options)
    if kind.is_quantised and BYTE_METRIC in metrics_of(column.type):
        # Lance says so only where there are vectors enough to learn from: later REINDEX and COMPACT would fail.
        raise Unsupported(_refusal(column, kind, "bits are not quantised; expected ivf_flat or ivf_hnsw_flat"))
    row = pa.array([_trial_value(column.type)], column.type)
    dataset = lance.write_dataset(pa.table({column.name: row}), f"memory://{secrets.token_hex(8)}")
    if kind.is_quantised:
        options.setdefault("num_sub_vectors", 1)
    if "num_partitions" in options:
        # Lance warns of more parts than there are rows.
        options["num_partitions"] = 1
    try:
        _built(dataset, column.name, kind, options, name=definition.name, fragments=[0])
    except _REFUSALS as exc:
        raise Unsupported(_refusal(column, kind, root.words(exc))) from exc


def _trial_value(kind: pa.DataType) -> list[object] | None:
    """Return a vector or multivector of a type; None for any other type."""
    if is_multivector(kind):
        return [_trial_value(kind.value_type)]
    return [1] * kind.list_size if pa.types.is_fixed_size_list(kind) else None


def _built(
    dataset: LanceDataset,
    column: str,
    kind: IndexKind,
    options: Mapping[str, OptionValue],
    *,
    name: str,
    fragments: Iterable[int],
    segment: str | None = None,
    check: Callable[[], None] = lambda: None,
) -> lance.Index:
    """Build a segment, called `segment` (None: by any name); `check` may end it where Lance says how far it is."""
    built = dataset.create_index_uncommitted(
        column,
        kind.lance,
        name=name,
        replace=True,
        fragment_ids=sorted(fragments),
        index_uuid=segment,
        progress_callback=partial(_check, check),
        **options,
    )
    if kind.family is Family.TEXT:
        # Its parts are one only then.
        dataset.merge_index_metadata(built.uuid, kind.lance)
    # Lance may come to the end before it looks at what a stage has raised.
    check()
    return built


def _check(check: Callable[[], None], event: lance.IndexProgress) -> None:
    # Lance only warns of an error at the end of a stage.
    if event.event != "complete":
        check()


def _refusal(column: pa.Field, kind: IndexKind, reason: str) -> str:
    return f"no {kind.name} index of column {column.name!r} ({column.type}): {reason}"


def stage(piece: BuildSegment, built: lance.Index, metadata: Mapping[str, str]) -> FixedPin:
    """Stage a version of the table with the built index; it is invisible, except in a plain table, which stores `metadata`."""
    dataset = partitions.open_at(piece.table, piece.base)
    old = Coverage.of(dataset, piece.name, piece.column, piece.kind)
    useless = [*old.others, *old.segments] if piece.replaces else old.replaced_by(piece.fragments)
    operation = LanceOperation.CreateIndex([built], useless)
    return partitions.stage(piece.table, piece.base, operation, metadata)


def stage_without(
    table: Store, base: FixedPin, name: str | None = None, metadata: Mapping[str, str] = MappingProxyType({})
) -> FixedPin | None:
    """Stage a version of a table without an index (None: any), invisible until it is committed.

    None where it has none of that name.
    """
    old = [segment for segment in all_segments(partitions.open_at(table, base)) if name in (None, segment.name)]
    return partitions.stage(table, base, LanceOperation.CreateIndex([], old), metadata) if old else None


MOST_PARTS = 4096
_NUMBERS_OF_SUB_VECTOR = (8, 4, 2)
_BITS = 8
_BATCH_ROWS = 1024


def vector_options(
    dataset: LanceDataset,
    column: str,
    kind: IndexKind,
    options: Mapping[str, OptionValue],
    fragments: Mapping[int, int],
) -> dict[str, OptionValue] | None:
    """Return the options of a segment over some files (with their rows), including those that Lance has no default for.

    None where there are too few vectors to learn from. NULL and what has a number that is not finite does not count.
    """
    stored = field_at(dataset.schema, column).type
    vectors = vector_type(stored)
    if not pa.types.is_fixed_size_list(vectors):
        return dict(options)  # Lance says what is the matter
    count = sum(fragments.values())
    if is_multivector(stored):
        count = round(count * _vectors_of_row(dataset, column, fragments))
    parts = int(options.get("num_partitions", 0)) or min(max(1, count // kind.rows_of_part), MOST_PARTS)
    least, more = 1, {}
    if kind.is_quantised:
        least = 1 << int(options.get("num_bits", _BITS))
        more = {"num_sub_vectors": _sub_vectors(vectors.list_size, options)}
    usable = _vectors(dataset, column, fragments, most=max(parts, least))
    return {**more, **options, "num_partitions": min(parts, usable)} if usable >= least else None


def _sub_vectors(size: int, options: Mapping[str, OptionValue]) -> int:
    """Return the number of sub-vectors, of eight numbers each if possible: with twice as many recall falls by a third.

    Lance packs two of four bits into a byte, and takes an even number of those.
    """
    packed = 2 if options.get("num_bits") == PACKED_BITS else 1
    return next((size // number for number in _NUMBERS_OF_SUB_VECTOR if size % (number * packed) == 0), packed)


def _vectors_of_row(dataset: LanceDataset, column: str, fragments: Iterable[int]) -> float:
    """Return how many vectors a multivector has on average, by the first rows of some files."""
    first = next(_batches(dataset, column, fragments), None)
    return len(first.flatten()) / len(first) if first is not None and len(first) else 0.0


def _batches(dataset: LanceDataset, column: str, fragments: Iterable[int]) -> Iterator[pa.Array]:
    files = [dataset.get_fragment(number) for number in sorted(fragments)]
    for batch in dataset.scanner(columns=[column], fragments=files, batch_size=_BATCH_ROWS).to_batches():
        yield batch.column(0)


def _vectors(dataset: LanceDataset, column: str, fragments: Iterable[int], most: int) -> int:
    """Return how many vectors some files have, up to a number."""
    vectors = 0
    for stored in _batches(dataset, column, fragments):
        vectors += _usable(stored.flatten() if is_multivector(stored.type) else stored)
        if vectors >= most:
            return most
    return vectors


def _usable(vectors: pa.FixedSizeListArray) -> int:
    stored = vectors.drop_null()
    numbers = stored.flatten().to_numpy(zero_copy_only=False).reshape(-1, vectors.type.list_size)
    return int(np.isfinite(numbers).all(axis=1).sum())


TABLES_PER_COMMIT = 256
COMMIT_SECONDS = 5.0
"""Seconds of work after which what is built is committed: so much of it, and the segments that are being built, is lost to a kill."""
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
class IndexingReport(OperationReport):
    """Report of indexing: the snapshot that shows it, and how many of the tables and rows it has covered."""

    snapshot: int
    name: str
    table_count: int
    tables: int
    rows: int

    @property
    def as_table(self) -> pa.Table:
        """One row."""
        return pa.Table.from_pylist([asdict(self)], schema=INDEXING_SCHEMA)

    def __str__(self) -> str:
        return (
            f"index {self.name}: {self.tables:,} of {self.table_count:,} partition tables, {self.rows:,} rows,"
            f" snapshot {self.snapshot}"
        )


@dataclass(frozen=True, slots=True)
class RefreshReport(OperationReport):
    """Report of several indices that were brought up to date."""

    indices: Sequence[IndexingReport]

    @property
    def as_table(self) -> pa.Table:
        """One row for each index."""
        return pa.concat_tables([INDEXING_SCHEMA.empty_table(), *(index.as_table for index in self.indices)])

    @property
    def lines(self) -> list[str]:
        return [*map(str, self.indices)] or ["there is no index"]


class _Indexing:
    """The build of one index: segments for the tables that lack them, committed on the way.

    It is the change of each commit as well (`version_log.Change`): what is built becomes part of its tables.
    """

    def __init__(self, namespace: Table, rules: IndexRules | str, work: PieceWork, *, replaces: bool) -> None:
        self._replaces = replaces
        self._namespace = namespace
        self._root = namespace.store
        self._rules = rules
        self._work = work
        self._possible: pa.Field | None = None
        self._built: dict[str, tuple[BuildSegment, lance.Index]] = {}
        self._staged: dict[_Place, FixedPin] = {}
        self._exposed: set[str] = set()
        self._settled: set[str] = set()
        self._now: list[BuildSegment] = []
        self._since = time.monotonic()
        self.done: list[BuildSegment] = []

    def build(self) -> int:
        """Build what is missing, some tables at a time, and return the version in which the last of it is visible.

        One that replaces another index is built as a whole, and takes its place in one commit: until then the other one is there.
        """
        try:
            if self._replaces:
                while self._build_some():
                    pass
                self._commit()
                self._replaces = False
            while self._build_some():
                self._commit()
            return self._commit()
        finally:
            self._discard()

    def _build_some(self) -> bool:
        """Build segments of some more tables; return whether any table lacked one."""
        self._work.check()
        snapshot = self._namespace.snapshot()
        definition, _ = self._define_index(snapshot)
        tables = snapshot.all_tables()
        open_ones = [table for table in tables if table.object_id not in self._settled | self._built.keys()]
        with ThreadPoolExecutor(OPENERS, thread_name_prefix="indexing") as pool:
            pieces = list(islice(self._incomplete_tables(pool, snapshot, definition, open_ones), TABLES_PER_COMMIT))
        if pieces:
            self._work.do(pieces, len(self._settled), len(pieces), len(tables), partial(self._keep, pieces))
            failpoint("data_written")
        return bool(pieces)

    def _keep(self, pieces: Sequence[BuildSegment], number: int, index: lance.Index) -> None:
        """Take a segment that is built, and commit all that are where that took long enough."""
        piece = pieces[number]
        self._built[piece.object_id] = piece, index
        self._work.add_rows(piece.rows)
        failpoint("segment_built")
        if not self._replaces and time.monotonic() - self._since > COMMIT_SECONDS:
            self._commit()

    def _commit(self) -> int:
        """Make the segments that are built visible; tables with one are done, whatever is written to them from now on."""
        version = self._namespace.evolve(self)
        self.done += self._now
        for piece in self._now:
            self._settled.add(piece.object_id)
            del self._built[piece.object_id]
        self._now = []
        # Segments of files that are no longer there: these tables get others in the next step.
        self._discard()
        self._since = time.monotonic()
        return version

    def _discard(self) -> None:
        """Delete the segments that no version of a table can have, not even a staged one."""
        for object_id, (piece, index) in self._built.items():
            if object_id not in self._exposed:
                piece.undo(index)
        self._built.clear()

    def __call__(self, snapshot: Snapshot) -> Revision | None:
        definition, is_new = self._define_index(snapshot)
        with ThreadPoolExecutor(OPENERS, thread_name_prefix="indexing") as pool:
            tables = list(snapshot.tables_named(list(self._built)).values())
            pieces = list(pool.map(partial(self._fitting, snapshot, definition), tables))
            self._now = [piece for piece in pieces if piece is not None]
            operation = f"index {definition.name} of {len(self._now)} partitions"
            pins = list(pool.map(partial(self._stage, said_of(operation, ())), self._now))
        moved = {piece.object_id: pin for piece, pin in zip(self._now, pins, strict=True)}
        if self._replaces:
            moved |= _pins_without(self._root, snapshot, definition.name, kept=moved)
        if not moved and not is_new:
            return None
        rows = repin_rows(snapshot.rows_of(list(moved)), list(moved.values())) if moved else None
        others = [other for other in indices_of(snapshot) if other.name != definition.name]
        return Revision(operation=operation, rows=rows, notes=note_of([*others, definition]) if is_new else {})

    def _define_index(self, snapshot: Snapshot) -> tuple[IndexDefinition, bool]:
        """Return the index, and whether the snapshot has it not yet."""
        if isinstance(self._rules, str):
            return index_named(snapshot, self._rules), False
        definition = self._rules.define(snapshot)
        known = {index_definition.name: index_definition for index_definition in indices_of(snapshot)}.get(
            definition.name
        )
        is_new = known is None or (self._replaces and known != definition)
        if is_new:
            column = field_at(snapshot.schema.plain, self._rules.column)
            # Of a field inside structs the trial makes a column, whose name has no dots.
            self._check_possible(column.with_name(column.name.rpartition(".")[2]), definition)
        elif known != definition:
            raise AlreadyExists(f"index {definition.name!r} is there already, of another column, kind or options")
        return definition, is_new

    def _check_possible(self, column: pa.Field, definition: IndexDefinition) -> None:
        if self._possible is None or self._possible != column:
            check_possible(self._root, column, definition)
            self._possible = column

    def _incomplete_tables(
        self,
        pool: ThreadPoolExecutor,
        snapshot: Snapshot,
        definition: IndexDefinition,
        tables: Sequence[PartitionTable],
    ) -> Iterator[BuildSegment]:
        """Yield the work for the tables that lack the index, or a part of it."""
        for start in range(0, len(tables), TABLES_PER_COMMIT):
            self._work.check()
            batch = tables[start : start + TABLES_PER_COMMIT]
            segments = pool.map(partial(self._missing, snapshot, definition), batch)
            for table, piece in zip(batch, segments, strict=True):
                if piece is None:
                    self._settled.add(table.object_id)
                else:
                    yield piece

    def _missing(self, snapshot: Snapshot, definition: IndexDefinition, table: PartitionTable) -> BuildSegment | None:
        branch, replaces = snapshot.table_branch, self._replaces
        return missing_segment(self._root, snapshot, definition, branch, table, replaces=replaces)

    def _fitting(self, snapshot: Snapshot, definition: IndexDefinition, table: PartitionTable) -> BuildSegment | None:
        """Return the segment that was built for a table, to be staged on what the table is now.

        None where it is not as good for that as for the version that it was built on, others have made one meanwhile, or its files were vacuumed.
        """
        before, index = self._built[table.object_id]
        if not before.has_files(index):
            return None
        if partitions.resolve(before.table, table.pin) == before.base:
            return before
        piece = self._missing(snapshot, definition, table)
        if piece is None or piece.table.uri != before.table.uri:
            return None
        then, now = (_files(partitions.open_at(piece.table, base)) for base in (before.base, piece.base))
        files = all(now.get(number) == then[number] for number in before.fragments)
        fits = files and before.column == piece.column and before.fragments <= piece.fragments
        return replace(before, base=piece.base) if fits else None

    def _stage(self, metadata: Mapping[str, str], piece: BuildSegment) -> FixedPin:
        key = piece.table.uri, piece.base
        if key not in self._staged:
            _, index = self._built[piece.object_id]
            # A commit that fails may have been made.
            self._exposed.add(piece.object_id)
            self._staged[key] = stage(piece, index, metadata)
            failpoint("table_staged")
        return self._staged[key]


def missing_segment(
    root: Store,
    snapshot: Snapshot,
    definition: IndexDefinition,
    branch: str | None,
    table: PartitionTable,
    *,
    replaces: bool = False,
) -> BuildSegment | None:
    """Return the segment that an index lacks of one table, to be built on a branch of that table, which is forked; on its main branch for None.

    None where the index is about all its files, or it is too small, or lacks the column. One that `replaces` another index is missing as a whole.
    """
    store = root.child(table.location)
    base = partitions.resolve(store, table.pin)
    dataset = partitions.open_at(store, base)
    columns = identify_columns(dataset, snapshot.schema)
    path = path_within(columns, snapshot.schema, definition.field_id)
    fragments = {fragment.fragment_id: fragment.count_rows() for fragment in dataset.get_fragments()}
    if path is None or sum(fragments.values()) < max(definition.min_rows, 1):
        return None
    column = ".".join(path[0])
    coverage = Coverage.of(dataset, definition.name, column, definition.of_kind)
    is_vector = definition.of_kind.family is Family.VECTOR
    is_outdated = not is_vector and holds_old_values(dataset, coverage.segments, fragments.keys())
    if not coverage.missing and not is_outdated and not replaces:
        return None
    is_small = sum(fragments[number] for number in coverage.missing) < LARGE_PART * sum(fragments.values())
    added = is_small and len(coverage.segments) < MOST_SEGMENTS and not is_outdated and not replaces
    chosen = {number: fragments[number] for number in (coverage.missing if added else fragments)}
    options = _options(dataset, column, definition, chosen)
    if options is None:
        return None
    base = partitions.base_of(store, base, branch)
    return BuildSegment(
        object_id=table.object_id,
        table=store,
        base=base,
        place=root.child(partitions.place_of_files(table.location, base)),
        column=column,
        kind=definition.of_kind,
        options=tuple(options.items()),
        name=definition.name,
        fragments=frozenset(chosen),
        rows=sum(chosen.values()),
        size=sum(
            file.file_size_bytes or 0
            for fragment in dataset.get_fragments()
            if fragment.fragment_id in chosen
            for file in fragment.metadata.files
        ),
        replaces=replaces,
    )


def create_index(
    namespace: Table, rules: IndexRules | str, work: PieceWork = BY_THREADS, *, replaces: bool = False
) -> IndexingReport:
    """Give the namespace an index, and those of its partition tables that lack it, or go on with one that has the name.

    With `replaces` that one goes away in the commit that shows the new one. Some tables at a time, in commits with their pins: a run that was interrupted has done a part, and the next one does the rest.
    """
    # The transaction keeps what it reads from being vacuumed, and adds what a foreign namespace lacks for writes.
    reading = namespace.begin()
    indexing = _Indexing(namespace, rules, work, replaces=replaces)
    version = indexing.build()
    return IndexingReport(
        snapshot=version,
        name=rules if isinstance(rules, str) else rules.called,
        table_count=reading.base.table_count,
        tables=len(indexing.done),
        rows=sum(piece.rows for piece in indexing.done),
    )


def refresh_indices(namespace: Table, work: PieceWork = BY_THREADS) -> list[IndexingReport]:
    """Bring all indices up to date with the files that there are now."""
    names = [definition.name for definition in indices_of(namespace.snapshot())]
    return [
        create_index(namespace, name, replace(work, progress=_of_several(work.progress, place, len(names))))
        for place, name in enumerate(names)
    ]


def _of_several(progress: Progress | None, before: int, indices: int) -> Progress | None:
    """Return a callback that reports the tables of one of several indices to `progress`, after those of `before` indices."""
    return None if progress is None else lambda done, total: progress(before * total + done, indices * total)


def drop_index(namespace: Table, name: str) -> int:
    """Remove an index from the namespace and all its tables, in one commit, and return the version of that commit."""
    reading = namespace.begin()
    index_named(reading.base, name)

    def without(snapshot: Snapshot) -> Revision | None:
        left = [definition for definition in indices_of(snapshot) if definition.name != name]
        moved = _pins_without(namespace.store, snapshot, name)
        rows = repin_rows(snapshot.rows_of(list(moved)), list(moved.values())) if moved else None
        return Revision(operation=f"drop index {name} of {len(moved)} partitions", rows=rows, notes=note_of(left))

    return namespace.evolve(without)


def _options(
    dataset: LanceDataset, column: str, definition: IndexDefinition, fragments: Mapping[int, int]
) -> Mapping[str, OptionValue] | None:
    """Return what a segment over some files (with their rows) is built with; None where there is nothing to build it of."""
    if definition.of_kind.family is not Family.VECTOR:
        return definition.options
    return vector_options(dataset, column, definition.of_kind, definition.options, fragments)


def _pins_without(
    root: Store, snapshot: Snapshot, name: str, kept: Collection[str] = frozenset()
) -> dict[str, FixedPin]:
    """Stage versions without an index of the tables that have it, but for the `kept` ones; return them by the tables' object ids."""
    tables = [table for table in snapshot.all_tables() if table.object_id not in kept]
    pins = map_tables(partial(_without, root, snapshot.table_branch, name), tables, "indexing")
    return {table.object_id: pin for table, pin in zip(tables, pins, strict=True) if pin is not None}


def _without(root: Store, branch: str | None, name: str, table: PartitionTable) -> FixedPin | None:
    store = root.child(table.location)
    base = partitions.resolve(store, table.pin)
    if all(index.name != name for index in partitions.open_at(store, base).describe_indices()):
        return None
    return stage_without(store, partitions.base_of(store, base, branch), name, said_of(f"drop index {name}", ()))


def _files(dataset: LanceDataset) -> dict[int, list[str]]:
    return {f.fragment_id: [file.path for file in f.metadata.files] for f in dataset.get_fragments()}
