"""Schemas: directories of the root and namespaces of its `__manifest`, made, described and dropped, and plain tables in them."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pytest
from lance.namespace import DirectoryNamespace
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.roots.table_resolver import PlainTables
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine

from tests.engine.database import Database
from tests.service.server_process import files


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


REFUSED = [
    pytest.param('CREATE SCHEMA "../x"', "not allowed", id="a path"),
    pytest.param('CREATE SCHEMA "a..b"', "not allowed", id="an empty part"),
    pytest.param("CREATE SCHEMA public", "already_exists", id="the root"),
    pytest.param("DROP SCHEMA public", "stays", id="the root dropped"),
    pytest.param("DROP SCHEMA public CASCADE", "not offered", id="cascade"),
    pytest.param("CREATE SCHEMA information_schema", "computed tables", id="what is computed"),
    pytest.param("CREATE SCHEMA system", "computed tables", id="what the server has"),
]


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_what_is_no_schema_is_refused(database: Database, sql: str, message: str) -> None:
    before = files(database.root)
    assert message in database.refuses(sql)
    assert files(database.root) == before


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
    nested.run('ALTER TABLE "a.b".u RENAME TO w')
    assert listed(nested.root)["a$b$w"][1] is not None
    assert "not empty" in nested.refuses('DROP SCHEMA "a.b"')
    assert "already_exists" in nested.refuses('CREATE TABLE "a.b".t (n BIGINT)')
    assert "lists plain tables" in nested.refuses('CREATE TABLE "a.b".p (n BIGINT) PARTITIONED BY (n)')
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
