"""Relations of a catalog: tables at the version that they were loaded at, and views and metadata tables as queries.

Each is pickled into the handle by which the JVM names it, and plans a scan of some of its columns and rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa
from lance_flight.errors import NotFound, Unsupported
from pyspark.sql.types import StructType

from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quoted
from lance_flight_client.spark.connector.backends import SqlRunner, backend_of
from lance_flight_client.spark.connector.failures import code_of
from lance_flight_client.spark.options import STORAGE, NamedTable, ReadOptions
from lance_flight_client.spark.reading import direct, through_flight
from lance_flight_client.spark.source import Portion, ReadPlan
from lance_flight_client.spark.types import carried_batch, carried_schema, spark_schema, with_required

METADATA = frozenset({"partitions", "snapshots", "files", "specs", "tags", "branches", "indexes", "lineage"})
"""Names of metadata tables, which stand after that of their table: `lake.t.snapshots`."""

OWN_OPTIONS = frozenset({"groups"})
"""Options of a catalog that are not those of a read."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Relation(Protocol):
    """Something that a name in a catalog means."""

    @property
    def source(self) -> pa.Schema:
        """All columns, as they are stored."""
        ...

    @property
    def takes_conditions(self) -> bool:
        """Return whether a scan can be given a condition."""
        ...

    def decides(self, condition: str) -> bool:
        """Return whether a scan returns no other rows than those that fulfil a condition, as Spark would find them."""
        ...

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        """Plan a read of the rows that fulfil a condition."""
        ...


@dataclass(frozen=True, slots=True)
class DirectTable:
    """A table of a root at one version, whose files the tasks read."""

    plan: direct.DirectPlan

    @property
    def source(self) -> pa.Schema:
        return self.plan.source

    @property
    def takes_conditions(self) -> bool:
        # As `direct.plan` refuses the filter of a branch.
        return "@" not in self.plan.table.name

    def decides(self, condition: str) -> bool:
        return self.where(condition).found().is_whole

    def where(self, condition: str | None) -> direct.DirectPlan:
        """Return the read of the rows that fulfil a condition."""
        return replace(self.plan, options=replace(self.plan.options, filter=condition))

    def scan(self, columns: Sequence[str], condition: str | None) -> direct.DirectPlan:
        return replace(self.plan, options=replace(self.plan.options, columns=tuple(columns), filter=condition))


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table of a server at one version, whose endpoints the tasks read."""

    options: ReadOptions
    source: pa.Schema
    rows: int | None
    """Rows of the whole table, where the server says it."""
    is_partitioned: bool

    @property
    def takes_conditions(self) -> bool:
        return True

    def decides(self, condition: str) -> bool:
        del condition
        return True

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        return through_flight.plan(replace(self.options, columns=tuple(columns), filter=condition))


@dataclass(frozen=True, slots=True)
class ServerQuery:
    """A view or a metadata table of a server, read like a query."""

    options: ReadOptions
    name: str
    source: pa.Schema
    limit: int | None = None

    @property
    def takes_conditions(self) -> bool:
        return True

    def decides(self, condition: str) -> bool:
        del condition
        return True

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        return through_flight.plan(replace(self.options, query=select(self.name, columns, condition, self.limit)))


@dataclass(frozen=True, slots=True)
class RootQuery:
    """A view or a metadata table over a root, read like a query by one task."""

    options: Mapping[str, str] = field(repr=False)
    name: str
    source: pa.Schema
    is_small: bool
    """A metadata table: its rows go to the task with the plan."""
    limit: int | None = None

    @property
    def takes_conditions(self) -> bool:
        return True

    def decides(self, condition: str) -> bool:
        del condition
        return True

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        portion = QueryPortion(self.options, select(self.name, columns, condition, self.limit))
        chosen = pa.schema([self.source.field(name) for name in columns])
        return OneTaskPlan(RowsPortion(tuple(portion.batches())) if self.is_small else portion, spark_schema(chosen))


@dataclass(frozen=True, slots=True)
class QueryPortion:
    """The whole answer to a query over a root, for one task that runs it (`source.Portion`)."""

    options: Mapping[str, str] = field(repr=False)
    sql: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the query and yield its rows in Spark's types."""
        rows = backend_of(self.options).rows(self.sql)
        carried = carried_schema(rows.schema)
        yield from (carried_batch(batch, carried) for batch in rows.to_batches())


@dataclass(frozen=True, slots=True)
class RowsPortion:
    """Rows that are there already (`source.Portion`)."""

    rows: tuple[pa.RecordBatch, ...] = field(repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield them."""
        yield from self.rows


@dataclass(frozen=True, slots=True)
class OneTaskPlan:
    """A query that one task answers (`source.ReadPlan`)."""

    portion: Portion
    schema: StructType

    def portions(self) -> list[Portion]:
        return [self.portion]


def select(name: str, columns: Sequence[str], condition: str | None, limit: int | None = None) -> str:
    """Return the query for some columns and rows of a relation, whose name is quoted."""
    where = "" if condition is None else f" WHERE {condition}"
    most = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT {', '.join(map(quoted, columns))} FROM {name}{where}{most}"  # noqa: S608 - quoted


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a table's history: a version as Spark names it, which may be that of a tag or a branch, a moment in microseconds, or a tag."""

    version: str | None = None
    microseconds: int | None = None
    tag: str | None = None

    @property
    def option(self) -> dict[str, Any]:
        """The option of a read that says the same, and nothing for the newest version."""
        if self.microseconds is not None:
            return {"time": _EPOCH + timedelta(microseconds=self.microseconds)}
        if self.tag is not None:
            return {"tag": self.tag}
        if self.version is None:
            return {}
        return {"snapshot": int(self.version)} if self.version.isdecimal() else {"tag": self.version}


NEWEST = Point()


def load(options: Mapping[str, str], backend: SqlRunner, table: NamedTable, at: Point = NEWEST) -> Relation:
    """Return what a name means at a point; `NotFound`, or the server's error of that code, if it means nothing.

    `s.t.snapshots` is the metadata table `t$snapshots`, unless there is a schema `s.t`.
    """
    try:
        return _load(options, backend, table, at)
    except (NotFound, ServerError) as exc:
        if code_of(exc) != "not_found" or table.name not in METADATA:
            raise
        schema, _, name = table.db_schema.rpartition(".")
        return _load(options, backend, NamedTable(schema or "public", f"{name}${table.name}"), at)


def _load(options: Mapping[str, str], backend: SqlRunner, table: NamedTable, at: Point) -> Relation:
    # Over a root the table itself says what it is, sooner than a list of all.
    is_direct = "root" in options
    kind = None if "$" in table.name or is_direct else kind_of(backend, table)
    if "$" in table.name or kind == "VIEW":
        return _query(options, backend, table, at)
    # The name may hold a dot, or a quote: it is given as it is.
    given = replace(ReadOptions.parse({**of_reads(options), "table": "t"}), table=table, **at.option)
    try:
        return _stored(options, backend, given, is_partitioned=kind == "PARTITIONED")
    except (NotFound, ServerError) as exc:
        if code_of(exc) != "not_found":
            raise
        if is_direct and kind_of(backend, table) == "VIEW":
            return _query(options, backend, table, at)
        if given.tag is None or at.tag is not None or "@" in table.name:
            raise
        branch = NamedTable(table.db_schema, f"{table.name}@{given.tag}")
        try:
            return _stored(options, backend, replace(given, table=branch, tag=None), is_partitioned=True)
        except (NotFound, ServerError):
            # The first error says which tags there are.
            raise exc from None


def _stored(options: Mapping[str, str], backend: SqlRunner, given: ReadOptions, *, is_partitioned: bool) -> Relation:
    table = given.table or NamedTable("", "")
    if given.root is None and given.tag is not None:
        # A server takes it for a tag or a branch, and does not say which; versions have numbers on each of them.
        return _query(options, backend, NamedTable(table.db_schema, f"{table.name}@{given.tag}"), NEWEST)
    if given.root is None and "@" in table.name:
        return _query(options, backend, table, NEWEST)
    if given.root is not None:
        return DirectTable(direct.plan(given))
    found = through_flight.plan(given)
    pinned = replace(given, snapshot=found.answer.versions[0], tag=None, time=None)
    return ServerTable(pinned, found.answer.schema, found.answer.rows, is_partitioned)


def described_columns(relation: Relation) -> StructType:
    """Return the columns of a relation as Spark has them; those of a table are NOT NULL where it says so."""
    columns = spark_schema(relation.source)
    return with_required(columns, relation.source) if isinstance(relation, DirectTable | ServerTable) else columns


def of_reads(options: Mapping[str, str]) -> dict[str, str]:
    """Return those options of a catalog that are options of a read."""
    return {name: value for name, value in options.items() if name not in OWN_OPTIONS}


def _query(options: Mapping[str, str], backend: SqlRunner, table: NamedTable, at: Point) -> Relation:
    if at != NEWEST:
        raise Unsupported(f"{table.name!r} is read as it is now; a view and a metadata table have no versions")
    name = f"{quoted(table.db_schema)}.{quoted(table.name)}"
    source = backend.rows(f"SELECT * FROM {name} LIMIT 0").schema  # noqa: S608 - quoted
    if "root" in options:
        return RootQuery(dict(options), name, source, is_small="$" in table.name)
    return ServerQuery(ReadOptions.parse({**of_reads(options), "query": "SELECT 1"}), name, source)


def query_plan(options: ReadOptions) -> ReadPlan | None:
    """Plan a read of what a name means over a root where it is no table: a view or a metadata table; None if it is neither."""
    table = options.table
    if table is None or options.root is None:
        return None
    catalog = {"root": options.root, **{f"{STORAGE}{name}": value for name, value in options.storage.items()}}
    backend = backend_of(catalog)
    if "$" not in table.name and kind_of(backend, table) != "VIEW":
        return None
    found = _query(catalog, backend, table, NEWEST if options.at is None else Point(version=str(options.at)))
    return found.scan(options.columns or found.source.names, options.filter)


def kind_of(backend: SqlRunner, table: NamedTable) -> str | None:
    """Return whether a name is that of a `VIEW`, a `PARTITIONED` or a `PLAIN` table; None for one that is listed nowhere."""
    sql = (
        f"SELECT table_type, partitioned FROM information_schema.tables WHERE table_schema = {text(table.db_schema)}"  # noqa: S608 - quoted
        f" AND table_name = {text(table.name)}"
    )
    found = backend.rows(sql).to_pylist()
    if not found:
        return None
    (row,) = found
    return "VIEW" if row["table_type"] == "VIEW" else "PARTITIONED" if row["partitioned"] else "PLAIN"


def text(value: str) -> str:
    """Return a text as SQL quotes it."""
    return "'" + value.replace("'", "''") + "'"
