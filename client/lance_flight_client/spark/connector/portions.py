"""The function that a scan's tasks run; it imports no more than what its portion needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from pyspark.serializers import CPickleSerializer

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_flight_client.spark.source import Portion

PICKLER: Any = CPickleSerializer()


def read_portion(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the portion of a task, which Spark gives it as one binary value."""
    for batch in rows:
        for value in batch.column(0):
            yield from cast("Portion", PICKLER.loads(value.as_py())).batches()
