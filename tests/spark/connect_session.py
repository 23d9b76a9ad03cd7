"""A session of Spark Connect, in a process of its own: a JVM serves either Connect or the Python that has started it.

`python -m tests.spark.connect_session ROOT TABLE [CHECKPOINT]` prints as JSON what it found, by name. With a place for its
checkpoint there is a stream as well.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lance_flight_client.spark import activate, configure
from lance_flight_client.spark.partition_wise import partition_wise_join
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.conftest import SETTINGS

FORMAT = "lance_flight"


def main(root: str, table: str, checkpoint: str | None = None) -> dict[str, Any]:
    builder = SparkSession.builder.remote("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = configure(builder, lake=root).getOrCreate()
    source = {"root": root, "table": table}
    rows = spark.read.format(FORMAT).options(**source, filter="p = 1", columns="id").load()
    found: dict[str, Any] = {"class": type(spark).__module__, "read": sorted(row.id for row in rows.collect())}

    target = {"root": root, "table": f"{table}_written", "partition_by": "bucket(2, id)"}
    rows.write.format(FORMAT).mode("append").options(**target, commit_id="job").save()
    rows.write.format(FORMAT).mode("append").options(**target, commit_id="job").save()

    def write_again() -> None:
        activate(spark)
        rows.write.format(FORMAT).mode("append").options(**target, commit_id="job of a thread").save()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(write_again).result()
    found["catalog"] = sorted(row.id for row in spark.sql(f"SELECT id FROM lake.{table} WHERE p = 1").collect())

    found["sql"] = statements(spark, table)

    joined = partition_wise_join(spark, source, source, "id", "semi", where="id > 3")
    found["join"] = sorted(row.id for row in joined.collect())

    if checkpoint is not None:
        named = spark.readStream.table(f"lake.{table}").writeStream.format(FORMAT).partitionBy("p")
        named = named.option("checkpointLocation", f"{checkpoint}-catalog").trigger(availableNow=True)
        named.toTable(f"lake.{table}_named").awaitTermination()
        streamed = spark.readStream.format(FORMAT).options(**source).load().writeStream.format(FORMAT)
        to = {"root": root, "table": f"{table}_streamed", "partition_by": "p", "stream": "connect"}
        streamed.options(**to, checkpointLocation=checkpoint).trigger(availableNow=True).start().awaitTermination()
    try:
        spark.read.format(FORMAT).options(root=root, table="nothing").load().count()
    except PySparkException as exc:
        found["refused"] = str(exc)
    spark.stop()
    return found


def statements(spark: SparkSession, table: str) -> list[Any]:
    """Make, fill, change and maintain a table in SQL; return what is left, and what CALL and a refused statement say."""
    name = f"lake.{table}_sql"
    added = "WHEN NOT MATCHED THEN INSERT (id, p, s) VALUES (n.id, n.p, 'merged')"
    for statement in (
        f"CREATE TABLE {name} (id BIGINT, p BIGINT, s STRING DEFAULT 'x') USING lance_flight PARTITIONED BY (p)",
        f"INSERT INTO {name} SELECT id, p, 'inserted' FROM lake.{table}",
        f"INSERT INTO {name} (id, p) VALUES (10, 1)",
        f"DELETE FROM {name} WHERE p = 2",
        f"UPDATE {name} SET s = 'updated' WHERE id % 3 = 0",
        f"MERGE INTO {name} AS t USING lake.{table} AS n ON t.id = n.id WHEN MATCHED AND n.id < 4 THEN DELETE {added}",
    ):
        spark.sql(statement).collect()
    spark.createDataFrame([(11, 0, "frame")], "id BIGINT, p BIGINT, s STRING").writeTo(name).append()
    (tag,) = spark.sql(f"CALL lake.system.create_tag('{table}_sql', 'audited')").collect()
    spark.sql(f"DELETE FROM {name}").collect()
    rows = spark.sql(f"SELECT s, count(*) FROM {name} VERSION AS OF 'audited' GROUP BY s ORDER BY s").collect()
    return [[list(row) for row in rows], tag[0], spark.table(name).count()]


if __name__ == "__main__":
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - what it found
