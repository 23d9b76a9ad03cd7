"""Partitioned namespaces from PySpark: `spark.read.format("lance_flight")`.

Executors read the files of a root themselves, or the endpoints of a server. Nothing heavy is imported before a table is
read: Spark forks its Python workers, and Lance does not survive a fork.
"""

from lance_flight_client.spark.machine import prefer_installed

prefer_installed()

from lance_flight_client.spark.connector.sessions import configure  # noqa: E402
from lance_flight_client.spark.machine import activate, prepare  # noqa: E402

__all__ = ["activate", "configure", "prepare"]
