"""Pages of the partition map."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from lance_flight_client.console import tables
from lance_flight_client.console.pages.answering import (
    MOST_LISTED,
    InvalidRequest,
    no_table,
    page,
    pages_of,
    path_of,
    table_of,
    whole_number,
)
from lance_flight_client.console.partition_grid import COLOURS, FILLS, PartitionGrid
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleTable
from lance_flight_client.errors import ServerError


@page
def partition_map(request: Request, server: ConsoleServer) -> Response:
    """Show the partition map, with the partitions greyed that a condition leaves out."""
    found = table_of(request, server)
    if found is None:
        return no_table(request)
    return pages_of(request).show(request, "map.html", table=found, **_map(request, server, found))


@page
def map_picture(request: Request, server: ConsoleServer) -> Response:
    """Return the map alone, for the page that is open."""
    found = table_of(request, server)
    if found is None:
        return no_table(request)
    shown = pages_of(request).show(request, "picture.html", table=found, **_map(request, server, found))
    given = {name: value for name, value in request.query_params.items() if value}
    # The address of the page shows what is looked at: it can be given to others, and come back to.
    shown.headers["HX-Replace-Url"] = f"{path_of(request).removesuffix('/picture')}?{urlencode(given)}"
    return shown


@page
def map_svg(request: Request, server: ConsoleServer) -> Response:
    """Return the map as a picture of its own."""
    found = table_of(request, server)
    if found is None:
        return no_table(request)
    values = _map(request, server, found)
    if values["grid"] is None or values["problem"]:
        raise InvalidRequest(values["problem"])
    shown = pages_of(request).show(request, "map.svg", **values | {"fills": FILLS})
    return Response(shown.body, media_type="image/svg+xml")


def _map(request: Request, server: ConsoleServer, table: ConsoleTable) -> dict[str, Any]:
    given = request.query_params
    where, at, wanted = given.get("where", "").strip(), whole_number(request, "at"), whole_number(request, "spec")
    snapshot = tables.snapshot_of(server, table, at)
    version = snapshot.version
    values: dict[str, Any] = {
        "where": where,
        "version": version,
        "committed": snapshot.committed,
        "at": "" if at is None else str(at),
        "newest": urlencode({name: value for name, value in given.items() if value and name != "at"}),
        "colours": COLOURS,
        "colour": given.get("colour", COLOURS[0]),
        "fills": None,
        "problem": None,
        "reasons": [],
        "grid": None,
        "spec": None,
        "specs": [],
        "listed": [],
    }
    if not table.is_partitioned or table.is_view:
        return values | {"problem": f"{table.label} has no partitions: every query reads it whole."}
    partitions = tables.partitions_at(server, table, snapshot)
    if not partitions.num_rows:
        return values | {"problem": f"{table.label} has no partitions yet: they come with its first rows."}
    read = None
    if where:
        try:
            read, reasons = tables.read_by(server, table, version, where)
            values["reasons"] = reasons
        except ServerError as exc:
            # The names of columns come with that of the snapshot, which nobody has written.
            values["problem"] = str(exc).replace(f'{table.db_schema}."{table.name}@{version}".', "")
    specs = sorted(set(partitions["spec_id"].to_pylist()))
    spec = specs[-1] if wanted is None else wanted
    if spec not in specs:
        raise InvalidRequest(f"spec is {spec} in the address; expected one of {', '.join(map(str, specs))}")
    shown = partitions.filter(pc.equal(partitions["spec_id"], spec))
    grid = PartitionGrid.of(
        shown, read=read, down=given.get("down"), across=given.get("across"), colour=values["colour"]
    )
    rows = shown.slice(0, MOST_LISTED).to_pylist()
    return values | {
        "grid": grid,
        "colour": grid.colour,
        "spec": spec,
        "specs": specs,
        "total": partitions.num_rows,
        "read": partitions.num_rows if read is None else len(read),
        "listed": [(row, read is None or row["object_id"] in read) for row in rows],
    }
