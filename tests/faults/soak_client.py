"""A client of the soak in a process of its own, to be killed at any moment: it changes rows that are its alone, and says so line by line.

`python -m tests.faults.soak_client URI CLIENT SEED CHANGES` prints JSON: what its rows will be before each change, and what came of it after.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field

import pyarrow as pa
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

Rows = dict[int, int]
"""The rows of one client: a value by id."""

PLACES = 6
SCHEMA = pa.schema({"client": pa.int64(), "id": pa.int64(), "p": pa.string(), "n": pa.int64()})
COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
MOST_ROWS = 40


def tell(what: str, **values: object) -> None:
    """Print a line for the process that has started this one."""
    print(json.dumps({"what": what, **values}), flush=True)  # noqa: T201 - the other process reads it


def place(row: int) -> str:
    """The partition of a row: shared ones, and now and then one of its own."""
    return f"p{row % PLACES}" if row % 17 else f"own {row}"


@dataclass
class Client:
    """Changes its rows in every way, one change after the other."""

    uri: str
    number: int
    chance: random.Random
    rows: Rows = field(default_factory=dict)
    made: int = 0

    def work(self, changes: int) -> None:
        """Make changes; at the end its rows and tables are gone."""
        with closing(dbapi.connect(self.uri, db_kwargs=COOKIES, autocommit=True)) as connection:
            ways: list[Callable[[dbapi.Connection], None]] = [
                self.insert, self.insert, self.ingest, self.update, self.delete, self.transaction, self.read, self.read, self.scratch, self.temporary
            ]  # fmt: skip
            for _ in range(changes):
                self.chance.choice(ways)(connection)
            self.change(connection, {}, f"DELETE FROM t WHERE client = {self.number}")
        tell("done")

    def change(self, connection: dbapi.Connection, then: Rows, *steps: str | pa.Table) -> None:
        """Run statements, and rows to ingest, after which its rows are others."""
        tell("begins", rows=list(then.items()))
        try:
            with connection.cursor() as cursor:
                for step in steps:
                    cursor.execute(step) if isinstance(step, str) else cursor.adbc_ingest("t", step, mode="append")
        except Error as error:
            self.refused(connection, error)
        else:
            self.rows = then
            tell("acknowledged")

    def refused(self, connection: dbapi.Connection, error: Error) -> None:
        """Say why a change was not made; a transaction that SQL has begun is over."""
        found = re.search(r"\[[0-9A-Z]{5}\] \[([a-z_]+)\]", str(error))
        tell("refused", code=found[1] if found else "unknown", text=str(error))
        with suppress(Error), connection.cursor() as cursor:
            cursor.execute("ROLLBACK")

    def new(self) -> Rows:
        """Some rows that were never there."""
        count = self.chance.randint(1, 5) if len(self.rows) < MOST_ROWS else 0
        self.made += count
        return {self.made - n: 0 for n in range(count)}

    def values(self, rows: Mapping[int, int]) -> str:
        return ", ".join(f"({self.number}, {row}, '{place(row)}', {n})" for row, n in rows.items())

    def insert(self, connection: dbapi.Connection) -> None:
        new = self.new()
        if new:
            self.change(connection, self.rows | new, f"INSERT INTO t VALUES {self.values(new)}")

    def ingest(self, connection: dbapi.Connection) -> None:
        new = self.new()
        if new:
            columns = [[self.number] * len(new), list(new), [place(row) for row in new], list(new.values())]
            data = pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
            self.change(connection, self.rows | new, data)

    def update(self, connection: dbapi.Connection) -> None:
        then = {row: n + 1 for row, n in self.rows.items()}
        self.change(connection, then, f"UPDATE t SET n = n + 1 WHERE client = {self.number}")

    def delete(self, connection: dbapi.Connection) -> None:
        rest = self.chance.randint(0, 2)
        then = {row: n for row, n in self.rows.items() if row % 3 != rest}
        self.change(connection, then, f"DELETE FROM t WHERE client = {self.number} AND id % 3 = {rest}")

    def transaction(self, connection: dbapi.Connection) -> None:
        new = self.new() or {self.made + 1: 0}
        self.made = max(self.made, *new)
        then = {row: n + 1 for row, n in (self.rows | new).items()}
        steps = (
            "BEGIN",
            f"INSERT INTO t VALUES {self.values(new)}",
            f"UPDATE t SET n = n + 1 WHERE client = {self.number}",
            "COMMIT",
        )
        self.change(connection, then, *steps)

    def read(self, connection: dbapi.Connection) -> None:
        """Its own rows are what they are known to be, whatever the others do."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT id, n FROM t WHERE client = {self.number}")
                found = dict(cursor.fetchall())
                cursor.execute("SELECT count(*), count(DISTINCT p) FROM t")
                cursor.fetchall()
        except Error as error:
            self.refused(connection, error)
        else:
            tell("read", is_right=found == self.rows, found=sorted(found.items()), expected=sorted(self.rows.items()))

    def scratch(self, connection: dbapi.Connection) -> None:
        """Make, alter and drop a table of its own."""
        name = f"scratch_{self.number}"
        self.change(
            connection,
            self.rows,
            f"CREATE OR REPLACE TABLE {name} PARTITIONED BY (p) AS SELECT id, p, n FROM t WHERE client = {self.number}",
            f"ALTER TABLE {name} ADD COLUMN more INT DEFAULT 1",
            f"ALTER TABLE {name} RENAME COLUMN more TO less",
            f"ALTER TABLE {name} SET PARTITIONED BY (bucket(2, id), p)",
            f"INSERT INTO {name} SELECT id + 1000, p, n, 2 FROM {name}",
            f"ALTER TABLE {name} DROP COLUMN less",
            f"DROP TABLE {name}",
        )

    def temporary(self, connection: dbapi.Connection) -> None:
        self.change(
            connection,
            self.rows,
            "CREATE TEMPORARY TABLE IF NOT EXISTS mine AS SELECT id, n FROM t LIMIT 20",
            "INSERT INTO mine VALUES (1, 1)",
            "DROP TABLE mine",
        )


if __name__ == "__main__":
    uri, number, seed, changes = sys.argv[1:]
    Client(uri, int(number), random.Random(int(seed))).work(int(changes))  # noqa: S311 - a workload, no secret
