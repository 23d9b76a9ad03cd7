"""Views: what they read, who may read them, how they are listed, replaced and dropped, and writers of them beside readers."""

from __future__ import annotations

import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.plans import bounds
from lance_flight.errors import Conflict, LimitExceeded, OutsideRoot, SqlError

from tests.engine.database import Database, open_engine, refusal
from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # every query over every view


@pytest.fixture(scope="module")
def views(database: Database) -> Database:
    """Two partitioned tables, one of them in another schema, and views over them."""
    (database.root / "west").mkdir()
    database.run("CREATE TABLE readings (site VARCHAR, day INT, celsius DOUBLE) PARTITIONED BY (site)")
    database.run("INSERT INTO readings VALUES ('Oslo', 1, -3.5), ('Oslo', 2, -1), ('Lima', 1, 22)")
    database.run("CREATE TABLE west.readings (site VARCHAR, day INT) PARTITIONED BY (site)")
    database.run("INSERT INTO west.readings VALUES ('Reno', 7)")
    database.run("CREATE VIEW warm AS SELECT * FROM readings WHERE celsius > 0")
    database.run("CREATE VIEW days (place, days) AS SELECT site, count(*) FROM readings GROUP BY site")
    database.run("CREATE VIEW west.days AS WITH r AS (SELECT * FROM west.readings) SELECT site, day FROM r")
    database.run("CREATE VIEW all_days AS SELECT place FROM days UNION ALL SELECT site FROM west.days")
    database.run("CREATE VIEW moment AS SELECT now() AS at")
    return database


READ = [
    pytest.param("SELECT * FROM warm", [("Lima", 1, 22.0)], id="columns of the table"),
    pytest.param("SELECT place, days FROM days ORDER BY place", [("Lima", 1), ("Oslo", 2)], id="listed columns"),
    pytest.param("SELECT d.place FROM days AS d JOIN warm w ON d.place = w.site", [("Lima",)], id="joined"),
    pytest.param("SELECT * FROM west.days", [("Reno", 7)], id="in another schema"),
    pytest.param("SELECT place FROM all_days ORDER BY 1", [("Lima",), ("Oslo",), ("Reno",)], id="over views"),
    pytest.param("WITH warm AS (SELECT 1 AS one) SELECT * FROM warm", [(1,)], id="hidden by WITH"),
    pytest.param("SELECT count(*) FROM moment WHERE at > '2020-01-01'", [(1,)], id="without a table"),
]


@pytest.mark.parametrize(("sql", "expected"), READ)
def test_views_are_read_like_tables(views: Database, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert views.rows(sql) == expected
    assert views.rows(sql) == expected, "by the plan that is kept"


def test_partitions_are_pruned_through_a_view(views: Database) -> None:
    plan = views.rows("EXPLAIN SELECT * FROM warm WHERE site = 'Oslo'")
    assert [text.splitlines()[0][:17] for kind, text in plan if kind == "partitions"] == ["partitions: 1 / 2"]


def test_parameters_are_typed_by_the_columns_of_a_view(views: Database) -> None:
    assert views.engine.describe("SELECT * FROM warm WHERE day = ?").parameters.types == [pa.int32()]
    assert views.rows("SELECT site FROM warm WHERE day = ?", (1,)) == [("Lima",)]


def test_the_default_schema_of_a_reader_changes_nothing(views: Database) -> None:
    with views.client() as other:
        other.run("SET schema = 'west'")
        assert other.value("SELECT count(*) FROM public.warm") == 1
        assert other.value("SELECT count(*) FROM days") == 1


def test_a_view_reads_what_the_session_reads(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, p VARCHAR) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    database.run(f"CREATE VIEW v_{table} AS SELECT {table}.* FROM {table}")
    database.run(f"ALTER TABLE {table} CREATE BRANCH dev")
    database.run(f"ALTER TABLE {table} CREATE TAG two")
    database.run(f"INSERT INTO {table} VALUES (3, 'a')")
    count = f"SELECT count(*) AS n FROM v_{table}"
    with database.client() as other:
        for option, value, expected in [("branch", "dev", 2), ("branch", "main", 3), ("snapshot", "two", 2)]:
            other.run(f"SET {option} = '{value}'")
            assert other.value(count) == expected, option
    with database.client(autocommit=False) as other:
        other.run(f"DELETE FROM {table} WHERE p = 'a'")
        assert other.value(count) == 1
    assert database.value(count) == 3


def test_rows_and_columns_that_come_later(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, c VARCHAR) PARTITIONED BY (c)")
    database.run(f"CREATE VIEW v_{table} AS SELECT * FROM {table}")
    assert database.rows(f"SELECT * FROM v_{table}") == []
    database.run(f"INSERT INTO {table} VALUES (1, 'a')")
    database.run(f"ALTER TABLE {table} ADD COLUMN d INT DEFAULT 7")
    assert database.rows(f"SELECT * FROM v_{table}") == [(1, "a")]
    database.run(f"ALTER TABLE {table} DROP COLUMN id")
    assert re.search(f"view 'v_{table}'.*id", database.refuses(f"SELECT * FROM v_{table}"))
    database.run(f"DROP TABLE {table}")
    assert re.search(f"not_found.*view 'v_{table}'.*{table}", database.refuses(f"SELECT * FROM v_{table}"))


def test_a_view_is_replaced_for_statements_that_are_planned_by_then(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT)")
    database.run(f"INSERT INTO {table} VALUES (1), (2)")
    view = f"v_{table}"
    database.run(f"CREATE VIEW {view} AS SELECT id FROM {table}")
    assert len(database.rows(f"SELECT * FROM {view}")) == 2
    database.run(f"CREATE OR REPLACE VIEW {view} AS SELECT id AS other FROM {table} WHERE id = 2")
    assert database.rows(f"SELECT other FROM {view}") == [(2,)]
    assert "already_exists" in database.refuses(f"CREATE VIEW {view} AS SELECT 1 AS x")
    assert database.run(f"CREATE VIEW IF NOT EXISTS {view} AS SELECT 1 AS x") == 0
    assert database.rows(f"SELECT other FROM {view}") == [(2,)]
    database.run(f"DROP VIEW {view}")
    assert "not_found" in database.refuses(f"SELECT * FROM {view}")
    database.run(f"DROP VIEW IF EXISTS {view}")


def test_a_ticket_does_not_read_another_view_than_it_was_planned_with(database: Database, table: str) -> None:
    view = f"v_{table}"
    database.run(f"CREATE VIEW {view} AS SELECT 1 AS x")
    planned = database.plan(f"SELECT x FROM {view}")
    database.run(f"CREATE OR REPLACE VIEW {view} AS SELECT 'other' AS x")
    assert re.search(r"conflict.*was replaced", refusal(lambda: database.read(planned)))
    assert planned.schema.names == ["x"]


def test_views_are_listed(views: Database) -> None:
    assert ("public", "warm") in views.rows("SHOW VIEWS")
    assert views.rows("SELECT table_type FROM information_schema.tables WHERE table_name = 'warm'") == [("VIEW",)]
    listed = views.rows("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'warm'")
    assert [name for name, _ in listed] == ["site", "day", "celsius"]
    assert [row[0] for row in views.rows("DESCRIBE days")] == ["place", "days"]
    found = {str(view): views.engine.columns_of_view(view).names for view in views.engine.views()}
    assert found["public.warm"] == ["site", "day", "celsius"]
    assert found["west.days"] == ["site", "day"]


def test_a_view_is_made_again_by_what_show_create_view_says(views: Database) -> None:
    ((statement,),) = [row[-1:] for row in views.rows("SHOW CREATE VIEW days")]
    before = views.rows("SELECT * FROM days ORDER BY place")
    views.run("DROP VIEW days")
    views.run(statement)
    assert views.rows("SELECT * FROM days ORDER BY place") == before


GROWING = {
    "joins": "SELECT a.x FROM {below} a JOIN {below} b ON a.x = b.x",
    "subqueries": "SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM {below}) AND 1 IN (SELECT x FROM {below})",
    "WITH": "WITH q AS (SELECT x FROM {below}) SELECT a.x FROM q AS a, q AS b",
    "a sum that doubles": "SELECT x + x AS x FROM {below} WHERE x <> 5",
    "operators that add up": f"SELECT x{' | 1' * 400} AS x FROM {{below}}",
    "levels": f"SELECT x FROM {'(SELECT x FROM ' * 50}{{below}}{')' * 50}",
}


@pytest.mark.parametrize(("name", "query"), GROWING.items(), ids=GROWING.keys())
def test_the_growth_of_views_within_views_is_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch, name: str, query: str
) -> None:
    if not IS_FULL:  # planning what just fits takes seconds
        monkeypatch.setattr(bounds, "MOST_EXPANDED", 20)
    below = f"{name}_0"
    database.run(f'CREATE VIEW "{below}" AS SELECT 1 AS x')
    made = 0
    with pytest.raises(LimitExceeded, match=r" once |within each other"):  # noqa: PT012 - at which view is no matter
        for n in range(1, 16):
            database.run(f'CREATE VIEW "{name}_{n}" AS {query.format(below=chr(34) + below + chr(34))}')
            below, made = f"{name}_{n}", n
    assert 1 <= made < 16
    assert database.value(f'SELECT count(*) FROM "{name}_{made - 1}"') <= 1


NO_VIEWS = {
    "another document": "{}",
    "deep": "[" * 100_000,
    "cut short": lambda text: text[:40],
    "the name of another": lambda text: text.replace("v_", "w_"),
    "a query that is no text": lambda text: re.sub('"sql": "[^"]*"', '"sql": 1', text),
    "no name": lambda text: re.sub('"name": "[^"]*"', '"name": null', text),
    "columns that are none": lambda text: re.sub('"columns": "[^"]*"', '"columns": "AAAA"', text),
}


@pytest.mark.parametrize("content", NO_VIEWS.values(), ids=NO_VIEWS)
def test_a_view_that_is_no_view_is_reported_and_the_others_go_on(database: Database, table: str, content: Any) -> None:
    view = f"v_{table}"
    database.run(f"CREATE TABLE {table} (x INT)")
    database.run(f"CREATE VIEW {view} AS SELECT 1 AS x")
    (file,) = (path for path in Path(database.root, ".lance-flight").glob("view-*.json") if view in path.read_text())
    text = file.read_text()
    file.unlink()
    file.write_text(content if isinstance(content, str) else content(text))
    began = time.monotonic()
    for sql in (f"SELECT * FROM {view}", f"DESCRIBE {view}", f"CREATE TABLE {view} (x INT)"):
        assert re.search(r"corrupt\].*view", database.refuses(sql)), sql
    assert time.monotonic() - began < 5
    listed = [name for (name,) in database.rows("SELECT table_name FROM information_schema.tables")]
    assert (table in listed, view in listed) == (True, False)
    database.run(f"CREATE OR REPLACE VIEW {view} AS SELECT 3 AS x")
    assert database.value(f"SELECT x FROM {view}") == 3
    file.write_text("{}")
    database.run(f"DROP VIEW IF EXISTS {view}")
    assert not file.exists()
    database.run(f"CREATE VIEW {view} AS SELECT 2 AS x")
    assert database.value(f"SELECT x FROM {view}") == 2


VIEWS = {
    "v_all": "SELECT * FROM a",
    "v_some": "SELECT k, p, v * 2 AS v FROM a WHERE v > 3",
    "v_keys": "SELECT p, count(*) AS n, max(v) AS most FROM a GROUP BY p",
    "v_joined": "SELECT a.k, a.p, b.w FROM a JOIN b ON a.p = b.p AND a.k = b.k",
    "v_with": "WITH q AS (SELECT k FROM b WHERE w IS NOT NULL) SELECT a.* FROM a WHERE k IN (SELECT k FROM q)",
    "v_counted": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    "v_lateral": "SELECT a.k, l.w FROM a, LATERAL (SELECT w FROM b WHERE b.k = a.k) AS l",
    "v_changes": "SELECT _change, k FROM table_changes('public.a', {first}, {last})",
    "v_old": "SELECT k FROM a FOR VERSION AS OF {first}",
    "v_partitions": "SELECT p, rows FROM a$partitions",
    "v_function": "SELECT value FROM generate_series(1, 4) AS t (value)",
    'v "quoted" ü': 'SELECT k AS "a b" FROM a',
}
QUERIES = [
    "SELECT * FROM {v} ORDER BY ALL",
    "SELECT count(*) AS n FROM {v}",
    "SELECT x.* FROM {v} AS x WHERE EXISTS (SELECT 1 FROM {v} AS y) ORDER BY ALL",
    "SELECT count(*) AS n FROM (SELECT * FROM {v} LIMIT 3)",
    "SELECT count(*) AS n FROM {v} AS x, {v} AS y",
    "SELECT max(number) AS n FROM (SELECT row_number() OVER () AS number FROM {v})",
    "WITH q AS (SELECT * FROM {v}) SELECT count(*) AS n FROM q",
    "SELECT * FROM {v} UNION SELECT * FROM {v} ORDER BY ALL",
]
OF_COLUMNS = [
    "SELECT * FROM {v} WHERE p = 'x' ORDER BY ALL",
    "SELECT p, count(*) AS n FROM {v} GROUP BY p ORDER BY p",
    "SELECT min(p) AS least, max(p) AS most FROM {v}",
    "SELECT x.p, count(*) AS n FROM {v} AS x JOIN a ON x.p = a.p GROUP BY x.p ORDER BY x.p",
    "SELECT p FROM {v} WHERE p LIKE 'x%' OR p IS NULL ORDER BY p",
    "SELECT count(*) AS n FROM {v} WHERE p = (SELECT max(p) FROM {v})",
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Two tables with the same partition field, several versions of one, and the views, which nobody changes."""
    engine = Database(tmp_path_factory.mktemp("views")).engine
    engine.update("CREATE TABLE a (k BIGINT, p VARCHAR, v BIGINT) PARTITIONED BY (p)")
    engine.update("CREATE TABLE b (k BIGINT, p VARCHAR, w VARCHAR) PARTITIONED BY (p)")
    rows = [(n, ("x", "y", "xz", None)[n % 4], n) for n in range(12)]
    for part in (rows[:5], rows[5:]):
        listed = ", ".join(f"({k}, {'NULL' if p is None else repr(p)}, {v})" for k, p, v in part)
        engine.update(f"INSERT INTO a VALUES {listed}")
    engine.update("INSERT INTO b SELECT k, p, CASE WHEN k % 3 = 0 THEN NULL ELSE p || k END FROM a")
    for name in VIEWS:
        engine.update(f'CREATE VIEW "{name.replace(chr(34), chr(34) * 2)}" AS {text(engine, name)}')
    return engine


@pytest.fixture
def tables(shared: Engine, tmp_path: Path) -> Engine:
    """A copy of them."""
    return Database(Path(shutil.copytree(shared.root.store.uri, tmp_path / "root"))).engine


def text(engine: Engine, view: str) -> str:
    """The query of a view, with the versions of `a` in it that are behind its first and its last rows."""
    *_, first, last = sorted(engine.query("SELECT version FROM a$snapshots")["version"].to_pylist())
    return VIEWS[view].format(first=first, last=last)


def answer(engine: Engine, query: str) -> list[object]:
    """The rows of a query, in an order of their own where it has none."""
    sql, _, order = query.partition(" ORDER BY ALL")
    found = [tuple(row.values()) for row in engine.query(sql).to_pylist()]
    return sorted(found, key=repr) if order == "" and "ORDER BY ALL" in query else found


def check(engine: Engine, view: str, query: str) -> None:
    """A query gives over a view what it gives over the view's text."""
    expected = answer(engine, query.format(v=f"({text(engine, view)})").replace(") WHERE", ") AS z WHERE"))
    named = '"' + view.replace('"', '""') + '"'
    for _ in range(2):  # by the plan that is kept, too
        assert answer(engine, query.format(v=named)) == expected


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_view_is_its_text(shared: Engine, view: str, query: str) -> None:
    check(shared, view, query)


@pytest.mark.parametrize("view", ["v_all", "v_some", "v_keys", "v_joined", "v_with", "v_partitions"])
@pytest.mark.parametrize("query", OF_COLUMNS)
def test_the_columns_of_a_view_are_those_of_its_text(shared: Engine, view: str, query: str) -> None:
    check(shared, view, query)


def test_readers_beside_one_that_replaces(tables: Engine) -> None:
    stop = threading.Event()

    def read() -> int:
        count = 0
        while not stop.is_set():
            try:
                found = tables.query("SELECT x FROM v_moving").to_pylist()
            except Conflict:
                continue
            assert found in ([{"x": 1}], [{"x": "two"}], [{"x": 3}])
            count += 1
        return count

    tables.update("CREATE VIEW v_moving AS SELECT 1 AS x")
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for n in range(60):
                value = ("1", "'two'", "3")[n % 3]
                tables.update(f"CREATE OR REPLACE VIEW v_moving AS SELECT {value} AS x")
        finally:
            stop.set()
        assert all(reader.result() for reader in readers)
    assert tables.query("SELECT x FROM v_moving").to_pylist() == [{"x": 3}]
    assert [name for name in files(tables) if "v_moving" in name or name.startswith(".view")] == []


def test_a_cycle_that_two_servers_make_is_refused_when_it_is_read(tables: Engine) -> None:
    other = open_engine(tables.root.store.uri, target_partitions=1)
    tables.update("CREATE VIEW one AS SELECT 1 AS x")
    tables.update("CREATE VIEW two AS SELECT x FROM one")
    one = next(view for view in other.root.views() if view.name.name == "one")
    content = Path(tables.root.store.uri, ".lance-flight")
    (file,) = (path for path in content.glob("view-*.json") if '"name": "one"' in path.read_text())
    file.write_text(file.read_text().replace("SELECT 1 AS x", 'SELECT x FROM \\"public\\".two'))
    assert one.sql != next(view for view in other.root.views() if view.name.name == "one").sql
    with pytest.raises(SqlError, match=r"view '(one|two)' reads itself"):
        tables.query("SELECT * FROM two")
    assert tables.query("SELECT count(*) AS n FROM v_all").to_pylist() == [{"n": 12}]


def test_a_link_in_place_of_a_view_is_not_followed(tables: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    private = Path(tables.root.store.uri, ".lance-flight")
    (file,) = (path for path in private.glob("view-*.json") if '"name": "v_all"' in path.read_text())
    (elsewhere / "stolen.json").write_text(file.read_text())
    file.unlink()
    file.symlink_to(elsewhere / "stolen.json")
    with pytest.raises(OutsideRoot):
        tables.query("SELECT * FROM v_all")


def files(engine: Engine) -> list[str]:
    """The names of the files in the private directory."""
    return [path.name for path in Path(engine.root.store.uri, ".lance-flight").iterdir()]
