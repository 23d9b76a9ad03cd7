"""What lies on disk after our writes, to the letter of the spec (Physical Layout, Manifest Table Schema, Appendix C)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Conflict, NotFound, SpecError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec
from lance_flight.model.transforms import Bucket, Identity, Year

from tests.stock import manifest, manifest_rows, stored_by_value, stored_tables

NAME = re.compile(r"[a-z0-9]{16}")
SCHEMA = NamespaceSchema.assign(
    pa.schema([pa.field("id", pa.int64(), nullable=False), ("event_date", pa.date32()), ("country", pa.utf8())])
)
SPEC = PartitionSpec(
    id=1,
    fields=(
        PartitionField(field_id="event_year", source_ids=(1,), rule=Year(), result_type=pa.int32()),
        PartitionField(field_id="country", source_ids=(2,), rule=Identity(), result_type=pa.utf8()),
    ),
)
KEY = "lance-schema:unenforced-primary-key:position"
COLUMNS = pa.schema(
    [
        pa.field("object_id", pa.utf8(), nullable=False),
        pa.field("object_type", pa.utf8(), nullable=False),
        ("location", pa.utf8()),
        ("metadata", pa.utf8()),
        ("base_objects", pa.list_(pa.field("object_id", pa.utf8()))),
        ("read_version", pa.uint64()),
        ("read_branch", pa.utf8()),
        ("read_tag", pa.utf8()),
        ("partition_field_event_year", pa.int32()),
        ("partition_field_country", pa.utf8()),
    ]
)
DAY, OTHER = date(2025, 12, 10), date(2024, 1, 1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "events"


def made(place: Path, schema: NamespaceSchema = SCHEMA, spec: PartitionSpec = SPEC) -> PartitionedNamespace:
    """A new, empty namespace."""
    return PartitionedNamespace.create(Store(str(place)), schema, spec)


def rows(*values: tuple[int, date | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": n, "event_date": day, "country": country} for n, day, country in values], schema=SCHEMA.plain
    )


def parents(object_id: str) -> Iterator[str]:
    """The object ids of the namespaces above."""
    path = object_id.split("$")
    return ("$".join(path[:depth]) for depth in range(1, len(path)))


def test_the_columns_of_the_manifest_have_the_order_types_and_key_of_the_spec(place: Path) -> None:
    made(place)
    found = manifest(place).schema
    assert found.equals(COLUMNS)
    assert found.field("object_id").metadata[KEY.encode()] == b"0"
    assert [field.nullable for field in found] == [False, False, *[True] * 8]


def test_a_new_namespace_is_one_row_and_its_properties_are_metadata(place: Path) -> None:
    made(place)
    assert manifest_rows(place) == [
        {name: {"object_id": "v1", "object_type": "namespace", "metadata": "{}"}.get(name) for name in COLUMNS.names}
    ]
    metadata = manifest(place).metadata
    assert metadata["partition_spec_v1"] == (
        '{"id":1,"fields":['
        '{"field_id":"event_year","source_ids":[1],"transform":{"type":"year"},"result_type":{"type":"int32"}},'
        '{"field_id":"country","source_ids":[2],"transform":{"type":"identity"},"result_type":{"type":"utf8"}}]}'
    )
    assert json.loads(metadata["schema"]) == {
        "fields": [
            {"name": "id", "nullable": False, "type": {"type": "int64"}, "metadata": {"lance:field_id": "0"}},
            {"name": "event_date", "nullable": True, "type": {"type": "date32"}, "metadata": {"lance:field_id": "1"}},
            {"name": "country", "nullable": True, "type": {"type": "utf8"}, "metadata": {"lance:field_id": "2"}},
        ]
    }
    ours = {key for key in metadata if key.startswith("lance")}
    assert metadata.keys() - ours == {"partition_spec_v1", "schema"}


def test_partitions_are_rows_of_every_level_with_the_values_of_the_levels_above(place: Path) -> None:
    made(place).append([rows((1, DAY, "US"), (2, DAY, "DE"), (3, OTHER, "US"), (4, DAY, "US"))], evaluate)
    found = manifest_rows(place)
    assert [row["object_type"] for row in found].count("namespace") == 1 + 2 + 3
    by_id = {row["object_id"]: row for row in found}
    assert len(by_id) == len(found)
    for row in found:
        path = row["object_id"].split("$")
        names = path[1:-1] if row["object_type"] == "table" else path[1:]
        assert [name for name in names if not NAME.fullmatch(name)] == []
        assert [parent for parent in parents(row["object_id"]) if parent not in by_id] == []
        assert (row["partition_field_event_year"] is not None) == (len(path) > 1)
        assert (row["partition_field_country"] is not None) == (len(path) > 2)
        assert row["metadata"] == "{}"
    assert {(t.values["event_year"], t.values["country"]) for t in stored_tables(place)} == {
        (2025, "US"),
        (2025, "DE"),
        (2024, "US"),
    }


def test_namespaces_of_one_value_are_shared_and_names_of_different_values_differ(place: Path) -> None:
    made(place).append([rows((1, DAY, "US"), (2, DAY, "DE"), (3, OTHER, "US"))], evaluate)
    paths = {tuple(t.values.values()): t.object_id.split("$") for t in stored_tables(place)}
    assert paths[2025, "US"][1] == paths[2025, "DE"][1] != paths[2024, "US"][1]
    assert len({path[2] for path in paths.values()}) == 3
    assert {path[3] for path in paths.values()} == {"dataset"}


def test_every_table_has_a_directory_of_its_own_and_a_pin(place: Path) -> None:
    made(place).append([rows((1, DAY, "US"), (2, None, None))], evaluate)
    for table in stored_tables(place):
        assert re.fullmatch(r"[0-9a-f]{8}_" + re.escape(table.object_id), table.row["location"])
        assert (place / table.row["location"]).is_dir()
        assert (table.row["read_version"], table.row["read_branch"], table.row["read_tag"]) == (2, None, None)
        assert lance.dataset(str(place / table.row["location"])).count_rows() == 1
    others = [row for row in manifest_rows(place) if row["object_type"] == "namespace"]
    assert [row["location"] for row in others if row["location"] is not None] == []
    # A reader that holds its snapshot for some seconds notes that in a directory of its own.
    found = {p.name for p in place.iterdir()} - {".lance-flight"}
    assert found == {"__manifest", *(t.row["location"] for t in stored_tables(place))}


def test_null_is_a_partition_value_at_every_level(place: Path) -> None:
    namespace = made(place)
    namespace.append([rows((1, None, None), (2, None, "US"), (3, DAY, None))], evaluate)
    namespace.append([rows((4, None, None), (5, None, "US"), (6, DAY, None))], evaluate)
    assert stored_by_value(place, "id") == {
        (None, None): [{"id": 1}, {"id": 4}],
        (None, "US"): [{"id": 2}, {"id": 5}],
        (2025, None): [{"id": 3}, {"id": 6}],
    }


def test_the_indices_of_the_directory_spec_are_there(place: Path) -> None:
    made(place).append([rows((1, DAY, "US"))], evaluate)
    found = {index.field_names[0]: index.index_type for index in manifest(place).describe_indices()}
    assert {name: kind.upper().replace("_", "") for name, kind in found.items()} == {
        "object_id": "BTREE",
        "object_type": "BITMAP",
        "base_objects": "LABELLIST",
    }


def test_a_partition_table_keeps_the_ids_of_its_columns(place: Path) -> None:
    nested = NamespaceSchema.assign(
        pa.schema({"a": pa.int64(), "s": pa.struct([("x", pa.int32()), ("y", pa.list_(pa.utf8()))]), "z": pa.int64()})
    )
    assert {path: number for number, (path, _) in nested.paths.items()} == {
        "a": 0,
        "s": 1,
        "s.x": 2,
        "s.y": 3,
        "s.y.item": 4,
        "z": 5,
    }
    field = PartitionField(field_id="z", source_ids=(5,), rule=Identity(), result_type=pa.int64())
    namespace = made(place, nested, PartitionSpec(id=1, fields=(field,)))
    namespace.append([pa.table({"a": [1], "s": [{"x": 1, "y": ["b"]}], "z": [7]}, schema=nested.plain)], evaluate)
    (table,) = stored_tables(place)
    kept = {f.name: f.metadata[b"lance_flight:field_id"] for f in table.dataset.schema}
    assert kept == {"a": b"0", "s": b"1", "z": b"5"}
    assert table.dataset.to_table().to_pylist() == [{"a": 1, "s": {"x": 1, "y": ["b"]}, "z": 7}]


def test_column_types_that_json_cannot_say_come_back_as_they_were(place: Path) -> None:
    kinds = {
        "ts": pa.timestamp("ns", "America/New_York"),
        "dec": pa.decimal128(9, 2),
        "wide": pa.decimal256(50, 3),
        "t": pa.time32("ms"),
        "fsb": pa.binary(3),
        "u": pa.uint16(),
        "ls": pa.large_utf8(),
        "l": pa.list_(pa.field("item", pa.timestamp("s"), nullable=False)),
        "m": pa.map_(pa.utf8(), pa.decimal128(5, 1)),
    }
    schema = NamespaceSchema.assign(pa.schema(kinds))
    field = PartitionField(field_id="b", source_ids=(0,), rule=Identity(), result_type=kinds["ts"])
    made(place, schema, PartitionSpec(id=1, fields=(field,)))
    snapshot = PartitionedNamespace.open(Store(str(place))).snapshot()
    assert snapshot.schema.plain.equals(pa.schema(kinds))
    assert snapshot.current_spec.fields[0].result_type == kinds["ts"]
    assert manifest(place).schema.field("partition_field_b").type == kinds["ts"]


DISPLAYED = [
    pytest.param(pa.int32(), -7, "-7", id="integer"),
    pytest.param(pa.utf8(), "a$/='é", "a$/='é", id="text"),
    pytest.param(pa.utf8(), "", "", id="empty text"),
    pytest.param(pa.utf8(), None, "NULL", id="NULL"),
    pytest.param(pa.bool_(), True, "true", id="boolean"),
    pytest.param(pa.date32(), DAY, "2025-12-10", id="date"),
    pytest.param(pa.time64("us"), time(1, 2, 3), "01:02:03.000000", id="time"),
    pytest.param(pa.timestamp("us"), datetime(2025, 12, 10, 1), "2025-12-10 01:00:00.000000", id="timestamp"),
    pytest.param(pa.decimal128(9, 2), Decimal("-14.20"), "-14.20", id="decimal"),
    pytest.param(pa.float64(), 1.5, "1.5", id="float"),
    pytest.param(pa.binary(), b"\x00\xff", "00ff", id="binary"),
]


@pytest.mark.parametrize(("kind", "value", "shown"), DISPLAYED)
def test_a_partition_namespace_is_described_by_its_value(
    place: Path, kind: pa.DataType, value: Any, shown: str
) -> None:
    schema = NamespaceSchema.assign(pa.schema({"v": kind}))
    field = PartitionField(field_id="v", source_ids=(0,), rule=Identity(), result_type=kind)
    namespace = made(place, schema, PartitionSpec(id=1, fields=(field,)))
    namespace.append([pa.table({"v": pa.array([value], kind)})], evaluate)
    (table,) = stored_tables(place)
    assert namespace.describe(table.object_id.split("$")[:-1]) == {"partition.v": shown}
    assert namespace.describe(["v1"]) == {"partition_spec": manifest(place).metadata["partition_spec_v1"]}


def test_a_table_is_no_namespace_to_describe(place: Path) -> None:
    namespace = made(place)
    namespace.append([rows((1, DAY, "US"))], evaluate)
    with pytest.raises(NotFound, match="dataset"):
        namespace.describe(stored_tables(place)[0].object_id.split("$"))


def test_a_namespace_is_made_once(place: Path) -> None:
    made(place).append([rows((1, DAY, "US"))], evaluate)
    with pytest.raises(Conflict, match="already"):
        made(place)
    assert len(stored_tables(place)) == 1


BAD_SPECS = [
    pytest.param((Bucket(4), (9,), pa.int32()), ["source id 9"], id="a source that is not there"),
    pytest.param((Year(), (2,), pa.int32()), ["year of a string"], id="a type that it does not take"),
    pytest.param((Year(), (1,), pa.int64()), ["result_type is int64", "int32"], id="another result type"),
    pytest.param((Bucket(4), (0, 1), pa.int32()), ["one source column, got 2"], id="too many sources"),
]


@pytest.mark.parametrize(("parts", "says"), BAD_SPECS)
def test_a_spec_that_does_not_fit_makes_nothing(place: Path, parts: tuple[Any, ...], says: list[str]) -> None:
    rule, sources, kind = parts
    field = PartitionField(field_id="f", source_ids=sources, rule=rule, result_type=kind)
    with pytest.raises(SpecError) as raised:
        made(place, SCHEMA, PartitionSpec(id=1, fields=(field,)))
    assert [part for part in ["'f'", *says] if part not in str(raised.value)] == []
    assert not place.exists()


def test_an_expression_over_a_removed_column_counts_it_as_null(place: Path) -> None:
    field = PartitionField(
        field_id="e", source_ids=(0, 2), rule=Expression("coalesce(col1, 'none')"), result_type=pa.utf8()
    )
    made(place, SCHEMA, PartitionSpec(id=1, fields=(field,)))
    schema = json.loads(manifest(place).metadata["schema"])
    schema["fields"] = schema["fields"][:2]
    manifest(place).update_metadata({"schema": json.dumps(schema)})
    namespace = PartitionedNamespace.open(Store(str(place)))
    namespace.append([pa.table({"id": [1], "event_date": [DAY]}, schema=namespace.snapshot().schema.plain)], evaluate)
    assert [table.values for table in stored_tables(place)] == [{"e": "none"}]
