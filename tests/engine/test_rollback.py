"""ALTER TABLE … ROLLBACK TO."""

from __future__ import annotations

import pytest

from tests.engine.database import Database
from tests.engine.tagged_tables import PLACES, grown, stock

POINTS = pytest.mark.parametrize("point", ["a version", "a tag", "a time"])


@PLACES
@POINTS
def test_a_table_is_rolled_back_to_any_point_and_written_on(
    database: Database, table: str, partitioned_by: str, point: str
) -> None:
    first, second, last = grown(database, table, partitioned_by)
    versions = stock(database, table, partitioned_by).versions()
    moment = next(v["timestamp"] for v in versions if v["version"] == second)
    database.run(f"ALTER TABLE {table} CREATE TAG good AS OF {second}")
    text = {"a version": f"{second}", "a tag": "good", "a time": f"'{moment.astimezone().isoformat()}'"}[point]
    assert database.run(f"ALTER TABLE {table} ROLLBACK TO {text}") == 0
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(0,), (1,)]
    assert int(stock(database, table, partitioned_by).version) == last + 1
    assert database.value(f"SELECT count(*) FROM {table}@{last}") == 3
    database.run(f"INSERT INTO {table} VALUES (2), (7)")
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(0,), (1,), (2,), (7,)]
    database.run(f"ALTER TABLE {table} ROLLBACK TO {first}")
    assert database.rows(f"SELECT id FROM {table}") == [(0,)]


@PLACES
def test_a_rollback_to_the_newest_version_makes_no_new_one(database: Database, table: str, partitioned_by: str) -> None:
    *_, last = grown(database, table, partitioned_by)
    database.run(f"ALTER TABLE {table} ROLLBACK TO {last}")
    assert int(stock(database, table, partitioned_by).version) == last


@PLACES
@pytest.mark.parametrize(
    ("point", "says"),
    [
        pytest.param("999", ["not_found", "999"], id="a version that is not there"),
        pytest.param("nope", ["not_found", "'nope'"], id="a tag that is not there"),
        pytest.param("", ["invalid_sql", "a version, a tag or a time"], id="nothing"),
    ],
)
def test_what_is_not_there_is_named(
    database: Database, table: str, partitioned_by: str, point: str, says: list[str]
) -> None:
    grown(database, table, partitioned_by)
    message = database.refuses(f"ALTER TABLE {table} ROLLBACK TO {point}")
    assert [part for part in says if part not in message] == []
    assert str(database.root) not in message
    assert database.value(f"SELECT count(*) FROM {table}") == 3


def test_the_history_says_so(database: Database, table: str) -> None:
    first, *_ = grown(database, table, " PARTITIONED BY (id)")
    database.run(f"ALTER TABLE {table} ROLLBACK TO {first}")
    newest = f"SELECT operation, tables_added, tables_changed, tables_removed FROM {table}$snapshots ORDER BY version DESC LIMIT 1"
    assert database.rows(newest) == [(f"rollback to {first}", 0, 0, 2)]
