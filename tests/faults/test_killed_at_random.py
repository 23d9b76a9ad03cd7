"""Servers that are killed at any moment under load, round after round over one root."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.selection import IS_FULL
from tests.service.server_process import Server, serving, started
from tests.stock import stored_rows, stored_tables

ROUNDS, LONGEST = (40, 3.0) if IS_FULL else (3, 1.0)
WRITERS = 4
PLACES = ("a", "b", "c", None)
SCHEMA = pa.schema({"writer": pa.int64(), "id": pa.int64(), "place": pa.utf8(), "value": pa.int64()})
TABLE = "CREATE TABLE t (writer BIGINT, id BIGINT, place VARCHAR, value BIGINT) PARTITIONED BY (place)"
GONE = "Unavailable"
REFUSALS = ("[conflict]", "[serialization_failure]")

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

State = dict[int, tuple[str | None, int]]
"""The rows of one writer: by id, the place that partitions them, and a value."""


@dataclass(frozen=True)
class Change:
    """Statements, and rows to ingest, that are one transaction, and what they make of the writer's rows."""

    steps: Sequence[str | pa.Table]
    then: State


@dataclass
class Writer:
    """Changes rows of its own in partitions that all writers share, and remembers what was acknowledged.

    `pending` is what its rows would be after the one change that nobody has answered.
    """

    number: int
    random: random.Random
    state: State = field(default_factory=dict)
    pending: State | None = None
    made: int = 0
    acknowledged: int = 0

    def work(self, uri: str) -> None:
        """Make one change after the other until the server is gone."""
        with closing(dbapi.connect(uri, autocommit=True)) as connection:
            while True:
                change = self.random.choice([self.put, self.put, self.set, self.move, self.delete, self.several])()
                self.pending = change.then
                try:
                    if len(change.steps) == 1:
                        run(change.steps, connection)
                    else:
                        run_together(change.steps, uri)
                except Error as exc:
                    if GONE in str(exc):
                        return
                    if not any(code in str(exc) for code in REFUSALS):
                        raise
                else:
                    self.state = change.then
                    self.acknowledged += 1
                self.pending = None

    def put(self) -> Change:
        """New rows, some of them in a partition that nobody has written to."""
        places = [*PLACES, f"{self.number} {self.made}"]
        new = {self._id(): (self.random.choice(places), 0) for _ in range(self.random.randint(1, 8))}
        columns = zip(*((self.number, row, *rest) for row, rest in new.items()), strict=True)
        return Change([pa.Table.from_arrays(list(map(pa.array, columns)), schema=SCHEMA)], self.state | new)

    def set(self) -> Change:
        """Another value in all rows."""
        value = self._id()
        then = {row: (place, value) for row, (place, _) in self.state.items()}
        return Change([f"UPDATE t SET value = {value} WHERE writer = {self.number}"], then)

    def move(self) -> Change:
        """Some rows to another partition."""
        target, half = self.random.choice(PLACES), self.random.randint(0, 1)
        then = {row: (target if row % 2 == half else place, value) for row, (place, value) in self.state.items()}
        text = "NULL" if target is None else f"'{target}'"
        return Change([f"UPDATE t SET place = {text} WHERE writer = {self.number} AND id % 2 = {half}"], then)

    def delete(self) -> Change:
        """Some rows away."""
        rest = self.random.randint(0, 4)
        then = {row: found for row, found in self.state.items() if row % 5 != rest}
        return Change([f"DELETE FROM t WHERE writer = {self.number} AND id % 5 = {rest}"], then)

    def several(self) -> Change:
        """Several of these in one transaction."""
        before, steps = self.state, list[str | pa.Table]()
        try:
            for make in (self.delete, self.put, self.set):
                change = make()
                steps += change.steps
                self.state = change.then
            return Change(steps, self.state)
        finally:
            self.state = before

    def settle(self, found: State) -> str:
        """Compare what is there with what was acknowledged; what came of the change that nobody has answered."""
        pending, self.pending = self.pending, None
        if found == self.state:
            return "nothing to see" if pending is None or pending == self.state else "not there"
        assert found == pending, f"writer {self.number}: neither the rows before its last change nor those after"
        self.state = found
        return "whole"

    def _id(self) -> int:
        self.made += 1
        return self.made


def run(steps: Sequence[str | pa.Table], connection: dbapi.Connection) -> None:
    """Statements and rows, one after another."""
    cursor = connection.cursor()
    try:
        for step in steps:
            cursor.execute(step) if isinstance(step, str) else cursor.adbc_ingest("t", step, mode="append")
    finally:
        # A prepared statement cannot be closed on a server that is gone: that is not what its change came to.
        with suppress(Error):
            cursor.close()


def run_together(steps: Sequence[str | pa.Table], uri: str) -> None:
    """The same as one transaction; the driver cannot begin another one where a commit has failed."""
    connection = dbapi.connect(uri)
    try:
        run(steps, connection)
        connection.commit()
    finally:
        with suppress(Error):
            connection.close()


def by_writer(rows: pa.Table) -> dict[int, State]:
    """The rows of each writer; none of them is there twice."""
    found: dict[int, State] = {number: {} for number in range(WRITERS)}
    for row in rows.to_pylist():
        assert row["id"] not in found[row["writer"]], f"a row is there twice: {row}"
        found[row["writer"]][row["id"]] = row["place"], row["value"]
    return found


def check(server: Server, writers: Sequence[Writer]) -> list[str]:
    """Every writer finds its rows, over the wire and with stock Lance; what came of the unanswered changes."""
    found = by_writer(server.query("SELECT * FROM t"))
    place = server.root / "t"
    if any(found.values()):
        assert by_writer(stored_rows(place).select(SCHEMA.names)) == found
        assert server.value("SELECT sum(rows) FROM t$partitions") == sum(map(len, found.values()))
    values = [table.values["place"] for table in stored_tables(place)]
    assert len(values) == len(set(values)), "one table for each partition value"
    return [writer.settle(found[writer.number]) for writer in writers]


@pytest.mark.parametrize("seed", [1])
def test_rows_that_were_acknowledged_are_there_once_and_unanswered_changes_whole_or_not_at_all(
    tmp_path: Path, seed: int, say: Callable[[str], None]
) -> None:
    chance = random.Random(seed)  # noqa: S311 - moments to kill at, no secret
    writers = [Writer(number, random.Random(seed * 100 + number)) for number in range(WRITERS)]  # noqa: S311
    outcomes, root = list[str](), tmp_path / "root"
    for round_ in range(ROUNDS):
        with started(root) as server, ThreadPoolExecutor(WRITERS) as pool:
            if round_ == 0:
                server.run(TABLE)
            else:
                outcomes += check(server, writers)
            working = [pool.submit(writer.work, server.uri) for writer in writers]
            with suppress(TimeoutExpired):
                server.process.wait(chance.uniform(0, LONGEST))
            server.process.kill()
            for each in working:
                each.result()
    with serving(root) as server:
        outcomes += check(server, writers)
        for writer in writers:
            server.ingest("t", writer.put().steps[0], "append")
    rows = sum(len(writer.state) for writer in writers)
    say(
        f"killed {ROUNDS} times under {WRITERS} writers: {sum(writer.acknowledged for writer in writers)} changes"
        f" acknowledged, the {rows} rows that they leave are there, 0 twice;"
        f" of the changes that nobody answered {outcomes.count('whole')} were there whole and"
        f" {outcomes.count('not there')} not at all"
    )
