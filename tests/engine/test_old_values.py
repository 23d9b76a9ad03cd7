"""A root of an older release, which took parts of timestamps in UTC whatever their zone: read, verified, rewritten.

`data/dates_in_utc.zip` is that root: a table `events` by year(t), t in America/New_York, where two of four rows lie under 2025 and
belong to 2024.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from zipfile import ZipFile

import lance
import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.stock import manifest, stored_tables

MISPLACED = "a row has t_year = 2024; expected 2025"
NEW_YEAR = "t >= TIMESTAMP '2024-12-31T19:00:00' AND t < TIMESTAMP '2025-01-01T00:00:00'"


@pytest.fixture
def old(tmp_path: Path) -> Database:
    with ZipFile(Path(__file__).parent / "data" / "dates_in_utc.zip") as archive:
        archive.extractall(tmp_path)
    return Database(tmp_path)


def ids(database: Database, where: str) -> list[int]:
    return [number for (number,) in database.rows(f"SELECT id FROM events WHERE {where} ORDER BY id")]


def years(database: Database) -> dict[int, list[int]]:
    return {
        int(table.values["t_year"]): sorted(table.dataset.to_table()["id"].to_pylist())
        for table in stored_tables(database.root / "events")
    }


def test_no_row_is_lost_before_the_rows_have_moved_nor_after(old: Database) -> None:
    conditions = {NEW_YEAR: [2, 3], "date_part('year', t) = 2024": [1, 2, 3], "date_part('year', t) = 2025": [4]}
    conditions |= {f"date_part('hour', t) = 21 AND {NEW_YEAR}": [2], "t > TIMESTAMP '2025-01-01T00:00:00'": [4]}
    assert {each: ids(old, each) for each in conditions} == conditions
    said = "\n".join(str(row) for row in old.rows(f"EXPLAIN SELECT id FROM events WHERE {NEW_YEAR}"))
    assert (
        "rows may not lie by year(t): an older release wrote them; ALTER TABLE … REWRITE PARTITIONS moves those" in said
    )

    assert old.rows("VERIFY TABLE events") != []
    problems = {row[-1]: row[-2] for row in old.rows("VERIFY TABLE events")}
    assert problems == {None: 0, MISPLACED: 2}

    assert years(old) == {2024: [1], 2025: [2, 3, 4]}
    assert [row[-1] for row in old.rows("ALTER TABLE events REWRITE PARTITIONS")] == [2]
    assert years(old) == {2024: [1, 2, 3], 2025: [4]}
    assert manifest(old.root / "events").metadata["lance_flight:derived_values"] == "True"
    assert old.rows("ALTER TABLE events REWRITE PARTITIONS") == []
    assert {row[-1] for row in old.rows("VERIFY TABLE events")} == {None}
    assert {each: ids(old, each) for each in conditions} == conditions
    said = "\n".join(str(row) for row in old.rows(f"EXPLAIN SELECT id FROM events WHERE {NEW_YEAR}"))
    assert "partitions: 1 / 2" in said


def test_rows_that_come_later_lie_where_they_belong(old: Database) -> None:
    old.run("INSERT INTO events SELECT id + 10, t FROM events")
    assert years(old) == {2024: [1, 11, 12, 13], 2025: [2, 3, 4, 14]}
    assert ids(old, NEW_YEAR) == [2, 3, 12, 13]
    old.rows("ALTER TABLE events REWRITE PARTITIONS")
    assert years(old) == {2024: [1, 2, 3, 11, 12, 13], 2025: [4, 14]}


def test_a_table_of_a_writer_that_follows_the_spec_loses_no_row(old: Database) -> None:
    times = pa.array(
        [dt.datetime(2025, 1, 1, hour, tzinfo=dt.UTC) for hour in (2, 6)], pa.timestamp("us", "America/New_York")
    )
    derived = "expr('date_part(''year'', col0)', t)"
    old.ingest("foreign", pa.table({"id": pa.array([1, 2]), "t": times}), partition_by=derived)
    place = f"{old.root}/foreign/__manifest"
    (spec,) = (
        json.loads(text) for key, text in lance.dataset(place).metadata.items() if key.startswith("partition_spec_v")
    )
    (field,) = spec["fields"]
    del field["expression"]
    spec["fields"] = [field | {"transform": {"type": "year"}}]
    ours = {"lance_flight:namespace_key": None, "lance_flight:derived_values": None}
    lance.dataset(place).update_metadata({"partition_spec_v1": json.dumps(spec), **ours})
    for where, expected in {
        "t = TIMESTAMP '2024-12-31T21:00:00'": [1],
        "t < TIMESTAMP '2025-01-01T00:00:00'": [1],
        "date_part('year', t) = 2024": [1],
        "date_part('year', t) IN (2025, 2026)": [2],
    }.items():
        assert [row[0] for row in old.rows(f'SELECT id FROM "foreign" WHERE {where}')] == expected, where
        said = "\n".join(str(row) for row in old.rows(f'EXPLAIN SELECT id FROM "foreign" WHERE {where}'))
        assert "partitions: 1 / 2" in said
    old.run('INSERT INTO "foreign" SELECT id + 10, t FROM "foreign"')
    found = {
        table.row[f"partition_field_{field['field_id']}"]: sorted(table.dataset.to_table()["id"].to_pylist())
        for table in stored_tables(old.root / "foreign")
    }
    assert found == {2024: [1, 11], 2025: [2, 12]}


@pytest.mark.parametrize(
    ("time", "left"), [("2025-06-02T00:00:00", [1, 2, 3, 99]), ("2024-06-02T00:00:00", [4, 99])], ids=["2025", "2024"]
)
def test_overwriting_a_year_replaces_the_rows_that_belong_to_it(old: Database, time: str, left: list[int]) -> None:
    old.run(f"INSERT OVERWRITE events VALUES (99, TIMESTAMP '{time}')")
    assert ids(old, "true") == left
    old.rows("ALTER TABLE events REWRITE PARTITIONS")
    assert ids(old, "true") == left
    assert {row[-1] for row in old.rows("VERIFY TABLE events")} == {None}


def test_dropping_a_year_takes_the_rows_that_belong_to_it(old: Database) -> None:
    old.run("ALTER TABLE events DROP PARTITION (t_year = 2024)")
    assert ids(old, "true") == [4]
