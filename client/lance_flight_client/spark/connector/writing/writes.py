"""Writes of Spark SQL: rows that tasks write and one commit makes visible, and deletions that need no task."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.plain_table import table_at
from lance_flight.catalog.tables.row_counts import row_counts
from lance_flight.errors import QueryFailed, Unsupported
from pyspark.sql.types import BinaryType, StructField, StructType

from lance_flight_client.dataset.balancing import balanced, tasks_for
from lance_flight_client.parameters import quoted
from lance_flight_client.spark.connector.conditions import Conditions
from lance_flight_client.spark.connector.handles import pickled
from lance_flight_client.spark.connector.reading.portions import PICKLER
from lance_flight_client.spark.connector.reading.relations import DirectTable, Relation, ServerTable
from lance_flight_client.spark.connector.writing.new_tables import NewServerTable, NewTable, fill
from lance_flight_client.spark.connector.writing.server_writes import ServerWrite, check_changeable
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.writing.options import WriteOptions
from lance_flight_client.spark.writing.planning import planned_write, write_to
from lance_flight_client.spark.writing.writer import PlannedWrite, TableWriter, Written

MESSAGE = StructType([StructField("message", BinaryType())])
"""What the tasks of a write return: one row, the pickled `Written`."""
_WORKER = "pyspark.sql.worker.write_into_data_source"


def begun(
    relation: Relation, schema: StructType, replaces: Replaces, predicates: Sequence[Mapping[str, Any]]
) -> PlannedWrite | ServerWrite:
    """Begin a write of rows with these columns to a table, in place of the rows that fulfil `predicates`."""
    if isinstance(relation, NewServerTable):
        return relation.write(schema)
    if isinstance(relation, ServerTable):
        if replaces is Replaces.READ:
            check_changeable(relation)
        return ServerWrite.begin(relation, schema, replaces, exactly(relation.source, predicates) or None)
    return begun_in_root(relation, schema, replaces, predicates)


def begun_in_root(
    relation: Relation, schema: StructType, replaces: Replaces, predicates: Sequence[Mapping[str, Any]]
) -> PlannedWrite:
    """Begin a write to a table of a root, as `begun` does."""
    if isinstance(relation, NewTable):
        return write_to(table_at(relation.store), relation.name, schema, replaces)
    if not isinstance(relation, DirectTable):
        raise Unsupported("rows are written to tables, not to views, metadata tables and branches")
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
    if not found.is_whole:
        raise Unsupported(
            f"INSERT OVERWRITE of the rows where {condition} is not one of whole partitions; expected identity partition columns,"
            " or DELETE and INSERT"
        )
    return tuple(sorted({table.object_id for table in found.planned.tables}))


def writing(planned: PlannedWrite | ServerWrite) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that each task of a write runs over its rows."""

    def write(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = Written(planned.write(iter(rows))) if isinstance(planned, PlannedWrite) else planned.write(rows)
        yield pa.record_batch([pa.array([PICKLER.dumps(written)])], names=MESSAGE.names)

    # By this name Spark's workers know a function of a data source.
    write.__module__ = _WORKER
    return write


def tasks(planned: PlannedWrite | ServerWrite) -> dict[str, str]:
    """Return the tasks of a write for the JVM: their function, and the version of Python that it was pickled by."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": version, "function": pickled((writing(planned), MESSAGE))}


def messages_of(sent: Sequence[str | None]) -> list[Any]:
    """Return what the tasks of a write have said; None for those that failed."""
    return [None if each is None else PICKLER.loads(base64.b64decode(each)) for each in sent]


def commit(planned: PlannedWrite | ServerWrite, written: Sequence[Any], read: Any) -> None:
    """Commit a write, in place of what it has `read`: the tables of these object ids, or the rows that fulfil a condition."""
    if None in written:
        raise QueryFailed("a task of the write has ended without a word of what it wrote; nothing was committed")
    if isinstance(planned, ServerWrite):
        if planned.new_table is None:
            planned.commit(written, read)
        else:
            fill(planned.new_table, planned.inserted(written))
        return
    TableWriter(planned if read is None else replace(planned, read=tuple(read))).commit(written)


def abort(planned: PlannedWrite | ServerWrite, written: Sequence[Any]) -> None:
    """Remove the files, or the rows at a server, of a write that is not committed."""
    if isinstance(planned, ServerWrite):
        planned.abort()
        return
    TableWriter(planned).abort(written)


def deletion(relation: Relation, predicates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the DELETE of the rows that fulfil all predicates; None where SQL cannot say one of them."""
    if not isinstance(relation, DirectTable | ServerTable):
        return None
    table = relation.plan.table if isinstance(relation, DirectTable) else relation.options.table
    condition = exactly(relation.source, predicates)
    if table is None or condition is None:
        return None
    where = f" WHERE {condition}" * bool(condition)
    return f"DELETE FROM {quoted(table.db_schema)}.{quoted(table.name)}{where}"  # noqa: S608 - quoted


def exactly(source: pa.Schema, predicates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the condition that is all predicates and nothing less, '' for none of them; None where SQL cannot say one."""
    conditions = Conditions.over(source)
    found = [conditions.sql(each) for each in predicates if each.get("literal") != "true"]
    return None if None in found else " AND ".join(f"({condition})" for condition in found)


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """Tasks that read the rows that a change of rows writes anew, and what these are.

    `read` are the object ids of their partition tables in a root; through a server the condition that they fulfil, None for all rows.
    """

    schema: StructType
    portions: Sequence[Portion]
    read: Sequence[str] | str | None
    rows: int | None


def replaced_rows(relation: Relation, columns: Sequence[str], condition: str | None) -> ReplacedRows:
    """Plan a read of rows with all those that fulfil a condition: in a root of whole partition tables."""
    if isinstance(relation, ServerTable):
        check_changeable(relation)
        asked = relation.scan(columns, condition)
        return ReplacedRows(asked.schema, asked.portions(), condition, relation.rows)
    if not isinstance(relation, DirectTable):
        raise Unsupported("UPDATE, MERGE and DELETE change tables, not views, metadata tables and branches")
    plan = relation.plan
    left = _tables(replace(plan, options=replace(plan.options, filter=condition)))
    whole = replace(plan, options=replace(plan.options, columns=tuple(columns), filter=None))
    found = whole.found()
    pieces = [piece for piece, table in zip(found.pieces, found.planned.tables, strict=True) if table.object_id in left]
    counts = row_counts([piece.part.table for piece in pieces])
    tasks = balanced(list(zip(pieces, counts, strict=True)), tasks_for(sum(counts), None))
    return ReplacedRows(whole.schema, [whole.portion(found, task) for task in tasks], sorted(left), sum(counts))


def _tables(plan: DirectPlan) -> set[str]:
    return {table.object_id for table in plan.found().planned.tables}
