"""Row lineage: ids that rows keep for as long as their table does, and the versions in which they came and were changed.

Lance's format has both where stable row ids are on ("Row ID & Lineage"), which is said once, when a table is made. The
rows of a partition table are numbered by themselves: what names a row is the partition and its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata
from lance.fragment import RowIdSequence

from lance_flight.catalog.storage.addresses import TABLE_NUMBER
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
"""The id of a row, beside its name in `_rowid` (`row_names.py`)."""
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


def keeping(fragments: Iterable[FragmentMetadata], ids: pa.Array | None) -> Iterator[FragmentMetadata]:
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
