"""The language of full-text queries and searches of several columns: what matches, and its score, is what the rows themselves say."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileReader
from lance.query import MatchQuery
from lance_flight.engine.engine import Engine

from tests.examples import examples
from tests.search.articles import (
    INDICES,
    WORDS,
    Articles,
    Leaf,
    Query,
    all_of,
    any_of,
    articles,
    boosted,
    signed,
)
from tests.search.collection import query, told

pytestmark = pytest.mark.slow  # every query over every layout

approx = partial(pytest.approx, rel=1e-4)


@pytest.fixture(scope="module", params=INDICES)
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, Articles]:
    rows = Articles.random()
    of = articles(tmp_path_factory.mktemp("docs") / "root", rows, INDICES[request.param])
    return of, Articles(rows.rows, ("is_indexed",) if request.param == "some" else ())


Docs = tuple[Engine, Articles]


def found(of: Engine, words: str, columns: str = "'body'", more: str = "") -> dict[int, float]:
    quoted = words.replace("'", "''")
    rows = query(of, f"SELECT id, _score FROM full_text_search('docs', {columns}, '{quoted}', k => 10000{more})")
    scores = [row["_score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    return {row["id"]: row["_score"] for row in rows}


LANCE, ARROW, INDEX, SPARK = (Leaf.of(word) for word in ("lance", "arrow", "index", "spark"))
QUERIES: dict[str, Query] = {
    "lance OR arrow": any_of([LANCE, ARROW]),
    "lance AND arrow": all_of([LANCE, ARROW]),
    "lance AND NOT arrow": all_of([LANCE], [ARROW]),
    "lance AND -arrow": all_of([LANCE], [ARROW]),
    "NOT arrow lance": all_of([LANCE], [ARROW]),
    "lance OR arrow AND index": any_of([LANCE, all_of([ARROW, INDEX])]),
    "(lance OR arrow) AND index": all_of([any_of([LANCE, ARROW]), INDEX]),
    "lance AND arrow index": any_of([all_of([LANCE, ARROW]), INDEX]),
    "+(lance arrow) -(index spark)": signed([any_of([LANCE, ARROW])], [], [any_of([INDEX, SPARK])]),
    "lance^3 arrow": any_of([Leaf.of("lance", boost=3), ARROW]),
    "lance^0.25": Leaf.of("lance", boost=0.25),
    "(lance AND arrow)^2 index": any_of([boosted(all_of([LANCE, ARROW]), 2), INDEX]),
    '"lance arrow"^3 index': any_of([Leaf.of("lance", "arrow", boost=3), INDEX]),
    '"lance arrow"^0.5 index^4': any_of([Leaf.of("lance", "arrow", boost=0.5), Leaf.of("index", boost=4)]),
    'NOT "lance arrow" AND lance': all_of([LANCE], [Leaf.of("lance", "arrow")]),
    "lance and arrow or": any_of([LANCE, ARROW]),
    "+the +lance": LANCE,
    "the AND lance AND (of OR a)": LANCE,
    '"the" lance': LANCE,
    "\\(lance\\) arrow\\*": any_of([LANCE, ARROW]),
    "lance () -": LANCE,
}


@pytest.mark.sample(21)
@pytest.mark.parametrize("written", QUERIES)
@pytest.mark.parametrize("columns", [{"body": 1.0}, {"title": 2.5, "body": 1.0}], ids=["one", "two"])
def test_operators_brackets_and_boosts(docs: Docs, written: str, columns: dict[str, float]) -> None:
    of, rows = docs
    expected = rows.scores(QUERIES[written], columns)
    assert expected
    assert found(of, written, str([f"{name}^{boost}" for name, boost in columns.items()])) == approx(expected)


@st.composite
def leaf(draw: st.DrawFn) -> Query:
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2, unique=True))
    return Leaf.of(*words, boost=draw(st.sampled_from([1, 1, 0.5, 3])))


def combined(inner: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    some = partial(st.lists, inner, max_size=2)
    return st.one_of(
        st.builds(all_of, some(min_size=1), some()),
        st.builds(any_of, some(min_size=2)),
        st.builds(signed, some(min_size=1), some(), some()),
        st.builds(boosted, inner, st.sampled_from([0.5, 2])),
    )


@examples(12, full=400)
@given(asked=st.recursive(leaf(), combined, max_leaves=6), title=st.sampled_from([None, 1.0, 0.5, 4.0]))
def test_any_query_finds_what_comparing_every_row_finds(docs: Docs, asked: Query, title: float | None) -> None:
    of, rows = docs
    columns = {"body": 1.0} if title is None else {"title": title, "body": 1.0}
    names = str([f"{name}^{boost}" for name, boost in columns.items()])
    assert found(of, asked.text, names) == approx(rows.scores(asked, columns), abs=1e-5)


def test_all_words_may_be_in_different_columns(docs: Docs) -> None:
    of, rows = docs
    expected = rows.scores(all_of([LANCE, ARROW]), {"title": 1.0, "body": 1.0})
    assert found(of, "the lance arrow", "['title', 'body']", ", mode => 'all'") == approx(expected)
    texts = {row["id"]: (row["title"] or "", row["body"] or "") for row in rows.rows}
    assert any("lance" not in title and "arrow" not in body for title, body in (texts[number] for number in expected))


def test_rows_that_a_filter_leaves_out_do_not_count_in_any_column(docs: Docs) -> None:
    of, rows = docs
    chosen = Articles([row for row in rows.rows if row["tenant"] in ("a", "c")], rows.parts)
    expected = chosen.scores(any_of([LANCE, ARROW]), {"title": 2.0, "body": 1.0})
    more = ", filter => 'tenant IN (''a'', ''c'')'"
    assert found(of, "lance arrow", "['title^2', 'body']", more) == approx(expected)
    few = found(of, "lance arrow", "['title^2', 'body']", f"{more[:-1]} AND length(body) > 30'")
    assert few.keys() == {row["id"] for row in chosen.rows if row["id"] in expected and len(row["body"] or "") > 30}


def test_rows_that_came_after_the_index_of_one_column_are_found_once(tmp_path: Path) -> None:
    rows = Articles.random(3)
    of = articles(tmp_path / "root", rows, 1)
    of.update("DROP INDEX titles ON docs")
    of.update("INSERT INTO docs SELECT id + 1000, tenant, price, title, body, embedding FROM docs WHERE id % 3 = 0")
    of.update("CREATE INDEX titles ON docs (title) USING inverted WITH (min_rows = 1)")
    later = [{**row, "id": row["id"] + 1000} for row in rows.rows if row["id"] % 3 == 0]
    every = Articles([*rows.rows, *later], ("tenant",))
    expected = every.scores(any_of([LANCE, INDEX]), {"title": 1.0, "body": 2.0})
    assert found(of, "lance index", "['title', 'body^2']").keys() == expected.keys()


def test_a_column_that_some_partitions_lack_finds_nothing_there(tmp_path: Path) -> None:
    rows = Articles.random(4)
    of = articles(tmp_path / "root", rows, 1)
    of.update("ALTER TABLE docs ADD COLUMN notes VARCHAR")
    of.update("INSERT INTO docs (id, tenant, notes) VALUES (5000, 'a', 'lance'), (5001, 'e', 'arrow lance')")
    both = found(of, "lance", "['body', 'notes']")
    assert both.keys() == {*rows.scores(LANCE, {"body": 1.0}), 5000, 5001}
    assert found(of, "lance", "'notes'").keys() == {5000, 5001}


def test_words_that_may_differ_stand_beside_others(docs: Docs) -> None:
    of, rows = docs
    expected = rows.scores(any_of([all_of([LANCE], [INDEX]), SPARK]), {"body": 1.0}).keys()
    assert found(of, "lans~1 AND NOT index OR spark").keys() == expected
    assert found(of, "xanse~1 flixyt~1").keys() == set()


def test_a_text_can_be_searched_as_it_is(docs: Docs) -> None:
    of, rows = docs
    for text in ("lance OR (arrow* ^3", 'lance "arrow', "-lance -arrow", "NOT lance AND arrow"):
        expected = rows.scores(any_of([LANCE, ARROW]), {"body": 1.0})
        assert found(of, text, more=", syntax => 'words'") == approx(expected), text


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("['title', 'title^2']", "expected each column once"),
        ("['title^x']", "expected a column, ^ and a number above 0"),
        ("['title^-1', 'body']", "expected a column, ^ and a number above 0"),
        ("['titel']", "did you mean 'title'"),
        ("['title', 'price']", "column 'price' is int64; expected text"),
        ("[1, 2]", "a name, or an array of names"),
        ("'body', 'x', 3", "expected no other value without a name"),
    ],
)
def test_wrong_columns_are_refused(docs: Docs, columns: str, says: str) -> None:
    assert says in told(docs[0], f"SELECT id FROM full_text_search('docs', {columns}, 'lance')")


def test_filters_take_parameters(docs: Docs) -> None:
    of, rows = docs
    chosen = Articles([row for row in rows.rows if row["price"] < 4], rows.parts)
    expected = chosen.scores(LANCE, {"body": 1.0}).keys()
    bound = pa.record_batch({"1": ["lance"], "2": pa.array([4], pa.int64())})
    text = pa.record_batch({"1": ["lance"], "2": ["price < 4"]})
    for sql, values in (
        ("full_text_search('docs', 'body', $1, filter => 'price < $2', k => 1000)", bound),
        ("full_text_search('docs', 'body', $1, filter => 'price + 0 < $2', k => 1000)", bound),
        ("full_text_search('docs', 'body', $1, filter => $2, k => 1000)", text),
    ):
        assert {row["id"] for row in query(of, f"SELECT id FROM {sql}", values)} == expected, sql
    vector = "hybrid_search('docs', 'embedding', [1, 2, 3, 4], 'body', $1, k => 1000, depth => 1000, filter => "
    for condition, values in (("'price < $2'", bound), ("'abs(price) < $2'", bound), ("$2", text)):
        found_ids = {row["id"] for row in query(of, f"SELECT id FROM {vector}{condition})", values)}
        assert found_ids == {row["id"] for row in chosen.rows}, condition


def test_explain_names_the_columns_with_their_boosts(docs: Docs) -> None:
    said = told(docs[0], "EXPLAIN SELECT id FROM full_text_search('docs', ['title^2', 'body'], 'lance')")
    assert "search: 10 best matches of title^2, body" in said


def test_lance_has_no_words_by_how_they_begin(tmp_path: Path) -> None:
    """Neither by a query nor in files that can be read; once it has, `hel*` need not be refused."""
    texts = ["hel", "help", "hello", "helicopter"]
    held = lance.write_dataset(pa.table({"body": texts}), str(tmp_path / "texts"))
    held.create_scalar_index("body", "INVERTED", stem=False)
    found = MatchQuery("hel", "body", fuzziness=2, prefix_length=3)
    rows = held.scanner(columns=["body"], full_text_query=found, disable_scoring_autoprojection=True).to_table()
    assert sorted(rows["body"].to_pylist()) == ["hel", "hello", "help"]
    (tokens,) = (tmp_path / "texts" / "_indices").rglob("*tokens.lance")
    words = LanceFileReader(str(tokens)).metadata().schema
    assert words.names == ["_token_fst_bytes", "_token_next_id", "_token_total_length"]
