"""Queries that are run by partitions, each for one thing that might go wrong there; and those that random ones found."""

from __future__ import annotations

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import QueryOptions, Session

from tests.engine.database import open_engine

PLAIN = Scope(session=Session(execution=QueryOptions(partition_wise_join=False, dynamic_pruning=False)))
BY_PARTITIONS = [
    Scope(session=Session(execution=execution)) for execution in (QueryOptions(group_rows=0), QueryOptions())
]


def values(first: int, count: int, different: int) -> str:
    """Rows whose keys are skewed and sometimes NULL."""
    rows = [(first + n, "NULL" if n % 11 == 0 else n % different, "abc"[n % 3], n % 5) for n in range(count)]
    return ", ".join(f"({number}, {k}, '{s}', {v})" for number, k, s, v in rows)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """`l` by 16 buckets, `r` by 8 in two ways and of another width, `e` without rows, `i` by the key itself, `z` of floats, `w` by two columns."""
    place = tmp_path_factory.mktemp("root")
    (place / "s").mkdir()
    engine = open_engine(place)
    columns = "(id BIGINT, k BIGINT, s VARCHAR, v BIGINT)"
    for statement in (
        f"CREATE TABLE l {columns} PARTITIONED BY (bucket(16, k))",
        f"INSERT INTO l VALUES {values(0, 40, 9)}",
        "ALTER TABLE l CREATE TAG early",
        f"INSERT INTO l VALUES {values(40, 20, 9)}",
        "CREATE TABLE r (id BIGINT, k INTEGER, s VARCHAR, v BIGINT) PARTITIONED BY (bucket(8, k), s)",
        f"INSERT INTO r VALUES {values(100, 25, 7)}",
        "ALTER TABLE r SET PARTITIONED BY (bucket(8, k))",
        f"INSERT INTO r VALUES {values(200, 5, 7)}",
        f"CREATE TABLE e {columns} PARTITIONED BY (bucket(4, k))",
        f"CREATE TABLE i {columns} PARTITIONED BY (k)",
        f"INSERT INTO i VALUES {values(300, 30, 6)}",
        "DELETE FROM i WHERE k IN (2, 3)",
        f'CREATE TABLE s."L" {columns} PARTITIONED BY (bucket(4, k))',
        f'INSERT INTO s."L" VALUES {values(400, 9, 9)}',
        "CREATE TABLE z (id BIGINT, f DOUBLE) PARTITIONED BY (bucket(4, f), f)",
        "INSERT INTO z VALUES (1, 0.0), (2, -0.0), (3, CAST('NaN' AS DOUBLE)), (4, -CAST('NaN' AS DOUBLE)), (5, NULL), (6, 1.5)",
        "CREATE TABLE w (id BIGINT, a BIGINT, b BIGINT) PARTITIONED BY (bucket(4, a), bucket(4, b))",
        f"INSERT INTO w VALUES {', '.join(f'({n}, {n % 7}, {n * n % 5})' for n in range(30))}",
        f"CREATE TABLE six {columns} PARTITIONED BY (bucket(6, k))",
        f"INSERT INTO six VALUES {values(500, 20, 11)}",
        "CREATE TABLE p (k BIGINT, name VARCHAR)",
        "INSERT INTO p VALUES (3, 'three'), (4, 'four'), (NULL, 'none')",
    ):
        engine.update(statement)
    return engine


def read(engine: Engine, sql: str, scope: Scope) -> list[tuple[str, ...]]:
    """The rows of a query, each value as Python shows it."""
    planned = engine.plan(sql, scope=scope)
    assert planned is not None
    table = engine.run(planned.tasks[0]).read_all()
    assert table.schema == planned.schema
    return list(zip(*([repr(value) for value in column.to_pylist()] for column in table.columns), strict=True))


GROUPS, METADATA, PRUNED = "groups", "metadata", "dynamic pruning"
GROUPED = [
    pytest.param(
        'WITH g AS (SELECT k, count(*) AS n FROM l GROUP BY k) SELECT g.k, sum(g.n), count(b.v) FROM g JOIN s."L" b ON g.k = b.k GROUP BY g.k',
        id="columns that depend on those in GROUP BY",
    ),
    pytest.param('SELECT k AS "K k", count(*) AS "c.d" FROM (SELECT l.k FROM l JOIN r ON l.k = r.k) AS "q.x" GROUP BY k', id="quoted names"),
    pytest.param('SELECT q."x.y", count(*) FROM (SELECT k AS "x.y" FROM l) AS q JOIN r ON q."x.y" = r.k GROUP BY q."x.y"', id="a dot in a name"),
    pytest.param("SELECT l.k AS r, r.k AS l FROM l JOIN r ON l.k = r.k", id="names of the other table"),
    pytest.param('SELECT * FROM l JOIN s."L" ON l.k = s."L".k', id="names twice, and a schema"),
    pytest.param("SELECT lance.public.l.k, public.r.v FROM lance.public.l JOIN public.r ON public.l.k = r.k", id="names in full"),
    pytest.param("SELECT * FROM l JOIN r USING (k, s)", id="USING"),
    pytest.param("SELECT coalesce(l.k, r.k) AS k, count(*) FROM l FULL JOIN r ON l.k = r.k GROUP BY 1", id="either side"),
    pytest.param("SELECT count(*) FROM l JOIN r ON l.k = r.k", id="no column"),
    pytest.param("SELECT 1 FROM l JOIN r ON l.k = r.k", id="a constant alone"),
    pytest.param("SELECT count(*) FROM (SELECT l.k FROM l JOIN r ON l.k = r.k LIMIT 5)", id="LIMIT below"),
    pytest.param("SELECT count(*) FROM l JOIN r ON l.k IS NOT DISTINCT FROM r.k", id="NULL is NULL"),
    pytest.param("SELECT count(*) FROM e FULL JOIN l ON e.k = l.k", id="a table without rows"),
    pytest.param("SELECT e.k, count(*) FROM e JOIN l ON e.k = l.k GROUP BY e.k", id="no rows"),
    pytest.param("SELECT a.id, b.id FROM l a LEFT JOIN l b ON a.k = b.k AND a.id <> b.id", id="with itself"),
    pytest.param("SELECT a.id, b.id FROM l a JOIN l@early b ON a.k = b.k", id="with itself as it was"),
    pytest.param("SELECT count(*) FROM l a JOIN l b ON a.k = b.k JOIN r ON b.k = r.k JOIN i ON i.k = r.k", id="many tables"),
    pytest.param("SELECT count(*) FROM l LEFT JOIN r ON l.k = r.k LEFT JOIN i ON r.k = i.k", id="a key that may be missing"),
    pytest.param("SELECT r.k, count(*) FROM l LEFT JOIN r ON l.k = r.k GROUP BY r.k", id="groups by a key that may be missing"),
    pytest.param("SELECT l.id, row_number() OVER (PARTITION BY r.k ORDER BY l.id, r.id) FROM l LEFT JOIN r ON l.k = r.k", id="windows by one"),
    pytest.param("SELECT l.k FROM l LEFT JOIN r ON l.k = r.k GROUP BY l.k HAVING count(r.id) = 0", id="HAVING"),
    pytest.param("SELECT l.k, count(DISTINCT r.v), sum(DISTINCT l.v) FROM l JOIN r ON l.k = r.k GROUP BY l.k", id="DISTINCT"),
    pytest.param("SELECT k, array_agg(id ORDER BY id DESC), first_value(id ORDER BY id) FROM l GROUP BY k", id="aggregates with an order"),
    pytest.param("SELECT k, sum(count(*)) OVER (PARTITION BY k) FROM l GROUP BY k, s", id="a window over groups"),
    pytest.param("SELECT id, sum(v) OVER (PARTITION BY k), count(*) OVER (PARTITION BY s) FROM l", id="two windows"),
    pytest.param("SELECT id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)", id="NOT EXISTS and more"),
    pytest.param("SELECT k, (SELECT count(*) FROM r WHERE r.k = l.k) FROM l GROUP BY k", id="a correlated query"),
    pytest.param("SELECT l.id, x.v FROM l, LATERAL (SELECT r.v FROM r WHERE r.k = l.k) AS x", id="LATERAL"),
    pytest.param("SELECT k, sum(n) FROM (SELECT k, count(*) AS n FROM l GROUP BY k UNION ALL SELECT k, count(*) FROM r GROUP BY k) GROUP BY k", id="groups of groups"),
    pytest.param("SELECT q.k, q.j, r.id FROM (SELECT k, k AS j FROM l) q JOIN r ON q.j = r.k", id="one column under two names"),
    pytest.param("SELECT q.k, count(*) FROM (SELECT v AS k, k AS v FROM l) q JOIN r ON q.v = r.k GROUP BY q.k", id="names exchanged"),
    pytest.param("SELECT count(*) FROM l JOIN r ON l.k = r.k JOIN p ON p.k = l.k WHERE p.name <> 'none'", id="a plain table beside"),
    pytest.param("SELECT a.id, b.id FROM z a JOIN z b ON a.f = b.f", id="two zeros and NaN"),
]  # fmt: skip
OTHERS = [
    pytest.param("SELECT count(*), min(k), max(k), count(DISTINCT k), count(k) FROM i", METADATA, id="counted from metadata"),
    pytest.param("SELECT count(*), min(k) FROM i WHERE k > 1", METADATA, id="filtered by partitions"),
    pytest.param('SELECT max(k) AS "count(Int64(1))", count(*) AS "max(k)" FROM i', METADATA, id="names of one another"),
    pytest.param("SELECT DISTINCT k FROM i", METADATA, id="different values"),
    pytest.param("SELECT count(*) * 2, max(k) + min(k) FROM i HAVING count(*) > 3", METADATA, id="above metadata"),
    pytest.param("SELECT count(*), max(k) FROM i WHERE k = 3", None, id="a partition that was emptied"),
    pytest.param("SELECT count(*), min(k), max(k) FROM e", None, id="no partition"),
    pytest.param("SELECT i.id FROM i JOIN p ON i.k = p.k WHERE p.name <> 'four'", PRUNED, id="pruned by keys"),
    pytest.param("SELECT i.id, p.name FROM p LEFT JOIN i ON i.k = p.k WHERE p.name LIKE 'f%'", PRUNED, id="pruned, and missing"),
    pytest.param("SELECT x.id, y.id FROM w x JOIN w y ON x.a = y.b", None, id="with itself by other columns"),
    pytest.param("SELECT u.a, count(*) FROM (SELECT a, b FROM w UNION ALL SELECT b, a FROM w) u GROUP BY u.a", None, id="columns exchanged"),
    pytest.param("SELECT u.k, count(*) FROM (SELECT k FROM l UNION ALL SELECT 1) u GROUP BY u.k", None, id="beside constants"),
    pytest.param('SELECT a.id, b.id FROM six a JOIN s."L" b ON a.k = b.k', None, id="neither count divides the other"),
    pytest.param("SELECT id FROM l WHERE k NOT IN (SELECT k FROM i)", None, id="NOT IN and NULL"),
    pytest.param("SELECT k, s, count(*) FROM l GROUP BY GROUPING SETS ((k), (s))", None, id="sets of columns"),
    pytest.param("SELECT l.id FROM l JOIN r ON l.k = r.k WHERE l.v > (SELECT avg(v) FROM i)", None, id="a scalar query"),
    pytest.param("SELECT l.id FROM l JOIN p ON CAST(l.k AS SMALLINT) = CAST(p.k AS SMALLINT)", None, id="a narrower type"),
]  # fmt: skip
ORDERED = [
    pytest.param("SELECT k, id FROM i ORDER BY k NULLS FIRST, id LIMIT 3 OFFSET 2", id="NULL first"),
    pytest.param("SELECT k, id FROM i ORDER BY k DESC NULLS LAST, id DESC LIMIT 9", id="falling"),
    pytest.param("SELECT id FROM i WHERE v > 0 ORDER BY k, v, id", id="several keys"),
    pytest.param('SELECT id AS k, k AS "Id" FROM i ORDER BY "Id", k LIMIT 4', id="names exchanged"),
    pytest.param("SELECT k, count(*) AS n FROM l GROUP BY k ORDER BY k DESC LIMIT 3", id="groups"),
    pytest.param("SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k ORDER BY l.k, l.id, r.id LIMIT 7", id="a join"),
]


def check(engine: Engine, sql: str, how: str | None, *, in_order: bool) -> None:
    """Both ways have the same answer, and the second is the one that is expected."""
    expected = read(engine, sql, PLAIN)
    for scope in BY_PARTITIONS:
        found = read(engine, sql, scope)
        assert (found if in_order else sorted(found)) == (expected if in_order else sorted(expected))
        explained = read(engine, f"EXPLAIN {sql}", scope)
        kinds = {kind.strip("'") for kind, text in explained if "groups: none" not in text}
        assert how is None or how in kinds, explained


@pytest.mark.sample(11)
@pytest.mark.parametrize("sql", GROUPED)
def test_what_is_run_in_groups_gives_what_the_plain_plan_gives(engine: Engine, sql: str) -> None:
    check(engine, sql, GROUPS, in_order=False)


@pytest.mark.parametrize(("sql", "how"), OTHERS)
def test_so_does_what_is_pruned_or_answered_otherwise(engine: Engine, sql: str, how: str | None) -> None:
    check(engine, sql, how, in_order=False)


@pytest.mark.parametrize("sql", ORDERED)
def test_an_order_is_kept(engine: Engine, sql: str) -> None:
    check(engine, sql, GROUPS, in_order=True)
