"""Columns and specs that change on a branch, on main, or on both, and come together when the branch is published."""

from __future__ import annotations

import json
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.catalog import schema_evolution

from tests.engine.database import Database
from tests.stock import manifest, manifest_rows, stored_tables

pytestmark = pytest.mark.slow  # each case publishes, and reads all rows by each of their values

Rows = list[dict[str, Any]]
OLD: Rows = [{"id": 1, "p": "a", "v": 10}, {"id": 2, "p": "a", "v": 20}, {"id": 3, "p": "b", "v": 30}]


@pytest.fixture(scope="module")
def template(database: Database) -> str:
    """A table by `p` with rows in the partitions a and b, and a branch `draft` of it."""
    database.run("CREATE TABLE template (id BIGINT, p VARCHAR, v INT) PARTITIONED BY (p)")
    database.run("INSERT INTO template VALUES (1, 'a', 10), (2, 'a', 20), (3, 'b', 30)")
    database.run("ALTER TABLE template CREATE BRANCH draft")
    return "template"


def on(database: Database, table: str, statements: str, *, branch: bool = False) -> None:
    """Run statements, one a line, on `{t}`, which is main or the branch; one that does not name it says how to alter it."""
    name = f'"{table}@draft"' if branch else table
    for statement in statements.splitlines():
        database.run(statement.format(t=name) if "{t}" in statement else f"ALTER TABLE {name} {statement}")


def publish(database: Database, table: str) -> None:
    assert database.run(f"ALTER TABLE {table} PUBLISH BRANCH draft") == 0


def rows(database: Database, reference: str) -> Rows:
    found: Rows = database.query(f'SELECT * FROM "{reference}"').to_pylist()
    return sorted(found, key=lambda row: int(row.get("id") or row.get("number") or 0))


def stored(database: Database, table: str) -> Rows:
    """What stock Lance reads of all partition tables."""
    found = [row for each in stored_tables(database.root / table) for row in each.dataset.to_table().to_pylist()]
    return sorted(found, key=lambda row: int(row.get("id") or row.get("number") or 0))


def specs(database: Database, table: str) -> dict[str, Any]:
    metadata = manifest(database.root / table).metadata
    return {key: json.loads(text) for key, text in metadata.items() if key.startswith("partition_spec_v")}


def with_(name: str, *values: Any) -> Rows:
    return [{**row, name: value} for row, value in zip(OLD, values, strict=True)]


CHANGES = [
    pytest.param("ADD COLUMN c VARCHAR", with_("c", None, None, None), id="add"),
    pytest.param("ADD COLUMN c BIGINT AS (id * 2)", with_("c", 2, 4, 6), id="add computed"),
    pytest.param("DROP COLUMN p", [{"id": r["id"], "v": r["v"]} for r in OLD], id="drop a source"),
    pytest.param("ALTER COLUMN id SET NOT NULL", OLD, id="not null"),
    pytest.param("ALTER COLUMN v FIRST", OLD, id="move"),
    pytest.param("SET PARTITIONED BY (v)\nALTER COLUMN v TYPE BIGINT", OLD, id="both"),
    ("SET PARTITIONED BY (v)\nREWRITE PARTITIONS\nADD COLUMN c INT", with_("c", None, None, None)),
]


@pytest.mark.parametrize(("statements", "expected"), CHANGES)
def test_what_changes_on_a_branch_comes_to_main_in_one_commit(
    database: Database, copied: str, statements: str, expected: Rows
) -> None:
    before = int(manifest(database.root / copied).version)
    untouched = manifest_rows(database.root / copied), manifest(database.root / copied).metadata
    on(database, copied, statements, branch=True)
    assert rows(database, f"{copied}@draft") == expected
    assert rows(database, copied) == OLD
    assert (manifest_rows(database.root / copied), manifest(database.root / copied).metadata) == untouched
    columns = database.query(f'SELECT * FROM "{copied}@draft"').schema
    publish(database, copied)
    assert rows(database, copied) == stored(database, copied) == expected
    assert database.query(f"SELECT * FROM {copied}").schema == columns
    done = database.rows(f"SELECT version FROM {copied}$snapshots WHERE operation = 'publish branch draft'")
    assert len(done) == 1
    assert rows(database, f"{copied}@{before}") == OLD
    assert rows(database, f"{copied}@{done[0][0]}") == expected
    version = int(manifest(database.root / copied).version)
    publish(database, copied)
    assert int(manifest(database.root / copied).version) == version


MERGED = [
    pytest.param(
        "ALTER COLUMN v TYPE BIGINT\nINSERT INTO {t} VALUES (4, 'c', 5000000000)",
        "DELETE FROM {t} WHERE id = 3\nINSERT INTO {t} VALUES (5, 'n', 50)",
        [*OLD[:2], {"id": 4, "p": "c", "v": 5000000000}, {"id": 5, "p": "n", "v": 50}],
        id="a wider type here, rows there",
    ),
    pytest.param(
        "ADD COLUMN c BIGINT AS (id * 2)",
        "INSERT INTO {t} VALUES (5, 'n', 50)\nDROP COLUMN v",
        [{"id": n, "p": p, "c": c} for n, p, c in ((1, "a", 2), (2, "a", 4), (3, "b", 6), (5, "n", None))],
        id="computed here, others there",
    ),
    pytest.param(
        "SET PARTITIONED BY (v)\nINSERT INTO {t} VALUES (4, 'a', 40)",
        "ALTER COLUMN v TYPE BIGINT\nINSERT INTO {t} VALUES (5, 'c', 5000000000)",
        [*OLD, {"id": 4, "p": "a", "v": 40}, {"id": 5, "p": "c", "v": 5000000000}],
        id="a spec here, its column wider there",
    ),
    ("DROP PARTITION (p = 'a')", "ADD COLUMN c INT DEFAULT 7", [{"id": 3, "p": "b", "v": 30, "c": 7}]),
    pytest.param(
        "ADD COLUMN c INT NOT NULL DEFAULT 7\nALTER COLUMN c DROP DEFAULT",
        "INSERT INTO {t} VALUES (5, 'n', 50)",
        [*with_("c", 7, 7, 7), {"id": 5, "p": "n", "v": 50, "c": 7}],
        id="a default that went again here, rows there",
    ),
    ("ALTER COLUMN id SET NOT NULL", "INSERT INTO {t} VALUES (5, 'a', 50)", [*OLD, {"id": 5, "p": "a", "v": 50}]),
]


@pytest.mark.parametrize(("branch", "main", "expected"), MERGED)
def test_what_both_have_changed_apart_from_each_other_comes_together(
    database: Database, copied: str, branch: str, main: str, expected: Rows
) -> None:
    on(database, copied, branch, branch=True)
    on(database, copied, main)
    before, version = rows(database, copied), int(manifest(database.root / copied).version)
    changed = rows(database, f"{copied}@draft")
    publish(database, copied)
    assert rows(database, copied) == stored(database, copied) == expected
    assert rows(database, f"{copied}@{version}") == before
    assert rows(database, f"{copied}@draft") == changed
    for row in expected:
        for name, value in row.items():
            literal = "NULL" if value is None else f"'{value}'" if isinstance(value, str) else value
            found = database.query(f"SELECT * FROM {copied} WHERE {name} IS NOT DISTINCT FROM {literal}").to_pylist()
            assert sorted(map(str, found)) == sorted(str(each) for each in expected if each[name] == value)
    kinds = {field.name: field.type for field in manifest(database.root / copied).schema}
    for spec in specs(database, copied).values():
        for each in spec["fields"]:
            assert (
                str(kinds[f"partition_field_{each['field_id']}"]).replace("string", "utf8")
                == each["result_type"]["type"]
            )
    database.rows(f"ALTER TABLE {copied} REWRITE PARTITIONS")
    database.rows(f"ALTER TABLE {copied} COMPACT")
    database.rows(f"VACUUM {copied}")
    assert rows(database, copied) == stored(database, copied) == expected
    assert rows(database, f"{copied}@draft") == changed


REFUSED = [
    ("RENAME COLUMN v TO w", "ALTER COLUMN v TYPE BIGINT", ["both have changed column 'v'", "'v' int64", "'w' int32"]),
    ("ADD COLUMN c INT", "ADD COLUMN c VARCHAR", ["both have a column 'c' of their own"]),
    ("SET PARTITIONED BY (v)", "SET PARTITIONED BY (id)", ["both have been given another partitioning"]),
    pytest.param(
        "ADD COLUMN c BIGINT AS (id * 2)",
        "INSERT INTO {t} VALUES (4, 'a', 40)",
        ["$dataset' was changed on the main branch as well"],
        id="computed, and rows",
    ),
    pytest.param(
        "ADD COLUMN c BIGINT AS (id * 2)\nALTER COLUMN c SET DEFAULT 5",
        "INSERT INTO {t} VALUES (4, 'a', 40)",
        ["$dataset' was changed on the main branch as well"],
        id="computed with a default of later rows, and rows",
    ),
    pytest.param(
        "ALTER COLUMN v SET NOT NULL",
        "INSERT INTO {t} VALUES (4, 'n', NULL), (5, 'n', 50)",
        ["column 'v' is NOT NULL", "NULL in 1 rows"],
        id="not null, and null",
    ),
    ("SET PARTITIONED BY (expr('abs(col0)', v))", "ALTER COLUMN v TYPE BIGINT", ["v2, field 'v_expr'"]),
]


@pytest.mark.parametrize(("branch", "main", "says"), REFUSED)
def test_what_both_have_changed_is_refused_and_named(
    database: Database, copied: str, branch: str, main: str, says: list[str]
) -> None:
    on(database, copied, branch, branch=True)
    on(database, copied, main)
    before = manifest_rows(database.root / copied)
    message = database.refuses(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    assert [part for part in ("serialization_failure", "'draft'", *says) if part not in message] == []
    assert manifest_rows(database.root / copied) == before


def test_a_branch_goes_on_after_its_publication(database: Database, copied: str) -> None:
    on(
        database,
        copied,
        "ADD COLUMN c INT DEFAULT 7\nINSERT INTO {t} VALUES (4, 'a', 40, 8)",
        branch=True,
    )
    on(database, copied, "ADD COLUMN d INT\nINSERT INTO {t} VALUES (5, 'n', 50, 9)")
    publish(database, copied)
    on(
        database,
        copied,
        "ALTER COLUMN v TYPE BIGINT\nINSERT INTO {t} VALUES (6, 'a', 5000000000, 1)",
        branch=True,
    )
    on(database, copied, "RENAME COLUMN d TO e")
    publish(database, copied)
    found = [(row["id"], row["v"], row["c"], row["e"]) for row in rows(database, copied)]
    assert found == [
        (1, 10, 7, None), (2, 20, 7, None), (3, 30, 7, None), (4, 40, 8, None), (5, 50, 7, 9),
        (6, 5000000000, 1, None),
    ]  # fmt: skip
    assert stored(database, copied) == rows(database, copied)
    on(database, copied, "INSERT INTO {t} VALUES (7, 'n', 70, 2)", branch=True)
    assert "was changed on the main branch" in database.refuses(f"ALTER TABLE {copied} PUBLISH BRANCH draft")
    database.run(f"ALTER TABLE {copied} DROP BRANCH draft")
    database.run(f"VACUUM {copied}")
    assert [row["id"] for row in rows(database, copied)] == [1, 2, 3, 4, 5, 6]


def test_comments_and_keys_come_along_and_write_no_table(database: Database, copied: str) -> None:
    database.run(f"COMMENT ON COLUMN \"{copied}@draft\".v IS 'a value'")
    database.run(f"COMMENT ON TABLE \"{copied}@draft\" IS 'a table'")
    on(database, copied, "RENAME COLUMN v TO w")
    pins = [(row["read_branch"], row["read_version"]) for row in manifest_rows(database.root / copied)]
    publish(database, copied)
    assert [(row["read_branch"], row["read_version"]) for row in manifest_rows(database.root / copied)] == pins
    assert "a value" in str(database.rows(f"DESCRIBE {copied}"))
    schema = json.loads(manifest(database.root / copied).metadata["schema"])
    assert schema["metadata"]["comment"] == "a table"
    assert [field["name"] for field in schema["fields"]] == ["id", "p", "w"]


def test_two_branches_add_columns_and_both_are_published(database: Database, copied: str) -> None:
    database.run(f"ALTER TABLE {copied} CREATE BRANCH other")
    on(database, copied, "ADD COLUMN c INT DEFAULT 7", branch=True)
    database.run(f'ALTER TABLE "{copied}@other" ADD COLUMN d INT DEFAULT 8')
    publish(database, copied)
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH other")
    assert rows(database, copied) == stored(database, copied) == [{**row, "c": 7, "d": 8} for row in OLD]
    on(database, copied, "ADD COLUMN e INT")
    schema = json.loads(manifest(database.root / copied).metadata["schema"])
    ids = [int(field["metadata"]["lance:field_id"]) for field in schema["fields"]]
    assert len(set(ids)) == len(ids) == 6


def test_two_branches_add_columns_at_once_and_both_are_published(
    database: Database, copied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run(f"ALTER TABLE {copied} CREATE BRANCH other")

    def add_there(point: str) -> None:
        monkeypatch.undo()
        database.run(f'ALTER TABLE "{copied}@other" ADD COLUMN d INT DEFAULT 8')

    monkeypatch.setattr(schema_evolution, "failpoint", add_there)
    on(database, copied, "ADD COLUMN c INT DEFAULT 7", branch=True)
    publish(database, copied)
    database.run(f"ALTER TABLE {copied} PUBLISH BRANCH other")
    assert rows(database, copied) == stored(database, copied) == [{**row, "c": 7, "d": 8} for row in OLD]


def test_a_rollback_goes_behind_a_publication_and_what_changed_is_told(database: Database, copied: str) -> None:
    before = int(manifest(database.root / copied).version)
    database.run(f"ALTER TABLE {copied} CREATE TAG good")
    on(database, copied, "ADD COLUMN c INT\nINSERT INTO {t} VALUES (4, 'a', 40, 8)", branch=True)
    publish(database, copied)
    newest = int(manifest(database.root / copied).version)
    changes = database.rows(f"SELECT id, c, _change FROM table_changes('{copied}', {before}, {newest})")
    assert changes == [(4, 8, "insert")]
    assert rows(database, f"{copied}@good") == OLD
    database.run(f"ALTER TABLE {copied} ROLLBACK TO good")
    assert rows(database, copied) == OLD
    on(database, copied, "INSERT INTO {t} VALUES (9, 'a', 90)")
    assert [row["id"] for row in rows(database, copied)] == [1, 2, 3, 9]


BRANCH = "ALTER COLUMN v TYPE BIGINT\nSET PARTITIONED BY (v)\nINSERT INTO {t} VALUES (4, 'c', 40)"


def test_others_write_to_main_while_a_branch_is_published_and_nothing_is_lost(database: Database, copied: str) -> None:
    on(database, copied, BRANCH, branch=True)
    begun, ended, written = Event(), Event(), list[int]()

    def insert() -> None:
        while not ended.is_set() or len(written) < 3:
            number = 1000 + len(written)
            partition = "ab"[len(written) % 2]
            database.run(f"INSERT INTO {copied} VALUES ({number}, '{partition}', {number})")
            written.append(number)
            begun.set()

    writer = Thread(target=insert)
    writer.start()
    begun.wait(60)
    try:
        publish(database, copied)
    finally:
        ended.set()
        writer.join()
    assert database.query(f"SELECT v FROM {copied}").schema.types == [pa.int64()]
    assert [row["id"] for row in rows(database, copied)] == [1, 2, 3, 4, *written]
    assert stored(database, copied) == rows(database, copied)
