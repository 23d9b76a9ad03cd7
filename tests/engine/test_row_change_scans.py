"""How much of a table its changes read: of a hundred partitions, those that can hold rows that change."""

from __future__ import annotations

from typing import Any

import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.sessions import Sessions

HUNDRED = 100


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = Engine(Root(Store(str(tmp_path_factory.mktemp("root")))), target_partitions=2)
    for name, field in [("by_value", "part"), ("by_bucket", f"bucket({HUNDRED}, part)")]:
        rows = f"SELECT value AS part, value * 10 AS n FROM generate_series(0, {HUNDRED - 1})"
        engine.update(f"CREATE TABLE {name} PARTITIONED BY ({field}) AS {rows}")
    return engine


READ = [
    pytest.param("UPDATE by_value SET n = n + 1 WHERE part = 7", 1, id="update"),
    pytest.param("UPDATE by_value SET part = part WHERE part IN (7, 8)", 2, id="update of two"),
    pytest.param("UPDATE by_value SET n = 0 WHERE part = 1000", 0, id="update of none"),
    pytest.param("UPDATE by_value SET n = 0 WHERE n = 70", HUNDRED, id="update by another column"),
    pytest.param("UPDATE by_bucket SET n = n + 1 WHERE part = 7", 1, id="update of a bucket"),
    pytest.param("DELETE FROM by_value WHERE part = 9 AND n > 10", 1, id="delete"),
    pytest.param("DELETE FROM by_value WHERE part >= 98", 2, id="delete of a range"),
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


@pytest.mark.parametrize(("statement", "tables"), READ)
def test_a_change_opens_the_tables_that_it_may_concern(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, statement: str, tables: int
) -> None:
    sessions: list[QuerySession] = []
    begin = Sessions.begin

    def noted(*args: Any, **options: Any) -> QuerySession:
        sessions.append(begin(*args, **options))
        return sessions[-1]

    monkeypatch.setattr(Sessions, "begin", noted)
    engine.update(statement)
    assert sum(session.log.tables_read for session in sessions) == tables
