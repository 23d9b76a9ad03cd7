"""DuckDB's own server, Quack, over a database file of DuckDB, asked by DuckDB as a client."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from benchmarks.drivers.driver import run
from benchmarks.drivers.duck import DuckDriver, open_database
from benchmarks.drivers.question import TABLE, Question

EXTENSIONS = ("httpfs", "quack")
TOKEN = "benchmark"  # noqa: S105 - it opens a server of this run alone


class Quack(DuckDriver):
    extensions = EXTENSIONS

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        command = [sys.executable, "-m", "benchmarks.drivers.quack", "serve", str(place / "rows.duckdb")]
        server = self.stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        if server.stdin is None or server.stdout is None:
            raise OSError(f"{command} has no pipes")
        self.stack.callback(server.stdin.close)
        uri = server.stdout.readline().strip()
        if not uri:
            raise OSError(f"{command} ended before it listened")
        self.connection.execute(f"CREATE SECRET (TYPE quack, TOKEN '{TOKEN}')")
        self.connection.execute(f"ATTACH '{uri}' AS server")

    def load(self, rows: Path) -> None:
        self.connection.execute(f"CREATE TABLE server.{TABLE} AS FROM read_parquet('{rows}')")

    def append(self, rows: pa.Table) -> None:
        self.connection.register("added", rows)
        self.connection.execute(f"INSERT INTO server.{TABLE} FROM added")

    def sql(self, question: Question) -> str:
        text = question.sql().replace("'", "''")
        return f"FROM server.query('{text}')"


def serve(path: str) -> None:
    """Serve a database file until standard input ends; where, the first line of standard output says."""
    with open_database(path, EXTENSIONS) as connection:
        with socket.create_server(("localhost", 0)) as free:
            uri = f"quack:localhost:{free.getsockname()[1]}"
        connection.execute(f"CALL quack_serve('{uri}', token = '{TOKEN}')")
        print(uri, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        run(Quack)
