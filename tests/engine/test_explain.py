"""What is read: EXPLAIN and EXPLAIN ANALYZE report each scan of a partitioned table, SHOW PARTITIONS … READ BY lists what a query would read."""

from __future__ import annotations

import re

import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import Access, Condition, Grant, GrantedTables, Privilege
from lance_flight.engine.query.scan_planning import plan_scan
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.running_statement import Issuer

from tests.engine.database import Database, open_engine


@pytest.fixture(scope="module")
def sales(database: Database) -> str:
    """24 partitions: 12 months, two countries."""
    database.run(
        "CREATE TABLE sales (id INT, ts TIMESTAMP, country VARCHAR, amount INT) PARTITIONED BY (month(ts), country)"
    )
    months = ", ".join(
        f"({m}, '2024-{m:02d}-15T12:00:00', '{c}', {m * 10})" for m in range(1, 13) for c in ("US", "DE")
    )
    database.run(f"INSERT INTO sales VALUES {months}")
    database.run("CREATE TABLE rates (country VARCHAR, rate DOUBLE)")
    database.run("INSERT INTO rates VALUES ('US', 1.0), ('DE', 1.1)")
    return "sales"


def reports(database: Database, sql: str) -> list[list[str]]:
    """The lines of each report of a plan."""
    rows = database.rows(sql)
    assert [kind for kind, _ in rows[:2]] == ["logical_plan", "physical_plan"]
    return [text.splitlines() for kind, text in rows if kind == "partitions"]


SCANS = [
    pytest.param("SELECT * FROM sales", "partitions: 24 / 24", [], id="everything"),
    ("SELECT * FROM sales WHERE country = 'US'", "partitions: 12 / 24", ["used: country = 'US'"]),
    pytest.param(
        "SELECT * FROM sales WHERE date_part('month', ts) IN (1, 2) AND country = 'DE'",
        "partitions: 2 / 24",
        ["country = 'DE'", "month"],
        id="two fields",
    ),
    ("SELECT * FROM sales WHERE country LIKE 'U%'", "partitions: 12 / 24", ["used: country LIKE 'U%'"]),
    ("SELECT * FROM sales WHERE ts >= '2024-03-01' AND ts < '2024-05-01'", "partitions: 4 / 24", ["used:"]),
    pytest.param(
        "SELECT * FROM sales WHERE ts >= '2020-01-01' AND country = 'US'",
        "partitions: 12 / 24",
        ["used: country = 'US'", "not used: ts >= ", "(every partition may have such rows)"],
        id="a condition that excludes nothing",
    ),
    pytest.param(
        "SELECT * FROM sales WHERE date_part('month', ts) >= 3 AND date_part('month', ts) <= 12",
        "partitions: 20 / 24",
        ["used: ", ">= 3", "not used: ", "<= 12", "(every partition may have such rows)"],
        id="half of a range",
    ),
    pytest.param(
        "SELECT * FROM sales WHERE country IN ('US', 'DE')",
        "partitions: 24 / 24",
        ["not used: ", "(every partition may have such rows)"],
        id="a list of everything",
    ),
    pytest.param(
        "SELECT * FROM sales WHERE amount > 5",
        "partitions: 24 / 24",
        ["not used: amount > 5 (v1 has no partition field over amount)"],
        id="a column that partitions nothing",
    ),
    ("SELECT * FROM sales WHERE upper(country) = 'US'", "partitions: 12 / 24", ["used: upper(country) = 'US'"]),
    pytest.param(
        "SELECT * FROM sales WHERE repeat(country, 2) = 'USUS'",
        "partitions: 24 / 24",
        ["not used:", "repeat", "(it cannot be computed for the values of the partitions)"],
        id="a function that is not computed for partitions",
    ),
    pytest.param("SELECT * FROM sales WHERE country = 'FR'", "partitions: 0 / 24", ["v1: 0 / 24"], id="nothing"),
    pytest.param(
        "SELECT r.rate FROM sales s JOIN rates r ON s.country = r.country WHERE s.country = 'US'",
        "partitions: 12 / 24",
        [],
        id="a join with a plain table",
    ),
]


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize(("sql", "first", "says"), SCANS)
@pytest.mark.parametrize("explain", ["EXPLAIN", "EXPLAIN ANALYZE"])
def test_a_plan_says_how_many_partitions_are_read_and_why(
    database: Database, explain: str, sql: str, first: str, says: list[str]
) -> None:
    (report,) = reports(database, f"{explain} {sql}")
    assert report[0].startswith(f"{first}  table sales, snapshot ")
    assert report[1].startswith("  v1: " + first.removeprefix("partitions: "))
    assert [part for part in says if part not in "\n".join(report)] == []


@pytest.mark.usefixtures("sales")
def test_each_scan_of_a_plan_has_a_report(database: Database) -> None:
    union = "SELECT id FROM sales WHERE country = 'US' UNION ALL SELECT id FROM sales"
    found = [report[0].split("  ")[0] for report in reports(database, f"EXPLAIN {union}")]
    assert len(found) == 2
    assert set(found) <= {"partitions: 12 / 24", "partitions: 24 / 24"}


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize(
    ("sql", "produced", "opened"),
    [
        pytest.param("SELECT * FROM sales WHERE country = 'US'", 12, 12, id="half"),
        pytest.param("SELECT * FROM sales WHERE country = 'US' AND date_part('month', ts) = 3", 1, 1, id="one"),
        pytest.param("SELECT count(*) FROM sales WHERE country = 'FR'", 1, 0, id="none"),
    ],
)
def test_analyze_says_what_was_read(database: Database, sql: str, produced: int, opened: int) -> None:
    found = dict(database.rows(f"EXPLAIN ANALYZE {sql}"))
    rows, tables, *read, seconds = found["analyze"].splitlines()
    assert rows == f"rows: {produced}"
    assert tables == f"tables opened: {opened}"
    assert read == ([f"rows read: {opened} of sales"] if opened else [])
    scans = [line for line in found["operators"].splitlines() if "DatasetExec" in line]
    told = [re.search(r"\[rows: (\d+), seconds: \d+\.\d{6}, partitions: (\d+) / 24\]$", scan) for scan in scans]
    # A count of no partition scans nothing.
    assert [match and match.groups() for match in told] == [(str(opened), str(opened)) if opened else None]
    assert re.fullmatch(r"seconds: \d+\.\d{3}", seconds)


OPTIONS = {
    "(ANALYZE)": True,
    "(ANALYZE, VERBOSE)": True,
    "(analyze on, costs off, FORMAT TEXT)": True,
    "(ANALYZE false, VERBOSE)": False,
    "(COSTS)": False,
}
"""Options of PostgreSQL's EXPLAIN, and whether the query runs."""


def test_explain_takes_options_in_brackets(database: Database) -> None:
    for options, runs in OPTIONS.items():
        kinds = [kind for kind, _ in database.rows(f"EXPLAIN {options} SELECT 1")]
        assert (options, "analyze" in kinds) == (options, runs)
    for options, said in {
        "(FORMAT JSON)": "FORMAT TEXT",
        "(ANALYZE maybe)": "'maybe'",
        "(ANALYZE, NOPE)": "NOPE",
    }.items():
        assert said in database.refuses(f"EXPLAIN {options} SELECT 1")
    assert [kind for kind, _ in database.rows("EXPLAIN (SELECT 1)")] == ["logical_plan", "physical_plan"]


def test_explain_runs_nothing(database: Database, sales: str) -> None:
    found = database.rows(f"EXPLAIN SELECT 1 / (id - id) FROM {sales}")
    assert "analyze" not in [kind for kind, _ in found]
    assert "Divide by zero" in database.refuses(f"EXPLAIN ANALYZE SELECT 1 / (id - id) FROM {sales}")


def test_a_plan_without_partitioned_tables_has_no_report(database: Database, sales: str) -> None:
    assert reports(database, "EXPLAIN SELECT * FROM rates") == []
    assert reports(database, f"EXPLAIN SELECT * FROM {sales}$partitions") == []


CHANGES = [
    pytest.param("DELETE FROM sales WHERE country = 'US'", "partitions: 12 / 24", id="delete"),
    pytest.param("UPDATE sales SET country = 'FR' WHERE country LIKE 'U%'", "partitions: 12 / 24", id="update"),
    pytest.param("DELETE FROM sales", "partitions: 24 / 24", id="everything"),
    pytest.param(
        "MERGE INTO sales USING rates ON sales.country = rates.country AND sales.country = 'US' "
        "WHEN MATCHED THEN DELETE",
        "partitions: 12 / 24",
        id="merge",
    ),
    pytest.param(
        "MERGE INTO sales USING (VALUES ('DE', 1)) AS s (country, id) ON sales.country = s.country "
        "WHEN MATCHED THEN UPDATE SET id = s.id",
        "partitions: 12 / 24",
        id="merge by its keys",
    ),
]


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize(("sql", "first"), CHANGES)
def test_a_change_says_which_partitions_it_looks_through_and_changes_nothing(
    database: Database, sql: str, first: str
) -> None:
    before = database.value("SELECT count(*) FROM sales WHERE country <> 'FR'")
    found = [report[0].split("  ")[0] for report in reports(database, f"EXPLAIN {sql}")]
    assert found == [first]
    assert database.value("SELECT count(*) FROM sales WHERE country <> 'FR'") == before
    assert "EXPLAIN ANALYZE takes a query" in database.refuses(f"EXPLAIN ANALYZE {sql}")


def test_an_index_of_a_filter_is_named(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, part BIGINT) PARTITIONED BY (part)")
    database.run(f"INSERT INTO {table} SELECT value, value % 20 FROM generate_series(0, 999)")
    database.run(f"CREATE INDEX ids ON {table} (id) WITH (min_rows = 1)")
    (said,) = reports(database, f"EXPLAIN ANALYZE SELECT part FROM {table} WHERE id = 234")
    assert said[0].startswith("partitions: 20 / 20")
    assert said[-1] == "  index: ids (btree) of id"
    (said,) = reports(database, f"EXPLAIN SELECT part FROM {table} WHERE part = 7")
    assert not [line for line in said if "index" in line]
    assert database.rows(f"SELECT part FROM {table} WHERE id = 234") == [(14,)]


def test_partitions_are_pruned_below_an_unnested_list(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, list BIGINT[], p VARCHAR) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (1, [1, 2], 'x'), (2, NULL, 'y')")
    told = database.rows(f"EXPLAIN SELECT id, n FROM {table}, unnest({table}.list) AS x(n) WHERE p = 'x'")
    assert "partitions: 1 / 2" in str(told)


ROWS = "SELECT v AS x, 's' || CAST(v % 3 AS INT) AS s FROM (SELECT unnest(range(0, 50)) AS v) AS n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_engine(tmp_path_factory.mktemp("root"))
    engine.update("CREATE TABLE t (x BIGINT, s VARCHAR) PARTITIONED BY (bucket(4, x), s)")
    engine.update(f"INSERT INTO t {ROWS}")
    engine.update("ALTER TABLE t SET PARTITIONED BY (s)")
    engine.update(f"INSERT INTO t {ROWS} WHERE v < 10")
    engine.update("CREATE TABLE u (x BIGINT)")
    return engine


CONDITIONS = {
    "s = 's1'": 5,
    "x = 3": 6,
    "x = 3 AND s = 's0' -- a comment": 2,
    "s IN ('s0', 's2') OR x IS NULL": 15,
    "1 = 0": 0,
    "TRUE": 15,
    "s LIKE 's%' AND upper(s) = 'S1'": 5,
}


def read(engine: Engine, condition: str, table: str = "t") -> list[str]:
    found: list[str] = engine.query(f"SHOW PARTITIONS {table} READ BY {condition}")["object_id"].to_pylist()
    return found


@pytest.mark.parametrize("condition", CONDITIONS)
def test_they_are_those_that_a_scan_is_planned_over(engine: Engine, condition: str) -> None:
    planned = plan_scan(engine.root.table(TableName("public", "t")), condition)
    assert sorted(read(engine, condition)) == sorted(each.object_id for each in planned.tables)
    holding = engine.query(f"SELECT DISTINCT _partition FROM t WHERE {condition}").column(0).to_pylist()
    assert set(holding) <= set(read(engine, condition))


def test_an_older_snapshot_has_its_own(engine: Engine) -> None:
    first = engine.query("SELECT version AS v FROM t$snapshots ORDER BY version LIMIT 1 OFFSET 1")["v"][0].as_py()
    assert len(read(engine, "s = 's1'", f'"t@{first}"')) == 4


QUERIES = {
    "SELECT * FROM t WHERE s = 's1'": 5,
    "SELECT count(*) FROM t a JOIN t b ON a.x = b.x WHERE a.s = 's1' AND b.s = 's2'": 10,
    "WITH a AS (SELECT * FROM t WHERE x = 3) SELECT s FROM a UNION ALL SELECT s FROM t WHERE s = 's0' AND x = 4": 7,
    "SELECT * FROM u": 0,
    "SELECT * FROM t WHERE 1 = 0": 0,
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_whole_query_reads_what_its_scans_read(engine: Engine, query: str) -> None:
    found = read(engine, f"QUERY {query}")
    assert len(found) == len(set(found)) == QUERIES[query]


def test_a_column_may_be_called_query(engine: Engine) -> None:
    engine.update("CREATE TABLE q (query BIGINT) PARTITIONED BY (query)")
    engine.update("INSERT INTO q VALUES (1), (2)")
    assert len(read(engine, "query = 1", "q")) == 1


def test_a_policy_hides_partitions_here_too(engine: Engine) -> None:
    only = Grant(
        privileges=frozenset({Privilege.SELECT}),
        tables=GrantedTables("public", "t"),
        condition=Condition.parse("s = 's1'"),
    )
    scope = Scope(issuer=Issuer(principal="alice"), access=Access("alice", (only,)))
    plan = engine.plan("SHOW PARTITIONS t READ BY TRUE", scope=scope)
    assert plan is not None
    mine = engine.run(plan.tasks[0], scope.issuer, scope.access).read_all()["object_id"].to_pylist()
    assert sorted(mine) == sorted(read(engine, "s = 's1'"))
