"""Spark's Python daemon with the libraries that its workers need already there: `spark.python.daemon.module`.

The daemon forks a worker for each task that finds none idle, and one for each `load()` and `save()`. By itself each of them
imports pandas and pyarrow anew, about a second of a core. Lance is not among what is imported here: it does not survive a fork.
"""

import pandas  # type: ignore[import-untyped]  # noqa: F401, ICN001
import pyarrow.compute
import pyarrow.dataset  # noqa: F401
import pyspark.sql.pandas.types
import pyspark.sql.worker.plan_data_source_read  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
