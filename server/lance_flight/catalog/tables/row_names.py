"""Names of rows: texts that tell a row of a table's snapshot from all others, whatever partition it is in (`_rowid` in SQL).

A name is the partition with the id of the row there, `v1$a$dataset#7`, where rows have stable ids. Elsewhere it holds for one version of
the partition table, which the name says: `v1$a$dataset@12.5f3a#4294967296`, with the time of the version, since one of the
same number may be another one (a transaction was rolled back), and the address of the row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.storage.addresses import OFFSET_BITS
from lance_flight.catalog.tables.lineage import ROW_ID

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
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return RowPlace(found["partition"], None if found["version"] is None else int(found["version"]))


def row_names(
    dataset: LanceDataset, partition: str | None, places: pa.Array, before: LanceDataset | None = None
) -> pa.Array:
    """Return the names of rows of one table, from their stable ids if it has such, else from their addresses.

    Rows that the version `before` has in the same files have their names from there: files never change.
    """
    if dataset.has_stable_row_ids:
        return _joined(f"{partition or ''}#", places)
    named = _joined(f"{partition or ''}{_version(dataset)}#", places)
    if before is None:
        return named
    files = _files(before)
    same = [number for number, path in _files(dataset).items() if files.get(number) == path]
    is_same = pc.is_in(pc.shift_right(places, OFFSET_BITS), value_set=pa.array(same, places.type))
    return pc.if_else(is_same, _joined(f"{partition or ''}{_version(before)}#", places), named)


def _joined(prefix: str, places: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(prefix, places.cast(pa.utf8()), "")


def _version(dataset: LanceDataset) -> str:
    committed_at = dataset.get_version()["timestamp"]
    return f"@{dataset.version}.{round(committed_at.timestamp() * 1e6):x}"


def _files(dataset: LanceDataset) -> dict[int, str]:
    """Return the path of the first file of each fragment, by the fragment's number."""
    return {each.fragment_id: each.metadata.files[0].path for each in dataset.get_fragments()}
