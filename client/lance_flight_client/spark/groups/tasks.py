"""Tasks of joins and aggregates in groups: each is given its number, and returns the rows of its groups."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_flight_client.dataset.balancing import balanced, tasks_for
from lance_flight_client.spark.source import Portion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_flight_client.spark.groups.plans import GroupPlan


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Function of every task: the groups of all tasks, pickled by task, since one has use for its own alone."""

    works: Sequence[bytes]

    @classmethod
    def of(cls, dealt: Sequence[Sequence[Portion]]) -> GroupTask:
        """Pickle the groups of each task."""
        return cls([pickle.dumps(works) for works in dealt])

    def rows(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the tasks of these numbers, one group after another."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                works: Sequence[Portion] = pickle.loads(self.works[number])  # noqa: S301 - made by the driver
                for work in works:
                    yield from work.batches()


def frame_of(spark: SparkSession, plan: GroupPlan, tasks: int | None) -> DataFrame:
    """Return the rows of a plan, whose groups are dealt out to so many tasks (None: as many as run at once, or as their rows ask for).

    The tasks are given what the driver has planned. A data source would plan it again, in two more Python processes.
    """
    most = max(_running(spark, len(plan.work)), tasks_for(sum(plan.rows), None)) if tasks is None else tasks
    dealt = balanced(list(zip(plan.work, plan.rows, strict=True)), most)
    count = max(len(dealt), 1)
    return spark.range(0, len(dealt), 1, count).mapInArrow(GroupTask.of(dealt).rows, plan.schema)


def _running(spark: SparkSession, otherwise: int) -> int:
    """Return how many tasks a cluster runs at once; what is given where a client of Spark Connect cannot know it."""
    context = getattr(spark, "_sc", None)
    return otherwise if context is None else int(context.defaultParallelism)
