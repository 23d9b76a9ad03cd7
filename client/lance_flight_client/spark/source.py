"""`lance_flight` as a format of Spark: what is read is planned once for each `load()`, however often Spark plans.

There is no `pushFilters`: Spark keeps a read with its filters on the relation that all uses of a DataFrame share, and gives
the filtered rows to those that asked for all of them. Filters and columns are options, which belong to one `load()`.
"""

from __future__ import annotations

import importlib
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from lance_flight.errors import InvalidInput, NotFound
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from lance_flight_client.spark.options import (
    ReadOptions,
    StreamReadOptions,
    StreamWriteOptions,
    WriteOptions,
    check_no_stream,
    without_stream,
)

FORMAT = "lance_flight"
UNFILTERED = (
    "all partitions of {table!r} are read: Spark applies df.filter and WHERE to what was read."
    " Say .option('filter', 'month = 6') before .load() to read the partitions of a condition alone, and .option('filter', 'true') to read all"
)


class UnfilteredRead(UserWarning):
    """Warning of a `load()` that no option filters: conditions on its DataFrame prune nothing."""


class Portion(Protocol):
    """Part of a read for one task; it is pickled, and sent to an executor."""

    def batches(self) -> Iterator[Any]:
        """Return its rows, every record batch in exactly the schema of the plan."""
        ...


class ReadPlan(Protocol):
    """A read of one table at one version; it is pickled, and what it reads does not change."""

    @property
    def schema(self) -> StructType:
        """The columns, as Spark has them."""
        ...

    def portions(self) -> Sequence[Portion]:
        """Return the tasks."""
        ...


@dataclass(frozen=True, slots=True)
class PickledPlan:
    """A plan and its tasks, each pickled: the processes that pass them on import nothing of what they read with."""

    plan: bytes
    portions: Sequence[bytes]

    @classmethod
    def of(cls, plan: ReadPlan) -> PickledPlan:
        """Pickle a plan, and each of its tasks."""
        return cls(pickle.dumps(plan), [pickle.dumps(portion) for portion in plan.portions()])


class LanceFlightDataSource(DataSource):
    """Reads a table of a root, directly or through a server, and writes to one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._read: PickledPlan | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        # Spark pickles the source once it knows the schema: every later plan of the DataFrame finds this one.
        options = ReadOptions.parse(without_stream(self.options))
        plan = _plan(options)
        self._read = PickledPlan.of(plan)
        return plan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        check_no_stream(self.options)
        return PlanReader(self._require_plan(schema).portions)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's interface
        options = StreamReadOptions.parse(self.options)
        plan = pickle.loads(self._require_plan(schema).plan)  # noqa: S301 - made by this source
        return cast("DataSourceStreamReader", import_planner("streaming").new_stream_reader(plan, options))

    def _require_plan(self, schema: StructType) -> PickledPlan:
        """Return what was planned; raise `InvalidInput` if nothing was, since Spark did not ask for the schema."""
        if self._read is None:
            # A table of Spark's own catalog, whose columns were listed, is read without any option.
            ReadOptions.parse(without_stream(self.options))
            raise InvalidInput(
                f"a schema was given: {schema.simpleString()}; leave .schema(…) away, and choose with the option 'columns'"
            )
        return self._read

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's interface
        options = WriteOptions.parse(self.options, overwrite=overwrite)
        return cast("DataSourceArrowWriter", import_planner("writing").new_writer(options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's interface
        options = StreamWriteOptions.parse(self.options, complete=overwrite)
        return cast("DataSourceStreamWriter", import_planner("streaming").new_stream_writer(options, schema))


def _plan(options: ReadOptions) -> ReadPlan:
    """Plan a read; over a root, views and metadata tables are queries."""
    try:
        reading = import_planner("reading")
        plan = (reading.plan_through_server if options.root is None else reading.plan_direct)(options)
    except NotFound:
        found = None if options.root is None else import_planner("connector.relations").query_plan(options)
        if found is None:
            raise
        return cast("ReadPlan", found)
    if options.table is not None and options.filter is None and "$" not in options.table.name:
        warnings.warn(UNFILTERED.format(table=options.table.name), UnfilteredRead, stacklevel=3)
    return cast("ReadPlan", plan)


class PlanReader(DataSourceReader):
    """Reads what was planned: one input partition for each pickled portion."""

    def __init__(self, portions: Sequence[bytes]) -> None:
        self._portions = portions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(portion) for portion in self._portions]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        # Spark makes a partition of nothing where there are none; 4.0 has None in place of it.
        if partition is None or partition.value is None:
            return iter(())
        portion: Portion = pickle.loads(partition.value)  # noqa: S301 - made by the plan
        return portion.batches()


def import_planner(name: str) -> Any:
    """Return a module that plans reads or writes, imported in the process where it is wanted.

    The ones that Spark forks must know no Lance yet.
    """
    return importlib.import_module(f"lance_flight_client.spark.{name}")
