"""`_score`: BM25 by the statistics of all that is searched, worked out over the rows of all partitions together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.query.search import search_target

from tests.search.bm25 import scores
from tests.search.collection import WORDS, Documents, made, query, store, told

pytestmark = pytest.mark.slow  # every search over tables with and without indices

approx = partial(pytest.approx, rel=1e-4)
LEAST = 45
SIZES: Mapping[str | None, int] = {"a": 300, "b": 40, "c": 7, "d": 1, None: 60}

POLICY = """
[roles.reader]
members = ["reader"]
grants = ["SELECT ON docs WHERE tenant IN ('b', 'c')"]
"""


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
                    "indexed": size >= LEAST,
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
    "some": f"WITH (min_rows = {LEAST}, with_position = true)",
}


@pytest.fixture(scope="module", params=INDICES)
def docs(request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    of = made(tmp_path_factory.mktemp("docs") / "root", documents)
    if INDICES[request.param] is not None:
        of.update(f"CREATE INDEX words ON docs (body) USING inverted {INDICES[request.param]}")
    return of


@pytest.fixture
def bm25(request: pytest.FixtureRequest, documents: Documents) -> Callable[..., dict[int, float]]:
    """The scores of words: lengths are compared among rows with an index, and among those without one."""
    parts = ("indexed",) if request.node.callspec.params["docs"] == "some" else ()

    def of(*words: str, rows: Sequence[Mapping[str, Any]] = documents.rows) -> dict[int, float]:
        return scores(rows, words, parts)

    return of


Bm25 = Callable[..., dict[int, float]]
WORDS_ASKED = ["lance", "vector", "lance vector", "index file vector spark", "nothing", "lance lance"]


@pytest.mark.parametrize("words", WORDS_ASKED)
def test_scores_are_those_of_all_rows_together(docs: Engine, bm25: Bm25, words: str) -> None:
    assert asked(docs, words) == approx(bm25(*words.split()))


SIGNED = {
    "'lance vector', mode => 'all'": (["lance", "vector"], lambda text: {"lance", "vector"} <= set(text)),
    "'+lance vector -arrow'": (["lance", "vector"], lambda text: "lance" in text and "arrow" not in text),
    "'\"lance arrow\"'": (["lance", "arrow"], lambda text: "lance arrow" in " ".join(text)),
    "'lance arrow', mode => 'phrase'": (["lance", "arrow"], lambda text: "lance arrow" in " ".join(text)),
    "'the lance-vector'": (["lance", "vector"], lambda text: {"lance", "vector"} & set(text)),
}


@pytest.mark.parametrize("arguments", SIGNED)
def test_signs_and_phrases_change_which_rows_are_found_alone(
    docs: Engine, documents: Documents, bm25: Bm25, arguments: str
) -> None:
    words, matches = SIGNED[arguments]
    texts = {row["id"]: (row["body"] or "").split() for row in documents.rows}
    expected = {number: score for number, score in bm25(*words).items() if matches(texts[number])}
    found = query(docs, f"SELECT id, _score FROM full_text_search('docs', 'body', {arguments}, k => 10000)")
    assert {row["id"]: row["_score"] for row in found} == approx(expected)


def test_a_phrase_beside_words_is_worth_its_words(docs: Engine, documents: Documents, bm25: Bm25) -> None:
    both, word = bm25("lance", "arrow"), bm25("vector")
    phrased = {row["id"] for row in documents.rows if "lance arrow" in (row["body"] or "")}
    expected = {number: word.get(number, 0.0) + both[number] for number in phrased} | {
        number: score for number, score in word.items() if number not in phrased
    }
    assert asked(docs, 'vector "lance arrow"') == approx(expected)


def test_the_best_of_all_come_first(docs: Engine, bm25: Bm25) -> None:
    expected = sorted(bm25("vector", "index").values(), reverse=True)
    assert list(asked(docs, "vector index", count=12).values()) == approx(expected[:12])


def test_partitions_that_a_filter_leaves_out_do_not_count(docs: Engine, documents: Documents, bm25: Bm25) -> None:
    rows = [row for row in documents.rows if row["tenant"] in ("a", "c")]
    found = asked(docs, "index lance", ", filter => 'tenant IN (''a'', ''c'')'")
    assert found == approx(bm25("index", "lance", rows=rows))


def test_local_statistics_are_those_of_each_partition(docs: Engine, documents: Documents) -> None:
    expected: dict[int, float] = {}
    for tenant in SIZES:
        expected |= scores([row for row in documents.rows if row["tenant"] == tenant], ["lance", "vector"])
    assert asked(docs, "lance vector", ", statistics => 'local'") == approx(expected)


def test_tables_that_are_searched_one_by_one_have_their_own_lengths_alone(
    docs: Engine, documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they are where they cannot be read as one: where files of two have one number, or rows keep their ids."""
    monkeypatch.setattr(search_target, "merge", lambda tables: ([], list(tables)))
    for words in WORDS_ASKED:
        assert asked(docs, words) == approx(scores(documents.rows, words.split(), ("tenant",)))


def test_rows_that_came_after_the_index_count(tmp_path: Path) -> None:
    first, second = uneven(2), uneven(3, start=1000)
    of = made(tmp_path / "root", first)
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    store(of, second)
    rows = [{**row, "half": row["id"] >= 1000} for row in [*first.rows, *second.rows]]
    assert asked(of, "index lance") == approx(scores(rows, ["index", "lance"], ("half",)))
    query(of, "REINDEX docs")
    assert asked(of, "index lance") == approx(scores(rows, ["index", "lance"]))


@pytest.mark.parametrize("are_files", [True, False], ids=["whole files", "some rows of them"])
def test_deleted_rows_count_until_the_index_is_renewed(tmp_path: Path, *, are_files: bool) -> None:
    """They are taken to be like the others, as they are here: doubles of them."""
    kept = [{**row, "id": 2 * row["id"]} for row in uneven(4).rows]
    doubles = [{**row, "id": row["id"] + 1} for row in kept]
    of = made(tmp_path / "root", Documents(kept if are_files else [*kept, *doubles]))
    if are_files:
        store(of, Documents(doubles))
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    of.update("DELETE FROM docs WHERE id % 2 = 1")
    expected = scores([*kept, *doubles], ["index", "lance"])
    assert asked(of, "index lance") == approx({number: s for number, s in expected.items() if number % 2 == 0})


def test_of_two_indices_of_a_column_one_is_searched(tmp_path: Path) -> None:
    first, second = uneven(2), uneven(3, start=1000)
    rows = [*first.rows, *second.rows]
    for names in (["older", "newer"], ["b", "a"]):
        of = made(tmp_path / names[0], first)
        of.update(f"CREATE INDEX {names[0]} ON docs (body) USING inverted WITH (min_rows = 1)")
        store(of, second)
        of.update(f"CREATE INDEX {names[1]} ON docs (body) USING inverted WITH (min_rows = 1)")
        assert asked(of, "index lance").keys() == scores(rows, ["index", "lance"]).keys()


def test_words_are_cut_as_the_index_says(tmp_path: Path) -> None:
    texts = ["Run-time", "run time", "running Times", "the run", None]
    rows = [
        {"id": number, "tenant": "ab"[number % 2], "price": 0, "embedding": None, "body": text}
        for number, text in enumerate(texts)
    ]
    found = {}
    for options in ("stem = false, remove_stop_words = false", "base_tokenizer = 'whitespace'", "lower_case = false"):
        of = made(tmp_path / f"{len(found)}", Documents(rows))
        of.update(f"CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1, {options})")
        found[options] = [sorted(asked(of, words)) for words in ("run", "Run", "the", "time")]
    assert found == {
        "stem = false, remove_stop_words = false": [[0, 1, 3], [0, 1, 3], [3], [0, 1]],
        "base_tokenizer = 'whitespace'": [[1, 2, 3], [1, 2, 3], [], [1, 2]],
        "lower_case = false": [[1, 2, 3], [0], [], [0, 1]],
    }


def test_scores_tell_nothing_of_rows_that_a_policy_hides(tmp_path: Path, documents: Documents) -> None:
    everything = made(tmp_path / "all", documents)
    alone = made(tmp_path / "own", Documents([row for row in documents.rows if row["tenant"] in ("b", "c")]))
    for of in (everything, alone):
        of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    sql = "SELECT id, _score FROM full_text_search('docs', 'body', 'lance vector', k => 1000)"
    found, own = query(everything, sql, access=Policies.parse(POLICY).access("reader")), query(alone, sql)
    assert {row["id"]: row["_score"] for row in found} == approx({row["id"]: row["_score"] for row in own})


def test_statistics_are_global_or_local(docs: Engine) -> None:
    said = told(docs, "SELECT id FROM full_text_search('docs', 'body', 'x', statistics => 'some')")
    assert "statistics of full_text_search is 'some'; expected global or local" in said
