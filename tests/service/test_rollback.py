"""ALTER TABLE … ROLLBACK TO over the wire."""

from __future__ import annotations

import pytest

from tests.service.server_process import Server
from tests.service.tagged_tables import PLACES, grown, stock

POINTS = pytest.mark.parametrize("point", ["a version", "a tag", "a time"])


@PLACES
@POINTS
def test_a_table_is_rolled_back_to_any_point_and_written_on(
    server: Server, table: str, partitioned_by: str, point: str
) -> None:
    first, second, last = grown(server, table, partitioned_by)
    versions = stock(server, table, partitioned_by).versions()
    moment = next(v["timestamp"] for v in versions if v["version"] == second)
    server.run(f"ALTER TABLE {table} CREATE TAG good AS OF {second}")
    text = {"a version": f"{second}", "a tag": "good", "a time": f"'{moment.astimezone().isoformat()}'"}[point]
    assert server.run(f"ALTER TABLE {table} ROLLBACK TO {text}") == 0
    assert sorted(server.rows(f"SELECT id FROM {table}")) == [(0,), (1,)]
    assert int(stock(server, table, partitioned_by).version) == last + 1
    assert server.value(f"SELECT count(*) FROM {table}@{last}") == 3
    server.run(f"INSERT INTO {table} VALUES (2), (7)")
    assert sorted(server.rows(f"SELECT id FROM {table}")) == [(0,), (1,), (2,), (7,)]
    server.run(f"ALTER TABLE {table} ROLLBACK TO {first}")
    assert server.rows(f"SELECT id FROM {table}") == [(0,)]


@PLACES
def test_a_rollback_to_the_newest_version_makes_no_new_one(server: Server, table: str, partitioned_by: str) -> None:
    *_, last = grown(server, table, partitioned_by)
    server.run(f"ALTER TABLE {table} ROLLBACK TO {last}")
    assert int(stock(server, table, partitioned_by).version) == last


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
    server: Server, table: str, partitioned_by: str, point: str, says: list[str]
) -> None:
    grown(server, table, partitioned_by)
    message = server.refuses(f"ALTER TABLE {table} ROLLBACK TO {point}")
    assert [part for part in says if part not in message] == []
    assert str(server.root) not in message
    assert server.value(f"SELECT count(*) FROM {table}") == 3


def test_the_history_says_so(server: Server, table: str) -> None:
    first, *_ = grown(server, table, " PARTITIONED BY (id)")
    server.run(f"ALTER TABLE {table} ROLLBACK TO {first}")
    newest = f"SELECT operation, tables_added, tables_changed, tables_removed FROM {table}$snapshots ORDER BY version DESC LIMIT 1"
    assert server.rows(newest) == [(f"rollback to {first}", 0, 0, 2)]
