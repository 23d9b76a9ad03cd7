"""Partition tables at fixed versions, and parts of them, as work is divided: values that may go to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from lance import LanceDataset

from lance_flight.catalog.manifests.partition_context import PartitionContext
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_cache import opened_tables
from lance_flight.catalog.tables.partitions import open_at, open_table
from lance_flight.catalog.tables.sources import Source
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
