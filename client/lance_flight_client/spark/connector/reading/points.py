"""Reads of a table at the point of its history that the options of a read name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lance_flight.errors import InvalidInput, NotFound, Unsupported
from pyspark.sql.types import StructType

from lance_flight_client.parameters import quoted
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.reading.relations import (
    DirectTable,
    Point,
    Relation,
    ServerQuery,
    ServerTable,
    load,
)
from lance_flight_client.spark.connector.table_options import TableReadOptions
from lance_flight_client.spark.options import NamedTable
from lance_flight_client.spark.types import spark_schema, with_required

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    found = load(catalog, backend, *_named(backend, table, options))
    _check_columns(relation, found, f"{name} {value}", table)
    return found


def table_of(relation: Relation) -> NamedTable | None:
    """Return the table that a relation is; None for a view or a metadata table."""
    if isinstance(relation, DirectTable):
        return NamedTable(relation.plan.table.db_schema, relation.plan.table.name)
    return relation.options.table if isinstance(relation, ServerTable) else None


def _named(backend: SqlRunner, table: NamedTable, options: TableReadOptions) -> tuple[NamedTable, Point]:
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
    listed = quoted(f"{table.name}${kind}{'es' if kind == 'branch' else 's'}")
    sql = f"SELECT name FROM {quoted(table.db_schema)}.{listed}"  # noqa: S608 - quoted
    known = backend.rows(sql).column(0).to_pylist()
    if name not in known:
        raise NotFound.named(kind, name, known)


def _check_columns(before: Relation, after: Relation, point: str, table: NamedTable) -> None:
    now, then = (_plain(with_required(spark_schema(each.source), each.source)) for each in (before, after))
    if now != then:
        raise Unsupported(
            f"table {table.name!r} has other columns at {point} than now: {then.simpleString()}; expected VERSION AS OF or TIMESTAMP AS OF"
            " in SQL, which read a table with its columns of then"
        )


def _plain(columns: StructType) -> StructType:
    """Return columns without what is said of them."""
    found = StructType()
    for each in columns:
        found = found.add(each.name, each.dataType, each.nullable)
    return found
