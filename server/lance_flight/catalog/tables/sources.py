"""Sources of scans: opened versions of tables, and what is known of their columns, files and partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceFragment

from lance_flight.catalog.manifests.snapshot import PartitionContext, PartitionTable, Snapshot
from lance_flight.catalog.storage.blobs import columns_of
from lance_flight.catalog.storage.names import OFFSET_BITS
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_cache import map_tables, opened_tables
from lance_flight.catalog.tables.partitions import open_at, open_table
from lance_flight.catalog.tables.schema_adapter import Filling, filling, identify_columns
from lance_flight.lru_cache import VersionCache
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import NamespaceSchema


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
        dataset = open_at(self.store, self.pin, opened_tables.open)
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
    missing = {(table.store.uri, table.pin): table for table, count in zip(tables, known, strict=True) if count is None}
    counted = dict(zip(missing, map_tables(_count, missing.values(), "row-counts"), strict=True)) if missing else {}
    for (uri, pin), count in counted.items():
        _counted.put(uri, pin, count)
    return [
        counted[table.store.uri, table.pin] if count is None else count[0]
        for table, count in zip(tables, known, strict=True)
    ]


def _count(table: PinnedTable) -> int:
    return int(table.open().count_rows())
