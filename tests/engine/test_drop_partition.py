"""ALTER TABLE … DROP PARTITION over several spec versions: what goes, and what is left of it in the `__manifest`."""

from __future__ import annotations

import shutil
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.maintenance.vacuum import vacuum
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import TableName

from tests.engine.database import open_engine
from tests.engine.evolved_events import DAYS, EVENTS, events, evolved
from tests.stock import manifest, manifest_rows, stored_rows, stored_tables

A_MONTH = 30 * 24 * 3600
VERSIONS = [
    ("event_date", events(*((n, DAYS[n % 3], "US") for n in range(6)), (6, None, "DE"), (7, DAYS[1], "DE"))),
    ("bucket(4, id)", events(*((n, DAYS[n % 3], ["FR", None][n % 2]) for n in range(10, 16)))),
    ("year(event_date), country", events(*((n, DAYS[n % 3], ["US", "DE", None][n % 3]) for n in range(20, 26)))),
]
ROWS = [row for _, data in VERSIONS for row in data.to_pylist()]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "root"
    place.mkdir()
    evolved(place, EVENTS, VERSIONS)
    return place


@pytest.fixture
def root(tmp_path: Path, template: Path) -> Path:
    shutil.copytree(template, tmp_path / "root")
    return tmp_path / "root"


def ids(root: Path) -> list[int]:
    """The ids of the rows that stock Lance finds."""
    found: list[int] = stored_rows(root / "t")["id"].to_pylist()
    return sorted(found)


def year(row: dict[str, Any]) -> int | None:
    day: date | None = row["event_date"]
    return None if day is None else day.year


DROPPED = [
    pytest.param("event_date_year = 2024", lambda r: year(r) == 2024, id="a year"),
    pytest.param("event_date_year = '2025'", lambda r: year(r) == 2025, id="text for a number"),
    pytest.param("event_date_year IS NULL", lambda r: year(r) is None, id="no year"),
    pytest.param("event_date_year = NULL", lambda r: year(r) is None, id="equal to NULL"),
    pytest.param("country = 'DE'", lambda r: r["country"] == "DE", id="the inner field alone"),
    ("country = NULL, event_date_year = 2025", lambda r: r["country"] is None and year(r) == 2025),
    pytest.param("event_date_year = 1999", lambda _: False, id="what is not there"),
]


@pytest.mark.parametrize(("values", "goes"), DROPPED)
def test_the_rows_of_the_values_go_from_every_spec(root: Path, values: str, goes: Any) -> None:
    before = manifest(root / "t").version
    gone = [row for row in ROWS if goes(row)]
    kept = {t.object_id for t in stored_tables(root / "t") if not all(map(goes, t.dataset.to_table().to_pylist()))}
    assert open_engine(root).update(f"ALTER TABLE t DROP PARTITION ({values})") == len(gone)
    assert ids(root) == sorted(row["id"] for row in ROWS if row not in gone)
    assert open_engine(root).query("SELECT id FROM t ORDER BY id")["id"].to_pylist() == ids(root)
    assert {table.object_id for table in stored_tables(root / "t")} == kept, "no empty table, and all others"
    assert manifest(root / "t").version == before + bool(gone), "one commit"
    names = {row["object_id"] for row in manifest_rows(root / "t")}
    tables = {name for name in names if name.endswith("$dataset")}
    above = {name.rsplit("$", depth)[0] for name in tables for depth in range(1, name.count("$") + 1)}
    assert names == tables | above | {"v1", "v2", "v3"}, "no namespace without a table"


def test_the_data_of_tables_whose_values_decide_is_not_read(root: Path) -> None:
    before = {table.object_id: table.row for table in stored_tables(root / "t")}
    for table in stored_tables(root / "t"):
        if table.spec_id != 2:
            shutil.rmtree(Path(table.dataset.uri) / "data")
    open_engine(root).update("ALTER TABLE t DROP PARTITION (event_date_year = 2024)")
    after = {table.object_id: table.row for table in stored_tables(root / "t")}
    assert all(before[name] == row for name, row in after.items() if not name.startswith("v2$"))
    assert len(before) - len(after) == 2


def test_an_old_snapshot_has_the_rows_until_it_is_vacuumed(root: Path) -> None:
    version = manifest(root / "t").version
    directories = {path.name for path in (root / "t").iterdir()}
    open_engine(root).update("ALTER TABLE t DROP PARTITION (event_date_year = 2024)")
    assert open_engine(root).query(f"SELECT id FROM t@{version}").num_rows == len(ROWS)
    assert {path.name for path in (root / "t").iterdir()} - {".lance-flight"} == directories - {".lance-flight"}
    left = ids(root)
    vacuum(namespace(root), now=time.time() + A_MONTH)
    located = {table.row["location"] for table in stored_tables(root / "t")}
    assert {path.name for path in (root / "t").iterdir()} - {".lance-flight"} == located | {"__manifest"}
    assert ids(root) == left


def namespace(root: Path) -> PartitionedNamespace:
    found = open_engine(root).root.table(TableName("public", "t"))
    assert isinstance(found, PartitionedNamespace)
    return found


def test_a_dropped_partition_may_come_again(root: Path) -> None:
    names = {table.object_id: table.row["location"] for table in stored_tables(root / "t")}
    open_engine(root).update("ALTER TABLE t DROP PARTITION (country = 'US')")
    left, version = ids(root), manifest(root / "t").version
    assert open_engine(root).update("INSERT INTO t VALUES (100, '2025-01-01', 'US')") == 1
    assert ids(root) == [*left, 100]
    (table,) = [t for t in stored_tables(root / "t") if t.values["country"] == "US"]
    assert table.object_id not in names or table.row["location"] != names[table.object_id]
    assert open_engine(root).query(f"SELECT id FROM t@{version}").num_rows == len(left)
    changes = open_engine(root).query(f"SELECT _change, id FROM table_changes('t', {version}, {version + 1})")
    assert changes.to_pylist() == [{"_change": "insert", "id": 100}]


def test_the_history_says_what_was_dropped(root: Path) -> None:
    version = manifest(root / "t").version
    open_engine(root).update("ALTER TABLE t DROP PARTITION (event_date_year = 2024)")
    found = open_engine(root).query("SELECT * FROM t$snapshots ORDER BY version DESC LIMIT 1").to_pylist()[0]
    assert (found["operation"], found["tables_removed"]) == ("drop 2 partitions and rewrite 1, 6 rows less", 2)
    open_engine(root).update(f"ALTER TABLE t ROLLBACK TO {version}")
    assert ids(root) == sorted(row["id"] for row in ROWS)
