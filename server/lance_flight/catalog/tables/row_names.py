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


def row_names(dataset: LanceDataset, partition: str | None, places: pa.Array) -> pa.Array:
    """Return the names of rows of one table, from their stable ids if it has such, else from their addresses."""
    version = ""
    if not dataset.has_stable_row_ids:
        committed_at = dataset.get_version()["timestamp"]
        version = f"@{dataset.version}.{round(committed_at.timestamp() * 1e6):x}"
    return pc.binary_join_element_wise(f"{partition or ''}{version}#", places.cast(pa.utf8()), "")
