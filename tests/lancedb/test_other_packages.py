"""Packages of others that know LanceDB or the Lance REST catalog, each unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import daft
import daft_lance
import lance_ray
import lancedb
import pyarrow as pa
import pytest
import ray
from lancedb.db import DBConnection
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_lancedb import LanceDB
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_index.vector_stores.lancedb import LanceDBVectorStore

from tests.lancedb.rest_server import connect, serving_rest

ROWS = {"id": list(range(20)), "x": [n / 2 for n in range(20)]}
BY_ID = pa.table({"id": [1, 2], "n": [3, 4]}).replace_schema_metadata({"lance_flight.partition_by": "id"})


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_rest(tmp_path_factory.mktemp("others") / "root") as (_, found):
        yield found


@pytest.fixture
def db(address: str) -> DBConnection:
    return connect(address)


@pytest.fixture
def catalog(address: str) -> dict[str, Any]:
    """The arguments by which engines name the catalog."""
    return {"namespace_impl": "rest", "namespace_properties": {"uri": address, "header.x-api-key": "any"}}


def test_daft(db: DBConnection, catalog: dict[str, Any]) -> None:
    frame, table = daft.from_pydict(ROWS), {"table_id": ["by_daft"], **catalog}
    for mode, rows in (("create", 20), ("append", 40), ("overwrite", 20)):
        daft_lance.write_lance(frame, mode=mode, **table)
        assert db.open_table("by_daft").count_rows() == rows
    daft_lance.merge_columns(transform={"y": "x * 2"}, **table)
    daft_lance.create_scalar_index(column="id", index_type="BTREE", **table)
    daft_lance.compact_files(**table)
    daft_lance.optimize_indices(**table)
    opened = db.open_table("by_daft")
    assert (opened.schema.names, [each.name for each in opened.list_indices()]) == (["id", "x", "y"], ["id_idx"])
    found = daft_lance.read_lance(**table).where(daft.col("id") < 3).to_pydict()
    assert (sorted(found["id"]), sorted(found["y"])) == ([0, 1, 2], [0.0, 1.0, 2.0])
    db.create_table("partitioned", BY_ID)
    with pytest.raises(ValueError, match="did not include a table location"):
        daft_lance.read_lance(table_id=["partitioned"], **catalog).count_rows()


def test_lance_ray(db: DBConnection, catalog: dict[str, Any]) -> None:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        rows = ray.data.from_items([{"id": n, "x": n / 2} for n in range(20)])
        for mode, count in (("create", 20), ("append", 40), ("overwrite", 20)):
            lance_ray.write_lance(rows, None, table_id=["by_ray"], mode=mode, **catalog)
            assert db.open_table("by_ray").count_rows() == count
        assert lance_ray.read_lance(None, table_id=["by_ray"], filter="id < 5", **catalog).count() == 5
    finally:
        ray.shutdown()


def test_llama_index(db: DBConnection, tmp_path: Path) -> None:
    nodes = [
        TextNode(text=f"text {n} {'fox' if n % 2 else 'dog'}", id_=f"n{n}", embedding=[n / 10, 1.0], metadata={"kind": "ab"[n % 2]})
        for n in range(10)
    ]  # fmt: skip
    embedded = LanceDBVectorStore(uri=str(tmp_path), mode="overwrite")
    embedded.add(nodes)
    table = db.create_table("vectors", schema=lancedb.connect(tmp_path).open_table("vectors").schema)
    ours = LanceDBVectorStore(table=table, mode="append")
    ours.add(nodes)
    only = MetadataFilters(filters=[MetadataFilter(key="kind", value="a")])
    for more in ({}, {"filters": only}, {"query_str": "fox", "mode": VectorStoreQueryMode.HYBRID}):
        query = VectorStoreQuery(query_embedding=[0.3, 1.0], similarity_top_k=3, **more)
        found, wanted = ([node.node_id for node in store.query(query).nodes] for store in (ours, embedded))
        assert found == wanted


def test_langchain_connects_to_directories_alone() -> None:
    embeddings = DeterministicFakeEmbedding(size=4)
    with pytest.raises(ValueError, match="api_key is required"):
        LanceDB(embeddings, uri="db://lake").add_texts(["a text"])
