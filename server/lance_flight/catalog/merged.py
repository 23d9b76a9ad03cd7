"""Many partition tables read as one: a dataset in memory whose data files are those of the tables.

Planning a scan costs Lance about a millisecond, whatever it finds, so a hundred small tables cost a hundred times that.
Lance lets a data file lie under another base path than its dataset: a manifest that lists the files of all the tables,
and is never stored, is scanned at the price of one table. Tables that cannot be joined so (other columns, deleted
rows, object stores) are simply read by themselves.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from lance import DatasetBasePath, FragmentMetadata, LanceDataset, LanceOperation

from lance_flight.catalog.partitions import open_at, under_base
from lance_flight.catalog.store import Store
from lance_flight.model.pins import FixedPin

KEPT_TABLES = 65_536
KEPT_MERGERS = 64
FEWEST_TABLES = 2


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A partition table at a fixed version; `number` tells its rows apart from those of others, where that matters."""

    store: Store
    pin: FixedPin
    number: int = 0

    def open(self) -> LanceDataset:
        """The table itself."""
        return open_at(self.store, self.pin)


@dataclass(frozen=True, slots=True)
class _Files:
    """The data files of one version of a table: their columns (as Lance numbers them) and their fragments."""

    columns: str
    schema: pa.Schema
    fragments: tuple[FragmentMetadata, ...]


def merge(tables: Sequence[PinnedTable]) -> tuple[list[LanceDataset], list[PinnedTable]]:
    """Datasets that hold the rows of most of `tables`, and those tables that have to be read by themselves."""
    groups: dict[str, list[PinnedTable]] = {}
    alone = []
    for table in tables:
        files = None if "://" in table.store.uri else _files(table.store.uri, table.pin)
        if files is None:
            alone.append(table)
        else:
            groups.setdefault(files.columns, []).append(table)
    merged = []
    for group in groups.values():
        if len(group) < FEWEST_TABLES:
            alone += group
        else:
            merged.append(_merged(tuple((table.store.uri, table.pin) for table in group)))
    return merged, alone


@lru_cache(KEPT_TABLES)
def _files(uri: str, pin: FixedPin) -> _Files | None:
    """What a merged dataset needs to know of a table; None if it cannot be part of one.

    A version never changes, and a directory is never used again: this can be kept for good.
    """
    dataset = open_at(Store(uri), pin)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    plain = all(
        f.deletion_file is None and not f.overlays and all(file.base_id is None for file in f.files) for f in fragments
    )
    if not plain or dataset.has_index:
        return None
    return _Files(str(dataset.lance_schema), dataset.schema, tuple(fragments))


@lru_cache(KEPT_MERGERS)
def _merged(tables: tuple[tuple[str, FixedPin], ...]) -> LanceDataset:
    bases, fragments = [], []
    schema: pa.Schema | None = None
    for number, (uri, pin) in enumerate(tables, 1):
        files = _files(uri, pin)
        if files is None:
            raise AssertionError(uri)  # `merge` has asked before
        schema = schema or files.schema
        bases.append(DatasetBasePath(uri, id=number, is_dataset_root=True))
        fragments += under_base(files.fragments, number)
    operation = LanceOperation.Overwrite(schema, fragments, initial_bases=bases)
    return LanceDataset.commit(f"memory://{secrets.token_hex(8)}", operation)
