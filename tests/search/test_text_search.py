"""full_text_search and hybrid_search: which rows match, in which order, and what is fused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lance_flight.engine.engine import Engine

from tests.engine.database import open_engine
from tests.search.collection import DIMENSIONS, WORDS, Documents, literal, made, query, store

VECTOR = np.random.default_rng(3).normal(size=DIMENSIONS).round(3).tolist()
INDICES = [None, "WITH (min_rows = 1, with_position = true)", "WITH (min_rows = 110, with_position = true)"]


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(500, seed=2)


@pytest.fixture(scope="module", params=INDICES, ids=["none", "all", "some"])
def docs(request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The rows come in two parts: an index is about the first one alone."""
    half = len(documents.rows) // 2
    of = made(tmp_path_factory.mktemp("docs") / "root", Documents(documents.rows[:half]))
    if request.param is not None:
        of.update(f"CREATE INDEX words ON docs (body) USING inverted {request.param}")
    store(of, Documents(documents.rows[half:]))
    return of


def words(row: dict[str, Any]) -> list[str]:
    return (row["body"] or "").split()


def has_phrase(row: dict[str, Any], phrase: str) -> bool:
    return f" {phrase} " in f" {row['body'] or ''} "


QUERIES = [
    ("'lance'", lambda row: "lance" in words(row)),
    ("'Lance'", lambda row: "lance" in words(row)),
    ("'lance arrow'", lambda row: {"lance", "arrow"} & set(words(row))),
    ("'lance arrow', mode => 'all'", lambda row: {"lance", "arrow"} <= set(words(row))),
    ("'+lance -arrow'", lambda row: "lance" in words(row) and "arrow" not in words(row)),
    ("'+lance +spark index'", lambda row: {"lance", "spark"} <= set(words(row))),
    ("'lans', fuzziness => 2", lambda row: "lance" in words(row)),
    (
        "'lance', filter => 'tenant = ''a'' AND price < 5'",
        lambda row: "lance" in words(row) and row["tenant"] == "a" and row["price"] < 5,
    ),
    ("'nothing'", lambda _: False),
    ("''", lambda _: False),
]


@pytest.mark.sample(10)
@pytest.mark.parametrize(("arguments", "matches"), QUERIES)
def test_every_row_that_matches_is_found(docs: Engine, documents: Documents, arguments: str, matches: Any) -> None:
    rows = query(docs, f"SELECT id, _score FROM full_text_search('docs', 'body', {arguments}, k => 10000)")
    assert sorted(row["id"] for row in rows) == [row["id"] for row in documents.rows if matches(row)]
    scores = [row["_score"] for row in rows]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("arguments", ["'open format', mode => 'phrase'", "'\"open format\"'"])
def test_a_phrase_needs_positions(tmp_path: Path, documents: Documents, arguments: str) -> None:
    of = made(tmp_path / "root", documents)
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1, with_position = true)")
    rows = query(of, f"SELECT id FROM full_text_search('docs', 'body', {arguments}, k => 10000)")
    assert sorted(row["id"] for row in rows) == [row["id"] for row in documents.rows if has_phrase(row, "open format")]


def test_the_best_come_first_and_more_often_is_better(docs: Engine, documents: Documents) -> None:
    rows = query(docs, "SELECT id, body FROM full_text_search('docs', 'body', 'vector', k => 8)")
    assert len(rows) == 8
    most = max(words(row).count("vector") for row in documents.rows)
    assert words(rows[0]).count("vector") == most


def test_a_hybrid_search_fuses_the_ranks_of_both(docs: Engine) -> None:
    both = f"'docs', 'embedding', {literal(VECTOR)}, 'body', 'lance vector'"
    by_vector = query(docs, f"SELECT id, _distance FROM vector_search('docs', 'embedding', {literal(VECTOR)}, k => 50)")
    by_text = query(docs, "SELECT id, _score FROM full_text_search('docs', 'body', 'lance vector', k => 500)")
    rows = query(docs, f"SELECT id, _score FROM hybrid_search({both}, k => 12, depth => 50)")
    assert len({row["id"] for row in rows}) == 12
    scores = [row["_score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    ranked = {row["id"]: rank for rank, row in enumerate(by_vector, 1)}
    worth = {row["id"]: row["_score"] for row in by_text}
    for row in rows:
        # Texts that are as good as each other may come in any order, and fall off the end of the list.
        mine = worth.get(row["id"], -1.0)
        better, as_good = (
            sum(other > mine for other in worth.values()),
            sum(other == mine for other in worth.values()),
        )
        ranks = [None, *range(better + 1, better + as_good + 1)]
        of_vector = 1 / (60 + ranked[row["id"]]) if row["id"] in ranked else 0.0
        possible = [of_vector + (0.0 if rank is None or rank > 50 else 1 / (60 + rank)) for rank in ranks]
        assert np.isclose(possible, row["_score"]).any()
    assert scores[0] >= 1 / 61


def test_words_are_those_of_the_collection() -> None:
    assert len(set(WORDS)) == len(WORDS)


FUZZY = {
    "'quary~1'": [1, 3],
    "'quary', fuzziness => 1": [1, 3],
    "'+quary~1 +tabels~1'": [1],
    "'quary tabels', fuzziness => 1, mode => 'all'": [1],
    "'lence~1'": [2],
    "'quxxy~1'": [],
}


@pytest.mark.parametrize("index", ["CREATE INDEX ON docs (body) USING inverted WITH (min_rows = 1)", None])
def test_words_are_stemmed_before_their_letters_are_compared(tmp_path: Path, index: str | None) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id INT, body VARCHAR)")
    of.update(
        "INSERT INTO docs VALUES (1, 'a query of many tables'), (2, 'lance tables'), (3, 'Queries run'), (4, 'x')"
    )
    if index is not None:
        of.update(index)
    for arguments, expected in FUZZY.items():
        rows = query(of, f"SELECT id FROM full_text_search('docs', 'body', {arguments}) ORDER BY id")
        assert [row["id"] for row in rows] == expected, arguments
