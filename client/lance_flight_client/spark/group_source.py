"""Groups of partition tables as a source of Spark: one input partition for each group, joined or aggregated where it is read."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from lance_flight.errors import InvalidInput
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lance_flight_client.spark.source import Portion, ReadPlan

FORMAT = "lance_flight_groups"
WORK = "work"
"""The one option: what is to be done, as JSON."""


class LanceFlightGroups(DataSource):
    """What `partition_wise_join` and `partition_wise_aggregate` read; it is not meant to be used by itself."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._plan: ReadPlan | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        # In the process where it is wanted: the ones that Spark forks must know no Lance yet.
        plans: Any = importlib.import_module("lance_flight_client.spark.group_plans")
        self._plan = plans.plan(json.loads(self.options[WORK]))
        return self._plan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._plan is None:
            raise InvalidInput(f"a schema was given: {schema.simpleString()}; leave .schema(…) away")
        return _Reader(self._plan)


class _Reader(DataSourceReader):
    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(portion) for portion in self._plan.portions()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        portion = cast("Portion | None", partition.value)
        return iter(()) if portion is None else portion.batches()
