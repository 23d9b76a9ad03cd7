"""Views in one process: every query over a view gives what it gives over the view's text, and writers of views beside readers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.errors import Conflict, OutsideRoot, SqlError

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


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """Two tables with the same partition field, several versions of one, and the views."""
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


def text(engine: Engine, view: str) -> str:
    """The query of a view, with the versions of `a` in it that are behind its first and its last rows."""
    *_, first, last = sorted(engine.query("SELECT version FROM a$snapshots")["version"].to_pylist())
    return VIEWS[view].format(first=first, last=last)


def answer(engine: Engine, query: str) -> list[object]:
    """The rows of a query, in an order of their own where it has none."""
    sql, _, order = query.partition(" ORDER BY ALL")
    found = [tuple(row.values()) for row in engine.query(sql).to_pylist()]
    return sorted(found, key=repr) if order == "" and "ORDER BY ALL" in query else found


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_its_text(tables: Engine, view: str) -> None:
    named = '"' + view.replace('"', '""') + '"'
    has_partitions = view in {"v_all", "v_some", "v_keys", "v_joined", "v_with", "v_partitions"}
    for query in QUERIES + OF_COLUMNS * has_partitions:
        expected = answer(tables, query.format(v=f"({text(tables, view)})").replace(") WHERE", ") AS z WHERE"))
        for _ in range(2):  # by the plan that is kept, too
            assert answer(tables, query.format(v=named)) == expected, query


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
    other = Engine(Root(Store(tables.root.store.uri)), target_partitions=1)
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
