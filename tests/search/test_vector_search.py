"""vector_search: what it finds is what comparing every row finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.sql.references import text_literal
from lance_flight.errors import InvalidInput, NotFound, SqlError

from tests.engine.database import open_engine
from tests.examples import examples
from tests.search.collection import DIMENSIONS, VECTOR, Documents, literal, made, query, store, told

pytestmark = pytest.mark.slow  # every metric over every layout

ROWS = 900
INDICES = [
    None,
    "ivf_flat WITH (min_rows = 1, num_partitions = 3)",
    "ivf_flat WITH (min_rows = 200, num_partitions = 3)",
    "ivf_pq WITH (min_rows = 1, num_partitions = 2, num_sub_vectors = 4, num_bits = 4)",
    "hnsw WITH (min_rows = 1, num_partitions = 2)",
]
EXACTLY = "nprobes => 100, refine => 50"


def found(of: Engine, arguments: str, columns: str = "id, _distance", more: str = "") -> list[dict[str, Any]]:
    return query(of, f"SELECT {columns} FROM vector_search('docs', 'embedding', {arguments}) {more}")


def same(rows: list[dict[str, Any]], expected: list[tuple[float, int]]) -> bool:
    """Whether rows are what was expected, in this order, but for rows as near as each other."""
    distances = [row["_distance"] for row in rows]
    return (
        len(rows) == len(expected)
        and bool(np.allclose(distances, [distance for distance, _ in expected], atol=1e-4))
        and distances == sorted(distances)
        and {row["id"] for row in rows[:-1]} <= {number for _, number in expected}
    )


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(ROWS)


@pytest.fixture(scope="module", params=INDICES, ids=lambda index: str(index).split(" ", 1)[0])
def docs(request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return made(tmp_path_factory.mktemp("docs") / "root", documents, vector_index=request.param)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("count", [1, 10, 2000])
def test_the_nearest_of_all_partitions_are_found_in_order(
    docs: Engine, documents: Documents, metric: str, count: int
) -> None:
    rows = found(docs, f"{literal(VECTOR)}, k => {count}, metric => '{metric}', {EXACTLY}")
    assert same(rows, documents.nearest(VECTOR, metric)[:count])


FILTERS = [
    ("tenant = 'a'", lambda row: row["tenant"] == "a"),
    ("tenant IN ('a', 'c') AND price < 3", lambda row: row["tenant"] in ("a", "c") and row["price"] < 3),
    ("price >= 5 OR tenant IS NULL", lambda row: row["price"] >= 5 or row["tenant"] is None),
    ("price = 3", lambda row: row["price"] == 3),
    ("id BETWEEN 100 AND 120", lambda row: 100 <= row["id"] <= 120),
    ("tenant = 'nobody'", lambda _: False),
    ("FALSE", lambda _: False),
    ("TRUE", lambda _: True),
]


@pytest.mark.parametrize(("condition", "holds"), FILTERS)
def test_a_filter_counts_before_the_search(docs: Engine, documents: Documents, condition: str, holds: Any) -> None:
    quoted = condition.replace("'", "''")
    rows = found(docs, f"{literal(VECTOR)}, k => 12, filter => '{quoted}', {EXACTLY}")
    assert same(rows, Documents([row for row in documents.rows if holds(row)]).nearest(VECTOR)[:12])


def test_a_where_counts_after_the_search(docs: Engine, documents: Documents) -> None:
    rows = found(docs, f"{literal(VECTOR)}, k => 30, {EXACTLY}", more="WHERE price < 5 ORDER BY _distance")
    prices = {row["id"]: row["price"] for row in documents.rows}
    assert same(rows, [each for each in documents.nearest(VECTOR)[:30] if prices[each[1]] < 5])


@given(st.data())
@examples(6, full=400)
def test_any_vector_filter_and_count(docs: Engine, documents: Documents, data: st.DataObject) -> None:
    vector = data.draw(st.lists(st.integers(-20, 20).map(lambda n: n / 10), min_size=DIMENSIONS, max_size=DIMENSIONS))
    count, price = data.draw(st.integers(1, 40)), data.draw(st.integers(0, 9))
    rows = found(docs, f"{literal(vector)}, k => {count}, filter => 'price <= {price}', {EXACTLY}")
    assert same(rows, Documents([row for row in documents.rows if row["price"] <= price]).nearest(vector)[:count])


def test_it_joins_groups_and_limits(docs: Engine, documents: Documents) -> None:
    nearest = [number for _, number in documents.nearest(VECTOR)[:20]]
    tenants = {row["id"]: row["tenant"] for row in documents.rows}
    call = f"vector_search('docs', 'embedding', {literal(VECTOR)}, k => 20, {EXACTLY})"
    joined = query(docs, f"SELECT d.id FROM {call} s JOIN docs d ON d.id = s.id ORDER BY s._distance LIMIT 5")
    assert [row["id"] for row in joined] == nearest[:5]
    counted = query(docs, f"SELECT tenant, count(*) AS n FROM {call} GROUP BY tenant")
    assert {row["tenant"]: row["n"] for row in counted} == {
        tenant: sum(tenants[number] == tenant for number in nearest) for tenant in {tenants[n] for n in nearest}
    }
    assert query(docs, f"SELECT count(*) AS n FROM {call}") == [{"n": 20}]
    assert query(docs, f"SELECT count(*) AS n FROM (SELECT * FROM {call} UNION ALL SELECT * FROM {call})") == [
        {"n": 40}
    ]


def test_the_vector_may_come_from_a_query(docs: Engine, documents: Documents) -> None:
    known = next(row for row in documents.rows if row["embedding"] is not None)
    vector = f"(SELECT embedding FROM docs WHERE id = {known['id']})"
    assert same(found(docs, f"{vector}, k => 7, {EXACTLY}"), documents.nearest(known["embedding"])[:7])


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), DIMENSIONS), pa.list_(pa.float64()), pa.large_list(pa.float32())]
)
def test_the_vector_and_the_count_may_be_parameters(docs: Engine, documents: Documents, kind: pa.DataType) -> None:
    sql = f"SELECT id, _distance FROM vector_search('docs', 'embedding', $1, k => $2, {EXACTLY})"
    parameters = pa.RecordBatch.from_arrays([pa.array([VECTOR], kind), pa.array([6])], ["1", "2"])
    assert same(query(docs, sql, parameters), documents.nearest(VECTOR)[:6])
    assert docs.describe(sql).parameters.types == [pa.list_(pa.float32(), DIMENSIONS), pa.int64()]


@pytest.mark.parametrize(
    ("condition", "written"),
    [
        ("tenant = ? AND price < ?", "tenant = 'b' AND price < 3"),
        ("concat(tenant, '') = $2 AND price < $3", "concat(tenant, '') = 'b' AND price < 3"),
    ],
    ids=["of Lance", "of DataFusion"],
)
def test_a_filter_has_parameters_of_the_statement(docs: Engine, condition: str, written: str) -> None:
    count = "?" if "?" in condition else "$1"
    sql = f"SELECT id, _distance FROM vector_search('docs', 'embedding', {literal(VECTOR)}, {EXACTLY}, k => {count}, filter => "
    price = docs.query("SELECT price FROM docs LIMIT 0").schema.field("price").type
    assert docs.describe(f"{sql}{text_literal(condition)})").parameters.types == [pa.int64(), pa.utf8(), price]
    bound = query(docs, f"{sql}{text_literal(condition)})", pa.record_batch({"1": [5], "2": ["b"], "3": [3]}))
    assert bound == query(docs, f"{sql.replace(f'k => {count}', 'k => 5')}{text_literal(written)})")
    assert len(bound) == 5
    assert (
        query(docs, f"{sql}{text_literal(condition)})", pa.record_batch({"1": [5], "2": ["' OR true --"], "3": [3]}))
        == []
    )


@pytest.mark.parametrize("column", ["embedding", "nearby"])
def test_a_parameter_has_the_type_of_the_column_however_it_is_named(docs: Engine, column: str) -> None:
    sql = f"SELECT id FROM vector_search('docs', lower('{column.upper()}'), $1)"
    if column == "embedding":
        assert docs.describe(sql).parameters.types == [pa.list_(pa.float32(), DIMENSIONS)]
    else:
        with pytest.raises(NotFound, match="no column 'nearby'"):
            docs.describe(sql)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), DIMENSIONS), pa.list_(pa.float64()), pa.large_list(pa.float32())]
)
def test_a_vector_that_is_null_is_stored_and_not_searched_for(tmp_path: Path, kind: pa.DataType) -> None:
    docs = made(tmp_path / "root", Documents([]))
    vectors = pa.array([VECTOR, None], kind)
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), vectors], ["1", "2"])
    assert docs.update("INSERT INTO docs (id, embedding) VALUES ($1, $2)", rows) == 2
    assert query(docs, "SELECT id FROM docs WHERE embedding IS NULL") == [{"id": 2}]
    sql = "SELECT id FROM vector_search('docs', 'embedding', $1)"
    assert query(docs, sql, pa.RecordBatch.from_arrays([vectors[:1]], ["1"])) == [{"id": 1}]
    with pytest.raises(SqlError, match="vector of vector_search is NULL; expected 8 numbers"):
        query(docs, sql, pa.RecordBatch.from_arrays([vectors[1:]], ["1"]))


def test_numbers_that_are_written_become_the_nearest_floats(tmp_path: Path) -> None:
    docs = made(tmp_path / "root", Documents([]))
    docs.update(f"INSERT INTO docs (id, embedding) VALUES (1, {literal(VECTOR)}), (2, NULL)")
    docs.update(f"UPDATE docs SET embedding = {literal([2 * each for each in VECTOR])} WHERE id = 2")
    expected = [{"id": 1, "_distance": 0.0}, {"id": 2, "_distance": pytest.approx(sum(each**2 for each in VECTOR))}]
    assert found(docs, literal(VECTOR)) == expected
    with pytest.raises(InvalidInput, match="column 'embedding' holds"):
        docs.update(f"INSERT INTO docs (id, embedding) VALUES (3, {literal([1e300] * DIMENSIONS)})")


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 3), pa.list_(pa.float32())])
def test_vectors_of_another_size_are_not_stored(docs: Engine, kind: pa.DataType) -> None:
    rows = pa.table({"id": [1], "embedding": pa.array([[1, 2, 3]], kind)}).to_reader()
    with pytest.raises(InvalidInput, match=r"column 'embedding' .*REAL\[8\]"):
        docs.ingest(TableName(PUBLIC, "docs"), rows, create_missing=False, existing=IfExists.APPEND)


def test_explain_says_which_partitions_are_searched(docs: Engine) -> None:
    sql = f"EXPLAIN SELECT id FROM vector_search('docs', 'embedding', {literal(VECTOR)}, filter => 'tenant = ''a''')"
    said = told(docs, sql)
    assert "10 nearest by" in said
    assert "partitions: 1 / 5" in said


CHANGES = [
    "DELETE FROM docs WHERE price = 4",
    "UPDATE docs SET embedding = NULL WHERE price = 2",
    "UPDATE docs SET tenant = 'b' WHERE price > 6",
    "ALTER TABLE docs RENAME COLUMN price TO cost",
    "ALTER TABLE docs ADD COLUMN more BIGINT DEFAULT 3",
    "ALTER TABLE docs SET PARTITIONED BY (bucket(3, id))",
    "ALTER TABLE docs DROP COLUMN body",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("index", "stable_row_ids"),
    [(INDICES[0], False), (INDICES[1], False), (INDICES[1], True)],
    ids=["exact", "ivf", "ivf_stable_row_ids"],
)
def test_rows_are_found_after_changes(tmp_path: Path, change: str, index: str | None, *, stable_row_ids: bool) -> None:
    documents, later = Documents.random(300), Documents.random(60, seed=5, start=1000)
    docs = made(tmp_path / "root", documents, stable_row_ids=stable_row_ids)
    if index is not None:
        docs.update(f"CREATE INDEX v ON docs (embedding) USING {index}")
    docs.update(change)
    if "DROP COLUMN" not in change:
        columns = "id, tenant, price AS cost, embedding, body" if "RENAME" in change else "*"
        newer = made(tmp_path / "newer", later)
        for row in query(newer, f"SELECT {columns} FROM docs LIMIT 3"):
            assert row
        store(docs, later) if "RENAME" not in change else None
    rows = query(docs, "SELECT id, embedding FROM docs")
    expected = Documents([{**row, "tenant": None, "price": 0, "body": None} for row in rows]).nearest(VECTOR)
    assert same(found(docs, f"{literal(VECTOR)}, k => 50, {EXACTLY}"), expected[:50])
    if "RENAME" in change:
        few = found(docs, f"{literal(VECTOR)}, k => 5, filter => 'cost < 3', {EXACTLY}", "id, cost, _distance")
        assert len(few) == 5
        assert all(row["cost"] < 3 for row in few)


def test_a_vector_column_that_was_renamed_is_searched_under_its_new_name(tmp_path: Path) -> None:
    documents = Documents.random(200)
    docs = made(tmp_path / "root", documents)
    docs.update("CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 1)")
    docs.update("ALTER TABLE docs RENAME COLUMN embedding TO meaning")
    docs.update("INSERT INTO docs SELECT id + 1000, tenant, price, meaning, body FROM docs WHERE id = 0")
    rows = query(
        docs, f"SELECT id, _distance FROM vector_search('docs', 'meaning', {literal(VECTOR)}, k => 9, {EXACTLY})"
    )
    twice = [*documents.rows, {**documents.rows[0], "id": 1000}]
    assert same(rows, Documents(twice).nearest(VECTOR)[:9])
    assert [row["column_name"] for row in query(docs, "SHOW INDEXES FROM docs")] == ["meaning"]


def test_an_old_snapshot_is_searched_as_it_was(tmp_path: Path) -> None:
    documents = Documents.random(200)
    docs = made(tmp_path / "root", documents)
    docs.update("ALTER TABLE docs CREATE TAG first")
    docs.update("CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 1)")
    docs.update("DELETE FROM docs WHERE price < 5")
    (version,) = (row["version"] for row in query(docs, "SELECT version FROM docs$tags"))
    for name in ("docs@first", f"docs@{version}"):
        rows = query(docs, f"SELECT id, _distance FROM vector_search('{name}', 'embedding', {literal(VECTOR)}, k => 9)")
        assert same(rows, documents.nearest(VECTOR)[:9])
    kept = Documents([row for row in documents.rows if row["price"] >= 5])
    assert same(found(docs, f"{literal(VECTOR)}, k => 9, {EXACTLY}"), kept.nearest(VECTOR)[:9])


def test_a_tenant_finds_its_own_rows_alone(docs: Engine, documents: Documents) -> None:
    policies = Policies.parse('roles.r = { members = ["*"], grants = ["SELECT ON docs WHERE tenant = \'b\'"] }')
    access = policies.access("bob")
    mine = Documents([row for row in documents.rows if row["tenant"] == "b"])
    call = f"vector_search('docs', 'embedding', {literal(VECTOR)}, k => 1000, {EXACTLY})"
    assert same(query(docs, f"SELECT id, _distance FROM {call}", access=access), mine.nearest(VECTOR))
    assert "Refused" in told(docs, f"SELECT * FROM {call}", Policies.parse("").access("bob")) or "NotFound" in told(
        docs, f"SELECT * FROM {call}", Policies.parse("").access("bob")
    )


def test_no_rows_at_all(tmp_path: Path) -> None:
    docs = made(tmp_path / "root", Documents([]))
    assert found(docs, literal(VECTOR)) == []
    docs.update("CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 1)")
    assert found(docs, literal(VECTOR)) == []
    assert query(docs, f"SELECT count(*) AS n FROM vector_search('docs', 'embedding', {literal(VECTOR)})") == [{"n": 0}]


def test_the_metric_of_the_index_counts_for_tables_without_one_too(tmp_path: Path) -> None:
    documents = Documents.random(300)
    docs = made(tmp_path / "root", documents)
    docs.update("CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (min_rows = 55, metric = 'cosine')")
    (listed,) = query(docs, "SELECT tables, indexed_tables FROM docs$indexes")
    assert 0 < listed["indexed_tables"] < listed["tables"]
    assert same(found(docs, f"{literal(VECTOR)}, k => 20, {EXACTLY}"), documents.nearest(VECTOR, "cosine")[:20])


def test_the_metric_is_that_of_the_call_or_of_the_one_that_all_indices_have(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update("CREATE TABLE docs (id INT, v FLOAT[2])")
    of.update("INSERT INTO docs VALUES (1, [1, 0]), (2, [100, 1]), (3, [0, 1])")
    call = "vector_search('docs', 'v', [1.0, 0.0], k => 2{})"

    def ids(argument: str = "") -> list[int]:
        return [row["id"] for row in query(of, f"SELECT id FROM {call.format(argument)}")]

    def create(name: str, kind: str, metric: str) -> None:
        of.update(f"CREATE INDEX {name} ON docs (v) USING {kind} WITH (metric = '{metric}', min_rows = 1)")

    assert ids() == [1, 3]
    assert "2 nearest by l2 of v" in told(of, f"EXPLAIN SELECT id FROM {call.format('')}")
    create("a", "ivf_flat", "cosine")
    assert ids() == [1, 2]
    assert "2 nearest by cosine of v" in told(of, f"EXPLAIN SELECT id FROM {call.format('')}")
    create("b", "ivf_sq", "cosine")
    assert ids() == [1, 2]
    create("c", "ivf_flat", "l2")
    says = "column 'v' has indices by cosine and l2; write metric => 'cosine' or metric => 'l2'"
    for name in (call.format(""), "hybrid_search('docs', 'v', [1.0, 0.0], 'v', 'x')"):
        assert says in told(of, f"SELECT * FROM {name}")
    assert (ids(", metric => 'l2'"), ids(", metric => 'cosine'")) == ([1, 3], [1, 2])
    only = call.format(", metric => 'l2', fast_search => true")
    assert "it has indices by cosine and l2" in told(of, f"SELECT id FROM {only}")
    of.update("DROP INDEX c ON docs")
    assert ids() == [1, 2]
