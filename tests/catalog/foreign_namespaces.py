"""Partitioned namespaces as other writers lay them out: stock Lance alone, tables of any form, no key of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance_flight.model.arrow_json import schema_to_json, type_to_json
from lance_flight.model.arrow_types import children, rebuilt

FIELD_ID = b"lance:field_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecField:
    """A partition field: the ids of its sources, its transform, and the type of its values."""

    name: str
    source: int
    kind: pa.DataType
    transform: Mapping[str, Any] = field(default_factory=lambda: {"type": "identity"})

    def to_json(self) -> dict[str, Any]:
        """As the spec has it."""
        return {
            "field_id": self.name,
            "source_ids": [self.source],
            "transform": dict(self.transform),
            "result_type": type_to_json(self.kind),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A partition table: its values by field, and what is written into it, one file after another, in a version of the format."""

    values: Mapping[str, Any]
    files: Sequence[pa.Table]
    version: str | None = None
    spec: int = 1


def with_ids(schema: pa.Schema, ids: Mapping[str, int] | None = None) -> pa.Schema:
    """A schema with ids in the metadata of all fields: those named (by dotted path), or counted depth first."""
    counted = iter(range(1000))

    def numbered(each: pa.Field, above: str) -> pa.Field:
        path = f"{above}{each.name}"
        number = next(counted) if ids is None else ids[path]
        inner = [numbered(child, f"{path}.") for child in children(each.type)]
        kind = rebuilt(each.type, inner) if inner else each.type
        return pa.field(each.name, kind, each.nullable, {FIELD_ID: str(number).encode()})

    return pa.schema([numbered(each, "") for each in schema])


def lay_out(
    place: Path,
    schema: pa.Schema,
    specs: Sequence[Sequence[SpecField]],
    tables: Sequence[ForeignTable],
    *,
    pinned: bool = True,
) -> None:
    """A namespace with these tables; `schema` has ids."""
    fields = {each.name: each for spec in specs for each in spec}
    columns = [pa.field(f"partition_field_{each.name}", each.kind) for each in fields.values()]
    pins = [pa.field("read_version", pa.uint64())] if pinned else []
    rows: list[dict[str, Any]] = []
    for number, spec in enumerate(specs, 1):
        rows.append({"object_id": f"v{number}", "object_type": "namespace"})
        for place_of, table in enumerate(each for each in tables if each.spec == number):
            rows += _rows(place, number, spec, place_of, table)
    manifest = pa.schema(
        [
            pa.field("object_id", pa.utf8(), nullable=False),
            pa.field("object_type", pa.utf8(), nullable=False),
            pa.field("metadata", pa.utf8()),
            pa.field("location", pa.utf8()),
            *pins,
            *columns,
        ]
    )
    known = set(manifest.names)
    listed = [{name: value for name, value in row.items() if name in known} for row in rows]
    made = lance.write_dataset(pa.Table.from_pylist(listed, schema=manifest), str(place / "__manifest"))
    metadata = {
        f"partition_spec_v{number}": json.dumps({"id": number, "fields": [each.to_json() for each in spec]})
        for number, spec in enumerate(specs, 1)
    }
    made.update_metadata({**metadata, "schema": json.dumps(schema_to_json(schema))})


def _rows(place: Path, number: int, spec: Sequence[SpecField], at: int, table: ForeignTable) -> list[dict[str, Any]]:
    """The rows of a table and of the namespaces above it."""
    names = [f"v{number}"]
    values: dict[str, Any] = {}
    rows = []
    for level, each in enumerate(spec):
        names.append(f"{at:08d}{level:08d}")
        values[f"partition_field_{each.name}"] = table.values[each.name]
        rows.append({"object_id": "$".join(names), "object_type": "namespace", **values})
    object_id = "$".join([*names, "dataset"])
    location = f"{number:04x}{at:04x}_{object_id}"
    version = write_table(place / location, table)
    row = {"object_id": object_id, "object_type": "table", "location": location, "read_version": version, **values}
    return [*rows, row]


def write_table(place: Path, table: ForeignTable) -> int:
    """Write a table by stock Lance; its version."""
    first, *more = table.files
    dataset = lance.write_dataset(first, str(place), data_storage_version=table.version)
    for each in more:
        dataset = lance.write_dataset(each, str(place), mode="append")
    return int(dataset.version)
