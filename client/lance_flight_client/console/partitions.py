"""Partitions of the map one by one: their fields in SQL, their rows, their files, and the snapshots that changed them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import zip_longest
from typing import Any

from lance_flight_client.console.exploring import Facet, ShownRows
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleSnapshot, ConsoleTable, list_rows, partitions_at
from lance_flight_client.parameters import quote_name, text_literal

MOST_FILES = 500
MOST_VERSIONS = 30
"""Snapshots that are looked through for changes of a partition."""
MOST_LOOKED_AT = 100_000
"""Partitions of all these snapshots together."""


@dataclass(frozen=True, slots=True)
class SpecValue:
    """Field of a partition spec: the name of its values, the columns that it is made from, and its transform."""

    name: str
    columns: Sequence[str]
    transform: Mapping[str, Any]

    def sql(self, kinds: Mapping[str, str]) -> str | None:
        """Return the value of the field in SQL, over columns of these types; None where SQL has no function for it.

        >>> SpecValue("at_year", ["at"], {"type": "year"}).sql({"at": "TIMESTAMP(6)"})
        'year("at")'
        >>> SpecValue("b", ["id"], {"type": "bucket", "num_buckets": 4}).sql({"id": "BIGINT"})
        'bucket(4, "id")'
        """
        if len(self.columns) != 1 or self.columns[0] not in kinds:
            return None
        column, kind = quote_name(self.columns[0]), kinds[self.columns[0]]
        match self.transform.get("type"):
            case "identity":
                return column
            case "year" | "month" | "day" | "hour" as part:
                return f"{part}({column})"
            case "bucket":
                return f"bucket({int(self.transform['num_buckets'])}, {column})"
            case "truncate" if kind == "VARCHAR":
                return f"left({column}, {int(self.transform['width'])})"
            case _:
                return None


def fields_of_spec(server: ConsoleServer, table: ConsoleTable, spec: int) -> list[SpecValue]:
    """Return the fields of a version of the partition spec; none where they are not told to this user."""
    sql = (
        f"SELECT field_id, source_columns, transform FROM {table.sql(metadata='specs')}"
        f" WHERE spec_id = {spec} ORDER BY position"
    )
    return [
        SpecValue(name, columns or [], json.loads(transform or "{}"))
        for name, columns, transform in list_rows(server, sql)[1]
    ]


def address_of_rows(
    table: ConsoleTable,
    kinds: Mapping[str, str],
    fields: Sequence[SpecValue],
    partition: Mapping[str, Any],
    at: int | None,
) -> str | None:
    """Return the address of the rows of a partition; None where SQL cannot say which they are."""
    conditions, written = [], []
    for each in fields:
        value, computed = partition.get(each.name), each.sql(kinds)
        literal = _literal(value)
        if computed is None or literal is None:
            return None
        if computed == quote_name(each.columns[0]):
            conditions.append(Facet(each.columns[0], None if value is None else str(value)))
        else:
            written.append(f"{computed} IS NULL" if value is None else f"{computed} = {literal}")
    if not fields:
        return None
    return ShownRows(table=table, kinds=kinds, at=at, conditions=conditions, where=" AND ".join(written)).address


def _literal(value: Any) -> str | None:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case str() | date() | datetime():
            return text_literal(str(value))
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Snapshot that changed a partition: what it did, and the rows, bytes and files after it."""

    snapshot: int
    committed: datetime
    operation: str | None
    rows: int
    size: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetails:
    """Files of a partition, and the snapshots that changed it, the newest first; `is_cut` if older ones were not looked at."""

    files: tuple[Sequence[str], Sequence[Sequence[Any]]]
    versions: Sequence[PartitionState] = field(default=())
    is_cut: bool = False


def details_of(server: ConsoleServer, table: ConsoleTable, object_id: str, at: int | None) -> PartitionDetails:
    """Return the files and versions of a partition of a snapshot (None: the newest)."""
    until = "" if at is None else f" WHERE version <= {at}"
    found = list_rows(
        server,
        f"SELECT version, committed_at, operation FROM {table.sql(metadata='snapshots')}{until}"
        f" ORDER BY version DESC LIMIT {MOST_VERSIONS + 1}",
    )[1]
    snapshot = ConsoleSnapshot(*found[0][:2]) if found else ConsoleSnapshot(at)
    partitions = partitions_at(server, table, snapshot).num_rows
    most = min(MOST_VERSIONS, max(2, MOST_LOOKED_AT // max(partitions, 1)))
    mine = f"object_id = {text_literal(object_id)}"
    files = list_rows(
        server,
        "SELECT path, rows, deleted_rows AS deleted, bytes, file_version AS format"
        f" FROM {table.sql(snapshot.version, 'files')} WHERE {mine} ORDER BY fragment_id, path LIMIT {MOST_FILES}",
    )
    looked_at = {row[0]: row for row in found[:most]}
    states = " UNION ALL ".join(
        f"SELECT {number} AS snapshot, location, read_version, read_branch, rows, bytes, files"
        f" FROM {table.sql(number, 'partitions')} WHERE {mine}"
        for number in looked_at
    )
    ordered = list_rows(server, states and f"SELECT * FROM ({states}) AS states ORDER BY snapshot DESC")[1]
    return PartitionDetails(files=files, versions=list(_changes(ordered, looked_at)), is_cut=len(found) > most)


def _changes(states: Sequence[Sequence[Any]], snapshots: Mapping[int, Sequence[Any]]) -> Iterator[PartitionState]:
    """Yield the snapshots whose partition table is not that of the one before."""
    for state, before in zip_longest(states, states[1:]):
        number, *place, rows, size, files = state
        if before is None or place != list(before[1:4]):
            _, committed, operation = snapshots[number]
            yield PartitionState(
                snapshot=number, committed=committed, operation=operation, rows=rows, size=size, files=files
            )
