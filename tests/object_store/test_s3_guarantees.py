"""What holds on a directory holds in an object store: whole commits whoever dies, right totals, conflicts that are seen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from adbc_driver_manager import Error
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import Isolation, Session
from lance_flight.errors import SerializationFailure
from lance_flight.faults import VARIABLE

from tests.catalog.conflict_pairs import (
    OPERATIONS,
    PLACES,
    SECONDS,
    Operation,
    append,
    delete,
    merge,
    name_of,
    overwrite,
    pair_of,
    truncate,
    update,
)
from tests.engine.database import Database
from tests.faults.failpoints import watched
from tests.object_store.bucket import Bucket
from tests.object_store.s3_server import S3Server
from tests.selection import IS_FULL
from tests.service import bank
from tests.service.server_process import Server

Rows = list[tuple[int, str | None]]
BEFORE: Rows = [(1, "a"), (2, "b"), (3, None)]

# point, and whether the write is there when the server has died at it
STOPS = {
    "data_written": False,
    "table_staged": False,
    "all_staged": False,
    "manifest_written": False,
    "committed": True,
}
WRITES: Mapping[str, tuple[str, Rows]] = {
    "insert": ("INSERT INTO t VALUES (4, 'a'), (5, 'new')", [*BEFORE, (4, "a"), (5, "new")]),
    "update": ("UPDATE t SET p = 'z' WHERE id < 3", [(1, "z"), (2, "z"), (3, None)]),
    "merge": (
        """MERGE INTO t USING (VALUES (1, 'q'), (9, 'b')) AS s (id, p) ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT *""",
        [(1, "q"), (2, "b"), (3, None), (9, "b")],
    ),
}

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def template(s3: S3Server) -> Bucket:
    """A bucket with a table of three partitions."""
    made = Bucket.made(s3)
    made.database.run("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    made.database.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    return made


def check(asked: Database | Server, expected: Rows) -> None:
    """The rows are these, and the next writer adds some."""
    assert sorted(asked.rows("SELECT id, p FROM t")) == sorted(expected)
    asked.run("INSERT INTO t VALUES (100, 'a'), (101, 'new'), (102, 'z')")
    assert sorted(asked.rows("SELECT id, p FROM t")) == sorted([*expected, (100, "a"), (101, "new"), (102, "z")])
    values = [value for (value,) in asked.rows("SELECT p FROM t$partitions")]
    assert len(values) == len(set(values)), "one table for each partition value"


@pytest.fixture(scope="module")
def left(template: Bucket) -> Callable[[str], Mapping[str, Bucket]]:
    """Runs a write once, and returns what a kill leaves at each failpoint that it passes for the first time."""

    @cache
    def ran(write: str) -> Mapping[str, Bucket]:
        bucket, copies = template.copy(), dict[str, Bucket]()

        def copy(point: str, number: int) -> None:
            if number == 1:
                copies[point] = bucket.copy()

        database = bucket.database
        with watched(copy):
            database.run(WRITES[write][0])
        return copies

    return ran


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("point", STOPS)
def test_a_kill_leaves_all_of_a_write_or_nothing(
    left: Callable[[str], Mapping[str, Bucket]], write: str, point: str
) -> None:
    check(left(write)[point].database, WRITES[write][1] if STOPS[point] else BEFORE)


def test_a_server_that_dies_leaves_the_same(template: Bucket, tmp_path: Path) -> None:
    bucket = template.copy()
    with bucket.started(tmp_path, os.environ | {VARIABLE: "all_staged"}) as victim:
        with pytest.raises(Error, match="Unavailable"):
            victim.run(WRITES["merge"][0])
        assert victim.process.wait(60) == -signal.SIGKILL
    with bucket.serving(tmp_path) as server:
        check(server, BEFORE)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The object store of the tests answers one call at a time."""
    if not IS_FULL:
        for name, number in (("WRITERS", 3), ("READERS", 2), ("TRANSFERS", 2)):
            monkeypatch.setattr(bank, name, number)


@pytest.fixture
def servers(bucket: Bucket, tmp_path: Path) -> Iterator[list[Server]]:
    with ExitStack() as running:
        yield [running.enter_context(bucket.serving(tmp_path, f"server {number}")) for number in range(2)]


@pytest.mark.usefixtures("few")
def test_no_reader_ever_finds_a_wrong_total(servers: list[Server], say: Callable[[str], None]) -> None:
    bank.check_that_no_reader_finds_a_wrong_total(servers, "bank", bank.in_a_transaction, say)


SECONDS_AT = [
    (append, "same", Isolation.SNAPSHOT),
    (delete, "same", Isolation.SERIALIZABLE),
    (update, "other", Isolation.SNAPSHOT),
    (overwrite, "same new", Isolation.SNAPSHOT),
    (merge, "beside new", Isolation.SERIALIZABLE),
    (truncate, "two new", Isolation.SNAPSHOT),
]
"""Each second operation, each place, and both isolations."""
if IS_FULL:
    SECONDS_AT = [(second, place, isolation) for second in SECONDS for place in PLACES for isolation in Isolation]


@pytest.fixture(scope="module")
def pairs(s3: S3Server) -> Bucket:
    """A bucket with a table of two partitions, each with two rows in two files."""
    made = Bucket.made(s3)
    made.database.run("CREATE TABLE t (id BIGINT NOT NULL, p VARCHAR, n INT) PARTITIONED BY (p)")
    made.database.run("INSERT INTO t (id, p) VALUES (1, 'a'), (3, 'b')")
    made.database.run("INSERT INTO t (id, p) VALUES (2, 'a'), (4, 'b')")
    return made


@pytest.mark.parametrize("first", OPERATIONS, ids=name_of)
@pytest.mark.parametrize(("second", "place", "isolation"), SECONDS_AT)
def test_the_second_of_two_transactions_commits_or_fails(
    pairs: Bucket, first: Operation, second: Operation, place: str, isolation: Isolation
) -> None:
    bucket, pair, session = pairs.copy(), pair_of(first, second, place), Session(isolation=isolation)
    one, other = bucket.database, bucket.database.engine
    mine = other.clients.begin(session)
    other.update(pair.statement("t", first=False), scope=Scope(session, mine))
    one.rows(pair.statement("t", first=True))
    if pair.fails(isolation):
        with pytest.raises(SerializationFailure):
            other.clients.end(mine, commit=True)
    else:
        other.clients.end(mine, commit=True)
    expected = [pair.alone] if pair.fails(isolation) else [pair.in_turn, pair.reversed]
    assert sorted(one.rows("SELECT id, p FROM t")) in expected
