"""Descriptions of tables for a catalog: partition fields, comments and defaults, from the snapshot of a root or by a server's SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.model.spec import Expression

from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quoted
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.failures import code_of
from lance_flight_client.spark.connector.reading.relations import DirectTable, Relation, ServerTable, text
from lance_flight_client.spark.options import NamedTable


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The partition fields of a table's current spec as Spark's transforms have them, its comment, and `columns`.

    Fields whose columns were dropped are left out: Spark looks each of them up. `columns` are the default value and the comment, as texts,
    of each column that has one.
    """

    partitioning: list[dict[str, Any]] = field(default_factory=list)
    comment: str | None = None
    columns: list[dict[str, str | None]] = field(default_factory=list)


def describe(backend: SqlRunner, name: NamedTable, relation: Relation) -> TableDescription:
    """Describe what a name means."""
    if isinstance(relation, DirectTable):
        _, snapshot = relation.plan.checked()
        return _of_snapshot(snapshot)
    partitioning = _partitioning(backend, name) if isinstance(relation, ServerTable) and relation.is_partitioned else []
    return TableDescription(partitioning, _comment(backend, name), _columns(backend, name))


def _of_snapshot(snapshot: Snapshot) -> TableDescription:
    schema = snapshot.schema
    columns = [
        {"name": name, "default": None if value is None else str(value.cast(pa.utf8())), "comment": comment}
        for name in schema.plain.names
        for value, comment in [(schema.defaults.get(name), schema.comments.get(name))]
        if value is not None or comment is not None
    ]
    fields = _whole(_fields_of(snapshot)) if snapshot.is_partitioned else []
    return TableDescription(fields, schema.comment, columns)


def _whole(fields: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in fields if None not in each["columns"]]


def _fields_of(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    paths = snapshot.schema.paths
    for each in snapshot.current_spec.fields:
        columns = [paths[number][0] if number in paths else None for number in each.source_ids]
        match each.rule:
            case Expression(sql=sql):
                yield _field("expr", [sql], columns)
            case rule:
                yield _field(rule.type, list(rule.arguments.values()), columns)


def _columns(backend: SqlRunner, table: NamedTable) -> list[dict[str, str | None]]:
    sql = (
        'SELECT column_name AS name, column_default AS "default", column_comment AS comment FROM information_schema.columns'  # noqa: S608 - quoted
        f" WHERE table_schema = {text(table.db_schema)} AND table_name = {text(table.name)}"
        " AND (column_default IS NOT NULL OR column_comment IS NOT NULL)"
    )
    return cast("list[dict[str, str | None]]", backend.rows(sql).to_pylist())


def _comment(backend: SqlRunner, table: NamedTable) -> str | None:
    # Apart from the columns: a union of both now and then fails, as two scans of the schema tables at once.
    sql = (
        "SELECT table_comment FROM information_schema.tables"  # noqa: S608 - quoted
        f" WHERE table_schema = {text(table.db_schema)} AND table_name = {text(table.name)}"
    )
    return next(iter(backend.rows(sql).column(0).to_pylist()), None)


def _partitioning(backend: SqlRunner, table: NamedTable) -> list[dict[str, Any]]:
    sql = (
        "SELECT transform, expression, source_columns FROM"  # noqa: S608 - quoted
        f" {quoted(table.db_schema)}.{quoted(table.name + '$specs')} WHERE is_current AND position >= 0 ORDER BY position"
    )
    try:
        return _whole(_parsed(row) for row in backend.rows(sql).to_pylist())
    except ServerError as exc:
        if code_of(exc) != "refused":
            raise
        # Metadata tables tell of all rows: whoever may not read all of them plans without partitions, which the server prunes.
        return []


def _parsed(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["transform"] is None:
        return _field("expr", [row["expression"]], row["source_columns"])
    transform = json.loads(row["transform"])
    kind = transform.pop("type")
    return _field(kind, list(transform.values()), row["source_columns"])


def _field(transform: str, arguments: list[Any], columns: list[str | None]) -> dict[str, Any]:
    return {"transform": transform, "arguments": arguments, "columns": columns}
