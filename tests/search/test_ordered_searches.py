"""ORDER BY a distance of vectors with a LIMIT: what a search answers is what sorting every row gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.errors import LanceFlightError

from tests.engine.database import open_engine
from tests.examples import examples
from tests.search.collection import DIMENSIONS, EXACTLY, VECTOR, Documents, literal, made, query, searches, store

pytestmark = pytest.mark.slow  # a long property, and every change

ROWS = 500
NEAR = literal(VECTOR)
INDICES = {
    "no index": None,
    "ivf_flat": "ivf_flat WITH (min_rows = 1, num_partitions = 1)",
    "cosine": "ivf_flat WITH (min_rows = 1, num_partitions = 1, metric = 'cosine')",
    "dot": "ivf_flat WITH (min_rows = 60, num_partitions = 1, metric = 'dot')",
}
"""Indices that find everything, some of them of some partitions alone."""


@dataclass(frozen=True)
class Form:
    """A way to write a distance: in SQL, the order of the nearest, and its value."""

    sql: str
    order: str
    metric: str

    def value(self, row: dict[str, Any], vector: list[float]) -> float | None:
        if row["embedding"] is None:
            return None
        one, other = np.array(row["embedding"], np.float64), np.array(vector)
        match self.metric:
            case "l2":
                return float(np.sqrt(((one - other) ** 2).sum()))
            case "cosine":
                return float(1 - one @ other / np.linalg.norm(one) / np.linalg.norm(other))
            case "inner product":
                return float(one @ other)
            case _:
                return float(-(one @ other))


FORMS = [
    Form("array_distance(embedding, {v})", "", "l2"),
    Form("list_distance({v}, embedding)", "ASC", "l2"),
    Form("embedding <-> {v}", "ASC NULLS LAST", "l2"),
    Form("embedding <-> '{v}'", "", "l2"),
    Form("cosine_distance(embedding, {v})", "", "cosine"),
    Form("docs.embedding <=> {v}", "", "cosine"),
    Form("inner_product(embedding, {v})", "DESC NULLS LAST", "inner product"),
    Form("embedding <#> {v}", "", "negative"),
    Form("-inner_product(embedding, {v})", "ASC", "negative"),
]
FILTERS = [
    ("", lambda _: True),
    ("WHERE tenant = 'a'", lambda row: row["tenant"] == "a"),
    ("WHERE tenant IS NULL OR price >= 5", lambda row: row["tenant"] is None or row["price"] >= 5),
    ("WHERE body LIKE '%lance%' AND price < 8", lambda row: "lance" in (row["body"] or "") and row["price"] < 8),
    ("WHERE price % 2 = 0 AND tenant IN ('b', 'c')", lambda row: row["price"] % 2 == 0 and row["tenant"] in ("b", "c")),
    ("WHERE id < 0", lambda _: False),
]


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(ROWS)


@pytest.fixture(scope="module", params=INDICES)
def docs(request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return _indexed(tmp_path_factory.mktemp("docs") / "root", documents, request.param)


@pytest.fixture(scope="module")
def indexed(documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return _indexed(tmp_path_factory.mktemp("docs") / "root", documents, "ivf_flat")


def _indexed(root: Path, documents: Documents, index: str) -> Engine:
    docs = made(root, documents)
    if INDICES[index] is not None:
        docs.update(f"CREATE INDEX v ON docs (embedding) USING {INDICES[index]}")
    return docs


def nearest(documents: Documents, form: Form, vector: list[float], holds: Any = None) -> list[float | None]:
    """The distances of all rows, nearest first, those without one last."""
    found = [form.value(row, vector) for row in documents.rows if holds is None or holds(row)]
    known = sorted((value for value in found if value is not None), reverse="DESC" in form.order)
    return [*known, *(value for value in found if value is None)]


def same(one: list[float | None], other: list[float | None]) -> bool:
    return np.array_equal([v is None for v in one], [v is None for v in other]) and bool(
        np.allclose([v for v in one if v is not None], [v for v in other if v is not None], atol=1e-5)
    )


@given(st.data())
@examples(10, full=400)
def test_a_search_answers_as_sorting_every_row(docs: Engine, documents: Documents, data: st.DataObject) -> None:
    form, (where, holds) = data.draw(st.sampled_from(FORMS)), data.draw(st.sampled_from(FILTERS))
    vector = data.draw(st.lists(st.integers(-20, 20).map(lambda n: n / 10), min_size=DIMENSIONS, max_size=DIMENSIONS))
    vector[0] = vector[0] or 0.5
    count, skipped = data.draw(st.sampled_from([0, 1, 7, 60, 1000])), data.draw(st.sampled_from([0, 3, 700]))
    call = form.sql.format(v=literal(vector))
    ordered, listed = data.draw(st.sampled_from([("d", f"id, {call} AS d"), (call, "id, embedding")]))
    sql = f"SELECT {listed} FROM docs {where} ORDER BY {ordered} {form.order} LIMIT {count} OFFSET {skipped}"
    rows = query(docs, sql)
    found = [row["d"] if ordered == "d" else form.value(row, vector) for row in rows]
    assert same(found, nearest(documents, form, vector, holds)[skipped : skipped + count]), sql
    assert len({row["id"] for row in rows}) == len(rows)
    if count and "id < 0" not in where:
        assert [each.split(" ")[:2] for each in searches(docs, sql)] == [["search:", str(count + skipped)]], sql


TOLD = {
    "by an index": ("SELECT id FROM docs ORDER BY embedding <-> {v} LIMIT 3", "by index v (ivf_flat), approximately"),
    "by another metric": ("SELECT id FROM docs ORDER BY embedding <=> {v} LIMIT 3", "no index of embedding is by cosine"),
    "TOP": ("SELECT TOP 3 id FROM docs ORDER BY embedding <-> {v}", "search: 3 nearest by l2 of embedding"),
    "FETCH": ("SELECT id FROM docs ORDER BY embedding <-> {v} FETCH FIRST 3 ROWS ONLY", "search: 3 nearest"),
    "rows found first": ("SELECT id FROM docs WHERE body LIKE '%a%' ORDER BY embedding <-> {v} LIMIT 3", "rows are found first"),
    "pruned": ("SELECT id FROM docs WHERE tenant = 'a' ORDER BY embedding <-> {v} LIMIT 3", "partitions: 1 / 5"),
    "a vector of a query": ("SELECT id FROM docs ORDER BY embedding <-> (SELECT embedding FROM docs WHERE id = 7) LIMIT 3", "read first"),
    "no limit": ("SELECT id FROM docs ORDER BY embedding <-> {v}", "no search: ORDER BY array_distance(…) has no LIMIT"),
    "the farthest": ("SELECT id FROM docs ORDER BY embedding <-> {v} DESC NULLS LAST LIMIT 3", "no search: ORDER BY array_distance(…) asks for the farthest rows; the nearest ones come first with ASC"),
    "the least product": ("SELECT id FROM docs ORDER BY inner_product(embedding, {v}) LIMIT 3", "come first with DESC"),
    "NULL first": ("SELECT id FROM docs ORDER BY inner_product(embedding, {v}) DESC LIMIT 3", "expected NULLS LAST"),
    "two keys": ("SELECT id FROM docs ORDER BY embedding <-> {v}, id LIMIT 3", "rows as near as the last of them, which further keys sort"),
    "a multiple": ("SELECT id FROM docs ORDER BY 1 - (embedding <=> {v}) DESC NULLS LAST LIMIT 3", "search: 3 nearest by cosine"),
    "the farthest multiple": ("SELECT id FROM docs ORDER BY 1 - (embedding <=> {v}) LIMIT 3", "come first with DESC"),
    "the negative of a multiple": ("SELECT id FROM docs ORDER BY -(1 - (embedding <=> {v})) LIMIT 3", "search: 3 nearest by cosine"),
    "a root": ("SELECT id FROM docs ORDER BY sqrt(embedding <-> {v}) LIMIT 3", "is not a distance itself, but sqrt(array_distance("),
    "a multiple and NULL first": ("SELECT id FROM docs ORDER BY 1 - (embedding <=> {v}) DESC LIMIT 3", "expected NULLS LAST"),
    "far from the distance": ("SELECT id FROM docs ORDER BY 1000000 - (embedding <=> {v}) DESC NULLS LAST LIMIT 3", "is not a distance itself"),
    "an expression": ("SELECT id FROM docs ORDER BY least(embedding <=> {v}, 9) LIMIT 3", "is not a distance itself"),
    "two columns": ("SELECT id FROM docs ORDER BY embedding <-> embedding LIMIT 3", "not one of a column from a value"),
    "a join below": ("SELECT a.id FROM docs a JOIN docs b ON a.id = b.id ORDER BY a.embedding <-> {v} LIMIT 3", "come from more than a table"),
    "a group below": ("SELECT embedding FROM docs GROUP BY embedding ORDER BY embedding <-> {v} LIMIT 3", "come from more than a table"),
    "a limit below": ("SELECT id FROM (SELECT * FROM docs LIMIT 20) ORDER BY embedding <-> {v} LIMIT 3", "limited before|more than a table"),
    "a query in WHERE": ("SELECT id FROM docs WHERE id IN (SELECT id FROM docs) ORDER BY embedding <-> {v} LIMIT 3", "come from more than a table"),
    "another distance in WHERE": ("SELECT id FROM docs WHERE embedding <=> {v} < 3 ORDER BY embedding <-> {v} LIMIT 3", "computes the distances"),
    "another vector in WHERE": ("SELECT id FROM docs WHERE embedding <-> [1, 1, 1, 1, 1, 1, 1, 1] < 3 ORDER BY embedding <-> {v} LIMIT 3", "computes the distances"),
    "a distance of some rows in WHERE": ("SELECT id FROM docs WHERE NOT (embedding <-> {v} < 3 AND id > 3) ORDER BY embedding <-> {v} LIMIT 3", "computes the distances|search: 3"),
    "chance": ("SELECT id FROM docs WHERE random() < 0.5 ORDER BY embedding <-> {v} LIMIT 3", "calls random"),
    "too many": ("SELECT id FROM docs ORDER BY embedding <-> {v} LIMIT 10001", "a search finds at most 10000"),
    "a NULL vector": ("SELECT id FROM docs ORDER BY array_distance(embedding, NULL) LIMIT 3", "the vector is NULL"),
    "NULL in a vector": ("SELECT id FROM docs ORDER BY embedding <-> [1, 2, 3, 4, 5, 6, 7, NULL] LIMIT 3", "None at place 8"),
    "zero": ("SELECT id FROM docs ORDER BY embedding <=> [0, 0, 0, 0, 0, 0, 0, 0] LIMIT 3", "the vector is zero"),
    "hidden columns": ("SELECT id, _partition FROM docs WHERE _rowid LIKE 'v%' ORDER BY embedding <-> {v} LIMIT 3", "search: 3 nearest"),
    "a value of a query in WHERE": ("SELECT id FROM docs WHERE tenant = (SELECT max(tenant) FROM docs) ORDER BY embedding <-> {v} LIMIT 3", "WHERE has a subquery"),
    "no stored table": ("SELECT id FROM vector_search('docs', 'embedding', {v}) ORDER BY embedding <-> {v} LIMIT 3", "not those of a stored table"),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "says"), TOLD.values(), ids=TOLD)
def test_explain_says_what_is_searched_and_why_not(indexed: Engine, sql: str, says: str) -> None:
    told = searches(indexed, sql.format(v=NEAR))
    assert any(each in text for text in told for each in says.split("|")), told
    assert query(indexed, sql.format(v=NEAR)) is not None


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("WHERE tenant = (SELECT max(tenant) FROM docs)", "partitions: 1 / 5"),
        ("WHERE _partition IS NOT NULL AND id > 20", "partitions: 5 / 5"),
        ("WHERE _partition LIKE 'v1%' AND _rowid LIKE 'v%'", "rows are found first"),
        ("", "by index v"),
    ],
)
@pytest.mark.parametrize("vector", [NEAR, "(SELECT embedding FROM docs WHERE id = 7)"], ids=["literal", "subquery"])
def test_values_of_subqueries_and_hidden_columns(indexed: Engine, where: str, says: str, vector: str) -> None:
    sql = f"SELECT id, _partition, _rowid, embedding <-> {vector} AS d FROM docs {where} ORDER BY d LIMIT 7"
    told = query(indexed, f"EXPLAIN ANALYZE {sql}")
    assert any(row["plan"].startswith("search: 7 nearest by l2") and says in row["plan"] for row in told), told
    assert query(indexed, sql) == query(indexed, sql.replace("ORDER BY d", "ORDER BY d, id"))


def test_a_plan_is_kept_and_searches_what_there_is_by_now(tmp_path: Path) -> None:
    docs = _indexed(tmp_path / "root", Documents.random(100), "ivf_flat")
    sql = f"SELECT id FROM docs WHERE price < 8 ORDER BY embedding <-> {NEAR} LIMIT 2"
    first = query(docs, sql)
    before = docs.plans.counts
    assert query(docs, sql) == first
    assert docs.plans.counts.hits == before.hits + 2
    docs.update(f"INSERT INTO docs (id, tenant, price, embedding) VALUES (1000, 'a', 1, {NEAR})")
    assert query(docs, sql) == [{"id": 1000}, first[0]]


def test_exact_search_compares_every_vector(tmp_path: Path) -> None:
    """An index of coarse codes, few of whose parts are looked into, misses some of the nearest rows."""
    documents = Documents.random(3000)
    docs = made(tmp_path / "root", documents, "bucket(1, id)")
    docs.update(
        "CREATE INDEX v ON docs (embedding) USING ivf_pq WITH (min_rows = 1, num_partitions = 64, num_sub_vectors = 2, num_bits = 4)"
    )
    sql = f"SELECT {FORMS[0].sql.format(v=NEAR)} AS d FROM docs ORDER BY d LIMIT 40"
    expected = nearest(documents, FORMS[0], VECTOR)[:40]
    assert not same([row["d"] for row in query(docs, sql)], expected)
    assert "approximately; SET exact_search = 'on' compares every vector" in searches(docs, sql)[0]
    (told,) = searches(docs, sql, EXACTLY)
    assert "every vector is compared (exact_search)" in told
    plan = docs.plan(sql, None, scope=Scope(Session(execution=EXACTLY)))
    assert plan is not None
    exact = docs.run(Task.from_bytes(plan.tasks[0].to_bytes())).read_all()
    assert same(exact["d"].to_pylist(), expected)


AROUND = {
    "a join": ("SELECT d.tenant, n.id FROM ({q}) n JOIN docs d ON d.id = n.id ORDER BY n.d", 1),
    "WITH, twice": ("WITH n AS ({q}) SELECT a.id FROM n a JOIN n b ON a.id = b.id ORDER BY a.d", 2),
    "a union": ("SELECT id FROM (({q}) UNION ALL ({q})) WHERE id >= 0", 2),
    "a count": ("SELECT count(*) AS n FROM ({q})", 1),
    "a filter above": ("SELECT id FROM ({q}) WHERE id % 2 = 0", 1),
    "a window above": ("SELECT id, row_number() OVER (ORDER BY d) AS place FROM ({q}) ORDER BY place", 1),
    "a set": ("SELECT id FROM docs WHERE id IN (SELECT id FROM ({q}))", 1),
}


@pytest.mark.parametrize(("around", "count"), AROUND.values(), ids=AROUND)
def test_a_search_stands_wherever_a_query_does(indexed: Engine, around: str, count: int) -> None:
    inner = f"SELECT id, embedding <-> {NEAR} AS d FROM docs WHERE tenant <> 'b' ORDER BY d LIMIT 9"
    written = f"SELECT id, embedding <-> {NEAR} AS d FROM docs WHERE tenant <> 'b' ORDER BY least(d, 1e300), id LIMIT 9"
    found = query(indexed, around.format(q=inner))
    assert len([each for each in searches(indexed, around.format(q=inner)) if each.startswith("search: 9")]) == count
    assert not [each for each in searches(indexed, around.format(q=written)) if each.startswith("search: ")]
    assert sorted(map(str, found)) == sorted(map(str, query(indexed, around.format(q=written))))


def test_views_and_their_readers_are_searched(tmp_path: Path, documents: Documents) -> None:
    docs = _indexed(tmp_path / "root", documents, "ivf_flat")
    docs.update(f"CREATE VIEW near AS SELECT id, price, embedding <-> {NEAR} AS d FROM docs")
    sql = "SELECT d FROM near WHERE price < 5 ORDER BY d LIMIT 6"
    assert searches(docs, sql)[0].startswith("search: 6 nearest by l2 of embedding, by index v")
    expected = nearest(documents, FORMS[0], VECTOR, lambda row: row["price"] < 5)[:6]
    assert same([row["d"] for row in query(docs, sql)], expected)


def test_what_is_stored_of_a_search_is_what_it_finds(tmp_path: Path, documents: Documents) -> None:
    docs = _indexed(tmp_path / "root", documents, "ivf_flat")
    sql = f"SELECT id, embedding <-> {NEAR} AS d FROM docs ORDER BY d LIMIT 6"
    docs.update(f"CREATE TABLE made AS {sql}")
    docs.update(f"INSERT INTO made {sql}")
    assert sorted(row["id"] for row in query(docs, "SELECT id FROM made")) == sorted(
        row["id"] for row in query(docs, sql) for _ in range(2)
    )


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), DIMENSIONS), pa.list_(pa.float64()), pa.utf8()], ids=str)
def test_vectors_and_counts_are_parameters_of_one_plan(docs: Engine, documents: Documents, kind: pa.DataType) -> None:
    sql = "SELECT embedding <-> $1 AS d FROM docs WHERE price < $2 ORDER BY d LIMIT $3"
    assert docs.describe(sql).parameters.types == [pa.list_(pa.float32(), DIMENSIONS), pa.int64(), pa.int64()]
    for scale, price, count in [(1, 5, 3), (-1, 9, 20), (2, 2, 600)]:
        vector = [scale * each for each in VECTOR]
        value = literal(vector) if kind == pa.utf8() else vector
        bound = pa.RecordBatch.from_arrays(
            [pa.array([value], kind), pa.array([price]), pa.array([count])], ["1", "2", "3"]
        )
        expected = nearest(documents, FORMS[0], vector, lambda row, most=price: row["price"] < most)[:count]
        assert same([row["d"] for row in query(docs, sql, bound)], expected)
    nothing = pa.RecordBatch.from_arrays([pa.nulls(1, kind), pa.array([9]), pa.array([2])], ["1", "2", "3"])
    assert query(docs, sql, nothing) == [{"d": None}, {"d": None}]


def test_a_tenant_finds_its_own_rows_alone(docs: Engine, documents: Documents) -> None:
    policies = Policies.parse('roles.r = { members = ["*"], grants = ["SELECT ON docs WHERE tenant = \'b\'"] }')
    access = policies.access("bob")
    sql = f"SELECT tenant, embedding <-> {NEAR} AS d FROM docs WHERE body IS NOT NULL ORDER BY d LIMIT 200"
    assert searches(docs, sql, access=access)[0].startswith("search: 200")
    rows = query(docs, sql, access=access)
    assert {row["tenant"] for row in rows} == {"b"}
    mine = nearest(documents, FORMS[0], VECTOR, lambda row: row["tenant"] == "b" and row["body"] is not None)
    assert same([row["d"] for row in rows], mine[:200])
    with pytest.raises(LanceFlightError, match="docs"):
        query(docs, sql, access=Policies.parse("").access("bob"))


CHANGES = [
    "DELETE FROM docs WHERE price = 4",
    "UPDATE docs SET embedding = NULL WHERE price = 2",
    "UPDATE docs SET embedding = [1, 1, 1, 1, 1, 1, 1, 1] WHERE price > 7",
    "UPDATE docs SET tenant = 'b' WHERE price > 6",
    "ALTER TABLE docs ADD COLUMN more BIGINT DEFAULT 3",
    "ALTER TABLE docs SET PARTITIONED BY (bucket(3, id))",
    "DELETE FROM docs",
]


@pytest.mark.parametrize("change", CHANGES)
def test_rows_are_found_after_changes_and_as_they_were(tmp_path: Path, change: str) -> None:
    documents = Documents.random(300)
    docs = _indexed(tmp_path / "root", documents, "ivf_flat")
    docs.update("ALTER TABLE docs CREATE TAG first")
    docs.update("ALTER TABLE docs CREATE BRANCH work")
    docs.update(change)
    now = Documents(query(docs, "SELECT id, embedding FROM docs"))
    for table, rows in (
        ("docs", now),
        ('"docs@first"', documents),
        ("docs FOR TAG first", documents),
        ('"docs@work"', documents),
    ):
        sql = f"SELECT {FORMS[0].sql.format(v=NEAR)} AS d FROM {table} ORDER BY d LIMIT 400"
        assert same([row["d"] for row in query(docs, sql)], nearest(rows, FORMS[0], VECTOR)), table
        if rows.rows:
            assert searches(docs, sql)[0].startswith("search: 400"), table


def test_a_transaction_finds_its_own_rows(tmp_path: Path) -> None:
    documents = Documents.random(100)
    docs = _indexed(tmp_path / "root", documents, "ivf_flat")
    sql = f"SELECT id FROM docs ORDER BY embedding <-> {NEAR} LIMIT 1"
    session = docs.clients.session("client", "alice")
    scope = Scope(session, docs.clients.begin(session))
    docs.update(f"INSERT INTO docs (id, tenant, embedding) VALUES (1000, 'a', {NEAR})", scope=scope)
    plan = docs.plan(sql, None, scope=scope)
    assert plan is not None
    assert plan.tasks[0].transaction == scope.transaction
    assert docs.run(plan.tasks[0], session=session).read_all().to_pylist() == [{"id": 1000}]
    assert query(docs, sql) != [{"id": 1000}]
    assert scope.transaction is not None
    docs.clients.end(scope.transaction, commit=True)
    assert query(docs, sql) == [{"id": 1000}]


@pytest.mark.parametrize("stored", ["FLOAT[2]", "DOUBLE[2]", "FLOAT[]"])
def test_zeros_and_gaps_come_behind_vectors(tmp_path: Path, stored: str) -> None:
    docs = open_engine(tmp_path / "root")
    docs.update(f"CREATE TABLE t (id BIGINT, e {stored}) PARTITIONED BY (bucket(2, id))")
    docs.update("INSERT INTO t VALUES (1, [0, 0]), (2, [1, 0]), (3, NULL), (4, [-1, 0.1]), (5, [0, 1])")
    rows = query(docs, "SELECT id, e <=> [1, 0] AS d FROM t ORDER BY e <=> [1, 0] LIMIT 9")
    assert [row["id"] for row in rows] == [2, 5, 4, 1, 3]
    assert np.isnan(rows[3]["d"])
    assert rows[4]["d"] is None
    told = searches(docs, "SELECT id FROM t ORDER BY e <=> [1, 0] LIMIT 9")
    assert told[0].startswith("no search: column 'e' is" if stored == "FLOAT[]" else "search: 9 nearest by cosine")


def test_a_plain_table_is_searched_as_well(tmp_path: Path) -> None:
    documents = Documents.random(200)
    docs = open_engine(tmp_path / "root")
    docs.update(
        f"CREATE TABLE docs (id BIGINT, tenant VARCHAR, price BIGINT, embedding FLOAT[{DIMENSIONS}], body VARCHAR)"
    )
    store(docs, documents)
    sql = f"SELECT embedding <-> {NEAR} AS d FROM docs WHERE price < 7 ORDER BY d LIMIT 12"
    expected = nearest(documents, FORMS[0], VECTOR, lambda row: row["price"] < 7)[:12]
    assert same([row["d"] for row in query(docs, sql)], expected)
    assert "table docs" in searches(docs, sql)[0]
