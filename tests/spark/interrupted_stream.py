"""A driver of its own, with two streams that stop at the commit of their first batch: the one before it, the other one after it.

`python -m tests.spark.interrupted_stream ROOT BEFORE AFTER PLACE` writes the ids of the files in `PLACE/files` to both tables.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.conftest import SETTINGS
from tests.spark.faulty import FORMAT, FaultySource


def start(spark: SparkSession, root: str, table: str, home: Path, **more: str) -> StreamingQuery:
    """A query that writes what is there to a table, each file in a batch."""
    rows = spark.readStream.schema("id BIGINT, p BIGINT").option("maxFilesPerTrigger", 1).json(str(home / "files"))
    options = {"root": root, "table": table, "stream": "numbers", "partition_by": "p", **more}
    writer = rows.writeStream.format(FORMAT).trigger(availableNow=True)
    return writer.options(**{"checkpointLocation": str(home / "checkpoint" / table)} | options).start()


def main(root: str, before: str, after: str, place: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(FaultySource)
    queries = []
    for table, when in ((before, "before"), (after, "after")):
        told = {"fault": f"waits {when} its commit", "place": str(Path(place, when))}
        queries.append(start(spark, root, table, Path(place), **told))
    for query in queries:
        query.awaitTermination()
    # None of them should have come to its end.
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
