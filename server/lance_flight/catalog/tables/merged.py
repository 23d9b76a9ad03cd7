"""Many partition tables read as one: a dataset in memory whose data files are those of the tables.

Planning a scan costs Lance about a millisecond, whatever it finds, so a hundred small tables cost a hundred times that.
Lance lets a data file lie under another base path than its dataset: a manifest that lists the files of all the tables,
and is never stored, is scanned at the price of one table. It has the indices of its tables, as segments of one index for
each name, as long as the numbers of their files tell these apart. Tables that cannot be joined so (other columns, deleted
rows, ids of rows in an index, branches, object stores) are simply read by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.schema import LanceSchema

from lance_flight.catalog.manifests.partition_context import PartitionContext
from lance_flight.catalog.storage.blobs import columns_of, has_extension
from lance_flight.catalog.storage.file_versions import version_of
from lance_flight.catalog.storage.lance_fields import Key, leaves, numbers, walk
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables.carried_indices import CarriedIndices, Signature
from lance_flight.catalog.tables.filling import partly_stored
from lance_flight.catalog.tables.lineage import without
from lance_flight.catalog.tables.partitions import in_memory, numbered, open_at, under_base
from lance_flight.catalog.tables.pinned_tables import PinnedTable
from lance_flight.catalog.tables.scan import Source
from lance_flight.catalog.tables.schema_adapter import identified
from lance_flight.model.file_versions import FILE_VERSIONS
from lance_flight.model.pins import BranchVersion, FixedPin

KEPT_TABLES = 65_536
KEPT_MERGERS = 64
FEWEST_TABLES = 2
MERGED_TABLES = 128


@dataclass(frozen=True, slots=True)
class _Files:
    """The data files of one version of a table: their columns (as Lance numbers them), fragments and indices.

    `layout` says the columns and the version of the files: Lance reads files of one version as one.

    Where indices tell of the `numbers` of files, those of files that are gone among them, these must stay as they are.
    `lacking` are columns of the table that some files lack.
    """

    layout: tuple[str, str]
    schema: LanceSchema
    fragments: tuple[FragmentMetadata, ...]
    indices: CarriedIndices
    numbers: frozenset[int]
    lacking: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Merged:
    """Tables as one dataset: their names stand in the order of its base paths, which count from one.

    `number` is that of the first of them, and `owners` says which of them the files of a number are of, `partitions` which
    partition each of them is.
    """

    dataset: LanceDataset
    tables: tuple[str, ...]
    number: int
    contexts: tuple[PartitionContext, ...]
    owners: Mapping[int, str]
    partitions: Mapping[str, str]

    @property
    def source(self) -> Source:
        """All rows of them, for a scan."""
        return Source(
            self.dataset,
            number=self.number,
            tables=self.tables,
            contexts=self.contexts,
            owners=self.owners,
            partitions=self.partitions,
        )


def merge(tables: Sequence[PinnedTable]) -> tuple[list[Merged], list[PinnedTable]]:
    """Return datasets that hold the rows of most of `tables`, and those tables that have to be read by themselves."""
    groups: dict[tuple[str, str], _Group] = {}
    alone = []
    for table in tables:
        table.store.check_links()
        files = None if "://" in table.store.uri else _files(table.store.uri, table.pin)
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
            dataset, names, owners = _merged(tuple((table.store.uri, table.pin) for table in group.tables))
            contexts = tuple(table.context for table in group.tables if table.context is not None)
            partitions = {each.store.name: each.partition for each in group.tables if each.partition is not None}
            merged.append(Merged(dataset, names, group.tables[0].number, contexts, owners, partitions))
    return merged, alone


def _is_filled_in_part(table: PinnedTable, files: _Files) -> bool:
    """Return whether some, but not all, of the files lack a column of an identity field."""
    known = {} if table.context is None else table.context.identity.by_source
    if not known or not files.lacking or table.context is None:
        return False
    if all(isinstance(key, int) for key in files.lacking):
        return not files.lacking.isdisjoint(known)
    dataset = table.open()
    return bool(partly_stored(dataset, identified(dataset, table.context.schema), known))


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
    return [found.source for found in merged] + [table.source for table in alone]


@lru_cache(KEPT_TABLES)
def _files(uri: str, pin: FixedPin) -> _Files | None:
    """Return what a merged dataset needs to know of a table; None if it cannot be part of one.

    A version never changes, and a directory is never used again: this can be kept for good.
    """
    if isinstance(pin, BranchVersion):
        # What was written on a branch lies in a directory of its own, which nothing of the dataset tells.
        return None
    dataset = open_at(Store(uri), pin)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    plain = all(
        f.deletion_file is None and not f.overlays and all(file.base_id is None for file in f.files) for f in fragments
    )
    version = version_of(fragments) if fragments else str(dataset.data_storage_version)
    if not plain or version not in FILE_VERSIONS:
        return None
    if has_extension(dataset):
        # Values in files beside the data files are looked for in one table.
        return None
    if dataset.has_index and dataset.has_stable_row_ids:
        # Such an index knows rows by their ids, and two tables have the same ones.
        return None
    indices = CarriedIndices.of(dataset, Store(uri)) if dataset.has_index else CarriedIndices()
    told = [number for segment in indices.segments for number in segment.fragment_ids]
    return _Files(
        layout=(str(dataset.lance_schema), version),
        schema=dataset.lance_schema,
        fragments=tuple(without(fragments)),
        indices=indices,
        numbers=frozenset([*told, *(each.id for each in fragments)]) if told else frozenset(),
        lacking=_lacking(dataset, fragments),
    )


def _lacking(dataset: LanceDataset, fragments: Sequence[FragmentMetadata]) -> frozenset[Key]:
    """Return the columns, by their ids or names, that the files of some fragments lack."""
    expected = set(leaves(dataset.lance_schema))
    lacking = {n for each in fragments for n in expected.difference(n for file in each.files for n in file.fields)}
    if not lacking:
        return frozenset()
    fields = zip(walk(columns_of(dataset)), numbers(dataset.lance_schema), strict=True)
    return frozenset(key for (key, _), number in fields if number in lacking)


@lru_cache(KEPT_MERGERS)
def _merged(
    tables: tuple[tuple[str, FixedPin], ...],
) -> tuple[LanceDataset, tuple[str, ...], Mapping[int, str]]:
    """Return some tables as one dataset, with their names, and whose its files are."""
    names = tuple(Store(uri).name for uri, _ in tables)
    found = [_files(uri, pin) for uri, pin in tables]
    # `merge` has asked before whether each of them can be a part.
    files = [each for each in found if each is not None]
    known = [(number, each) for number, each in enumerate(files, 1) if each.numbers]
    kept = [f for number, each in known for f in under_base(each.fragments, number)]
    kept.sort(key=lambda fragment: fragment.id)
    others = [f for number, each in enumerate(files, 1) if not each.numbers for f in under_base(each.fragments, number)]
    free = kept[-1].id + 1 if kept else 0
    dataset = in_memory(files[0].schema, [*kept, *numbered(others, free)], [uri for uri, _ in tables])
    owners = {f.id: names[number - 1] for number, each in known for f in each.fragments}
    unnumbered = [names[number - 1] for number, each in enumerate(files, 1) if not each.numbers for _ in each.fragments]
    owners |= dict(enumerate(unnumbered, free))
    if not known:
        return dataset, names, owners
    version = int(dataset.version)
    indices = [index for number, each in known for index in each.indices.under_base(number, version)]
    indexed = LanceDataset.commit(dataset, LanceOperation.CreateIndex(indices, []), read_version=version)
    return indexed, names, owners
