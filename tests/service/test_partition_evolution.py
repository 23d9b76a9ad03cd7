"""SET PARTITIONED BY: a new spec version for new rows, while old ones stay where they are."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import Any

import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.faults import VARIABLE

from tests.service.server_process import Server, started
from tests.stock import manifest, manifest_rows, stored_tables

EVENTS = "(id BIGINT, event_date DATE, country VARCHAR)"
DAYS = "(1, '2025-12-10', 'US'), (2, '2025-12-11', 'CN'), (3, '2024-05-01', 'US')"
LATER = "(4, '2025-12-10', 'US'), (5, '2025-03-01', 'DE'), (6, NULL, NULL)"


def evolved(server: Server, table: str) -> None:
    """The spec's example: by day at first, by year and country from then on."""
    server.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (event_date)")
    server.run(f"INSERT INTO {table} VALUES {DAYS}")
    assert server.run(f"ALTER TABLE {table} SET PARTITIONED BY (year(event_date), country)") == 0
    server.run(f"INSERT INTO {table} VALUES {LATER}")


def specs(server: Server, table: str) -> dict[str, Any]:
    """The partition specs as stock Lance sees them: fields by id, with how they are derived."""
    found = {}
    for key, text in manifest(server.root / table).metadata.items():
        if key.startswith("partition_spec_v"):
            spec = json.loads(text)
            found[spec["id"]] = {f["field_id"]: f.get("transform", {}).get("type") for f in spec["fields"]}
    return found


def scanned(server: Server, table: str, where: str) -> str:
    """What EXPLAIN says of the partitions, first line and one for each spec version."""
    (plan,) = (
        text for kind, text in server.rows(f"EXPLAIN SELECT * FROM {table} WHERE {where}") if kind == "partitions"
    )
    lines = [line.split("  table")[0].strip() for line in plan.splitlines() if "/" in line]
    return "; ".join(lines)


def test_new_rows_go_under_the_new_spec_and_old_ones_stay(server: Server, table: str) -> None:
    evolved(server, table)
    assert specs(server, table) == {
        1: {"event_date": "identity"},
        2: {"event_date_year": "year", "country": "identity"},
    }
    values = [
        (t.spec_id, {k: v for k, v in t.values.items() if v is not None}) for t in stored_tables(server.root / table)
    ]
    assert len(values) == 6
    assert sorted(str(v) for s, v in values if s == 2) == [
        "{'event_date_year': 2025, 'country': 'DE'}",
        "{'event_date_year': 2025, 'country': 'US'}",
        "{}",
    ]
    assert sum(s == 1 for s, _ in values) == 3
    assert [row["object_id"] for row in manifest_rows(server.root / table) if "$" not in row["object_id"]] == [
        "v1",
        "v2",
    ]
    assert server.rows(f"SELECT id FROM {table} ORDER BY id") == [(n,) for n in range(1, 7)]


PRUNED = [
    pytest.param(
        "event_date = '2025-12-10' AND country = 'US'",
        "partitions: 2 / 6; v1: 1 / 3; v2: 1 / 3",
        [1, 4],
        id="appendix D",
    ),
    pytest.param("country = 'DE'", "partitions: 4 / 6; v1: 3 / 3; v2: 1 / 3", [5], id="only the new spec"),
    pytest.param("event_date IS NULL", "partitions: 1 / 6; v1: 0 / 3; v2: 1 / 3", [6], id="null"),
]


@pytest.mark.parametrize(("where", "partitions", "ids"), PRUNED)
def test_every_version_is_pruned_by_its_own_spec(
    server: Server, table: str, where: str, partitions: str, ids: list[int]
) -> None:
    evolved(server, table)
    assert scanned(server, table, where) == partitions
    assert server.rows(f"SELECT id FROM {table} WHERE {where} ORDER BY id") == [(n,) for n in ids]


FIELDS = [
    pytest.param("event_date", {2: {"event_date": "identity"}}, id="the same keeps its id"),
    pytest.param("bucket(4, id), event_date", {2: {"id_bucket": "bucket", "event_date": "identity"}}, id="one more"),
    pytest.param("month(event_date)", {2: {"event_date_month": "month"}}, id="another one"),
    pytest.param("year(event_date) AS y", {2: {"y": "year"}}, id="named"),
]


@pytest.mark.parametrize(("fields", "expected"), FIELDS)
def test_a_field_keeps_its_id_as_long_as_it_is_derived_in_the_same_way(
    server: Server, table: str, fields: str, expected: dict[int, Any]
) -> None:
    server.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (event_date, country)")
    server.run(f"INSERT INTO {table} VALUES {DAYS}")
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY ({fields})")
    assert specs(server, table) == {1: {"event_date": "identity", "country": "identity"}, **expected}
    server.run(f"INSERT INTO {table} VALUES {LATER}")
    assert server.value(f"SELECT count(*) FROM {table}") == 6


def test_an_id_of_an_older_spec_is_taken_for_good(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (bucket(4, id))")
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY (bucket(8, id))")
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY (country)")
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY (bucket(8, id), bucket(4, id))")
    assert [list(fields) for _, fields in sorted(specs(server, table).items())] == [
        ["id_bucket"],
        ["id_bucket_2"],
        ["country"],
        ["id_bucket_2", "id_bucket"],
    ]


REFUSED = [
    pytest.param("bucket(8, id) AS c", "belongs to another derivation", id="another one's id"),
    pytest.param("country AS land", "the same field_id must be reused", id="another id"),
    pytest.param("year(nope), year(country)", "no column 'nope'", id="columns"),
    pytest.param("bucket(8, id), bucket(8, id) AS b", "derives what", id="twice"),
]


@pytest.mark.parametrize(("fields", "why"), REFUSED)
def test_a_spec_that_breaks_the_rules_is_refused_and_changes_nothing(
    server: Server, table: str, fields: str, why: str
) -> None:
    server.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (country AS c)")
    before = manifest(server.root / table).version
    assert why in server.refuses(f"ALTER TABLE {table} SET PARTITIONED BY ({fields})")
    assert manifest(server.root / table).version == before
    server.run(f"INSERT INTO {table} VALUES {DAYS}")


def test_the_current_spec_once_more_changes_nothing(server: Server, table: str) -> None:
    evolved(server, table)
    before = manifest(server.root / table).version
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY (year(event_date), country)")
    assert manifest(server.root / table).version == before


def test_a_table_without_partitions_is_refused(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} {EVENTS}")
    assert "is not partitioned" in server.refuses(f"ALTER TABLE {table} SET PARTITIONED BY (country)")


def test_a_transaction_that_began_under_the_old_spec_commits_under_it(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (event_date)")
    server.run(f"INSERT INTO {table} VALUES {DAYS}")
    with closing(dbapi.connect(server.uri)) as from_then, from_then.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} VALUES (7, '2025-12-10', 'FR'), (8, '2020-01-01', 'FR')")
        server.run(f"ALTER TABLE {table} SET PARTITIONED BY (country)")
        from_then.commit()
    assert server.rows(f"SELECT id FROM {table} ORDER BY id") == [(n,) for n in (1, 2, 3, 7, 8)]
    assert {t.spec_id for t in stored_tables(server.root / table)} == {1}
    server.run(f"UPDATE {table} SET id = id + 10 WHERE country = 'FR'")
    assert server.rows(f"SELECT id FROM {table} ORDER BY id") == [(n,) for n in (1, 2, 3, 17, 18)]


STOPS = [
    pytest.param("columns_added", 1, id="columns"),
    pytest.param("manifest_written", 1, id="before the commit"),
    pytest.param("evolved", 2, id="after the commit"),
]


@pytest.mark.parametrize(("point", "count"), STOPS)
def test_a_server_killed_half_way_leaves_the_old_spec_or_the_new_one(
    server: Server, table: str, point: str, count: int
) -> None:
    server.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (event_date)")
    server.run(f"INSERT INTO {table} VALUES {DAYS}")
    with started(server.root, environment=os.environ | {VARIABLE: point}) as dying:
        dying.refuses(f"ALTER TABLE {table} SET PARTITIONED BY (country)")
        assert dying.process.wait(60) != 0
    assert len(server.rows(f"SELECT DISTINCT spec_id FROM {table}$specs")) == count
    server.run(f"INSERT INTO {table} VALUES {LATER}")
    assert len(specs(server, table)) == count
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY (country)")
    server.run(f"INSERT INTO {table} VALUES (9, '2025-12-10', 'US')")
    assert server.value(f"SELECT count(*) FROM {table}") == 7
    assert len(specs(server, table)) == 2
