"""Lineage of rows: the versions that added and changed them, and the names that they keep.

Lance's format has both where stable row ids are on ("Row ID & Lineage"), which is said once, when a table is made. The
rows of a partition table are numbered by themselves: what names a row is the partition and its id.

A name is the partition with the id of the row there, `v1$a$dataset#7`, where rows have stable ids. Elsewhere it holds for one version of
the partition table, which the name says: `v1$a$dataset@12.5f3a#4294967296`, with the time of the version, since one of the
same number may be another one (a transaction was rolled back), and the address of the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset
from lance.fragment import RowIdSequence

from lance_flight.catalog.storage.whole_files import OFFSET_BITS, TABLE_NUMBER
from lance_flight.catalog.tables import rows
from lance_flight.errors import DataError

PARTITION = "_partition"
ROW_ID = "_rowid"
PARTITION_FIELD = pa.field(PARTITION, pa.utf8())
ROW_ID_FIELD = pa.field(ROW_ID, pa.uint64())
LINEAGE_FIELDS = (
    ROW_ID_FIELD,
    pa.field("_row_created_at_version", pa.uint64()),
    pa.field("_row_last_updated_at_version", pa.uint64()),
)
"""Lineage columns of Lance: the id of a row, and the versions of its table that inserted it and changed it last.

NULL in a table without stable row ids, as another writer may make one.
"""
ROW_ORIGIN = "_row_origin"
ROW_ORIGIN_FIELD = pa.field(ROW_ORIGIN, pa.uint64())
"""The id of a row, beside its name in `_rowid` (`row_names`)."""
LINEAGE = frozenset(field.name for field in LINEAGE_FIELDS)

NumberOf = Callable[[str], int | None]
"""The number of the table with an object id, in `TABLE_NUMBER`."""
ORIGIN_FIELDS = (pa.field(TABLE_NUMBER, pa.int32()), ROW_ORIGIN_FIELD)
"""Of a row that takes the place of another: the number of the table that has that one, and its id there."""


def with_origin(rows: pa.Table, origin: pa.Table) -> pa.Table:
    """Return rows with the origin of the same rows: NULL where they replace no row."""
    for field in ORIGIN_FIELDS:
        rows = rows.append_column(field, origin[field.name])
    return rows


def conform(
    table: pa.Table,
    target: pa.Schema,
    defaults: Mapping[str, pa.Scalar] = rows.NO_DEFAULTS,
    *,
    is_stored: bool = False,
) -> pa.Table:
    """Return `rows.conform`, which leaves what is known of the origin of rows where it is."""
    stored = rows.conform(table, target, defaults, is_stored=is_stored)
    return with_origin(stored, table) if ROW_ORIGIN in table.column_names else stored


def by_ids(table: pa.Table, stored: pa.Schema, number: int | None) -> Iterator[tuple[pa.Table, pa.Array | None]]:
    """Yield rows for the table of a `number`: rows with the ids that they keep there, and new rows.

    New rows have no ids.
    """
    if ROW_ORIGIN not in table.column_names:
        yield table, None
        return
    ids = table[ROW_ORIGIN].combine_chunks()
    stays = pc.fill_null(
        pc.equal(table[TABLE_NUMBER].combine_chunks(), pa.scalar(number, pa.int32())), fill_value=False
    )
    stays = pc.and_(stays, ids.is_valid())
    plain = table.select(stored.names)
    for mine, kept in ((stays, True), (pc.invert(stays), False)):
        part = plain.filter(mine)
        if part.num_rows:
            yield part, ids.filter(mine) if kept else None


def keep_row_ids(fragments: Iterable[FragmentMetadata], ids: pa.Array | None) -> Iterator[FragmentMetadata]:
    """Yield new fragments whose rows are those that had the `ids`, in the same order: they go on being called so."""
    if ids is None:
        yield from fragments
        return
    if len(ids.unique()) < len(ids):
        raise DataError("a row is changed twice; expected one change at most")
    start = 0
    for fragment in fragments:
        mine = ids.slice(start, fragment.physical_rows)
        start += fragment.physical_rows
        yield replace(fragment, row_id_meta=RowIdSequence(mine).to_inline_metadata())


def without(fragments: Sequence[FragmentMetadata]) -> list[FragmentMetadata]:
    """Return the same fragments without lineage, for a table that knows of none."""
    return [
        replace(fragment, row_id_meta=None, created_at_version_meta=None, last_updated_at_version_meta=None)
        for fragment in fragments
    ]


ROW_NAME_FIELD = pa.field(ROW_ID, pa.utf8())
"""Column with the names of rows; in SQL it hides the number that Lance calls by the same name."""

_NAME = re.compile(r"(?P<partition>.*?)(?:@(?P<version>\d{1,20})\.[0-9a-f]+)?#\d{1,20}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Partition of a named row ("" of a plain table), and the version of its table that the name holds for (None: any)."""

    partition: str
    version: int | None


def place_of(name: str) -> RowPlace | None:
    """Return where a named row lies; None for a text that is no name of a row.

    >>> place_of("v1$a$dataset@12.5f3a#0"), place_of("v1$a$dataset#7"), place_of("seven")
    (RowPlace(partition='v1$a$dataset', version=12), RowPlace(partition='v1$a$dataset', version=None), None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return RowPlace(match["partition"], None if match["version"] is None else int(match["version"]))


def row_names(
    dataset: LanceDataset, partition: str | None, places: pa.Array, before: LanceDataset | None = None
) -> pa.Array:
    """Return the names of rows of one table, from their stable ids if it has such, else from their addresses.

    Rows that the version `before` has in the same files have their names from there: files never change.
    """
    if dataset.has_stable_row_ids:
        return _join_sequences(f"{partition or ''}#", places)
    named = _join_sequences(f"{partition or ''}{_version(dataset)}#", places)
    if before is None:
        return named
    files = _files(before)
    same = [number for number, path in _files(dataset).items() if files.get(number) == path]
    is_same = pc.is_in(pc.shift_right(places, OFFSET_BITS), value_set=pa.array(same, places.type))
    return pc.if_else(is_same, _join_sequences(f"{partition or ''}{_version(before)}#", places), named)


def _join_sequences(prefix: str, places: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(prefix, places.cast(pa.utf8()), "")


def _version(dataset: LanceDataset) -> str:
    committed_at = dataset.get_version()["timestamp"]
    return f"@{dataset.version}.{round(committed_at.timestamp() * 1e6):x}"


def _files(dataset: LanceDataset) -> dict[int, str]:
    """Return the path of the first file of each fragment, by the fragment's number."""
    return {fragment.fragment_id: fragment.metadata.files[0].path for fragment in dataset.get_fragments()}
