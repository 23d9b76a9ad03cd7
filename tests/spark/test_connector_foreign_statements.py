"""What users of Iceberg and Delta type, in a session with the connector's extension: it works, or its refusal says what to write."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.engine.database import Database
from tests.spark.foreign_statements import REFUSED, WORKING


def test_statements_of_iceberg_and_delta_do_what_they_say(sql: SparkSession, database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT, at TIMESTAMPTZ) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1, NULL), (2, 2, NULL)")
    version = database.value(f'SELECT max(version) FROM "{table}$snapshots"')
    names = {"t": f"lake.{table}", "n": f"public.{table}", "v": version}
    wrong = []
    for statement, expected in WORKING:
        now = dt.datetime.now(dt.UTC).isoformat()
        try:
            rows = sql.sql(statement.format(**names, now=now)).collect()
        except PySparkException as exc:
            wrong.append((statement, str(exc)))
            continue
        shown = str(rows) + str(database.rows(f"SHOW CREATE TABLE {table}"))
        if expected.format(**names) not in shown:
            wrong.append((statement, shown))
    assert not wrong
    before = database.rows(f"SHOW CREATE TABLE {table}")
    for statement, message in REFUSED.items():
        with pytest.raises(PySparkException) as raised:
            sql.sql(statement.format(**names)).collect()
        if re.search(message, str(raised.value)) is None:
            wrong.append((statement, str(raised.value)))
    assert not wrong
    assert database.rows(f"SHOW CREATE TABLE {table}") == before
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]
