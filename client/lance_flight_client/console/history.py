"""History of a table: its snapshots, branches and tags as a graph, and what differs between two snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleTable, fields_of, list_rows
from lance_flight_client.parameters import text_literal

MOST_SNAPSHOTS = 500
MOST_BRANCHES = 8
"""Branches that are drawn, the newest ones."""
MOST_BRANCH_SNAPSHOTS = 100
_MOST_NAMES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDot:
    """Snapshot in the graph: its place from left to right in percent, its facts, and the tags and branches at it."""

    version: int
    committed: datetime
    operation: str
    added: int
    changed: int
    removed: int
    x: float = 0.0
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLane:
    """The snapshots of a branch (None: the main one), the oldest first, and the version of the main one that they go out from."""

    branch: str | None
    dots: Sequence[SnapshotDot]
    fork: float = 0.0

    def sql(self, table: ConsoleTable) -> str:
        """Return the table as this branch has it, in SQL."""
        return _of_branch(table, self.branch).sql()


def history_of(server: ConsoleServer, table: ConsoleTable) -> list[HistoryLane]:
    """Return the newest snapshots of a table and its branches, placed in the order of their commits; the main lane comes first."""
    if table.is_view:
        return [HistoryLane(branch=None, dots=())]
    forks, names = _names(server, table)
    lanes = {branch: _snapshots(server, table, branch, forks.get(branch)) for branch in [None, *forks]}
    ordered = sorted({dot.committed for dots in lanes.values() for dot in dots})
    place = {moment: round(100 * step / max(len(ordered) - 1, 1), 2) for step, moment in enumerate(ordered)}
    placed = {
        branch: [replace(dot, x=place[dot.committed], names=names.get((branch, dot.version), ())) for dot in dots]
        for branch, dots in lanes.items()
    }
    main = {dot.version: dot.x for dot in placed[None]}
    return [
        HistoryLane(branch=branch, dots=dots, fork=main.get(forks.get(branch, 0), 0.0))
        for branch, dots in placed.items()
    ]


def _of_branch(table: ConsoleTable, branch: str | None) -> ConsoleTable:
    return table if branch is None else replace(table, name=f"{table.name}@{branch}")


def _snapshots(server: ConsoleServer, table: ConsoleTable, branch: str | None, fork: int | None) -> list[SnapshotDot]:
    since, most = ("", MOST_SNAPSHOTS) if branch is None else (f" WHERE version > {fork}", MOST_BRANCH_SNAPSHOTS)
    sql = (
        "SELECT version, committed_at, operation, tables_added, tables_changed, tables_removed"
        f" FROM {_of_branch(table, branch).sql(metadata='snapshots')}{since} ORDER BY version DESC LIMIT {most}"
    )
    # What the main branch has is asked for in the open: a refusal of it is the page's own.
    rows = list_rows(server, sql)[1] if branch else [list(row.values()) for row in server.rows(sql).to_pylist()]
    return [
        SnapshotDot(version=version, committed=at, operation=what or "", added=added, changed=changed, removed=removed)
        for version, at, what, added, changed, removed in reversed(rows)
    ]


def _names(
    server: ConsoleServer, table: ConsoleTable
) -> tuple[dict[str | None, int], dict[tuple[str | None, int], list[str]]]:
    """Return the newest branches with the versions that they go out from, and these and the tags by branch and version."""
    tags = f"SELECT branch, version, name, FALSE AS is_branch FROM {table.sql(metadata='tags')}"
    branches = f"SELECT NULL, forked_at, name, TRUE FROM {table.sql(metadata='branches')}"
    found = f"({branches} ORDER BY version DESC LIMIT {MOST_BRANCHES})"
    sql = f"{tags} UNION ALL {found}" if table.is_partitioned else tags
    forks: dict[str | None, int] = {}
    named: dict[tuple[str | None, int], list[str]] = {}
    rows = list_rows(server, f"SELECT * FROM ({sql}) AS named ORDER BY is_branch, name LIMIT {_MOST_NAMES}")[1]
    for branch, version, name, is_branch in rows:
        named.setdefault((branch, version), []).append(f"{'branch' if is_branch else 'tag'} {name}")
        if is_branch:
            forks[name] = version
    return forks, named


def changed_rows(table: ConsoleTable, first: int, second: int, *, most: int) -> str:
    """Return the query of the rows that were added and removed between two snapshots."""
    return f"SELECT * FROM table_changes({text_literal(table.sql())}, {first}, {second})\nLIMIT {most}"


def order_of(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    """Return what partitions are sorted by, from their values: NULL first."""
    return [(value is not None, 0 if value is None else value) for value in values]


def _spec_and_values(partition: Mapping[str, Any]) -> list[Any]:
    return list(partition.values())[: list(partition).index("object_id")]


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """A partition of two snapshots: what happened to it between, and its rows before and after (None: it was not there)."""

    what: str
    values: str
    before: int | None
    after: int | None

    @property
    def difference(self) -> int:
        """The rows that it has gained; fewer than 0 if it has lost some."""
        return (self.after or 0) - (self.before or 0)


def differences(before: pa.Table, after: pa.Table) -> list[PartitionDifference]:
    """Return the partitions that differ between two snapshots: added, removed, or with another version."""
    old, new = ({row["object_id"]: row for row in table.to_pylist()} for table in (before, after))
    found = []
    for number in sorted({*old, *new}, key=lambda number: order_of(_spec_and_values(new.get(number) or old[number]))):
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
    # What changed most comes first: that is what people look for.
    return sorted(found, key=lambda each: (each.what != "changed", -abs(each.difference)))
