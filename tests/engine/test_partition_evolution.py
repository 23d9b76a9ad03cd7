"""SET PARTITIONED BY: a new spec version for new rows, while old ones stay where they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.database import Database
from tests.stock import manifest, manifest_rows, stored_tables

EVENTS = "(id BIGINT, event_date DATE, country VARCHAR)"
DAYS = "(1, '2025-12-10', 'US'), (2, '2025-12-11', 'CN'), (3, '2024-05-01', 'US')"
LATER = "(4, '2025-12-10', 'US'), (5, '2025-03-01', 'DE'), (6, NULL, NULL)"


def evolved(database: Database, table: str) -> None:
    """The spec's example: by day at first, by year and country from then on."""
    database.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (event_date)")
    database.run(f"INSERT INTO {table} VALUES {DAYS}")
    assert database.run(f"ALTER TABLE {table} SET PARTITIONED BY (year(event_date), country)") == 0
    database.run(f"INSERT INTO {table} VALUES {LATER}")


def specs(database: Database, table: str) -> dict[str, Any]:
    """The partition specs as stock Lance sees them: fields by id, with how they are derived."""
    found = {}
    for key, text in manifest(database.root / table).metadata.items():
        if key.startswith("partition_spec_v"):
            spec = json.loads(text)
            found[spec["id"]] = {f["field_id"]: f.get("transform", {}).get("type") for f in spec["fields"]}
    return found


def test_new_rows_go_under_the_new_spec_and_old_ones_stay(database: Database, table: str) -> None:
    evolved(database, table)
    assert specs(database, table) == {
        1: {"event_date": "identity"},
        2: {"event_date_year": "year", "country": "identity"},
    }
    values = [
        (t.spec_id, {k: v for k, v in t.values.items() if v is not None}) for t in stored_tables(database.root / table)
    ]
    assert len(values) == 6
    assert sorted(str(v) for s, v in values if s == 2) == [
        "{'event_date_year': 2025, 'country': 'DE'}",
        "{'event_date_year': 2025, 'country': 'US'}",
        "{}",
    ]
    assert sum(s == 1 for s, _ in values) == 3
    assert [row["object_id"] for row in manifest_rows(database.root / table) if "$" not in row["object_id"]] == [
        "v1",
        "v2",
    ]
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(n,) for n in range(1, 7)]


FIELDS = [
    pytest.param("event_date", {2: {"event_date": "identity"}}, id="the same keeps its id"),
    pytest.param("bucket(4, id), event_date", {2: {"id_bucket": "bucket", "event_date": "identity"}}, id="one more"),
    pytest.param("month(event_date)", {2: {"event_date_month": "month"}}, id="another one"),
    pytest.param("year(event_date) AS y", {2: {"y": "year"}}, id="named"),
]


@pytest.mark.parametrize(("fields", "expected"), FIELDS)
def test_a_field_keeps_its_id_as_long_as_it_is_derived_in_the_same_way(
    database: Database, table: str, fields: str, expected: dict[int, Any]
) -> None:
    database.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (event_date, country)")
    database.run(f"INSERT INTO {table} VALUES {DAYS}")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY ({fields})")
    assert specs(database, table) == {1: {"event_date": "identity", "country": "identity"}, **expected}
    database.run(f"INSERT INTO {table} VALUES {LATER}")
    assert database.value(f"SELECT count(*) FROM {table}") == 6


def test_an_id_of_an_older_spec_is_taken_for_good(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (bucket(4, id))")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY (bucket(8, id))")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY (country)")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY (bucket(8, id), bucket(4, id))")
    assert [list(fields) for _, fields in sorted(specs(database, table).items())] == [
        ["id_bucket"],
        ["id_bucket_2"],
        ["country"],
        ["id_bucket_2", "id_bucket"],
    ]


def test_the_current_spec_once_more_changes_nothing(database: Database, table: str) -> None:
    evolved(database, table)
    for fields in ("year(event_date), country", ""):
        database.run(f"ALTER TABLE {table} SET PARTITIONED BY ({fields})")
        before = manifest(database.root / table).version
        database.run(f"ALTER TABLE {table} SET PARTITIONED BY ({fields} )")
        assert manifest(database.root / table).version == before


def test_a_transaction_that_began_under_the_old_spec_commits_under_it(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} {EVENTS} PARTITIONED BY (event_date)")
    database.run(f"INSERT INTO {table} VALUES {DAYS}")
    with database.client(autocommit=False) as from_then:
        from_then.run(f"INSERT INTO {table} VALUES (7, '2025-12-10', 'FR'), (8, '2020-01-01', 'FR')")
        database.run(f"ALTER TABLE {table} SET PARTITIONED BY (country)")
        from_then.commit()
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(n,) for n in (1, 2, 3, 7, 8)]
    assert {t.spec_id for t in stored_tables(database.root / table)} == {1}
    database.run(f"UPDATE {table} SET id = id + 10 WHERE country = 'FR'")
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(n,) for n in (1, 2, 3, 17, 18)]
