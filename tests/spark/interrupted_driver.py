"""A driver of its own, with two writes that stop at their commit: the one before it, the other one after it.

`python -m tests.spark.interrupted_driver ROOT BEFORE AFTER PLACE` appends ten rows to both tables under the commit id `job`.
"""

from __future__ import annotations

import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from lance_flight_client.spark import activate
from pyspark.sql import SparkSession

from tests.spark.conftest import SETTINGS
from tests.spark.faulty import FORMAT, FaultySource

SELECT = "SELECT id, id % 3 AS p FROM range(10)"


def main(root: str, before: str, after: str, place: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(FaultySource)

    def write(table: str, when: str) -> None:
        activate(spark)
        told = {"fault": f"waits {when} its commit", "place": str(Path(place, when))}
        options = {"root": root, "table": table, "partition_by": "p", "commit_id": "job", **told}
        spark.sql(SELECT).write.format(FORMAT).mode("append").options(**options).save()

    with ThreadPoolExecutor(2) as threads:
        writes = [threads.submit(write, before, "before"), threads.submit(write, after, "after")]
        for done in as_completed(writes):
            if done.exception() is not None:
                traceback.print_exception(done.exception())
                os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
