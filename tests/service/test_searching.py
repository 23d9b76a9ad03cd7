"""Indices and searches over the wire: what a client sends and gets, work that dies, two servers, and the command line."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.faults import VARIABLE

from tests.service.commands import run
from tests.service.server_process import Server, serving, started
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


def test_a_search_is_a_table_among_others(server: Server, docs: str) -> None:
    create(server, docs)
    call = f"vector_search('{docs}', 'v', (SELECT v FROM {docs} WHERE id = 17), k => 6, {EXACTLY})"
    rows = server.rows(
        f"SELECT d.id, d.body FROM {call} s JOIN {docs} d ON d.id = s.id WHERE s._distance > 0 ORDER BY s._distance LIMIT 3"
    )
    own = np.argsort(((VECTORS - VECTORS[17]) ** 2).sum(axis=1))[1:4].tolist()
    assert rows == [(number, DOCS["body"][number].as_py()) for number in own]


def test_texts_are_found_and_fused_with_vectors(server: Server, docs: str) -> None:
    create(server, docs)
    rows = server.rows(f"SELECT id, _score FROM full_text_search('{docs}', 'body', '+search -nothing', k => 1000)")
    assert {number for number, _ in rows} == {number for number in range(ROWS) if number % len(WORDS) == 4}
    assert [score for _, score in rows] == sorted((score for _, score in rows), reverse=True)
    phrase = server.rows(f"SELECT id FROM full_text_search('{docs}', 'body', '\"open table\"', k => 1000)")
    assert {number for (number,) in phrase} == {number for number in range(ROWS) if number % len(WORDS) >= 3}
    best = server.rows(
        f"SELECT id FROM hybrid_search('{docs}', 'v', $1, 'body', 'search', k => 3, {EXACTLY})", parameter(WANTED)
    )
    assert len(best) == 3
    assert best[0][0] in nearest(1) + [number for number, _ in rows]


@pytest.mark.parametrize("point", ["segment_built", "data_written", "table_staged", "manifest_written", "committed"])
def test_an_index_whose_server_dies_is_there_or_not_and_made_by_the_next(server: Server, docs: str, point: str) -> None:
    server.run(f"DELETE FROM {docs} WHERE id = 17")
    expected = [number for number in nearest(6) if number != 17]
    with started(server.root, environment=os.environ | {VARIABLE: point}) as dying:
        dying.refuses(f"CREATE INDEX vectors ON {docs} (v) USING {INDICES['vectors'][1]}")
        assert dying.process.wait(60) != 0
    assert found(server, docs) == expected
    assert indexed(server, docs) == ({"vectors": (3, ROWS - 1)} if point == "committed" else {})
    assert server.value(f"SELECT count(*) FROM {docs}") == ROWS - 1
    server.run(f"CREATE INDEX IF NOT EXISTS vectors ON {docs} (v) USING {INDICES['vectors'][1]}")
    assert indexed(server, docs) == {"vectors": (3, ROWS - 1)}
    assert found(server, docs) == expected
    server.rows(f"VACUUM {docs} RETAIN 0 HOURS FORCE")
    assert found(server, docs) == expected


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


WRONG = {
    "a vector of another size": ("vector_search('{}', 'v', [1.0, 2.0])", ["invalid", "2", "8"]),
    "no vector": ("vector_search('{}', 'v', 'near')", ["'near'"]),
    "a column of texts": ("vector_search('{}', 'body', [1.0])", ["'body'", "string"]),
    "a column that is not there": ("vector_search('{}', 'w', [1.0])", ["not_found", "'w'"]),
    "a table that is not there": ("vector_search('nothing_{}', 'v', [1.0])", ["not_found", "nothing_"]),
    "no rows": ("vector_search('{}', 'v', [1.0], k => 0)", ["k", "0"]),
    "a metric nobody knows": (
        "vector_search('{}', 'v', [1,2,3,4,5,6,7,8], metric => 'manhattan')",
        ["manhattan", "l2"],
    ),
    "an argument nobody knows": ("vector_search('{}', 'v', [1.0], probes => 3)", ["'probes'", "nprobes"]),
    "a text of a number": ("full_text_search('{}', 'id', 'x')", ["'id'", "int64", "text"]),
}


@pytest.mark.parametrize(("call", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_searched_is_named(server: Server, docs: str, call: str, said: list[str]) -> None:
    message = server.refuses(f"SELECT * FROM {call.format(docs)}")
    assert all(word in message for word in said), message


def test_the_command_line_makes_and_renews_indices(server: Server, docs: str) -> None:
    root = str(server.root)
    options = ["--kind", "ivf_flat", "--name", "near", "--option", "metric=cosine", "--option", "num_partitions=2"]
    made = run("create-index", root, docs, "v", *options, "--min-rows", "1")
    assert (made.returncode, made.stderr) == (0, b"")
    assert f"{docs}: index near: 3 of 3 partition tables, {ROWS} rows, snapshot ".encode() in made.stdout
    assert server.rows(f"SELECT kind, column_name FROM {docs}$indexes") == [("ivf_flat", "v")]
    (said,) = server.rows(f"SELECT options FROM {docs}$indexes")
    assert json.loads(said[0]) == {"metric": "cosine", "num_partitions": 2}
    assert (
        b"index near: 0 of 3 partition tables, 0 rows"
        in run("create-index", root, docs, "v", *options, "--min-rows", "1").stdout
    )
    server.ingest(docs, DOCS.slice(0, 30), "append")
    assert f"{docs}: index near: 3 of 3".encode() in run("reindex", root, docs).stdout
    assert indexed(server, docs) == {"near": (3, ROWS + 30)}


REFUSED = {
    "no such kind": (["v", "--kind", "fast"], [b"fast", b"btree"]),
    "no such option": (["v", "--kind", "ivf_flat", "--option", "speed=high"], [b"'speed'", b"num_partitions"]),
    "an option of nothing": (
        ["v", "--kind", "ivf_flat", "--option", "num_partitions=0"],
        [b"num_partitions", b"above 0"],
    ),
    "no pair": (["v", "--option", "speed"], [b"NAME=VALUE"]),
    "no such column": (["w"], [b"not_found", b"'w'"]),
}


@pytest.mark.parametrize(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_the_command_line_refuses(server: Server, docs: str, arguments: list[str], said: list[bytes]) -> None:
    refused = run("create-index", str(server.root), docs, *arguments)
    assert refused.returncode != 0
    assert all(word in refused.stderr for word in said), refused.stderr
    assert indexed(server, docs) == {}
