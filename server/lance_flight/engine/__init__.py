"""SQL over partitioned namespaces: statements, sessions, providers and ingest, on DataFusion."""

import os

# Read once, when DataFusion starts its runtime. Lanes block a worker while Lance reads: have more than cores.
os.environ.setdefault("TOKIO_WORKER_THREADS", "64")
