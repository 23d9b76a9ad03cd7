"""DuckDB in process over hive-partitioned Parquet and over DuckLake; and as a client of its own server, Quack."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks.drivers.driver import BATCH_ROWS, TABLE, Client, Driver, NormalForm

TOKEN = "benchmark"  # noqa: S105 - it opens a server of this run alone
EXTENSIONS = ("httpfs", "quack")
SERVE = "import sys; from benchmarks.drivers import duck; duck.serve(*sys.argv[1:])"
MONTHS = "SELECT *, year(l_shipdate) AS y, month(l_shipdate) AS m FROM"


class _Duck(Driver):
    extensions: tuple[str, ...] = ()
    table = TABLE

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self.connection = self.stack.enter_context(open_database(":memory:", self.extensions))

    def append(self, rows: pa.Table) -> None:
        self.connection.register("added", rows)
        self.connection.execute(f"INSERT INTO {self.table} FROM added")

    def connect(self) -> Client:
        cursor = self.connection.cursor()
        return lambda question: cursor.sql(self.sql(question)).to_arrow_reader(BATCH_ROWS)

    def sql(self, question: NormalForm) -> str:
        """Return the text of the question for this peer."""
        return question.sql(self.table)


class Hive(_Duck):
    """Parquet files in directories `y=…/m=…`, which its users name in their conditions."""

    def load(self, rows: Path) -> None:
        self._copy(f"read_parquet('{rows}')", "OVERWRITE_OR_IGNORE")
        files = f"read_parquet('{self.place}/**/*.parquet', hive_partitioning = true)"
        self.connection.execute(f"CREATE VIEW {TABLE} AS FROM {files}")

    def append(self, rows: pa.Table) -> None:
        self.connection.register("added", rows)
        self._copy("added", "APPEND")

    def sql(self, question: NormalForm) -> str:
        return question.sql(by_months=True)

    def _copy(self, source: str, mode: str) -> None:
        options = f"FORMAT parquet, PARTITION_BY (y, m), {mode}"
        self.connection.execute(f"COPY ({MONTHS} {source}) TO '{self.place}' ({options})")


class Lake(_Duck):
    """DuckLake with its catalog in a DuckDB file."""

    extensions = ("ducklake",)
    table = f"lake.{TABLE}"

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self.connection.execute(f"ATTACH 'ducklake:{place}/catalog.ducklake' AS lake (DATA_PATH '{place}/data')")

    def load(self, rows: Path) -> None:
        source = f"read_parquet('{rows}')"
        self.connection.execute(f"CREATE TABLE {self.table} AS FROM {source} LIMIT 0")
        self.connection.execute(f"ALTER TABLE {self.table} SET PARTITIONED BY (year(l_shipdate), month(l_shipdate))")
        self.connection.execute(f"INSERT INTO {self.table} FROM {source}")


class Quack(_Duck):
    """A database file behind DuckDB's server; a question goes there as a text."""

    extensions = EXTENSIONS
    table = f"server.{TABLE}"

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        with socket.create_server(("localhost", 0)) as free:
            uri = f"quack:localhost:{free.getsockname()[1]}"
        command = [sys.executable, "-c", SERVE, str(place / "rows.duckdb"), uri]
        server = self.stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.stack.callback(server.terminate)
        if server.stdout is None or not server.stdout.readline():
            raise OSError(f"{command} ended before it listened")
        self.connection.execute(f"CREATE SECRET (TYPE quack, TOKEN '{TOKEN}')")
        self.connection.execute(f"ATTACH '{uri}' AS server")

    def load(self, rows: Path) -> None:
        self.connection.execute(f"CREATE TABLE {self.table} AS FROM read_parquet('{rows}')")

    def sql(self, question: NormalForm) -> str:
        return "FROM server.query('{}')".format(question.sql().replace("'", "''"))


def open_database(path: str, extensions: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """Open a database with extensions that were installed as packages, in the order in which they need one another."""
    connection = duckdb.connect(path)
    for name in extensions:
        (file,) = Path(sys.prefix).glob(f"lib/*/site-packages/duckdb_extension_{name}/extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return connection


def serve(path: str, uri: str) -> None:
    """Serve a database file until standard input ends or the process does; a line of output says that it listens."""
    with open_database(path, EXTENSIONS) as connection:
        connection.execute(f"CALL quack_serve('{uri}', token = '{TOKEN}')")
        print("listening", flush=True)
        sys.stdin.read()
