"""Writes of Spark SQL: rows that tasks write and one commit makes visible, and deletions that need no task."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.plain_table import table_at
from lance_flight.catalog.tables.row_counts import row_counts
from lance_flight.errors import QueryFailed, Unsupported
from pyspark.sql.types import BinaryType, StructField, StructType

from lance_flight_client.spark.connector.conditions import Conditions, quoted
from lance_flight_client.spark.connector.handles import pickled
from lance_flight_client.spark.connector.new_tables import NewTable
from lance_flight_client.spark.connector.portions import PICKLER
from lance_flight_client.spark.connector.relations import DirectTable, Relation, ServerTable
from lance_flight_client.spark.reading.balancing import balanced, tasks_for
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.reading.portion import DirectPortion
from lance_flight_client.spark.writing.options import WriteOptions
from lance_flight_client.spark.writing.planning import planned_write, write_to
from lance_flight_client.spark.writing.writer import PlannedWrite, TableWriter, Written

MESSAGE = StructType([StructField("message", BinaryType())])
"""What the tasks of a write return: one row, the pickled `Written`."""
_WORKER = "pyspark.sql.worker.write_into_data_source"


def begun(
    relation: Relation, schema: StructType, replaces: Replaces, predicates: Sequence[Mapping[str, Any]]
) -> PlannedWrite:
    """Begin a write of rows with these columns to a table of a root, in place of the rows that fulfil `predicates`."""
    if isinstance(relation, NewTable):
        return write_to(table_at(relation.store), relation.name, schema, replaces)
    if not isinstance(relation, DirectTable):
        raise Unsupported(
            "rows are written to the tables of a root, and this catalog reads through a server; expected a catalog with the option 'root'"
        )
    plan = relation.plan
    table = f"{quoted(plan.table.db_schema)}.{quoted(plan.table.name)}"
    options = replace(
        WriteOptions.of(plan.options.root or "", table, plan.options.storage),
        overwrite=None if replaces is Replaces.NOTHING else replaces.value,
        snapshot=plan.version if replaces is Replaces.READ else None,
    )
    planned = planned_write(options, schema)
    return replace(planned, read=_overwritten(plan, predicates)) if predicates else planned


def _overwritten(plan: DirectPlan, predicates: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the tables that hold the rows which fulfil predicates, and no others."""
    condition = Conditions.over(plan.source).all_of(predicates)
    found = replace(plan, options=replace(plan.options, filter=condition)).found()
    if found.condition is not None or any(filter.expression is not None for filter in found.filters.values()):
        raise Unsupported(
            f"INSERT OVERWRITE of the rows where {condition} is not one of whole partitions; expected identity partition columns,"
            " or DELETE and INSERT"
        )
    return tuple(sorted({table.object_id for table in found.planned.tables}))


def writing(planned: PlannedWrite) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that each task of a write runs over its rows."""

    def write(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = Written(planned.write(iter(rows)))
        yield pa.record_batch([pa.array([PICKLER.dumps(written)])], names=MESSAGE.names)

    # By this name Spark's workers know a function of a data source.
    write.__module__ = _WORKER
    return write


def tasks(planned: PlannedWrite) -> dict[str, str]:
    """Return the tasks of a write for the JVM: their function, and the version of Python that it was pickled by."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": version, "function": pickled((writing(planned), MESSAGE))}


def messages_of(sent: Sequence[str | None]) -> list[Written | None]:
    """Return what the tasks of a write have said; None for those that failed."""
    return [None if each is None else cast("Written", PICKLER.loads(base64.b64decode(each))) for each in sent]


def commit(planned: PlannedWrite, written: Sequence[Written | None], read: Sequence[str] | None) -> None:
    """Commit a write, in place of the tables that it has `read` where these are given by their object ids."""
    if None in written:
        raise QueryFailed("a task of the write has ended without a word of what it wrote; nothing was committed")
    TableWriter(planned if read is None else replace(planned, read=tuple(read))).commit(written)


def abort(planned: PlannedWrite, written: Sequence[Written | None]) -> None:
    """Remove the files of a write that is not committed."""
    TableWriter(planned).abort(written)


def deletion(relation: Relation, predicates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the DELETE of the rows that fulfil all predicates; None where SQL cannot say one of them."""
    if not isinstance(relation, DirectTable | ServerTable):
        return None
    table = relation.plan.table if isinstance(relation, DirectTable) else relation.options.table
    conditions = Conditions.over(relation.source)
    found = [conditions.sql(each) for each in predicates if each.get("literal") != "true"]
    if table is None or None in found:
        return None
    where = " WHERE " + " AND ".join(f"({condition})" for condition in found) if found else ""
    return f"DELETE FROM {quoted(table.db_schema)}.{quoted(table.name)}{where}"  # noqa: S608 - quoted


@dataclass(frozen=True, slots=True)
class WholePartitions:
    """Tasks that read every row of some partition tables, and the object ids of these."""

    schema: StructType
    portions: Sequence[DirectPortion]
    read: Sequence[str]
    rows: int


def whole_partitions(relation: Relation, columns: Sequence[str], condition: str | None) -> WholePartitions:
    """Plan a read of all rows of those partition tables that may hold rows which fulfil a condition."""
    if not isinstance(relation, DirectTable):
        raise Unsupported("UPDATE and MERGE need a catalog over a root; this one reads through a server")
    plan = relation.plan
    left = _tables(replace(plan, options=replace(plan.options, filter=condition)))
    whole = replace(plan, options=replace(plan.options, columns=tuple(columns), filter=None))
    found = whole.found()
    pieces = [piece for piece, table in zip(found.pieces, found.planned.tables, strict=True) if table.object_id in left]
    counts = row_counts([piece.part.table for piece in pieces])
    tasks = balanced(list(zip(pieces, counts, strict=True)), tasks_for(sum(counts), None))
    return WholePartitions(whole.schema, [whole.portion(found, task) for task in tasks], sorted(left), sum(counts))


def _tables(plan: DirectPlan) -> set[str]:
    return {table.object_id for table in plan.found().planned.tables}
