"""Writes of Spark SQL to a root: rows that tasks write and one commit makes visible, deletions without tasks, and new tables.

Written rows are distributed over tasks: Spark brings the rows of a partition together, so that a write makes few files. Where a row lies is decided when it is written. The distribution only decides how many files a partition gets.
"""

from __future__ import annotations

import base64
import gc
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces, SharedWrite
from lance_flight.catalog.plain_table import table_at
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables.sources import row_counts
from lance_flight.engine.statements.parsing import UnpublishedTable
from lance_flight.errors import AlreadyExists, Conflict, InvalidInput, QueryFailed, Unsupported
from lance_flight.model.arrow_types import field_at
from lance_flight.model.hashing import hash_class
from pyarrow import types
from pyspark.sql.types import BinaryType, StructField, StructType

from lance_flight_client.dataset.portions import balance_tasks, tasks_for
from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.backends import RootBackend, SqlRunner, backend_of
from lance_flight_client.spark.connector.conditions import Conditions
from lance_flight_client.spark.connector.definitions import create_table, layout_at_server, partitioning_of
from lance_flight_client.spark.connector.jvm import PICKLER, pickle_handle
from lance_flight_client.spark.connector.properties import distribution_options
from lance_flight_client.spark.connector.relations import DirectTable, Relation, ServerTable, kind_of, of_reads, text
from lance_flight_client.spark.connector.server_writes import ServerWrite, SharedSession
from lance_flight_client.spark.connector.table_options import TableWriteOptions, check_options
from lance_flight_client.spark.options import NamedTable, ReadOptions, WriteOptions
from lance_flight_client.spark.reading import DirectPlan
from lance_flight_client.spark.source import Portion, ReadPlan
from lance_flight_client.spark.types import arrow_schema, carried_schema
from lance_flight_client.spark.writing import PlannedWrite, TableWriter, Written, planned_write, write_to


class _UnreadableTable:
    """Base of tables that are being made, and cannot be read yet (`relations.Relation`)."""

    __slots__ = ()
    name: str | NamedTable

    @property
    def takes_conditions(self) -> bool:
        return False

    def decides(self, condition: str) -> bool:
        del condition
        return False

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        name = self.name.name if isinstance(self.name, NamedTable) else self.name
        raise Unsupported(f"table {name!r} is being made and cannot be read yet")


@dataclass(frozen=True, slots=True)
class NewTable(_UnreadableTable):
    """A table of a root that is being made, in a private place (`relations.Relation`)."""

    name: str
    store: Store
    source: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServerTable(_UnreadableTable):
    """A table of a server that is being made, in a session of its own (`relations.Relation`)."""

    session: SharedSession
    name: NamedTable
    source: pa.Schema

    def write(self, schema: StructType) -> ServerWrite:
        """Begin to write its rows."""
        return ServerWrite.into_new(self.session, self.name, self.source, schema)


class Unpublished(Protocol):
    """A table that is being made (`UnpublishedTable`)."""

    def publish(self) -> None:
        """Give it its name."""
        ...

    def discard(self) -> None:
        """Remove it."""
        ...


@dataclass(slots=True)
class UnpublishedOnServer:
    """A table that the open transaction of a server's session has made."""

    session: SharedSession

    def publish(self) -> None:
        self.session.run("COMMIT")
        self.session.close()

    def discard(self) -> None:
        # Which rolls back.
        self.session.close()


_STARTED_AGAIN = "the connector's Python was started again while a table was made; run the statement again"
_STAGED: dict[str, Unpublished] = {}
"""Tables that this process is making, by the keys that the JVM knows them by."""


def stage(
    options: Mapping[str, str], name: NamedTable, given: Mapping[str, Any]
) -> tuple[str, NewTable | NewServerTable]:
    """Begin to make the table that a request defines; return the key by which it is ended, and what its rows are written to."""
    backend, key = backend_of(options), secrets.token_hex(8)
    kind = "OR REPLACE TABLE" if given["replace"] else "TABLE"
    target = f"{quote_name(name.db_schema)}.{quote_name(name.name)}"
    statement = create_table(target, given, kind)
    if isinstance(backend, RootBackend):
        made = _STAGED[key] = UnpublishedTable(backend.root, statement)
        return key, NewTable(name.name, made.table.store, made.table.snapshot().schema.plain)
    if not given["replace"] and kind_of(backend, name) is not None:
        raise AlreadyExists(f"table {name.name!r} is there already")
    session = SharedSession.begin(ReadOptions.parse({**of_reads(options), "query": "SELECT 1"}))
    try:
        session.run("BEGIN", statement)
        columns = session.rows(f"SELECT * FROM {target} LIMIT 0").schema  # noqa: S608 - quoted
    except BaseException:
        session.close()
        raise
    _STAGED[key] = UnpublishedOnServer(session)
    return key, NewServerTable(session=session, name=name, source=columns)


def end(given: Mapping[str, Any]) -> None:
    """Publish a table, or discard it, as a request says; `Conflict` for the publication of one that this process does not know."""
    key, commit = given["staged"], given["commit"]
    made = _STAGED.get(key)
    if commit and made is None:
        raise Conflict(_STARTED_AGAIN)
    if made is not None:
        # One that cannot be published stays until Spark has it discarded.
        (made.publish if commit else made.discard)()
        del _STAGED[key]


MESSAGE = StructType([StructField("message", BinaryType())])
"""What the tasks of a write return: one row, the pickled `Written`."""
_WORKER = "pyspark.sql.worker.write_into_data_source"


NO_OPTIONS = TableWriteOptions()


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A write of one statement, with the options that its commit needs."""

    planned: PlannedWrite | ServerWrite
    options: TableWriteOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Compared:
    """A scan of a table for the rows that new ones are compared with: those that fulfil predicates."""

    relation: Relation
    predicates: Sequence[Mapping[str, Any]]


def begun(
    relation: Relation,
    schema: StructType,
    replaces: Replaces,
    predicates: Sequence[Mapping[str, Any]],
    *,
    options: TableWriteOptions = NO_OPTIONS,
    compared: Sequence[Compared] = (),
) -> PlannedWrite | ServerWrite:
    """Begin a write of rows with these columns to a table, in place of the rows that fulfil `predicates`.

    Rows that are added because the table had none like them are `compared` with it: what they were compared with must stay as it is.
    """
    if isinstance(relation, NewServerTable):
        return relation.write(schema)
    if isinstance(relation, ServerTable):
        if options.report is not None:
            raise Unsupported(
                "write to a table: option 'report' through a server; expected a catalog with the option 'root'"
            )
        if relation.evolution is not None:
            check_options(options.points, (), "write with schema evolution")
        if replaces is Replaces.NOTHING and compared:
            return _compared_at_server(relation, schema, compared)
        _check_branch(options, predicates)
        condition = exactly(relation.source, predicates) or None
        return ServerWrite.begin(
            relation, schema, replaces, condition, branch=options.branch, snapshot=options.snapshot
        )
    planned = begun_in_root(relation, schema, replaces, predicates, options)
    return _compared_in_root(planned, compared) if replaces is Replaces.NOTHING else planned


def _compared_in_root(planned: PlannedWrite, compared: Sequence[Compared]) -> PlannedWrite:
    """Return a write that rests on the partitions which its rows were compared with, as they were then."""
    plans = [
        comparison.relation.where(Conditions.over(comparison.relation.source).all_of(comparison.predicates))
        for comparison in compared
        if isinstance(comparison.relation, DirectTable)
    ]
    if not plans:
        return planned
    oldest = min(plans, key=lambda plan: plan.version)
    table, snapshot = oldest.open_table()
    if planned.shared.branch != (None if table.branch is None else table.branch.name):
        return planned
    read = sorted({planned_table.object_id for plan in plans for planned_table in plan.plan_tables().planned.tables})
    evolution = planned.shared.evolution
    if evolution is not None:
        _check_evolving(oldest.table, snapshot.version, planned.shared.version)
    shared = SharedWrite.begin(table, snapshot.version) if evolution is None else planned.shared
    return replace(planned, shared=shared, replaces=Replaces.NOTHING_OF_READ, read=tuple(read))


def _compared_at_server(relation: ServerTable, schema: StructType, compared: Sequence[Compared]) -> ServerWrite:
    tables = [
        (comparison.relation, comparison.predicates)
        for comparison in compared
        if isinstance(comparison.relation, ServerTable)
    ]
    oldest = min((table for table, _ in tables), key=lambda table: table.options.snapshot or 0, default=relation)
    conditions = [Conditions.over(table.source).all_of(predicates) for table, predicates in tables]
    condition = None if None in conditions else " OR ".join(f"({each})" for each in conditions if each)
    if relation.evolution is not None:
        _check_evolving(
            relation.options.table or NamedTable("", ""), oldest.options.snapshot, relation.options.snapshot
        )
        oldest = relation
    return ServerWrite.begin(oldest, schema, Replaces.NOTHING_OF_READ, condition)


def _check_evolving(table: NamedTable | TableName, read: int | None, version: int | None) -> None:
    if read != version:
        raise Conflict(
            f"table {table.name!r} was changed while a write with schema evolution was planned; run it again"
        )


def _check_branch(options: TableWriteOptions, predicates: Sequence[Mapping[str, Any]]) -> None:
    if options.branch is not None and predicates:
        raise Unsupported(
            "write to a table: option 'branch' of a change of some rows; expected an append, or an overwrite of partitions"
        )


def begun_in_root(
    relation: Relation,
    schema: StructType,
    replaces: Replaces,
    predicates: Sequence[Mapping[str, Any]],
    options: TableWriteOptions = NO_OPTIONS,
) -> PlannedWrite:
    """Begin a write to a table of a root, as `begun` does."""
    if isinstance(relation, NewTable):
        return write_to(table_at(relation.store), relation.name, schema, replaces)
    if not isinstance(relation, DirectTable) or relation.is_pinned:
        raise Unsupported(
            "rows are written to tables and branches, not to tags, old versions, views and metadata tables"
        )
    plan = relation.plan
    _check_branch(options, predicates)
    if plan.evolution is not None:
        check_options(options.points, (), "write with schema evolution")
        opened, snapshot = plan.open_table()
        planned = write_to(opened, plan.table.name, schema, replaces, on=snapshot, evolution=plan.evolution)
        return replace(planned, read=_overwritten_tables(plan, predicates)) if predicates else planned
    name = plan.table.name if options.branch is None else f"{plan.table.name}@{options.branch}"
    table = f"{quote_name(plan.table.db_schema)}.{quote_name(name)}"
    planned = planned_write(
        replace(
            WriteOptions.of(plan.options.root or "", table, plan.options.storage),
            overwrite=None if replaces is Replaces.NOTHING else replaces.value,
            snapshot=plan.version if replaces is Replaces.READ and options.snapshot is None else options.snapshot,
        ),
        schema,
    )
    return replace(planned, read=_overwritten_tables(plan, predicates)) if predicates else planned


def _overwritten_tables(plan: DirectPlan, predicates: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the tables that hold the rows which fulfil predicates, and no others."""
    condition = Conditions.over(plan.source).all_of(predicates)
    pruned_tables = replace(plan, options=replace(plan.options, filter=condition)).plan_tables()
    if not pruned_tables.is_whole:
        raise Unsupported(
            f"INSERT OVERWRITE of the rows where {condition} is not one of whole partitions; expected identity partition columns,"
            " or DELETE and INSERT"
        )
    return tuple(sorted({table.object_id for table in pruned_tables.planned.tables}))


def writing(planned: PlannedWrite | ServerWrite) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that each task of a write runs over its rows, which the JVM packs (`RowPacker`)."""

    def write(packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _unpack(packed)
        written = Written(planned.write(rows)) if isinstance(planned, PlannedWrite) else planned.write(rows)
        _freeze_modules()
        yield pa.record_batch([pa.array([PICKLER.dumps(written)])], names=MESSAGE.names)

    # By this name Spark's workers know a function of a data source.
    write.__module__ = _WORKER
    return write


@cache
def _freeze_modules() -> None:
    """Let the collections of garbage that a worker makes after each task leave out what it has imported, and will keep."""
    gc.collect()
    gc.freeze()


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches of one column, whose values are Arrow streams."""
    for batch in batches:
        for packed in batch.column(0):
            yield from pa.ipc.open_stream(packed.as_buffer())


def tasks(planned: PlannedWrite | ServerWrite, schema: StructType) -> dict[str, str]:
    """Return the tasks of a write for the JVM: their function, the version of Python that it was pickled by, and the Arrow schema of their rows."""
    columns = carried_schema(arrow_schema(schema)).serialize().to_pybytes()
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "function": pickle_handle((writing(planned), MESSAGE)),
        "columns": base64.b64encode(columns).decode(),
    }


def messages_of(sent: Sequence[str | None]) -> list[Any]:
    """Return what the tasks of a write have said; None for those that failed."""
    return [None if message is None else PICKLER.loads(base64.b64decode(message)) for message in sent]


def commit(write: TableWrite, written: Sequence[Any], read: Any) -> None:
    """Commit a write, in place of what it has `read`: the tables of these object ids, or the rows that fulfil a condition."""
    planned, options = write.planned, write.options
    if None in written:
        raise QueryFailed("a task of the write has ended without a word of what it wrote; nothing was committed")
    if isinstance(planned, ServerWrite):
        once = "" if options.commit_id is None else f" ONCE {text(options.commit_id)}"
        planned.commit(written, read, once)
        return
    placed = planned if read is None else replace(planned, read=tuple(read))
    TableWriter(placed, commit_id=options.commit_id, report=options.report).commit(written)


def abort(write: TableWrite, written: Sequence[Any]) -> None:
    """Remove the files, or the rows at a server, of a write that is not committed."""
    planned = write.planned
    if isinstance(planned, ServerWrite):
        planned.abort()
        return
    TableWriter(planned).abort(written)


def deletion(relation: Relation, predicates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the DELETE of the rows that fulfil all predicates; None where SQL cannot say one of them."""
    if not isinstance(relation, DirectTable | ServerTable) or (
        isinstance(relation, DirectTable) and relation.is_pinned
    ):
        return None
    table = relation.plan.table if isinstance(relation, DirectTable) else relation.options.table
    condition = exactly(relation.source, predicates)
    if table is None or condition is None:
        return None
    where = f" WHERE {condition}" * bool(condition)
    return f"DELETE FROM {quote_name(table.db_schema)}.{quote_name(table.name)}{where}"  # noqa: S608 - quoted


def exactly(source: pa.Schema, predicates: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the condition that is all predicates and nothing less, '' for none of them; None where SQL cannot say one."""
    conditions = Conditions.over(source)
    found = [conditions.sql(predicate) for predicate in predicates if predicate.get("literal") != "true"]
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
    partitions: str | None = None
    """How many partitions of how many are read; None where a server finds them, or for a table that has none."""


def replaced_rows(relation: Relation, columns: Sequence[str], condition: str | None) -> ReplacedRows:
    """Plan a read of rows with all those that fulfil a condition: in a root of whole partition tables."""
    if isinstance(relation, ServerTable):
        read_plan = relation.scan(columns, condition)
        return ReplacedRows(read_plan.schema, read_plan.portions(), condition, relation.rows)
    if not isinstance(relation, DirectTable) or relation.is_pinned:
        raise Unsupported(
            "UPDATE, MERGE and DELETE change tables and branches, not tags, old versions, views and metadata tables"
        )
    plan = relation.plan
    left = _tables(replace(plan, options=replace(plan.options, filter=condition)))
    whole = replace(plan, options=replace(plan.options, columns=tuple(columns), filter=None))
    pruned_tables = whole.plan_tables()
    pieces = [
        piece
        for piece, table in zip(pruned_tables.pieces, pruned_tables.planned.tables, strict=True)
        if table.object_id in left
    ]
    counts = row_counts([piece.part.table for piece in pieces])
    tasks = balance_tasks(list(zip(pieces, counts, strict=True)), tasks_for(sum(counts), None))
    planned = pruned_tables.planned
    return ReplacedRows(
        whole.schema,
        [whole.portion(pruned_tables, task) for task in tasks],
        sorted(left),
        sum(counts),
        f"{len(left)} / {len(planned.tables)}" if planned.snapshot.is_partitioned else None,
    )


def _tables(plan: DirectPlan) -> set[str]:
    return {table.object_id for table in plan.plan_tables().planned.tables}


_ROWS_STAY = frozenset({"UPDATE", "DELETE"})
"""Commands whose tasks read whole partitions, and write the rows that they have read."""


def _is_whole(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_integer, types.is_decimal, types.is_string, types.is_large_string))


def _is_moment(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (types.is_timestamp, types.is_date))


_COMPUTED: Mapping[str, Callable[[pa.DataType], bool]] = MappingProxyType(
    {
        **dict.fromkeys(("bucket", "multi_bucket"), lambda kind: hash_class(kind) is not None),
        **dict.fromkeys(("year", "month", "day", "hour"), _is_moment),
        "truncate": _is_whole,
        "identity": lambda kind: not types.is_nested(kind),
    }
)
"""Transforms that the JVM computes (`WrittenKeys`), each with the types of columns that it takes."""


def distribute_rows(relation: Relation, command: str, options: TableWriteOptions, backend: SqlRunner) -> dict[str, Any]:
    """Return how the rows of a write come to its tasks; empty where they stay in theirs.

    Without the fields that the JVM does not compute, a task gets the rows
    of several partitions, and still all rows of each. `InvalidInput` names a column to sort by that is not there.
    """
    layout = None if command in _ROWS_STAY else _layout(relation, backend)
    if layout is None:
        return {}
    notes, partitioning = layout
    chosen = distribution_options(options, notes)
    fields = [] if chosen.distribution == "none" else partitioning
    keys = [field for field in fields if _is_computed(field, relation.source)]
    for name in options.sort_by or ():
        if name.column not in relation.source.names:
            raise InvalidInput(
                f"'sort_by' names {name.column!r}; expected columns of {', '.join(relation.source.names)}"
            )
    # A column that the table has no more orders nothing.
    sorted_by = [key for key in chosen.sort_by or () if key.column in relation.source.names]
    is_moved = bool(keys or (sorted_by and chosen.distribution == "range"))
    return {
        "keys": keys,
        "is_range": chosen.distribution == "range",
        "bytes": (chosen.target_file_size or 0) if is_moved else 0,
        "sorted": [key._asdict() for key in sorted_by],
    }


def _layout(relation: Relation, backend: SqlRunner) -> tuple[Mapping[str, str], Sequence[Mapping[str, Any]]] | None:
    """Return the metadata and the partition fields of what takes rows; None for what takes none."""
    match relation:
        case NewTable(store=store):
            snapshot = table_at(store).snapshot()
        case DirectTable(plan=plan):
            _, snapshot = plan.open_table()
        case NewServerTable(session=session, name=name):
            return layout_at_server(session, name)
        case ServerTable(options=read) if read.table is not None:
            return layout_at_server(backend, read.table)
        case _:
            return None
    return snapshot.schema.notes, partitioning_of(snapshot)


def _is_computed(field: Mapping[str, Any], source: pa.Schema) -> bool:
    takes = _COMPUTED.get(field["transform"])
    return takes is not None and all(takes(field_at(source, column).type) for column in field["columns"])
