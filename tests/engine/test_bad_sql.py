"""SQL that must be refused: what is not SQL, what is not there, and whatever would reach beyond the tables of the root."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.service.server_process import files


@pytest.fixture(scope="module")
def guarded(database: Database) -> Database:
    """Two tables, and files beside the root that nobody may see or touch."""
    database.run("CREATE TABLE flights (id INT NOT NULL, origin VARCHAR) PARTITIONED BY (origin)")
    database.run("INSERT INTO flights VALUES (1, 'JFK'), (2, 'EWR')")
    database.run("CREATE TABLE airports (code VARCHAR)")
    (database.root.parent / "secret.csv").write_text("word\nxyzzy\n")
    (database.root / "inside.csv").write_text("word\nxyzzy\n")
    return database


@pytest.fixture(autouse=True)
def untouched(guarded: Database) -> Iterator[None]:
    """No statement of this module changes a file, in the root or beside it, or a row."""
    before = files(guarded.root.parent)
    yield
    assert files(guarded.root.parent) == before
    assert sorted(guarded.rows("SELECT * FROM flights")) == [(1, "JFK"), (2, "EWR")]


FORBIDDEN = [
    pytest.param("COPY flights TO '{outside}/stolen.csv'", id="copy to"),
    pytest.param("COPY (SELECT * FROM flights) TO '{outside}/stolen.parquet' STORED AS PARQUET", id="copy of a query"),
    pytest.param("CREATE EXTERNAL TABLE stolen STORED AS CSV LOCATION '{outside}/secret.csv'", id="external table"),
    pytest.param("CREATE TABLE stolen AS SELECT * FROM '{outside}/secret.csv'", id="create from a file"),
    pytest.param("INSERT INTO airports SELECT * FROM '{outside}/secret.csv'", id="insert from a file"),
    pytest.param("SELECT * FROM '{outside}/secret.csv'", id="a file as a table"),
    pytest.param('SELECT * FROM "{outside}/secret.csv"', id="a file as a name"),
    pytest.param("SELECT * FROM 'file://{outside}/secret.csv'", id="a file as a URL"),
    pytest.param("SELECT * FROM 'inside.csv'", id="a file inside the root"),
    pytest.param('SELECT * FROM "../secret.csv"', id="a relative path"),
    pytest.param('SELECT * FROM "airports.lance"', id="the directory of a table"),
    pytest.param('SELECT * FROM "flights/__manifest"', id="the inside of a table"),
    pytest.param("INSERT INTO \"../root/flights\" VALUES (3, 'x')", id="a path that comes back"),
    pytest.param("SELECT * FROM read_csv('{outside}/secret.csv')", id="read_csv"),
    pytest.param("SELECT * FROM read_parquet('{outside}/secret.csv')", id="read_parquet"),
    pytest.param("SELECT * FROM parquet_metadata('{outside}/secret.csv')", id="parquet_metadata"),
    pytest.param("SELECT * FROM list_files_cache()", id="list_files_cache"),
    pytest.param("SET datafusion.execution.batch_size = 1", id="set"),
    pytest.param("RESET datafusion.execution.batch_size", id="reset"),
    pytest.param("CREATE MATERIALIZED VIEW v AS SELECT 1", id="materialized view"),
    pytest.param("CREATE DATABASE d", id="database"),
    pytest.param("CREATE DATABASE s", id="database"),
    pytest.param("CREATE FUNCTION f(DOUBLE) RETURNS DOUBLE RETURN $1", id="function"),
    pytest.param("CREATE OR REPLACE TABLE IF NOT EXISTS flights AS SELECT 1 AS x", id="create or replace"),
    "CREATE OR REPLACE TABLE flights AS SELECT 1 AS x FROM '{outside}/secret.csv'",
    pytest.param("DROP MATERIALIZED VIEW flights", id="drop materialized view"),
    pytest.param("DROP SCHEMA public CASCADE", id="drop schema"),
    pytest.param("DELETE FROM flights WHERE id IN (SELECT * FROM '{outside}/secret.csv')", id="delete by a file"),
    pytest.param("UPDATE flights SET id = (SELECT 1 FROM '{outside}/secret.csv')", id="update from a file"),
    "MERGE INTO flights USING (SELECT * FROM '{outside}/secret.csv') s ON 1 = 1 WHEN MATCHED THEN DELETE",
    pytest.param("DELETE FROM flights WHERE id = 1 UNION SELECT 0, 0", id="a set after a condition"),
    pytest.param("DELETE FROM flights WHERE (id = 1) UNION SELECT (0), (0)", id="a set after a bracket"),
    pytest.param("DELETE FROM flights WHERE id = 1) UNION SELECT (0), (0", id="a closing bracket too many"),
    pytest.param("DELETE FROM flights WHERE id = 1; DROP TABLE flights", id="a statement after a condition"),
    pytest.param("UPDATE flights SET id = 1), (id", id="a bracket in a value"),
    pytest.param("DELETE FROM flights$rows", id="the rows of a target"),
    pytest.param("ALTER TABLE flights SET LOCATION '{outside}'", id="alter"),
    pytest.param("PREPARE p AS SELECT 1", id="prepare"),
    pytest.param("BEGIN; DROP TABLE flights", id="a statement after begin"),
    pytest.param("EXPLAIN COPY flights TO '{outside}/stolen.csv'", id="explain copy"),
    pytest.param("EXPLAIN ANALYZE INSERT INTO flights VALUES (9, 'x')", id="explain analyze insert"),
    pytest.param("EXPLAIN ANALYZE CREATE TABLE stolen AS SELECT 1", id="explain analyze create"),
    pytest.param("WITH x AS (INSERT INTO flights VALUES (9, 'x') RETURNING id) SELECT * FROM x", id="insert in with"),
    pytest.param("(DELETE FROM flights)", id="delete in brackets"),
]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_a_statement_that_reaches_beyond_the_tables_is_refused(guarded: Database, sql: str) -> None:
    message = guarded.refuses(sql.format(outside=guarded.root.parent))
    assert any(f"[{code}]" in message for code in ("invalid_sql", "not_found", "invalid_input", "unsupported"))
    assert "xyzzy" not in message


PATHS = [
    "../x",
    "a/b",
    "/etc/x",
    "..",
    ".",
    ".x",
    ".lance-flight",
    "__x/../y",
    "a$b",
    "x$partitions",
    "x@1",
    "a.b",
    " a",
    "a ",
    "a@b",
    "é" * 101,
    "__manifest",
    "a%252Fb",
    "a\tb",
    "a\\b",
    "%2e%2e",
    "a%2fb",
]
"""Names that no table can have, which would lead elsewhere or be read as something else."""


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {n} (id INT)",
        "CREATE TABLE {n} (id INT) PARTITIONED BY (id)",
        "CREATE TABLE {n} AS SELECT 1 AS id",
        "CREATE TABLE IF NOT EXISTS {n} (id INT)",
        "CREATE TABLE {n}.t (id INT)",
    ],
)
def test_a_table_of_an_illegal_name_is_not_made(guarded: Database, statement: str, name: str) -> None:
    message = guarded.refuses(statement.format(n=f'"{name}"'))
    assert "is not allowed" in message or "[not_found]" in message


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("mode", ["create", "append", "replace", "create_append"])
def test_an_ingest_makes_no_table_of_an_illegal_name(guarded: Database, mode: str, name: str) -> None:
    rows = pa.table({"id": [1]})
    for message in (
        guarded.refuses_ingest(name, rows, mode),
        guarded.refuses_ingest(name, rows, mode, partition_by="id"),
        guarded.refuses_ingest("t", rows, mode, db_schema_name=name),
    ):
        assert "[invalid_input]" in message or "[not_found]" in message


def test_dropping_what_is_not_there_if_it_exists_removes_nothing(guarded: Database) -> None:
    for name in [*PATHS, "__manifest", "flights/__manifest", "airports.lance", "../root/flights"]:
        assert guarded.run(f'DROP TABLE IF EXISTS "{name}"') == 0


@pytest.mark.parametrize("depth", [200, 5000])
@pytest.mark.parametrize(
    "nested", ["SELECT {}(1){}", "SELECT {}NOT (true){}", "SELECT {}abs(1){}", "SELECT * FROM {}(SELECT 1){}"]
)
def test_a_statement_nested_without_end_is_refused(guarded: Database, nested: str, depth: int) -> None:
    message = guarded.refuses(nested.format("(" * depth, ")" * depth))
    assert "invalid_sql" in message


CHAINS = [
    pytest.param("id <> {n}", " AND ", 0, id="and"),
    pytest.param("id = {n}", " OR ", 2, id="or"),
    pytest.param("origin LIKE '{n}%'", " OR ", 0, id="like"),
    pytest.param("origin NOT LIKE '{n}%'", " AND ", 2, id="not like"),
    pytest.param("(id = {n} AND origin = 'JFK')", " OR ", 1, id="pairs"),
    pytest.param("id + {n} > 0", " AND ", 2, id="computed"),
]


@pytest.mark.parametrize(("condition", "join", "expected"), CHAINS)
@pytest.mark.parametrize("length", [40, 400])
def test_a_query_of_many_conditions_has_its_answer(
    guarded: Database, condition: str, join: str, expected: int, length: int
) -> None:
    where = join.join(condition.format(n=n) for n in range(1, length))
    assert guarded.value(f"SELECT count(*) FROM flights WHERE {where}") == expected
