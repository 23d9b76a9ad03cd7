"""Spark's Python daemon with the libraries that its workers need already there: `spark.python.daemon.module`.

Spark starts a daemon for each kind of worker, whose module it names: one looks formats up, one is asked for the schema at `load()`, one plans
the read, one runs tasks. A daemon forks a worker whenever none is idle, and each of them would import pandas and pyarrow anew, about a second
of a core. Those of workers that do not need them import nothing here. Lance is not among what is imported: it does not survive a fork.

A worker collects garbage after each task. What is imported here it does not look through.

Memory that Arrow frees is given back when the system needs it, and not at once: a task that writes uses it for its next rows. glibc is left to
its own thresholds, which follow the sizes of what is freed: fixed ones cost a write a tenth of the CPU of its workers.
"""

import gc
import importlib.util
import os
import sys

from pyspark.daemon import manager

_SQL = "pyspark.sql.worker."
WITHOUT_PANDAS = frozenset({f"{_SQL}lookup_data_sources", f"{_SQL}plan_data_source_read"})
"""Workers that pass on what others have planned."""
IMPORTED = ("pandas", "pyarrow.compute", "pyarrow.dataset", "pyspark.sql.pandas.types", f"{_SQL}plan_data_source_read")
"""Libraries of the other workers; pandas where there is one: reads and writes do without it."""
_OF_MIMALLOC = {"MIMALLOC_PURGE_DELAY": "1000", "MIMALLOC_PURGE_DECOMMITS": "0"}
"""Milliseconds until mimalloc gives freed memory back, and that the system takes it only when it needs it."""


def import_for(worker: str | None) -> None:
    """Import what a worker of this module needs, if it needs it."""
    if worker not in WITHOUT_PANDAS:
        for name in IMPORTED:
            if name != "pandas" or importlib.util.find_spec(name):
                importlib.import_module(name)
        gc.freeze()


if __name__ == "__main__":
    for name, value in _OF_MIMALLOC.items():
        os.environ.setdefault(name, value)
    import_for(sys.argv[1] if len(sys.argv) > 1 else None)
    manager()
