"""What makes `lance_flight` a format of Spark: it imports every top-level package called `pyspark_…` that it finds."""

from __future__ import annotations

from lance_flight_client.spark.source import LanceFlightDataSource as DefaultSource

__all__ = ["DefaultSource"]
