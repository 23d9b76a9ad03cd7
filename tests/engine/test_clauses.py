"""Clauses that DataFusion's parser reads and its planner drops: refused by name, or rewritten; all others are left alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.engine.translation.evaluation import QUERIES_ONLY, session_config
from lance_flight.engine.translation.rewriting import for_datafusion
from lance_flight.errors import Unsupported

from tests.engine.clause_corpus import NAMES, PLANNED, REFUSED, REWRITTEN, WORDS
from tests.engine.database import Database
from tests.service.server_process import files


@pytest.fixture(scope="module")
def context() -> SessionContext:
    context = SessionContext(session_config())
    tables = {
        "t": {"a": [1, 2], "b": ["x", "y"], "id": [1, 2]},
        "u": {"a": [1, 3], "c": [1, 3]},
        "w": {word: [1, 2] for word in WORDS},
    }
    for name, columns in tables.items():
        context.register_record_batches(name, [[pa.record_batch(columns)]])
    return context


def plan(context: SessionContext, text: str) -> str | None:
    """What DataFusion makes of a text by itself; None for one that it refuses."""
    try:
        frame = context.sql_with_options(text, QUERIES_ONLY)
        return f"{frame.logical_plan().display_indent()}\n{frame.execution_plan().display_indent()}"
    except Exception:  # noqa: BLE001 - DataFusion has no class of its own for what it refuses
        return None


@pytest.mark.parametrize(("text", "without", "name"), REFUSED)
def test_a_clause_that_would_be_dropped_is_refused_by_name(text: str, without: str, name: str) -> None:
    with pytest.raises(Unsupported) as raised:
        for_datafusion(text)
    assert name in str(raised.value)
    assert "is not offered: " in str(raised.value)
    for_datafusion(without)


@pytest.mark.parametrize(("text", "without", "name"), REFUSED)
def test_datafusion_drops_or_refuses_it(context: SessionContext, text: str, without: str, name: str) -> None:
    # What it begins to plan one day need not be refused any more.
    assert plan(context, text) in {None, plan(context, without)}


@pytest.mark.parametrize(("text", "rewritten"), REWRITTEN)
def test_a_clause_with_a_simple_rewrite_is_rewritten(text: str, rewritten: str) -> None:
    assert "".join(for_datafusion(text).split()) == "".join(rewritten.split())


@pytest.mark.parametrize(("text", "without"), PLANNED)
def test_a_clause_that_datafusion_plans_is_left_alone(context: SessionContext, text: str, without: str) -> None:
    assert for_datafusion(text) == text
    assert plan(context, text) not in {None, plan(context, without)}


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("word", WORDS)
def test_words_of_clauses_are_names_where_names_stand(context: SessionContext, text: str, word: str) -> None:
    query = text.format(word)
    assert for_datafusion(query) == query
    assert for_datafusion(query.upper()) == query.upper()
    assert plan(context, query) is not None


ROWS = [(1, "x", 1), (2, "y", 2), (2, "y", 3)]
MANY = 20_000


@pytest.fixture(scope="module")
def clauses(database: Database) -> Database:
    """The tables of the corpus."""
    for statement in (
        "CREATE TABLE t (a BIGINT, b VARCHAR, id BIGINT) PARTITIONED BY (b)",
        "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (2, 'y', 3)",
        "CREATE TABLE u (a BIGINT, c BIGINT)",
        "INSERT INTO u VALUES (1, 1), (3, 3)",
        f"CREATE TABLE many PARTITIONED BY (p) AS SELECT value AS id, value % 3 AS p FROM generate_series(1, {MANY})",
    ):
        database.run(statement)
    return database


CONTEXTS = [
    pytest.param("{}", id="a query"),
    pytest.param("EXPLAIN {}", id="EXPLAIN"),
    pytest.param("SELECT count(*) FROM ({}) AS q", id="a subquery of FROM"),
    pytest.param("SELECT (SELECT count(*) FROM ({}) AS q)", id="a scalar subquery"),
    pytest.param("WITH q AS ({}) SELECT count(*) FROM q", id="a CTE"),
    pytest.param("SELECT 1 UNION ALL SELECT count(*) FROM ({}) AS q", id="a set operation"),
    pytest.param("CREATE TABLE made AS SELECT count(*) AS n FROM ({}) AS q", id="CREATE TABLE AS"),
    pytest.param("INSERT INTO t SELECT * FROM t WHERE EXISTS ({})", id="INSERT"),
    pytest.param("UPDATE t SET a = 0 WHERE EXISTS ({})", id="UPDATE"),
    pytest.param("UPDATE t SET a = (SELECT count(*) FROM ({}) AS q)", id="a value of UPDATE"),
    pytest.param("DELETE FROM t WHERE id IN (SELECT 1 FROM ({}) AS q)", id="DELETE"),
    "MERGE INTO t USING (SELECT * FROM t WHERE EXISTS ({})) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    pytest.param("SHOW PARTITIONS t WHERE EXISTS ({})", id="SHOW PARTITIONS"),
    pytest.param("EXPLAIN DELETE FROM t WHERE EXISTS ({})", id="EXPLAIN DELETE"),
]


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_clause_that_would_be_dropped_is_refused_wherever_a_query_is(clauses: Database, context: str) -> None:
    before = files(clauses.root)
    for text, _, name in REFUSED:
        if name == "INTO" and context in {"{}", "EXPLAIN {}"}:
            continue  # there it is a statement of its own
        said = clauses.refuses(context.format(text))
        assert "[unsupported]" in said, text
        assert name in said, text
    assert sorted(clauses.rows("SELECT a, b, id FROM t")) == ROWS
    assert files(clauses.root) == before


@pytest.mark.parametrize("context", [CONTEXTS[0], CONTEXTS[2], CONTEXTS[4]])
def test_a_clause_that_is_planned_works_wherever_a_query_is(clauses: Database, context: str) -> None:
    for text, *_ in PLANNED:
        clauses.rows(context.format(text))


GROUPED = [
    pytest.param("WITH ROLLUP", "ROLLUP (b, a)", id="ROLLUP"),
    pytest.param("with cube", "CUBE (b, a)", id="CUBE"),
]


@pytest.mark.parametrize(("suffix", "function"), GROUPED)
def test_with_rollup_and_cube_add_the_totals(clauses: Database, suffix: str, function: str) -> None:
    query = "SELECT b, a, count(*) AS n, grouping(b) AS g FROM t GROUP BY {} ORDER BY b, a, n, g"
    with_suffix = clauses.rows(query.format(f"b, a {suffix}"))
    assert with_suffix == clauses.rows(query.format(function))
    assert (None, None, 3, 1) in with_suffix


SAMPLES = [
    pytest.param("many TABLESAMPLE BERNOULLI (10)", 0.1, id="BERNOULLI"),
    pytest.param("many AS x TABLESAMPLE SYSTEM (50)", 0.5, id="SYSTEM"),
    pytest.param("public.many x TABLESAMPLE (25 PERCENT)", 0.25, id="PERCENT"),
    pytest.param("many TABLESAMPLE BERNOULLI (0)", 0, id="nothing"),
    pytest.param("many TABLESAMPLE BERNOULLI (100)", 1, id="everything"),
]


@pytest.mark.parametrize(("table", "share"), SAMPLES)
def test_a_sample_has_about_as_many_rows_as_it_says(clauses: Database, table: str, share: float) -> None:
    count = clauses.value(f"SELECT count(*) FROM {table}")
    spread = 8 * (MANY * share * (1 - share)) ** 0.5
    assert abs(count - MANY * share) <= spread
    assert clauses.value(f"SELECT count(*) FROM {table} WHERE p = 1") < count or share == 0
