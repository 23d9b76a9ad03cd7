"""Multivectors: rows of several vectors each, found by the sum of the least distances of the vectors of a query (MaxSim)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.search import arguments, running
from lance_flight.errors import DataError, InvalidInput, Unsupported

from tests.engine.database import open_engine
from tests.examples import examples
from tests.search.collection import query, searches, told

pytestmark = pytest.mark.slow  # every kind of index

SIZE = 8
KINDS = ["ivf_flat", "ivf_sq", "ivf_pq", "ivf_rq", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq"]
PLACES = {"plain": "", "partitioned": " PARTITIONED BY (bucket(3, id))"}
METRICS = ["l2", "cosine", "dot"]

Multivectors = Sequence[npt.NDArray[np.float32] | None]


def multivectors(count: int, seed: int = 0) -> Multivectors:
    """Multivectors of up to five vectors, some of none and some NULL."""
    chance = np.random.default_rng(seed)
    found = [chance.normal(size=(int(chance.integers(1, 6)), SIZE)).astype(np.float32) for _ in range(count)]
    return [None if n % 11 == 5 else rows[:0] if n % 11 == 7 else rows for n, rows in enumerate(found)]


def max_sim(rows: npt.NDArray[np.float32], vectors: npt.NDArray[np.float32], metric: str) -> float:
    """The sum over the vectors of a query of the distance of the nearest vector of a row."""
    mine, asked = rows.astype(np.float64), vectors.astype(np.float64)
    match metric:
        case "l2":
            each = ((asked[:, None, :] - mine[None]) ** 2).sum(axis=2)
        case "cosine":
            lengths = np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(mine, axis=1)[None]
            each = 1 - asked @ mine.T / lengths
        case _:
            each = 1 - asked @ mine.T
    return float(each.min(axis=1).sum())


def nearest(stored: Multivectors, asked: npt.NDArray[np.float32], metric: str) -> list[tuple[float, int]]:
    return sorted(
        (max_sim(rows, asked, metric), n) for n, rows in enumerate(stored) if rows is not None and rows.shape[0]
    )


def made(of: Engine, stored: Multivectors, place: str = "", kind: str = "FLOAT", start: int = 0) -> None:
    if not start:
        of.update(f"CREATE TABLE docs (id BIGINT, price BIGINT, v {kind}[{SIZE}][]){place}")
    numbers = range(start, start + len(stored))
    rows = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "price": pa.array([n % 7 for n in numbers], pa.int64()),
            # As pandas sends them: lists of any length of lists of any length.
            "v": pa.array(
                [None if each is None else each.tolist() for each in stored], pa.list_(pa.list_(pa.float64()))
            ),
        }
    )
    of.ingest(TableName(PUBLIC, "docs"), rows.to_reader(), create_missing=False, existing=IfExists.APPEND)


def found(of: Engine, asked: npt.NDArray[np.float32], more: str = "") -> list[tuple[float, int]]:
    rows = query(of, f"SELECT id, _distance FROM vector_search('docs', 'v', {asked.tolist()}{more})")
    return [(row["_distance"], row["id"]) for row in rows]


def are_same(rows: list[tuple[float, int]], expected: list[tuple[float, int]], within: float = 1e-4) -> bool:
    return [number for _, number in rows] == [number for _, number in expected] and np.allclose(
        [far for far, _ in rows], [far for far, _ in expected], atol=within, rtol=within
    )


@pytest.fixture(scope="module", params=PLACES)
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, Multivectors]:
    of, stored = open_engine(tmp_path_factory.mktemp("docs") / "root"), multivectors(300)
    made(of, stored, PLACES[request.param])
    return of, stored


QUERIES = st.integers(1, 6).flatmap(
    lambda count: st.integers(0, 2**32 - 1).map(
        lambda seed: np.random.default_rng(seed).normal(size=(count, SIZE)).astype(np.float32)
    )
)


@given(
    QUERIES, st.sampled_from(METRICS), st.sampled_from([1, 10, 400]), st.sampled_from([None, "price < 2", "id % 3 = 1"])
)
@examples(12, full=400)
def test_rows_are_found_as_all_of_them_compared(
    docs: tuple[Engine, Multivectors], asked: npt.NDArray[np.float32], metric: str, count: int, condition: str | None
) -> None:
    of, stored = docs
    chosen = {None: lambda _: True, "price < 2": lambda n: n % 7 < 2, "id % 3 = 1": lambda n: n % 3 == 1}[condition]
    expected = [row for row in nearest(stored, asked, metric) if chosen(row[1])][:count]
    filtered = "" if condition is None else f", filter => '{condition}'"
    assert are_same(found(of, asked, f", k => {count}, metric => '{metric}'{filtered}"), expected)


def test_the_metric_is_l2_where_nothing_is_said_and_one_vector_is_a_query(docs: tuple[Engine, Multivectors]) -> None:
    of, stored = docs
    (one,) = asked = np.random.default_rng(1).normal(size=(1, SIZE)).astype(np.float32)
    rows = query(of, f"SELECT id, _distance FROM vector_search('docs', 'v', {one.tolist()}, k => 5)")
    assert are_same([(row["_distance"], row["id"]) for row in rows], nearest(stored, asked, "l2")[:5])


def test_distances_are_bounded_and_pages_follow_each_other(docs: tuple[Engine, Multivectors]) -> None:
    of, stored = docs
    asked = np.random.default_rng(2).normal(size=(3, SIZE)).astype(np.float32)
    expected = nearest(stored, asked, "cosine")
    low, high = (expected[4][0] + expected[5][0]) / 2, (expected[40][0] + expected[41][0]) / 2
    more = f", k => 100, metric => 'cosine', min_distance => {low}, max_distance => {high}"
    assert are_same(found(of, asked, more), expected[5:41])
    after, pages = "(NULL, NULL)", []
    for _ in range(3):
        call = f"vector_search('docs', 'v', {asked.tolist()}, k => 6, metric => 'cosine', after => {after})"
        page = query(of, f"SELECT id, _distance, _rowid FROM {call}")
        pages += [(row["_distance"], row["id"]) for row in page]
        after = f"({page[-1]['_distance']!r}, '{page[-1]['_rowid']}')"
    assert are_same(pages, expected[:18])


def test_queries_are_many_multivectors(docs: tuple[Engine, Multivectors]) -> None:
    of, stored = docs
    asked = [np.random.default_rng(n).normal(size=(n, SIZE)).astype(np.float32) for n in (1, 3, 2)]
    expected = [(n, number) for n, each in enumerate(asked, 1) for _, number in nearest(stored, each, "l2")[:3]]
    call = f"vector_search('docs', 'v', queries => {[each.tolist() for each in asked]}, k => 3)"
    assert [(row["_query"], row["id"]) for row in query(of, f"SELECT _query, id FROM {call}")] == expected
    call = "vector_search('docs', 'v', queries => (SELECT id, v FROM docs WHERE id IN (3, 4)), k => 1)"
    assert [(row["_query"], row["id"]) for row in query(of, f"SELECT _query, id FROM {call}")] == [(3, 3), (4, 4)]


def test_the_vectors_are_a_parameter_or_those_of_a_row(docs: tuple[Engine, Multivectors]) -> None:
    of, stored = docs
    sql = "SELECT id, _distance FROM vector_search('docs', 'v', $1, k => 2)"
    kind = pa.list_(pa.list_(pa.float32(), SIZE))
    assert of.describe(sql).parameters.types == [kind]
    asked = np.random.default_rng(5).normal(size=(2, SIZE)).astype(np.float32)
    for sent in (kind, pa.list_(pa.list_(pa.float64()))):
        rows = query(of, sql, pa.record_batch({"1": pa.array([asked.tolist()], sent)}))
        assert are_same([(row["_distance"], row["id"]) for row in rows], nearest(stored, asked, "l2")[:2])
    call = "vector_search('docs', 'v', (SELECT v FROM docs WHERE id = 9), k => 1)"
    assert query(of, f"SELECT id, _distance FROM {call}") == [{"id": 9, "_distance": 0.0}]


def test_the_vectors_of_all_queries_are_bounded(
    docs: tuple[Engine, Multivectors], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "MOST_VECTORS", 4)
    assert "has 5 vectors; expected at most 4" in told(
        docs[0], f"SELECT * FROM vector_search('docs', 'v', {[[1] * SIZE] * 5})"
    )
    monkeypatch.setattr(arguments, "MOST_VECTORS_TOGETHER", 5)
    said = told(docs[0], f"SELECT * FROM vector_search('docs', 'v', queries => {[[[1] * SIZE] * 3] * 2})")
    assert "has multivectors of 6 vectors; expected at most 5 together" in said


def test_explain_says_what_is_added_up(docs: tuple[Engine, Multivectors]) -> None:
    call = f"vector_search('docs', 'v', {[[1] * SIZE] * 2}, metric => 'cosine')"
    assert searches(docs[0], f"SELECT * FROM {call}")[0].startswith("search: 10 nearest by MaxSim and cosine of v\n")


# What is stored


STORED = {
    "another length": ("[[1, 2, 3, 4], [1, 2]]", "holds 2 numbers in a vector of row 1 of a batch of 1; expected 4"),
    "NULL among the vectors": ("[[1, 2, 3, 4], NULL]", "has NULL inside the vector of row 1 of a batch of 1"),
    "NULL among the numbers": ("[[1, 2, 3, NULL]]", "has NULL inside the vector of row 1 of a batch of 1"),
    "a number that is too large": ("[[1e300, 2, 3, 4]]", "with numbers beyond"),
    "texts": ("[['a', 'b', 'c', 'd']]", "column 'v' is list<item: list<item: string>>; expected lists of numbers"),
}


@pytest.mark.parametrize(("value", "says"), STORED.values(), ids=STORED)
def test_what_is_no_multivector_is_refused(tmp_path: Path, value: str, says: str) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE t (v FLOAT[4][])")
    with pytest.raises(DataError, match=says):
        of.update(f"INSERT INTO t VALUES ({value})")
    of.update("INSERT INTO t VALUES ([[0.1, 2, 3, 4], [5, 6, 7, 8]]), ([]), (NULL)")
    rows = [row["v"] for row in query(of, "SELECT v FROM t")]
    assert [] in rows
    assert None in rows
    assert any(row and np.allclose(row, [[0.1, 2, 3, 4], [5, 6, 7, 8]]) for row in rows)


def test_a_row_of_many_is_named(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE t (v FLOAT[2][])")
    rows = pa.array([[[1, 2]], None, [], [[1, 2], [3]], [[4]]], pa.list_(pa.list_(pa.float64())))
    with pytest.raises(DataError, match="holds 1 numbers in a vector of row 4 of a batch of 5"):
        of.ingest(
            TableName(PUBLIC, "t"), pa.table({"v": rows}).to_reader(), create_missing=False, existing=IfExists.APPEND
        )


@pytest.mark.parametrize("kind", ["HALF", "DOUBLE"])
def test_multivectors_of_other_numbers_are_searched(tmp_path: Path, kind: str) -> None:
    of, stored = open_engine(tmp_path / "root"), multivectors(120)
    made(of, stored, PLACES["partitioned"], kind)
    asked = np.random.default_rng(3).normal(size=(3, SIZE)).astype(np.float32)
    assert np.allclose(
        [far for far, _ in found(of, asked, ", metric => 'cosine'")],
        [far for far, _ in nearest(stored, asked, "cosine")[:10]],
        atol=0.01,
    )


def test_multivectors_of_bytes_are_searched_and_not_indexed(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id BIGINT, v TINYINT UNSIGNED[2][])")
    of.update("INSERT INTO docs VALUES (1, [[255, 0], [0, 255]]), (2, [[1, 1]]), (3, [[254, 0], [0, 0]])")
    asked = np.array([[255, 0], [0, 1]], np.uint8)
    assert found(of, asked) == found(of, asked, ", metric => 'hamming'") == [(2.0, 3), (7.0, 1), (9.0, 2)]
    with pytest.raises(Unsupported, match="no ivf_flat index of column 'v'"):
        of.update("CREATE INDEX ON docs (v) USING ivf_flat")
    with pytest.raises(InvalidInput, match="expected none for column 'v'"):
        of.update("CREATE INDEX ON docs (v) USING ivf_flat WITH (metric = 'hamming')")


# Indices


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_an_index_finds_most_of_the_nearest_at_their_distances(tmp_path: Path, kind: str, place: str) -> None:
    of, stored = open_engine(tmp_path / "root"), multivectors(900)
    made(of, stored, PLACES[place])
    of.update(f"CREATE INDEX v ON docs (v) USING {kind} WITH (min_rows = 1, num_partitions = 2)")
    (row,) = query(of, "SHOW INDEXES FROM docs")
    assert (row["kind"], row["options"].count("cosine"), row["indexed_rows"]) == (kind, 1, 900)
    hits = hits_of_index(of, stored)
    # Rows that the index is not about are searched beside it.
    made(of, multivectors(60, seed=4), start=900)
    hits += hits_of_index(of, [*stored, *multivectors(60, seed=4)])
    assert hits / 60 >= (0.3 if kind.endswith("pq") else 0.8)


def hits_of_index(of: Engine, stored: Multivectors) -> int:
    """Count those of the ten nearest rows that an index finds for three queries, each at its distance."""
    hits = 0
    for seed in range(3):
        asked = np.random.default_rng(seed).normal(size=(3, SIZE)).astype(np.float32)
        distances = {number: far for far, number in nearest(stored, asked, "cosine")}
        rows = found(of, asked, ", nprobes => 2")
        assert len(rows) == 10
        assert np.allclose([far for far, _ in rows], [distances[number] for _, number in rows], atol=1e-3)
        assert rows == sorted(rows)
        hits += len(set(list(distances)[:10]) & {number for _, number in rows})
        filtered = found(of, asked, ", nprobes => 2, filter => 'price = 3'")
        assert len(filtered) == 10
        assert all(number % 7 == 3 for _, number in filtered)
    return hits


def test_refine_finds_more_and_all_are_found_without_the_index(tmp_path: Path) -> None:
    of, stored = open_engine(tmp_path / "root"), multivectors(1500)
    made(of, stored)
    of.update("CREATE INDEX v ON docs (v) USING ivf_flat WITH (min_rows = 1)")
    hits = dict.fromkeys([1, 100], 0)
    for seed in range(10):
        asked = np.random.default_rng(seed).normal(size=(4, SIZE)).astype(np.float32)
        expected = nearest(stored, asked, "cosine")[:10]
        assert are_same(found(of, asked, ", use_index => false"), expected)
        for refine in hits:
            rows = found(of, asked, f", nprobes => 9, refine => {refine}")
            hits[refine] += len(set(expected) & {(far, n) for far, n in expected if n in {n for _, n in rows}})
    assert hits[1] < hits[100] == 100


def test_refine_looks_at_more_rows_where_each_has_many_vectors(tmp_path: Path) -> None:
    """Lance compares no more rows by itself than those of ten times `k` vectors, and here each row has 20 of these."""
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(200, 1, SIZE))
    stored = [(each + chance.normal(size=(20, SIZE)) / 50).astype(np.float32) for each in centres]
    of = open_engine(tmp_path / "root")
    made(of, stored)
    of.update("CREATE INDEX v ON docs (v) USING ivf_flat WITH (min_rows = 1, num_partitions = 1)")
    hits = 0
    for _ in range(5):
        asked = chance.normal(size=(3, SIZE)).astype(np.float32)
        best = {number for _, number in nearest(stored, asked, "cosine")[:10]}
        hits += len(best & {number for _, number in found(of, asked)})
    assert hits / 50 > 0.9


def test_rows_are_not_missing_where_the_nearest_vectors_are_those_of_few_rows(tmp_path: Path) -> None:
    """An index finds so many vectors for each one of a query, and all of them may be of one row."""
    chance = np.random.default_rng(0)
    near = [np.repeat(chance.normal(size=(1, SIZE)), 400, axis=0).astype(np.float32) for _ in range(40)]
    of = open_engine(tmp_path / "root")
    made(of, near)
    of.update("CREATE INDEX v ON docs (v) USING ivf_flat WITH (min_rows = 1, num_partitions = 1)")
    asked = chance.normal(size=(2, SIZE)).astype(np.float32)
    assert are_same(found(of, asked, ", refine => 1"), nearest(near, asked, "cosine")[:10])
    assert len(found(of, asked, ", fast_search => true")) <= 10


def test_fast_search_leaves_out_rows_that_the_index_is_not_about(tmp_path: Path) -> None:
    of, stored = open_engine(tmp_path / "root"), multivectors(600)
    made(of, stored, PLACES["partitioned"])
    of.update("CREATE INDEX v ON docs (v) USING ivf_flat WITH (min_rows = 1)")
    made(of, stored, start=600)
    asked = stored[0]
    assert asked is not None
    assert {number for _, number in found(of, asked, ", k => 2")} == {0, 600}
    fast = found(of, asked, ", k => 5, fast_search => true")
    assert fast[0][1] == 0
    assert all(number < 600 for _, number in fast)


@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_an_index_is_by_cosine_alone(tmp_path: Path, metric: str) -> None:
    of = open_engine(tmp_path / "root")
    made(of, multivectors(300))
    with pytest.raises(InvalidInput, match=f"metric is '{metric}'; expected cosine for column 'v'"):
        of.update(f"CREATE INDEX ON docs (v) USING ivf_flat WITH (metric = '{metric}')")
    of.update("CREATE INDEX ON docs (v) USING ivf_flat WITH (min_rows = 1)")
    asked = np.random.default_rng(6).normal(size=(3, SIZE)).astype(np.float32)
    assert are_same(found(of, asked, f", metric => '{metric}'"), nearest(multivectors(300), asked, metric)[:10])


def test_advice_names_an_index_that_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MANY_ROWS", 100)
    of = open_engine(tmp_path / "root")
    made(of, multivectors(300))
    call = f"EXPLAIN SELECT * FROM vector_search('docs', 'v', {[[1] * SIZE]}"
    assert "advice" not in told(of, f"{call}, metric => 'dot')")
    statement = "CREATE INDEX ON docs (v) USING ivf_sq WITH (metric = 'cosine')"
    assert statement in told(of, f"{call}, metric => 'cosine')")
    of.update(statement)
