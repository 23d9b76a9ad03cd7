"""Tables of the connector's catalogs in Spark's SQL, over a root and over its server; results are those of the service's own SQL."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from tests.engine.database import Database
from tests.selection import IS_FULL
from tests.service.server_process import Server
from tests.spark.connector_results import CATALOGS, IN_SPARK, plan_of, pushed, texts, values
from tests.spark.every_type import typed
from tests.spark.processes import descendants


@pytest.mark.parametrize("catalog", CATALOGS)
def test_every_kind_of_table_is_read_as_the_service_reads_it(
    sql: SparkSession, database: Database, shapes: Mapping[str, str], catalog: str
) -> None:
    aggregates = "count(*) AS n, count(id) AS known, min(id) AS least, max(id) AS most"
    asked = [f"'{name}' AS shape, {aggregates} FROM {{}}{name}" for name in shapes.values()]
    found = " UNION ALL ".join(f"SELECT {text.format(f'{catalog}.')} WHERE id IS NOT NULL" for text in asked)
    expected = [row for text in asked for row in database.rows(f"SELECT {text.format('')}")]
    assert values(sql.sql(found)) == texts([(name, known, known, *ends) for name, _, known, *ends in expected])
    for name in shapes.values():
        assert sql.table(f"{catalog}.{name}").columns == database.query(f"SELECT * FROM {name} LIMIT 0").column_names
    assert {row.col_name for row in sql.sql(f"DESCRIBE TABLE {catalog}.nulls").collect()} >= {"id", "part", "at", "x"}


FIELDS = {
    "SELECT s.b FROM {t}": [("B",), (None,)],
    "SELECT s.c.y, id FROM {t}": [("Y", 1), (None, 2)],
    "SELECT l.q FROM {t}": [(["Q"],), (None,)],
    "SELECT l[0].q FROM {t} WHERE l[0].q = 'Q'": [("Q",)],
    "SELECT id FROM {t} WHERE upper(s.b) = 'B'": [(1,)],
    "SELECT id FROM {t} WHERE s.c.y = 'Y' AND upper(s.b) <> 'A'": [(1,)],
    "SELECT min(s.b), max(s.c.y), count(s.c.x) FROM {t}": [("B", "Y", 1)],
    "SELECT o.s.b, n.l.q FROM {t} AS o JOIN {t} AS n ON o.s.b = n.s.b": [("B", ["Q"])],
    "SELECT s.b, _partition IS NULL FROM {t}": [("B", False), (None, False)],
    "SELECT data_file.record_count FROM {t}.entries": [(1,), (1,)],
}
"""Fields inside columns, each of the type of its neighbour: Spark asks for columns with these fields alone."""


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_dataframe_reads_what_was_written_after_it_was_made(
    sql: SparkSession, database: Database, table: str, catalog: str
) -> None:
    """Spark loads a table again that has a version, so that all parts of a query read one."""
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (1, 'a')")
    made = sql.table(f"{catalog}.{table}")
    first = database.value(f'SELECT max(version) FROM "{table}$snapshots"')
    pinned = sql.sql(f"SELECT * FROM {catalog}.{table} VERSION AS OF {first}")
    assert made.count() == 1
    database.run(f"INSERT INTO {table} VALUES (2, 'b')")
    assert made.count() == 2
    assert made.join(sql.table(f"{catalog}.{table}"), "id").count() == 2
    assert pinned.count() == 1
    database.run(f"ALTER TABLE {table} ADD COLUMN more INT")
    assert sorted(made.filter("id > 0").collect()) == [(1, "a"), (2, "b")]
    database.run(f"ALTER TABLE {table} RENAME COLUMN id TO key")
    with pytest.raises(AnalysisException, match="INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS"):
        made.count()


@pytest.mark.parametrize("catalog", CATALOGS)
def test_fields_inside_columns_are_read_as_themselves(
    sql: SparkSession, database: Database, table: str, catalog: str
) -> None:
    inner = "STRUCT(p VARCHAR, q VARCHAR)"
    kinds = f"id BIGINT, s STRUCT(a VARCHAR, b VARCHAR, c STRUCT(x VARCHAR, y VARCHAR)), l {inner}[]"
    database.run(f"CREATE TABLE {table} ({kinds}) PARTITIONED BY (id)")
    database.run(
        f"INSERT INTO {table} VALUES (1, {{'a': 'A', 'b': 'B', 'c': {{'x': 'X', 'y': 'Y'}}}}, [{{'p': 'P', 'q': 'Q'}}]), (2, NULL, NULL)"
    )
    name = f"{catalog}.{table}"
    found = {query: values(sql.sql(query.format(t=name))) for query in FIELDS}
    assert found == {query: texts(rows) for query, rows in FIELDS.items()}
    query = sql.readStream.table(name).selectExpr("s.b").writeStream.format("memory").queryName(f"{table}_b").start()
    query.processAllAvailable()
    query.stop()
    assert values(sql.table(f"{table}_b")) == texts([("B",), (None,)])
    sql.sql(f"UPDATE {name} SET id = id + 10 WHERE upper(s.b) = 'B' AND s.c.x IS NOT NULL")
    sql.sql(
        f"MERGE INTO {name} AS t USING (SELECT 'Y' AS y) AS n ON t.s.c.y = n.y WHEN MATCHED THEN UPDATE SET id = t.id + 100"
    )
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(2,), (111,)]


def test_a_plan_names_the_filters_and_the_columns_that_are_read(sql: SparkSession, shapes: Mapping[str, str]) -> None:
    found = sql.table(f"lake.{shapes['nulls']}")
    assert pushed(found.filter("part = 'p1'")) == "part IS NOT NULL, part = 'p1'"
    assert pushed(found.filter("x > 3")) == "x IS NOT NULL"
    assert pushed(found.filter("upper(part) = 'P1' AND id = 3")) == "part IS NOT NULL, id IS NOT NULL, id = 3"
    for catalog in CATALOGS:
        plan = plan_of(sql.table(f"{catalog}.{shapes['nulls']}").select("id"))
        assert re.search(r"BatchScan \S+\[id#\d+L\]", plan)
    some = found.filter("part = 'p1'")
    assert some.union(found.filter("part = 'p2'")).count() == found.filter("part IN ('p1', 'p2')").count() == 104


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_namespaces_tables_and_metadata_tables_are_found(
    sql: SparkSession, database: Database, shapes: Mapping[str, str], catalog: str
) -> None:
    database.run(f"CREATE SCHEMA {catalog}_s")
    database.run(f"CREATE TABLE {catalog}_s.one (id BIGINT)")
    assert f"('{catalog}_s',)" in values(sql.sql(f"SHOW NAMESPACES IN {catalog}"))
    assert values(sql.sql(f"SHOW TABLES IN {catalog}.{catalog}_s")) == texts([(f"{catalog}_s", "one", False)])
    sql.sql(f"USE {catalog}")
    assert sql.sql("SELECT current_schema()").collect() == [("public",)]
    sql.sql(f"USE {catalog}.{catalog}_s")
    assert sql.table("one").count() == 0
    sql.sql("USE spark_catalog.default")
    name = f"{catalog}.public.{shapes['nulls']}"
    expected = database.value(f'SELECT count(*) FROM "{shapes["nulls"]}$partitions"')
    assert sql.table(f"{name}.partitions").count() == sql.table(f"{catalog}.`nulls$partitions`").count() == expected
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.table(f"{catalog}.nope")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql.sql(f"SHOW TABLES IN {catalog}.nope")
    with pytest.raises(IllegalArgumentException, match="table 'nulls' has no version 900"):
        sql.sql(f"SELECT * FROM {name} VERSION AS OF 900")


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_versions_tags_moments_and_branches_are_read(
    sql: SparkSession, database: Database, shapes: Mapping[str, str], table: str, catalog: str
) -> None:
    database.copy(shapes["versions"], table)
    database.run(f"ALTER TABLE {table} CREATE BRANCH side")
    before = sql.table(f"{catalog}.{table}").count()
    database.run(f"DELETE FROM {table} WHERE id > 20")
    history = database.rows(f'SELECT version, committed_at FROM "{table}$snapshots" ORDER BY version')[-3:]
    points = [point for version, at in history for point in (version, f"TIMESTAMP AS OF TIMESTAMP '{at.isoformat()}'")]
    counted = [
        (f"VERSION AS OF {point}" if isinstance(point, int) else point, f"{table}@{history[place // 2][0]}")
        for place, point in enumerate(points)
    ]
    counted += [("VERSION AS OF 'first'", f"{table}@first"), ("VERSION AS OF 'side'", f"{table}@side"), ("", table)]
    found = [sql.sql(f"SELECT count(*) FROM {catalog}.{table} {point}").collect()[0][0] for point, _ in counted]
    assert found == [database.value(f'SELECT count(*) FROM "{name}"') for _, name in counted]
    assert found[-1] < before == 20


@pytest.mark.parametrize("codegen", ["true", *(["false"] if IS_FULL else [])])
@pytest.mark.parametrize(
    "order", [("none", "some", "only"), *([("only", "none", "some")] if IS_FULL else [])], ids="-".join
)
def test_every_type_is_read_as_without_the_connector(
    sql: SparkSession, database: Database, table: str, *, order: tuple[str, ...], codegen: str
) -> None:
    for nulls in order:
        database.ingest(table, typed(nulls), "create_append")
    session = sql.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", codegen)
    for name in ("", ".root", ".python"):
        setting = f"spark.sql.catalog.lake{name}"
        session.conf.set(setting, sql.conf.get(setting))
    rows = session.read.format("lance_flight").options(root=str(database.root), table=table).load()
    assert values(session.table(f"lake.{table}")) == values(rows)
    assert rows.count() == sum(typed(nulls).num_rows for nulls in order)


def test_a_limit_ends_a_task_before_its_rows(sql: SparkSession, database: Database, table: str) -> None:
    database.ingest(table, pa.table({"id": range(300_000)}))
    assert len(sql.sql(f"SELECT id FROM lake.{table} LIMIT 3").collect()) == 3
    assert values(sql.sql(f"SELECT count(DISTINCT id) FROM lake.{table}")) == texts([(300_000,)])


def test_a_process_that_dies_is_started_again_and_a_task_tells_what_python_could_not_read(
    sql: SparkSession, server: Server, table: str
) -> None:
    server.ingest(table, pa.table({"id": range(1000)}))
    found = sql.table(f"lake.{table}")
    assert found.count() == 1000
    (process,) = descendants("lance_flight_client.spark.connector")
    os.kill(process, signal.SIGKILL)
    with suppress(IllegalArgumentException):
        # The statement that meets its end may fail.
        found.selectExpr("min(id)").collect()
    assert found.selectExpr("sum(id)").collect() == [(499_500,)]
    for file in (server.root / f"{table}.lance" / "data").iterdir():
        file.unlink()
    with pytest.raises(IllegalArgumentException, match=rf"\[corrupt\] reading '{table}' failed"):
        found.selectExpr("sum(id + 1)").collect()
