"""Groups of partition tables as a source of Spark: one input partition for each group, joined or aggregated where it is read."""

from __future__ import annotations

import json
from typing import cast

from lance_flight_client.spark.source import PlannedSource, ReadPlan, imported

FORMAT = "lance_flight_groups"
WORK = "work"
"""The one option: what is to be done, as JSON."""


class LanceFlightGroups(PlannedSource):
    """Data source that `partition_wise_join` and `partition_wise_aggregate` read; not meant to be used by itself."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def planned(self) -> ReadPlan:
        return cast("ReadPlan", imported("groups.plans").plan(json.loads(self.options[WORK])))
