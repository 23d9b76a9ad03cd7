"""Plans of queries: which partitions each table gives them, why, and the operators as a tree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lance_flight_client.console.partition_grid import PartitionGrid
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleTable, newest_spec, partitions_at, snapshot_of, tables_of
from lance_flight_client.errors import ServerError

_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(ANALYZE\s+)?(VERBOSE\s+)?", re.IGNORECASE)
_SCAN = re.compile(r"^\s*TableScan: (?P<name>.+?)(@(?P<at>[^@ ]+))?(?= projection=|, |$)", re.MULTILINE)
_REPORT = re.compile(r"partitions: \d+ / \d+  table (?P<name>.+), snapshot \d+")
_TREES = {"physical_plan": "Operators", "logical_plan": "Logical plan"}


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator of a plan, with those that it reads from."""

    name: str
    details: str
    inputs: list[PlanNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """A table that a query reads: its map with the partitions that are read lit (None where the user may not see them), and why."""

    label: str
    grid: PartitionGrid | None
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConsolePlan:
    """A plan: its tables, its trees by their titles, and what else the server says of it."""

    tables: Sequence[ScannedTable]
    trees: dict[str, list[PlanNode]]
    notes: Sequence[str]


def plan_of(server: ConsoleServer, sql: str) -> ConsolePlan:
    """Plan a query, which is not run; `ServerError` where it cannot be planned."""
    query = _EXPLAIN.sub("", sql, count=1) if _EXPLAIN.match(sql) else sql
    parts = [(row["plan_type"], row["plan"]) for row in server.rows(f"EXPLAIN {query}").to_pylist()]
    logical = "\n".join(text for kind, text in parts if kind == "logical_plan")
    reasons = [text for kind, text in parts if kind == "partitions"]
    known = {each.label: each for each in tables_of(server)}
    scanned = dict.fromkeys((found["name"].removeprefix("public."), found["at"]) for found in _SCAN.finditer(logical))
    tables = [
        ScannedTable(
            name if at is None else f"{name}@{at}",
            _grid_of(server, known[name], at, query),
            _about(known[name], reasons),
        )
        for name, at in sorted(scanned, key=lambda each: (each[0], each[1] or ""))
        if name in known and known[name].is_partitioned
    ]
    said = {line for each in tables for line in each.reasons}
    notes = [text for kind, text in parts if kind not in _TREES and text not in said]
    trees = {title: tree_of(text) for kind, title in _TREES.items() for found, text in parts if found == kind}
    return ConsolePlan(tables, trees, notes)


def _about(table: ConsoleTable, reasons: Sequence[str]) -> list[str]:
    """Return the reasons of the scans of a table, whose schema they do not name."""
    return [text for text in reasons if (found := _REPORT.match(text)) and found["name"] == table.name]


def _grid_of(server: ConsoleServer, table: ConsoleTable, at: str | None, query: str) -> PartitionGrid | None:
    scanned = table if at is None else replace(table, name=f"{table.name}@{at}")
    try:
        read = server.rows(f"SHOW PARTITIONS {scanned.sql()} READ BY QUERY {query}")["object_id"].to_pylist()
        partitions = (
            partitions_at(server, table, snapshot_of(server, table))
            if at is None
            else server.rows(f"SELECT * FROM {scanned.sql(metadata='partitions')}")
        )
    except ServerError:
        return None
    return PartitionGrid.of(newest_spec(partitions), read=frozenset(read)) if partitions.num_rows else None


def tree_of(text: str) -> list[PlanNode]:
    r"""Return the operators of a plan, which are indented below what reads from them.

    >>> tree_of("Filter: a\n  Scan: t\n")
    [PlanNode(name='Filter', details='a', inputs=[PlanNode(name='Scan', details='t', inputs=[])])]
    """
    roots: list[PlanNode] = []
    path: list[tuple[int, PlanNode]] = []
    for line in filter(str.strip, text.splitlines()):
        depth = len(line) - len(line.lstrip())
        name, _, details = line.strip().partition(":")
        node = PlanNode(name, details.strip())
        path = [(above, parent) for above, parent in path if above < depth]
        (path[-1][1].inputs if path else roots).append(node)
        path.append((depth, node))
    return roots
