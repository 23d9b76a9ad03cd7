"""What Spark itself does with options, schema evolution and conflicts; what they mean is tested in `test_connector_table_options`."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tests.engine.database import Database
from tests.selection import IS_FULL
from tests.spark.connector_results import IN_SPARK

IS_NEWEST = pyspark.__version__ >= "4.3"
"""From 4.3 on UPDATE, DELETE and MERGE take options, INSERT changes the columns of its table, and two names of one table have options of their
own in one statement."""


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()), key=str)


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_reads_are_of_what_their_options_name(sql: SparkSession, database: Database, table: str, catalog: str) -> None:
    name = f"{catalog}.{table}"
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1)")
    version = database.value(f'SELECT max(version) FROM "{table}$snapshots"')
    database.run(f"INSERT INTO {table} VALUES (2, 2)")
    assert rows(sql.sql(f"SELECT id FROM {name} WITH (snapshot = {version})")) == [(1,)]
    assert rows(sql.read.option("snapshot", str(version)).table(name)) == [(1, 1)]
    assert rows(sql.sql(f"SELECT count(*) FROM {name} WITH (snapshot = {version})")) == [(1,)]
    if IS_NEWEST:
        check_two_names(sql, name, version)
    assert rows(sql.read.option("versionAsOf", str(version)).table(name)) == [(1, 1)]
    for asked, message in {
        f"SELECT * FROM {name} WITH (nonsense = 'x')": "option 'nonsense'; expected snapshot",
        f"SELECT count(*) FROM {name} WITH (starting = 'latest')": "'starting'; expected readStream",
        f"SELECT id FROM {name} WITH (filter = 'id = 1')": "'filter'; expected WHERE",
    }.items():
        with pytest.raises(PySparkException, match=rf"\[invalid_input\].*{message}") as raised:
            sql.sql(asked).collect()
        assert raised.value.getSqlState() == "22023"
    with pytest.raises(PySparkException, match="option 'nonsense'"):
        sql.read.option("nonsense", "x").table(name).collect()


def check_two_names(sql: SparkSession, name: str, version: int) -> None:
    """Check that a statement reads one table at two points."""
    then = f"{name} WITH (snapshot = {version})"
    assert rows(sql.sql(f"SELECT t.id FROM {name} t LEFT ANTI JOIN {then} AS o ON t.id = o.id")) == [(2,)]
    assert rows(sql.sql(f"SELECT k FROM {name} UNION ALL SELECT k FROM {then}")) == [(1,), (1,), (2,)]


def test_writes_are_as_their_options_say(sql: SparkSession, database: Database, table: str) -> None:
    name = f"lake.{table}"
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    database.run(f"ALTER TABLE {table} CREATE BRANCH side")
    for _ in range(2):
        sql.sql(f"INSERT INTO {name} WITH (commit_id = 'a') VALUES (1, 1)")
        sql.range(2, 3).selectExpr("id", "2L AS k").writeTo(name).option("commit_id", "b").append()
        sql.range(3, 4).selectExpr("id", "3L AS k").write.option("commit_id", "c").mode("append").saveAsTable(name)
        sql.range(4, 5).selectExpr("id", "4L AS k").write.option("commit_id", "d").insertInto(name)
    assert database.rows(f"SELECT id FROM {table} ORDER BY 1") == [(1,), (2,), (3,), (4,)]
    sql.sql(f"INSERT OVERWRITE {name} WITH (branch = 'side') VALUES (9, 9)")
    assert database.value(f"SELECT count(*) FROM {table}") == 4
    assert database.rows(f'SELECT id FROM "{table}@side"') == [(9,)]
    frame = sql.range(1).selectExpr("id", "1L AS k")
    for write in (
        lambda: sql.sql(f"INSERT INTO {name} WITH (nonsense = 'x') VALUES (1, 1)"),
        lambda: sql.sql(f"INSERT OVERWRITE {name} WITH (nonsense = 'x') VALUES (1, 1)"),
        lambda: frame.writeTo(name).option("nonsense", "x").append(),
        lambda: frame.writeTo(name).option("nonsense", "x").overwritePartitions(),
        lambda: frame.writeTo(f"{name}_new").option("nonsense", "x").create(),
        lambda: frame.writeTo(f"{name}_new").using("lance_flight").option("nonsense", "x").createOrReplace(),
        lambda: frame.write.option("nonsense", "x").insertInto(name),
    ):
        with pytest.raises(PySparkException, match="'nonsense'"):
            write()
    if IS_NEWEST:
        for statement in (
            f"UPDATE {name} WITH (commit_id = 'x') SET k = 7 WHERE id = 1",
            f"DELETE FROM {name} WITH (commit_id = 'x') WHERE id = 1",
            f"DELETE FROM {name} WITH (commit_id = 'x')",
            f"DELETE FROM {name} WITH (branch = 'side')",
            f"DELETE FROM {name} WITH (branch = 'side') WHERE k = 1",
            f"MERGE INTO {name} t WITH (commit_id = 'x') USING (SELECT 1L AS id) n ON t.id = n.id WHEN MATCHED THEN DELETE",
            f"MERGE INTO {name} t WITH (commit_id = 'x') USING (SELECT 9L AS id, 9L AS k) n ON t.id = n.id WHEN NOT MATCHED THEN INSERT *",
            f"MERGE INTO {name} t WITH (branch = 'side') USING (SELECT 1L AS id, 1L AS k) n ON t.id = n.id WHEN NOT MATCHED THEN INSERT *",
        ):
            with pytest.raises(PySparkException, match=r"option '(commit_id|branch)'"):
                sql.sql(statement)
    assert database.rows(f"SELECT id FROM {table} ORDER BY 1") == [(1,), (2,), (3,), (4,)]
    assert not database.rows(f"SHOW TABLES LIKE '{table}_new'")
    sql.sql(f"TRUNCATE TABLE {name}")
    assert database.rows(f"SELECT id FROM {table}") == []


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_a_merge_changes_the_columns_that_it_is_asked_to(
    sql: SparkSession, database: Database, table: str, catalog: str
) -> None:
    name = f"{catalog}.{table}"
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, k INT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    source = "(SELECT * FROM VALUES (2L, 2, 'b'), (3L, 3, 'c') AS n(id, k, word))"
    matched = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    sql.sql(f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING {source} n ON t.id = n.id {matched}")
    assert rows(sql.table(name)) == [(1, 1, None), (2, 2, "b"), (3, 3, "c")]
    created = sql.sql(f"SHOW CREATE TABLE {name}").collect()[0][0]
    assert "id BIGINT NOT NULL" in created
    if IS_NEWEST:
        sql.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {name} BY NAME SELECT 4L AS id, 4 AS k, 5L AS more")
        assert rows(sql.sql(f"SELECT * FROM {name} WHERE id = 4")) == [(4, 4, None, 5)]
        wider = sql.sql("SELECT 5L AS id, 5 AS k, true AS flag")
        with pytest.raises(PySparkException, match="EXTRA_COLUMNS"):
            wider.writeTo(name).option("mergeSchema", "false").append()
        wider.writeTo(name).option("mergeSchema", "true").append()
        assert rows(sql.sql(f"SELECT * FROM {name} WHERE id = 5")) == [(5, 5, None, None, True)]
    with pytest.raises(PySparkException, match="NULL"):
        sql.sql(f"INSERT INTO {name} (id, k) VALUES (NULL, 1)")


def commits(database: Database, table: str) -> list[str]:
    """What each commit to a table did, newest first; those that store the metadata of the commit before say nothing new."""
    done = database.rows(f'SELECT operation FROM "{table}$snapshots" ORDER BY version DESC')
    return [operation for (operation,) in done if operation != "metadata"]


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_the_columns_of_a_write_are_committed_with_its_rows(
    sql: SparkSession, database: Database, table: str, catalog: str
) -> None:
    name = f"{catalog}.{table}"
    database.run(f"CREATE TABLE {table} (id BIGINT, k INT, n INT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2)")
    before, columns = commits(database, table), database.rows(f"SHOW CREATE TABLE {table}")
    merge = (
        f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING (SELECT * FROM VALUES {{}} AS s(id, k, n, word)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    sql.sql("EXPLAIN " + merge.format("(2L, 2, 3, 'b')")).collect()
    with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
        sql.sql(merge.format("(2L, 2, 3, 'b'), (2L, 2, 4, 'c')"))
    assert (commits(database, table), database.rows(f"SHOW CREATE TABLE {table}")) == (before, columns)
    sql.sql(merge.format("(2L, 2, 1L << 40, 'b'), (3L, 3, 3L, 'c')"))
    made, *others = commits(database, table)
    assert others == before
    assert made.startswith("alter column n type BIGINT, add column word; write ")
    held = [(1, 1, 1, None), (2, 2, 1 << 40, "b"), (3, 3, 3, "c")]
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == held
    assert rows(sql.table(name)) == held
    if IS_NEWEST:
        check_evolved_inserts(sql, database, catalog, table)


def check_evolved_inserts(sql: SparkSession, database: Database, catalog: str, table: str) -> None:
    """Add columns by INSERT and by DataFrames, in one commit each, which a failure leaves none of."""
    name, before = f"{catalog}.{table}", commits(database, table)
    wider = sql.sql("SELECT 4L AS id, 4 AS k, 4L AS n, 'd' AS word, 0.5D AS x")
    wider.writeTo(name).option("mergeSchema", "true").option("commit_id", "once").append()
    wider.writeTo(name).option("mergeSchema", "true").option("commit_id", "once").append()
    assert commits(database, table)[1:] == before
    with pytest.raises(PySparkException, match="no more"):
        sql.sql(
            f"INSERT WITH SCHEMA EVOLUTION INTO {name} BY NAME SELECT id, k, CAST(raise_error('no more') AS INT) AS w FROM {name}"
        )
    sql.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {name} BY NAME SELECT 5L AS id, 5 AS k, date'2026-11-28' AS y")
    over = sql.sql("SELECT 6L AS id, 5 AS k, 6L AS n, 'f' AS word, 1D AS x, date'2026-11-29' AS y, true AS z")
    over.writeTo(name).option("mergeSchema", "true").overwritePartitions()
    assert len(commits(database, table)) == len(before) + 3
    assert [str(row) for row in database.rows(f"SELECT id, word, x, y, z FROM {table} WHERE id > 2 ORDER BY id")] == [
        "(3, 'c', None, None, None)",
        "(4, 'd', 0.5, None, None)",
        "(6, 'f', 1.0, datetime.date(2026, 11, 29), True)",
    ]


@pytest.mark.parametrize(
    ("catalog", "more"),
    [
        ("far", "WHEN NOT MATCHED AND n.k > 5 THEN INSERT (id, k) VALUES (n.id, -n.k)"),
        *([("lake", "")] if IS_FULL else []),
    ],
)
def test_two_merges_that_insert_one_key_conflict(
    sql: SparkSession, database: Database, table: str, catalog: str, more: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    root = str(database.root)

    def beside(key: int, statement: str) -> int:
        """Run a statement of another writer while a task runs."""
        Database(Path(root)).run(statement)
        return key

    sql.udf.register("beside", udf(beside, "long").asNondeterministic())

    def merge(theirs: str) -> None:
        new = f'(SELECT beside(id, "INSERT INTO {table} VALUES ({theirs})") AS id, k FROM VALUES (7L, 1L) AS v(id, k))'
        on = f"INTO {catalog}.{table} t USING {new} n ON t.id = n.id AND t.k = 1"
        sql.sql(f"MERGE {on} {more} WHEN NOT MATCHED THEN INSERT (id, k) VALUES (n.id, n.k)")

    with pytest.raises(PySparkException, match=r"\[serialization_failure\].*changed by another writer") as raised:
        merge("7, 1")
    assert raised.value.getSqlState() == "40001"
    assert database.rows(f"SELECT * FROM {table} WHERE id = 7") == [(7, 1)]
    database.run(f"DELETE FROM {table} WHERE id = 7")
    merge("8, 2")
    assert database.rows(f"SELECT * FROM {table} WHERE id > 2 ORDER BY 1") == [(7, 1), (8, 2)]
