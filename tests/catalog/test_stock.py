"""Stock Lance reads what we write, and is kept from destroying it."""

from __future__ import annotations

from pathlib import Path

import lance
import lance_namespace as stock
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionField, PartitionSpec
from lance_flight.model.transforms import Identity, Year

from tests.stock import manifest, manifest_rows

SCHEMA = NamespaceSchema.assign(pa.schema({"at": pa.timestamp("us"), "site": pa.utf8()}))
SPEC = PartitionSpec(
    id=1,
    fields=(
        PartitionField(field_id="at_year", source_ids=(0,), rule=Year(), result_type=pa.int32()),
        PartitionField(field_id="site", source_ids=(1,), rule=Identity(), result_type=pa.utf8()),
    ),
)
COLUMNS = [
    *("object_id", "object_type", "location", "metadata", "base_objects"),
    *("read_version", "read_branch", "read_tag", "partition_field_at_year", "partition_field_site"),
]


def made(place: Path, *, fence: bool = True) -> PartitionedNamespace:
    namespace = PartitionedNamespace.create(Store(str(place)), SCHEMA, SPEC, fence=fence)
    rows = pa.table({"at": pa.array([0, 0, None], pa.timestamp("us")), "site": ["Oslo", "Lima", None]})
    namespace.append([rows], evaluate)
    return namespace


def test_the_manifest_has_the_columns_and_the_indices_of_the_specs(tmp_path: Path) -> None:
    made(tmp_path)
    dataset = manifest(tmp_path)
    assert dataset.schema.names == COLUMNS
    indexed = {index.field_names[0] for index in dataset.describe_indices()}
    assert indexed == {"object_id", "object_type", "base_objects"}


def test_stock_lance_lists_the_namespaces_and_opens_every_table(tmp_path: Path) -> None:
    made(tmp_path)
    namespace = DirectoryNamespace(root=str(tmp_path))
    assert namespace.list_namespaces(stock.ListNamespacesRequest(id=[])).namespaces == ["v1"]
    tables = [row for row in manifest_rows(tmp_path) if row["object_type"] == "table"]
    assert len(tables) == 3
    for row in tables:
        described = namespace.describe_table(stock.DescribeTableRequest(id=row["object_id"].split("$")))
        assert described.location.endswith(row["location"])
        assert lance.dataset(described.location).count_rows() == 1


def test_the_fence_keeps_a_stock_writer_from_dropping_our_columns(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(Exception, match="writer"):
        DirectoryNamespace(root=str(tmp_path)).create_namespace(stock.CreateNamespaceRequest(id=["other"]))
    assert manifest(tmp_path).schema.names == COLUMNS


def test_without_the_fence_a_stock_writer_drops_them(tmp_path: Path) -> None:
    made(tmp_path, fence=False)
    DirectoryNamespace(root=str(tmp_path)).create_namespace(stock.CreateNamespaceRequest(id=["other"]))
    assert manifest(tmp_path).schema.names == COLUMNS[:5]
