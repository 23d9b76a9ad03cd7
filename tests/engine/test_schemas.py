"""Schemas: directories of the root and namespaces of its `__manifest`, made, described and dropped, and plain tables in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
from lance.namespace import DirectoryNamespace
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.roots.table_resolver import PlainTables
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine

from tests.engine.database import Client, Database


def listed(root: Path) -> dict[str, tuple[str, str | None]]:
    """The rows of a root's `__manifest`: type and location by object id."""
    rows = lance.dataset(root / "__manifest").to_table(columns=["object_id", "object_type", "location"]).to_pylist()
    return {row["object_id"]: (row["object_type"], row["location"]) for row in rows}


def test_a_schema_is_a_directory(database: Database) -> None:
    database.run("CREATE SCHEMA sales")
    assert (database.root / "sales").is_dir()
    assert ("sales",) in database.rows("SHOW SCHEMAS")
    database.run("CREATE TABLE sales.t (a INT, b INT) PARTITIONED BY (b)")
    database.run("INSERT INTO sales.t VALUES (1, 2)")
    assert database.rows("SELECT * FROM sales.t") == [(1, 2)]
    database.run("CREATE SCHEMA IF NOT EXISTS sales")
    assert "already_exists" in database.refuses("CREATE SCHEMA sales")
    assert "not empty" in database.refuses("DROP SCHEMA sales")
    assert database.rows("SELECT * FROM sales.t") == [(1, 2)]
    database.run("DROP TABLE sales.t")
    database.run("CREATE VIEW sales.v AS SELECT 1 AS x")
    assert "not empty: it has view 'v'" in database.refuses("DROP SCHEMA sales")
    database.run("DROP VIEW sales.v")
    database.run("DROP SCHEMA sales")
    assert not (database.root / "sales").exists()
    database.run("DROP SCHEMA IF EXISTS sales")
    assert "not_found" in database.refuses("DROP SCHEMA sales")


@pytest.fixture
def nested(tmp_path: Path) -> Database:
    """A root of its own, with a nested namespace."""
    database = Database(tmp_path)
    database.run('CREATE SCHEMA "a.b"')
    return database


def test_plain_tables_in_a_nested_namespace(nested: Database) -> None:
    assert listed(nested.root) == {"a": ("namespace", None), "a$b": ("namespace", None)}
    nested.run('CREATE TABLE "a.b".t (n BIGINT, s VARCHAR)')
    nested.run("""INSERT INTO "a.b".t VALUES (1, 'x'), (2, NULL)""")
    nested.run('CREATE TABLE "a.b".u AS SELECT n + 1 AS n FROM "a.b".t')
    kind, location = listed(nested.root)["a$b$t"]
    assert kind == "table"
    assert re.fullmatch(r"[0-9a-f]{8}_a\$b\$t", str(location))
    assert lance.dataset(nested.root / str(location)).count_rows() == 2
    assert nested.rows('SELECT * FROM "a.b".t ORDER BY n') == [(1, "x"), (2, None)]
    assert sorted(nested.rows('SELECT n FROM "a.b".u')) == [(2,), (3,)]
    assert [row[0] for row in nested.rows('DESCRIBE "a.b".u')] == ["n"]
    nested.run('ALTER TABLE "a.b".u RENAME TO w')
    assert nested.run('DELETE FROM "a.b".w WHERE n = 2') == 1
    assert nested.rows('SELECT n FROM "a.b".w') == [(3,)]
    assert listed(nested.root)["a$b$w"][1] is not None
    nested.run('DROP TABLE "a.b".t')
    nested.run('DROP TABLE "a.b".w')
    nested.run('DROP SCHEMA "a.b"')
    assert listed(nested.root) == {"a": ("namespace", None)}
    assert [name for name in sorted(path.name for path in nested.root.iterdir()) if "$" in name] == []


def test_the_stock_namespace_reads_what_is_made(nested: Database) -> None:
    nested.run('CREATE TABLE "a.b".t AS SELECT 7 AS n')
    stock = DirectoryNamespace(root=str(nested.root))
    listing = stock.list_tables(stock_request("ListTablesRequest", id=["a", "b"]))
    assert listing.tables == ["t"]
    described = stock.describe_table(stock_request("DescribeTableRequest", id=["a", "b", "t"]))
    assert lance.dataset(described.location).to_table()["n"].to_pylist() == [7]


def stock_request(name: str, **arguments: object) -> object:
    """A request of the namespace interface."""
    import lance_namespace

    return getattr(lance_namespace, name)(**arguments)


def test_describe_namespace_shows_the_properties_of_a_listed_one(nested: Database) -> None:
    assert nested.rows("DESCRIBE NAMESPACE a.b") == []
    stock = DirectoryNamespace(root=str(nested.root))
    stock.create_namespace(stock_request("CreateNamespaceRequest", id=["c"], properties={"owner": "ann"}))
    assert nested.rows("DESCRIBE NAMESPACE c") == [("owner", "ann")]
    nested.run("CREATE TABLE c.t AS SELECT 1 AS x")
    assert nested.rows("SELECT * FROM c.t") == [(1,)]


def listing(root: Path, plain_tables: PlainTables) -> Database:
    """A database that finds plain tables in this way."""
    database = Database(root)
    database.engine = Engine(Root(Store(str(root)), plain_tables), target_partitions=2)
    return database


def test_where_plain_tables_are_found_is_a_setting(tmp_path: Path) -> None:
    Database(tmp_path).run("CREATE TABLE by_directory (n INT)")
    database = listing(tmp_path, PlainTables.LISTED)
    assert database.rows("SHOW TABLES") == []
    database.run("CREATE TABLE by_row (n INT)")
    database.run("INSERT INTO by_row VALUES (1)")
    assert database.rows("SELECT * FROM by_row") == [(1,)]
    assert listed(tmp_path) == {"by_row": ("table", "by_row.lance")}
    assert "not_found" in database.refuses("SELECT * FROM by_directory")
    assert "lies there already" in database.refuses("CREATE TABLE by_directory (n INT)")
    for way in (PlainTables.DIRECTORIES, PlainTables.BOTH):
        tables = listing(tmp_path, way).rows("SHOW TABLES")
        assert [row[1] for row in tables] == ["by_directory", "by_row"]


# Unqualified names, in a session that is in another schema


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A root with a schema `staging` beside `public`, and a table of the same name in both."""
    database = Database(tmp_path_factory.mktemp("schemas") / "root")
    database.run("CREATE SCHEMA staging")
    for place, rows in {"public": "(7, 'x')", "staging": "(1, 'a'), (2, 'b')"}.items():
        database.run(f"CREATE TABLE {place}.two (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
        database.run(f"INSERT INTO {place}.two VALUES {rows}")
    return database


@pytest.fixture
def staging(schemas: Database) -> Iterator[Client]:
    """A client whose session is in the schema `staging`."""
    with schemas.client() as client:
        client.run("SET schema = 'staging'")
        yield client


CHANGES = {
    "insert": ("INSERT INTO {t} VALUES (3, 'c')", [(1, "a"), (2, "b"), (3, "c")]),
    "insert from itself": ("INSERT INTO {t} SELECT id + 10, p FROM {t}", [(1, "a"), (2, "b"), (11, "a"), (12, "b")]),
    "update": ("UPDATE {t} SET id = 0 WHERE p = 'a'", [(0, "a"), (2, "b")]),
    "delete": ("DELETE FROM {t} WHERE id IN (SELECT max(id) FROM {t})", [(1, "a")]),
    "merge": (
        "MERGE INTO {t} USING {t} s ON {t}.id = s.id AND s.p = 'a' WHEN MATCHED THEN UPDATE SET id = 9",
        [(2, "b"), (9, "a")],
    ),
    "truncate": ("TRUNCATE {t}", []),
    "drop partition": ("ALTER TABLE {t} DROP PARTITION (p = 'a')", [(2, "b")]),
}


@pytest.mark.parametrize(("sql", "left"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_changed_is_the_table_of_the_schema(
    schemas: Database, staging: Client, table: str, sql: str, left: list[tuple[Any, ...]]
) -> None:
    for place in (".", "staging"):
        schemas.copy(f"{place}/two", f"{place}/{table}")
    staging.run(sql.format(t=table))
    assert sorted(staging.rows(f"SELECT * FROM {table}")) == left
    assert sorted(schemas.rows(f"SELECT * FROM staging.{table}")) == left
    assert schemas.rows(f"SELECT * FROM {table}") == [(7, "x")]


QUERIES = {
    "a join with the other table": ("SELECT a.id, b.id FROM {t} a JOIN public.{t} b ON a.p <> b.p", [(1, 7), (2, 7)]),
    "a join with itself": ("SELECT a.id FROM {t} a JOIN {t} b ON a.p = b.p WHERE b.id = 2", [(2,)]),
    "groups": ("SELECT p, count(*) FROM {t} GROUP BY p", [("a", 1), ("b", 1)]),
    "a subquery": ("SELECT id FROM {t} WHERE id = (SELECT min(id) FROM {t})", [(1,)]),
    "qualified": ("SELECT id FROM public.{t}", [(7,)]),
    "a version": ('SELECT count(*) FROM "{t}$partitions"', [(2,)]),
    "a common table expression by its name": ("WITH {t} AS (SELECT 5 AS id) SELECT id FROM {t}", [(5,)]),
}


@pytest.mark.parametrize(("sql", "expected"), QUERIES.values(), ids=QUERIES.keys())
def test_what_is_read_is_the_table_of_the_schema(staging: Client, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert sorted(staging.rows(sql.format(t="two"))) == expected


@pytest.mark.parametrize("sql", ["DESCRIBE {t}", "SHOW PARTITIONS {t}", "DESCRIBE NAMESPACE {t}", "VERIFY TABLE {t}"])
def test_statements_about_a_table_are_about_that_of_the_schema(
    schemas: Database, staging: Client, table: str, sql: str
) -> None:
    schemas.copy("staging/two", f"staging/{table}")
    assert table in schemas.refuses(sql.format(t=table))
    assert staging.rows(sql.format(t=table)) == schemas.rows(sql.format(t=f"staging.{table}"))


PLANNED = {
    "a filter": ("SELECT id FROM {t} WHERE p = 'a' OR p = 'c'", "partitions", "partitions: 1 / 2"),
    "a filter above the scan": ("SELECT id FROM {t} WHERE p LIKE 'a%'", "partitions", "partitions: 1 / 2"),
    "a join": ("SELECT x.id FROM {t} x JOIN {t} y ON x.p = y.p", "groups", "groups: 2"),
    "a count": ("SELECT count(*) FROM {t}", "metadata", "answered from metadata"),
}


@pytest.mark.parametrize(("sql", "kind", "says"), PLANNED.values(), ids=PLANNED.keys())
def test_a_query_is_planned_in_the_schema_as_with_its_name(staging: Client, sql: str, kind: str, says: str) -> None:
    plans = [
        dict(staging.rows(f"EXPLAIN {sql.format(t=name)}"))[kind].replace("staging.", "")
        for name in ("two", "staging.two")
    ]
    assert plans[0] == plans[1]
    assert says in plans[0]
