"""Hybrid searches: both lists fused by ranks or scores, with what rows are worth in each; pages put together are the whole list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine

from tests.search.articles import Articles, articles
from tests.search.collection import query, told

pytestmark = pytest.mark.slow  # pages of every size over every layout

VECTOR = [0.5, -1.0, 0.25, 1.5]
BOTH = f"'docs', 'embedding', {VECTOR}, ['title^2', 'body'], 'lance vector'"
DEPTH = 60
COLUMNS = "id, _score, _distance, _vector_rank, _text_score, _text_rank"


@pytest.fixture(scope="module", params=[None, 1], ids=["none", "all"])
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return articles(tmp_path_factory.mktemp("docs") / "root", Articles.random(8), request.param)


def lists(of: Engine) -> tuple[dict[int, tuple[float, int]], dict[int, tuple[float, int]]]:
    """What each row is worth in both lists, and which it is there."""
    vectors = query(
        of, f"SELECT id, _distance AS worth FROM vector_search('docs', 'embedding', {VECTOR}, k => {DEPTH})"
    )
    texts = query(
        of,
        f"SELECT id, _score AS worth FROM full_text_search('docs', ['title^2', 'body'], 'lance vector', k => {DEPTH})",
    )
    first, second = ({row["id"]: (row["worth"], rank) for rank, row in enumerate(some, 1)} for some in (vectors, texts))
    return first, second


def fused(of: Engine, method: str, weights: tuple[float, float]) -> dict[int, float]:
    found: dict[int, float] = {}
    for some, weight, sign in zip(lists(of), weights, (-1, 1), strict=True):
        worth = np.array([value for value, _ in some.values()]) * sign
        for number, (value, rank) in some.items():
            mine = 1 / (60 + rank) if method == "rrf" else (value * sign - worth.min()) / (worth.max() - worth.min())
            found[number] = found.get(number, 0.0) + weight * mine
    return found


@pytest.mark.parametrize("method", ["rrf", "linear"])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, 0.7), (2.0, 0.0), (0.0, 1.0)])
def test_rows_are_ordered_by_what_both_lists_make_of_them(
    docs: Engine, method: str, weights: tuple[float, float]
) -> None:
    rows = query(
        docs,
        f"SELECT {COLUMNS} FROM hybrid_search({BOTH}, k => 1000, depth => {DEPTH}, fusion => '{method}', weights => {list(weights)})",
    )
    expected = fused(docs, method, weights)
    assert {row["id"]: row["_score"] for row in rows} == pytest.approx(expected, abs=1e-5)
    assert [row["_score"] for row in rows] == sorted((row["_score"] for row in rows), reverse=True)


def test_scores_and_ranks_are_those_of_each_list(docs: Engine) -> None:
    rows = query(docs, f"SELECT {COLUMNS} FROM hybrid_search({BOTH}, k => 1000, depth => {DEPTH})")
    vectors, texts = lists(docs)
    missing = (None, None)
    for row in rows:
        assert (row["_distance"], row["_vector_rank"]) == vectors.get(row["id"], missing)
        assert (row["_text_score"], row["_text_rank"]) == texts.get(row["id"], missing)
    assert {row["id"] for row in rows} == vectors.keys() | texts.keys()
    assert any(row["_distance"] is None for row in rows)
    assert any(row["_text_rank"] is None for row in rows)


def test_without_arguments_ranks_are_fused_evenly(docs: Engine) -> None:
    usual = query(docs, f"SELECT {COLUMNS} FROM hybrid_search({BOTH}, depth => {DEPTH})")
    told_so = query(
        docs, f"SELECT {COLUMNS} FROM hybrid_search({BOTH}, depth => {DEPTH}, fusion => 'RRF', weights => [1, 1])"
    )
    assert usual == told_so
    assert len(usual) == 10


def test_weights_and_fusion_can_be_bound(docs: Engine) -> None:
    values = pa.record_batch({"1": ["linear"], "2": pa.array([[0.25, 0.75]], pa.list_(pa.float64()))})
    bound = query(
        docs, f"SELECT {COLUMNS} FROM hybrid_search({BOTH}, depth => 60, fusion => $1, weights => $2)", values
    )
    written = f"SELECT {COLUMNS} FROM hybrid_search({BOTH}, depth => 60, fusion => 'linear', weights => [0.25, 0.75])"
    assert bound == query(docs, written)


def test_the_rows_of_one_list_alone_are_worth_what_they_are_there(docs: Engine) -> None:
    rows = query(
        docs,
        f"SELECT {COLUMNS} FROM hybrid_search('docs', 'embedding', {VECTOR}, 'body', 'nothing', fusion => 'linear')",
    )
    assert [row["_vector_rank"] for row in rows] == list(range(1, 11))
    assert rows[0]["_score"] == 1.0
    assert {row["_text_score"] for row in rows} == {None}


PAGES = [
    ("full_text_search", "'docs', 'body', 'lance OR arrow^2'"),
    ("full_text_search", "'docs', ['title', 'body'], 'lance', statistics => 'local'"),
    ("full_text_search", "'docs', 'tenant', 'b c d', filter => 'price < 9'"),
    ("hybrid_search", f"{BOTH}, depth => {DEPTH}"),
    ("hybrid_search", f"{BOTH}, depth => {DEPTH}, fusion => 'linear', weights => [0, 1]"),
]


@pytest.mark.parametrize(("function", "arguments"), PAGES)
@pytest.mark.parametrize("size", [3, 50])
def test_pages_put_together_are_the_whole_list(docs: Engine, function: str, arguments: str, size: int) -> None:
    sql = f"SELECT id, _score FROM {function}({arguments}, "
    whole = query(docs, f"{sql} k => 10000)")
    assert len(whole) > 50
    most = min(len(whole), 9 * size) if size == 1 else len(whole)
    pages: list[dict[str, Any]] = []
    while len(pages) < most:
        page = query(docs, f"{sql} k => {size}, offset => {len(pages)})")
        assert len(page) == min(size, len(whole) - len(pages))
        pages += page
    assert pages == whole[: len(pages)]
    assert query(docs, f"{sql} k => 10, offset => {len(whole)})") == []


def test_pages_of_a_version_stay_as_they_are(tmp_path: Path) -> None:
    of = articles(tmp_path / "root", Articles.random(9), 1)
    of.update("ALTER TABLE docs CREATE TAG read")
    sql = "SELECT id, _score FROM full_text_search('docs@read', 'body', 'lance', k => {}, offset => {})"
    whole = query(of, sql.format(1000, 0))
    first = query(of, sql.format(20, 0))
    of.update("DELETE FROM docs WHERE id % 2 = 0")
    assert [*first, *query(of, sql.format(1000, 20))] == whole


def test_a_column_of_the_name_of_a_result_is_refused(tmp_path: Path) -> None:
    of = articles(tmp_path / "root", Articles.random(), None)
    of.update("ALTER TABLE docs ADD COLUMN _text_rank BIGINT")
    assert "column '_text_rank' is what a search calls its own" in told(of, f"SELECT id FROM hybrid_search({BOTH})")
    assert query(of, "SELECT id FROM full_text_search('docs', 'body', 'lance')")


def test_explain_says_how_lists_are_fused(docs: Engine) -> None:
    said = told(docs, f"EXPLAIN SELECT id FROM hybrid_search({BOTH}, fusion => 'linear', weights => [1, 0.5])")
    assert "fused: linear, weights 1 and 0.5" in said
