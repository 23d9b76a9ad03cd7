"""A driver of a cluster that works through the catalog: `python -m tests.spark.cluster_catalog_driver MASTER ROOT TABLE PLACE`.

It adds ten rows in two tasks, changes rows, streams them to another table, and prints what it reads. The first attempt of one task writes its
session of processes to PLACE, and stays.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from lance_flight_client.spark import configure
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession

from tests.spark import cluster
from tests.spark.conftest import SETTINGS

# Spark's workers know the product, and not its tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def main(master: str, root: str, table: str, place: str) -> None:
    builder = SparkSession.builder.master(master)
    for name, value in {**SETTINGS, **cluster.SETTINGS}.items():
        builder = builder.config(name, value)
    spark = configure(builder.config("spark.jars", ""), lake=root).getOrCreate()

    def staying(number: int) -> int:
        context = TaskContext.get()
        if number == 3 and context is not None and context.attemptNumber() == 0:
            Path(f"{place}.new").write_text(str(os.getsid(0)), encoding="utf-8")
            Path(f"{place}.new").rename(place)
            signal.pause()
        return number

    spark.udf.register("staying", staying, "BIGINT")
    spark.sql(f"INSERT INTO lake.{table} SELECT staying(id), id % 3 FROM range(0, 10, 1, 2)")
    spark.sql(
        f"MERGE INTO lake.{table} AS t USING (SELECT id FROM range(0, 20, 2)) AS n ON t.id = n.id"
        " WHEN MATCHED THEN UPDATE SET id = -n.id WHEN NOT MATCHED THEN INSERT (id, p) VALUES (n.id, 0)"
    )
    stream = spark.readStream.table(f"lake.{table}").writeStream.option("checkpointLocation", f"{place}-checkpoint")
    stream.format("lance_flight").trigger(availableNow=True).toTable(f"lake.{table}_streamed").awaitTermination()
    rows = spark.sql(f"SELECT id FROM lake.{table} WHERE p < 2 UNION ALL SELECT id FROM lake.{table} WHERE p = 2")
    sys.stdout.write(json.dumps(sorted(row.id for row in rows.collect())))


if __name__ == "__main__":
    main(*sys.argv[1:])
