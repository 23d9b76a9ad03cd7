"""What holds on a directory holds in an object store: whole commits whoever dies, right totals, conflicts that are seen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from adbc_driver_manager import Error
from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.scope import Scope
from lance_flight.engine.runtime.client_sessions import Isolation, Session
from lance_flight.errors import SerializationFailure
from lance_flight.faults import VARIABLE

from tests.catalog.conflict_pairs import IDS, OPERATIONS, PAIRS, PLACES, Pair, compact
from tests.object_store.bucket import Bucket
from tests.service import bank
from tests.service.server_process import Server

FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
BEFORE = [(1, "a"), (2, "b"), (3, None)]

# point, and whether the write is there when the server has died at it
STOPS = {
    "data_written": False,
    "table_staged": False,
    "all_staged": False,
    "manifest_written": False,
    "committed": True,
}
WRITES = {
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


def read(server: Server) -> list[tuple[int, str | None]]:
    return sorted(server.rows("SELECT id, p FROM t"))


DEATHS = [("insert", "all_staged"), ("update", "committed"), ("merge", "manifest_written")]
DEATHS = [(write, point) for write in WRITES for point in STOPS] if FULL else DEATHS


@pytest.mark.parametrize(("write", "point"), DEATHS)
def test_a_server_that_dies_leaves_all_of_a_write_or_nothing(
    bucket: Bucket, tmp_path: Path, write: str, point: str
) -> None:
    sql, after = WRITES[write]
    with bucket.serving(tmp_path) as server:
        server.run("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
        server.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    with bucket.started(tmp_path, os.environ | {VARIABLE: point}) as victim:
        with pytest.raises(Error, match="Unavailable"):
            victim.run(sql)
        assert victim.process.wait(60) == -signal.SIGKILL
    with bucket.serving(tmp_path) as server:
        expected = after if STOPS[point] else BEFORE
        assert read(server) == sorted(expected)
        server.run("INSERT INTO t VALUES (100, 'a'), (101, 'new'), (102, 'z')")
        assert read(server) == sorted([*expected, (100, "a"), (101, "new"), (102, "z")])
        values = [value for (value,) in server.rows("SELECT p FROM t$partitions")]
        assert len(values) == len(set(values)), "one table for each partition value"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The object store of the tests answers one call at a time."""
    if not FULL:
        for name, number in (("WRITERS", 3), ("READERS", 2), ("TRANSFERS", 2)):
            monkeypatch.setattr(bank, name, number)


@pytest.fixture
def servers(bucket: Bucket, tmp_path: Path) -> Iterator[list[Server]]:
    with ExitStack() as running:
        yield [running.enter_context(bucket.serving(tmp_path, f"server {number}")) for number in range(2)]


@pytest.mark.usefixtures("few")
def test_no_reader_ever_finds_a_wrong_total(servers: list[Server], say: Callable[[str], None]) -> None:
    bank.check_that_no_reader_finds_a_wrong_total(servers, "bank", bank.in_a_transaction, say)


SAMPLE = [pair for number, pair in enumerate(PAIRS) if FULL or number % 17 == 0]


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("pair", SAMPLE)
def test_the_second_of_two_transactions_commits_or_fails(bucket: Bucket, pair: Pair, isolation: Isolation) -> None:
    engines = [Engine(Root(bucket.store), target_partitions=1) for _ in range(2)]
    engines[0].update("CREATE TABLE t (id BIGINT NOT NULL, p VARCHAR, n INT) PARTITIONED BY (p)")
    engines[0].update("INSERT INTO t (id, p) VALUES (1, 'a'), (3, 'b')")
    engines[0].update("INSERT INTO t (id, p) VALUES (2, 'a'), (4, 'b')")
    session = Session(isolation=isolation)
    scope = Scope(session, engines[1].clients.begin(session))
    assert scope.transaction is not None
    _run(engines[1], pair, scope, first=False)
    _run(engines[0], pair, Scope(), first=True)
    if pair.fails(isolation):
        with pytest.raises(SerializationFailure):
            engines[1].clients.end(scope.transaction, commit=True)
    else:
        engines[1].clients.end(scope.transaction, commit=True)
    expected = [pair.alone] if pair.fails(isolation) else [pair.in_turn, pair.reversed]
    found = engines[0].query("SELECT id, p FROM t ORDER BY id, p").to_pylist()
    assert sorted((row["id"], row["p"]) for row in found) in expected


def _run(engine: Engine, pair: Pair, scope: Scope, *, first: bool) -> None:
    operation = pair.first if first else pair.second
    p = PLACES[pair.place][0 if first else 1]
    statement = OPERATIONS[operation].format(p=p, id=IDS[p], mine=10 if first else 20)
    if operation is compact:
        engine.query(statement)
    else:
        engine.update(statement, scope=scope)
