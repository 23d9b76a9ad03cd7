"""Pages of tables: the list, one table, and its history."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lance_flight_client.console import tables
from lance_flight_client.console.pages.answering import MOST_LISTED, no_table, page, pages_of, table_of, whole_number
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import listed

MOST_SNAPSHOTS = 500


@page
def home(request: Request, server: ConsoleServer) -> Response:
    """List the tables; their sizes come one by one."""
    return pages_of(request).show(request, "tables.html", tables=tables.tables_of(server))


@page
def summary(request: Request, server: ConsoleServer) -> Response:
    """Return the row of one table in the list of all."""
    table = table_of(request, server)
    if table is None:
        return no_table(request)
    return pages_of(request).show(request, "summary.html", table=table, summary=tables.summary_of(server, table))


@page
def table(request: Request, server: ConsoleServer) -> Response:
    """Show the columns of a table, and what there is of it."""
    found = table_of(request, server)
    if found is None:
        return no_table(request)
    parts = {
        "indices": listed(server, f"SELECT * FROM {found.sql(metadata='indexes')}"),
        "tags": listed(server, f"SELECT * FROM {found.sql(metadata='tags')}"),
        "branches": listed(server, f"SELECT * FROM {found.sql(metadata='branches')}")
        if found.is_partitioned
        else ([], []),
    }
    return pages_of(request).show(
        request,
        "table.html",
        table=found,
        columns=listed(server, f"DESCRIBE {found.sql()}"),
        definition=tables.definition_of(server, found),
        version=tables.snapshot_of(server, found).version,
        parts={} if found.is_view else parts,
    )


@page
def history(request: Request, server: ConsoleServer) -> Response:
    """Show the snapshots of a table on a time line, and what differs between two of them."""
    found = table_of(request, server)
    if found is None:
        return no_table(request)
    rows = (
        []
        if found.is_view
        else server.rows(
            f"SELECT * FROM {found.sql(metadata='snapshots')} ORDER BY version DESC LIMIT {MOST_SNAPSHOTS}"
        ).to_pylist()
    )
    wanted = [whole_number(request, name) for name in ("a", "b")]
    chosen = sorted(version for version in wanted if version is not None) if found.is_partitioned else []
    compared: list[tables.PartitionDifference] | None = None
    if len(chosen) == 2:  # noqa: PLR2004 - two snapshots
        first, second = (
            tables.partitions_at(server, found, tables.snapshot_of(server, found, version)) for version in chosen
        )
        compared = tables.differences(first, second)
    return pages_of(request).show(
        request,
        "history.html",
        table=found,
        snapshots=rows,
        dots=_dots(rows),
        chosen=chosen,
        counts=Counter(each.what for each in compared or ()),
        compared=None if compared is None else compared[:MOST_LISTED],
    )


def _dots(snapshots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the places of snapshots on a line from the oldest to the newest, in percent."""
    moments = [row["committed_at"].timestamp() for row in snapshots]
    first, last = min(moments, default=0.0), max(moments, default=0.0)
    span = last - first or 1.0
    return [{**row, "x": round(100 * (at - first) / span, 2)} for row, at in zip(snapshots, moments, strict=True)]
