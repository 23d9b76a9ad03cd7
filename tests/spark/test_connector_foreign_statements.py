"""What users of Iceberg and Delta type, in a session with the connector's extension: it works, or its refusal says what to write."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.engine.database import Database
from tests.spark.foreign_statements import REFUSED, WORKING


def differs(database: Database, rows: object, expected: str, names: Mapping[str, object]) -> str:
    """Return what is there in place of what is expected; nothing where it is that."""
    kind, _, text = expected.format(**names).partition(" ")
    if kind == "rows":
        found = str([tuple(row) for row in rows])  # type: ignore[attr-defined]
        return "" if found == text else found
    if kind == "stored":
        query, _, text = text.partition(" = ")
        found = str(database.rows(query))
        return "" if found == text else found
    found = str(rows) if kind == "has" else database.rows(f"SHOW CREATE TABLE {names['n']}")[0][-1]
    return "" if text in found else found


def test_statements_of_iceberg_and_delta_do_what_they_say(sql: SparkSession, database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT, at TIMESTAMPTZ) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1, NULL), (2, 2, NULL)")
    version = database.value(f'SELECT max(version) FROM "{table}$snapshots"')
    names = {"t": f"lake.{table}", "n": f"public.{table}", "n0": table, "v": version}
    wrong = []
    for statement, expected in WORKING:
        now = dt.datetime.now(dt.UTC).isoformat()
        try:
            rows = sql.sql(statement.format(**names, now=now)).collect()
            found = differs(database, rows, expected, names)
        except PySparkException as exc:
            found = str(exc)
        if found:
            wrong.append(f"{statement}\n  expected {expected}\n  found    {found}")
    assert not wrong, "\n".join(wrong)
    database.run(f"ALTER TABLE {table} CREATE TAG kept")
    before = database.rows(f"SHOW CREATE TABLE {table}")
    for statement, message in REFUSED.items():
        try:
            found = f"{sql.sql(statement.format(**names)).collect()} and no error"
        except PySparkException as exc:
            found = str(exc)
        if re.search(message, found) is None:
            wrong.append(f"{statement}\n  expected {message}\n  found    {found}")
    assert not wrong, "\n".join(wrong)
    assert database.rows(f"SHOW CREATE TABLE {table}") == before
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]
