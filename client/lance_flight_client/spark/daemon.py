"""Spark's Python daemon with the libraries that its workers need already there: `spark.python.daemon.module`.

Spark starts a daemon for each kind of worker, whose module it names: one looks formats up, one is asked for the schema at `load()`, one plans
the read, one runs tasks. A daemon forks a worker whenever none is idle, and each of them would import pandas and pyarrow anew, about a second
of a core. Those of workers that do not need them import nothing here. Lance is not among what is imported: it does not survive a fork.
"""

import importlib.util
import sys

from pyspark.daemon import manager

_SQL = "pyspark.sql.worker."
WITHOUT_PANDAS = frozenset({f"{_SQL}lookup_data_sources", f"{_SQL}plan_data_source_read"})
"""Workers that pass on what others have planned."""
IMPORTED = ("pandas", "pyarrow.compute", "pyarrow.dataset", "pyspark.sql.pandas.types", f"{_SQL}plan_data_source_read")
"""Libraries of the other workers; pandas where there is one: reads and writes do without it."""


def import_for(worker: str | None) -> None:
    """Import what a worker of this module needs, if it needs it."""
    if worker not in WITHOUT_PANDAS:
        for name in IMPORTED:
            if name != "pandas" or importlib.util.find_spec(name):
                importlib.import_module(name)


if __name__ == "__main__":
    import_for(sys.argv[1] if len(sys.argv) > 1 else None)
    manager()
