"""Tools that give an assistant the tables of a server, by the Model Context Protocol (extra `mcp`).

Each call is a session of its own on the server, with the rights of its caller. It reads only unless writes are allowed, and is
bounded in time, rows and characters. Names are quoted and values are bound.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pyarrow as pa
import uvicorn
from lance_flight.model.type_names import type_name
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from pydantic import Field
from starlette.responses import PlainTextResponse

from lance_flight_client.adbc import NOBODY, Credentials, StatementAnswer
from lance_flight_client.console.queries import shown_texts
from lance_flight_client.console.tables import ConsoleLimits, ConsoleServer
from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import Parameters, quote_name, text_literal

_STEP = 100
"""Rows that are made into text at once."""
_VALUE = 8
"""Characters that a value counts besides its text."""
_LARGEST_REQUEST = 1 << 20
_MOST_HITS = 1_000
_INSTRUCTIONS = """\
The tools read the tables of one lance-flight server in SQL (DataFusion's, close to PostgreSQL's).
Call list_tables and describe_table before you write a query. A condition on a partition column makes a query read less:
explain says how many partitions it reads. Name the columns that you need, aggregate on the server, and use LIMIT:
results are cut after some rows. Answers have values as text; NULL is null."""

Table = Annotated[str, Field(description="name of a table, as list_tables gives it: flights, or schema.flights")]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Server and limits of the tools: rows and characters of an answer, seconds of a statement, and whether statements may change tables.

    With `is_shared` each caller has the token of its HTTP request; otherwise all have the `credentials`.
    """

    uri: str
    credentials: Credentials = NOBODY
    is_shared: bool = False
    most_rows: int = 200
    most_characters: int = 100_000
    seconds: float = 30.0
    writes: bool = False


class Tools:
    """Tools of an assistant, each of which answers with a JSON document."""

    def __init__(self, options: McpOptions) -> None:
        self._options = options

    def list_tables(
        self,
        context: Context,
        db_schema: Annotated[str | None, Field(description="only tables of this schema")] = None,
    ) -> str:
        """List the tables and views that the caller may read, with their schemas and comments."""
        bound = Parameters()
        chosen = "" if db_schema is None else f" AND {bound.condition('table_schema', db_schema)}"
        sql = (
            "SELECT table_schema, table_name, table_type, table_comment, partitioned FROM information_schema.tables"  # noqa: S608 - values are bound
            f" WHERE table_schema NOT IN ('information_schema', 'system'){chosen} ORDER BY table_schema, table_name"
        )
        return self._ask(context, sql, bound)

    def describe_table(self, context: Context, table: Table) -> str:
        """Describe a table: its columns with types and comments, how it is partitioned, and its indices."""
        name = _quoted_table(table)
        parts = {
            "columns": f"DESCRIBE {name}",
            "definition": f"SHOW CREATE TABLE {name}",
            "indices": f"SHOW INDEXES FROM {name}",
        }
        return json.dumps(
            {part: json.loads(self._ask(context, sql)) for part, sql in parts.items()}, ensure_ascii=False
        )

    def query(
        self,
        context: Context,
        sql: Annotated[str, Field(description="one SQL statement; values may stand in parameters as $1, $2 …")],
        parameters: Annotated[
            list[str | int | float | bool | None] | None, Field(description="values of $1, $2 … in their order")
        ] = None,
    ) -> str:
        """Run one SQL statement and return its rows. The result is cut after some rows, and says so."""
        bound = Parameters()
        for value in parameters or []:
            bound.add(value)
        return self._ask(context, sql, bound)

    def explain(self, context: Context, sql: Annotated[str, Field(description="a query, without EXPLAIN")]) -> str:
        """Plan a query without running it: its operators, and how many partitions of each table it reads, and why."""
        return self._ask(context, f"EXPLAIN {sql}")

    def search(
        self,
        context: Context,
        table: Table,
        *,
        text: Annotated[str | None, Field(description="words to find in text_column")] = None,
        text_column: Annotated[str | None, Field(description="column with a full-text index")] = None,
        vector: Annotated[list[float] | None, Field(description="vector to be near to, of the column's length")] = None,
        vector_column: Annotated[str | None, Field(description="column of vectors")] = None,
        k: Annotated[int, Field(description="most rows that are found", ge=1, le=_MOST_HITS)] = 10,
        where: Annotated[str | None, Field(description="SQL condition on the rows that are searched")] = None,
        columns: Annotated[
            list[str] | None, Field(description="columns to return; all but the vectors if null")
        ] = None,
    ) -> str:
        """Find rows by text, by a vector, or by both, best first: the server has search functions for each."""
        if (text is None) != (text_column is None) or (vector is None) != (vector_column is None):
            raise ToolError("text goes with text_column, and vector with vector_column; expected both of a pair")
        bound = Parameters()
        by_vector = (
            [] if vector is None else [text_literal(str(vector_column)), bound.add(vector, pa.list_(pa.float32()))]
        )
        by_text = [] if text is None else [text_literal(str(text_column)), bound.add(text)]
        function = _FUNCTIONS.get((bool(by_vector), bool(by_text)))
        if function is None:
            raise ToolError("nothing to search for; expected text, a vector, or both")
        found = [text_literal(table), *by_vector, *by_text, f"k => {k}"]
        if where is not None:
            found.append(f"filter => {bound.add(where)}")
        without = "" if vector_column is None else f" EXCLUDE ({quote_name(vector_column)})"
        selected = f"*{without}" if columns is None else ", ".join(map(quote_name, columns))
        return self._ask(context, f"SELECT {selected} FROM {function}({', '.join(found)})", bound)  # noqa: S608 - names are quoted

    def _ask(self, context: Context, sql: str, bound: Parameters | None = None) -> str:
        options = self._options
        credentials = _credentials_of(context, options) if options.is_shared else options.credentials
        server = ConsoleServer(
            options.uri, credentials, ConsoleLimits(options.most_rows, options.seconds), writes=options.writes
        )
        try:
            with server.answer(sql, parameters=None if bound is None else bound.row) as answer:
                return show_answer(answer, options)
        except ServerError as exc:
            raise ToolError(str(exc)) from exc


_FUNCTIONS = {(True, True): "hybrid_search", (True, False): "vector_search", (False, True): "full_text_search"}


def server_of(options: McpOptions) -> MCPServer:
    """Return a server of the protocol with the tools."""
    server, tools = MCPServer("lance-flight", instructions=_INSTRUCTIONS, log_level="WARNING"), Tools(options)
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    changing = ToolAnnotations(read_only_hint=not options.writes, open_world_hint=False)
    for tool in (tools.list_tables, tools.describe_table, tools.explain, tools.search):
        server.add_tool(tool, annotations=reading, structured_output=False)
    server.add_tool(tools.query, annotations=changing, structured_output=False)
    return server


def show_answer(answer: StatementAnswer, options: McpOptions) -> str:
    """Return an answer as JSON: its columns, its rows as texts up to the limits, and what was left out."""
    if not len(answer.schema):
        return json.dumps({"affected_rows": answer.affected})
    rows: list[Sequence[str | None]] = []
    left, more = options.most_characters, {}
    for row in _text_rows(answer):
        left -= sum(_VALUE + len(text or "") for text in row)
        if left < 0 or len(rows) == options.most_rows:
            more = {
                "note": f"cut after {len(rows)} rows; expected fewer columns, a narrower condition, or an aggregate"
            }
            break
        rows.append(row)
    columns = [f"{field.name} {type_name(field.type)}" for field in answer.schema]
    return json.dumps({"columns": columns, "rows": rows, **more}, ensure_ascii=False)


def _text_rows(answer: StatementAnswer) -> Iterator[Sequence[str | None]]:
    for batch in answer.batches:
        for start in range(0, batch.num_rows, _STEP):
            columns = [shown_texts(column) for column in batch.slice(start, _STEP).columns]
            yield from zip(*columns, strict=True)


def _credentials_of(context: Context, options: McpOptions) -> Credentials:
    """Return the token of an HTTP request as credentials, never those of the command itself."""
    header = (context.headers or {}).get("authorization", "")
    scheme, _, token = header.partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else ""
    return Credentials(token=given or None, tls_ca=options.credentials.tls_ca)


def _quoted_table(table: str) -> str:
    return ".".join(quote_name(part) for part in table.split(".", 1))


class _BearerNeeded:
    """Refuses requests without a bearer token, before anything of them is read."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers") or ())
        if scope["type"] == "http" and not headers.get(b"authorization", b"").lower().startswith(b"bearer "):
            told = {"www-authenticate": "Bearer"}
            refusal = PlainTextResponse("expected a token of the lance-flight server", 401, told)
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def serve_http(
    options: McpOptions,
    *,
    host: str,
    port: int,
    hosts: Sequence[str] = (),
    needs_token: bool = True,
    certificate: str | None = None,
    key: str | None = None,
    started: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve the tools at /mcp until a signal; each request stands for itself, with the token of its caller.

    `hosts` are the names that clients call the address by; `started` is called with the port.
    """
    named = [f"{name}{port}" for name in ("127.0.0.1", "localhost", "[::1]", *hosts) for port in ("", ":*")]
    security = TransportSecuritySettings(
        allowed_hosts=named, allowed_origins=[f"{scheme}://{name}" for name in named for scheme in ("http", "https")]
    )
    app: Any = server_of(replace(options, is_shared=True)).streamable_http_app(
        stateless_http=True,
        json_response=True,
        max_request_body_size=_LARGEST_REQUEST,
        host=host,
        transport_security=security,
    )
    config = uvicorn.Config(
        _BearerNeeded(app) if needs_token else app,
        host=host,
        port=port,
        log_level="warning",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        limit_concurrency=256,
    )
    served = _Announced(config, started)
    served.run()
    if not served.started:
        raise OSError(f"cannot listen on {host}, port {port}")


class _Announced(uvicorn.Server):
    """Server that says its port once it listens, and ends quietly by a signal."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[int], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce(self.servers[0].sockets[0].getsockname()[1])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal; uvicorn's own would raise it again at the end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield
