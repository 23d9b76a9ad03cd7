"""What statements are told that cannot be run: what is wrong, where it stands in the text that was sent, what to write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.database import Database


@pytest.fixture(scope="module")
def tables(database: Database) -> Iterator[Database]:
    """Tables of several schemas and cases, and directories that look like tables."""
    (database.root / "elsewhere").mkdir()
    (database.root / "hollow.lance" / "data").mkdir(parents=True)
    database.run("CREATE TABLE said (id BIGINT, at TIMESTAMP, p VARCHAR) PARTITIONED BY (p)")
    database.run("CREATE TABLE elsewhere.planes (id BIGINT)")
    yield database
    database.run("DROP TABLE said")
    database.run("DROP TABLE elsewhere.planes")


NAMES = [
    pytest.param("SELECT * FROM hollow", ["'hollow'", "no table in it that can be read"], id="a directory alone"),
    pytest.param("SELECT * FROM planes", ["'planes'", "did you mean elsewhere.planes?"], id="another schema"),
    pytest.param("DROP TABLE planes", ["'planes'", "did you mean elsewhere.planes?"], id="another schema of DROP"),
    pytest.param('SELECT * FROM "SAID"', ["no table 'SAID'", "there is 'said'", "in quotes"], id="another case"),
    pytest.param("SELECT * FROM sayd", ["did you mean 'said'?"], id="a slip"),
    pytest.param("INSERT INTO hollow VALUES (1)", ["'hollow'", "no table in it that can be read"], id="INSERT"),
]


@pytest.mark.parametrize(("statement", "said"), NAMES)
def test_a_table_that_is_not_there_is_never_itself_suggested(tables: Database, statement: str, said: list[str]) -> None:
    answer = tables.refuses(statement)
    assert "[not_found]" in answer
    assert all(part in answer for part in said), answer


HABITS = [
    pytest.param("\\d", "DESCRIBE t", id="\\d"),
    pytest.param("\\d said", "DESCRIBE t", id="\\d of a table"),
    pytest.param("\\dt+", "SHOW TABLES", id="\\dt+"),
    pytest.param("\\l", "SHOW TABLES", id="\\l"),
    pytest.param("\\q", "close the connection", id="\\q"),
    pytest.param("\\?", "SHOW TABLES", id="\\?"),
    pytest.param("?", "SHOW TABLES", id="?"),
    pytest.param("help", "SHOW TABLES", id="help"),
    pytest.param("help;", "SHOW TABLES", id="help;"),
    pytest.param(".tables", "SHOW TABLES", id=".tables"),
    pytest.param(".schema said", "DESCRIBE t", id=".schema"),
    pytest.param(".quit", "close the connection", id=".quit"),
    pytest.param("COPY said FROM 'x.csv'", "adbc_ingest", id="COPY FROM"),
    pytest.param("COPY (SELECT 1) TO 'x.csv'", "adbc_ingest", id="COPY TO"),
    pytest.param("COPY said TO 'x.parquet'", "lance-flight export t -o FILE", id="COPY TO a file"),
    pytest.param("COPY said FROM 'x.csv'", "lance-flight ingest FILE --table t", id="COPY FROM a file"),
    pytest.param("LOAD DATA INFILE 'x' INTO TABLE said", "adbc_ingest", id="LOAD DATA"),
    pytest.param("SHOW DATABASES", "SHOW SCHEMAS", id="SHOW DATABASES"),
    pytest.param("DESCRIBE EXTENDED said", "DESCRIBE t", id="DESCRIBE EXTENDED"),
    pytest.param("DESC HISTORY said", "t$snapshots", id="DESCRIBE HISTORY"),
    pytest.param("PRAGMA table_info('said')", "DESCRIBE t", id="PRAGMA"),
    pytest.param("END", "autocommit", id="END"),
    pytest.param("ABORT", "ROLLBACK", id="ABORT"),
    pytest.param("GRANT SELECT ON said TO ann", "policies", id="GRANT"),
    pytest.param("OPTIMIZE said", "ALTER TABLE t COMPACT", id="OPTIMIZE"),
    pytest.param("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW", id="CREATE MATERIALIZED VIEW"),
    pytest.param("CREATE DATABASE s", "CREATE SCHEMA s", id="CREATE DATABASE"),
    pytest.param("DROP DATABASE s", "DROP SCHEMA s", id="DROP DATABASE"),
    pytest.param("INSERT OR REPLACE INTO said VALUES (1)", "MERGE INTO", id="INSERT OR REPLACE"),
    pytest.param("REPLACE INTO said VALUES (1)", "MERGE INTO", id="REPLACE INTO"),
    pytest.param("PREPARE p AS SELECT 1", "bind", id="PREPARE"),
    pytest.param("TABLE said", "SELECT * FROM t", id="TABLE"),
    pytest.param("RENAME TABLE said TO other", "ALTER TABLE t RENAME TO u", id="RENAME TABLE"),
    pytest.param("REFRESH TABLE said", "newest version", id="REFRESH TABLE"),
]


@pytest.mark.parametrize(("statement", "said"), HABITS)
def test_statements_of_other_systems_are_told_what_to_write(tables: Database, statement: str, said: str) -> None:
    answer = tables.refuses(statement)
    assert "[invalid_sql]" in answer
    assert "begins no statement here: " in answer
    assert said in answer


def test_a_table_may_be_called_like_a_word_of_other_systems(database: Database) -> None:
    for name in ("history", "help", "extended", "copy", "schemas"):
        database.run(f"CREATE TABLE {name} (id INT)")
        assert database.rows(f"DESC {name}")
        assert database.rows(f"DESCRIBE public.{name}")
        database.run(f"DROP TABLE {name}")


FILES = {
    "read_parquet": "SELECT * FROM read_parquet('x.parquet')",
    "read_csv_auto": "SELECT * FROM read_csv_auto('x.csv')",
    "s3": "CREATE TABLE t AS SELECT * FROM s3('x')",
    "a file as a table": "SELECT * FROM 'x.parquet'",
    "a path as a table": 'SELECT * FROM "in/x.csv.gz"',
}


@pytest.mark.parametrize("statement", FILES.values(), ids=FILES)
def test_queries_of_files_are_told_how_files_come_in(tables: Database, statement: str) -> None:
    answer = tables.refuses(statement)
    assert "[not_found]" in answer or "[invalid_sql]" in answer
    assert "lance-flight ingest FILE --table t" in answer


POSITIONS = [
    pytest.param("SELECT id FROM said WHERE ) = 1", "line 1, column 27", id="a query"),
    pytest.param("  /* x */\n\n SELECT id\nFROM said WHERE ) = 1 ;", "line 4, column 17", id="lines"),
    pytest.param("SELECT at::TIMESTAMP, CAST(at AS DATETIME) FROM said WHERE ) = 1", "line 1, column 60", id="types"),
    pytest.param("SELECT ?, ?, ? FROM said WHERE ) = 1", "line 1, column 32", id="parameters"),
    pytest.param("SELECT murmur3(id), murmur3(p) FROM said WHERE ) = 1", "line 1, column 48", id="hashes"),
    pytest.param("SELECT id IS DISTINCT FROM 1 AND true FROM said WHERE ) = 1", "line 1, column 55", id="brackets"),
    pytest.param("SELECT p FROM said GROUP BY p WITH ROLLUP HAVING ) = 1", "line 1, column 50", id="ROLLUP"),
    pytest.param("EXPLAIN\nSELECT id FROM said WHERE ) = 1", "line 2, column 27", id="EXPLAIN"),
    pytest.param("CREATE TABLE x AS\nSELECT id FROM said WHERE id = = 1", "line 2, column 32", id="CREATE TABLE AS"),
    pytest.param("INSERT INTO said SELECT 1, 1, * FROM said WHERE id = = 1", "line 1, column 54", id="INSERT"),
    pytest.param("INSERT INTO said VALUES (?, ?, 'x'), (1, 2 3)", "line 1, column 44", id="VALUES"),
    pytest.param("DELETE FROM said AS s\nWHERE id = 1 AND p = = 'x'", "line 2, column 22", id="DELETE"),
    pytest.param("UPDATE said SET id = id + + * 2 WHERE p = 'x'", "line 1, column 29", id="UPDATE"),
    ("UPDATE said SET id = 2 WHERE at = TIMESTAMP '2026-01-01' AND p = = 'x'", "line 1, column 66"),
    ("MERGE INTO said USING (SELECT 1 AS id) AS s\nON said.id = = s.id WHEN MATCHED THEN DELETE", "line 2, column 14"),
    pytest.param("SHOW PARTITIONS said WHERE rows = = 1", "line 1, column 35", id="SHOW PARTITIONS"),
    pytest.param("SELECT id, at::TIMESTAMP FROM said\nPREWHERE id = 1", "line 2, column 1", id="a clause"),
    pytest.param("DELETE FROM said WHERE EXISTS (SELECT 1 FROM said\n FOR UPDATE)", "line 2, column 2", id="in DELETE"),
    pytest.param("UPDATE said SET id = ?, p = ?, ! = 1", "character 32", id="an error of ours"),
    pytest.param("EXPLAIN UPDATE said SET id = ?, ! = 1", "character 33", id="one in EXPLAIN"),
]


@pytest.mark.parametrize(("statement", "position"), POSITIONS)
def test_positions_are_those_of_the_text_that_was_sent(tables: Database, statement: str, position: str) -> None:
    answer = tables.refuses(statement, [None] * statement.count("?") or None)
    assert f"at {position}" in answer
    assert "Column: " not in answer


def test_a_type_that_is_none_has_no_position_of_a_text_that_nobody_sent(database: Database) -> None:
    answer = database.refuses("CREATE TABLE x (id INT, a BIGINT BIGINT)")
    assert "'BIGINT BIGINT' is not a type" in answer
    assert "Column: " not in answer
