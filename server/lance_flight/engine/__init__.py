"""SQL over partitioned namespaces: statements, sessions, providers and ingest, on DataFusion."""

import os

from lance_flight.machine import cores


def worker_count(cores: int) -> int:
    """Return the number of DataFusion's workers: lanes block some of them while Lance reads, and others have to go on.

    >>> worker_count(2), worker_count(96)
    (64, 384)
    """
    return max(64, 4 * cores)


WORKERS = worker_count(cores())
# Read once, when DataFusion starts its runtime. Whatever was set before is about other programs.
os.environ["TOKIO_WORKER_THREADS"] = str(WORKERS)
