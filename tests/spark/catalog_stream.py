"""A driver of its own that copies a table of the catalog by a stream: `python -m tests.spark.catalog_stream ROOT SOURCE TARGET CHECKPOINT`."""

from __future__ import annotations

import os
import sys

from lance_flight_client.spark import configure
from pyspark.sql import SparkSession

from tests.spark.conftest import SETTINGS


def main(root: str, source: str, target: str, checkpoint: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = configure(builder.config("spark.jars", ""), lake=root).getOrCreate()
    stream = spark.readStream.table(f"lake.{source}").writeStream.option("checkpointLocation", checkpoint)
    stream.trigger(availableNow=True).toTable(f"lake.{target}").awaitTermination()


if __name__ == "__main__":
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    main(*sys.argv[1:])
