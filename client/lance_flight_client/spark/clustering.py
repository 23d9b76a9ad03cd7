"""Rows brought together by partition before they are written: fewer and larger files, for a shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.tables import rows
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Unsupported
from lance_flight.model.hashing import murmur3_multi
from lance_flight.model.operations import check_least
from lance_flight.model.schema import Path
from lance_flight.model.spec import PartitionField
from pyspark.sql import DataFrame
from pyspark.sql import functions as spark
from pyspark.sql.types import IntegerType, StructField, StructType

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.spark.options import WriteOptions
from lance_flight_client.spark.types import match_columns

PARTITION = "__lance_flight_partition"
_SPREAD = "__lance_flight_spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHash:
    """One number for each row, equal for equal partition values: by position, the columns that they are computed from.

    `columns` are those columns as the table has them, `paths` those of what the fields are computed from, by field id.
    """

    fields: tuple[PartitionField, ...]
    columns: pa.Schema
    places: tuple[int, ...]
    paths: Mapping[int, Path]

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the numbers of the rows of a batch, as 32-bit integers."""
        if not self.places:
            return pa.nulls(batch.num_rows, pa.int32())
        sources = pa.Table.from_arrays([batch.column(place) for place in self.places], names=self.columns.names)
        values = partition_values(rows.conform(sources, self.columns), self.fields, self.paths, evaluate)
        return murmur3_multi([column.combine_chunks() for column in values.columns])

    def add_hashes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the numbers as their last column."""
        for batch in batches:
            yield batch.append_column(PARTITION, self.of(batch))


def cluster_by_partition(
    df: DataFrame,
    root: str,
    table: str,
    *,
    tasks: int | None = None,
    spread: int = 1,
    storage: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the same rows, those of one partition of a table in one task: it then writes one file for the partition.

    `tasks` is how many there are (None: Spark's shuffle partitions); with `spread` the rows of a partition go to up to so
    many of them, for partitions that one task is too slow for. Costs a shuffle, and a trip of all rows through Python.
    """
    check_least(1, spread=spread)
    numbers = _partition_hash(df.columns, root, table, storage or {})
    numbered = df.mapInArrow(_adding(numbers), StructType([*df.schema, StructField(PARTITION, IntegerType())]))
    keys = [spark.col(PARTITION)]
    if spread > 1:
        numbered = numbered.withColumn(_SPREAD, spark.monotonically_increasing_id() % spread)
        keys.append(spark.col(_SPREAD))
    shuffled = numbered.repartition(*keys) if tasks is None else numbered.repartition(tasks, *keys)
    return shuffled.drop(PARTITION, _SPREAD)


def _adding(numbers: PartitionHash) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    return numbers.add_hashes


def _partition_hash(names: list[str], root: str, table: str, storage: Mapping[str, str]) -> PartitionHash:
    options = WriteOptions.of(root, table, storage)
    name = TableName(*options.table)
    found = Root(store_of(options.root, options.storage)).table(name)
    if not found.is_partitioned:
        raise Unsupported(f"table {name.name!r} is not partitioned; there is nothing to cluster its rows by")
    snapshot = found.snapshot()
    called = match_columns(names, snapshot.schema.plain.names)
    known = snapshot.schema.source_paths
    numbers = {number for field in snapshot.current_spec.fields for number in field.source_ids}
    wanted = {number: known[number] for number in numbers & known.keys()}
    sources = [field for field in snapshot.schema.plain if field.name in {path[0] for path in wanted.values()}]
    # What the rows lack is NULL, or has its default: the same for all of them.
    sources = [field for field in sources if field.name in called]
    return PartitionHash(
        fields=snapshot.current_spec.fields,
        columns=pa.schema(sources),
        places=tuple(called.index(field.name) for field in sources),
        paths={number: path for number, path in wanted.items() if path[0] in called},
    )
