"""Partition tables opened at their pinned versions, and their row counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lance import LanceDataset

from lance_flight.catalog.manifests.snapshot import PartitionContext, PartitionTable, Snapshot
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_cache import map_tables, opened_tables
from lance_flight.catalog.tables.partitions import open_at, open_table
from lance_flight.catalog.tables.sources import Source
from lance_flight.lru_cache import VersionCache
from lance_flight.model.pins import FixedPin


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


def divided(table: PinnedTable, rows: int, share: int) -> list[tuple[TablePart, int]]:
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
    found = dict(zip(missing, map_tables(_count, missing.values(), "row-counts"), strict=True)) if missing else {}
    for (uri, pin), count in found.items():
        _counted.put(uri, pin, count)
    return [
        found[table.store.uri, table.pin] if count is None else count[0]
        for table, count in zip(tables, known, strict=True)
    ]


def _count(table: PinnedTable) -> int:
    return int(table.open().count_rows())
