"""Registration of `lance_flight` as a format of Spark, which imports every top-level package called `pyspark_…`."""

from __future__ import annotations

from lance_flight_client.spark.source import LanceFlightDataSource as DefaultSource

__all__ = ["DefaultSource"]
