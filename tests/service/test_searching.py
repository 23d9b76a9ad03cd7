"""Indices and searches over the wire and beside other servers, and the commands that make indices."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from lance_flight_client.cli import main

from tests.service.server_process import Server, serving
from tests.stock import stored_tables

ROWS, DIMENSIONS, TENANTS = 600, 8, ("a", "b", "c")
VECTORS = np.random.default_rng(5).normal(size=(ROWS, DIMENSIONS)).astype(np.float32)
WORDS = ("lance", "format", "open", "table", "search")
DOCS = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "tenant": [TENANTS[number % len(TENANTS)] for number in range(ROWS)],
        "v": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSIONS),
        "body": [" ".join(WORDS[: 1 + number % len(WORDS)]) for number in range(ROWS)],
    }
)
WANTED = VECTORS[17] + np.float32(0.01)
INDICES = {
    "vectors": ("v", "ivf_flat WITH (num_partitions = 2, min_rows = 1)"),
    "texts": ("body", "inverted WITH (with_position = true, min_rows = 1)"),
    "numbers": ("id", "btree WITH (min_rows = 1)"),
}
EXACTLY = "nprobes => 100"


def nearest(count: int, tenants: tuple[str, ...] = TENANTS, rows: int = ROWS) -> list[int]:
    """The ids of the nearest rows by comparing all of them."""
    distances = ((VECTORS[:rows] - WANTED) ** 2).sum(axis=1)
    return [int(n) for n in np.argsort(distances) if TENANTS[n % len(TENANTS)] in tenants][:count]


def parameter(vector: np.ndarray) -> pa.RecordBatch:
    """A vector as a client binds it."""
    return pa.record_batch({"1": pa.array([vector.tolist()], pa.list_(pa.float32(), DIMENSIONS))})


def found(server: Server, table: str, more: str = "", count: int = 5) -> list[int]:
    """The ids that a search with a bound vector finds, best first."""
    sql = f"SELECT id FROM vector_search('{table}', 'v', $1, k => {count}, {EXACTLY}{more})"
    return [number for (number,) in server.rows(sql, parameter(WANTED))]


@pytest.fixture
def docs(server: Server, table: str) -> str:
    """A table of three partitions with vectors and texts."""
    assert server.ingest(table, DOCS, partition_by="tenant") == ROWS
    return table


def indexed(server: Server, table: str) -> dict[str, tuple[int, int]]:
    """Of each index: of how many tables and rows it is."""
    rows = server.rows(f"SELECT name, indexed_tables, indexed_rows FROM {table}$indexes")
    return {name: (tables, rows) for name, tables, rows in rows}


def create(server: Server, table: str) -> None:
    for name, (column, kind) in INDICES.items():
        server.run(f"CREATE INDEX {name} ON {table} ({column}) USING {kind}")


def test_vectors_are_ingested_indexed_and_found(server: Server, docs: str) -> None:
    assert found(server, docs) == nearest(5)
    create(server, docs)
    assert indexed(server, docs) == dict.fromkeys(INDICES, (3, ROWS))
    assert {len(table.dataset.describe_indices()) for table in stored_tables(server.root / docs)} == {len(INDICES)}
    assert found(server, docs) == nearest(5)
    assert found(server, docs, ", filter => 'tenant = ''b'''") == nearest(5, ("b",))
    assert found(server, docs, ", filter => 'id < 300'") == nearest(5, rows=300)


def test_an_index_is_made_while_another_server_writes_and_a_third_reads(server: Server, table: str) -> None:
    server.ingest(table, DOCS.slice(0, 300), partition_by="tenant")
    done = threading.Event()

    def write(writer: Server) -> None:
        for start in range(300, ROWS, 50):
            writer.ingest(table, DOCS.slice(start, 50), "append")

    def read() -> int:
        searches = 0
        while not done.is_set() or not searches:
            assert set(found(server, table, count=1)) <= set(nearest(1))
            searches += 1
        return searches

    with serving(server.root) as maker, serving(server.root) as writer, ThreadPoolExecutor(2) as pool:
        writing, reading = pool.submit(write, writer), pool.submit(read)
        create(maker, table)
        writing.result()
        done.set()
        assert reading.result() > 0
        maker.rows(f"REINDEX {table}")
        assert indexed(writer, table) == dict.fromkeys(INDICES, (3, ROWS))
        for each in (maker, writer, server):
            assert found(each, table) == nearest(5)
            assert each.rows(f"SELECT id FROM {table} WHERE id = 451") == [(451,)]


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints that succeeds."""
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_the_command_line_makes_and_renews_indices(
    server: Server, docs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(server.root)
    options = ["--kind", "ivf_flat", "--name", "near", "--option", "metric=cosine", "--option", "num_partitions=2"]
    create = "create-index", root, docs, "v", *options, "--min-rows", "1"
    assert f"{docs}: index near: 3 of 3 partition tables, {ROWS} rows, snapshot " in told(capsys, *create)
    assert server.rows(f"SELECT kind, column_name FROM {docs}$indexes") == [("ivf_flat", "v")]
    (said,) = server.rows(f"SELECT options FROM {docs}$indexes")
    assert json.loads(said[0]) == {"metric": "cosine", "num_partitions": 2}
    assert "index near: 0 of 3 partition tables, 0 rows" in told(capsys, *create)
    server.ingest(docs, DOCS.slice(0, 30), "append")
    assert f"{docs}: index near: 3 of 3" in told(capsys, "reindex", root, docs)
    assert indexed(server, docs) == {"near": (3, ROWS + 30)}


REFUSED = {
    "no such kind": (["v", "--kind", "fast"], ["fast", "btree"]),
    "no such option": (["v", "--kind", "ivf_flat", "--option", "speed=high"], ["'speed'", "num_partitions"]),
    "an option of nothing": (
        ["v", "--kind", "ivf_flat", "--option", "num_partitions=0"],
        ["num_partitions", "above 0"],
    ),
    "no pair": (["v", "--option", "speed"], ["NAME=VALUE"]),
    "no such column": (["w"], ["not_found", "'w'"]),
}


@pytest.mark.parametrize(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_the_command_line_refuses(
    server: Server, docs: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: list[str]
) -> None:
    try:
        assert main(["create-index", str(server.root), docs, *arguments]) == 1
    except SystemExit as usage:
        assert usage.code == 2  # noqa: PT017 - it is said in either way
    errors = capsys.readouterr().err
    assert all(word in errors for word in said), errors
    assert indexed(server, docs) == {}
