"""CALL of the connector's procedures: each is a statement of the service, and its report comes back as rows."""

from __future__ import annotations

import pytest
from lance_flight_client.spark.connector.tables.procedures import PROCEDURES
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.connector_results import CATALOGS


def made(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    for start in range(3):
        server.run(f"INSERT INTO {table} SELECT value + {10 * start}, value % 2 FROM range(10)")


@pytest.mark.parametrize("catalog", CATALOGS)
def test_versions_are_named_and_gone_back_to(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    made(server, table)
    versions = [version for (version,) in server.rows(f'SELECT version FROM "{table}$snapshots" ORDER BY 1')]
    sql.sql(f"CALL {catalog}.system.create_tag('{table}', 'first', '{versions[1]}')")
    assert sql.sql(f"SELECT count(*) FROM {catalog}.{table} VERSION AS OF 'first'").collect() == [(10,)]
    sql.sql(f"CALL {catalog}.system.rollback(version => 'first', table => 'public.{table}')")
    assert server.value(f"SELECT count(*) FROM {table}") == 10
    sql.sql(f"CALL {catalog}.system.drop_tag('{table}', 'first')")
    assert server.rows(f'SELECT * FROM "{table}$tags"') == []
    sql.sql(f"CALL {catalog}.system.create_branch('{table}', 'trial')")
    server.run(f'INSERT INTO "{table}@trial" VALUES (99, 1)')
    sql.sql(f"CALL {catalog}.system.publish_branch('{table}', 'trial')")
    assert server.value(f"SELECT max(id) FROM {table}") == 99


@pytest.mark.parametrize("catalog", CATALOGS)
def test_tables_are_maintained(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    made(server, table)
    files = f'SELECT count(*) FROM "{table}$files"'
    before = server.value(files)
    report = sql.sql(f"CALL {catalog}.system.compact('{table}')")
    assert report.columns == server.query(f"ALTER TABLE {table} COMPACT").column_names
    assert report.count() == 2
    assert server.value(files) < before
    assert sql.sql(f"CALL {catalog}.system.verify('{table}')").count() >= 1
    dry = sql.sql(f"CALL {catalog}.system.vacuum('{table}', retain_hours => '200', dry_run => 'true')")
    assert dry.columns == server.query(f"VACUUM {table} RETAIN 200 HOURS DRY RUN").column_names
    assert server.value(f"SELECT count(*) FROM {table}") == 30


REFUSED = {
    "no procedure": ("nothing('t')", "Failed to load routine `lake`.`system`.`nothing`"),
    "no table": ("compact('nothing_here')", "no table 'nothing_here'"),
    "no number": ("vacuum('t', 'soon')", "'soon' is no number of hours"),
    "NULL": ("drop_tag('t', NULL)", "parameter 'tag' is NULL"),
    "SQL in a name": ("compact('t; DROP TABLE t')", "no table 't; DROP TABLE t'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_call_that_makes_no_sense_is_refused(sql: SparkSession, case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(PySparkException, match=message):
        sql.sql(f"CALL lake.system.{call}").collect()


def test_procedures_are_listed(sql: SparkSession) -> None:
    listed = sql.sql("SHOW PROCEDURES IN lake.system")
    assert {row[-1] for row in listed.collect()} == set(PROCEDURES)
