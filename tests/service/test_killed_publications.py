"""Servers that are killed while they publish a branch: what it changed is there whole or not at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from adbc_driver_manager import Error
from lance_flight.faults import VARIABLE

from tests.engine.database import Database
from tests.service.server_process import started
from tests.stock import manifest, stored_rows

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SET_UP = (
    "CREATE TABLE t (id BIGINT, p VARCHAR, v INT) PARTITIONED BY (p)",
    "INSERT INTO t VALUES (1, 'a', 10), (2, 'a', 20), (3, 'b', 30)",
    "ALTER TABLE t CREATE BRANCH draft",
    'ALTER TABLE "t@draft" ALTER COLUMN v TYPE BIGINT',
    'ALTER TABLE "t@draft" SET PARTITIONED BY (v)',
    "INSERT INTO \"t@draft\" VALUES (4, 'c', 40)",
    "ALTER TABLE t ADD COLUMN d INT DEFAULT 9",
    "INSERT INTO t VALUES (5, 'n', 50, 1)",
)
PUBLISH = "ALTER TABLE t PUBLISH BRANCH draft"
BEFORE = [(1, "a", 10, 9), (2, "a", 20, 9), (3, "b", 30, 9), (5, "n", 50, 1)]
PUBLISHED = sorted([*BEFORE, (4, "c", 40, 9)])
STOPS = [
    pytest.param("columns_added", False, id="columns"),
    pytest.param("table_staged", False, id="one table"),
    pytest.param("table_staged:3", False, id="some tables"),
    pytest.param("manifest_written", False, id="before the commit"),
    pytest.param("committed", True, id="after the commit"),
    pytest.param("evolved", True, id="before the metadata follows"),
]


def rows(database: Database) -> list[tuple[Any, ...]]:
    return database.rows("SELECT id, p, v, d FROM t ORDER BY id")


@pytest.mark.parametrize(("point", "is_published"), STOPS)
def test_a_server_killed_while_it_publishes_leaves_all_of_it_or_nothing(
    tmp_path: Path, point: str, *, is_published: bool
) -> None:
    root = tmp_path / "root"
    before = Database(root)
    for statement in SET_UP:
        before.run(statement)
    with started(root, environment=os.environ | {VARIABLE: point}) as dying:
        with pytest.raises(Error, match="Unavailable"):
            dying.run(PUBLISH)
        assert dying.process.wait(60) == -signal.SIGKILL
    database = Database(root)
    assert rows(database) == (PUBLISHED if is_published else BEFORE)
    assert len(database.rows("SELECT DISTINCT spec_id FROM t$specs")) == 1 + is_published
    database.run(PUBLISH)
    stored = stored_rows(root / "t").select(["id", "p", "v", "d"]).to_pylist()
    assert rows(database) == sorted(tuple(row.values()) for row in stored) == PUBLISHED
    specs = [key for key in manifest(root / "t").metadata if key.startswith("partition_spec_v")]
    assert sorted(specs) == ["partition_spec_v1", "partition_spec_v2"]
    database.run("INSERT INTO t VALUES (6, 'z', 5000000000, 0)")
    assert database.rows("SELECT id FROM t WHERE v = 5000000000") == [(6,)]
