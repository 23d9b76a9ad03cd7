"""A directory namespace (V2) laid out by hand with stock Lance: a `__manifest` that lists plain tables."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field(
            "object_id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}
        ),
        pa.field("object_type", pa.utf8(), nullable=False),
        pa.field("location", pa.utf8()),
        pa.field("metadata", pa.utf8()),
    ]
)


def lay_out(root: Path, locations: dict[str, str | None], *, make: bool = True) -> None:
    """List a table for each object id at its location; with `make` those that may lie there hold one row."""
    for number, location in enumerate(locations.values()):
        if make and location is not None and not location.startswith(("/", "..")):
            lance.write_dataset(pa.table({"id": [number]}), str(root / location))
    rows = [{"object_id": name, "object_type": "table", "location": place} for name, place in locations.items()]
    namespaces = {name.rpartition("$")[0] for name in locations} - {""}
    rows += [{"object_id": name, "object_type": "namespace", "location": None} for name in namespaces]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=SCHEMA), str(root / "__manifest"))


def listed(root: Path) -> dict[str, str | None]:
    """The tables that the manifest lists now, with their locations."""
    rows = lance.dataset(str(root / "__manifest")).to_table().to_pylist()
    return {row["object_id"]: row["location"] for row in rows if row["object_type"] == "table"}
