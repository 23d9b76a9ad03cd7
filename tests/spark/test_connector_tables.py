"""Tables, namespaces, views and procedures of the connector's catalogs, asked as their JVM asks. No JVM runs here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from lance_flight_client.spark.connector.procedures import PROCEDURES

from tests.engine.database import Database
from tests.spark.offers import Offers
from tests.spark.planner import Catalog, CatalogTable, Refused
from tests.spark.statements import ALTERATIONS, FIELDS, REFUSED_ALTERATIONS, REFUSED_TABLES, created

BY_THE_SERVICE = (
    "id BIGINT NOT NULL COMMENT 'the key', ts TIMESTAMPTZ, n TIMESTAMP, s VARCHAR DEFAULT 'it''s', d DECIMAL(10, 2), day DATE,"
    ' f REAL, x DOUBLE, b BYTEA, y TINYINT, l INT[], o STRUCT<a INT, "B c" VARCHAR>'
)


def shown(database: Database, table: str) -> str:
    """The statement that makes a table."""
    return str(database.rows(f"SHOW CREATE TABLE {table}")[0][-1])


def exists(database: Database, table: str) -> bool:
    return bool(database.rows(f"SHOW TABLES LIKE '{table}'"))


@pytest.mark.parametrize("fields", FIELDS)
def test_a_table_is_made_as_the_service_makes_it(
    catalog: Catalog, database: Database, offers: Offers, table: str, fields: str
) -> None:
    (definition,) = offers.of(created(fields), "create_table")
    catalog.ask("create_table", **{**definition, "name": table})
    partitioned = f"PARTITIONED BY ({', '.join(FIELDS[fields])})" * bool(fields)
    database.run(f"CREATE TABLE {table}_x ({BY_THE_SERVICE}) {partitioned} COMMENT 'made'")
    assert shown(database, f"{table}_x") == shown(database, table).replace(table, f"{table}_x")
    found = catalog.table(table)
    assert found.scan().rows() == []
    assert len(found.loaded["partitioning"]) == len(FIELDS[fields])
    assert found.loaded["properties"] == {"provider": "lance_flight", "comment": "made"}
    assert found.schema["o"].dataType.simpleString() == "struct<a:int,B c:string>"
    assert found.schema["id"].metadata == {"comment": "the key"}
    assert found.schema["s"].metadata["CURRENT_DEFAULT"] == "CAST('it\\'s' AS string)"


@pytest.mark.parametrize("rest", REFUSED_TABLES)
def test_a_table_that_cannot_be_made_is_refused(
    catalog: Catalog, database: Database, offers: Offers, table: str, rest: str
) -> None:
    (definition,) = offers.of(f"CREATE TABLE refused {rest}", "create_table")
    with pytest.raises(Refused, match=REFUSED_TABLES[rest]):
        catalog.ask("create_table", **{**definition, "name": table})
    assert not exists(database, table)


@pytest.mark.parametrize("change", ALTERATIONS)
def test_a_table_is_changed(catalog: Catalog, offered: Database, offers: Offers, table: str, change: str) -> None:
    before = shown(offered, offered.copy("altered", table))
    commits = f"SELECT count(*) FROM \"{table}$snapshots\" WHERE operation <> 'metadata'"
    number = offered.value(commits)
    (asked,) = offers.of(f"ALTER TABLE altered {change}", "alter_table")
    catalog.ask("alter_table", **{**asked, "name": table})
    found = catalog.table(table)
    assert ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in found.schema) == ALTERATIONS[change]
    assert len(found.scan().rows()) == 1
    assert shown(offered, table) != before
    assert offered.value(commits) == number + 1


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"])
def test_columns_are_replaced_in_one_commit(
    catalog: Catalog, database: Database, offers: Offers, table: str, by: str
) -> None:
    (asked,) = offers.of("ALTER TABLE altered REPLACE COLUMNS (id BIGINT, c INT)", "alter_table")
    database.run(f"CREATE TABLE {table} (id BIGINT, s VARCHAR, o STRUCT<a INT>, k INT) {by}")
    database.run(f"INSERT INTO {table} VALUES (1, 'a', {{a: 2}}, 3), (2, 'b', NULL, 4)")
    commits = f"SELECT count(*) FROM \"{table}$snapshots\" WHERE operation <> 'metadata'"
    number = database.value(commits)
    catalog.ask("alter_table", **{**asked, "name": table})
    assert database.value(commits) == number + 1
    assert catalog.table(table).schema.simpleString() == "struct<k:int,id:bigint,c:int>"
    assert sorted(database.rows(f"SELECT * FROM {table}")) == [(3, None, None), (4, None, None)]
    database.run(f"INSERT INTO {table} VALUES (5, 6, 7)")
    assert database.rows(f"SELECT * FROM {table} WHERE id = 6") == [(5, 6, 7)]


def test_fields_inside_lists_and_maps_are_changed_by_the_names_that_spark_gives_them(
    catalog: Catalog, database: Database, table: str
) -> None:
    inner = pa.struct([("a", pa.int32())])
    kinds = {"l": pa.list_(inner), "m": pa.map_(pa.utf8(), inner), "element": inner}
    rows = [{"id": 1, "l": [{"a": 1}], "m": [("k", {"a": 2})], "element": {"a": 3}}]
    database.ingest(table, pa.Table.from_pylist(rows, schema=pa.schema([("id", pa.int64()), *kinds.items()])))
    changes = [
        {"change": "add", "column": [*path, "b"], "type": '"long"', "nullable": True}
        for path in (["l", "element"], ["m", "value"], ["element"])
    ]
    catalog.named(
        "alter_table", table, changes=[*changes, {"change": "type", "column": ["l", "element", "a"], "type": '"long"'}]
    )
    expected = "id:bigint,l:array<struct<a:bigint,b:bigint>>,m:map<string,struct<a:int,b:bigint>>,element:struct<a:int,b:bigint>"
    assert catalog.table(table).schema.simpleString() == f"struct<{expected}>"
    with pytest.raises(Refused, match=r"no column 'l\.items'"):
        catalog.named("alter_table", table, changes=[{"change": "drop", "column": ["l", "items"]}])
    # DROP COLUMN IF EXISTS of what is not there.
    catalog.named("alter_table", table, changes=[])


def test_a_table_whose_partition_column_was_dropped_is_described(
    catalog: Catalog, database: Database, offers: Offers, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k INT, o STRUCT<a INT>) PARTITIONED BY (k, bucket(4, id), o.a)")
    database.run(f"INSERT INTO {table} VALUES (1, 2, {{a: 3}})")
    for path in (["k"], ["id"], ["o"], ["o", "a"]):
        drop = {"change": "drop", "column": path}
        with pytest.raises(Refused, match=f"column '{path[0]}.*' is the source of a partition field"):
            catalog.named("alter_table", table, changes=[{"change": "comment", "column": ["k"], "comment": "x"}, drop])
    assert [field["columns"] for field in catalog.table(table).loaded["partitioning"]] == [["k"], ["id"], ["o.a"]]
    # The service drops it.
    database.run(f"ALTER TABLE {table} DROP COLUMN k, DROP COLUMN o")
    found = catalog.table(table)
    assert [field["columns"] for field in found.loaded["partitioning"]] == [["id"]]
    assert found.scan().rows() == [{"id": 1}]


def test_properties_of_a_new_table_go_with_its_partitions_and_comment(
    catalog: Catalog, database: Database, offers: Offers, table: str
) -> None:
    (definition,) = offers.of(created("s"), "create_table")
    kept = {"stable_row_ids": "true", "file_version": "2.1"}
    catalog.ask("create_table", **{**definition, "name": table, "properties": {**definition["properties"], **kept}})
    assert "PARTITIONED BY" in shown(database, table)
    assert "COMMENT 'made'" in shown(database, table)
    assert all(word in shown(database, table) for word in ("stable_row_ids", "2.1"))
    noted = {"team": "ours", "write.distribution-mode": "range", "write.sort-by": "k DESC, id", "retain": "8d"}
    catalog.ask("create_table", **{**definition, "name": f"{table}_n", "properties": noted})
    assert catalog.table(f"{table}_n").loaded["properties"] == {**noted, "provider": "lance_flight"}
    given = {**definition["properties"], "option.stable_row_ids": "true", "stable_row_ids": "true"}
    with pytest.raises(Refused, match=r"option 'stable_row_ids'; expected TBLPROPERTIES \('stable_row_ids' = …\)"):
        catalog.ask("create_table", **{**definition, "name": f"{table}_x", "properties": given})


def test_not_null_is_kept(catalog: Catalog, database: Database, shapes: Mapping[str, str], table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, n INT, o STRUCT<a INT> NOT NULL) PARTITIONED BY (n)")
    database.run(f"ALTER TABLE {table} ALTER COLUMN o.a SET NOT NULL")
    found = catalog.table(table).schema
    assert [column.nullable for column in found] == [False, True, False]
    assert [inside.nullable for inside in found["o"].dataType] == [False]
    database.run(f"CREATE VIEW {table}_v AS SELECT * FROM {table}")
    assert all(column.nullable for column in catalog.table(f"{table}_v").schema)
    for shape in shapes.values():
        each = catalog.table(shape)
        required = [column.name for column in each.schema if not column.nullable]
        assert not [row for row in each.scan().rows() if None in [row[name] for name in required]], shape


def test_what_a_table_does_not_know_is_refused(
    catalogs: Mapping[str, Catalog], offered: Database, offers: Offers, table: str
) -> None:
    before = shown(offered, offered.copy("altered", table))
    for change in REFUSED_ALTERATIONS:
        (asked,) = offers.of(f"ALTER TABLE altered {change}", "alter_table")
        for catalog in catalogs.values():
            with pytest.raises(Refused, match=r"expected|cannot be NOT NULL|can have no default"):
                catalog.ask("alter_table", **{**asked, "name": table})
            assert shown(offered, table) == before, change


METADATA = {
    "files": [1, 2],
    "entries": [1, 2],
    "delete_files": [1],
    "all_delete_files": [1],
    "all_files": [1, 2, 2, 2],
    "all_entries": [1, 2, 2, 2],
    "all_data_files": [1, 2, 2, 2],
}
"""Metadata tables, and the counts of the files that they list, of a table of two partitions from one of which a row was deleted."""


def test_metadata_tables_list_the_files_of_one_and_of_all_versions(
    catalog: Catalog, database: Database, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 1), (3, 2), (4, 2)")
    version = database.value(f'SELECT max(version) FROM "{table}$snapshots"')
    database.run(f"DELETE FROM {table} WHERE id = 1")
    for name, counts in METADATA.items():
        rows = catalog.table(f"{table}.{name}").scan().rows()
        assert sorted({**row, **row.get("data_file", {})}["record_count"] for row in rows) == counts, name
    for name, counts in {"files": [2, 2], "delete_files": [], "partitions": [2, 2]}.items():
        rows = catalog.named("load_table", f"{table}.{name}", version=str(version))
        found = CatalogTable(catalog, rows).scan().rows()
        assert sorted(row["record_count"] for row in found) == counts, name
    (manifest,) = catalog.table(f"{table}.manifests").scan().rows()
    assert (manifest["existing_data_files_count"], manifest["existing_rows_count"]) == (2, 3)


def test_a_table_is_made_renamed_and_dropped_once(
    catalog: Catalog, database: Database, offers: Offers, table: str
) -> None:
    (definition,) = offers.of(created("s"), "create_table")
    catalog.ask("create_table", **{**definition, "name": table})
    for changed, code in (({"name": table}, "already_exists"), ({"namespace": ["nowhere"]}, "not_found")):
        with pytest.raises(Refused) as raised:
            catalog.ask("create_table", **{**definition, **changed})
        assert raised.value.code == code
    catalog.named("rename_table", table, to=f"{table}_new", to_namespace=["public"])
    with pytest.raises(Refused, match="cannot be moved"):
        catalog.named("rename_table", f"{table}_new", to=table, to_namespace=["other"])
    with pytest.raises(Refused) as raised:
        catalog.table(table)
    assert raised.value.code == "not_found"
    assert [catalog.named("drop_table", f"{table}_new") for _ in range(2)] == [True, False]
    assert not exists(database, f"{table}_new")


def test_namespaces_are_made_listed_and_dropped_when_they_are_empty(
    catalog: Catalog, database: Database, table: str
) -> None:
    space = f"{table}_s"
    catalog.ask("create_namespace", namespace=[space])
    with pytest.raises(Refused) as raised:
        catalog.ask("create_namespace", namespace=[space])
    assert raised.value.code == "already_exists"
    database.run(f"CREATE TABLE {space}.one (id BIGINT)")
    database.run(f"CREATE VIEW {space}.seen AS SELECT 1 AS one")
    assert space in catalog.ask("list_namespaces")
    assert catalog.ask("load_namespace", namespace=[space]) == {}
    assert catalog.ask("list_tables", namespace=[space]) == ["one"]
    assert catalog.ask("list_views", namespace=[space]) == ["seen"]
    assert catalog.table(f"{space}.one").scan().rows() == []
    with pytest.raises(Refused, match="not empty"):
        catalog.ask("drop_namespace", namespace=[space], cascade=False)
    assert [catalog.named(method, f"{space}.{name}") for method, name in DROPPED] == [True, True]
    catalog.ask("drop_namespace", namespace=[space], cascade=False)
    assert space not in catalog.ask("list_namespaces")
    for method in ("load_namespace", "list_tables", "list_views"):
        with pytest.raises(Refused) as raised:
            catalog.ask(method, namespace=[space])
        assert raised.value.code == "not_found"


DROPPED = [("drop_table", "one"), ("drop_view", "seen")]


def call(catalog: Catalog, procedure: str, *values: str | None) -> dict[str, Any]:
    """Run a procedure; its last parameters are NULL."""
    given = [*values, *[None] * (len(PROCEDURES[procedure].parameters) - len(values))]
    return dict(catalog.ask("call", procedure=procedure, values=given))


def test_views_are_made_replaced_and_dropped_by_procedures(catalog: Catalog, database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT value AS id, value % 3 AS k FROM range(9)")
    view = f"{table}_v"
    call(catalog, "create_view", view, f"SELECT k, count(*) AS n FROM {table} GROUP BY k")
    assert sorted(tuple(row.values()) for row in catalog.table(view).scan().rows()) == [(0, 3), (1, 3), (2, 3)]
    with pytest.raises(Refused, match=view):
        call(catalog, "create_view", view, "SELECT 1 AS one")
    call(catalog, "replace_view", f"public.{view}", f"SELECT id FROM {table} WHERE k = 0")
    assert sorted(row["id"] for row in catalog.table(view).scan().rows()) == [0, 3, 6]
    with pytest.raises(Refused, match="is a view; expected DROP VIEW"):
        catalog.named("drop_table", view)
    with pytest.raises(Refused, match="have no versions"):
        catalog.table(view, version="1")
    assert not catalog.named("drop_view", table)
    call(catalog, "drop_view", view)
    assert not catalog.named("drop_view", view)
    assert exists(database, table)


def test_versions_are_named_and_gone_back_to(catalog: Catalog, database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    for start in (0, 10, 20):
        database.run(f"INSERT INTO {table} SELECT value + {start}, value % 2 FROM range(10)")
    versions = dict(database.rows(f'SELECT version, committed_at FROM "{table}$snapshots" ORDER BY 1'))
    points: list[dict[str, Any]] = [{"version": str(version)} for version in versions]
    points += [{"microseconds": round(moment.timestamp() * 1_000_000)} for moment in versions.values()]
    assert [len(catalog.table(table, **point).scan().rows()) for point in points] == [0, 10, 20, 30] * 2
    call(catalog, "create_tag", table, "first", str(list(versions)[1]))
    assert len(catalog.table(table, version="first").scan().rows()) == 10
    call(catalog, "rollback", f"public.{table}", "first")
    assert database.value(f"SELECT count(*) FROM {table}") == 10
    call(catalog, "drop_tag", table, "first")
    assert database.rows(f'SELECT * FROM "{table}$tags"') == []
    call(catalog, "create_branch", table, "trial")
    database.run(f'INSERT INTO "{table}@trial" VALUES (99, 1)')
    assert len(catalog.table(table, version="trial").scan().rows()) == 11
    call(catalog, "publish_branch", table, "trial")
    assert database.value(f"SELECT max(id) FROM {table}") == 99
    for version in ("1", "900", "nope"):
        with pytest.raises(Refused, match=version):
            catalog.table(table, version=version)


def test_tables_are_maintained(catalog: Catalog, database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    for start in (0, 10):
        database.run(f"INSERT INTO {table} SELECT value + {start}, value % 2 FROM range(10)")
    files = f'SELECT count(*) FROM "{table}$files"'
    before = database.value(files)
    report = call(catalog, "compact", table)
    assert report["columns"] == database.query(f"ALTER TABLE {table} COMPACT").column_names
    assert len(report["rows"]) == 2
    assert database.value(files) < before
    assert call(catalog, "verify", table)["rows"]
    dry = call(catalog, "vacuum", table, "200", "true")
    assert dry["columns"] == database.query(f"VACUUM {table} RETAIN 200 HOURS DRY RUN").column_names
    assert database.value(f"SELECT count(*) FROM {table}") == 20


REFUSED_CALLS = {
    "no table": ("compact", ["nothing_here"], "no table 'nothing_here'"),
    "no number": ("vacuum", ["t", "soon"], "'soon' is no number of hours"),
    "NULL": ("drop_tag", ["t", None], "parameter 'tag' is NULL"),
    "SQL in a name": ("compact", ["t; DROP TABLE t"], "no table 't; DROP TABLE t'"),
}


@pytest.mark.parametrize(("procedure", "values", "message"), REFUSED_CALLS.values(), ids=REFUSED_CALLS)
def test_a_call_that_makes_no_sense_is_refused(
    catalog: Catalog, procedure: str, values: list[str | None], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        call(catalog, procedure, *values)


@pytest.mark.parametrize("kind", ["partitions", "snapshots", "files", "specs"])
def test_metadata_tables_stand_after_their_table(
    catalog: Catalog, database: Database, shapes: Mapping[str, str], kind: str
) -> None:
    expected = database.value(f'SELECT count(*) FROM "nulls${kind}"')
    names = [("nulls", kind), ("public", "nulls", kind), (f"nulls${kind}",)]
    for *namespace, name in names:
        found = catalog.ask("load_table", namespace=list(namespace), name=name)
        assert not found["takes_rows"]
        assert len(catalog.table(".".join((*namespace, name))).scan().rows()) == expected, shapes["nulls"]


def test_a_catalog_names_one_root_that_is_there_or_a_server() -> None:
    for options, message in {"/nowhere": "is no directory here", "": "expected one of 'root'"}.items():
        with pytest.raises(Refused, match=message):
            Catalog({"root": options} if options else {}).table("t")


def test_hidden_columns_say_the_partition_of_a_row_and_its_spec(
    catalog: Catalog, database: Database, table: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1)")
    database.run(f"ALTER TABLE {table} SET PARTITIONED BY (bucket(2, id))")
    database.run(f"INSERT INTO {table} VALUES (2, 1)")
    specs = dict(database.rows(f'SELECT object_id, spec_id FROM "{table}$partitions"'))
    found = catalog.table(table).scan((), "id", "_partition", "_spec_id").rows()
    assert sorted((row["id"], row["_spec_id"]) for row in found) == [(1, "1"), (2, "2")]
    assert all(str(specs[row["_partition"]]) == row["_spec_id"] for row in found)
