"""Filters of a search of any kind: what is found is what comparing every row that fulfils them finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datafusion import SessionContext
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policy_file import Policies

from tests.engine.database import open_engine
from tests.examples import examples
from tests.search.collection import VECTOR, Documents, literal, made, query, same, store, told
from tests.search.layouts import COLUMNS, lance_plans

pytestmark = pytest.mark.slow  # a long property

EXACTLY = "nprobes => 100, refine => 50"


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(700)


INDICES = {"none": None, "all": 1, "some": 140, "half": 1}


@pytest.fixture(scope="module", params=INDICES)
def docs(request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Indices are about all tables, some, or of each about one file of two."""
    rows, least = documents.rows, INDICES[request.param]
    first = rows[: len(rows) // 2] if request.param == "half" else rows
    of = made(tmp_path_factory.mktemp("docs") / "root", Documents(first))
    if least is not None:
        of.update(f"CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = {least}, num_partitions = 3)")
        of.update(f"CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = {least})")
    if len(first) < len(rows):
        store(of, Documents(rows[len(first) :]))
    return of


def fulfilling(documents: Documents, condition: str) -> Documents:
    """The rows that DataFusion, asked about a table in memory, takes a condition to hold for."""
    context = SessionContext()
    context.from_arrow(documents.table, "docs")
    kept = context.sql(f"SELECT id FROM docs WHERE {condition}").to_pydict().get("id", [])
    chosen = set(kept)
    return Documents([row for row in documents.rows if row["id"] in chosen])


def vectors(
    of: Engine, condition: str, more: str = f", k => 12, {EXACTLY}", table: str = "docs"
) -> list[dict[str, Any]]:
    quoted = condition.replace("'", "''")
    call = f"vector_search('{table}', 'embedding', {literal(VECTOR)}, filter => '{quoted}'{more})"
    return query(of, f"SELECT id, _distance FROM {call}")


def texts(of: Engine, condition: str | None, words: str = "lance vector", count: int = 10_000) -> dict[int, float]:
    where = "" if condition is None else ", filter => '{}'".format(condition.replace("'", "''"))
    found = query(of, f"SELECT id, _score FROM full_text_search('docs', 'body', '{words}', k => {count}{where})")
    return {row["id"]: row["_score"] for row in found}


CONDITIONS = [
    "body LIKE 'l%'",
    "body LIKE '%arrow%' AND tenant = 'a'",
    "NOT body LIKE '%lance%'",
    "upper(tenant) = 'B'",
    "lower(tenant) IN ('a', 'c') OR price = 3",
    "price + id > 600",
    "id % 7 = 3",
    "id % 100 = 3 AND price < 5",
    "price * 1.5 < id / 50",
    "coalesce(tenant, 'none') = 'none'",
    "CASE WHEN price > 5 THEN tenant = 'a' ELSE body IS NULL END",
    "length(body) > 30",
    "docs.price + 0 = 2",
    "regexp_like(body, 'f[il]')",
    "(tenant IS NOT DISTINCT FROM 'a') AND id % 2 = 0",
    "id % 2 = 0 AND FALSE",
    "id % 1 = 0",
    "id + 0 < 0",
    "CAST(id AS VARCHAR) LIKE '%77'",
    "embedding[1] > 0.5",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_only_rows_that_fulfil_it_are_searched(docs: Engine, documents: Documents, condition: str) -> None:
    chosen = fulfilling(documents, condition)
    assert same(vectors(docs, condition), chosen.nearest(VECTOR)[:12])
    assert texts(docs, condition).keys() == texts(docs, None).keys() & {row["id"] for row in chosen.rows}
    found = query(
        docs,
        f"SELECT id FROM hybrid_search('docs', 'embedding', {literal(VECTOR)}, 'body', 'lance', k => 1000, depth => 1000,"
        " filter => '{}')".format(condition.replace("'", "''")),
    )
    can_be = {
        row["id"] for row in chosen.rows if row["embedding"] is not None or "lance" in (row["body"] or "").split()
    }
    assert {row["id"] for row in found} == can_be


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Conditions of which Lance can be told a part, all, or nothing."""
    number, letter = draw(st.integers(0, 9)), draw(st.sampled_from("abcd"))
    parts = [
        f"price {draw(st.sampled_from(['<', '=', '>=']))} {number}",
        f"tenant = '{letter}'",
        f"lower(tenant) <> '{letter}'",
        f"body LIKE '%{draw(st.sampled_from(['arrow', 'f', 'x', 'open file']))}%'",
        f"id % {number + 1} = {draw(st.integers(0, 3))}",
        f"price + id < {draw(st.integers(0, 800))}",
        "tenant IS NULL",
    ]
    chosen = draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3))
    return f" {draw(st.sampled_from(['AND', 'OR']))} ".join(
        f"({'NOT ' if draw(st.booleans()) else ''}({part}))" for part in chosen
    )


@given(condition=conditions(), count=st.integers(1, 60))
@examples(4, full=400)
def test_any_condition(docs: Engine, documents: Documents, condition: str, count: int) -> None:
    chosen = fulfilling(documents, condition)
    found = vectors(docs, condition, f", k => {count}, {EXACTLY}")
    assert same(found, chosen.nearest(VECTOR)[:count])
    assert texts(docs, condition).keys() == texts(docs, None).keys() & {row["id"] for row in chosen.rows}


def test_a_filter_leaves_scores_as_they_are(tmp_path: Path, documents: Documents) -> None:
    of = made(tmp_path / "root", documents)
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    every = texts(of, None)
    for condition in ("id % 2 = 0", "id % 90 = 7", "price < 3"):
        chosen = {row["id"] for row in fulfilling(documents, condition).rows}
        expected = {number: score for number, score in every.items() if number in chosen}
        assert texts(of, condition) == pytest.approx(expected)
        best = sorted(expected.values(), reverse=True)[:3]
        assert list(texts(of, condition, count=3).values()) == pytest.approx(best)


def test_the_best_may_all_be_left_out(tmp_path: Path, documents: Documents) -> None:
    """Of many rows that count more are asked for than are wanted: they may still be too few."""
    of = made(tmp_path / "root", documents, "bucket(1, id)")
    nearest = [number for _, number in documents.nearest(VECTOR)]
    gone = ", ".join(str(number) for number in nearest[: len(nearest) // 2])
    condition = f"id + 0 NOT IN ({gone})"
    assert same(vectors(of, condition), documents.nearest(VECTOR)[len(nearest) // 2 :][:12])
    of.update("CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 3)")
    assert same(vectors(of, condition), documents.nearest(VECTOR)[len(nearest) // 2 :][:12])


def test_columns_may_have_other_names_in_some_tables(docs: Engine, tmp_path: Path, documents: Documents) -> None:
    of = made(tmp_path / "root", documents)
    of.update("ALTER TABLE docs RENAME COLUMN price TO cost")
    of.update("INSERT INTO docs SELECT id + 1000, tenant, cost, embedding, body FROM docs WHERE id < 50")
    later = [{**row, "id": row["id"] + 1000} for row in documents.rows[:50]]
    both = Documents([*documents.rows, *later])
    chosen = fulfilling(both, "price % 2 = 0 AND tenant LIKE 'a%'")
    found = vectors(of, "cost % 2 = 0 AND tenant LIKE 'a%'")
    assert [row["_distance"] for row in found] == pytest.approx([d for d, _ in chosen.nearest(VECTOR)[:12]], abs=1e-4)


def test_an_old_snapshot_is_filtered_as_it_was(tmp_path: Path, documents: Documents) -> None:
    of = made(tmp_path / "root", documents)
    of.update("ALTER TABLE docs CREATE TAG first")
    of.update("DELETE FROM docs WHERE price < 5")
    chosen = fulfilling(documents, "price % 4 = 1")
    assert same(vectors(of, "price % 4 = 1", table="docs@first"), chosen.nearest(VECTOR)[:12])
    kept = Documents([row for row in chosen.rows if row["price"] >= 5])
    assert same(vectors(of, "price % 4 = 1"), kept.nearest(VECTOR)[:12])


def test_a_tenant_searches_its_own_rows_alone(docs: Engine, documents: Documents) -> None:
    policies = Policies.parse('roles.r = { members = ["*"], grants = ["SELECT ON docs WHERE tenant = \'b\'"] }')
    call = (
        f"vector_search('docs', 'embedding', {literal(VECTOR)}, k => 1000, {EXACTLY}, filter => 'id % 2 = 0 OR TRUE')"
    )
    mine = Documents([row for row in documents.rows if row["tenant"] == "b"])
    for condition, expected in (("id % 2 = 0", fulfilling(mine, "id % 2 = 0")), ("id % 1 = 0", mine)):
        call = f"vector_search('docs', 'embedding', {literal(VECTOR)}, k => 1000, {EXACTLY}, filter => '{condition}')"
        rows = query(docs, f"SELECT id, _distance FROM {call}", access=policies.access("bob"))
        assert same(rows, expected.nearest(VECTOR))


def test_what_the_query_asks_of_the_same_table_elsewhere_does_not_count(docs: Engine, documents: Documents) -> None:
    call = f"vector_search('docs', 'embedding', {literal(VECTOR)}, k => 12, {EXACTLY}, filter => 'id % 2 = 0')"
    sql = f"SELECT s.id FROM {call} s JOIN docs d ON d.id = s.id WHERE d.tenant LIKE 'a%' AND d.tenant IS NOT DISTINCT FROM 'a'"
    nearest = fulfilling(documents, "id % 2 = 0").nearest(VECTOR)[:12]
    tenants = {row["id"]: row["tenant"] for row in documents.rows}
    assert {row["id"] for row in query(docs, sql)} == {number for _, number in nearest if tenants[number] == "a"}


def test_several_filtered_searches_in_one_query(docs: Engine, documents: Documents) -> None:
    calls = [
        f"SELECT id FROM vector_search('docs', 'embedding', {literal(VECTOR)}, k => 5, {EXACTLY}, filter => 'id % 3 = {n}')"
        for n in range(3)
    ]
    found = {row["id"] for row in query(docs, " UNION ALL ".join(calls))}
    assert found == {
        number for n in range(3) for _, number in fulfilling(documents, f"id % 3 = {n}").nearest(VECTOR)[:5]
    }


def test_explain_says_that_rows_are_found_first(docs: Engine) -> None:
    call = f"vector_search('docs', 'embedding', {literal(VECTOR)}, filter => 'tenant = ''a'' AND id % 2 = 0')"
    said = told(docs, f"EXPLAIN SELECT id FROM {call}")
    assert "partitions: 1 / 5" in said
    assert "rows are found first where tenant = " in said


NO_CONDITION = {
    "without an end": ("price =", "filter 'price =' of a search of 'docs': Expected: an expression, found: )"),
    "empty": (" ", "filter ' ' of a search of 'docs': it is empty; expected a condition, or NULL for all rows"),
    "of no column": ("prize = 1", "filter 'prize = 1' of a search of 'docs': No field named prize."),
    "a number": ("1", "filter '1' of a search of 'docs': a condition is BIGINT; expected a comparison"),
    "of too many words": (f"{'x' * 300} =", f"filter '{'x' * 200}' of a search of 'docs': "),
}


@pytest.mark.parametrize(("condition", "says"), NO_CONDITION.values(), ids=NO_CONDITION)
def test_a_filter_that_is_no_condition_is_named(docs: Engine, condition: str, says: str) -> None:
    call = f"full_text_search('docs', 'body', 'x', filter => '{condition}')"
    said = told(docs, f"SELECT id FROM {call}")
    assert says in said, said


@pytest.mark.parametrize("table", ["two words", "../docs", "docs; x"])
def test_a_text_that_is_no_name_of_a_table_is_named(docs: Engine, table: str) -> None:
    said = told(docs, f"SELECT id FROM full_text_search('{table}', 'body', 'x')")
    assert f"SqlError: '{table}' is no name of a table to search: expected " in said, said
    assert "quotes around a name" in said


def test_what_fails_in_a_filter_is_said(docs: Engine) -> None:
    said = told(
        docs, f"SELECT id FROM vector_search('docs', 'embedding', {literal(VECTOR)}, filter => '1 / (id - id) = 1')"
    )
    assert said.startswith("QueryFailed"), said
    assert "ivide by zero" in said


INDEXED = {"body": "ngram", "price": "bitmap"}
LOOKED_UP = {
    "body LIKE '%arrow%'": "body",
    "contains(body, 'vector') AND id % 2 = 0": "body",
    "body LIKE '%lance%' OR price + 0 = 3": "body",
    "price + 1 = 3": "price",
}


@pytest.fixture(
    scope="module", params=["PARTITIONED BY (tenant)", "PARTITIONED BY (tenant) WITH (stable_row_ids = true)", ""]
)
def with_scalar_indices(
    request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory
) -> Engine:
    """A table with indices of vectors, texts and values, and with rows that these are not about, that were changed and deleted."""
    of = open_engine(tmp_path_factory.mktemp("docs") / "root")
    of.update(f"CREATE TABLE docs ({COLUMNS}) {request.param}")
    half, doubles = len(documents.rows) // 2, [{**row, "id": -1} for row in documents.rows[:50]]
    store(
        of,
        Documents(
            [*({**row, "price": row["price"] + (row["id"] % 11 == 0)} for row in documents.rows[:half]), *doubles]
        ),
    )
    of.update("CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 3)")
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (min_rows = 1)")
    for column, kind in INDEXED.items():
        of.update(f"CREATE INDEX {column}_idx ON docs ({column}) USING {kind} WITH (min_rows = 1)")
    store(of, Documents(documents.rows[half:]))
    of.update(f"UPDATE docs SET price = price - 1 WHERE id % 11 = 0 AND id BETWEEN 0 AND {half - 1}")
    of.update("DELETE FROM docs WHERE id = -1")
    return of


@pytest.mark.parametrize("condition", LOOKED_UP)
def test_rows_that_are_found_first_are_looked_up_in_indices(
    with_scalar_indices: Engine, documents: Documents, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, chosen = with_scalar_indices, fulfilling(documents, condition)
    plans = lance_plans(monkeypatch)
    found = vectors(of, condition)
    monkeypatch.undo()
    assert 12 < len(chosen.rows) < len(documents.rows)
    assert same(found, chosen.nearest(VECTOR)[:12])
    assert texts(of, condition).keys() == texts(of, None).keys() & {row["id"] for row in chosen.rows}
    index = f"{LOOKED_UP[condition]}_idx"
    assert plans
    assert all(f"@{index}(" in plan for plan in plans), plans
    call = f"vector_search('docs', 'embedding', {literal(VECTOR)}, filter => $${condition}$$)"
    explained = told(of, f"EXPLAIN SELECT id FROM {call}")
    assert f"index: {index} ({INDEXED[LOOKED_UP[condition]]})" in explained
    ordered = query(of, f"SELECT id FROM docs WHERE {condition} ORDER BY embedding <-> {literal(VECTOR)} LIMIT 12")
    assert [row["id"] for row in ordered] == [number for _, number in chosen.nearest(VECTOR)[:12]]
