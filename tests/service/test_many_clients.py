"""Thousands of sessions, prepared statements, temporary tables, slow readers and slow senders: what is too much is refused, the rest is answered."""

from __future__ import annotations

import os
import re
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.flight import wire
from lance_flight.flight.wire import Action
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.cookie_jar import CookieJar
from tests.flight.statements import act, descriptor, prepare, put, reader
from tests.selection import IS_FULL
from tests.service.server_process import PRIVATE, Server, serving

MANY = int(os.environ.get("LANCE_FLIGHT_CLIENTS") or (10_000 if IS_FULL else 60))
"""Clients; the server keeps two sessions of three."""
MOST = MANY * 2 // 3
STREAMS = 150 if IS_FULL else 20
"""Calls that are open at once: each has a thread of gRPC's in the server, and what it does not read takes 20 MiB there and 35 here."""
WORKING = 16
MIB = 1 << 20
BIG = "SELECT value, repeat('x', 200) AS word FROM generate_series(1, 2000000000)"
ENDED = "finds no session"
pytestmark = pytest.mark.timeout(3600 if IS_FULL else 300)
"""10,000 sessions take some minutes for as long as a machine is idle."""
INGEST = wire.StatementIngest(
    table="t", table_definition_options=wire.TableDefinitionOptions(if_not_exist=2, if_exists=2)
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    options = {
        "sessions": MOST,
        "sessions-per-principal": MOST,
        "running-statements": WORKING,
        "ingest-idle-timeout": 2,
        "statement-timeout": 60,
        "stream-memory-limit": STREAMS * 64 * MIB,
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with serving(tmp_path / "root", *arguments) as running:
        running.ingest("t", pa.table({"id": list(range(100))}), partition_by="bucket(4, id)")
        yield running


@dataclass
class Clients:
    """Many clients over one connection, each with the cookies of its own session."""

    uri: str
    jar: CookieJar = field(default_factory=CookieJar)
    cookies: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = flight.connect(self.uri, middleware=[self.jar])

    def take(self, number: int | None = None) -> None:
        """Be a client that is known, or a new one, in the calls that follow."""
        self.jar.cookies = {} if number is None else dict(self.cookies[number])
        if number is None:
            self.value("SELECT 1")  # its answer has the cookie

    def keep(self) -> None:
        """Remember the client of the last calls."""
        self.cookies.append(dict(self.jar.cookies))

    def act(self, action: Action) -> None:
        act(self.connection, action)

    def run(self, sql: str) -> None:
        """Run a statement that returns no rows."""
        put(self.connection, wire.StatementUpdate(query=sql))

    def value(self, sql: str) -> object:
        """The one value of a query."""
        return reader(self.connection, sql).read_all().column(0)[0].as_py()


def connected(server: Server, stack: ExitStack) -> list[flight.FlightClient]:
    """Connections for many streams: gRPC has 100 of them on one."""
    return [stack.enter_context(flight.connect(server.uri)) for _ in range(STREAMS // 20)]


def resident(server: Server) -> int:
    """The memory of a server's process, in bytes."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


def open_files(server: Server) -> int:
    return sum(1 for _ in Path(f"/proc/{server.process.pid}/fd").iterdir())


def threads(server: Server) -> int:
    return sum(1 for _ in Path(f"/proc/{server.process.pid}/task").iterdir())


def places(server: Server) -> int:
    """The private places of a root, of which each session with temporary tables has one."""
    return sum(path.is_dir() and path.name not in {"leases", "reserve"} for path in (server.root / PRIVATE).iterdir())


def test_sessions_beyond_the_limit_end_and_take_along_what_they_had(server: Server, say: Callable[[str], None]) -> None:
    """Each client has a setting and a temporary table; those that were not heard of for longest are ended, and told so."""
    clients, before, files = Clients(server.uri), resident(server), open_files(server)
    for number in range(MANY):
        clients.take()
        clients.run(f"CREATE TEMPORARY TABLE mine AS SELECT {number} AS n")
        clients.keep()
    grown = resident(server) - before
    assert places(server) <= MOST + 1
    told = Counter[str]()
    for number in range(MANY - 1, -1, -1):
        clients.take(number)
        try:
            assert clients.value("SELECT n FROM mine") == number
        except (flight.FlightError, pa.ArrowInvalid, KeyError) as error:
            told["ended" if ENDED in str(error) else str(error)] += 1
        else:
            told["answered"] += 1
    assert told["answered"] >= MOST - 2
    assert told.keys() == {"answered", "ended"}
    assert server.value("SELECT count(*) FROM t") == 100
    for number in range(MANY):
        clients.take(number)
        with suppress(flight.FlightError, pa.ArrowInvalid, KeyError):
            clients.act(wire.CloseSession())
    until(lambda: places(server) == 0)
    assert open_files(server) < files + 30
    say(
        f"{MANY} sessions with a temporary table each, {MOST} kept: {dict(told)};"
        f" {grown / MANY / 1024:.0f} KiB each, {(resident(server) - before) / MIB:.0f} MiB left afterwards"
    )


def test_prepared_statements_cost_a_server_nothing(server: Server, say: Callable[[str], None]) -> None:
    """Handles carry all that they need: none of them is forgotten, however many there are."""
    clients = Clients(server.uri)

    def prepared(number: int) -> bytes:
        return bytes(prepare(clients.connection, f"SELECT {number} AS n").prepared_statement_handle)

    handles = [prepared(number) for number in range(100)]
    before = resident(server)
    handles += [prepared(number) for number in range(100, MANY)]
    grown = resident(server) - before
    for number in (0, 1, MANY // 2, MANY - 1):
        command = wire.PreparedStatementQuery(prepared_statement_handle=handles[number])
        info = clients.connection.get_flight_info(descriptor(command))
        assert clients.connection.do_get(info.endpoints[0].ticket).read_all()["n"].to_pylist() == [number]
    assert grown < 64 * MIB
    say(f"{MANY} prepared statements: {grown / MIB:.0f} MiB")


def test_slow_readers_keep_nobody_waiting(server: Server, say: Callable[[str], None]) -> None:
    before, running = resident(server), threads(server)
    grown = []
    for _ in range(2):
        with ExitStack() as stack:
            slow, refused = open_slowly(server, stack)
            grown.append(resident(server) - before)
            assert server.value("SELECT count(*) FROM t") == 100
            assert server.run("INSERT INTO t VALUES (1000)") == 1
            assert server.run("DELETE FROM t WHERE id = 1000") == 1
            for each in slow[:: max(STREAMS // 20, 1)]:
                assert each.read_chunk().data.num_rows
            for each in slow:
                each.cancel()
        until(lambda: server.value("SELECT count(*) FROM system.queries") == 1)
        until(lambda: threads(server) < running + 100)
        assert refused.keys() <= {"limit_exceeded", "unavailable"}
    first, second = (each / MIB for each in grown)
    say(
        f"{STREAMS} slow readers: {len(slow)} served, refused {dict(refused)}; {first / STREAMS:.1f} MiB each,"
        f" {first:.0f} MiB in all, {second:.0f} MiB with as many again; {(resident(server) - before) / MIB:.0f} MiB left afterwards"
    )


def open_slowly(server: Server, stack: ExitStack) -> tuple[list[flight.FlightStreamReader], Counter[str]]:
    """Open many streams and read the first batch of each; and the codes of those that were refused."""
    slow, refused = [], Counter[str]()
    for client in islice(cycle(connected(server, stack)), STREAMS):
        try:
            opened = reader(client, BIG)
            assert opened.read_chunk().data.num_rows
        except flight.FlightError as error:
            refused.update(re.findall(r"\[([a-z_]+)\]", str(error))[:1])
        else:
            slow.append(opened)
    return slow, refused


def test_slow_senders_are_given_up_and_nothing_of_them_is_stored(server: Server, say: Callable[[str], None]) -> None:
    schema = pa.schema({"id": pa.int64()})
    ingests = "SELECT count(*) FROM system.queries WHERE kind = 'ingest'"
    before, outcomes = resident(server), Counter[str]()
    with ExitStack() as stack:
        senders, connections = [], connected(server, stack)
        for number, client in enumerate(islice(cycle(connections), STREAMS)):
            writer, _ = client.do_put(descriptor(INGEST), schema)
            writer.write_batch(pa.record_batch({"id": [number]}, schema=schema))
            senders.append(writer)
        assert server.value("SELECT count(*) FROM t") == 100
        assert server.run("INSERT INTO t VALUES (1000)") == 1
        assert server.run("DELETE FROM t WHERE id = 1000") == 1
        until(lambda: server.value(ingests) == 0)
        for writer in senders:
            try:
                writer.close()
            except flight.FlightError as error:
                outcomes.update(re.findall(r"\[([a-z_]+)\]", str(error))[:1])
            else:
                outcomes["stored"] += 1
    stored = server.value("SELECT count(*) FROM t")
    assert stored == 100 + outcomes["stored"]
    assert outcomes.keys() <= {"limit_exceeded", "stored"}
    left = resident(server) - before
    say(f"{STREAMS} slow senders: {dict(outcomes)}; {left / MIB:.0f} MiB left afterwards")
    assert left < 256 * MIB + STREAMS * MIB // 4


def test_a_server_without_file_handles_says_so_and_goes_on(tmp_path: Path) -> None:
    """Each session with temporary tables holds a lock; what is too much for the process is no internal error."""
    with serving(tmp_path / "root") as server:
        server.ingest("t", pa.table({"id": [1]}))
        clients, told = Clients(server.uri), ""
        clients.value("SELECT count(*) FROM t")
        hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (open_files(server) + 24, hard))
        for _ in range(60):
            clients.take()
            try:
                clients.run("CREATE TEMPORARY TABLE mine AS SELECT 1 AS n")
            except flight.FlightError as error:
                told = str(error)
            clients.keep()
            if told:
                break
        assert "[54000] [limit_exceeded] the server has as many files open as it may" in told
        for number in range(len(clients.cookies)):
            clients.take(number)
            clients.act(wire.CloseSession())
        until(lambda: places(server) == 0)
        clients.take()
        clients.run("CREATE TEMPORARY TABLE mine AS SELECT 1 AS n")
        assert clients.value("SELECT n FROM mine") == 1
