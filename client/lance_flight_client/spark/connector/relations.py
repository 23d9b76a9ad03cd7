"""Relations of a catalog: tables at the version that they were loaded at, views, metadata tables, and their limits.

Each is pickled into the handle by which the JVM names it, and plans a scan of some of its columns and rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NoReturn, Protocol, cast

import pyarrow as pa
from lance_flight.catalog.tables.sources import row_counts
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.model.naming import METADATA_NAMES
from pyspark.sql.types import StructType

from lance_flight_client.dataset.portions import TablePiece, balance_tasks, tasks_for
from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quote_name
from lance_flight_client.spark import reading
from lance_flight_client.spark.connector.backends import SqlRunner, backend_of
from lance_flight_client.spark.connector.jvm import Arguments, code_of, unpickle_handle
from lance_flight_client.spark.connector.table_options import TableReadOptions
from lance_flight_client.spark.options import STORAGE, NamedTable, ReadOptions
from lance_flight_client.spark.portions import DirectPortion
from lance_flight_client.spark.reading import DirectPlan
from lance_flight_client.spark.source import Portion, ReadPlan
from lance_flight_client.spark.types import carried_batch, carried_schema, spark_schema, with_required

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

    plan: reading.DirectPlan

    @property
    def source(self) -> pa.Schema:
        return self.plan.source

    @property
    def version(self) -> int:
        return self.plan.version

    @property
    def is_pinned(self) -> bool:
        """Return whether this is the table at a point of its history, which takes no rows."""
        return self.plan.options.at is not None

    @property
    def takes_conditions(self) -> bool:
        # As `plan_direct` refuses the filter of a branch.
        return "@" not in self.plan.table.name

    def decides(self, condition: str) -> bool:
        return self.where(condition).plan_tables().is_whole

    def where(self, condition: str | None) -> reading.DirectPlan:
        """Return the read of the rows that fulfil a condition."""
        return replace(self.plan, options=replace(self.plan.options, filter=condition))

    def scan(self, columns: Sequence[str], condition: str | None) -> reading.DirectPlan:
        return replace(self.plan, options=replace(self.plan.options, columns=tuple(columns), filter=condition))


class _SqlRelation:
    """Base of relations that are read by SQL, which takes any condition."""

    __slots__ = ()

    @property
    def takes_conditions(self) -> bool:
        return True

    def decides(self, condition: str) -> bool:
        del condition
        return True


@dataclass(frozen=True, slots=True)
class ServerEvolution:
    """Changes of columns, as SQL, that a write through a server commits with its rows, and the columns that are `stored` before."""

    actions: str
    stored: pa.Schema


@dataclass(frozen=True, slots=True)
class ServerTable(_SqlRelation):
    """A table of a server at one version, whose endpoints the tasks read; with an `evolution`, the columns are those after it."""

    options: ReadOptions
    source: pa.Schema
    rows: int | None
    """Rows of the whole table, where the server says it."""
    evolution: ServerEvolution | None = None

    @property
    def version(self) -> int | None:
        return self.options.snapshot

    @property
    def takes_conditions(self) -> bool:
        # The server does not know the columns yet.
        return self.evolution is None

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        if self.evolution is None:
            return reading.plan_through_server(replace(self.options, columns=tuple(columns), filter=condition))
        stored = self.evolution.stored.names
        read = [name for name in columns if name in stored] or stored[:1]
        plan = reading.plan_through_server(replace(self.options, columns=tuple(read)))
        return EvolvedPlan(plan, pa.schema([self.source.field(name) for name in columns]))


@dataclass(frozen=True, slots=True)
class EvolvedPlan:
    """A read of stored columns as those after a change: new ones are NULL, and others have wider types (`source.ReadPlan`)."""

    stored: ReadPlan
    columns: pa.Schema

    @property
    def schema(self) -> StructType:
        return spark_schema(self.columns)

    def portions(self) -> list[Portion]:
        return [EvolvedPortion(portion, self.columns) for portion in self.stored.portions()]


@dataclass(frozen=True, slots=True)
class EvolvedPortion:
    """The part of an `EvolvedPlan` for one task (`source.Portion`)."""

    stored: Portion
    columns: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        carried = carried_schema(self.columns)
        for batch in self.stored.batches():
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in batch.schema.names
                else pa.nulls(batch.num_rows, field.type)
                for field in carried
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=carried)


@dataclass(frozen=True, slots=True)
class ServerQuery(_SqlRelation):
    """A view or a metadata table of a server, read like a query."""

    options: ReadOptions
    name: str
    source: pa.Schema
    limit: int | None = None
    feed: NamedTable | None = None
    """The table whose changes these are, if they are all of them."""

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        return reading.plan_through_server(
            replace(self.options, query=select(self.name, columns, condition, self.limit))
        )


@dataclass(frozen=True, slots=True)
class RootQuery(_SqlRelation):
    """A view or a metadata table over a root, read like a query by one task."""

    options: Mapping[str, str] = field(repr=False)
    name: str
    source: pa.Schema
    is_small: bool
    """A metadata table: its rows go to the task with the plan."""
    limit: int | None = None
    feed: NamedTable | None = None
    """The table whose changes these are, if they are all of them."""

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


SPEC = "_spec_id"
HIDDEN = ("_rowid", "_partition", SPEC)
"""Columns of a stored table that a statement has to name; Spark has them as texts."""
NO_HIDDEN: Mapping[str, str] = MappingProxyType(
    {
        "_file": "_partition, and t.files",
        "_pos": "_rowid, which names a row",
    }
)
"""Hidden columns of others that there are none like, with what to read instead."""


def with_hidden(options: Mapping[str, str], relation: Relation, columns: Sequence[str]) -> Relation:
    """Return what reads these columns of a relation: a query, where some of them are hidden."""
    wanted = [name for name in columns if name not in relation.source.names]
    if not wanted:
        return relation
    for name in wanted:
        if name in NO_HIDDEN:
            raise Unsupported(f"there is no column {name!r}; expected {NO_HIDDEN[name]}")
    source = relation.source
    for name in HIDDEN:
        source = source if name in source.names else source.append(pa.field(name, pa.utf8()))
    if isinstance(relation, DirectTable | LimitedTable):
        table, limit = (relation.table, relation.rows) if isinstance(relation, LimitedTable) else (relation, None)
        name = name_of(table)
        return RootQuery(
            dict(options), _with_spec(name) if SPEC in wanted else name, source, is_small=False, limit=limit
        )
    query = as_query(relation)
    if query is None:
        raise NotFound.named("column", wanted[0], relation.source.names)
    return replace(query, name=_with_spec(query.name) if SPEC in wanted else query.name, source=source)


def _with_spec(name: str) -> str:
    """Return the query of a table, whose name is quoted, with the number of the partition spec that each row lies under."""
    partitions = f'{name[:-1]}$partitions"'
    return (
        f"(SELECT t.*, t._rowid, t._partition, CAST(p.spec_id AS VARCHAR) AS {SPEC} FROM {name} AS t"  # noqa: S608 - quoted
        f" JOIN {partitions} AS p ON p.object_id = t._partition) AS t"
    )


def select(name: str, columns: Sequence[str], condition: str | None, limit: int | None = None) -> str:
    """Return the query for some columns and rows of a relation, whose name is quoted."""
    where = "" if condition is None else f" WHERE {condition}"
    most = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT {', '.join(map(quote_name, columns))} FROM {name}{where}{most}"  # noqa: S608 - quoted


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


METADATA: Mapping[str, str] = MappingProxyType(
    {
        "history": "SELECT committed_at AS made_current_at, version AS snapshot_id, lag(version) OVER (ORDER BY version) AS parent_id,"
        " true AS is_current_ancestor FROM {snapshots}",
        "metadata_log_entries": "SELECT committed_at AS timestamp, version AS latest_snapshot_id, operation FROM {snapshots}",
        "refs": "SELECT 'main' AS name, 'BRANCH' AS type, max(version) AS snapshot_id, CAST(NULL AS BIGINT) AS max_reference_age_in_ms"
        " FROM {snapshots} UNION ALL SELECT name, 'BRANCH', version, CAST(retain_hours * 3600000 AS BIGINT) FROM {branches}"
        " UNION ALL SELECT name, 'TAG', version, CAST(retain_hours * 3600000 AS BIGINT) FROM {tags}",
        "snapshots": "SELECT *, version AS snapshot_id, lag(version) OVER (ORDER BY version) AS parent_id FROM {snapshots}",
        "files": "SELECT *, path AS file_path, 'lance' AS file_format, rows - deleted_rows AS record_count,"
        " bytes AS file_size_in_bytes FROM {files}",
        "partitions": "SELECT *, rows AS record_count, files AS file_count FROM {partitions}",
        "all_manifests": "SELECT 0 AS content, '__manifest' AS path, version AS added_snapshot_id FROM {snapshots}",
        "manifests": "SELECT 0 AS content, '__manifest' AS path, max(version) AS added_snapshot_id, (SELECT count(*) FROM {files})"
        " AS existing_data_files_count, (SELECT coalesce(sum(rows - deleted_rows), 0) FROM {files}) AS existing_rows_count FROM {snapshots}",
        "entries": "SELECT 0 AS status, {{'file_path': path, 'file_format': 'lance',"
        " 'record_count': rows - deleted_rows, 'file_size_in_bytes': bytes}} AS data_file, object_id AS partition_id FROM {files}",
        "delete_files": "SELECT 1 AS content, path AS file_path, 'lance' AS file_format, deleted_rows AS record_count,"
        " object_id AS partition_id FROM {files} WHERE deleted_rows > 0",
        "data_files": "SELECT path AS file_path, 'lance' AS file_format, rows - deleted_rows AS record_count,"
        " bytes AS file_size_in_bytes, object_id AS partition_id FROM {files}",
    }
)
"""Metadata tables by their names elsewhere: the query that answers them, over those of the service."""

_OF_VERSIONS: Mapping[str, str] = MappingProxyType(
    {f"all_{kind}": kind for kind in ("files", "data_files", "delete_files", "entries")}
)
"""Metadata tables of all versions that are kept, each with the one of a version that it puts together."""
_AT_A_VERSION = frozenset({"files", "data_files", "delete_files", "entries", "partitions"})
"""Metadata tables that a version has."""
_MOST_VERSIONS = 200


def _all_versions(backend: SqlRunner, table: NamedTable, kind: str) -> str:
    """Return the query of what metadata tables of all versions that are kept list."""
    snapshots = f"{quote_name(table.db_schema)}.{quote_name(f'{table.name}$snapshots')}"
    versions = backend.rows(f"SELECT version FROM {snapshots} ORDER BY version").column(0).to_pylist()  # noqa: S608 - quoted
    if len(versions) > _MOST_VERSIONS:
        raise Unsupported(
            f"'all_{kind}' of {table.name!r} with {len(versions)} versions; expected at most {_MOST_VERSIONS}, or {kind} VERSION AS OF"
        )
    queries = [METADATA[kind].format(**_places(table, f"@{version}")) for version in versions]
    return " UNION ALL ".join(queries)


def _places(table: NamedTable, at: str = "") -> dict[str, str]:
    return {
        each: f"{quote_name(table.db_schema)}.{quote_name(f'{table.name}{at}${each}')}"
        for each in ("snapshots", "branches", "tags", "files", "partitions")
    }


NO_METADATA: Mapping[str, str] = MappingProxyType(
    {
        "position_deletes": "delete_files, which counts the rows that are gone",
    }
)
"""Metadata tables of others that have no like here, with what to read instead."""


_CHANGES = re.compile(r"changes(?:_(?P<at>at_)?(?P<first>t?\d+)(?:_(?P<last>t?\d+))?)?")
"""The change feed of a table: `changes` of all versions, `changes_5_9` after version 5, `changes_at_5_9` from version 5 on, up to 9.

`t1700000000000000` is a moment in microseconds, in place of a version.
"""


def is_metadata(name: str) -> bool:
    """Return whether `t.name` may be a metadata table of `t`."""
    return name in {*METADATA_NAMES, *METADATA, *_OF_VERSIONS, *NO_METADATA} or _CHANGES.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class _Kept:
    """The versions of a table that are kept, by which the points of a change feed are looked up."""

    name: str
    rows: Sequence[Mapping[str, Any]]

    @property
    def versions(self) -> list[int]:
        return [row["version"] for row in self.rows]

    def up_to(self, point: str) -> int:
        """Return a version, or the last one of a moment."""
        if not point.startswith("t"):
            return int(point)
        moment = _EPOCH + timedelta(microseconds=int(point[1:]))
        found = [int(row["version"]) for row in self.rows if row["committed_at"] <= moment]
        return found[-1] if found else self._lacks(f"up to {moment.isoformat()}")

    def before(self, point: str) -> int:
        """Return the version before one, or before the first one that is as late as a moment."""
        if point.startswith("t"):
            moment = _EPOCH + timedelta(microseconds=int(point[1:]))
            found = [int(row["version"]) for row in self.rows if row["committed_at"] < moment]
            return found[-1] if found else self._lacks(f"from {moment.isoformat()} on")
        found = [version for version in self.versions if version < int(point)]
        return found[-1] if found else self._lacks(f"of version {point}")

    def _lacks(self, what: str) -> NoReturn:
        first = self.rows[0]
        raise InvalidInput(
            f"the changes {what} of {self.name!r} are not kept; expected a version after {first['version']}, of {first['committed_at']}"
        )


def _changes_query(backend: SqlRunner, table: NamedTable, given: re.Match[str]) -> str:
    snapshots = f"{quote_name(table.db_schema)}.{quote_name(f'{table.name}$snapshots')}"
    listed = f"SELECT version, committed_at FROM {snapshots} ORDER BY version"  # noqa: S608 - quoted
    kept = _Kept(table.name, backend.rows(listed).to_pylist())
    last = kept.versions[-1] if given["last"] is None else kept.up_to(given["last"])
    if given["first"] is None:
        first = kept.versions[0]
    elif given["at"]:
        first = kept.before(given["first"])
    else:
        first = kept.up_to(given["first"])
    return changes_between(table, first, last)


def changes_between(table: NamedTable, first: int, last: int) -> str:
    """Return the query of the changes of a table after one version up to another, with the columns of a change feed."""
    snapshots = f"{quote_name(table.db_schema)}.{quote_name(f'{table.name}$snapshots')}"
    name = text(f"{quote_name(table.db_schema)}.{quote_name(table.name)}")
    return (
        "(SELECT c.*, c._change AS _change_type, c._snapshot AS _commit_version, s.committed_at AS _commit_timestamp"  # noqa: S608 - quoted
        f" FROM table_changes({name}, {first}, {last}) AS c LEFT JOIN {snapshots} AS s ON s.version = c._snapshot) AS changes"
    )


def metadata_query(backend: SqlRunner, table: NamedTable) -> str | None:
    """Return the query of a metadata table `t$name` that has its name from elsewhere; None for one of the service's own."""
    name, _, kind = table.name.rpartition("$")
    changes = _CHANGES.fullmatch(kind) if name else None
    if changes is not None:
        return _changes_query(backend, table._replace(name=name), changes)
    if kind in NO_METADATA:
        raise Unsupported(f"there is no metadata table {kind!r} of {name!r}; expected {NO_METADATA[kind]}")
    if kind in _OF_VERSIONS:
        return f"({_all_versions(backend, table._replace(name=name), _OF_VERSIONS[kind])}) AS {quote_name(kind)}"
    if kind not in METADATA:
        return None
    return f"({METADATA[kind].format(**_places(table._replace(name=name)))}) AS {quote_name(kind)}"


def load(options: Mapping[str, str], backend: SqlRunner, table: NamedTable, at: Point = NEWEST) -> Relation:
    """Return what a name means at a point; `NotFound`, or the server's error of that code, if it means nothing.

    `s.t.snapshots` is the metadata table `t$snapshots`, and `s.t.branch_b` or `s.t.tag_b` the table at a branch or a tag, unless there is
    a schema `s.t`.
    """
    try:
        return _load(options, backend, table, at)
    except (NotFound, ServerError) as exc:
        kind, _, ref = table.name.partition("_")
        if code_of(exc) != "not_found" or not (is_metadata(table.name) or kind in {"branch", "tag"}):
            raise
        schema, _, name = table.db_schema.rpartition(".")
        above = NamedTable(schema or "public", name)
        if is_metadata(table.name):
            return _load(options, backend, above._replace(name=f"{name}${table.name}"), at)
        if at != NEWEST:
            raise InvalidInput(f"{name}.{table.name} AS OF another point; expected one of both") from exc
        _check_listed(backend, above, kind, ref)
        if kind == "tag":
            return _load(options, backend, above, Point(tag=ref))
        return _load(options, backend, above._replace(name=f"{name}@{ref}"), at)


def _load(options: Mapping[str, str], backend: SqlRunner, table: NamedTable, at: Point) -> Relation:
    # Over a root the table itself says what it is, sooner than a list of all.
    is_direct = "root" in options
    kind = None if "$" in table.name or is_direct else kind_of(backend, table)
    if "$" in table.name or kind == "VIEW":
        return _query(options, backend, table, at)
    # The name may hold a dot, or a quote: it is given as it is.
    given = replace(ReadOptions.parse({**of_reads(options), "table": "t"}), table=table, **at.option)
    try:
        return _stored_relation(options, backend, given)
    except (NotFound, ServerError) as exc:
        if code_of(exc) != "not_found":
            raise
        if is_direct and kind_of(backend, table) == "VIEW":
            return _query(options, backend, table, at)
        if given.tag is None or at.tag is not None or "@" in table.name:
            raise
        branch = NamedTable(table.db_schema, f"{table.name}@{given.tag}")
        try:
            return _stored_relation(options, backend, replace(given, table=branch, tag=None))
        except (NotFound, ServerError):
            # The first error says which tags there are.
            raise exc from None


def _stored_relation(options: Mapping[str, str], backend: SqlRunner, given: ReadOptions) -> Relation:
    table = given.table or NamedTable("", "")
    if given.root is None and given.tag is not None:
        # A server takes it for a tag or a branch, and does not say which; versions have numbers on each of them.
        return _query(options, backend, NamedTable(table.db_schema, f"{table.name}@{given.tag}"), NEWEST)
    if given.root is None and "@" in table.name:
        return _query(options, backend, table, NEWEST)
    if given.root is not None:
        return DirectTable(reading.plan_direct(given))
    plan = reading.plan_through_server(given)
    pinned = replace(given, snapshot=plan.answer.versions[0], tag=None, time=None)
    return ServerTable(pinned, plan.answer.schema, plan.answer.rows)


def described_columns(relation: Relation) -> StructType:
    """Return the columns of a relation as Spark has them; those of a table are NOT NULL where it says so."""
    columns = spark_schema(relation.source)
    return with_required(columns, relation.source) if isinstance(relation, DirectTable | ServerTable) else columns


def of_reads(options: Mapping[str, str]) -> dict[str, str]:
    """Return those options of a catalog that are options of a read."""
    return {name: value for name, value in options.items() if name not in OWN_OPTIONS}


def _query(
    options: Mapping[str, str], backend: SqlRunner, table: NamedTable, at: Point, *, has_other_names: bool = True
) -> Relation:
    name, _, kind = table.name.rpartition("$")
    if at.version is not None and name and kind in _AT_A_VERSION:
        table, at = table._replace(name=f"{name}@{at.version}${kind}"), NEWEST
    if at != NEWEST:
        raise Unsupported(f"{table.name!r} is read as it is now; a view and a metadata table have no versions")
    found = metadata_query(backend, table) if has_other_names else None
    sql_name = found or f"{quote_name(table.db_schema)}.{quote_name(table.name)}"
    source = backend.rows(f"SELECT * FROM {sql_name} LIMIT 0").schema  # noqa: S608 - quoted
    feed = table._replace(name=name) if name and kind == "changes" else None
    if "root" in options:
        is_small = "$" in table.name and not sql_name.startswith("(SELECT c.*")
        return RootQuery(dict(options), sql_name, source, is_small=is_small, feed=feed)
    return ServerQuery(ReadOptions.parse({**of_reads(options), "query": "SELECT 1"}), sql_name, source, feed=feed)


def query_plan(options: ReadOptions) -> ReadPlan | None:
    """Plan a read of what a name means over a root where it is no table: a view or a metadata table; None if it is neither."""
    table = options.table
    if table is None or options.root is None:
        return None
    catalog = {"root": options.root, **{f"{STORAGE}{name}": value for name, value in options.storage.items()}}
    backend = backend_of(catalog)
    if "$" not in table.name and kind_of(backend, table) != "VIEW":
        return None
    point = NEWEST if options.at is None else Point(version=str(options.at))
    # `t$partitions` is the service's own name, whose columns are the same over a root and through a server.
    is_own = table.name.rpartition("$")[2] in METADATA_NAMES
    relation = _query(catalog, backend, table, point, has_other_names=not is_own)
    return relation.scan(options.columns or relation.source.names, options.filter)


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


def relation_of(given: Arguments) -> Relation:
    """Return the relation that a request names by its handle."""
    return cast("Relation", unpickle_handle(given["handle"]))


def with_options(
    catalog: Mapping[str, str], backend: SqlRunner, relation: Relation, options: TableReadOptions, *, is_pinned: bool
) -> Relation:
    """Return what a read with these options reads in place of a relation, which `is_pinned` if it was loaded at a point.

    Its columns are those of the relation: Spark has planned with them.
    """
    found = relation if not options.points else _at(catalog, backend, relation, options, is_pinned=is_pinned)
    if options.partitions is None:
        return found
    if isinstance(found, DirectTable):
        plan = found.plan
        return replace(found, plan=replace(plan, options=replace(plan.options, partitions=options.partitions)))
    if isinstance(found, ServerTable | ServerQuery):
        return replace(found, options=replace(found.options, partitions=options.partitions))
    # One task reads it.
    return found


def _at(
    catalog: Mapping[str, str], backend: SqlRunner, relation: Relation, options: TableReadOptions, *, is_pinned: bool
) -> Relation:
    ((name, value),) = options.points.items()
    table = table_of(relation)
    if table is None:
        raise Unsupported(f"read of a table: option {name!r}; a view and a metadata table have no versions")
    if is_pinned:
        raise InvalidInput(f"read of a table: option {name!r} of a read AS OF another point; expected one of both")
    found = load(catalog, backend, *_read_options(backend, table, options))
    _check_columns(relation, found, f"{name} {value}", table)
    return found


def table_of(relation: Relation) -> NamedTable | None:
    """Return the table that a relation is; None for a view or a metadata table."""
    if isinstance(relation, DirectTable):
        return NamedTable(relation.plan.table.db_schema, relation.plan.table.name)
    return relation.options.table if isinstance(relation, ServerTable) else None


def _read_options(backend: SqlRunner, table: NamedTable, options: TableReadOptions) -> tuple[NamedTable, Point]:
    """Return the table and the point that options name."""
    if options.snapshot is not None:
        return table, Point(version=str(options.snapshot))
    if options.time is not None:
        return table, Point(microseconds=(options.time - _EPOCH) // timedelta(microseconds=1))
    if options.tag is not None:
        # SQL takes the name of a branch as well.
        _check_listed(backend, table, "tag", options.tag)
        return table, Point(tag=options.tag)
    branch = options.branch or ""
    _check_listed(backend, table, "branch", branch)
    return NamedTable(table.db_schema, f"{table.name}@{branch}"), Point()


def _check_listed(backend: SqlRunner, table: NamedTable, kind: str, name: str) -> None:
    listed = quote_name(f"{table.name}${kind}{'es' if kind == 'branch' else 's'}")
    sql = f"SELECT name FROM {quote_name(table.db_schema)}.{listed}"  # noqa: S608 - quoted
    known = backend.rows(sql).column(0).to_pylist()
    if name not in known:
        raise NotFound.named(kind, name, known)


def _check_columns(before: Relation, after: Relation, point: str, table: NamedTable) -> None:
    now, then = (_plain(with_required(spark_schema(relation.source), relation.source)) for relation in (before, after))
    if now != then:
        raise Unsupported(
            f"table {table.name!r} has other columns at {point} than now: {then.simpleString()}; expected VERSION AS OF or TIMESTAMP AS OF"
            " in SQL, which read a table with its columns of then"
        )


def _plain(columns: StructType) -> StructType:
    """Return columns without what is said of them."""
    struct_type = StructType()
    for column in columns:
        struct_type = struct_type.add(column.name, column.dataType, column.nullable)
    return struct_type


_FIRST_COUNTED = 8
"""Tables that are opened at first, for their rows."""


@dataclass(frozen=True, slots=True)
class LimitedTable:
    """A table of a root, of which `rows` rows are enough."""

    table: DirectTable
    rows: int

    @property
    def source(self) -> pa.Schema:
        return self.table.source

    @property
    def takes_conditions(self) -> bool:
        return False

    def decides(self, condition: str) -> bool:
        return self.table.decides(condition)

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        return LimitedPlan(self.table.scan(columns, condition), self.rows)


@dataclass(frozen=True, slots=True)
class LimitedPlan:
    """A read of at least `rows` rows, or of all there are (`source.ReadPlan`)."""

    plan: DirectPlan
    rows: int

    @property
    def schema(self) -> StructType:
        return self.plan.schema

    def portions(self) -> Sequence[Portion]:
        pruned_tables = self.plan.plan_tables()
        if not pruned_tables.is_whole:
            # How many rows of a table fulfil the condition is known to those who have read them.
            return self.plan.portions()
        counted = list(_enough(pruned_tables.pieces, self.rows))
        tasks = balance_tasks(counted, tasks_for(min(self.rows, sum(rows for _, rows in counted)), None)) or [[]]
        return [LimitedPortion(self.plan.portion(pruned_tables, pieces), self.rows) for pieces in tasks]


def _enough(pieces: Sequence[TablePiece], wanted: int) -> Iterator[tuple[TablePiece, int]]:
    """Yield the first tables that have so many rows together, each with its number; more are counted at each step."""
    start, step = 0, _FIRST_COUNTED
    while start < len(pieces) and wanted > 0:
        some = pieces[start : start + step]
        for piece, rows in zip(some, row_counts([table_piece.part.table for table_piece in some]), strict=True):
            if rows and wanted > 0:
                yield piece, rows
                wanted -= rows
        start, step = start + step, step * 2


@dataclass(frozen=True, slots=True)
class LimitedPortion:
    """The first rows of a task (`source.Portion`)."""

    portion: DirectPortion
    rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield no more than `rows` rows."""
        left = self.rows
        for batch in self.portion.batches():
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return


def limit_rows(relation: Relation, rows: int) -> Relation | None:
    """Return a relation whose scans need no more than so many rows; None where they read all in any case."""
    if isinstance(relation, DirectTable):
        return LimitedTable(relation, rows)
    query = as_query(relation)
    return None if query is None else replace(query, limit=rows)


def as_query(relation: Relation) -> ServerQuery | RootQuery | None:
    """Return the relation as one that is read by its name in SQL; None for one that the tasks read from its files."""
    if isinstance(relation, ServerTable):
        return ServerQuery(
            replace(relation.options, table=None, snapshot=None, query=""), name_of(relation), relation.source
        )
    return relation if isinstance(relation, ServerQuery | RootQuery) else None


def name_of(relation: DirectTable | ServerTable) -> str:
    """Return the name of a table at its version, as SQL quotes it."""
    if isinstance(relation, DirectTable):
        table = relation.plan.table
        return f"{quote_name(table.db_schema)}.{quote_name(f'{table.name}@{relation.plan.version}')}"
    if relation.options.table is None:
        raise AssertionError(relation)
    schema, name = relation.options.table
    return f"{quote_name(schema)}.{quote_name(f'{name}@{relation.options.snapshot}')}"
