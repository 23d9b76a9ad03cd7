"""Sources of scans: opened versions of tables, what is known of their columns, files and partitions, and many tables read as one.

Planning a scan costs Lance about a millisecond, whatever it finds, so a hundred small tables cost a hundred times that.
Lance lets a data file lie under another base path than its dataset: a manifest that lists the files of all the tables,
and is never stored, is scanned at the price of one table. It has the indices of its tables, as segments of one index for
each name, and their lists of deleted rows, as long as the numbers of their files tell these apart. What was written on a branch lies
under a base path of its own. Tables that cannot be joined so (other columns, ids of rows in an index, files of one number in two
of them) are simply read by themselves.

Lance looks elements of lists up in an index where the type of the lists is that of the literal, which has no ids of elements. Partition
tables have these ids, and so such conditions are read from a second dataset in memory, without them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, count
from sys import intern
from typing import TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceFragment, LanceOperation
from lance.schema import LanceSchema

from lance_flight.catalog.manifests.snapshot import FixedPin, PartitionContext, PartitionTable, Snapshot
from lance_flight.catalog.storage.formats import file_version_of
from lance_flight.catalog.storage.lance_columns import Key, columns_of, has_extension, numbers, walk, without_files
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import kept_tables, map_tables
from lance_flight.catalog.storage.whole_files import OFFSET_BITS
from lance_flight.catalog.tables.indices import CarriedIndices, Signature
from lance_flight.catalog.tables.partitions import (
    in_memory,
    open_at,
    open_table,
    places_of_tables,
    renumber,
    under_bases,
)
from lance_flight.catalog.tables.rows import without
from lance_flight.catalog.tables.schema_adapter import Filling, filling, identify_columns, partly_stored
from lance_flight.lru_cache import VersionCache
from lance_flight.model.file_versions import FILE_VERSIONS
from lance_flight.model.schema import TABLE_FIELD_ID, NamespaceSchema


@dataclass(frozen=True, slots=True)
class Source:
    """An opened version of a table, or of several merged into one, and which of its fragments to read (None: all).

    `number` is what `TABLE_NUMBER` says of its rows, and `partition` what `PARTITION` does; `tables` are the names of those
    that were merged, and `owners` says which of them the files of a number are of, `partitions` which partition each of them is. `contexts` are what the manifest says of each
    of them, or of the one table; none of a plain one. `named_by` is the version that the names of the rows that it has hold for, if it is another one.

    `origins` says of the files of merged tables in which of these they are, and their numbers there, and `numbers` what `TABLE_NUMBER`
    says of the rows of each of these by itself. `without_element_ids` returns a dataset of the same files whose lists carry no ids of
    their elements; None where there is none.
    """

    dataset: LanceDataset
    fragments: tuple[LanceFragment, ...] | None = None
    number: int = 0
    tables: tuple[str, ...] = ()
    partition: str | None = None
    contexts: tuple[PartitionContext, ...] = ()
    owners: Mapping[int, str] = field(default_factory=dict, compare=False)
    named_by: LanceDataset | None = field(default=None, compare=False)
    partitions: Mapping[str, str] = field(default_factory=dict, compare=False)
    origins: Mapping[int, tuple[int, int]] = field(default_factory=dict, compare=False)
    numbers: tuple[int, ...] = field(default=(), compare=False)
    without_element_ids: Callable[[], LanceDataset | None] = field(default=lambda: None, compare=False, repr=False)

    def partitions_of(self, addresses: pa.Array) -> pa.Array:
        """Return the partitions of some rows of merged tables."""
        names = pa.array([self.partitions.get(name) for name in self.owners.values()], pa.utf8())
        fragments = pc.shift_right(addresses, pa.scalar(OFFSET_BITS, addresses.type))
        return names.take(pc.index_in(fragments, value_set=pa.array(list(self.owners), addresses.type)))

    @property
    def columns(self) -> tuple[pa.Field, ...]:
        """Its own columns, with the ids of those of the namespace that they hold."""
        namespace = self.contexts[0].schema if self.contexts else None
        known = _columns.get(self.dataset)
        if known is None or known[0] is not namespace:
            columns = columns_of(self.dataset) if namespace is None else identify_columns(self.dataset, namespace)
            known = _columns[self.dataset] = namespace, tuple(columns)
        return known[1]

    @property
    def name(self) -> str:
        """The name in errors."""
        return ", ".join(self.tables) or Store(self.dataset.uri).name

    def fragments_of_tables(self) -> Iterator[tuple[LanceFragment, str]]:
        """Yield each fragment of merged tables with the name of its table."""
        for fragment in self.dataset.get_fragments() if self.fragments is None else self.fragments:
            yield fragment, self.owners.get(fragment.fragment_id, self.name)

    def filling(self, columns: Sequence[pa.Field], wanted: Collection[int]) -> Filling:
        """Return how those of the `wanted` columns are filled that its files lack; `columns` are its own."""
        return filling(self.dataset, columns, self.contexts, self._tables_of_fragments if self.tables else None, wanted)

    def _tables_of_fragments(self) -> dict[int, int]:
        return {fragment: table for fragment, (table, _) in self.origins.items()}

    def count_rows(self) -> int:
        """Return how many rows there are, from metadata alone."""
        if self.fragments is None:
            return int(self.dataset.count_rows())
        return sum(fragment.count_rows() for fragment in self.fragments)

    @property
    def for_elements(self) -> Source:
        """The same rows, in a dataset in which Lance looks elements of lists up in indices, where there is one."""
        dataset = self.without_element_ids() if self.dataset.has_index else None
        if dataset is None:
            return self
        mine = self.fragments
        fragments = None if mine is None else tuple(dataset.get_fragment(field.fragment_id) for field in mine)
        return replace(self, dataset=dataset, fragments=fragments)

    def part(self, number: int, of: int) -> Source:
        """Return one of `of` equal parts: every `of`-th fragment."""
        fragments = self.dataset.get_fragments() if self.fragments is None else self.fragments
        return replace(self, fragments=tuple(fragments[number::of]))


_columns: WeakKeyDictionary[LanceDataset, tuple[NamespaceSchema | None, tuple[pa.Field, ...]]] = WeakKeyDictionary()
"""Columns of the versions that are open, which never change, and the schema of the namespace that their ids are of."""


Open: TypeAlias = Callable[[], Sequence[Source]]
"""Function that opens what a scan reads together."""


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A partition table at a fixed version; `number` distinguishes its rows from those of other tables, where needed.

    `partition` is its object id, for those who ask which rows are its, and `context` what the manifest says of these (None: it is
    no partition). Rows that it has in the version `named_by` have their names (`row_names`) from there.
    """

    store: Store
    pin: FixedPin
    number: int = 0
    partition: str | None = None
    context: PartitionContext | None = field(default=None, compare=False, repr=False)
    named_by: FixedPin | None = None

    def open(self) -> LanceDataset:
        """Return the table itself."""
        return open_at(self.store, self.pin)

    @property
    def source(self) -> Source:
        """All rows of it, for a scan."""
        contexts = () if self.context is None else (self.context,)
        named_by = None if self.named_by is None else open_at(self.store, self.named_by)
        dataset = open_at(self.store, self.pin, kept_tables.open)
        return Source(dataset, number=self.number, partition=self.partition, contexts=contexts, named_by=named_by)


@dataclass(frozen=True, slots=True)
class TablePart:
    """A table, or one of `of` parts of its fragments."""

    table: PinnedTable
    part: int = 0
    of: int = 1

    def sources(self) -> list[Source]:
        """Return what a scan reads for it."""
        return [self.table.source.part(self.part, self.of)]


def source_of(root: Store, snapshot: Snapshot, table: PartitionTable) -> Source:
    """Return all rows of a table of a namespace at its pin, which may be none that is fixed, for a scan."""
    return Source(open_table(root, table), contexts=(snapshot.context_of(table),))


def divide_rows(table: PinnedTable, rows: int, share: int) -> list[tuple[TablePart, int]]:
    """Divide a table of so many rows into parts of about `share`, as far as its fragments allow, each with its rows."""
    if rows <= share:
        return [(TablePart(table), rows)]
    of = min(-(-rows // share), len(table.open().get_fragments()))
    return [(TablePart(table, part, of), rows // of) for part in range(of)]


KEPT = 1_000_000
_counted = VersionCache[str, FixedPin, int](KEPT)


def row_counts(tables: Sequence[PinnedTable]) -> list[int]:
    """Count the live rows of each table."""
    known = [_counted.get(table.store.uri, table.pin) for table in tables]
    missing = {(table.store.uri, table.pin): table for table, rows in zip(tables, known, strict=True) if rows is None}
    counted = dict(zip(missing, map_tables(_count, missing.values(), "row-counts"), strict=True)) if missing else {}
    for (uri, pin), rows in counted.items():
        _counted.put(uri, pin, rows)
    return [
        counted[table.store.uri, table.pin] if rows is None else rows[0]
        for table, rows in zip(tables, known, strict=True)
    ]


def _count(table: PinnedTable) -> int:
    return int(table.open().count_rows())


KEPT_TABLES = 65_536
KEPT_MERGERS, KEPT_ALONE, KEPT_VERSIONS = 64, 256, 2
"""Datasets in memory: of so many choices of tables the last versions. Each has what Lance knows of all its files."""
FEWEST_TABLES = 2
MERGED_TABLES = 128


_Place = tuple[str, str | None, tuple[tuple[str, str], ...]]
"""Place of a table: its address, that of the store that it was reached from, and the options of both."""
_Places: TypeAlias = tuple[_Place, ...]
_Pins: TypeAlias = tuple[FixedPin, ...]


@dataclass(frozen=True, slots=True)
class _Files:
    """The data files of one version of a table: their columns (as Lance numbers them), fragments and indices.

    `layout` says the columns and the version of the files: Lance reads files of one version as one. `places` are the directories with the
    files, by the base paths that these name: those that were written on a branch lie in one of their own.

    Where indices, or lists of deleted rows, tell of the `numbers` of files, those of files that are gone among them, these must stay as they are.
    `lacking` are columns of the table that some files lack.
    """

    places: Mapping[int | None, str]
    layout: tuple[str, str]
    schema: LanceSchema
    fragments: tuple[FragmentMetadata, ...]
    indices: CarriedIndices
    numbers: frozenset[int]
    lacking: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Merged:
    """Tables as one dataset: their names stand in the order in which their files do.

    `numbers` are theirs, and `partitions` says which partition each of them is. `origins` says of the files of the dataset in which
    of the tables they are, and their numbers there; `versions` are the versions of the tables.
    """

    dataset: LanceDataset
    tables: tuple[str, ...]
    numbers: tuple[int, ...]
    contexts: tuple[PartitionContext, ...]
    origins: Mapping[int, tuple[int, int]]
    owners: Mapping[int, str]
    partitions: Mapping[str, str]
    versions: tuple[_Places, _Pins]

    @property
    def source(self) -> Source:
        """All rows of them, for a scan."""
        return Source(
            self.dataset,
            number=self.numbers[0],
            tables=self.tables,
            contexts=self.contexts,
            owners=self.owners,
            partitions=self.partitions,
            origins=self.origins,
            numbers=self.numbers,
            without_element_ids=partial(_without_element_ids, *self.versions),
        )


def merge(tables: Sequence[PinnedTable]) -> tuple[list[Merged], list[PinnedTable]]:
    """Return datasets that hold the rows of most of `tables`, and those tables that have to be read by themselves."""
    groups: dict[tuple[str, str], _Group] = {}
    alone = []
    for table in tables:
        files = _checked_files(table)
        if (
            files is None
            or _is_filled_in_part(table, files)
            or not groups.setdefault(files.layout, _Group()).takes(table, files)
        ):
            alone.append(table)
    merged = []
    for group in groups.values():
        if len(group.tables) < FEWEST_TABLES:
            alone += group.tables
        else:
            versions = tuple(_place(table.store) for table in group.tables), tuple(table.pin for table in group.tables)
            made = _merge_group(*versions)
            numbers = tuple(table.number for table in group.tables)
            contexts = tuple(table.context for table in group.tables if table.context is not None)
            partitions = {table.store.name: table.partition for table in group.tables if table.partition is not None}
            merged.append(
                Merged(made.dataset, made.names, numbers, contexts, made.origins, made.owners, partitions, versions)
            )
    return merged, alone


def _checked_files(table: PinnedTable) -> _Files | None:
    """Return what a merged dataset needs to know of a table, in none of whose directories a symbolic link lies now."""
    table.store.check_links()
    files = _files(_place(table.store), table.pin)
    if files is not None:
        for place in {*files.places.values()} - {table.store.uri}:
            replace(table.store, uri=place).check_links()
    return files


def _place(store: Store) -> _Place:
    return store.uri, store.top, tuple(sorted(store.options.items()))


def _store(place: _Place) -> Store:
    uri, top, options = place
    return Store(uri, dict(options), top=top)


def _base(uri: str, place: _Place) -> str:
    """Return the address of a base path: a search opens the files of each index anew, which Lance does without a thread there."""
    return replace(_store(place), uri=uri).uri_for_small_files


def _is_filled_in_part(table: PinnedTable, files: _Files) -> bool:
    """Return whether some, but not all, of the files lack a column of an identity field."""
    known = {} if table.context is None else table.context.identity.by_source
    if not known or not files.lacking or table.context is None:
        return False
    if all(isinstance(key, int) for key in files.lacking):
        return not files.lacking.isdisjoint(known)
    dataset = table.open()
    return bool(partly_stored(dataset, identify_columns(dataset, table.context.schema), known))


@dataclass(slots=True)
class _Group:
    """Tables with the same columns, and files of the same version, whose indices agree."""

    tables: list[PinnedTable] = field(default_factory=list)
    _numbers: set[int] = field(default_factory=set)
    _kinds: dict[str, Signature] = field(default_factory=dict)

    def takes(self, table: PinnedTable, files: _Files) -> bool:
        """Add a table, if its indices are compatible with those of the tables already added; return whether."""
        kinds = files.indices.kinds
        if not self._numbers.isdisjoint(files.numbers) or any(self._kinds.get(n, kind) != kind for n, kind in kinds):
            return False
        self._numbers |= files.numbers
        self._kinds |= dict(kinds)
        self.tables.append(table)
        return True


def sources(tables: Sequence[PinnedTable]) -> list[Source]:
    """Return the sources of a scan of `tables`: those that can be merged as one, and each of the rest."""
    merged, alone = merge(tables) if len(tables) > 1 else ((), tables)
    return [table.source for table in merged] + [own_source(table) for table in alone]


def own_source(table: PinnedTable) -> Source:
    """Return the source of a scan of one table by itself."""
    return replace(table.source, without_element_ids=partial(_without_own_element_ids, table))


def _without_own_element_ids(table: PinnedTable) -> LanceDataset | None:
    """Return a table as a dataset without ids of elements; None where its files would have other numbers there, or it cannot be one."""
    files = _checked_files(table)
    return None if files is None or not files.numbers else _without_element_ids((_place(table.store),), (table.pin,))


_known_files = VersionCache[_Place, FixedPin, _Files | None](KEPT_TABLES)
"""A version never changes, and a directory is never used again."""


def _files(place: _Place, pin: FixedPin) -> _Files | None:
    """Return what a merged dataset needs to know of a table; None if it cannot be part of one."""
    return _known_files.find(place, pin, partial(_read_files, place, pin))


def _read_files(place: _Place, pin: FixedPin) -> _Files | None:
    store = _store(place)
    dataset = open_at(store, pin)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    version = file_version_of(fragments) if fragments else str(dataset.data_storage_version)
    places = places_of_tables(dataset, store.uri, pin)
    if places is None or any(fragment.overlays for fragment in fragments) or version not in FILE_VERSIONS:
        return None
    if has_extension(dataset):
        # Values in files beside the data files are looked for in one table.
        return None
    if dataset.has_index and dataset.has_stable_row_ids:
        # Such an index knows rows by their ids, and two tables have the same ones.
        return None
    stores = {number: replace(store, uri=path) for number, path in places.items()}
    indices = CarriedIndices.of(dataset, stores) if dataset.has_index else CarriedIndices()
    numbers = [number for segment in indices.segments for number in segment.fragment_ids]
    # The name of a list of deleted rows has the number of its file.
    numbers += [fragment.id for fragment in fragments if fragment.deletion_file is not None]
    return _Files(
        places=places,
        layout=(intern(str(dataset.lance_schema)), version),
        schema=dataset.lance_schema,
        fragments=tuple(without(fragments)),
        indices=indices,
        numbers=frozenset([*numbers, *(fragment.id for fragment in fragments)]) if numbers else frozenset(),
        lacking=_lacking_columns(dataset, fragments),
    )


def _lacking_columns(dataset: LanceDataset, fragments: Sequence[FragmentMetadata]) -> frozenset[Key]:
    """Return the columns, by their ids or names, that the files of some fragments lack."""
    lacking = without_files(dataset.lance_schema, fragments)
    if not lacking:
        return frozenset()
    fields = zip(walk(columns_of(dataset)), numbers(dataset.lance_schema), strict=True)
    return frozenset(key for (key, _), number in fields if number in lacking)


@dataclass(frozen=True, slots=True)
class _Made:
    """Tables as one dataset, with their names, and whose its files are."""

    dataset: LanceDataset
    names: tuple[str, ...]
    origins: Mapping[int, tuple[int, int]]
    owners: Mapping[int, str]


_known_merges = VersionCache[_Places, _Pins, _Made](KEPT_MERGERS, most_versions=KEPT_VERSIONS)
_known_without_ids = VersionCache[_Places, _Pins, LanceDataset](KEPT_ALONE, most_versions=KEPT_VERSIONS)


def _merge_group(places: _Places, pins: _Pins) -> _Made:
    """Return some tables, all of one store, as one dataset."""
    return _known_merges.find(places, pins, partial(_make_dataset, places, pins))


def _without_element_ids(places: _Places, pins: _Pins) -> LanceDataset:
    """Return some tables, all of one store, as one dataset whose lists carry no ids of their elements; its files are numbered alike."""
    return _known_without_ids.find(places, pins, partial(_made_without_element_ids, places, pins))


def _made_without_element_ids(places: _Places, pins: _Pins) -> LanceDataset:
    dataset = _make_dataset(places, pins).dataset
    columns = zip(columns_of(dataset), dataset.lance_schema.fields(), strict=True)
    elements = [stored.children()[0].id() for column, stored in columns if pa.types.is_list(column.type)]
    without = LanceOperation.UpdateMap({TABLE_FIELD_ID.decode(): None})
    operation = LanceOperation.UpdateConfig(field_metadata_updates=dict.fromkeys(elements, without))
    options = _store(places[0]).options or None
    return LanceDataset.commit(dataset, operation, read_version=int(dataset.version), storage_options=options)


def _make_dataset(places: _Places, pins: _Pins) -> _Made:
    read_files = [_files(place, pin) for place, pin in zip(places, pins, strict=True)]
    # `merge` has asked before whether each of them can be a part.
    files = [read for read in read_files if read is not None]
    first = accumulate([1, *(len(read.places) for read in files)])
    bases = [dict(zip(read.places, count(start), strict=False)) for read, start in zip(files, first, strict=False)]
    parts = [(table, f) for table, read in enumerate(files) for f in under_bases(read.fragments, bases[table])]
    kept = sorted((part for part in parts if files[part[0]].numbers), key=lambda part: part[1].id)
    others = [part for part in parts if not files[part[0]].numbers]
    free = kept[-1][1].id + 1 if kept else 0
    options = _store(places[0]).options
    dataset = in_memory(
        files[0].schema,
        [*(fragment for _, fragment in kept), *renumber([fragment for _, fragment in others], free)],
        [_base(place, places[0]) for read in files for place in read.places.values()],
        options,
    )
    origins = {fragment.id: (table, fragment.id) for table, fragment in kept}
    origins |= {number: (table, fragment.id) for number, (table, fragment) in enumerate(others, free)}
    version = int(dataset.version)
    indices = [
        index for read, base in zip(files, bases, strict=True) for index in read.indices.under_bases(base, version)
    ]
    if indices:
        operation = LanceOperation.CreateIndex(indices, [])
        dataset = LanceDataset.commit(dataset, operation, read_version=version, storage_options=options or None)
    names = tuple(_store(place).name for place in places)
    return _Made(dataset, names, origins, {number: names[table] for number, (table, _) in origins.items()})
