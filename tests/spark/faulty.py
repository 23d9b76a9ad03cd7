"""Writes in which something goes wrong at a place that the option `fault` names; all else is the product's own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance_flight import faults
from lance_flight_client.spark.source import LanceFlightDataSource
from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

FORMAT = "lance_flight_with_faults"

# Spark's workers know the product, and not its tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class FaultySource(LanceFlightDataSource):
    """`lance_flight` with the options `fault` (below) and `place`. What a stream is told is for its first batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        own = ("fault", "place")
        self._own = {name: text for name, text in options.items() if name in own}
        super().__init__({name: text for name, text in options.items() if name not in own})

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's interface
        return FaultyWriter(super().writer(schema, overwrite), self._own)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's interface
        return FaultyStreamWriter(super().streamWriter(schema, overwrite), self._own)


class FaultyWriter(DataSourceArrowWriter):
    """A writer that fails where it was told to."""

    def __init__(self, inner: Any, told: Mapping[str, str]) -> None:
        self._inner = inner
        self._fault = told.get("fault", "")
        self._told = dict(told)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        is_first = context.attemptNumber() == 0
        if self._fault == "every task is done twice":
            batches = list(iterator)
            self._inner.write(iter(batches))
            return self._inner.write(iter(batches))
        done = self._inner.write(iterator)
        if self._fault == "first attempts raise after writing" and is_first:
            raise RuntimeError("after writing")
        if self._fault == "first attempts are killed after writing" and is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "a first attempt stays after writing" and is_first and context.partitionId() == 0:
            self._stay()
        if self._fault == "a first attempt waits for the second one" and context.partitionId() == 0:
            # Whoever opens one end waits for the other, so that both are done at the same moment.
            with Path(self._told["place"]).open("r" if is_first else "w"):
                pass
        if self._fault == "the last task fails" and context.partitionId() == 1:
            raise RuntimeError("whenever it runs")
        return done

    def commit(self, messages: Sequence[WriterCommitMessage | None], *batch: int) -> None:
        if self._fault in faults.POINTS:
            # This process alone is told, and it is the one that dies.
            faults._fault = faults._Fault(self._fault)
        self._inner.commit(messages, *batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)

    def _stay(self) -> None:
        """Say in which session of processes the place is reached, and stay there."""
        place = Path(self._told["place"])
        place.with_suffix(".part").write_text(str(os.getsid(0)))
        place.with_suffix(".part").rename(place)
        signal.pause()


class FaultyStreamWriter(DataSourceStreamArrowWriter):
    """The same for the first batch of a stream."""

    def __init__(self, inner: DataSourceStreamWriter, told: Mapping[str, str]) -> None:
        self._inner = inner
        self._faulty = FaultyWriter(inner, told)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        is_first = TaskContext.get().getLocalProperty("streaming.sql.batchId") == "0"
        return (self._faulty if is_first else self._inner).write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's interface
        (self._inner if batchId else self._faulty).commit(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's interface
        self._inner.abort(messages, batchId)
