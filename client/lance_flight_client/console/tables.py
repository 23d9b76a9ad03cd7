"""Facts about tables for the pages, asked of the server in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.errors import ServerError

SMALL_FILE_BYTES = 1 << 20
MANY_FILES = 8
"""Files of a partition, on average, from which on small ones are worth a compaction."""


@dataclass(frozen=True, slots=True, order=True)
class ConsoleTable:
    """The name of a table or view, as pages and SQL have it."""

    db_schema: str
    name: str
    is_view: bool = False
    is_partitioned: bool = True

    @property
    def label(self) -> str:
        """The name that a person reads: without `public`."""
        return self.name if self.db_schema == "public" else f"{self.db_schema}.{self.name}"

    def sql(self, at: int | None = None, metadata: str = "") -> str:
        """Return the table at a version, or one of its metadata tables, in SQL.

        >>> ConsoleTable("public", "t").sql(3, "partitions")
        '"public"."t@3$partitions"'
        """
        name = f"{self.name}{'' if at is None else f'@{at}'}{metadata and f'${metadata}'}"
        return f"{quoted(self.db_schema)}.{quoted(name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """Sizes of a table; None where the server does not tell them to this user."""

    rows: int | None = None
    size: int | None = None
    files: int | None = None
    partitions: int | None = None
    changed: datetime | None = None
    version: int | None = None
    problem: str | None = None

    @property
    def hint(self) -> str | None:
        """Advice where files are small."""
        if not self.files or self.size is None:
            return None
        many = self.files >= MANY_FILES * max(self.partitions or 1, 1)
        return "small files: compact" if many and self.size / self.files < SMALL_FILE_BYTES else None


def quoted(name: str) -> str:
    """Return a name as SQL has it in quotes."""
    return '"' + name.replace('"', '""') + '"'


def tables_of(server: ConsoleServer) -> list[ConsoleTable]:
    """Return the tables and views that the user may see."""
    found = server.rows(
        "SELECT table_schema, table_name, table_type, partitioned FROM information_schema.tables"
        " WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name"
    )
    return [
        ConsoleTable(
            row["table_schema"], row["table_name"], row["table_type"] == "VIEW", row["partitioned"] in (True, "YES")
        )
        for row in found.to_pylist()
    ]


def table_named(server: ConsoleServer, db_schema: str, name: str) -> ConsoleTable | None:
    """Return the table or view of a name, if the user may see it."""
    return next((each for each in tables_of(server) if (each.db_schema, each.name) == (db_schema, name)), None)


def newest_version(server: ConsoleServer, table: ConsoleTable) -> int | None:
    """Return the newest version; None for a view, and where row policies keep the history from the user."""
    return _newest(server, table)[0]


def _newest(server: ConsoleServer, table: ConsoleTable) -> tuple[int | None, datetime | None]:
    """Return the newest version and the moment of its commit."""
    if table.is_view:
        return None, None
    try:
        sql = f"SELECT version, committed_at FROM {table.sql(metadata='snapshots')} ORDER BY version DESC LIMIT 1"
        found = server.rows(sql).to_pylist()
    except ServerError:
        return None, None
    return (found[0]["version"], found[0]["committed_at"]) if found else (None, None)


def summary_of(server: ConsoleServer, table: ConsoleTable) -> TableSummary:
    """Return the sizes of a table, from its metadata alone."""
    if table.is_view:
        return TableSummary()
    try:
        version, committed = _newest(server, table)
        if table.is_partitioned:
            found = partitions_at(server, table, version)
            sums = {name: int(pc.sum(found[name]).as_py() or 0) for name in ("rows", "bytes", "files")}
            changed = pc.max(found["last_change"]).as_py() if found.num_rows else committed
        else:
            (sums,) = server.rows(
                f"SELECT count(*) AS files, sum(bytes) AS bytes FROM {table.sql(metadata='files')}"
            ).to_pylist()
            sums |= server.rows(f"SELECT count(*) AS rows FROM {table.sql()}").to_pylist()[0]
            changed = committed
    except ServerError as exc:
        return TableSummary(problem=str(exc))
    return TableSummary(
        version=version,
        rows=sums["rows"],
        size=sums["bytes"],
        files=sums["files"],
        partitions=found.num_rows if table.is_partitioned else None,
        changed=changed,
    )


def listed(server: ConsoleServer, sql: str) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of a query; without rows where the server refuses it to this user."""
    try:
        found = server.rows(sql)
    except ServerError:
        return [], []
    return found.column_names, [list(row.values()) for row in found.to_pylist()]


def definition_of(server: ConsoleServer, table: ConsoleTable) -> str:
    """Return the statement that makes the table or view."""
    what = "VIEW" if table.is_view else "TABLE"
    found = server.rows(f"SHOW CREATE {what} {table.sql()}")
    return str(found[found.column_names[-1]][0].as_py())


def partitions_at(server: ConsoleServer, table: ConsoleTable, version: int | None) -> pa.Table:
    """Return the partition tables at a version (None: the newest one)."""
    return server.partitions.of(f"SELECT * FROM {table.sql(version, 'partitions')}", version, server.rows)


def read_by(
    server: ConsoleServer, table: ConsoleTable, version: int | None, condition: str
) -> tuple[frozenset[str], list[str]]:
    """Return the partition tables that a query with a condition reads, and the server's reasons."""
    at = table.sql(version)
    read = server.rows(f"SHOW PARTITIONS {at} READ BY {condition}")
    explained = server.rows(f"EXPLAIN SELECT * FROM {at} WHERE ({condition}\n)").to_pylist()
    reasons = [line for row in explained if row["plan_type"] == "partitions" for line in row["plan"].splitlines()]
    return frozenset(read["object_id"].to_pylist()), reasons


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """A partition of two snapshots: what happened to it between, and its rows before and after (None: it was not there)."""

    what: str
    values: str
    before: int | None
    after: int | None


def differences(before: pa.Table, after: pa.Table) -> list[PartitionDifference]:
    """Return the partitions that differ between two snapshots: added, removed, or with another version."""
    old, new = ({row["object_id"]: row for row in table.to_pylist()} for table in (before, after))
    found = []
    for number in [*old, *(each for each in new if each not in old)]:
        was, now = old.get(number), new.get(number)
        if was is not None and now is not None:
            if (was["read_version"], was["read_branch"], was["location"]) == (
                now["read_version"],
                now["read_branch"],
                now["location"],
            ):
                continue
            what = "changed"
        else:
            what = "added" if was is None else "removed"
        row = now or was or {}
        names = fields_of(after if now is not None else before)
        values = ", ".join(f"{name} = {'NULL' if row[name] is None else row[name]}" for name in names)
        found.append(PartitionDifference(what, values or "the whole table", was and was["rows"], now and now["rows"]))
    return sorted(found, key=lambda each: each.what)


def fields_of(partitions: pa.Table) -> Sequence[str]:
    """Return the columns of partition values."""
    names: list[str] = partitions.column_names
    return names[1 : names.index("object_id")]
