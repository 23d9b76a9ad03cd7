"""Operations on the views of a schema, as LanceDB's clients know them: they are those of SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_flight.engine.sql.references import text_literal
from lance_flight.errors import NotFound
from lance_flight.flight.backend import VIEW
from lance_flight.model.arrow_json import schema_to_json
from lance_flight.rest.call import RestAnswer, RestCall
from lance_flight.rest.names import namespace_of, schema_of

DATABASE = "x-lancedb-database"
"""Header with the name that a client gave to the database."""


def create_view(call: RestCall) -> RestAnswer:
    """Create a view of a query, in which names without a schema are those of the root."""
    call.run(f"CREATE VIEW {call.newest.sql} AS {call.value('query', str)}")
    return describe_view(call)


def describe_view(call: RestCall) -> RestAnswer:
    """Return the query of a view, and its columns."""
    view = call.newest
    condition = f"table_schema = {text_literal(view.db_schema)} AND table_name = {text_literal(view.name)}"
    found = call.rows(f"SELECT view_definition FROM information_schema.views WHERE {condition}")  # noqa: S608 - literals
    if not found.num_rows:
        raise NotFound.named("view", view.name, _names(call, view.db_schema))
    said: dict[str, Any] = {
        "name": view.name,
        "namespace": list(namespace_of(view.db_schema)),
        "query": found.column(0)[0].as_py(),
        "default_database": call.headers.get(DATABASE, ""),
        "default_namespace": [],
        "schema": schema_to_json(_without_metadata(call.describe(view)[0])),
    }
    return RestAnswer(said)


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema])


def _names(call: RestCall, db_schema: str) -> list[str]:
    entries = call.backend.tables(call.caller)
    return [entry.name for entry in entries if entry.type == VIEW and entry.db_schema == db_schema]


def list_views(call: RestCall) -> RestAnswer:
    """List the views of a schema."""
    found, token = call.page(_names(call, schema_of(call.parts)))
    return RestAnswer({"views": found} | ({} if token is None else {"page_token": token}))


def drop_view(call: RestCall) -> RestAnswer:
    """Drop a view."""
    call.run(f"DROP VIEW {call.newest.sql}")
    return RestAnswer({})
