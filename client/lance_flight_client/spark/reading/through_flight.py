"""Reading through a server: one task for each endpoint of a query; what fails after its first batch fails the task, and Spark runs it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from lance_flight.errors import InvalidInput
from pyarrow import flight
from pyspark.sql.types import StructType

from lance_flight_client.dataset.balancing import tasks_for
from lance_flight_client.flight.access import ServerAccess, certificates
from lance_flight_client.flight.messages import statement
from lance_flight_client.flight.queries import FlightQuery, ServerEndpoint, ServerPlan, endpoints, said, table_select
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.types import carried_batch, carried_schema, spark_schema

ENDPOINTS = 16
"""Default maximum of the tasks of a read; a small read has fewer."""


def access_of(options: ReadOptions) -> ServerAccess:
    """Return the server and the credentials of the options; `InvalidInput` for a file of certificates that cannot be read."""
    roots = None if options.tls_roots is None else certificates(options.tls_roots)
    return ServerAccess(
        uri=options.uri or "",
        username=options.username,
        password=options.password,
        token=options.token,
        tls_roots=roots,
    )


@dataclass(frozen=True, slots=True)
class FlightPortion:
    """Endpoint for one task."""

    endpoint: ServerEndpoint

    @property
    def schema(self) -> pa.Schema:
        return self.endpoint.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows (`source.Portion`)."""
        carried = carried_schema(self.schema)
        return (carried_batch(batch, carried) for batch in self.endpoint.batches())


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPlan:
    """The answer to a query (`source.ReadPlan`); `sql` asks for the same versions of tables again, where it can say them."""

    query: FlightQuery
    answer: ServerPlan

    @property
    def schema(self) -> StructType:
        return spark_schema(self.answer.schema)

    def portions(self) -> list[FlightPortion]:
        return [FlightPortion(endpoint) for endpoint in endpoints(self.query, self.answer)]


def plan(options: ReadOptions) -> FlightPlan:
    """Have the server plan the read; `ServerError` is what it says instead."""
    access = access_of(options)
    query = FlightQuery(access=access, sql=table_query(options, options.at), asked=options.partitions or ENDPOINTS)
    with closing(access.connect(access.uri)) as client, said(access):
        if options.query is not None:
            _check_query(client, query)
        answer = query.planned_by(client)
        if options.partitions is None and answer.rows is not None and tasks_for(answer.rows, None) < ENDPOINTS:
            # A task costs something before its first row.
            query = replace(query, asked=tasks_for(answer.rows, None))
            # A query of one endpoint is not counted.
            answer = replace(query.planned_by(client), rows=answer.rows)
    if options.table is not None:
        query = replace(query, sql=table_query(options, answer.versions[0]))
    carried_schema(answer.schema)
    return FlightPlan(query=query, answer=answer)


def table_query(options: ReadOptions, at: int | str | datetime | None) -> str:
    """Return the query of the options, for their table at a point of its history.

    >>> table_query(ReadOptions.parse({"uri": "grpc://h:1", "table": "t", "columns": "a"}), 3)
    'SELECT "a" FROM "public"."t@3"'
    """
    if options.table is None:
        return options.query or ""
    return table_select(options.table.db_schema, options.table.name, at, options.columns, options.filter)


def _check_query(client: flight.FlightClient, query: FlightQuery) -> None:
    """Refuse a statement that returns no rows before it is run: asking for its endpoints would run it."""
    schema = client.get_schema(statement(query.sql), query.access.call(client)).schema
    if not schema.names:
        raise InvalidInput(f"query {query.sql!r} returns no rows; expected one that does")
