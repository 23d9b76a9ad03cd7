"""A partitioned namespace as stock Lance sees it: nothing here uses lance-flight."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

MANIFEST = "__manifest"
COLUMN = "partition_field_"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """One partition table: its manifest row, and the version that the row pins, opened."""

    object_id: str
    row: dict[str, Any]
    dataset: lance.LanceDataset

    @property
    def values(self) -> dict[str, Any]:
        """Its partition values by field id, NULLs of other spec versions included."""
        return {k.removeprefix(COLUMN): v for k, v in self.row.items() if k.startswith(COLUMN)}

    @property
    def spec_id(self) -> int:
        """The number of the spec version that it lies under."""
        return int(self.object_id.partition("$")[0].removeprefix("v"))


def manifest(place: Path | str) -> lance.LanceDataset:
    """The `__manifest` of a namespace, at its newest version."""
    return lance.dataset(f"{place}/{MANIFEST}")


def manifest_rows(place: Path | str) -> list[dict[str, Any]]:
    """The rows of the `__manifest`, by object id."""
    rows: list[dict[str, Any]] = manifest(place).to_table().to_pylist()
    return sorted(rows, key=lambda row: str(row["object_id"]))


def stored_tables(place: Path | str) -> list[StoredTable]:
    """Every partition table at its pin."""
    return [
        StoredTable(object_id=row["object_id"], row=row, dataset=_pinned(f"{place}/{row['location']}", row))
        for row in manifest_rows(place)
        if row["object_type"] == "table"
    ]


def stored_rows(place: Path | str) -> pa.Table:
    """The rows of all partition tables together."""
    return pa.concat_tables([table.dataset.to_table() for table in stored_tables(place)], promote_options="permissive")


def stored_by_value(place: Path | str, *columns: str) -> dict[Any, list[dict[str, Any]]]:
    """The rows of each partition table by its partition values: alone for one field, else as a tuple."""
    found = {}
    for table in stored_tables(place):
        values = tuple(table.values.values())
        rows = table.dataset.to_table(columns=list(columns) or None).to_pylist()
        found[values if len(values) > 1 else values[0]] = rows
    return found


def _pinned(uri: str, row: dict[str, Any]) -> lance.LanceDataset:
    version, branch, tag = (row.get(name) for name in ("read_version", "read_branch", "read_tag"))
    if branch is not None:
        return lance.dataset(uri).checkout_version((branch, version))
    return lance.dataset(uri, version=tag if tag is not None else version)
