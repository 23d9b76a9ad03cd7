"""Writes of the connector's catalogs, asked as their JVM asks: each leaves the rows that the service's own SQL leaves, in one commit.

No JVM runs here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, LongType, StringType

from tests.engine.database import Database
from tests.service.server_process import files
from tests.spark.offers import Nodes, Offers
from tests.spark.planner import Catalog, CatalogTable, Refused, Tasks, message
from tests.spark.row_statements import COLUMNS, ROWS, SHAPES
from tests.spark.statements import CHANGES, created
from tests.spark.tables import SHAPES as KINDS

Row = dict[str, Any]
Become = Callable[[Row], Row | None]


def copied(database: Database, shape: str, name: str) -> None:
    """Put a table of forty rows beside the others."""
    of = f"forty_{shape}"
    suffix = "" if SHAPES[shape] else ".lance"
    if not (database.root / f"{of}{suffix}").exists():
        database.run(f"CREATE TABLE {of} {COLUMNS} {SHAPES[shape]}")
        database.run(f"INSERT INTO {of} {ROWS}")
    shutil.copytree(database.root / f"{of}{suffix}", database.root / f"{name}{suffix}")


def rows(database: Database, table: str) -> list[str]:
    return sorted(map(repr, database.rows(f"SELECT * FROM {table}")))


def versions(database: Database, table: str) -> int:
    return int(database.value(f'SELECT count(*) FROM "{table}$snapshots"'))


def batches(table: CatalogTable, *given: Row) -> list[pa.RecordBatch]:
    """Rows as a task is given them."""
    return table.batches(given)


EFFECTS: Mapping[str, Become] = {
    "delete by an expression": lambda row: None if row["id"] % 5 == 3 else row,
    "delete nothing": lambda row: row,
    "update": lambda row: row | ({"s": "changed", "x": row["x"] + 1} if row["k"] == 1 and row["id"] % 3 == 0 else {}),
    "update the partition": lambda row: row | ({"k": row["k"] + 10} if row["k"] >= 2 else {}),
    "update to NULL": lambda row: row | ({"s": None} if row["x"] > 7.5 else {}),
    "update all": lambda row: row | {"x": 0.0},
}
"""What Spark makes of a row that a change has read."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("change", [name for name in CHANGES if name != "overwrite a partition"])
def test_a_change_leaves_the_rows_that_the_service_leaves(
    catalog: Catalog, database: Database, offers: Offers, table: str, *, shape: str, change: str
) -> None:
    for name in (table, f"{table}_theirs"):
        copied(database, shape, name)
    before, statement = versions(database, table), CHANGES[change]
    found = catalog.table(table)
    is_deletion = statement.startswith("DELETE")
    (asked,) = offers.of(statement, "can_delete" if is_deletion else "push_predicates")[:1]
    can_delete = is_deletion and found.ask("can_delete", **asked)
    assert can_delete == (is_deletion and change not in EFFECTS)
    if can_delete:
        found.ask("delete_where", **asked)
    else:
        found.change(asked["predicates"], EFFECTS[change])
    database.run(statement.replace(" changed", f" {table}_theirs", 1))
    assert rows(database, table) == rows(database, f"{table}_theirs")
    assert versions(database, table) - before <= 1


def three(offers: Offers) -> Nodes:
    """The predicates of an INSERT OVERWRITE … PARTITION (k = 3)."""
    found: Nodes = offers.of(CHANGES["overwrite a partition"], "can_delete")[0]["predicates"]
    return found


OVERWRITTEN = {
    "nothing": ("nothing", [1, 9], "true"),
    "of nobody": ("nothing", [], "true"),
    "dynamic": ("partitions", [1, 9], "k NOT IN (1, 9)"),
    "dynamic, with nothing": ("partitions", [], "true"),
    "static": ("table", [1], "false"),
    "truncated": ("table", [], "false"),
    "a partition": ("read", [3], "k <> 3"),
    "a partition, with nothing": ("read", [], "k <> 3"),
}


@pytest.mark.parametrize(("replaces", "keys", "kept"), OVERWRITTEN.values(), ids=OVERWRITTEN)
def test_rows_are_added_or_replace_what_they_name_in_one_commit(
    catalog: Catalog, database: Database, offers: Offers, table: str, *, replaces: str, keys: Sequence[int], kept: str
) -> None:
    copied(database, "identity", table)
    new = [(1000 + k, k, "y", None, None) for k in keys]
    expected = sorted(map(repr, [*database.rows(f"SELECT * FROM {table} WHERE {kept}"), *new]))
    count, found = versions(database, table), catalog.table(table)
    parts = [batches(found, {"id": 1000 + k, "k": k, "s": "y"}) for k in keys]
    found.write(*parts, [], replaces=replaces, predicates=three(offers) if replaces == "read" else ())
    assert rows(database, table) == expected
    assert versions(database, table) - count <= 1


@pytest.mark.parametrize("keys", [[7, 8], []], ids=["rows", "nothing"])
def test_a_plain_table_is_overwritten(catalog: Catalog, database: Database, table: str, keys: Sequence[int]) -> None:
    copied(database, "plain", table)
    found = catalog.table(table)
    found.write(batches(found, *({"id": k} for k in keys)), replaces="table")
    assert [row[0] for row in database.rows(f"SELECT id FROM {table} ORDER BY id")] == keys


def test_an_overwrite_of_parts_of_partitions_is_refused(
    catalogs: Mapping[str, Catalog], database: Database, offers: Offers, table: str
) -> None:
    copied(database, "bucket", table)
    with pytest.raises(Refused, match="whole partitions"):
        catalogs["lake"].table(table).begin(replaces="read", predicates=three(offers))


def test_views_metadata_tables_and_branches_take_no_rows(
    catalogs: Mapping[str, Catalog], database: Database, table: str
) -> None:
    copied(database, "identity", table)
    database.run(f"CREATE VIEW {table}_v AS SELECT * FROM {table}")
    database.run(f"ALTER TABLE {table} CREATE BRANCH side")
    for catalog in catalogs.values():
        for name in (f"{table}_v", f"{table}.files"):
            found = catalog.table(name)
            assert not found.loaded["takes_rows"]
            with pytest.raises(Refused, match="rows are written to tables"):
                found.begin()


# A partition that was attached without all columns takes no rows, from nobody.
@pytest.mark.parametrize("shape", [shape for shape in KINDS if shape != "disagreeing"])
def test_every_kind_of_table_takes_its_own_rows(
    catalog: Catalog, database: Database, shapes: Mapping[str, str], table: str, *, shape: str
) -> None:
    suffix = ".lance" if shape == "plain" else ""
    shutil.copytree(database.root / f"{shapes[shape]}{suffix}", database.root / f"{table}{suffix}")
    found = catalog.table(table)
    before = database.rows(f"SELECT * FROM {table}")
    found.write(*(part.to_batches() for part in found.scan().parts()))
    assert rows(database, table) == sorted(map(repr, [*before, *before]))


TYPED = pa.table(
    {
        "id": pa.array([1, 2], pa.uint32()),
        "large": pa.array([2**64 - 1, None], pa.uint64()),
        "half": pa.array([1.5, None], pa.float16()),
        "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        "nanos": pa.array([1_000, None], pa.timestamp("ns")),
        "tokyo": pa.array([1, None], pa.timestamp("s", "Asia/Tokyo")),
        "day": pa.array([1, None], pa.date32()),
        "money": pa.array([None, 2], pa.decimal128(20, 2)),
        "bytes": pa.array([b"\x00", None], pa.large_binary()),
        "texts": pa.array([["a", None], None], pa.list_(pa.large_utf8())),
        "inner": pa.array([{"x y": 1, "z": None}, None], pa.struct([("x y", pa.uint8()), ("z", pa.utf8())])),
    }
)


@pytest.mark.parametrize("partition_by", ["id", None])
def test_types_that_spark_has_not_are_stored_as_they_were(
    catalog: Catalog, database: Database, table: str, partition_by: str | None
) -> None:
    database.ingest(table, TYPED, partition_by=partition_by)
    stored = database.query(f"SELECT * FROM {table} ORDER BY id")
    found = catalog.table(table)
    found.write(*(part.to_batches() for part in found.scan().parts()))
    assert database.query(f"SELECT * FROM {table} ORDER BY id") == pa.concat_tables(
        [stored.slice(at, 1) for at in (0, 0, 1, 1)]
    )


IMAGES = {1: b"a" * 10, 2: None, 3: b"b" * 70_000, 4: b""}


@pytest.mark.parametrize("layout", ["", " PARTITIONED BY (site)"], ids=["plain", "partitioned"])
def test_blobs_stay_such_beside_what_spark_writes(
    catalog: Catalog, database: Database, table: str, layout: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, site VARCHAR, image BLOB){layout}")
    for number, image in IMAGES.items():
        database.run(f"INSERT INTO {table} VALUES ({number}, '{number % 2}', ${1})", [image])
    found = catalog.table(table)
    assert found.schema["image"].dataType.simpleString() == "binary"
    assert {row["id"]: row["image"] for row in found.scan().rows()} == IMAGES
    found.write(batches(found, {"id": 13, "site": "1", "image": IMAGES[3]}))
    expected = {**IMAGES, 13: IMAGES[3]}
    if layout or "root" in catalog.options:  # a server changes no rows of plain tables for Spark
        catalog.table(table).change((), lambda row: {1: row | {"image": b"\xff"}, 4: None}.get(row["id"], row))
        expected = {1: b"\xff", 2: None, 3: IMAGES[3], 13: IMAGES[3]}
    assert dict(database.rows(f"SELECT id, image FROM {table}")) == expected
    kind = "SELECT data_type FROM information_schema.columns WHERE column_name = 'image' AND table_name ="
    assert database.value(f"{kind} '{table}'") == "BLOB"


OURS: Become = lambda row: row | {"s": "ours"}  # noqa: E731
CONFLICTS = {
    "an update of the same rows": ("UPDATE {} SET s = 'theirs' WHERE id = 1", True),
    "an insert into the same partition": ("INSERT INTO {} (id, k) VALUES (500, 1)", True),
    "an insert into another partition": ("INSERT INTO {} (id, k) VALUES (500, 2)", False),
    "an update of other rows": ("UPDATE {} SET s = 'theirs' WHERE k = 3", False),
}


@pytest.mark.parametrize(("theirs", "is_conflict"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_change_beside_one_of_the_same_rows_is_a_conflict(
    catalog: Catalog, database: Database, offers: Offers, table: str, theirs: str, *, is_conflict: bool
) -> None:
    copied(database, "identity", table)
    predicates = offers.of(CHANGES["update"], "push_predicates")[0]["predicates"][:2]
    found = catalog.table(table)
    hits = []

    def ours(row: Row) -> Row:
        if not hits:
            hits.append(database.run(theirs.format(table)))
        return OURS(row) or {}

    if is_conflict:
        with pytest.raises(Refused, match="changed by another writer"):
            found.change(predicates, ours)
    else:
        found.change(predicates, ours)
    assert database.value(f"SELECT count(*) FROM {table} WHERE s = 'ours'") == (0 if is_conflict else 10)
    assert database.value(f"SELECT count(*) FROM {table} WHERE s = 'theirs' OR id = 500") in hits


NEW = {
    "the same row": ("INSERT INTO {} VALUES (900, 1, 'theirs', NULL, 0)", True),
    "a row beside it": ("INSERT INTO {} VALUES (901, 1, 'theirs', NULL, 0)", True),
    "a row of another partition": ("INSERT INTO {} VALUES (902, 2, 'theirs', NULL, 0)", False),
    "nothing": ("DELETE FROM {} WHERE id = -1", False),
}


@pytest.mark.parametrize(("theirs", "is_conflict"), NEW.values(), ids=NEW)
def test_rows_that_are_new_to_a_table_are_so_when_they_are_committed(
    catalog: Catalog, database: Database, offers: Offers, table: str, theirs: str, *, is_conflict: bool
) -> None:
    copied(database, "identity", table)
    found = catalog.table(table)
    partition = [each for each in offers.of(CHANGES["update"], "push_predicates")[0]["predicates"] if "k" in str(each)]
    ours = batches(found, {"id": 900, "k": 1, "s": "ours"})
    database.run(theirs.format(table))
    if is_conflict:
        with pytest.raises(Refused, match="changed by another writer") as raised:
            found.write(ours, compared=partition)
        assert (raised.value.code, raised.value.sqlstate) == ("serialization_failure", "40001")
    else:
        found.write(ours, compared=partition)
    assert database.value(f"SELECT count(*) FROM {table} WHERE s = 'ours'") == (0 if is_conflict else 1)
    # Rows that are compared with nothing never conflict.
    found.write(ours)
    assert database.value(f"SELECT count(*) FROM {table} WHERE s = 'ours'") == (1 if is_conflict else 2)


def test_a_branch_is_changed_whatever_spark_finds_at_run_time(
    catalogs: Mapping[str, Catalog], database: Database, offers: Offers, table: str
) -> None:
    copied(database, "identity", table)
    database.run(f"ALTER TABLE {table} CREATE BRANCH side")
    found = catalogs["lake"].table(f"{table}@side")
    predicates = list(offers.of(CHANGES["update"], "push_predicates")[0]["predicates"])
    assert set(found.uses(predicates)) == {"none"}
    planned = found.ask("plan_whole_partitions", columns=found.schema.names, predicates=predicates)
    assert len(Tasks(planned).rows()) == 40
    assert len(Tasks(found.ask("plan_scan", columns=["id"], predicates=predicates)).rows()) == 40


def test_rows_are_compared_with_a_plain_table_and_a_branch(
    catalogs: Mapping[str, Catalog], database: Database, table: str
) -> None:
    copied(database, "plain", f"{table}_plain")
    copied(database, "identity", table)
    database.run(f"ALTER TABLE {table} CREATE BRANCH side")
    copied(database, "plain", f"{table}_far")
    for place, name in {"lake": f"{table}_plain", "far": f"{table}_far"}.items() | {("lake", f"{table}@side")}:
        found = catalogs[place].table(name)
        ours = batches(found, {"id": 900, "k": 1, "s": "ours"})
        found.write(ours, compared=[])
        with pytest.raises(Refused, match="changed by another writer"):
            found.write(ours, compared=[])
        assert database.value(f"SELECT count(*) FROM \"{name}\" WHERE s = 'ours'") == 1
    assert database.value(f"SELECT count(*) FROM {table} WHERE s = 'ours'") == 0


def test_a_row_that_does_not_fit_fails_its_task_and_leaves_the_root_as_it_was(
    catalog: Catalog, database: Database, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, k BIGINT) PARTITIONED BY (k)")
    before = files(database.root)
    found = catalog.table(table)
    begun = found.begin()
    done = message(begun, batches(found, {"id": 1, "k": 1}))
    with pytest.raises(Exception, match="NULL"):
        message(begun, batches(found, {"id": None, "k": 1}))
    found.ask("abort_write", write=begun["write"], messages=[done, None])
    assert files(database.root) == before


def test_a_task_that_says_nothing_is_an_error(catalogs: Mapping[str, Catalog], database: Database, table: str) -> None:
    copied(database, "identity", table)
    found = catalogs["lake"].table(table)
    begun = found.begin()
    with pytest.raises(Refused, match="nothing was committed"):
        found.ask("commit_write", write=begun["write"], messages=[None])


SOURCE = [{"id": n, "s": None if n % 5 == 0 else f"r{n}"} for n in range(30)]


def staged(catalog: Catalog, offers: Offers, table: str, *, replace: bool = False) -> CatalogTable:
    """Begin to make a table of thirty rows."""
    (definition,) = offers.of(created("s"), "create_table")
    return CatalogTable(catalog, catalog.ask("stage_table", **{**definition, "name": table, "replace": replace}))


def end(made: CatalogTable, *, commit: bool) -> None:
    made.catalog.ask("end_table", staged=made.loaded["staged"], commit=commit)


def publish(made: CatalogTable) -> None:
    made.write(batches(made, *SOURCE))
    end(made, commit=True)


def test_a_table_is_made_whole(catalog: Catalog, database: Database, offers: Offers, table: str) -> None:
    made = staged(catalog, offers, table)
    made.write(batches(made, *SOURCE[:20]), batches(made, *SOURCE[20:]))
    assert not database.rows(f"SHOW TABLES LIKE '{table}'")
    with pytest.raises(Refused, match="is being made"):
        made.scan()
    end(made, commit=True)
    assert sorted(row[0] for row in database.rows(f"SELECT id FROM {table}")) == list(range(30))
    assert database.rows(f"SHOW CREATE TABLE {table}")[0][3].endswith("COMMENT 'made'")
    other = staged(catalog, offers, table, replace=True)
    other.write(batches(other, {"id": 7, "s": "new"}))
    assert database.value(f"SELECT count(*) FROM {table}") == 30
    end(other, commit=True)
    assert database.rows(f"SELECT id, s FROM {table}") == [(7, "new")]
    end(staged(catalog, offers, table, replace=True), commit=True)
    assert database.rows(f"SELECT id FROM {table}") == []


@pytest.mark.parametrize("replace", [False, True])
def test_a_table_that_is_given_up_leaves_no_file(
    catalog: Catalog, database: Database, offers: Offers, table: str, *, replace: bool
) -> None:
    if replace:
        database.run(f"CREATE TABLE {table} AS SELECT 7 AS old")
    before = files(database.root)
    made = staged(catalog, offers, table, replace=replace)
    begun = made.begin()
    done = message(begun, batches(made, *SOURCE))
    made.ask("abort_write", write=begun["write"], messages=[done, None])
    end(made, commit=False)
    assert files(database.root) == before


def test_a_name_that_is_taken_meanwhile_stays_with_who_took_it(
    catalog: Catalog, database: Database, offers: Offers, table: str
) -> None:
    made = staged(catalog, offers, table)
    database.run(f"CREATE TABLE {table} AS SELECT 'theirs' AS s")
    with pytest.raises(Refused, match="there already"):
        publish(made)
    end(made, commit=False)
    assert database.rows(f"SELECT s FROM {table}") == [("theirs",)]
    with pytest.raises(Refused, match="there already"):
        staged(catalog, offers, table)


def test_a_table_of_a_process_that_was_started_again_is_no_more(catalogs: Mapping[str, Catalog]) -> None:
    with pytest.raises(Refused, match="run the statement again"):
        catalogs["lake"].ask("end_table", staged="unknown", commit=True)
    catalogs["lake"].ask("end_table", staged="unknown", commit=False)


def added(*path: str, kind: DataType) -> dict[str, object]:
    return {
        "change": "add",
        "column": list(path),
        "type": kind.json(),
        "nullable": True,
        "comment": None,
        "collated": None,
    }


WIDENED = {"change": "type", "column": ["n"], "type": LongType().json(), "collated": None}


def evolving(catalog: Catalog, database: Database, table: str) -> CatalogTable:
    """A table with the columns that a write is going to commit: a new one, one inside a struct, and one of another type."""
    database.run(f"CREATE TABLE {table} (id BIGINT, k INT, n INT, s STRUCT(a INT)) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1, 10, {{'a': 1}}), (2, 2, 20, NULL)")
    changes = [added("more", kind=StringType()), added("s", "b", kind=StringType()), WIDENED]
    return CatalogTable(catalog, catalog.named("evolve_table", table, changes=changes))


def test_rows_are_changed_under_columns_that_are_committed_with_them(
    catalog: Catalog, database: Database, table: str
) -> None:
    evolved = evolving(catalog, database, table)
    before = database.value(f'SELECT max(version) FROM "{table}$snapshots"')

    def become(row: dict[str, Any]) -> dict[str, Any]:
        assert row["more"] is None
        return {**row, "n": row["n"] + (1 << 40), "more": "m", "s": row["s"] and {**row["s"], "b": "b"}}

    evolved.change([], become)
    made = f"SELECT operation FROM \"{table}$snapshots\" WHERE version > {before} AND operation <> 'metadata'"
    assert len(database.rows(made)) == 1
    assert database.rows(f"SELECT id, k, n, more FROM {table} ORDER BY id") == [
        (1, 1, (1 << 40) + 10, "m"),
        (2, 2, (1 << 40) + 20, "m"),
    ]
    assert database.rows(f"SELECT s FROM {table} ORDER BY id") == [({"a": 1, "b": "b"},), (None,)]


@pytest.mark.parametrize("replaces", ["nothing", "partitions", "table"])
def test_columns_are_committed_with_what_is_written(
    catalog: Catalog, database: Database, table: str, replaces: str
) -> None:
    evolved = evolving(catalog, database, table)
    evolved.write(
        evolved.batches([{"id": 3, "k": 2, "n": 1 << 40, "more": "x", "s": {"a": None, "b": "y"}}]), replaces=replaces
    )
    left = {"nothing": [1, 2, 3], "partitions": [1, 3], "table": [3]}[replaces]
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(number,) for number in left]
    assert database.rows(f"SELECT n, more, s FROM {table} WHERE id = 3") == [(1 << 40, "x", {"a": None, "b": "y"})]


def test_a_write_that_is_given_up_or_meets_other_columns_changes_none(
    catalog: Catalog, database: Database, table: str
) -> None:
    evolved = evolving(catalog, database, table)
    rows = evolved.batches([{"id": 3, "k": 2}])
    begun = evolved.begin()
    evolved.ask("abort_write", write=begun["write"], messages=[message(begun, rows)])
    for options in ({"branch": "b"}, {"snapshot": "1"}):
        with pytest.raises(Refused, match="write with schema evolution"):
            evolved.write(rows, options=options)
    assert database.query(f"SELECT * FROM {table}").schema.names == ["id", "k", "n", "s"]
    begun = evolved.begin()
    said = message(begun, rows)
    database.run(f"ALTER TABLE {table} ADD COLUMN other INT")
    with pytest.raises(Refused, match="columns of table") as raised:
        evolved.ask("commit_write", write=begun["write"], messages=[said])
    assert raised.value.code == "serialization_failure"
    assert database.rows(f"SELECT id, other FROM {table} ORDER BY id") == [(1, None), (2, None)]


def test_columns_of_a_plain_table_come_first_and_a_write_that_fails_runs_again(
    catalog: Catalog, database: Database, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT)")
    database.run(f"INSERT INTO {table} VALUES (1)")
    before = catalog.table(table)
    evolved = CatalogTable(catalog, catalog.named("evolve_table", table, changes=[added("more", kind=StringType())]))
    rows = evolved.batches([{"id": 2, "more": "x"}])
    begun = evolved.begin()
    evolved.ask("abort_write", write=begun["write"], messages=[message(begun, rows)])
    assert database.rows(f"SELECT id, more FROM {table}") == [(1, None)]
    before.write(before.batches([{"id": 3}]))
    again = catalog.table(table)
    assert again.schema == evolved.schema
    again.write(rows)
    assert database.rows(f"SELECT id, more FROM {table} ORDER BY id") == [(1, None), (2, "x"), (3, None)]
