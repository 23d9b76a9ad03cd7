"""A namespace laid out table by table, with the pins that a test gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from tests.stock import manifest

ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("country", pa.utf8())])

SPEC = {
    "id": 1,
    "fields": [
        {"field_id": "country", "source_ids": [1], "transform": {"type": "identity"}, "result_type": {"type": "utf8"}}
    ],
}

SCHEMA = {
    "fields": [
        {"name": "id", "nullable": False, "type": {"type": "int64"}, "metadata": {"lance:field_id": "0"}},
        {"name": "country", "nullable": True, "type": {"type": "utf8"}, "metadata": {"lance:field_id": "1"}},
    ]
}

COLUMNS = [
    pa.field("object_id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}),
    pa.field("object_type", pa.utf8(), nullable=False),
    pa.field("location", pa.utf8()),
    pa.field("metadata", pa.utf8()),
    pa.field("read_version", pa.uint64()),
    pa.field("read_branch", pa.utf8()),
    pa.field("read_tag", pa.utf8()),
    pa.field("partition_field_country", pa.utf8()),
]

US, DE = "v1$k7m2n9p4q8r5s3t6", "v1$not-a-name-of-ours"

TABLES = {f"{US}$dataset": ("b4a3c2d1_us", "US", [1, 2]), f"{DE}$dataset": ("some/where/de.lance", "DE", [11])}


def table_of(country: str, ids: list[int]) -> pa.Table:
    return pa.table({"id": ids, "country": [country] * len(ids)}, schema=ROWS)


def lay_out(place: Path, *more: dict[str, Any], properties: str = "metadata") -> None:
    """Two partitions in three versions each: 1 with half of the rows, 2 with all, 3 with a row too many; pinned to 2."""
    rows: list[dict[str, Any]] = [
        {"object_id": "v1", "object_type": "namespace"},
        {"object_id": US, "object_type": "namespace", "partition_field_country": "US"},
        {"object_id": DE, "object_type": "namespace", "partition_field_country": "DE"},
    ]
    for object_id, (location, country, ids) in TABLES.items():
        for version, some in enumerate([ids[:1], ids[1:], [666]]):
            data = table_of(country, some)
            lance.write_dataset(data, str(place / location), mode="append" if version else "create")
        rows.append(
            {"object_id": object_id, "object_type": "table", "location": location, "read_version": 2}
            | {"partition_field_country": country}
        )
    if properties == "row":
        rows[0]["metadata"] = json.dumps({"partition_spec": json.dumps(SPEC)})
    schema_metadata = {"partition_spec_v1": json.dumps(SPEC), "schema": json.dumps(SCHEMA)}
    schema = pa.schema(COLUMNS, metadata=schema_metadata if properties == "schema" else None)
    dataset = lance.write_dataset(pa.Table.from_pylist([*rows, *more], schema=schema), str(place / "__manifest"))
    if properties == "metadata":
        dataset.update_metadata(schema_metadata)
    elif properties == "row":
        dataset.update_metadata({"schema": json.dumps(SCHEMA)})


def repin(place: Path, object_id: str, **pins: str) -> None:
    """Set pin columns of one row to SQL expressions; the others become NULL."""
    values = {"read_version": "NULL", "read_branch": "NULL", "read_tag": "NULL"} | pins
    manifest(place).update(values, where=f"object_id = '{object_id}'")
