"""A driver of a cluster: it appends ten rows in two tasks, and something goes wrong.

`python -m tests.spark.cluster_driver MASTER ROOT TABLE FAULT PLACE read` also reads the table, and prints each row with the session
of processes that read it. Settings of Spark's follow (`NAME=VALUE …`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tests.spark import cluster
from tests.spark.conftest import SETTINGS
from tests.spark.faulty import FORMAT, FaultySource

# Spark's workers know the product, and not its tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SELECT = "SELECT id, id % 3 AS p FROM range(0, 10, 1, 2)"


def with_session(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column("session", pa.repeat(os.getsid(0), batch.num_rows).cast(pa.int64()))


def main(master: str, *told: str) -> None:
    root, table, fault, place, then, *settings = told
    builder = SparkSession.builder.master(master)
    for name, value in {**SETTINGS, **cluster.SETTINGS, **dict(text.split("=") for text in settings)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(FaultySource)
    where = {"root": root, "table": table}
    spark.sql(SELECT).write.format(FORMAT).mode("append").options(**where, fault=fault, place=place).save()
    if then == "read":
        rows = spark.read.format("lance_flight").options(**where, partitions="3").load()
        seen = rows.mapInArrow(with_session, "id BIGINT, p BIGINT, session BIGINT")
        sys.stdout.write(json.dumps([list(row) for row in seen.collect()]))


if __name__ == "__main__":
    main(*sys.argv[1:])
