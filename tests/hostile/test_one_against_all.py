"""One user takes all that a server has of something: others are answered all the while, and an administrator sees who it is.

In full mode the server has its default settings; by default it has small ones, which an attack fills sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from time import sleep

import pyarrow as pa
import pytest
from lance_flight.config import ServerConfig
from lance_flight.flight import wire
from lance_flight.flight.wire import encode_action
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.statements import descriptor, reader
from tests.hostile import capped
from tests.selection import IS_FULL
from tests.service.principals import connect, token_of, tokens_file
from tests.service.server_process import Server

pytestmark = pytest.mark.slow  # server processes

GREEDY, OTHERS, ROOT = "mallory", ("alice", "bob", "carol"), "root"
POLICIES = """
[roles.owner]
members = ["root"]
grants = ["ALL ON *"]

[roles.users]
members = ["mallory", "alice", "bob", "carol"]
grants = ["ALL ON t"]
"""
DEFAULTS = ServerConfig()
SMALL = {
    "sessions": 400,
    "running-statements": 8,
    "waiting-statements": 16,
    "running-calls": 120,
    "stream-memory-limit": 256 << 20,
}
SETTINGS: dict[str, int] = {} if IS_FULL else SMALL
SESSIONS = SETTINGS.get("sessions", DEFAULTS.sessions)
TURNS = SETTINGS.get("running-statements", 16)
CALLS = SETTINGS.get("running-calls", DEFAULTS.running_calls)
STREAMS = 10
ROOM, MOST_BYTES = (32 << 30, 4 << 30) if IS_FULL else (capped.ROOM, capped.MOST_BYTES)
"""A thousand threads map 8 MiB each; streams may hold a quarter of the memory of all statements."""
SECONDS = 30.0 if IS_FULL else 2.0
HEAVY = "SELECT count(*) AS n FROM generate_series(1, 2000000000) AS t (v) WHERE sin(v) > 2"
BIG = "SELECT value, repeat('x', 200) AS word FROM generate_series(1, 2000000000)"
INGEST = wire.StatementIngest(
    table="t", table_definition_options=wire.TableDefinitionOptions(if_not_exist=2, if_exists=2)
)


@dataclass
class Attacked:
    """A server of several users, and what a greedy one of them holds."""

    server: Server
    stack: ExitStack

    def options(self, *headers: tuple[bytes, bytes]) -> flight.FlightCallOptions:
        """Those of a call of the greedy user."""
        said = [(b"authorization", f"Bearer {token_of(GREEDY)}".encode()), *headers]
        return flight.FlightCallOptions(4 * SECONDS, headers=said)

    def begin(self, options: flight.FlightCallOptions) -> None:
        """Begin a transaction, which may be refused."""
        with suppress(flight.FlightError):
            tuple(self.first.do_action(flight.Action(*encode_action(wire.BeginTransaction())), options))

    @cached_property
    def first(self) -> flight.FlightClient:
        """One connection, kept open."""
        return self.client()

    def seen(self, sql: str) -> int:
        """What an administrator counts."""
        with connect(self.server.uri, ROOT) as connection, connection.cursor() as cursor:
            ((number,),) = cursor.execute(sql).fetchall()
            return int(number)

    def client(self) -> flight.FlightClient:
        """One more connection."""
        return self.stack.enter_context(flight.connect(self.server.uri))

    def beside(self, work: Callable[[flight.FlightClient], object], count: int) -> None:
        """Do the same over so many connections at once, whatever becomes of it."""

        def do(_: int) -> None:
            with suppress(flight.FlightError, pa.ArrowException):
                work(self.client())

        pool = ThreadPoolExecutor(count)
        self.stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        for number in range(count):
            pool.submit(do, number)

    def kill_one(self) -> None:
        """Kill a statement of the greedy user, if there is one."""
        with connect(self.server.uri, ROOT) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM system.queries WHERE principal = 'mallory' AND state = 'running'")
            for (statement,) in cursor.fetchmany(1):
                cursor.execute(f"KILL '{statement}'")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Server]:
    place = tmp_path
    (place / "policies").write_text(POLICIES)
    options = {
        "tokens-file": tokens_file(place / "tokens", (GREEDY, *OTHERS, ROOT)),
        "policy-file": place / "policies",
        **SETTINGS,
    }
    arguments = (text for name, value in options.items() for text in (f"--{name}", str(value)))
    with capped.capped(place / "root", *arguments, room=ROOM) as server:
        with connect(server.uri, ROOT) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id BIGINT)")
        yield server


def sessions_with_transactions(attacked: Attacked) -> None:
    """More sessions with BEGIN than a server keeps."""
    for number in range(SESSIONS + 10):
        attacked.begin(attacked.options((b"cookie", f"mine={number}".encode())))


def transactions_of_one_session(attacked: Attacked) -> None:
    for _ in range(SESSIONS + 10):
        attacked.begin(attacked.options())
    assert (
        0 < attacked.seen("SELECT sum(open_transactions) FROM system.sessions WHERE principal = 'mallory'") < SESSIONS
    )


def heavy_statements(attacked: Attacked) -> None:
    """More of them than there are turns, and than may wait."""
    attacked.beside(lambda client: reader(client, HEAVY, attacked.options()).read_all(), 3 * TURNS)
    count = "SELECT count(*) FROM system.queries WHERE principal = 'mallory' AND state = "
    until(lambda: attacked.seen(f"{count}'running'") >= TURNS // 2 and attacked.seen(f"{count}'queued'") >= TURNS)


def slow_readers(attacked: Attacked) -> None:
    """Results of which their clients take the first rows."""

    def open_one(client: flight.FlightClient) -> None:
        opened = reader(client, BIG, attacked.options())
        opened.read_chunk()
        attacked.stack.callback(opened.cancel)

    attacked.beside(open_one, 33)
    until(lambda: attacked.seen("SELECT count(*) FROM system.queries WHERE state = 'streaming'") >= STREAMS)


def silent_senders(attacked: Attacked) -> None:
    """Ingests that send no rows: each holds two threads of the server."""
    schema = pa.schema({"id": pa.int64()})
    for _ in range(CALLS + 10):
        writer, _ = attacked.client().do_put(descriptor(INGEST), schema, attacked.options())
        attacked.stack.callback(close, writer)
    until(lambda: attacked.seen("SELECT count(*) FROM system.queries WHERE kind = 'ingest'") >= CALLS // 2)


def close(writer: flight.FlightStreamWriter) -> None:
    with suppress(flight.FlightError, pa.ArrowException):
        writer.close()


ATTACKS = (sessions_with_transactions, transactions_of_one_session, heavy_statements, slow_readers, silent_senders)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_others_are_answered_and_an_administrator_ends_it(shared: Server, attack: Callable[[Attacked], None]) -> None:
    names = cycle(OTHERS)

    def ask() -> None:
        with connect(shared.uri, next(names)) as connection, connection.cursor() as cursor:
            assert cursor.execute("SELECT 1").fetchall() == [(1,)]

    with ExitStack() as stack:
        attacked = Attacked(shared, stack)
        with capped.bounded(shared, asks=ask, threads=2 * CALLS + 100, memory=MOST_BYTES):
            attack(attacked)
            sleep(SECONDS)
            attacked.kill_one()
