"""Groups of partition tables as a source of Spark: one input partition for each group, joined or aggregated where it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lance_flight.errors import InvalidInput
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from lance_flight_client.spark.source import PlanReader, ReadPlan, imported

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
        self._plan = imported("group_plans").plan(json.loads(self.options[WORK]))
        return self._plan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._plan is None:
            raise InvalidInput(f"a schema was given: {schema.simpleString()}; leave .schema(…) away")
        return PlanReader(self._plan)
