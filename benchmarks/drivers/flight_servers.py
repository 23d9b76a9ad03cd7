"""Flight servers, asked by the client of the benchmarks: lance-flight, ROAPI, and the ceiling of a server in Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from benchmarks import servers
from benchmarks.client import BareClient, SqlClient
from benchmarks.drivers.driver import TABLE, Client, Driver, NormalForm, Unsupported, read_batches
from benchmarks.servers import Server

ONE = pa.record_batch({"one": [1]})
PARTITION_BY = "year(l_shipdate), month(l_shipdate)"
LISTENS, FLIGHT_SQL = "Listening on ", " for FlightSQL traffic"


class _FlightSql(Driver):
    server: Server

    def connect(self) -> Client:
        client = self.client()
        return lambda question: client.stream(question.sql())

    def client(self) -> SqlClient:
        """Connect for as long as the server runs."""
        return self.stack.enter_context(SqlClient(self.server))


class LanceFlight(_FlightSql):
    """Partitioned by year and month, with a BTREE of the key."""

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self.server = self.stack.enter_context(servers.ours(place))
        self._client = self.client()

    def load(self, rows: Path) -> None:
        self._client.ingest(TABLE, read_batches(rows), partition_by=PARTITION_BY)
        self._client.update(f"CREATE INDEX by_key ON {TABLE} (l_orderkey)")

    def append(self, rows: pa.Table) -> None:
        self._client.ingest(TABLE, rows)


class Roapi(_FlightSql):
    """A server in Rust that reads all rows into memory as it starts, and then only answers."""

    def load(self, rows: Path) -> None:
        ports = [f"--addr-{kind}=127.0.0.1:0" for kind in ("http", "postgres", "flight-sql")]
        command = [str(self.environment / "bin" / "roapi"), *ports, "--table", f"{TABLE}={rows}"]
        log = {"RUST_LOG": "off,roapi::startup=info"}  # a line for each request would fill the pipe
        process = self.stack.enter_context(
            subprocess.Popen(command, env=os.environ | log, stdout=-1, stderr=subprocess.STDOUT, text=True)
        )
        self.stack.callback(process.terminate)
        for line in process.stdout or ():
            if FLIGHT_SQL in line:
                self.server = Server(f"grpc://{line.partition(LISTENS)[2].partition(FLIGHT_SQL)[0]}", process.pid)
                return
        raise OSError(f"{command} ended before it listened")


class Bare(Driver):
    """An empty call in place of `SELECT 1`, and one Lance scanner streamed or written."""

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self._server = self.stack.enter_context(servers.bare())
        self._table = str(place / "rows.lance")

    def load(self, rows: Path) -> None:
        self._client().write(self._table, read_batches(rows))

    def connect(self) -> Client:
        client = self._client()

        def ask(question: NormalForm) -> Iterable[pa.RecordBatch]:
            if question.is_whole:
                return client.stream(self._table)
            if question.columns:
                raise Unsupported
            client.call()
            return [ONE]

        return ask

    def _client(self) -> BareClient:
        return self.stack.enter_context(BareClient(self._server))
