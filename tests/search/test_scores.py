"""`_score`: BM25 by the statistics of all that is searched, worked out over the rows of all partitions together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.policies.file import Policies

from tests.search.collection import WORDS, Documents, made, query, store, told

K1, B = 1.2, 0.75
SIZES: Mapping[str | None, int] = {"a": 300, "b": 40, "c": 7, "d": 1, None: 60}

POLICY = """
[roles.reader]
members = ["reader"]
grants = ["SELECT ON docs WHERE tenant IN ('b', 'c')"]
"""


def scores(
    rows: Sequence[Mapping[str, Any]], words: Sequence[str], parts: Sequence[str] = ("tenant",)
) -> dict[int, float]:
    """BM25 of each row that has any of the words; lengths are compared with those of its own part."""
    texts = {row["id"]: Counter((row["body"] or "").split()) for row in rows}
    lengths: dict[Any, list[int]] = {}
    for row in rows:
        if texts[row["id"]]:
            lengths.setdefault(tuple(row[part] for part in parts), []).append(texts[row["id"]].total())
    count = sum(map(len, lengths.values()))
    having = {word: sum(word in text for text in texts.values()) for word in words}
    found: dict[int, float] = {}
    for row in rows:
        text = texts[row["id"]]
        mean = np.mean(lengths.get(tuple(row[part] for part in parts), [1]))
        for word in words:
            if text[word]:
                idf = math.log(1 + (count - having[word] + 0.5) / (having[word] + 0.5))
                weight = text[word] * (K1 + 1) / (text[word] + K1 * (1 - B + B * text.total() / mean))
                found[row["id"]] = found.get(row["id"], 0.0) + idf * weight
    return found


def uneven(seed: int, start: int = 0) -> Documents:
    """Tenants of very different sizes, each with words that are rare elsewhere."""
    chance = np.random.default_rng(seed)
    rows = []
    for number, (tenant, size) in enumerate(SIZES.items()):
        likely = np.roll(np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.08, 0.06, 0.04, 0.015, 0.005]), number)
        for _ in range(size):
            body = " ".join(chance.choice(WORDS, int(chance.integers(1, 12)), p=likely))
            rows.append(
                {
                    "id": start + len(rows),
                    "tenant": tenant,
                    "price": int(chance.integers(10)),
                    "embedding": None,
                    "body": None if chance.random() < 0.1 else body,
                }
            )
    return Documents(rows)


@pytest.fixture(scope="module")
def documents() -> Documents:
    return uneven(1)


def asked(of: Engine, words: str, more: str = "", count: int = 10_000) -> dict[int, float]:
    found = query(of, f"SELECT id, _score FROM full_text_search('docs', 'body', '{words}', k => {count}{more})")
    assert [row["_score"] for row in found] == sorted((row["_score"] for row in found), reverse=True)
    return {row["id"]: row["_score"] for row in found}


INDICES = {
    "none": None,
    "all": "WITH (min_rows = 1, with_position = true)",
    "some": "WITH (min_rows = 45, with_position = true)",
}


@pytest.fixture(scope="module", params=INDICES.values(), ids=INDICES.keys())
def docs(request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    of = made(tmp_path_factory.mktemp("docs") / "root", documents)
    if request.param is not None:
        of.update(f"CREATE INDEX words ON docs (body) USING inverted {request.param}")
    return of


@pytest.mark.parametrize(
    "words", ["lance", "vector", "lance vector", "index file vector spark", "nothing", "lance lance"]
)
def test_scores_are_those_of_all_rows_together(docs: Engine, documents: Documents, words: str) -> None:
    assert asked(docs, words) == pytest.approx(scores(documents.rows, words.split()), rel=1e-4)


SIGNED = {
    "'lance vector', mode => 'all'": (["lance", "vector"], lambda text: {"lance", "vector"} <= set(text)),
    "'+lance vector -arrow'": (["lance", "vector"], lambda text: "lance" in text and "arrow" not in text),
    "'\"lance arrow\"'": (["lance", "arrow"], lambda text: "lance arrow" in " ".join(text)),
    "'lance arrow', mode => 'phrase'": (["lance", "arrow"], lambda text: "lance arrow" in " ".join(text)),
    "'the lance-vector'": (["lance", "vector"], lambda text: {"lance", "vector"} & set(text)),
}


@pytest.mark.parametrize("arguments", SIGNED)
def test_signs_and_phrases_change_which_rows_are_found_alone(
    docs: Engine, documents: Documents, arguments: str
) -> None:
    words, matches = SIGNED[arguments]
    expected = {
        number: score
        for number, score in scores(documents.rows, words).items()
        if matches((documents.rows[number]["body"] or "").split())
    }
    found = query(docs, f"SELECT id, _score FROM full_text_search('docs', 'body', {arguments}, k => 10000)")
    assert {row["id"]: row["_score"] for row in found} == pytest.approx(expected, rel=1e-4)


def test_a_phrase_beside_words_is_worth_its_words(docs: Engine, documents: Documents) -> None:
    both = scores(documents.rows, ["lance", "arrow"])
    word = scores(documents.rows, ["vector"])
    expected = {}
    for row in documents.rows:
        score = word.get(row["id"], 0.0) + (both[row["id"]] if "lance arrow" in (row["body"] or "") else 0.0)
        if score:
            expected[row["id"]] = score
    assert asked(docs, 'vector "lance arrow"') == pytest.approx(expected, rel=1e-4)


def test_the_best_of_all_come_first(docs: Engine, documents: Documents) -> None:
    expected = sorted(scores(documents.rows, ["vector", "index"]).values(), reverse=True)
    assert list(asked(docs, "vector index", count=12).values()) == pytest.approx(expected[:12], rel=1e-4)


def test_local_statistics_are_those_of_each_partition(docs: Engine, documents: Documents) -> None:
    expected: dict[int, float] = {}
    for tenant in SIZES:
        expected |= scores([row for row in documents.rows if row["tenant"] == tenant], ["lance", "vector"])
    assert asked(docs, "lance vector", ", statistics => 'local'") == pytest.approx(expected, rel=1e-4)


def test_rows_that_came_after_the_index_count(tmp_path: Path) -> None:
    first, second = uneven(2), uneven(3, start=1000)
    of = made(tmp_path / "root", first)
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    store(of, second)
    rows = [{**row, "half": row["id"] >= 1000} for row in [*first.rows, *second.rows]]
    assert asked(of, "index lance") == pytest.approx(scores(rows, ["index", "lance"], ("tenant", "half")), rel=1e-4)
    query(of, "REINDEX docs")
    assert asked(of, "index lance").keys() == scores(rows, ["index", "lance"]).keys()


def test_deleted_rows_do_not_count(tmp_path: Path) -> None:
    """Lance counts them until the index is made again, in lengths too: each is here another one's double."""
    documents = uneven(4)
    of = made(tmp_path / "root", documents)
    store(of, Documents([{**row, "id": row["id"] + 1000} for row in documents.rows]))
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    of.update("DELETE FROM docs WHERE id >= 1000")
    assert asked(of, "index lance") == pytest.approx(scores(documents.rows, ["index", "lance"]), rel=1e-4)


def test_partitions_that_a_filter_leaves_out_do_not_count(docs: Engine, documents: Documents) -> None:
    rows = [row for row in documents.rows if row["tenant"] in ("a", "c")]
    found = asked(docs, "index lance", ", filter => 'tenant IN (''a'', ''c'')'")
    assert found == pytest.approx(scores(rows, ["index", "lance"]), rel=1e-4)


def test_scores_tell_nothing_of_rows_that_a_policy_hides(tmp_path: Path, documents: Documents) -> None:
    everything, alone = (
        made(tmp_path / "all", documents),
        made(tmp_path / "own", Documents([row for row in documents.rows if row["tenant"] in ("b", "c")])),
    )
    for of in (everything, alone):
        of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    sql = "SELECT id, _score FROM full_text_search('docs', 'body', 'lance vector', k => 1000)"
    access = Policies.parse(POLICY).access("reader")
    assert query(everything, sql, access=access) == query(alone, sql)


def test_statistics_are_global_or_local(docs: Engine) -> None:
    said = told(docs, "SELECT id FROM full_text_search('docs', 'body', 'x', statistics => 'some')")
    assert "statistics of full_text_search is 'some'; expected global or local" in said
