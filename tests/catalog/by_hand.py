"""A partitioned namespace laid out by hand from the spec's appendices A to C, with stock Lance alone and no key of ours."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

DATA = Path(__file__).parent.parent / "model" / "data"
METADATA = json.loads((DATA / "appendix_a_metadata.json").read_text())
MANIFEST_ROWS = json.loads((DATA / "appendix_c_manifest.json").read_text())["rows"]

DIRECTORIES = {
    "v1$k7m2n9p4q8r5s3t6$dataset": "b4a3c2d1_v1$k7m2n9p4q8r5s3t6$dataset",
    "v2$e9f0g1h2i3j4k5l6$m7n8o9p0q1r2s3t4$dataset": "aabbccdd_v2$e9f0g1h2i3j4k5l6$m7n8o9p0q1r2s3t4$dataset",
}
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("event_date", pa.date32()), ("country", pa.utf8())])
PINS = [pa.field("read_version", pa.uint64()), pa.field("read_branch", pa.utf8()), pa.field("read_tag", pa.utf8())]
VALUES = [
    pa.field("partition_field_event_date", pa.date32()),
    pa.field("partition_field_event_year", pa.int32()),
    pa.field("partition_field_country", pa.utf8()),
]


IN_TABLE, IN_ROWS, IN_ARROW = "table metadata", "v<N> rows", "Arrow schema metadata"
SPEC_ID = pa.field("partition_field_spec_id", pa.int32())
"""A column of those who keep specs in the `v<N>` rows; it belongs to no partition field."""


def lay_out(
    root: Path, *, pins: bool = True, foreign: bool = True, specs: str = IN_TABLE, schema: str = IN_TABLE
) -> None:
    """Appendix C's rows, each table at the version that its row pins, with a dead version on top.

    `specs` and `schema` say where Appendix A's metadata stands.
    """
    for object_id, directory in DIRECTORIES.items():
        row = next(row for row in MANIFEST_ROWS if row["object_id"] == object_id)
        build_table(root / directory, ids_of(object_id), versions=row["read_version"])
    fields = [
        pa.field("object_id", pa.utf8(), nullable=False),
        pa.field("object_type", pa.utf8(), nullable=False),
        pa.field("metadata", pa.utf8()),
        pa.field("location", pa.utf8()),
        *(PINS if pins else []),
        *VALUES,
        *([pa.field("somebody_elses", pa.utf8())] if foreign else []),
        *([SPEC_ID] if specs == IN_ROWS else []),
    ]
    place_of = {key: schema if key == "schema" else specs for key in METADATA}
    texts = {key: json.dumps(value) for key, value in METADATA.items()}
    in_arrow, in_table = ({k: t for k, t in texts.items() if place_of[k] == at} for at in (IN_ARROW, IN_TABLE))
    rows = [manifest_row(row, specs == IN_ROWS, schema == IN_ROWS) for row in MANIFEST_ROWS]
    # Nobody promises them in any order.
    rows = rows if schema == IN_TABLE else rows[::-1]
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields, metadata=in_arrow))
    manifest = lance.write_dataset(table, str(root / "__manifest"))
    manifest.update_metadata(in_table)


def manifest_row(row: dict[str, Any], has_spec: bool, has_schema: bool) -> dict[str, Any]:  # noqa: FBT001
    """A row of Appendix C; that of a spec has its spec, and the schema that was the newest then, if asked for."""
    day, spec = row["partition_field_event_date"], row["object_id"].partition("$")[0]
    said = {}
    if row["object_id"] == spec:
        said |= {"partition_spec": json.dumps(METADATA[f"partition_spec_{spec}"])} if has_spec else {}
        said |= {"schema": json.dumps(schema_of(spec))} if has_schema else {}
    return {
        **row,
        "metadata": json.dumps(said),
        "partition_field_spec_id": None if row["object_id"] == spec else int(spec[1:]),
        "location": DIRECTORIES.get(row["object_id"]),
        "partition_field_event_date": None if day is None else date.fromisoformat(day),
        "somebody_elses": f"of {row['object_id']}",
    }


def schema_of(spec: str) -> dict[str, Any]:
    """Under v1 there was no country."""
    fields = METADATA["schema"]["fields"]
    return {"fields": fields if spec == "v2" else fields[:2], "metadata": None}


def ids_of(object_id: str) -> list[int]:
    return [1, 2] if object_id.startswith("v1") else [11, 12, 13]


def build_table(place: Path, ids: list[int], *, versions: int) -> None:
    """A table whose version `versions` holds `ids`, and whose newest version holds one row more that nobody pins."""
    rows = [{"id": n, "event_date": date(2025, 12, 10), "country": "US"} for n in ids]
    lance.write_dataset(pa.Table.from_pylist(rows[:1], schema=ROWS), str(place))
    for _ in range(versions - 2):
        lance.write_dataset(ROWS.empty_table(), str(place), mode="append")
    lance.write_dataset(pa.Table.from_pylist(rows[1:], schema=ROWS), str(place), mode="append")
    assert lance.dataset(str(place)).version == versions
    dead = [{"id": 666, "event_date": date(2025, 12, 10), "country": "US"}]
    lance.write_dataset(pa.Table.from_pylist(dead, schema=ROWS), str(place), mode="append")
