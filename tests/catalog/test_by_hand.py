"""A namespace that somebody else wrote by the letter of the spec is read, described, and written to."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.scan_planning import plan_scan
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.by_hand import DATA, DIRECTORIES, ROWS, lay_out

PRUNING = json.loads((DATA / "appendix_d_pruning.json").read_text())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lay_out(tmp_path / "events")
    return tmp_path / "events"


def opened(place: Path) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(place)))


def read(place: Path, condition: str = "true") -> list[int]:
    sql = f"SELECT id FROM events WHERE {condition} ORDER BY id"
    return Engine(Root(Store(str(place.parent))), target_partitions=2).query(sql)["id"].to_pylist()


def rows(*ids: int, day: date = date(2025, 12, 10), country: str | None = "US") -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "event_date": day, "country": country} for n in ids], schema=ROWS)


def test_each_table_is_read_at_the_version_of_its_row(place: Path) -> None:
    assert read(place) == [1, 2, 11, 12, 13]


def test_tables_without_pin_columns_are_read_at_their_newest_version(tmp_path: Path) -> None:
    lay_out(tmp_path / "events", pins=False, foreign=False)
    assert read(tmp_path / "events") == [1, 2, 11, 12, 13, 666, 666]


def test_the_query_of_appendix_d_finds_its_tables(place: Path) -> None:
    condition = (pc.field("event_date") == date(2025, 12, 10)) & (pc.field("country") == "US")
    planned = plan_scan(opened(place), condition)
    found = [
        {"object_id": table.object_id, "location": Path(table.uri).name, **table.pin.columns._asdict()}
        for table in planned.tables
    ]
    assert found == PRUNING["result"]
    residuals = [str(table.residual) for table in planned.tables]
    assert residuals == ["country = 'US'", "event_date = DATE '2025-12-10'"]


@pytest.mark.parametrize("condition", ["event_date = '2024-12-10'", "country = 'DE' AND event_date > '2025-12-10'"])
def test_what_cannot_be_there_is_not_looked_for(place: Path, condition: str) -> None:
    assert plan_scan(opened(place), condition).tables == ()
    assert read(place, condition) == []


def test_new_rows_go_under_the_newest_spec_and_into_the_table_that_holds_their_values(place: Path) -> None:
    opened(place).append([rows(14, 15), rows(21, country=None)], evaluate)
    assert read(place) == [1, 2, 11, 12, 13, 14, 15, 21]
    stored = {row["object_id"]: row for row in lance.dataset(str(place / "__manifest")).to_table().to_pylist()}
    assert len(stored) == 9, "one namespace and one table for the NULL country"
    (extended,) = [name for name in DIRECTORIES if name.startswith("v2")]
    table = lance.dataset(str(place / stored[extended]["location"]), version=stored[extended]["read_version"])
    assert sorted(table.to_table()["id"].to_pylist()) == [11, 12, 13, 14, 15], "the dead version stays dead"


def test_columns_of_somebody_else_are_kept_by_our_writes(place: Path) -> None:
    before = {row["object_id"]: row["somebody_elses"] for row in manifest(place)}
    opened(place).append([rows(14), rows(30, day=date(2031, 1, 1))], evaluate)
    after = {row["object_id"]: row["somebody_elses"] for row in manifest(place)}
    assert {name: after[name] for name in before} == before
    assert all(after[name] is None for name in after.keys() - before.keys())


def manifest(place: Path) -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = lance.dataset(str(place / "__manifest")).to_table().to_pylist()
    return found


def test_a_namespace_without_pin_columns_gets_them_with_the_first_write(tmp_path: Path) -> None:
    lay_out(tmp_path / "events", pins=False)
    opened(tmp_path / "events").append([rows(14)], evaluate)
    assert read(tmp_path / "events", "id < 600") == [1, 2, 11, 12, 13, 14]
    pins = {row["object_id"]: row["read_version"] for row in manifest(tmp_path / "events")}
    assert {name for name, pin in pins.items() if pin is not None} == set(DIRECTORIES), (
        "to stage on one must not publish"
    )
