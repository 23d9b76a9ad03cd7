"""Tasks of joins and aggregates in groups: each is given the number of a group, and returns the rows of its work."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_flight_client.spark.source import Portion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_flight_client.spark.groups.plans import GroupPlan


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Function of every task: the work of all groups, each pickled by itself, since a task has use for its own alone."""

    works: Sequence[bytes]

    @classmethod
    def of(cls, works: Sequence[Portion]) -> GroupTask:
        """Pickle the work of each group."""
        return cls([pickle.dumps(work) for work in works])

    def rows(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the groups of these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                work: Portion = pickle.loads(self.works[number])  # noqa: S301 - made by the driver
                yield from work.batches()


def frame_of(spark: SparkSession, plan: GroupPlan) -> DataFrame:
    """Return the rows of a plan, one input partition for each group.

    The tasks are given what the driver has planned. A data source would plan it again, in two more Python processes.
    """
    groups = len(plan.work)
    return spark.range(0, groups, 1, max(groups, 1)).mapInArrow(GroupTask.of(plan.work).rows, plan.schema)
