"""Pages of the console: logging in, tables, the partition map, the editor, and what the server does now."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.errors import DataError
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response

from lance_flight_client.adbc import Credentials
from lance_flight_client.console import tables
from lance_flight_client.console.answering import (
    CHANGE_HEADER,
    MOST_LISTED,
    MOST_REQUESTS,
    NOT_LET_IN,
    InvalidRequest,
    Login,
    login_of,
    no_table,
    page,
    pages_of,
    path_of,
    query_of,
    show,
    table_page,
    whole_number,
)
from lance_flight_client.console.exploring import (
    LONGEST_FACET,
    SUMMARY_ROWS,
    ColumnSummary,
    InvalidSelection,
    SearchForm,
    ShownRows,
    kinds_of,
    rows_of_preview,
    searched_columns,
    summarize,
)
from lance_flight_client.console.partitions import (
    COLOURS,
    FILLS,
    CountedLayout,
    PartitionGrid,
    address_of_rows,
    candidates,
    details_of,
    fields_of_spec,
    fields_of_text,
    partitions_under,
)
from lance_flight_client.console.partitions import MOST_PARTITIONS as MOST_LAID_OUT
from lance_flight_client.console.queries import ConsoleQuery, TooManyQueries, operators_of, plan_of, slowest
from lance_flight_client.console.tables import (
    OWN,
    ConsoleServer,
    ConsoleSnapshot,
    ConsoleTable,
    PartitionDifference,
    changed_rows,
    differences,
    fields_of,
    history_of,
    list_rows,
    order_of,
)
from lance_flight_client.errors import ServerError
from lance_flight_client.files.writing import write_file
from lance_flight_client.output import for_spreadsheets
from lance_flight_client.parameters import text_literal


@page
def activity(request: Request, server: ConsoleServer) -> Response:
    """Show the page of what runs, what ended, and sessions, which come by themselves."""
    return show(request, "activity.html")


@page
def activity_rows(request: Request, server: ConsoleServer) -> Response:
    """Return the tables of the page, as they are now."""
    return show(request, "activity_rows.html", **_activity(server))


USERS = f"kind <> 'prepare' AND sql NOT LIKE '{OWN}%'"
"""The condition of statements that users have run, and not the console for its pages."""


def _activity(server: ConsoleServer) -> dict[str, Any]:
    shown = {
        "running": f"SELECT * FROM system.queries WHERE {USERS} ORDER BY began DESC LIMIT 100",
        "ended": f"SELECT * FROM system.statements WHERE {USERS} ORDER BY began DESC LIMIT 200",
        "sessions": "SELECT * FROM system.sessions ORDER BY began DESC LIMIT 100",
    }
    found = {name: server.rows(sql).to_pylist() for name, sql in shown.items()}
    return {"problem": None, "writes": server.writes, **found}


@page
def kill(request: Request, server: ConsoleServer) -> Response:
    """Cancel a statement of the server."""
    number = request.path_params["statement"]
    problem = None
    try:
        with server.answer(f"{OWN}KILL {text_literal(number)}"):
            pass
    except ServerError as exc:
        problem = str(exc)
    return show(request, "activity_rows.html", **_activity(server) | {"problem": problem})


_MOST_FIELDS = 10


def login_page(request: Request) -> Response:
    """Ask who is there, of a browser that was let in."""
    if login_of(request) is None:
        return pages_of(request).refuse_browser(request)
    return show(request, "login.html", problem=None, user="")


async def login(request: Request) -> Response:
    """Take a user with a password, or a token."""
    pages, mine = pages_of(request), login_of(request)
    if mine is None:
        return pages.refuse_browser(request)
    body = (await request.body()).decode(errors="replace")
    try:
        given = {name: values[0] for name, values in parse_qs(body, max_num_fields=_MOST_FIELDS).items()}
    except ValueError:
        return pages.problem(request, 400, "the form has too many fields")
    user, token = given.get("user"), given.get("token")
    credentials = Credentials(token=token) if token else Credentials(user=user, password=given.get("password", ""))
    if not mine.requests.acquire(blocking=False):
        return pages.problem(request, 429, f"{MOST_REQUESTS} requests of this browser are under way")
    try:
        await run_in_threadpool(pages.logins.authenticate, mine, credentials)
    except ServerError as exc:
        return pages.show(request, "login.html", 403, problem=str(exc), user=user or "")
    finally:
        mine.requests.release()
    return RedirectResponse("/", 303)


def logout(request: Request) -> Response:
    """Forget this browser."""
    pages = pages_of(request)
    pages.logins.leave(request.cookies.get(pages.cookie))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(pages.cookie, path="/")
    return answer


@table_page
def partition_map(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Show the partition map, with the partitions greyed that a condition leaves out."""
    return show(request, "map.html", table=table, **_map(request, server, table))


@table_page
def map_picture(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return the map alone, for the page that is open."""
    shown = show(request, "picture.html", table=table, **_map(request, server, table))
    given = {name: value for name, value in request.query_params.items() if value}
    # The address of the page shows what is looked at: it can be given to others, and come back to.
    shown.headers["HX-Replace-Url"] = f"{path_of(request).removesuffix('/picture')}?{urlencode(given)}"
    return shown


@table_page
def map_svg(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return the map as a picture of its own."""
    values = _map(request, server, table)
    if values["grid"] is None or values["problem"]:
        raise InvalidRequest(values["problem"])
    shown = show(request, "map.svg", **values | {"fills": FILLS})
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
        "parameters": urlencode([(name, value) for name, value in given.items() if value]),
        "most": MOST_PARTITIONS,
        "colours": COLOURS,
        "colour": given.get("colour", COLOURS[0]),
        "fills": None,
        "problem": None,
        "reasons": [],
        "grid": None,
        "opens": None,
        "spec": None,
        "specs": [],
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
    return values | {
        "grid": grid,
        "shown": shown,
        "lit": read,
        "opens": urlencode(
            {
                name: value
                for name, value in [("at", version), ("spec", spec), ("down", grid.down), ("across", grid.across)]
                if value
            }
        ),
        "colour": grid.colour,
        "spec": spec,
        "specs": specs,
        "total": partitions.num_rows,
        "read": partitions.num_rows if read is None else len(read),
    }


@table_page
def map_listing(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return the partitions of the map as a table, in the order of the map."""
    values = _map(request, server, table)
    if values["grid"] is None:
        raise InvalidRequest(values["problem"])
    grid, at = values["grid"], whole_number(request, "at")
    axes = [name for name in (grid.down, grid.across) if name]
    rows = sorted(values["shown"].to_pylist(), key=lambda row: order_of(row[name] for name in axes))[:MOST_PARTITIONS]
    kinds, fields = kinds_of(server, table), fields_of_spec(server, table, values["spec"])
    members = [
        (
            row,
            values["lit"] is None or row["object_id"] in values["lit"],
            address_of_rows(table, kinds, fields, row, at),
        )
        for row in rows
    ]
    return show(
        request,
        "partition_rows.html",
        **values | {"members": members, "fields": grid.fields, "total": len(members), "object_id": None},
        is_lit=True,
        base=path_of(request).removesuffix("/map/listing"),
    )


@table_page
def partition(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Show a partition, or those of a cell of the map, with links to their rows."""
    if table.is_view or not table.is_partitioned:
        return no_table(request)
    given, at = request.query_params, whole_number(request, "at")
    snapshot = tables.snapshot_of(server, table, at)
    partitions = tables.partitions_at(server, table, snapshot)
    if "of" in given:
        found = partitions.filter(pc.equal(partitions["object_id"], given["of"]))
    else:
        of_spec = partitions.filter(pc.equal(partitions["spec_id"], whole_number(request, "spec") or 0))
        row, column = (whole_number(request, name) or 0 for name in ("row", "column"))
        found = PartitionGrid.members(of_spec, given.get("down"), given.get("across"), row, column)
    if not found.num_rows:
        return pages_of(request).problem(request, 404, "There is no such partition in this snapshot.")
    rows = found.slice(0, MOST_LISTED).to_pylist()
    fields, kinds = fields_of_spec(server, table, rows[0]["spec_id"]), kinds_of(server, table)
    shown = [name for name in fields_of(found) if found[name].null_count < found.num_rows or found.num_rows == 1]
    values = ", ".join(f"{name} = {'NULL' if rows[0][name] is None else rows[0][name]}" for name in shown)
    is_one = found.num_rows == 1
    return show(
        request,
        "partition.html",
        table=table,
        title=values or "The whole table" if is_one else f"{found.num_rows:,} partitions",
        version=snapshot.version,
        at="" if at is None else str(at),
        fields=shown,
        members=[(row, None, address_of_rows(table, kinds, fields, row, at)) for row in rows],
        is_lit=False,
        base=path_of(request).removesuffix("/partition"),
        total=found.num_rows,
        object_id=rows[0]["object_id"] if is_one else None,
    )


@table_page
def partition_details(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return the files of a partition, and the snapshots that changed it."""
    details = details_of(server, table, request.query_params.get("of", ""), whole_number(request, "at"))
    return show(request, "partition_details.html", details=details)


@table_page
def layout(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Show how the rows of a table would lie under other partition fields."""
    if table.is_view:
        return no_table(request)
    by = request.query_params.get("by", "").strip()
    values: dict[str, Any] = dict.fromkeys(("wanted", "now", "grid", "problem"))
    if by:
        try:
            fields = fields_of_text(by, kinds_of(server, table))
            sizes = tables.summary_of(server, table)
            found = partitions_under(server, table, fields, (sizes.size or 0) / max(sizes.rows or 0, 1))
            now = pa.chunked_array([[sizes.rows or 0]])
            if table.is_partitioned:
                now = tables.partitions_at(server, table, tables.snapshot_of(server, table))["rows"]
            is_over = found.num_rows > MOST_LAID_OUT
            values |= {
                "wanted": CountedLayout(fields=by) if is_over else CountedLayout.of(by, found["rows"]),
                "now": CountedLayout.of("as now", now),
                "grid": None if is_over or not found.num_rows else PartitionGrid.of(found),
            }
        except (InvalidSelection, ServerError) as exc:
            values["problem"] = str(exc)
    return show(request, "layout.html", table=table, by=by, fills=None, **values)


@table_page
def layout_candidates(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return layouts that a table may have, with what each makes of its rows."""
    if table.is_view:
        return no_table(request)
    found = candidates(server, table, kinds_of(server, table))
    return show(request, "layouts.html", layouts=found, links=path_of(request).removesuffix("/candidates"))


_MOST_PAST = 100
_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "arrow": "application/vnd.apache.arrow.file"}


@page
def query_page(request: Request, server: ConsoleServer) -> Response:
    """Show the editor; its SQL is in the fragment of the address, which no server sees."""
    columns = server.rows(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns"
        " WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name, ordinal_position"
    )
    names: dict[str, list[str]] = {}
    for row in columns.to_pylist():
        label = ConsoleTable(row["table_schema"], row["table_name"]).label
        names.setdefault(label, []).append(row["column_name"])
    return show(request, "query.html", names=names, limits=server.limits, writes=server.writes)


async def begin_query(request: Request) -> Response:
    """Begin a query, and return its id."""
    pages, mine = pages_of(request), login_of(request)
    if mine is None or mine.server is None or CHANGE_HEADER not in request.headers:
        return JSONResponse({"error": NOT_LET_IN}, 403)
    try:
        query = await query_of(request)
        return JSONResponse({"id": mine.queries.begin(mine.server, query)}, 202)
    except InvalidRequest as exc:
        return pages.problem(request, 400, str(exc))
    except TooManyQueries as exc:
        return pages.problem(request, 429, str(exc))


@page
def query_state(request: Request, server: ConsoleServer) -> Response:
    """Return the rows of a query beyond those that the page has."""
    query = _query(request)
    if query is None:
        return _no_query(request)
    return JSONResponse(query.state(whole_number(request, "after") or 0))


@page
def query_operators(request: Request, server: ConsoleServer) -> Response:
    """Return the operators of a query that is measured, as far as they have come."""
    query = _query(request)
    if query is None:
        return _no_query(request)
    roots = operators_of(server, query)
    return show(request, "operators.html", roots=roots, slowest=slowest(roots))


@page
def query_plan(request: Request, server: ConsoleServer) -> Response:
    """Return the plan that a query has explained: its tables with their maps, the reasons, and the operators."""
    query = _query(request)
    if query is None or query.view is None or query.error or query.seconds is None:
        return _no_query(request)
    return show(request, "plan.html", fills=None, plan=plan_of(server, query))


@page
def query_value(request: Request, server: ConsoleServer) -> Response:
    """Return one value of a query in full."""
    query = _query(request)
    row, column = whole_number(request, "row"), whole_number(request, "column")
    text = None if query is None or row is None or column is None else query.value(row, column)
    if text is None:
        raise InvalidRequest(f"row {row}, column {column} is not kept in full: it is larger than a viewer shows")
    return JSONResponse({"text": text})


@page
def query_cancel(request: Request, server: ConsoleServer) -> Response:
    """Cancel a query."""
    query = _query(request)
    if query is None:
        return _no_query(request)
    query.cancel()
    return JSONResponse({}, 202)


@page
def query_download(request: Request, server: ConsoleServer) -> Response:
    """Run a query again, and return all of its rows as a file; it changes nothing, whatever the console may do."""
    query, kind = _query(request), request.path_params["format"]
    if query is None or kind not in _TYPES:
        return _no_query(request)
    mine: Login = request.scope["state"]["login"]
    if not mine.downloads.acquire(blocking=False):
        return pages_of(request).problem(
            request, 429, "Another download of this browser is being made: try it after that."
        )
    handle, path = tempfile.mkstemp(suffix=f".{kind}")
    os.close(handle)
    try:
        _write_rows(server, query, path, kind)
    except DataError as exc:
        Path(path).unlink()
        raise InvalidRequest(f"{str(exc)[0].upper()}{str(exc)[1:]}.") from exc
    except BaseException:
        Path(path).unlink()
        raise
    finally:
        mine.downloads.release()
    return FileResponse(
        path, media_type=_TYPES[kind], filename=f"query.{kind}", background=BackgroundTask(Path(path).unlink)
    )


def _write_rows(server: ConsoleServer, query: ConsoleQuery, path: str, kind: str) -> None:
    with query.answer(server, writes=False) as answer:
        if not len(answer.schema):
            raise InvalidRequest("The statement has no rows to download.")
        found = answer.schema, answer.batches
        write_file(path, kind, *(for_spreadsheets(*found) if kind == "csv" else found))


@page
def functions(request: Request, server: ConsoleServer) -> Response:
    """Return the functions of SQL with how they are called, for the editor."""
    found = server.rows("SHOW FUNCTIONS").to_pylist()
    known = [
        {"name": row["function_name"], "call": row["syntax_example"] or "", "about": (row["description"] or "")[:300]}
        for row in found
    ]
    return JSONResponse(known, headers={"Cache-Control": "private, max-age=3600"})


@page
def query_history(request: Request, server: ConsoleServer) -> Response:
    """Return the statements that this user has run, the newest first, each once."""
    found = server.rows(
        f"SELECT sql, outcome, began FROM system.statements WHERE {USERS} AND principal = current_user"
        f" ORDER BY began DESC LIMIT {MOST_LISTED}"
    ).to_pylist()
    newest = {row["sql"]: row for row in reversed(found)}
    ordered = sorted(newest.values(), key=lambda row: row["began"], reverse=True)
    return JSONResponse([{**row, "began": f"{row['began']:%Y-%m-%d %H:%M}"} for row in ordered[:_MOST_PAST]])


def _no_query(request: Request) -> Response:
    return pages_of(request).problem(request, 404, "There is no such query any more: run it again.")


def _query(request: Request) -> Any:
    login: Login = request.scope["state"]["login"]
    return login.queries.find(request.path_params["query"])


MOST_PARTITIONS = 1_000


@page
def home(request: Request, server: ConsoleServer) -> Response:
    """List the tables; their sizes come one by one."""
    return show(request, "tables.html", tables=tables.tables_of(server))


@table_page
def summary(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return the row of one table in the list of all."""
    return show(request, "summary.html", table=table, summary=tables.summary_of(server, table))


@table_page
def columns(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Show the columns of a table, and what there is of it."""
    return show(
        request,
        "table.html",
        table=table,
        columns=list_rows(server, f"DESCRIBE {table.sql()}"),
        definition=tables.definition_of(server, table),
    )


@table_page
def parts(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return the indexes, tags and branches of a table."""
    kinds = ("indexes", "tags", "branches") if table.is_partitioned else ("indexes", "tags")
    found = [(kind.capitalize(), list_rows(server, f"SELECT * FROM {table.sql(metadata=kind)}"), "") for kind in kinds]
    return show(request, "listings.html", listings=[listing for listing in found if listing[1][1]])


@table_page
def table_rows(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Show rows of a table, those that an address selects, and the query that does so."""
    selection = _selection(request, server, table)
    return show(
        request,
        "rows.html",
        table=table,
        selection=selection,
        definition=tables.definition_of(server, table) if table.is_view else None,
    )


@table_page
def rows_summary(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return what the columns of the selected rows have."""
    selection = _selection(request, server, table)
    problem, read, columns = None, 0, list[ColumnSummary]()
    try:
        read, columns = summarize(server, selection)
    except ServerError as exc:
        problem = str(exc)
    return show(
        request,
        "rows_summary.html",
        base=path_of(request).removesuffix("/summary"),
        selection=selection,
        read=read,
        columns=columns,
        problem=problem,
        most=SUMMARY_ROWS,
        longest=LONGEST_FACET,
    )


def _selection(request: Request, server: ConsoleServer, table: ConsoleTable) -> ShownRows:
    try:
        return ShownRows.of(table, kinds_of(server, table), request.query_params, whole_number(request, "at"))
    except InvalidSelection as exc:
        raise InvalidRequest(str(exc)) from exc


@table_page
def search(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Show the rows that a search of a table finds, and its query."""
    kinds = kinds_of(server, table)
    texts, vectors = searched_columns(kinds)
    wanted = SearchForm.of(table, kinds, request.query_params, whole_number(request, "weight"))
    return show(request, "search.html", table=table, search=wanted, texts=texts, vectors=vectors)


@page
def operations(request: Request, server: ConsoleServer) -> Response:
    """Show the backlog of the tables, and what administrators look at; each listing comes by itself."""
    return show(request, "operations.html", **_operations(server))


@table_page
def backlog(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Return the row of one table in the list of what maintenance may do."""
    found = tables.backlog_of(server, table)
    return show(request, "backlog.html", table=table, backlog=found, writes=server.writes)


LISTINGS = {
    "now": (
        f"SELECT state, count(*) AS statements FROM system.queries WHERE {USERS} GROUP BY state ORDER BY state",
        "No statement runs.",
    ),
    "servers": (
        f"SELECT * EXCEPT (id, statements) FROM system.servers ORDER BY began LIMIT {MOST_LISTED}",
        "Only administrators see the servers and their memory.",
    ),
    "maintenance": (
        f"SELECT * FROM system.maintenance ORDER BY began DESC LIMIT {MOST_LISTED}",
        "Nothing has been maintained, or only administrators see it.",
    ),
    "quotas": (f"SELECT * FROM system.quotas LIMIT {MOST_LISTED}", "No quota bounds you."),
    "audit": (
        f"SELECT time, event, decision, principal, action, object, reason, error, client FROM system.audit ORDER BY time DESC LIMIT {MOST_LISTED}",
        "Nothing is audited: serve --audit-log FILE does it, and only administrators see it.",
    ),
}
"""Listings of the operations page: their query, and what is said where it has no rows."""
_MAINTENANCE = {"compact": "ALTER TABLE {} COMPACT", "reindex": "REINDEX {}", "vacuum": "VACUUM {}"}


@table_page
def maintain(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Run maintenance of a table, as the user, whom the server may refuse."""
    kind = request.path_params["kind"]
    if kind not in _MAINTENANCE:
        return no_table(request)
    said = {"done": f"{kind.capitalize()} of {table.label} is done.", "problem": None}
    try:
        with server.answer(f"{OWN}{_MAINTENANCE[kind].format(table.sql())}") as answer:
            for _ in answer.batches:
                pass
    except ServerError as exc:
        said = {"done": None, "problem": str(exc)}
    return show(request, "operations_rows.html", **_operations(server) | said)


def _operations(server: ConsoleServer) -> dict[str, Any]:
    shown = [table for table in tables.tables_of(server)[:MOST_LISTED] if not table.is_view]
    return {"problem": None, "done": None, "writes": server.writes, "tables": shown, "listings": [*LISTINGS]}


@page
def operations_listing(request: Request, server: ConsoleServer) -> Response:
    """Return one of the listings of the page."""
    name = request.path_params["listing"]
    if name not in LISTINGS:
        raise InvalidRequest(f"listing is {name[:40]!r}; expected one of {', '.join(LISTINGS)}")
    sql, missing = LISTINGS[name]
    return show(request, "listings.html", listings=[(name.capitalize(), list_rows(server, sql), missing)])


@table_page
def history(request: Request, server: ConsoleServer, table: ConsoleTable) -> Response:
    """Show the snapshots of a table with its branches and tags, and what differs between two of them."""
    lanes = history_of(server, table)
    wanted = [whole_number(request, name) for name in ("a", "b")]
    chosen = [] if table.is_view else sorted({version for version in wanted if version is not None})
    are_two = len(chosen) == 2  # noqa: PLR2004 - two snapshots
    most = rows_of_preview(kinds_of(server, table)) if are_two else 0
    compared: list[PartitionDifference] | None = None
    if are_two and table.is_partitioned:
        moments = {dot.version: dot.committed for dot in lanes[0].dots}
        compared = differences(
            *(tables.partitions_at(server, table, ConsoleSnapshot(version, moments.get(version))) for version in chosen)
        )
    return show(
        request,
        "history.html",
        table=table,
        lanes=lanes,
        snapshots=list(reversed(lanes[0].dots)),
        chosen=chosen,
        changes=changed_rows(table, *chosen, most=most) if are_two else None,
        most=most,
        counts=Counter(difference.what for difference in compared or ()),
        compared=None if compared is None else compared[:MOST_LISTED],
        grown=max(
            (each for each in compared or () if each.difference > 0), key=lambda each: each.difference, default=None
        ),
    )
