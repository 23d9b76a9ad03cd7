"""Searches by many vectors at once: for each vector what it finds by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.catalog.search import searching
from lance_flight.engine.engine import Engine

from tests.examples import examples
from tests.search.collection import DIMENSIONS, Documents, literal, made, query, store, told

pytestmark = pytest.mark.slow  # every search over every kind of index

INDICES = {
    "none": (None, ""),
    "flat": ("ivf_flat WITH (min_rows = 1, num_partitions = 3)", ", nprobes => 100"),
    "some": ("ivf_flat WITH (min_rows = 70, num_partitions = 1)", ""),
    "quantised": ("ivf_pq WITH (min_rows = 1, num_partitions = 1, num_sub_vectors = 4, num_bits = 4)", ", refine => 3"),
    "graph": ("ivf_hnsw_flat WITH (min_rows = 1, num_partitions = 1)", ", ef => 500"),
}
NUMBERS = st.integers(-20, 20).map(lambda n: n / 10)
VECTORS = st.lists(st.lists(NUMBERS, min_size=DIMENSIONS, max_size=DIMENSIONS), min_size=1, max_size=9)


def documents() -> Documents:
    """Rows of which some have the same vector as others."""
    found = Documents.random(300, seed=3)
    for row in found.rows[::4]:
        row["embedding"] = [float(row["price"] % 3)] * DIMENSIONS
    return found


@pytest.fixture(scope="module", params=INDICES)
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, str]:
    index, exactly = INDICES[request.param]
    of = made(tmp_path_factory.mktemp("docs") / "root", documents(), vector_index=index)
    store(of, Documents.random(40, seed=8, start=1000))
    questions = Documents.random(30, seed=9)
    of.update(f"CREATE TABLE questions (name VARCHAR, e FLOAT[{DIMENSIONS}])")
    values = [
        f"('q{row['id']}', {literal(row['embedding']) if row['embedding'] else 'NULL'})" for row in questions.rows
    ]
    of.update(f"INSERT INTO questions VALUES {', '.join(values)}")
    return of, exactly


def search(docs: tuple[Engine, str], arguments: str, columns: str = "*") -> str:
    return f"SELECT {columns} FROM vector_search('docs', 'embedding', {arguments}{docs[1]})"


def one_by_one(docs: tuple[Engine, str], vectors: dict[Any, list[float]], more: str) -> list[dict[str, Any]]:
    columns = "id, _distance, _rowid"
    return [
        {"_query": key, **row}
        for key, vector in vectors.items()
        for row in query(docs[0], search(docs, f"{literal(vector)}{more}", columns))
    ]


@given(st.data())
@examples(5, full=400)
def test_each_vector_finds_what_it_finds_by_itself(docs: tuple[Engine, str], data: st.DataObject) -> None:
    vectors = dict(enumerate(data.draw(VECTORS), 1))
    count = data.draw(st.sampled_from([1, 6, 80]))
    condition = data.draw(st.sampled_from(["TRUE", "price < 4", "price % 3 = 1", "tenant = ''a''", "FALSE"]))
    bounds = data.draw(st.sampled_from(["", ", max_distance => 9", ", min_distance => 8"]))
    more = f", k => {count}, filter => '{condition}'{bounds}"
    queries = f"[{', '.join(map(literal, vectors.values()))}]"
    rows = query(docs[0], search(docs, f"queries => {queries}{more}", "_query, id, _distance, _rowid"))
    expected = one_by_one(docs, vectors, more)
    assert [(row["_query"], row["id"], row["_rowid"]) for row in rows] == [
        (row["_query"], row["id"], row["_rowid"]) for row in expected
    ]
    assert np.allclose([row["_distance"] for row in rows], [row["_distance"] for row in expected], rtol=1e-5, atol=1e-6)


def test_a_query_says_the_keys_and_rows_without_a_vector_find_nothing(docs: tuple[Engine, str]) -> None:
    of = docs[0]
    vectors = {row["name"]: row["e"] for row in query(of, "SELECT * FROM questions ORDER BY name DESC") if row["e"]}
    assert len(vectors) < 30
    rows = query(
        of,
        search(
            docs,
            "queries => (SELECT name, e FROM questions ORDER BY name DESC), k => 3",
            "_query, id, _distance, _rowid",
        ),
    )
    assert rows == one_by_one(docs, vectors, ", k => 3")
    joined = (
        f"SELECT q.name, count(*) AS n FROM ({search(docs, 'queries => (SELECT name, e FROM questions), k => 4')}) s"
        " JOIN questions q ON q.name = s._query GROUP BY q.name"
    )
    assert {row["name"]: row["n"] for row in query(of, joined)} == dict.fromkeys(vectors, 4)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), DIMENSIONS), pa.list_(pa.float64())], ids=str)
def test_the_vectors_are_a_parameter(docs: tuple[Engine, str], kind: pa.DataType) -> None:
    sql = search(docs, "queries => $1, k => $2", "_query, id, _distance, _rowid")
    described = docs[0].describe(sql)
    assert described.parameters.types == [pa.list_(pa.list_(pa.float32(), DIMENSIONS)), pa.int64()]
    vectors = {1: [0.5] * DIMENSIONS, 3: [1.0] * DIMENSIONS}
    values = pa.array([[vectors[1], None, vectors[3]]], pa.list_(kind))
    assert query(docs[0], sql, pa.record_batch({"1": values, "2": [5]})) == one_by_one(docs, vectors, ", k => 5")


def test_columns_and_parameters_are_known_before_values_are(docs: tuple[Engine, str]) -> None:
    sql = search(docs, "queries => (SELECT name, e FROM questions WHERE name = $1)")
    described = docs[0].describe(sql)
    assert described.parameters.types == [pa.utf8()]
    assert described.schema.names[-2:] == ["_query", "_distance"]
    assert described.schema.field("_query").type == pa.utf8()
    assert {row["_query"] for row in query(docs[0], sql, pa.record_batch({"1": ["q1"]}))} == {"q1"}


def test_explain_says_how_many_vectors(docs: tuple[Engine, str]) -> None:
    said = told(docs[0], f"EXPLAIN {search(docs, 'queries => (SELECT e FROM questions)')}")
    assert "vectors, for each 10 nearest by" in said


def test_no_vectors_find_nothing(docs: tuple[Engine, str]) -> None:
    assert (
        query(docs[0], search(docs, "queries => (SELECT name, e FROM questions WHERE FALSE)", "id, _query, _rowid"))
        == []
    )


def test_lance_is_asked_once_for_all_vectors(docs: tuple[Engine, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is as near as the last row, no vector is searched for by itself."""
    asked: list[int] = []
    first = searching._Batch.arguments

    def arguments(self: Any, column: str, rows: int | None) -> Any:
        asked.append(len(self.vectors))
        return first(self, column, rows)

    monkeypatch.setattr(searching._Batch, "arguments", arguments)
    queries = "(SELECT name, e FROM questions WHERE e IS NOT NULL LIMIT 7)"
    assert len(query(docs[0], search(docs, f"queries => {queries}, k => 2"))) == 14
    assert set(asked) == {7}
    asked.clear()
    monkeypatch.setattr(searching, "ROWS_AT_ONCE", 9)
    assert len(query(docs[0], search(docs, f"queries => {queries}, k => 2"))) == 14
    assert set(asked) == {3}


def test_vectors_of_other_numbers_are_searched_as_well(tmp_path: Path) -> None:
    docs = made(tmp_path / "root", Documents([]))
    docs.update("CREATE TABLE wide (id BIGINT, e DOUBLE[2]) PARTITIONED BY (bucket(2, id))")
    docs.update("INSERT INTO wide VALUES (1, [0, 0]), (2, [1, 0]), (3, [0, 5])")
    rows = query(docs, "SELECT _query, id FROM vector_search('wide', 'e', queries => [[0, 1], [1, 0.1]], k => 1)")
    assert rows == [{"_query": 1, "id": 1}, {"_query": 2, "id": 2}]
