"""lance-flight over the wire, partitioned by year and month, with a BTREE of the key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchmarks import servers
from benchmarks.client import SqlClient
from benchmarks.drivers.driver import Client, Driver, batches, run
from benchmarks.drivers.question import TABLE
from benchmarks.servers import Server

PARTITION_BY = "year(l_shipdate), month(l_shipdate)"


class FlightSql(Driver):
    """Any Flight SQL server, once there is one; subclasses start it."""

    server: Server

    def client(self) -> SqlClient:
        """A connection that is closed with the server."""
        return self.stack.enter_context(SqlClient(self.server))

    def connect(self) -> Client:
        client = self.client()
        return lambda question: client.stream(question.sql())


class LanceFlight(FlightSql):
    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self.server = self.stack.enter_context(servers.ours(place))
        self._client = self.client()

    def load(self, rows: Path) -> None:
        self._client.ingest(TABLE, batches(rows), partition_by=PARTITION_BY)
        self._client.update(f"CREATE INDEX by_key ON {TABLE} (l_orderkey)")

    def append(self, rows: pa.Table) -> None:
        self._client.ingest(TABLE, rows)


if __name__ == "__main__":
    run(LanceFlight)
