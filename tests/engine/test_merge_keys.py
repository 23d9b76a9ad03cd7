"""How much of a table its changes read: partitions that can hold rows that change, in a MERGE by the keys of its source."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables import table_view
from lance_flight.engine.statements.answering import Sessions

from tests.engine.database import open_engine
from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # many merges

UPDATE = "WHEN MATCHED THEN UPDATE SET v = s.v"
INSERT = "WHEN NOT MATCHED AND s.id IS NOT NULL THEN INSERT (id, p, v) VALUES (s.id, s.p, s.v)"

# source and condition, clauses, partition tables that are read, rows affected
CASES = {
    "a table": ("s ON t.id = s.id AND t.p = s.p", UPDATE, 3, 2),
    "rows that are new": ("s ON t.id = s.id AND t.p = s.p", f"{UPDATE} {INSERT}", 3, 4),
    "keys of another type": ("s ON t.id = s.id AND t.p = CAST(s.p AS SMALLINT)", UPDATE, 3, 2),
    "computed keys": ("s ON t.id = s.id AND t.p = s.p * 1", UPDATE, 3, 2),
    "values": ("(VALUES (1, 1, 5.0)) AS s (id, p, v) ON s.p = t.p AND s.id = t.id", UPDATE, 1, 1),
    "a literal": ("s ON t.id = s.id AND t.p = 2", UPDATE, 1, 1),
    "a query might say something else each time": (
        "(SELECT * FROM s) AS s ON t.id = s.id AND t.p = s.p",
        UPDATE,
        10,
        2,
    ),
    "no key of a partition": ("s ON t.id = s.id", UPDATE, 10, 2),
    "NULL keys that match": ("s ON t.id = s.id AND t.p IS NOT DISTINCT FROM s.p", UPDATE, 10, 2),
    "only keys that match as NULL": ("s ON (t.p IS NOT DISTINCT FROM s.p) AND t.id < 3", UPDATE, 10, 2),
    "no equality": ("s ON t.id = s.id AND t.p <= s.p", UPDATE, 10, 2),
    "one key or another": ("s ON t.id = s.id AND (t.p = s.p OR t.p = 9)", UPDATE, 10, 2),
    "rows that the source lacks": (
        "s ON t.id = s.id AND t.p = s.p",
        f"{UPDATE} WHEN NOT MATCHED BY SOURCE AND t.id > 95 THEN DELETE",
        10,
        7,
    ),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target `t` of ten partitions and a source `s`."""
    root = tmp_path_factory.mktemp("template")
    engine = open_engine(root)
    engine.update("CREATE TABLE t (id BIGINT NOT NULL, p BIGINT, v DOUBLE) PARTITIONED BY (p)")
    engine.update("INSERT INTO t SELECT value, value % 10, 1.0 FROM generate_series(1, 100)")
    engine.update("CREATE TABLE s (id INT, p INT, v DOUBLE)")
    engine.update("INSERT INTO s VALUES (1, 1, 5), (2, 2, 6), (NULL, NULL, 7), (1000, 3, 8), (2000, NULL, 9)")
    return root


@pytest.fixture
def engine(template: Path, tmp_path: Path) -> Engine:
    return open_engine(shutil.copytree(template, tmp_path / "root"))


def merged(engine: Engine, source: str, clauses: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many partition tables a MERGE plans to read, and how many rows it affects."""
    scanned = []
    deal = table_view.deal

    def counted(kept: list[tuple[object, list[object]]], *args: object, merging: bool = True) -> object:
        if not merging:
            scanned.append(sum(len(mine) for _, mine in kept))
        return deal(kept, *args, merging=merging)  # type: ignore[arg-type]

    monkeypatch.setattr(table_view, "deal", counted)
    affected = engine.update(f"MERGE INTO t USING {source} {clauses}")
    return scanned[-1], affected


@pytest.mark.sample(5)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_partitions_concerned_are_read_and_give_the_answer_of_all(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, int, int]
) -> None:
    source, clauses, scanned, affected = case
    before = engine.query("SELECT * FROM t ORDER BY id")
    assert merged(engine, source, clauses, monkeypatch) == (scanned, affected)
    pruned = engine.query("SELECT * FROM t ORDER BY id")
    engine.update('INSERT OVERWRITE t SELECT * FROM "t@7"')
    engine.update("DELETE FROM t WHERE id >= 1000")
    assert engine.query("SELECT * FROM t ORDER BY id").equals(before)
    monkeypatch.setattr(division, "MOST_KEYS", 0)
    assert merged(engine, source, clauses, monkeypatch)[0] in {1, 10, 11}, (
        "the partitions of a literal, or all there are"
    )
    assert engine.query("SELECT * FROM t ORDER BY id").equals(pruned)


VOLATILE = {
    "random": "(VALUES (CAST(floor(random() * 100) AS BIGINT) + 1)) AS s (id) ON t.id = s.id AND t.p = s.id % 10",
    "its other name": "(VALUES (CAST(floor(rand() * 100) AS BIGINT) + 1)) AS s (id) ON t.id = s.id AND t.p = s.id % 10",
    "any row": "(SELECT id FROM t LIMIT 1) AS s ON t.id = s.id AND t.p = s.id % 10",
    "a query": "(SELECT CAST(floor(random() * 100) AS BIGINT) + 1 AS id) AS s ON t.id = s.id AND t.p = s.id % 10",
    "a key": "(VALUES (1)) AS s (id) ON t.p = s.id - 1 + CAST(floor(random() * 10) AS BIGINT)",
    "the time": (
        "(VALUES (now())) AS s (at) ON t.p = CAST(date_part('microsecond', s.at) AS BIGINT) % 10 AND t.id < 11"
    ),
}


@pytest.mark.parametrize("source", VOLATILE.values(), ids=VOLATILE)
def test_a_source_that_is_another_one_each_time_is_evaluated_once(engine: Engine, source: str) -> None:
    """Every key that it can have is there already: whatever it says once matches."""
    for round_ in range(4 if IS_FULL else 2):
        if round_:
            engine.update("DELETE FROM t")
            engine.update("INSERT INTO t SELECT value, value % 10, 1.0 FROM generate_series(1, 100)")
        engine.update(
            f"MERGE INTO t USING {source} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (-1)"
        )
        assert engine.query("SELECT count(*) AS n FROM t WHERE id = -1").to_pylist() == [{"n": 0}]


def test_what_the_server_says_of_itself_is_asked_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that ends between two looks would be missing in one of them."""
    engine.update("CREATE TABLE seen (id VARCHAR) PARTITIONED BY (id)")
    asked: list[object] = []
    records = engine.running.records
    monkeypatch.setattr(engine.running, "records", lambda: asked.append(None) or records())
    engine.update(
        "MERGE INTO seen USING system.queries AS s ON seen.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    assert len(asked) == 1


PARTS = 20


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Tables of many partitions, by a value and by a bucket."""
    engine = open_engine(tmp_path_factory.mktemp("root"))
    for name, field in [("by_value", "part"), ("by_bucket", f"bucket({PARTS}, part)")]:
        rows = f"SELECT value AS part, value * 10 AS n FROM generate_series(0, {PARTS - 1})"
        engine.update(f"CREATE TABLE {name} PARTITIONED BY ({field}) AS {rows}")
    return engine


READ = [
    pytest.param("UPDATE by_value SET n = n + 1 WHERE part = 7", 1, id="update"),
    pytest.param("UPDATE by_value SET part = part WHERE part IN (7, 8)", 2, id="update of two"),
    pytest.param("UPDATE by_value SET n = 0 WHERE part = 1000", 0, id="update of none"),
    pytest.param("UPDATE by_value SET n = 0 WHERE n = 70", PARTS, id="update by another column"),
    pytest.param("UPDATE by_bucket SET n = n + 1 WHERE part = 7", 1, id="update of a bucket"),
    pytest.param("DELETE FROM by_value WHERE part = 9 AND n > 10", 1, id="delete"),
    pytest.param("DELETE FROM by_value WHERE part >= 18", 2, id="delete of a range"),
    pytest.param("DELETE FROM by_bucket x WHERE x.part = 9", 1, id="delete of a bucket"),
    pytest.param(
        "MERGE INTO by_value t USING (SELECT 11 AS part) s ON t.part = s.part AND t.part = 11 WHEN MATCHED THEN DELETE",
        1,
        id="merge",
    ),
    pytest.param("INSERT INTO by_value VALUES (7, 7)", 0, id="insert"),
    pytest.param("INSERT OVERWRITE by_value VALUES (7, 7)", 0, id="overwrite"),
    ("INSERT OVERWRITE by_value SELECT part, n FROM by_value WHERE part = 7", 1),
    pytest.param("TRUNCATE by_bucket", 0, id="truncate"),
]


@pytest.mark.parametrize(("statement", "opened"), READ)
def test_a_change_opens_the_tables_that_it_may_concern(
    many: Engine, monkeypatch: pytest.MonkeyPatch, statement: str, opened: int
) -> None:
    sessions: list[QuerySession] = []
    begin = Sessions.begin

    def noted(*args: Any, **options: Any) -> QuerySession:
        sessions.append(begin(*args, **options))
        return sessions[-1]

    monkeypatch.setattr(Sessions, "begin", noted)
    many.update(statement)
    assert sum(session.log.tables_read for session in sessions) == opened
