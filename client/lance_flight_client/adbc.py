"""Connecting to a server over ADBC.

Everything here is plain `adbc_driver_flightsql`; an application needs nothing of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from lance_flight_client.errors import ServerError

PARTITION_BY = "adbc.flight.sql.rpc.call_header.lance-flight-partition-by"
"""The driver sends no ingest options, but any header: this one partitions the table that an ingest creates."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement returned: rows, or how many it affected (−1: unknown)."""

    rows: pa.Table | None
    affected: int


def connect(uri: str) -> dbapi.Connection:
    """An ADBC connection to the server at `uri` (`grpc://host:port`), with autocommit on; `ServerError` if there is none."""
    try:
        return dbapi.connect(uri, autocommit=True)
    except Error as exc:
        raise ServerError(f"no server answers at {uri}: {exc}") from exc


def execute(connection: dbapi.Connection, sql: str) -> Result:
    """Run one statement and fetch all of its rows."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(sql)
            rows = cursor.fetch_arrow_table()
        except Error as exc:
            raise ServerError(str(exc)) from exc
        if rows.num_columns == 0:
            return Result(None, cursor.rowcount)
        return Result(rows, rows.num_rows)


def ingest(
    connection: dbapi.Connection,
    table: str,
    data: pa.Table | pa.RecordBatchReader,
    *,
    mode: str = "create",
    partition_by: str | None = None,
) -> int:
    """Send rows to a table and return how many were stored; `partition_by` as in CREATE TABLE … PARTITIONED BY (…)."""
    with connection.cursor() as cursor:
        if partition_by is not None:
            cursor.adbc_statement.set_options(**{PARTITION_BY: partition_by})
        try:
            return int(cursor.adbc_ingest(table, data, mode=mode))
        except Error as exc:
            raise ServerError(str(exc)) from exc


def watched(table: pa.Table, progress: Callable[[int], Any], rows: int = 65_536) -> pa.RecordBatchReader:
    """`table` as a stream that tells `progress` how many rows have been sent."""

    def batches() -> Any:
        sent = 0
        for batch in table.to_batches(max_chunksize=rows):
            yield batch
            sent += batch.num_rows
            progress(sent)

    return pa.RecordBatchReader.from_batches(table.schema, batches())
