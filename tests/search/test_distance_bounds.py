"""Bounds of distances and other options of vector_search: what is found is what comparing every row finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine

from tests.examples import examples
from tests.search.collection import VECTOR, Documents, literal, made, query, same, store, told

pytestmark = pytest.mark.slow  # a long property

ROWS = 600
INDICES = {
    "none": (None, ""),
    "flat": ("ivf_flat WITH (min_rows = 1, num_partitions = 3)", ", nprobes => 100"),
    "some": ("ivf_flat WITH (min_rows = 130, num_partitions = 3)", ", nprobes => 100"),
    "pq, refined": (
        "ivf_pq WITH (min_rows = 1, num_partitions = 2, num_sub_vectors = 4, num_bits = 4)",
        ", nprobes => 100, refine => 50",
    ),
    "graph": ("ivf_hnsw_flat WITH (min_rows = 1, num_partitions = 1)", ", ef => 700"),
}
"""Indices, and how they are searched so that they find everything."""
FILTERS = {
    "": lambda _: True,
    "price < 5": lambda row: row["price"] < 5,
    "price % 3 = 1": lambda row: row["price"] % 3 == 1,
}


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(ROWS)


@pytest.fixture(scope="module", params=INDICES)
def docs(
    request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Engine, str]:
    index, exactly = INDICES[request.param]
    of = made(tmp_path_factory.mktemp("docs") / "root", documents, vector_index=index)
    return of, exactly


def search(docs: tuple[Engine, str], arguments: str, parameters: pa.RecordBatch | None = None) -> list[dict[str, Any]]:
    of, exactly = docs
    sql = f"SELECT id, _distance FROM vector_search('docs', 'embedding', {literal(VECTOR)}{exactly}, {arguments})"
    return query(of, sql, parameters)


@given(st.data())
@examples(8, full=400)
def test_bounds_leave_out_rows_before_the_nearest_are_counted(
    docs: tuple[Engine, str], documents: Documents, data: st.DataObject
) -> None:
    metric = data.draw(st.sampled_from(["l2", "cosine", "dot"]))
    condition = data.draw(st.sampled_from(list(FILTERS)))
    nearest = Documents([row for row in documents.rows if FILTERS[condition](row)]).nearest(VECTOR, metric)
    places = st.integers(0, len(nearest) - 2)
    first, last, count = data.draw(places), data.draw(places), data.draw(st.sampled_from([1, 7, 90]))
    # Halfway between two rows, so that no rounding decides.
    low, high = ((nearest[at][0] + nearest[at + 1][0]) / 2 for at in (first, last))
    expected, arguments = nearest, f"metric => '{metric}', k => {count}, filter => '{condition or 'TRUE'}'"
    if data.draw(st.booleans()):
        arguments, expected = f"{arguments}, min_distance => {low:.9f}", [each for each in expected if each[0] >= low]
    if data.draw(st.booleans()):
        arguments, expected = f"{arguments}, max_distance => {high:.9f}", [each for each in expected if each[0] <= high]
    rows = search(docs, arguments)
    assert len(rows) == len(expected[:count]), arguments
    assert np.allclose([row["_distance"] for row in rows], [each for each, _ in expected[:count]], atol=1e-4), arguments


def test_both_bounds_belong_to_the_range(docs: tuple[Engine, str]) -> None:
    every = search(docs, "k => 40")
    low, high = every[10]["_distance"], every[20]["_distance"]
    bounds = f"k => 40, min_distance => {low!r}, max_distance => {high!r}"
    assert search(docs, bounds) == every[10:21]
    bound = pa.record_batch({"1": [low], "2": [high]})
    assert search(docs, "k => 40, min_distance => $1, max_distance => $2", bound) == every[10:21]
    assert search(docs, f"k => 40, min_distance => {high!r}, max_distance => {low!r}") == []
    nothing = pa.record_batch({"1": pa.nulls(1, pa.float64())})
    assert search(docs, "k => 40, max_distance => $1", nothing) == every


def test_a_filter_is_a_parameter_itself(docs: tuple[Engine, str], documents: Documents) -> None:
    """What a text that is bound says is a condition, and can be nothing else."""
    of = docs[0]
    sql = f"SELECT id, _distance FROM vector_search('docs', 'embedding', {literal(VECTOR)}{docs[1]}, filter => $1)"
    assert of.describe(sql).parameters.types == [pa.utf8()]
    kept = Documents([row for row in documents.rows if row["tenant"] == "a"])
    assert same(query(of, sql, pa.record_batch({"1": ["tenant = 'a'"]})), kept.nearest(VECTOR)[:10])
    for wrong in ("price < 3) OR (TRUE", "TRUE; DROP TABLE docs", "TRUE) AS x, (SELECT 1"):
        with pytest.raises(Exception, match="expected"):
            query(of, sql, pa.record_batch({"1": [wrong]}))


def test_explain_says_which_distances_count(docs: tuple[Engine, str]) -> None:
    call = (
        f"vector_search('docs', 'embedding', {literal(VECTOR)}, metric => 'l2', min_distance => 0.5, max_distance => 2)"
    )
    said = told(docs[0], f"EXPLAIN SELECT id FROM {call}")
    assert "search: 10 nearest by l2 of embedding, from a distance of 0.5, up to a distance of 2.0" in said


@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_pq", "ivf_hnsw_sq"])
def test_fast_search_finds_indexed_rows_alone(tmp_path: Path, kind: str, condition: str) -> None:
    """Of five partitions three have an index, and new rows of all of them have none."""
    first, later = Documents.random(400), Documents.random(100, seed=5, start=1000)
    docs = made(tmp_path / "root", first)
    counts = {row["tenant"]: row["n"] for row in query(docs, "SELECT tenant, count(*) AS n FROM docs GROUP BY tenant")}
    least = sorted(counts.values())[2]
    options = ", num_sub_vectors = 4, num_bits = 4" if kind == "ivf_pq" else ""
    docs.update(
        f"CREATE INDEX v ON docs (embedding) USING {kind} WITH (min_rows = {least}, num_partitions = 1{options})"
    )
    store(docs, later)
    call = f"vector_search('docs', 'embedding', {literal(VECTOR)}, k => 1000, filter => '{condition or 'TRUE'}', ef => 400, fast_search => "
    found = {row["id"] for row in query(docs, f"SELECT id FROM {call}true)")}
    indexed = {
        row["id"]
        for row in first.rows
        if counts[row["tenant"]] >= least and row["embedding"] is not None and FILTERS[condition](row)
    }
    assert found == indexed
    assert len({row["id"] for row in query(docs, f"SELECT id FROM {call}false)")}) > len(indexed)
    assert f"of rows that the index ({kind}) is about" in told(docs, f"EXPLAIN SELECT id FROM {call}true)")


def test_more_candidates_of_a_graph_find_more_of_the_nearest(tmp_path: Path) -> None:
    documents = Documents.random(3000)
    docs = made(tmp_path / "root", documents, "bucket(1, id)")
    docs.update(
        "CREATE INDEX v ON docs (embedding) USING ivf_hnsw_flat WITH (min_rows = 1, num_partitions = 1, m = 4, ef_construction = 4)"
    )

    def hits(more: str) -> int:
        rows = query(docs, f"SELECT id FROM vector_search('docs', 'embedding', {literal(VECTOR)}, k => 20{more})")
        return len({row["id"] for row in rows} & {number for _, number in documents.nearest(VECTOR)[:20]})

    assert hits(", ef => 1") <= hits(", ef => 2000")
    assert hits(", ef => 2000") > hits(", ef => 1") or hits("") == 20
