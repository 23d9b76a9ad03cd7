"""Partitions as things: attached, detached, and dropped over several spec versions."""

from __future__ import annotations

import shutil
import time
from datetime import date
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.vacuum import vacuum
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import PartitionedNamespace

from tests.engine.database import Database, open_engine
from tests.engine.evolved_events import DAYS, EVENTS, events, evolved
from tests.stock import StoredTable, manifest, manifest_rows, stored_by_value, stored_rows, stored_tables


@pytest.fixture(scope="module")
def template(database: Database) -> str:
    """Three months of two origins and of none, which nobody changes."""
    database.run("CREATE TABLE months (day DATE, origin VARCHAR, n INT) PARTITIONED BY (month(day) AS month, origin)")
    database.run(
        "INSERT INTO months SELECT CAST('2025-0' || m || '-01' AS DATE), o, n FROM (VALUES (1), (2), (3)) AS a(m),"
        " (VALUES ('JFK'), ('EWR'), (NULL)) AS b(o), (VALUES (1), (2)) AS c(n)"
    )
    return "months"


def test_a_partition_dropped_on_a_branch_is_there_on_main(database: Database, copied: str) -> None:
    database.run(f"ALTER TABLE {copied} CREATE BRANCH b")
    with database.client() as client:
        client.run("SET branch = 'b'")
        assert client.run(f"ALTER TABLE {copied} DROP PARTITION (month = 3)") == 6
        assert client.value(f"SELECT count(*) FROM {copied}") == 12
    assert database.value(f"SELECT count(*) FROM {copied}") == 18


# Tables that come from elsewhere.

JUNE = "month = 6, origin = 'SFO'"


def outside(database: Database, name: str, **columns: Any) -> str:
    """A plain table of the root, written by stock Lance in two commits."""
    place = str(database.root / f"{name}.lance")
    rows = pa.table({"day": [date(2025, 6, 1), date(2025, 6, 2)], "origin": ["SFO", "SFO"], "n": [1, 2]} | columns)
    lance.write_dataset(rows.slice(0, 1), place)
    lance.write_dataset(rows.slice(1), place, mode="append")
    return name


def partition(database: Database, table: str, *values: Any) -> StoredTable | None:
    found = [stored for stored in stored_tables(database.root / table) if tuple(stored.values.values()) == values]
    return found[0] if found else None


WAYS = ["'{x}'", "'{x}.lance'", "{x}", "'public/{x}.lance'"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trusted", ["", " TRUSTED"], ids=["checked", "trusted"])
def test_an_attached_table_is_a_partition_and_no_table_any_more(
    database: Database, copied: str, way: str, trusted: str
) -> None:
    name = outside(database, f"{copied}_june")
    before, version = stored_by_value(database.root / copied, "n"), manifest(database.root / copied).version
    sql = f"ALTER TABLE {copied} ATTACH TABLE {way.format(x=name)} PARTITION ({JUNE}){trusted}"
    assert database.run(sql) == 2
    assert stored_by_value(database.root / copied, "n") == before | {(6, "SFO"): [{"n": 1}, {"n": 2}]}
    assert manifest(database.root / copied).version == version + 1, "one commit"
    assert not (database.root / f"{name}.lance").exists()
    assert "not_found" in database.refuses(f"SELECT * FROM {name}")
    assert database.rows(f"SELECT day, n FROM {copied} WHERE origin = 'SFO' ORDER BY n") == [
        (date(2025, 6, 1), 1),
        (date(2025, 6, 2), 2),
    ]
    assert database.value(f"SELECT count(*) FROM {copied}@{version}") == 18
    found = partition(database, copied, 6, "SFO")
    assert found is not None
    assert found.row["location"].endswith(f"_{found.object_id}"), "a place of the usual form"
    ids = {field.name: field.metadata[b"lance_flight:field_id"] for field in found.dataset.schema}
    assert ids == {"day": b"0", "origin": b"1", "n": b"2"}


def test_an_attached_table_is_written_changed_compacted_and_vacuumed_like_any_other(
    database: Database, copied: str
) -> None:
    name = outside(database, f"{copied}_june", extra=["x", "y"])
    database.run(f"ALTER TABLE {copied} ATTACH TABLE '{name}' PARTITION ({JUNE})")
    database.run(f"INSERT INTO {copied} VALUES ('2025-06-03', 'SFO', 3)")
    assert database.run(f"UPDATE {copied} SET n = n * 10 WHERE origin = 'SFO'") == 3
    assert database.run(f"DELETE FROM {copied} WHERE n = 10") == 1
    database.rows(f"ALTER TABLE {copied} COMPACT")
    database.rows(f"VACUUM {copied} RETAIN 0 HOURS FORCE")
    found = partition(database, copied, 6, "SFO")
    assert found is not None
    rows = found.dataset.to_table(columns=["n", "extra"]).to_pylist()
    assert sorted(rows, key=str) == [{"n": 20, "extra": None}, {"n": 30, "extra": None}]
    assert sorted(database.rows(f"SELECT n FROM {copied} WHERE origin = 'SFO'")) == [(20,), (30,)]


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        pytest.param({"n": ["1", "2"]}, [1, 2], id="another type"),
        pytest.param({"n": pa.array([1, 2], pa.int8())}, [1, 2], id="a smaller type"),
        pytest.param({"more": [[1], [2]]}, [1, 2], id="an extra column"),
        pytest.param({"day": ["2025-06-01", "2025-06-30"]}, [1, 2], id="text for the source of a partition"),
    ],
)
def test_a_table_with_other_columns_is_attached_where_it_can_be_read(
    database: Database, copied: str, columns: dict[str, Any], shown: list[int]
) -> None:
    name = outside(database, f"{copied}_june", **columns)
    assert database.run(f"ALTER TABLE {copied} ATTACH TABLE '{name}' PARTITION ({JUNE})") == 2
    assert database.rows(f"SELECT n FROM {copied} WHERE date_part('month', day) = 6 ORDER BY n") == [
        (n,) for n in shown
    ]


def test_a_column_that_is_missing_is_null(database: Database, copied: str) -> None:
    place = str(database.root / f"{copied}_june.lance")
    lance.write_dataset(pa.table({"day": [date(2025, 6, 1)]}), place)
    database.run(f"ALTER TABLE {copied} ATTACH TABLE '{copied}_june' PARTITION (month = 6, origin = NULL)")
    assert database.rows(f"SELECT origin, n FROM {copied} WHERE day = '2025-06-01'") == [(None, None)]


NOT_ATTACHED = [
    pytest.param({}, "(month = 6)", "has no value for origin", id="a field without a value"),
    pytest.param({}, "(month = 6, orgin = 'SFO')", "did you mean 'origin'", id="no such field"),
    pytest.param({}, "(month = 3, origin = 'JFK')", "is there already", id="a partition that is there"),
    pytest.param({}, "(month = 7, origin = 'SFO')", "row 1 of", id="the first row is another partition's"),
    pytest.param({"origin": ["SFO", None]}, f"({JUNE})", "row 2 of", id="the second one is"),
    pytest.param(
        {"day": [date(2025, 6, 1), date(2025, 7, 1)]},
        f"({JUNE})",
        "(month = 7, origin = 'SFO'), not (month = 6, origin = 'SFO')",
        id="which one, and which not",
    ),
    pytest.param({"day": ["2025-06-01", "June"]}, f"({JUNE})", "holds 'June'", id="a value that cannot be read"),
    pytest.param({"n": ["1", "x"]}, f"({JUNE})", "holds 'x'", id="one of a column that partitions nothing"),
    pytest.param({"n": [[1], [2]]}, f"({JUNE})", "is BIGINT[]", id="a type that cannot be read"),
]


@pytest.mark.parametrize(("columns", "values", "message"), NOT_ATTACHED)
def test_what_is_no_such_partition_stays_a_table(
    database: Database, copied: str, columns: dict[str, Any], values: str, message: str
) -> None:
    name = outside(database, f"{copied}_june", **columns)
    before = manifest_rows(database.root / copied), {path.name for path in (database.root / copied).iterdir()}
    assert message in database.refuses(f"ALTER TABLE {copied} ATTACH TABLE '{name}' PARTITION {values}")
    assert (
        manifest_rows(database.root / copied),
        {path.name for path in (database.root / copied).iterdir()},
    ) == before
    assert database.value(f"SELECT count(*) FROM {name}") == 2


def test_rows_are_not_looked_at_where_they_are_trusted(database: Database, copied: str) -> None:
    name = outside(database, f"{copied}_june", n=["1", "x"])
    assert (
        database.run(f"ALTER TABLE {copied} ATTACH TABLE '{name}' PARTITION (month = 7, origin = 'SFO') TRUSTED") == 2
    )
    assert "holds 'x'" in database.refuses(f"SELECT n FROM {copied}")
    assert database.value(f"SELECT count(day) FROM {copied}") == 20


def test_a_null_in_a_column_that_has_none_is_named(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (p INT, n INT NOT NULL) PARTITIONED BY (p)")
    lance.write_dataset(pa.table({"p": [1, 1], "n": [1, None]}), str(database.root / f"{table}_x.lance"))
    sql = f"ALTER TABLE {table} ATTACH TABLE '{table}_x' PARTITION (p = 1)"
    assert "column 'n' is NOT NULL, and row 2 of" in database.refuses(sql)
    lance.write_dataset(pa.table({"p": [1]}), str(database.root / f"{table}_y.lance"))
    sql = f"ALTER TABLE {table} ATTACH TABLE '{table}_y' PARTITION (p = 1) TRUSTED"
    assert "column 'n' (INTEGER NOT NULL) is missing" in database.refuses(sql)


PATHS = [
    pytest.param("../secret.lance", "does not stay inside", id="above the root"),
    pytest.param("/etc", "does not stay inside", id="absolute"),
    pytest.param("public/../../secret.lance", "does not stay inside", id="above, by a detour"),
    pytest.param("file:///tmp/x.lance", "does not stay inside", id="another store"),
    pytest.param("", "does not stay inside", id="nothing"),
    pytest.param("a/b/c.lance", "not_found", id="deeper than tables lie"),
    pytest.param("nowhere", "not_found", id="nowhere"),
    pytest.param(".lance-flight", "not_found", id="a private place"),
    pytest.param("{t}", "is partitioned", id="itself"),
    pytest.param("{t}/__manifest", "not_found", id="its own manifest"),
]


@pytest.mark.parametrize(("path", "message"), PATHS)
def test_no_path_leads_out_of_the_root(database: Database, copied: str, path: str, message: str) -> None:
    secret = database.root.parent / "secret.lance"
    if not secret.exists():
        lance.write_dataset(pa.table({"day": [date(2025, 6, 1)], "origin": ["SFO"], "n": [1]}), str(secret))
    sql = f"ALTER TABLE {copied} ATTACH TABLE '{path.format(t=copied)}' PARTITION ({JUNE})"
    assert message in database.refuses(sql)
    assert secret.exists()
    assert len(stored_tables(database.root / copied)) == 9


def test_no_link_is_attached(database: Database, copied: str) -> None:
    elsewhere = database.root.parent / f"{copied}_elsewhere"
    lance.write_dataset(pa.table({"day": [date(2025, 6, 1)], "origin": ["SFO"], "n": [1]}), str(elsewhere))
    (database.root / f"{copied}_link.lance").symlink_to(elsewhere)
    sql = f"ALTER TABLE {copied} ATTACH TABLE '{copied}_link' PARTITION ({JUNE})"
    assert "is a symbolic link" in database.refuses(sql)
    outside(database, f"{copied}_june")
    (file, *_) = (database.root / f"{copied}_june.lance" / "data").iterdir()
    file.rename(elsewhere / file.name)
    file.symlink_to(elsewhere / file.name)
    assert "in another place" in database.refuses(sql.replace("_link", "_june"))


def test_a_table_with_branches_is_not_attached(database: Database, copied: str) -> None:
    name = outside(database, f"{copied}_june")
    lance.dataset(str(database.root / f"{name}.lance")).create_branch("w")
    sql = f"ALTER TABLE {copied} ATTACH TABLE '{name}' PARTITION ({JUNE})"
    assert "has the branch 'w'" in database.refuses(sql)
    assert database.value(f"SELECT count(*) FROM {name}") == 2


def test_nothing_is_attached_or_detached_on_a_branch_or_in_a_transaction(database: Database, copied: str) -> None:
    name = outside(database, f"{copied}_june")
    database.run(f"ALTER TABLE {copied} CREATE BRANCH b")
    statements = [f"ATTACH TABLE '{name}' PARTITION ({JUNE})", "DETACH PARTITION (month = 3, origin = 'JFK')"]
    for statement in statements:
        with database.client() as client:
            client.run("SET branch = 'b'")
            assert "on the main branch only" in client.refuses(f"ALTER TABLE {copied} {statement}")
    for statement in [*statements, "DROP PARTITION (month = 3)"]:
        with database.client(autocommit=False) as client:
            assert "not altered inside a transaction" in client.refuses(f"ALTER TABLE {copied} {statement}")
    assert len(stored_tables(database.root / copied)) == 9


# And back again.


def test_a_detached_partition_is_a_table_and_no_partition_any_more(database: Database, copied: str) -> None:
    before, version = stored_by_value(database.root / copied, "n"), manifest(database.root / copied).version
    assert database.run(f"ALTER TABLE {copied} DETACH PARTITION (month = 3, origin = NULL) TO {copied}_out") == 2
    assert stored_by_value(database.root / copied, "n") == {v: n for v, n in before.items() if v != (3, None)}
    assert manifest(database.root / copied).version == version + 1
    assert database.rows(f"SELECT * FROM {copied}_out ORDER BY n") == [(date(2025, 3, 1), None, n) for n in (1, 2)]
    assert lance.dataset(str(database.root / f"{copied}_out.lance")).count_rows() == 2
    assert database.value(f"SELECT count(*) FROM {copied}@{version}") == 18, "older snapshots have it"
    database.run(f"ALTER TABLE {copied} ATTACH TABLE '{copied}_out' PARTITION (month = 3, origin = NULL)")
    assert stored_by_value(database.root / copied, "n") == before


def test_what_is_detached_is_what_the_pin_shows(database: Database, copied: str) -> None:
    database.run(f"UPDATE {copied} SET n = 7 WHERE date_part('month', day) = 3 AND origin = 'JFK' AND n = 2")
    found = partition(database, copied, 3, "JFK")
    assert found is not None
    dead = pa.table({"day": [date(2025, 3, 1)], "origin": ["JFK"], "n": pa.array([666], pa.int32())})
    lance.write_dataset(dead, found.dataset.uri, mode="append")
    database.run(f"ALTER TABLE {copied} DETACH PARTITION (month = 3, origin = 'JFK')")
    assert sorted(database.rows(f"SELECT n FROM {copied}_3_jfk")) == [(1,), (7,)]


def test_there_is_nothing_to_detach_from_an_empty_table(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (p INT) PARTITIONED BY (p)")
    assert "0 tables of" in database.refuses(f"ALTER TABLE {table} DETACH PARTITION (p = 1)")
    assert database.run(f"ALTER TABLE {table} DROP PARTITION (p = 1)") == 0


A_MONTH = 30 * 24 * 3600
VERSIONS = [
    ("event_date", events(*((n, DAYS[n % 3], "US") for n in range(6)), (6, None, "DE"), (7, DAYS[1], "DE"))),
    ("bucket(4, id)", events(*((n, DAYS[n % 3], ["FR", None][n % 2]) for n in range(10, 16)))),
    ("year(event_date), country", events(*((n, DAYS[n % 3], ["US", "DE", None][n % 3]) for n in range(20, 26)))),
]
ROWS = [row for _, data in VERSIONS for row in data.to_pylist()]


@pytest.fixture(scope="module")
def evolved_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "root"
    place.mkdir()
    evolved(place, EVENTS, VERSIONS)
    return place


@pytest.fixture
def root(tmp_path: Path, evolved_template: Path) -> Path:
    shutil.copytree(evolved_template, tmp_path / "root")
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
