"""Giving a namespace another spec version by hand, as the spec describes it and with stock Lance alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance_flight.model.spec import PartitionSpec

from tests.stock import manifest


def add_spec(place: Path, spec: PartitionSpec) -> None:
    """The new manifest columns, the `v<N>` row, and the spec in the table metadata."""
    dataset = manifest(place)
    missing = {field.column: field.result_type for field in spec.fields if field.column not in dataset.schema.names}
    if missing:
        dataset.add_columns(pa.schema(missing))
    schema = manifest(place).schema
    row: dict[str, Any] = {"object_id": f"v{spec.id}", "object_type": "namespace", "metadata": "{}"}
    lance.write_dataset(pa.Table.from_pylist([row], schema=schema), manifest(place).uri, mode="append")
    manifest(place).update_metadata({spec.key: json.dumps(spec.to_json())})
