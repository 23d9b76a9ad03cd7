"""Options of reads and writes of tables that a catalog names: each does what it says, or is refused by name. No JVM runs here."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.database import Database
from tests.spark.planner import Catalog, CatalogTable, Refused


def ids(table: CatalogTable) -> list[int]:
    return sorted(row["id"] for row in table.scan().rows())


def stored(database: Database, table: str) -> list[int]:
    return sorted(row[0] for row in database.rows(f"SELECT id FROM {table}"))


@pytest.fixture
def history(database: Database, table: str) -> dict[str, Any]:
    """A table with rows 1 and 2, of which a tag, a branch, a version and a moment have the first, and the branch a third."""
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, k BIGINT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1)")
    database.run(f"ALTER TABLE {table} CREATE TAG early")
    database.run(f"ALTER TABLE {table} CREATE BRANCH side")
    version = database.value(f'SELECT max(version) FROM "{table}$snapshots"')
    moment = dt.datetime.now(dt.UTC)
    database.run(f'INSERT INTO "{table}@side" VALUES (3, 1)')
    database.run(f"INSERT INTO {table} VALUES (2, 2)")
    return {"table": table, "version": version, "moment": moment}


def test_a_read_is_of_what_its_options_name(catalog: Catalog, history: Mapping[str, Any]) -> None:
    table = catalog.table(history["table"])
    for options, rows in [
        ({}, [1, 2]),
        ({"snapshot": str(history["version"])}, [1]),
        ({"SNAPSHOT": str(history["version"])}, [1]),
        ({"tag": "early"}, [1]),
        ({"branch": "side"}, [1, 3]),
        ({"time": history["moment"].isoformat()}, [1]),
        ({"tag": "early", "partitions": "1"}, [1]),
        ({"partitions": "1", "versionAsOf": "9"}, [1, 2]),
    ]:
        assert ids(table.with_options(**options)) == rows, options
    assert len(table.with_options(partitions="1").scan().parts()) == 1
    assert ids(table) == [1, 2]


REFUSED_READS = {
    "unknown": ({"nonsense": "x"}, r"option 'nonsense'; expected snapshot, tag, branch, time, partitions"),
    "of a stream": ({"starting": "latest"}, "option 'starting'; expected readStream"),
    "a filter": ({"Filter": "id = 1"}, "option 'filter'; expected WHERE"),
    "columns": ({"columns": "id"}, "option 'columns'; expected the columns in SELECT"),
    "of a write": ({"commit_id": "x"}, "option 'commit_id'"),
    "two points": ({"tag": "early", "branch": "side"}, "expected one of tag, branch, not several"),
    "no number": ({"snapshot": "first"}, "'snapshot' is 'first'; expected a number from 1 on"),
    "no version": ({"snapshot": "900"}, "has no version 900"),
    "a branch as a tag": ({"tag": "side"}, "no tag 'side'"),
    "a tag as a branch": ({"branch": "early"}, "no branch 'early'"),
    "before its time": ({"time": "2020-01-01"}, "2020-01-01"),
}


def test_an_option_that_a_read_does_not_have_is_refused(
    catalog: Catalog, database: Database, history: Mapping[str, Any]
) -> None:
    name = history["table"]
    for options, message in REFUSED_READS.values():
        with pytest.raises(Refused, match=message):
            catalog.table(name).with_options(**options)
    version = str(history["version"])
    with pytest.raises(Refused, match="option 'snapshot' of a read AS OF another point"):
        catalog.table(name, version=version).with_options(snapshot=version)
    with pytest.raises(Refused, match="a metadata table have no versions"):
        catalog.table(f"{name}.files").with_options(snapshot=version)
    # Spark has planned with the columns of now.
    database.run(f"ALTER TABLE {name} ADD COLUMN more INT")
    with pytest.raises(Refused, match=r"other columns at snapshot.*expected VERSION AS OF"):
        catalog.table(name).with_options(snapshot=version)
    # Nor may a column hold NULL where Spark was told that it does not.
    database.run(f"ALTER TABLE {name} DROP COLUMN more, ALTER COLUMN id DROP NOT NULL")
    assert ids(catalog.table(name)) == [1, 2]
    with pytest.raises(Refused, match="other columns at snapshot"):
        catalog.table(name).with_options(snapshot=version)


def test_a_write_is_as_its_options_say(
    catalog: Catalog, database: Database, history: Mapping[str, Any], tmp_path: Path
) -> None:
    name = history["table"]
    table = catalog.table(name)
    report = {"report": str(tmp_path / "report")} if "root" in catalog.options else {}

    def write(key: int, replaces: str = "nothing", **options: str) -> None:
        table.write(table.batches([{"id": key, "k": 1}]), replaces=replaces, options=options)

    write(10, commit_id="once", **report)
    write(10, Commit_Id="once")
    assert stored(database, name) == [1, 2, 10]
    assert not report or json.loads((tmp_path / "report").read_text())["rows"] == 1
    write(20, "table", commit_id="once")
    assert stored(database, name) == [1, 2, 10]
    write(11, branch="side")
    assert (stored(database, name), stored(database, f'"{name}@side"')) == ([1, 2, 10], [1, 3, 11])
    write(12, "partitions", branch="side")
    assert (stored(database, name), stored(database, f'"{name}@side"')) == ([1, 2, 10], [12])
    with pytest.raises(Refused, match="changed by another writer") as raised:
        write(13, "table", snapshot=str(history["version"]))
    assert (raised.value.code, raised.value.sqlstate) == ("serialization_failure", "40001")
    assert stored(database, name) == [1, 2, 10]
    write(13, "table", snapshot=str(database.value(f'SELECT max(version) FROM "{name}$snapshots"')))
    assert stored(database, name) == [13]


REFUSED_WRITES = {
    "unknown": ({"nonsense": "x"}, "option 'nonsense'; expected commit_id, branch, snapshot, report"),
    "of another way": ({"overwrite": "table"}, "option 'overwrite'; expected INSERT OVERWRITE"),
    "of a new table": ({"file_version": "2.1"}, "option 'file_version'; expected TBLPROPERTIES"),
    "no number": ({"snapshot": "x"}, "'snapshot' is 'x'"),
    "no branch": ({"branch": "nowhere"}, "nowhere"),
}


def test_an_option_that_a_write_does_not_have_is_refused(
    catalogs: Mapping[str, Catalog], database: Database, history: Mapping[str, Any]
) -> None:
    name = history["table"]
    for options, message in REFUSED_WRITES.values():
        with pytest.raises(Refused, match=message):
            catalogs["lake"].table(name).begin(options=options)
    with pytest.raises(Refused, match="option 'report' through a server"):
        catalogs["far"].table(name).begin(options={"report": "1"})
    # A MERGE that only inserts is an append of what its target, with the same options, does not have.
    for options in ({"branch": "side"}, {"snapshot": str(history["version"])}):
        with pytest.raises(Refused, match=r"MERGE of a table: option '(branch|snapshot)'; expected none"):
            catalogs["lake"].table(name).with_options(**options).begin(options=options, compared=[])
    for command in ("UPDATE", "DELETE", "MERGE"):
        with pytest.raises(Refused, match=f"{command} of a table: option 'commit_id'; expected none"):
            catalogs["lake"].ask("check_row_options", command=command, write_options={"commit_id": "x"})
    assert stored(database, name) == [1, 2]
