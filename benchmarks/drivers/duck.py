"""What the peers share that DuckDB runs."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

from benchmarks.drivers.driver import BATCH_ROWS, Client, Driver
from benchmarks.drivers.question import Question


class DuckDriver(Driver):
    """DuckDB in process, with extensions that were installed as packages; subclasses say what `lineitem` is."""

    extensions: tuple[str, ...] = ()

    def __init__(self, place: Path, environment: Path) -> None:
        super().__init__(place, environment)
        self.connection = self.stack.enter_context(open_database(":memory:", self.extensions))

    def sql(self, question: Question) -> str:
        """How the question is asked here."""
        return question.sql()

    def connect(self) -> Client:
        cursor = self.connection.cursor()
        return lambda question: cursor.sql(self.sql(question)).to_arrow_reader(BATCH_ROWS)


def open_database(path: str, extensions: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """A database with extensions of this environment, in the order in which they need one another."""
    connection = duckdb.connect(path)
    for name in extensions:
        (file,) = Path(sys.prefix).glob(f"lib/*/site-packages/duckdb_extension_{name}/extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return connection
