"""Bounds of plans, and what DataFusion refuses only when it optimises one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext
from datafusion.substrait import Consumer, Serde
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.plans.bounds import JOINING_RULES, OTHER_RULES, check_plan
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import PLAIN, TableProperties
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

from tests.engine.database import open_engine


@pytest.fixture(scope="module")
def context() -> SessionContext:
    context = SessionContext(SessionConfig({"datafusion.sql_parser.recursion_limit": "500"}))
    context.from_pydict({"x": [1], "y": [2]}, "t")
    context.register_view("doubled", context.sql("SELECT x + x AS x, y FROM t"))
    return context


def levels(n: int, select: str, inside: str = "t") -> str:
    text = inside
    for i in range(n):
        text = f"({select.replace('FROM _', f'FROM {text}')}) AS l{i}"
    return text


DOUBLED = levels(20, "SELECT x + x AS x, y FROM _")

GROWING = {
    "a condition": f"SELECT y FROM {DOUBLED} WHERE x <> 5",
    "HAVING": f"SELECT x FROM {DOUBLED} GROUP BY x HAVING x <> 5",
    "ORDER BY": f"SELECT y FROM {DOUBLED} ORDER BY x LIMIT 3",
    "ON": f"SELECT t.y FROM {DOUBLED} JOIN t ON l19.x = t.x",
    "USING": f"SELECT x FROM {DOUBLED} JOIN t USING (x)",
    "IN": f"SELECT y FROM t WHERE x IN (SELECT x FROM {DOUBLED})",
    "a scalar subquery": f"SELECT y FROM t WHERE x = (SELECT max(x) FROM {DOUBLED} WHERE x > 2)",
    "a correlated subquery": f"SELECT y FROM {DOUBLED} WHERE EXISTS (SELECT 1 FROM t WHERE t.x > l19.x)",
    "an alias list": "SELECT a FROM "
    + levels(20, "SELECT a + a FROM _", "(SELECT x FROM t) AS t(a)").replace(") AS l", ") AS m(a), (SELECT 1) AS l")
    + " WHERE a > 2",
    "a name that is generated": 'SELECT x FROM (SELECT "t.x + t.x"'
    + ' * "t.x + t.x"' * 99
    + " AS x FROM (SELECT x + x FROM (SELECT x"
    + " + x" * 99
    + " AS x FROM t) AS t)) WHERE x > 1",
    "UNION ALL": "SELECT x FROM "
    + levels(20, "SELECT y + x AS x, x + x AS y FROM _ UNION ALL SELECT x, y FROM t")
    + " WHERE x > 1",
    "INTERSECT": f"SELECT x FROM t INTERSECT SELECT x FROM {DOUBLED}",
    "|>": "SELECT x, y FROM t " + "|> SELECT x + x AS x, y " * 20 + "|> WHERE x <> 5",
    "grouped": "SELECT x FROM " + levels(20, "SELECT x + x AS x FROM _ GROUP BY x") + " WHERE x > 1",
    "a view": "SELECT x FROM " + levels(20, "SELECT x * x + x AS x, y FROM _", "doubled") + " WHERE x > 1",
}


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_is_refused(context: SessionContext, name: str) -> None:
    with pytest.raises(LimitExceeded, match="once the columns of its subqueries and views stand where they are named"):
        check_plan(context.sql(GROWING[name]).logical_plan())


LEFT = {
    "ON": f"SELECT 1 FROM t a LEFT JOIN t b ON a.x = (SELECT max(x) FROM {DOUBLED} WHERE x > 1)",
    "ORDER BY": f"SELECT y FROM t ORDER BY (SELECT max(x) FROM {DOUBLED} WHERE x > 1), '<subquery> Projection:'",
    "an aggregate": f"SELECT sum(x) FILTER (WHERE x > (SELECT max(x) FROM {DOUBLED} WHERE x > 1)) FROM t",
    "a window": f"SELECT sum(x) OVER (PARTITION BY (SELECT max(x) FROM {DOUBLED} WHERE x > 1)) FROM t",
}


@pytest.mark.parametrize("name", LEFT)
def test_subqueries_that_are_no_joins_read_no_others(context: SessionContext, name: str) -> None:
    with pytest.raises(Unsupported, match="write them in FROM or WITH, and join them"):
        check_plan(context.sql(LEFT[name]).logical_plan())


def test_all_rules_of_the_optimiser_are_known(context: SessionContext) -> None:
    rows = context.sql("EXPLAIN VERBOSE SELECT x FROM t").to_pylist()
    stages = [row["plan_type"] for row in rows]
    first, last = stages.index("analyzed_logical_plan"), stages.index("initial_physical_plan")
    rules = {stage.removeprefix("logical_plan after ") for stage in stages[first + 1 : last]} - {"logical_plan"}
    assert rules == OTHER_RULES | JOINING_RULES


def test_a_plan_of_substrait_is_read_as_well(context: SessionContext) -> None:
    sent = Serde.serialize_bytes(
        GROWING["a condition"].replace(DOUBLED, levels(14, "SELECT x + x AS x, y FROM _")), context
    )
    with pytest.raises(LimitExceeded):
        check_plan(Consumer.from_substrait_plan(context, Serde.deserialize_bytes(sent)))


HONEST = {
    "a subquery of ON": "SELECT 1 FROM t a JOIN t b ON a.x = (SELECT max(x) FROM t WHERE y > 1)",
    "a subquery of an aggregate": "SELECT sum(x) FILTER (WHERE x > (SELECT min(x) FROM t)) FROM t",
    "a subquery of ORDER BY": "SELECT x FROM t ORDER BY (SELECT max(x) FROM t)",
    "subqueries in subqueries": "SELECT x FROM t WHERE x IN (SELECT x FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.x = t.x"
    " AND u.y > (SELECT min(y) FROM (SELECT y FROM t WHERE x > 1) AS s)))",
    "a table": "SELECT x FROM t WHERE x > 1 AND y < 3",
    "levels that pass columns on": f"SELECT x FROM {levels(50, 'SELECT x, y FROM _ WHERE x > 1')}",
    "levels that compute a column each": "SELECT * FROM "
    + "".join(f"(SELECT *, x + y AS c{i} FROM " for i in reversed(range(50)))
    + "t"
    + "".join(f") AS l{i} WHERE c{i} > 1" for i in range(50)),
    "a long expression": f"SELECT x FROM (SELECT x{' + 1' * 450} AS x FROM t) WHERE x > 5",
    "many conditions": "SELECT x FROM (SELECT x + y AS x FROM t) WHERE " + " OR ".join(f"x = {i}" for i in range(400)),
    "many branches": " UNION ALL ".join(f"SELECT x FROM (SELECT x + {i} AS x FROM t) WHERE x > 1" for i in range(300)),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_does_not_grow_is_planned(context: SessionContext, name: str) -> None:
    frame = context.sql(HONEST[name])
    check_plan(frame.logical_plan())
    assert frame.collect() is not None


ROWS = pa.table({"id": [1, 2], "at": pa.array([1, 2], pa.time64("us"))})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A partitioned table `t` and a plain one `p` of the same rows."""
    engine = open_engine(tmp_path_factory.mktemp("root"))
    ingest.create(engine.root, TableName("public", "t"), ROWS.schema, TableProperties.by("id"), [ROWS])
    ingest.create(engine.root, TableName("public", "p"), ROWS.schema, PLAIN, [ROWS])
    return engine


REFUSED = [
    pytest.param("SELECT id FROM {t} WHERE at < true", id="in the filter"),
    pytest.param("SELECT id FROM {t} WHERE id = (SELECT max(id) FROM {t} WHERE at < true)", id="below it"),
    pytest.param("EXPLAIN SELECT id FROM {t} WHERE at < true", id="explained"),
]


@pytest.mark.parametrize("table", ["t", "p"])
@pytest.mark.parametrize("sql", REFUSED)
def test_types_that_do_not_compare_are_an_error_of_the_statement(engine: Engine, sql: str, table: str) -> None:
    with pytest.raises(SqlError, match=r"the two sides of TIME\(6\) < BOOLEAN"):
        engine.query(sql.format(t=table))


@pytest.mark.parametrize("sql", REFUSED)
def test_they_are_before_the_statement_is_split(engine: Engine, sql: str) -> None:
    with pytest.raises(SqlError, match=r"the two sides of TIME\(6\) < BOOLEAN"):
        engine.plan(sql.format(t="t"), endpoints=4)
