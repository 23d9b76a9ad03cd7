"""Comments and unenforced primary keys: how they are written, where clients see them, and what is stored."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.query.access import UNLIMITED, Access, Grant, GrantedColumn, GrantedTables, Privilege
from lance_flight.errors import InvalidInput

from tests.engine.database import Client, Database

LAYOUTS = [pytest.param("", id="plain"), pytest.param(" PARTITIONED BY (region)", id="partitioned")]
COLUMNS = "(region VARCHAR NOT NULL, id BIGINT NOT NULL, amount REAL)"
KEYS = (
    "SELECT column_name, ordinal_position, constraint_name FROM information_schema.key_column_usage"
    " WHERE table_name = '{}' ORDER BY ordinal_position"
)
COMMENTS = (
    "SELECT column_name, column_comment FROM information_schema.columns"
    " WHERE table_name = '{}' AND column_comment IS NOT NULL"
)


def made(database: Database, layout: str, table: str, columns: str = COLUMNS) -> str:
    database.run(f"CREATE TABLE {table} {columns}{layout}")
    database.run(f"INSERT INTO {table} VALUES ('a', 1, 1.5), ('b', 2, 2.5)")
    return table


def key(database: Database, table: str) -> list[Any]:
    return [name for name, _, _ in database.rows(KEYS.format(table))]


def versions(database: Database, table: str) -> set[tuple[Any, ...]]:
    """The partition tables and their versions."""
    return set(database.rows(f"SELECT location, read_version FROM {table}$partitions"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_comments_are_set_shown_and_removed(database: Database, layout: str, table: str) -> None:
    made(database, layout, table)
    database.run(f"COMMENT ON TABLE public.{table} IS 'what it''s for'")
    database.run(f"COMMENT ON COLUMN {table}.amount IS 'in euros'")
    listing = f"SELECT table_comment FROM information_schema.tables WHERE table_name = '{table}'"
    assert database.rows(listing) == [("what it's for",)]
    assert database.rows(COMMENTS.format(table)) == [("amount", "in euros")]
    described = {row["column_name"]: row["comment"] for row in database.query(f"DESCRIBE {table}").to_pylist()}
    assert described == {"region": None, "id": None, "amount": "in euros"}
    database.run(f"COMMENT ON TABLE {table} IS NULL")
    database.run(f"COMMENT ON COLUMN {table}.amount IS NULL")
    assert database.rows(listing) == [(None,)]
    assert database.rows(COMMENTS.format(table)) == []
    assert database.value(f"SELECT count(*) FROM {table}") == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_key_and_comments_are_part_of_create_table(database: Database, layout: str, table: str) -> None:
    columns = "(region VARCHAR, id BIGINT COMMENT 'ours', amount REAL, PRIMARY KEY (id, region) NOT ENFORCED)"
    made(database, f"{layout} COMMENT 'sales'", table, columns)
    assert database.rows(KEYS.format(table)) == [("id", 1, f"{table}_pkey"), ("region", 2, f"{table}_pkey")]
    assert database.rows(COMMENTS.format(table)) == [("id", "ours")]
    assert database.rows(
        "SELECT constraint_name, constraint_type, enforced FROM information_schema.table_constraints"
        f" WHERE table_name = '{table}'"
    ) == [(f"{table}_pkey", "PRIMARY KEY", "NO")]
    nullable = {row["column_name"]: row["is_nullable"] for row in database.query(f"DESCRIBE {table}").to_pylist()}
    assert nullable == {"region": "NO", "id": "NO", "amount": "YES"}
    database.run(f"INSERT INTO {table} VALUES ('a', 1, 1.5)")
    assert database.value(f"SELECT count(*) FROM {table}") == 3


def test_a_column_of_the_key_may_have_been_nullable_before(database: Database, table: str) -> None:
    made(database, " PARTITIONED BY (region)", table, "(region VARCHAR, id BIGINT, amount REAL)")
    database.run(f"ALTER TABLE {table} ALTER COLUMN id SET NOT NULL")
    database.run(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
    database.run(f"INSERT INTO {table} VALUES ('a', 3, 0.5)")
    database.run(f"UPDATE {table} SET amount = 9 WHERE id = 1")
    database.run(f"ALTER TABLE {table} ADD COLUMN more BIGINT")
    assert key(database, table) == ["id"]
    assert database.rows(f"SELECT id, amount, more FROM {table} ORDER BY id") == [
        (1, 9.0, None),
        (2, 2.5, None),
        (3, 0.5, None),
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_key_is_added_kept_by_changes_of_columns_and_dropped(database: Database, layout: str, table: str) -> None:
    made(database, layout, table)
    database.run(f"ALTER TABLE {table} ADD CONSTRAINT k PRIMARY KEY (id, region)")
    database.run(f"ALTER TABLE {table} ADD COLUMN note VARCHAR")
    database.run(f"ALTER TABLE {table} RENAME COLUMN id TO number")
    assert key(database, table) == ["number", "region"]
    assert "expected DROP PRIMARY KEY first" in database.refuses(f"ALTER TABLE {table} DROP COLUMN number")
    assert "expected NOT NULL" in database.refuses(f"ALTER TABLE {table} ALTER COLUMN number DROP NOT NULL")
    assert "already_exists" in database.refuses(f"ALTER TABLE {table} ADD PRIMARY KEY (region)")
    database.run(f"ALTER TABLE {table} DROP PRIMARY KEY")
    assert key(database, table) == []
    assert "[not_found" in database.refuses(f"ALTER TABLE {table} DROP PRIMARY KEY")
    database.run(f"ALTER TABLE {table} DROP COLUMN number")
    assert database.rows(f"SELECT * FROM {table} ORDER BY region") == [("a", 1.5, None), ("b", 2.5, None)]


def test_a_partitioned_table_is_annotated_without_new_versions_of_its_partitions(
    database: Database, table: str
) -> None:
    made(database, " PARTITIONED BY (region)", table)
    before = versions(database, table)
    database.run(f"COMMENT ON TABLE {table} IS 'x'")
    database.run(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
    assert versions(database, table) == before
    history = database.rows(f"SELECT operation FROM {table}$snapshots ORDER BY version")
    assert [operation for (operation,) in history if "key" in operation or "comment" in operation] == [
        "comment on table",
        "add primary key id",
    ]


def test_a_plain_table_has_the_key_in_lances_own_metadata(database: Database, table: str) -> None:
    made(database, "", table, "(region VARCHAR, id BIGINT, amount REAL, PRIMARY KEY (id, region))")
    fields = {field.name(): field for field in lance.dataset(database.root / f"{table}.lance").lance_schema.fields()}
    assert {name: field.unenforced_primary_key_position() for name, field in fields.items()} == {
        "region": 2,
        "id": 1,
        "amount": None,
    }


def test_a_key_that_another_writer_has_set_is_known(database: Database, table: str) -> None:
    made(database, "", table)
    lance.dataset(database.root / f"{table}.lance").update_field_metadata(
        {"id": {"lance-schema:unenforced-primary-key": "true"}}
    )
    assert key(database, table) == ["id"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_merge_without_a_condition_goes_by_the_key(database: Database, layout: str, table: str) -> None:
    columns = "(region VARCHAR, id BIGINT, amount REAL, PRIMARY KEY (id, region))"
    made(database, layout, table, columns)
    source = "(VALUES ('a', 1, 7.0), ('b', 1, 8.0), (?, 2, 9.0)) AS s (region, id, amount)"
    clauses = "WHEN MATCHED THEN UPDATE SET amount = s.amount WHEN NOT MATCHED THEN INSERT *"
    assert database.run(f"MERGE INTO {table} USING {source} {clauses}", ("b",)) == 3
    assert database.rows(f"SELECT * FROM {table} ORDER BY region, id") == [("a", 1, 7.0), ("b", 1, 8.0), ("b", 2, 9.0)]
    other = made(database, "", f"{table}s")
    explained = str(database.rows(f"EXPLAIN MERGE INTO {table} AS o USING {other} WHEN MATCHED THEN DELETE"))
    assert "o.id" in explained
    assert database.run(f"MERGE INTO {table} AS o USING {other} WHEN MATCHED THEN DELETE") == 2
    assert database.rows(f"SELECT * FROM {table}") == [("b", 1, 8.0)]


def described(database: Database, table: str) -> tuple[Any, ...]:
    """The key of a table, its comment, and those of its columns."""
    comment = database.value(f"SELECT table_comment FROM information_schema.tables WHERE table_name = '{table}'")
    return key(database, table), comment, database.rows(COMMENTS.format(table))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rollback_takes_back_what_was_said(database: Database, layout: str, table: str) -> None:
    made(database, f"{layout} COMMENT 'first'", table)
    before = database.value(f"SELECT max(version) FROM {table}$snapshots")
    database.run(f"COMMENT ON TABLE {table} IS 'second'")
    database.run(f"COMMENT ON COLUMN {table}.id IS 'a number'")
    database.run(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
    assert described(database, table) == (["id"], "second", [("id", "a number")])
    database.run(f"ALTER TABLE {table} ROLLBACK TO {before}")
    assert described(database, table) == ([], "first", [])


def test_a_branch_is_published_whatever_was_said_of_the_main_one_meanwhile(database: Database, table: str) -> None:
    made(database, " PARTITIONED BY (region)", table)
    database.run(f"ALTER TABLE {table} CREATE BRANCH work")
    database.run(f"INSERT INTO \"{table}@work\" VALUES ('c', 3, 0.5)")
    database.run(f"COMMENT ON COLUMN {table}.id IS 'a number'")
    database.run(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
    database.run(f"ALTER TABLE {table} PUBLISH BRANCH work")
    assert described(database, table) == (["id"], None, [("id", "a number")])
    assert database.value(f"SELECT count(*) FROM {table}") == 3


def test_a_temporary_table_has_a_key_and_comments(client: Client, table: str) -> None:
    client.run(f"CREATE TEMPORARY TABLE {table} (id BIGINT PRIMARY KEY COMMENT 'ours') COMMENT 'mine'")
    assert described(client, table) == (["id"], "mine", [("id", "ours")])
    client.run(f"COMMENT ON TABLE {table} IS NULL")
    assert described(client, table) == (["id"], None, [("id", "ours")])


def notes(database: Database, table: str, access: Access = UNLIMITED, at: str | None = None) -> tuple[Any, Any]:
    """The metadata of a table and of its column `amount`, as clients see them."""
    schema = database.engine.schema_of(TableName("public", table), access, at=at)
    return schema.metadata or {}, schema.field("amount").metadata or {}


def noted(database: Database, layout: str, table: str) -> str:
    """A table that a client made with metadata of its schema and of one field."""
    fields = [pa.field("region", pa.utf8()), pa.field("amount", pa.float64(), metadata={"unit": "m", "lance-x": "1"})]
    schema = pa.schema(fields, {"owner": "me", "pandas": "{}"})
    database.ingest(table, pa.table([["a"], [1.5]], schema=schema), partition_by="region" if layout else None)
    return table


@pytest.mark.parametrize("layout", LAYOUTS)
def test_metadata_of_clients_are_kept_and_changed(database: Database, layout: str, table: str) -> None:
    noted(database, layout, table)
    first = {b"owner": b"me"}, {b"unit": b"m"}
    assert notes(database, table) == first
    before = database.value(f"SELECT max(version) FROM {table}$snapshots")
    database.run(f"ALTER TABLE {table} SET METADATA ('a' = '1'), COLUMN amount ('unit' = NULL, 'of' = 'it''s')")
    assert notes(database, table) == ({b"owner": b"me", b"a": b"1"}, {b"of": b"it's"})
    database.run(f"ALTER TABLE {table} ADD COLUMN more INT")
    database.run(f"ALTER TABLE {table} SET METADATA REPLACE ('comment' = 'c', 'b' = '2'), REPLACE COLUMN amount ()")
    assert notes(database, table) == ({b"comment": b"c", b"b": b"2"}, {})
    assert notes(database, table, at=str(before)) == first
    database.run(f"ALTER TABLE {table} ROLLBACK TO {before}")
    assert notes(database, table) == first
    if layout:
        # They are in the manifest alone, and no partition table is written for them.
        (place,) = database.rows(f"SELECT location FROM {table}$partitions")
        assert lance.dataset(str(database.root / table / place[0])).schema.metadata is None
    else:
        schema = lance.dataset(str(database.root / f"{table}.lance")).schema
        assert (schema.metadata, schema.field("amount").metadata) == first


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_is_made_with_metadata_and_another_one_like_it(database: Database, layout: str, table: str) -> None:
    clauses = f"{layout} METADATA ('owner' = 'it''s me', 'b' = '2')"
    database.run(f"CREATE TABLE {table} (region VARCHAR, amount INT){clauses} WITH (retain = '8d')")
    database.run(f"CREATE TABLE {table}_like LIKE {table}")
    database.run(f"CREATE TABLE {table}_more LIKE {table} METADATA ('b' = '3')")
    assert notes(database, f"{table}_more") == ({b"owner": b"it's me", b"b": b"3"}, {})
    database.run(f"CREATE TABLE {table}_query{clauses} AS SELECT * FROM {table}")
    for name in (table, f"{table}_like", f"{table}_query"):
        assert notes(database, name) == ({b"owner": b"it's me", b"b": b"2"}, {})
    with pytest.raises(InvalidInput, match="'lance:x' of metadata is not a client's"):
        database.run(f"CREATE TABLE {table}_no (amount INT) METADATA ('lance:x' = '1')")


def test_a_branch_brings_its_metadata_and_those_of_both_sides_conflict(database: Database, table: str) -> None:
    noted(database, " PARTITIONED BY (region)", table)
    database.run(f"ALTER TABLE {table} CREATE BRANCH work")
    database.run(f"ALTER TABLE \"{table}@work\" SET METADATA ('a' = '1'), COLUMN amount ('unit' = 'km')")
    assert notes(database, table, at="work") == ({b"owner": b"me", b"a": b"1"}, {b"unit": b"km"})
    database.run(f"ALTER TABLE {table} SET METADATA ('b' = '2')")
    database.run(f"ALTER TABLE {table} PUBLISH BRANCH work")
    assert notes(database, table) == ({b"owner": b"me", b"a": b"1", b"b": b"2"}, {b"unit": b"km"})
    database.run(f"ALTER TABLE \"{table}@work\" SET METADATA ('a' = '3')")
    database.run(f"ALTER TABLE {table} SET METADATA ('a' = '4')")
    assert "both have changed the a of the table" in database.refuses(f"ALTER TABLE {table} PUBLISH BRANCH work")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_metadata_are_hidden_from_those_who_do_not_read_all_columns(
    database: Database, layout: str, table: str
) -> None:
    noted(database, layout, table)
    shown = {b"owner": b"me"}, {b"unit": b"m"}
    for columns, expected in (
        (("region", "amount"), shown),
        (("region", GrantedColumn("amount", "NULL")), ({}, {})),
        (("amount",), ({}, shown[1])),
    ):
        granted = tuple(column if isinstance(column, GrantedColumn) else GrantedColumn(column) for column in columns)
        grant = Grant(privileges=frozenset({Privilege.SELECT}), tables=GrantedTables(), columns=granted)
        assert notes(database, table, Access("somebody", grants=(grant,))) == expected
