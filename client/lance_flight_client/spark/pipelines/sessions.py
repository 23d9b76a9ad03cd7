"""The Spark session of a program."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lance_flight_client.spark.machine import PYTHON, prepare

PROGRESS = "spark.ui.showConsoleProgress"


@contextmanager
def session(name: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start a session with these settings, on top of those of `spark-submit` and Spark's files; stop it at the end.

    Tasks run in the Python of this process, unless `PYSPARK_PYTHON` or `spark.pyspark.python` names another one. How
    far they are is shown on a terminal, and in no log.
    """
    os.environ.setdefault(PYTHON, settings.get("spark.pyspark.python", sys.executable))
    prepare()
    shown = {} if sys.stderr.isatty() else {PROGRESS: "false"}
    builder = SparkSession.builder.appName(name)
    for key, value in {**shown, **settings}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # The process that is forked here becomes Java at once; nothing of Lance runs in it.
        warnings.filterwarnings("ignore", "lance is not fork-safe")
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
