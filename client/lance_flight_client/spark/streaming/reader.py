"""`spark.readStream`: the rows of a table, and then those that every snapshot adds, as Spark asks for them batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.streaming.offsets import BEGINNING, Offset
from lance_flight_client.spark.streaming.options import StreamReadOptions
from lance_flight_client.spark.streaming.planning import History, StreamPlan, plan_stream

Json = Mapping[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One reader plans all batches of a query, in a process of its own; pickled copies of it read them."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._until: Offset | None = None

    @cached_property
    def _history(self) -> History:
        # Not before a batch is planned: the copies that read have no use for it, and it cannot be pickled.
        return History(self._plan)

    def initialOffset(self) -> dict[str, Any]:
        return BEGINNING.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit of snapshots; that of files is what it hands back as it was given, and nothing else looks at.
        return ReadMaxFiles(self._plan.options.versions_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._history.newest

    def latestOffset(self, start: Json, limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        newest = self._until or self._history.newest
        return self._history.following(Offset.from_json(start), newest, most).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._history.newest.to_json()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        portions = self._history.portions(Offset.from_json(start), Offset.from_json(end))
        return [InputPartition(portion) for portion in portions]

    def commit(self, end: Json) -> None:
        self._history.release()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return cast("Portion", partition.value).batches()


def new_stream_reader(read: DirectPlan, options: StreamReadOptions) -> StreamReader:
    """Return the reader of a stream of the rows that a read would return."""
    return StreamReader(plan_stream(read, options))
