"""Many partition tables read as one: a dataset in memory whose data files are those of the tables.

Planning a scan costs Lance about a millisecond, whatever it finds, so a hundred small tables cost a hundred times that.
Lance lets a data file lie under another base path than its dataset: a manifest that lists the files of all the tables,
and is never stored, is scanned at the price of one table. Tables that cannot be joined so (other columns, deleted
rows, row ids of their own, branches, object stores) are simply read by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from lance import FragmentMetadata, LanceDataset
from lance.schema import LanceSchema

from lance_flight.catalog.partitions import in_memory, open_at, under_base
from lance_flight.catalog.pinned_tables import PinnedTable
from lance_flight.catalog.scan import Source
from lance_flight.catalog.store import Store
from lance_flight.model.pins import BranchVersion, FixedPin

KEPT_TABLES = 65_536
KEPT_MERGERS = 64
FEWEST_TABLES = 2
MERGED_TABLES = 128


@dataclass(frozen=True, slots=True)
class _Files:
    """The data files of one version of a table: their columns (as Lance numbers them) and their fragments."""

    columns: str
    schema: LanceSchema
    fragments: tuple[FragmentMetadata, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """Tables as one dataset: their names stand in the order of its base paths, which count from one."""

    dataset: LanceDataset
    tables: tuple[str, ...]


def merge(tables: Sequence[PinnedTable]) -> tuple[list[Merged], list[PinnedTable]]:
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
            dataset = _merged(tuple((table.store.uri, table.pin) for table in group))
            merged.append(Merged(dataset, tuple(table.store.name for table in group)))
    return merged, alone


def sources(tables: Sequence[PinnedTable]) -> list[Source]:
    """What a scan reads for the rows of `tables`: those that can be merged as one, and the others."""
    merged, alone = merge(tables) if len(tables) > 1 else ((), tables)
    return [Source(found.dataset, tables=found.tables) for found in merged] + [
        Source(table.open(), number=table.number) for table in alone
    ]


@lru_cache(KEPT_TABLES)
def _files(uri: str, pin: FixedPin) -> _Files | None:
    """What a merged dataset needs to know of a table; None if it cannot be part of one.

    A version never changes, and a directory is never used again: this can be kept for good.
    """
    if isinstance(pin, BranchVersion):
        # What was written on a branch lies in a directory of its own, which nothing of the dataset tells.
        return None
    dataset = open_at(Store(uri), pin)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    plain = all(
        f.deletion_file is None
        and f.row_id_meta is None
        and not f.overlays
        and all(file.base_id is None for file in f.files)
        for f in fragments
    )
    if not plain or dataset.has_index:
        return None
    return _Files(str(dataset.lance_schema), dataset.lance_schema, tuple(fragments))


@lru_cache(KEPT_MERGERS)
def _merged(tables: tuple[tuple[str, FixedPin], ...]) -> LanceDataset:
    found = [_files(uri, pin) for uri, pin in tables]
    # `merge` has asked before whether each of them can be a part.
    files = [each for each in found if each is not None]
    fragments = [f for number, each in enumerate(files, 1) for f in under_base(each.fragments, number)]
    return in_memory(files[0].schema, fragments, [uri for uri, _ in tables])
