"""Schemas: directories of the root and namespaces of its `__manifest`, made, described and dropped, and plain tables in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from adbc_driver_manager import Error
from lance.namespace import DirectoryNamespace

from tests.service.server_process import Server, files, serving


def listed(root: Path) -> dict[str, tuple[str, str | None]]:
    """The rows of a root's `__manifest`: type and location by object id."""
    rows = lance.dataset(root / "__manifest").to_table(columns=["object_id", "object_type", "location"]).to_pylist()
    return {row["object_id"]: (row["object_type"], row["location"]) for row in rows}


def test_a_schema_is_a_directory(server: Server) -> None:
    server.run("CREATE SCHEMA sales")
    assert (server.root / "sales").is_dir()
    assert ("sales",) in server.rows("SHOW SCHEMAS")
    server.run("CREATE TABLE sales.t (a INT, b INT) PARTITIONED BY (b)")
    server.run("INSERT INTO sales.t VALUES (1, 2)")
    assert server.rows("SELECT * FROM sales.t") == [(1, 2)]
    server.run("CREATE SCHEMA IF NOT EXISTS sales")
    with pytest.raises(Error, match="already_exists"):
        server.run("CREATE SCHEMA sales")
    with pytest.raises(Error, match="not empty"):
        server.run("DROP SCHEMA sales")
    assert server.rows("SELECT * FROM sales.t") == [(1, 2)]
    server.run("DROP TABLE sales.t")
    server.run("CREATE VIEW sales.v AS SELECT 1 AS x")
    with pytest.raises(Error, match="not empty: it has view 'v'"):
        server.run("DROP SCHEMA sales")
    server.run("DROP VIEW sales.v")
    server.run("DROP SCHEMA sales")
    assert not (server.root / "sales").exists()
    server.run("DROP SCHEMA IF EXISTS sales")
    with pytest.raises(Error, match="not_found"):
        server.run("DROP SCHEMA sales")


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
def test_what_is_no_schema_is_refused(server: Server, sql: str, message: str) -> None:
    before = files(server.root)
    with pytest.raises(Error, match=message):
        server.run(sql)
    assert files(server.root) == before


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Server]:
    """A server over a root of its own, with a nested namespace."""
    (tmp_path / "root").mkdir()
    with serving(tmp_path / "root") as server:
        server.run('CREATE SCHEMA "a.b"')
        yield server


def test_plain_tables_in_a_nested_namespace(nested: Server) -> None:
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
    with pytest.raises(Error, match="not empty"):
        nested.run('DROP SCHEMA "a.b"')
    with pytest.raises(Error, match="already_exists"):
        nested.run('CREATE TABLE "a.b".t (n BIGINT)')
    with pytest.raises(Error, match="lists plain tables"):
        nested.run('CREATE TABLE "a.b".p (n BIGINT) PARTITIONED BY (n)')
    nested.run('DROP TABLE "a.b".t')
    nested.run('DROP TABLE "a.b".w')
    nested.run('DROP SCHEMA "a.b"')
    assert listed(nested.root) == {"a": ("namespace", None)}
    assert [name for name in sorted(path.name for path in nested.root.iterdir()) if "$" in name] == []


def test_the_stock_namespace_reads_what_is_made(nested: Server) -> None:
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


def test_describe_namespace_shows_the_properties_of_a_listed_one(nested: Server) -> None:
    assert nested.rows("DESCRIBE NAMESPACE a.b") == []
    stock = DirectoryNamespace(root=str(nested.root))
    stock.create_namespace(stock_request("CreateNamespaceRequest", id=["c"], properties={"owner": "ann"}))
    assert nested.rows("DESCRIBE NAMESPACE c") == [("owner", "ann")]
    nested.run("CREATE TABLE c.t AS SELECT 1 AS x")
    assert nested.rows("SELECT * FROM c.t") == [(1,)]


def test_where_plain_tables_are_found_is_a_setting(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with serving(root) as server:
        server.run("CREATE TABLE by_directory (n INT)")
    with serving(root, "--plain-tables", "listed") as server:
        assert server.rows("SHOW TABLES") == []
        server.run("CREATE TABLE by_row (n INT)")
        server.run("INSERT INTO by_row VALUES (1)")
        assert server.rows("SELECT * FROM by_row") == [(1,)]
        assert listed(root) == {"by_row": ("table", "by_row.lance")}
        with pytest.raises(Error, match="not_found"):
            server.rows("SELECT * FROM by_directory")
        with pytest.raises(Error, match="lies there already"):
            server.run("CREATE TABLE by_directory (n INT)")
    with serving(root, "--plain-tables", "directories") as server:
        assert [row[1] for row in server.rows("SHOW TABLES")] == ["by_directory", "by_row"]
    with serving(root) as server:
        assert [row[1] for row in server.rows("SHOW TABLES")] == ["by_directory", "by_row"]
