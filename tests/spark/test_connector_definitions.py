"""Tables and namespaces made, changed and dropped through the connector's catalogs; what is stored is asked of the server."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.connector_results import CATALOGS, values

COLUMNS = (
    "id BIGINT NOT NULL COMMENT 'the key', ts TIMESTAMP, n TIMESTAMP_NTZ, s STRING DEFAULT 'it''s', d DECIMAL(10, 2), day DATE,"
    " f FLOAT, x DOUBLE, b BINARY, y TINYINT, l ARRAY<INT>, o STRUCT<a: INT, `B c`: STRING>"
)
FIELDS = {
    "identity": ("s", ["s"]),
    "buckets": ("bucket(16, id), year(ts)", ["bucket(16, id)", "year(ts)"]),
    "parts": ("year(ts), month(ts), day(ts), hour(ts)", ["year(ts)", "month(ts)", "day(ts)", "hour(ts)"]),
    "years": ("years(ts)", ["year(ts)"]),
    "days": ("days(ts)", ["year(ts)", "month(ts)", "day(ts)"]),
    "hours": ("hours(n), s", ["year(n)", "month(n)", "day(n)", "hour(n)", "s"]),
    "truncate": ("truncate(3, id)", ["truncate(3, id)"]),
    "expression": ("expr('col0 % 4', id)", ["expr('col0 % 4', id)"]),
    "nested": ("multi_bucket(4, id, s)", ["multi_bucket(4, id, s)"]),
    "none": ("", []),
}


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("fields", FIELDS)
def test_a_table_is_made(sql: SparkSession, server: Server, table: str, catalog: str, fields: str) -> None:
    given, expected = FIELDS[fields]
    partitioned = f"PARTITIONED BY ({given})" * bool(given)
    sql.sql(f"CREATE TABLE {catalog}.{table} ({COLUMNS}) USING lance_flight {partitioned} COMMENT 'made'")
    assert made_by_the_service(server, f"{table}_x", expected) == shown(server, table).replace(table, f"{table}_x")
    if expected:
        rows = server.query(f'SELECT * FROM "{table}$specs"')
        assert rows.num_rows == len(expected)
    found = sql.table(f"{catalog}.{table}")
    assert found.count() == 0
    assert dict(found.dtypes)["o"] == "struct<a:int,B c:string>"


def shown(server: Server, table: str) -> str:
    ((text,),) = server.query(f"SHOW CREATE TABLE {table}").select([-1]).to_pandas().to_numpy().tolist()
    return str(text)


def made_by_the_service(server: Server, table: str, fields: list[str]) -> str:
    columns = (
        "id BIGINT NOT NULL COMMENT 'the key', ts TIMESTAMPTZ, n TIMESTAMP, s VARCHAR DEFAULT 'it''s', d DECIMAL(10, 2), day DATE,"
        ' f REAL, x DOUBLE, b BYTEA, y TINYINT, l INT[], o STRUCT<a INT, "B c" VARCHAR>'
    )
    partitioned = f"PARTITIONED BY ({', '.join(fields)})" * bool(fields)
    server.run(f"CREATE TABLE {table} ({columns}) {partitioned} COMMENT 'made'")
    return shown(server, table)


REFUSED = {
    "provider": ("(id BIGINT) USING parquet", "expected USING lance_flight"),
    "property": ("(id BIGINT) TBLPROPERTIES ('x' = '1')", "property 'x' is not one of a table"),
    "option": ("(id BIGINT) USING lance_flight OPTIONS (root 'x')", "property 'root' is not one of a table"),
    "type": ("(m MAP<STRING, INT>)", "map<string,int> cannot be made in SQL"),
    "transform": ("(id BIGINT) PARTITIONED BY (nonsense(id))", "nonsense"),
    "column": ("(id BIGINT) PARTITIONED BY (bucket(4, nope))", "nope"),
}


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_cannot_be_made_is_refused(
    sql: SparkSession, server: Server, table: str, catalog: str, case: str
) -> None:
    rest, message = REFUSED[case]
    with pytest.raises(PySparkException, match=message):
        sql.sql(f"CREATE TABLE {catalog}.{table} {rest}")
    assert server.rows(f"SHOW TABLES LIKE '{table}'") == []


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_table_is_made_once_and_dropped_once(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    name = f"{catalog}.{table}"
    sql.sql(f"CREATE TABLE {name} (id BIGINT) TBLPROPERTIES ('file_version' = '2.1')")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        sql.sql(f"CREATE TABLE {name} (id BIGINT)")
    sql.sql(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql.sql(f"CREATE TABLE {catalog}.nowhere.t (id BIGINT)")
    sql.sql(f"DROP TABLE {name}")
    assert server.rows(f"SHOW TABLES LIKE '{table}'") == []
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        sql.sql(f"DROP TABLE {name}")
    sql.sql(f"DROP TABLE IF EXISTS {name}")


CHANGES = {
    "add": ("ADD COLUMN c INT", "id bigint, s string, o struct<a:int>, c int"),
    "add-some": (
        "ADD COLUMNS (c INT COMMENT 'x', d STRING DEFAULT 'y')",
        "id bigint, s string, o struct<a:int>, c int, d string",
    ),
    "add-inside": ("ADD COLUMN o.b BIGINT", "id bigint, s string, o struct<a:int,b:bigint>"),
    "rename": ("RENAME COLUMN s TO t", "id bigint, t string, o struct<a:int>"),
    "drop": ("DROP COLUMN s", "id bigint, o struct<a:int>"),
    "widen": ("ALTER COLUMN o.a TYPE BIGINT", "id bigint, s string, o struct<a:bigint>"),
    "comment": ("ALTER COLUMN s COMMENT 'text'", "id bigint, s string, o struct<a:int>"),
    "nullable": ("ALTER COLUMN id DROP NOT NULL", "id bigint, s string, o struct<a:int>"),
    "table-comment": ("SET TBLPROPERTIES ('comment' = 'x')", "id bigint, s string, o struct<a:int>"),
    "partitioning": ("SET TBLPROPERTIES ('partitioned_by' = 'bucket(8, id)')", "id bigint, s string, o struct<a:int>"),
}


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("case", CHANGES)
def test_a_table_is_changed(sql: SparkSession, server: Server, table: str, catalog: str, case: str) -> None:
    change, expected = CHANGES[case]
    server.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, s VARCHAR, o STRUCT<a INT>) PARTITIONED BY (bucket(4, id))")
    server.run(f"INSERT INTO {table} VALUES (1, 'a', {{a: 2}})")
    before = shown(server, table)
    sql.sql(f"ALTER TABLE {catalog}.{table} {change}")
    found = sql.table(f"{catalog}.{table}")
    assert ", ".join(f"{name} {kind}" for name, kind in found.dtypes) == expected
    assert found.count() == 1
    assert shown(server, table) != before


@pytest.mark.parametrize("catalog", CATALOGS)
def test_what_a_table_does_not_know_is_refused(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, s VARCHAR)")
    before = shown(server, table)
    for change in ("ADD COLUMN c INT FIRST", "SET TBLPROPERTIES ('x' = '1')", "ALTER COLUMN s SET DEFAULT 'x'"):
        with pytest.raises(UnsupportedOperationException, match="expected"):
            sql.sql(f"ALTER TABLE {catalog}.{table} {change}")
    assert shown(server, table) == before


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_table_is_renamed_within_its_namespace(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT)")
    sql.sql(f"ALTER TABLE {catalog}.public.{table} RENAME TO public.{table}_new")
    assert server.value(f"SELECT count(*) FROM {table}_new") == 0
    with pytest.raises(PySparkException, match="cannot be moved"):
        sql.sql(f"ALTER TABLE {catalog}.public.{table}_new RENAME TO other.{table}")


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_namespace_is_made_and_dropped_when_it_is_empty(
    sql: SparkSession, server: Server, table: str, catalog: str
) -> None:
    space = f"{catalog}.{table}_s"
    sql.sql(f"CREATE NAMESPACE {space}")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        sql.sql(f"CREATE NAMESPACE {space}")
    sql.sql(f"CREATE TABLE {space}.t (id BIGINT)")
    with pytest.raises(PySparkException, match="not empty"):
        sql.sql(f"DROP NAMESPACE {space}")
    with pytest.raises(PySparkException, match="CASCADE"):
        sql.sql(f"DROP NAMESPACE {space} CASCADE")
    sql.sql(f"DROP TABLE {space}.t")
    sql.sql(f"DROP NAMESPACE {space}")
    assert f"('{table}_s',)" not in values(sql.sql(f"SHOW NAMESPACES IN {catalog}"))


@pytest.mark.parametrize("catalog", CATALOGS)
def test_branches_are_read_as_versions(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    server.ingest(table, server.query("SELECT 1 AS id, 'a' AS s"), partition_by="s")
    server.run(f"ALTER TABLE {table} CREATE BRANCH side")
    server.run(f"INSERT INTO \"{table}@side\" VALUES (2, 'b')")
    assert sql.sql(f"SELECT id FROM {catalog}.{table} VERSION AS OF 'side' WHERE s = 'b'").collect() == [(2,)]
    assert sql.table(f"{catalog}.{table}").count() == 1
    with pytest.raises(PySparkException, match="nope"):
        sql.sql(f"SELECT * FROM {catalog}.{table} VERSION AS OF 'nope'")


DEFAULTS = {
    "n": "BIGINT DEFAULT 3",
    "s": "VARCHAR DEFAULT 'it''s \\ \"x\"'",
    "d": "DECIMAL(10, 2) DEFAULT 1.5",
    "f": "DOUBLE DEFAULT 0.5",
    "b": "BOOLEAN DEFAULT true",
    "ts": "TIMESTAMPTZ DEFAULT TIMESTAMP '2026-01-01'",
    "at": "TIMESTAMP DEFAULT '2026-01-01T00:00:00.5'",
    "day": "DATE DEFAULT '2026-01-02'",
    "small": "TINYINT UNSIGNED DEFAULT 200",
    "r": "REAL DEFAULT 0.1",
}


def test_rows_that_name_no_value_get_the_default(sql: SparkSession, server: Server, table: str) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in DEFAULTS.items())
    server.run(f"CREATE TABLE {table} (id BIGINT, {columns}) PARTITIONED BY (bucket(2, id))")
    server.run(f"INSERT INTO {table} (id) VALUES (1)")
    sql.sql(f"INSERT INTO lake.{table} (id) VALUES (2)")
    sql.sql(f"INSERT INTO lake.{table} (id, s, n) VALUES (3, DEFAULT, NULL)")
    one, two, three = server.rows(f"SELECT {', '.join(DEFAULTS)} FROM {table} ORDER BY id")
    assert one == two
    assert three == (None, *one[1:])
    sql.sql(f"UPDATE lake.{table} SET s = DEFAULT WHERE id = 3")
    assert values(sql.sql(f"SELECT s FROM lake.{table} WHERE id = 3")) == [repr((one[1],))]


@pytest.mark.parametrize("catalog", CATALOGS)
def test_comments_are_shown(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT COMMENT 'it''s the key', k INT) PARTITIONED BY (k) COMMENT 'made'")
    shown = {row.col_name: row for row in sql.sql(f"DESCRIBE TABLE EXTENDED {catalog}.{table}").collect()}
    assert shown["id"].comment == "it's the key"
    assert shown["Comment"].data_type == "made"
    sql.sql(f"COMMENT ON TABLE {catalog}.{table} IS 'changed'")
    sql.sql(f"ALTER TABLE {catalog}.{table} ALTER COLUMN k COMMENT 'a part'")
    assert "COMMENT 'changed'" in sql.sql(f"SHOW CREATE TABLE {catalog}.{table}").collect()[0][0]
    assert sql.table(f"{catalog}.{table}").schema["k"].metadata["comment"] == "a part"
