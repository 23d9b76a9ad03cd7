"""Settings that change while a server runs: each holds once it is reloaded, and what cannot be is said."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight import config
from lance_flight.config import ServerConfig
from lance_flight.errors import InvalidInput
from lance_flight.flight.wire import StatementIngest, TableDefinitionOptions
from lance_flight.serving.supervisor import Child, ChildSpec, Reloader
from pyarrow import flight

from tests.engine.waiting import PATIENCE, until
from tests.flight.statements import descriptor, planned, reader
from tests.service.replicated import Replicated, replicated
from tests.service.server_process import COMMAND, Server, serving, started_uri
from tests.service.supervised import Supervised, supervised

MIB = 1 << 20
LONG = "SELECT count(*) AS n FROM generate_series(1, 100000000000) AS t (v) WHERE sin(v) > 2"
MANY = "generate_series(1, 20000000)"
STARVING = f"SELECT count(*) AS n FROM {MANY} AS a JOIN {MANY} AS b ON a.value = b.value + 1"


NUMBERS = count()


@dataclass
class Reloading:
    """A server with a configuration file."""

    server: Server
    file: Path
    log: Path
    begins: int = 0

    def said(self) -> str:
        """What the server has logged since the test began."""
        return self.log.read_text()[self.begins :]

    def reload(self, settings: Mapping[str, Any]) -> None:
        """Write the file, have it read, and wait until the server says so."""
        before = len(re.findall("setting .* is .* now", self.said()))
        write(self.file, settings)
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: len(re.findall("setting .* is .* now", self.said())) > before)


def write(file: Path, settings: Mapping[str, Any]) -> None:
    """Write a configuration file, whole at once."""
    draft = file.with_suffix(".draft")
    draft.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    draft.replace(file)


@contextmanager
def reloading(place: Path, settings: Mapping[str, Any]) -> Iterator[Reloading]:
    file, log = place / "lance-flight.toml", place / "log"
    write(file, settings)
    with started_uri(str(place / "root"), place / "ready", "--config", str(file), environment=None, log=log) as server:
        yield Reloading(server, file, log)
        server.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloading]:
    with reloading(tmp_path_factory.mktemp("reloading"), {}) as found:
        yield found


@pytest.fixture
def reloaded(shared: Reloading) -> Iterator[Reloading]:
    """A server of all tests, which has the settings that it began with again after each."""
    shared.begins = len(shared.log.read_text())
    yield shared
    shared.reload({})


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Reloading]:
    """A server that a test stops."""
    with reloading(tmp_path, {}) as found:
        yield found


@contextmanager
def at_work(server: Server) -> Iterator[None]:
    """A statement that runs and has its slot until the block ends."""
    with flight.connect(server.uri) as client:
        result = reader(client, LONG)

        def read() -> None:
            with suppress(flight.FlightError, pa.ArrowException, OSError):
                result.read_chunk()

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        try:
            yield
        finally:
            result.cancel()
            reading.join(PATIENCE)


def is_refused(server: Server, sql: str, message: str) -> bool:
    try:
        server.rows(sql)
    except Error as exc:
        return message in str(exc)
    return False


def of_memory(reloaded: Reloading) -> None:
    assert "[out_of_memory]" in reloaded.server.refuses(STARVING)


def of_running(reloaded: Reloading) -> None:
    # What an earlier test has cancelled has its slot for a moment.
    others = "SELECT count(*) AS n FROM system.queries WHERE sql NOT LIKE '%system.queries%'"
    until(lambda: reloaded.server.value(others) == 0)
    with at_work(reloaded.server):
        until(lambda: is_refused(reloaded.server, "SELECT 1", "1 statements are at work, of 1 "))


def of_peers(reloaded: Reloading) -> None:
    sql = "SELECT 'over there' AS place"
    with serving(reloaded.server.root) as other:
        other.query(sql)
        settings = {"peers": other.uri}
        reloaded.reload(settings)
        assert reloaded.server.value("SELECT count(*) AS n FROM system.statements WHERE sql = ?", [sql]) >= 1


def of_statement_timeout(reloaded: Reloading) -> None:
    assert "[statement_timeout]" in reloaded.server.refuses(LONG)


def of_planning_timeout(reloaded: Reloading) -> None:
    sql = "SELECT levenshtein(repeat('a', 20000), repeat('b', 20000)) AS n"
    assert "the setting planning_timeout" in reloaded.server.refuses(sql)


def of_statement_limit(reloaded: Reloading) -> None:
    assert "expected at most 30, the setting statement_limit" in reloaded.server.refuses(f"SELECT '{'x' * 40}'")


def of_ticket_lifetime(reloaded: Reloading) -> None:
    expires = planned(reloaded.server.client, "SELECT 1").endpoints[0].expiration_time
    assert expires.as_py() < datetime.now(UTC) + timedelta(seconds=100)


def of_ingest_idle_timeout(reloaded: Reloading) -> None:
    options = TableDefinitionOptions(if_not_exist=1, if_exists=2)
    command = descriptor(StatementIngest(table=f"t{next(NUMBERS)}", table_definition_options=options))
    ingests = "SELECT count(*) AS n FROM system.statements WHERE kind = 'ingest' AND outcome = 'limit_exceeded'"
    before = reloaded.server.value(ingests)
    with flight.connect(reloaded.server.uri) as client:
        writer, _ = client.do_put(command, pa.schema({"id": pa.int64()}))
        batch = pa.record_batch({"id": list(range(5000))})
        writer.write_batch(batch)
        until(lambda: reloaded.server.value(ingests) == before + 1)


@contextmanager
def unread(server: Server) -> Iterator[flight.FlightStreamReader]:
    """A result of which a client has taken the first rows, and no others."""
    with flight.connect(server.uri) as client:
        result = reader(client, "SELECT value, repeat('x', 1000) AS word FROM generate_series(1, 2000000000)")
        assert result.read_chunk().data.num_rows
        try:
            yield result
        finally:
            result.cancel()


def of_stream_idle_timeout(reloaded: Reloading) -> None:
    ended = "SELECT count(*) AS n FROM system.statements WHERE outcome = 'limit_exceeded'"
    before = reloaded.server.value(ended)
    with unread(reloaded.server) as result:
        until(lambda: reloaded.server.value(ended) == before + 1)
        with pytest.raises(flight.FlightError, match=r"0\.1 seconds \(stream_idle_timeout\)"):  # noqa: PT012 - at which rows is no matter
            for _ in range(200):
                result.read_chunk()


def of_stream_memory(reloaded: Reloading) -> None:
    with unread(reloaded.server):
        until(lambda: is_refused(reloaded.server, "SELECT 1", "of 1048576 (stream_memory_limit)"))


def of_batch_limit(reloaded: Reloading) -> None:
    with pytest.raises(Error, match=r"a record batch of 8000 bytes; expected at most 1000"):
        reloaded.server.ingest("large", pa.table({"id": pa.array(range(1000), pa.int64())}))


def of_parameter_limit(reloaded: Reloading) -> None:
    assert "more than 1000 bytes of parameters" in reloaded.server.refuses("SELECT length($1) AS n", ["x" * 2000])


def of_dictionary_ingest(reloaded: Reloading) -> None:
    with pytest.raises(Error, match="dictionary"):
        reloaded.server.ingest("words", pa.table({"word": pa.array(["a", "b"]).dictionary_encode()}))


def of_sessions(reloaded: Reloading) -> None:
    """One who has an open transaction is not forgotten for another."""
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(dbapi.connect(reloaded.server.uri)).cursor().execute("SELECT 1 AS n")
        with pytest.raises(Error, match="2 sessions with open transactions"):
            dbapi.connect(reloaded.server.uri).cursor().execute("SELECT 1 AS n")


def of_running_calls(reloaded: Reloading) -> None:
    """The one call that may run is a result that is read."""
    with unread(reloaded.server):
        until(lambda: is_refused(reloaded.server, "SELECT 1", "1 of all, of 1 (running_calls)"))


def of_session_idle_timeout(reloaded: Reloading) -> None:
    with dbapi.connect(reloaded.server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS n")
        until(lambda: reloaded.server.value("SELECT sum(open_transactions) AS n FROM system.sessions") == 0)
        with pytest.raises(Error, match="idle for too long"):
            connection.commit()


def of_grace(reloaded: Reloading) -> None:
    with at_work(reloaded.server):
        until(lambda: reloaded.server.value("SELECT count(*) AS n FROM system.queries WHERE state = 'running'") > 0)
        reloaded.server.process.terminate()
        assert reloaded.server.process.wait(PATIENCE) == 0
    assert "calls did not end within 0.1 seconds" in reloaded.said()


def of_maintenance(reloaded: Reloading, rounds: int = 2) -> None:
    """More than one round of work: at a small share there is a long rest after the first one."""
    server, table = reloaded.server, f"t{next(NUMBERS)}"
    compacted = (
        "SELECT count(*) AS n FROM system.maintenance WHERE kind = 'compact' AND outcome = 'ok' AND table_name = ?"
    )
    for done in range(rounds):
        for number in range(20):
            server.ingest(table, pa.table({"id": [number]}), "create" if not done and not number else "append")
        until(lambda done=done: server.value(compacted, [table]) > done)


def of_maintenance_off(reloaded: Reloading) -> None:
    of_maintenance(reloaded, rounds=1)
    reloaded.reload({"maintenance": "off", "maintenance_share": 1.0})
    lease = reloaded.server.root / ".lance-flight" / "maintenance.lease"
    with lease.open("r+b") as file:
        until(lambda: is_free(file.fileno()))


def is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def logged(reloaded: Reloading, expected: str) -> None:
    reloaded.server.rows("SELECT 'a text of many characters' AS word")
    until(lambda: re.search(expected, reloaded.said()))


def of_log_level(reloaded: Reloading) -> None:
    reloaded.server.process.terminate()
    assert reloaded.server.process.wait(PATIENCE) == 0
    assert "INFO lance_flight.flight.server: stopping" in reloaded.said()


@dataclass(frozen=True)
class Row:
    """A setting, the configuration before and after, and how the new value is seen."""

    setting: str
    after: Any
    seen: Callable[[Reloading], object]
    before: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)
    server: str = "reloaded"


ROWS = [
    Row("peers", None, of_peers),
    Row("server_memory_limit", 64 * MIB, of_memory),
    Row("memory_limit", 32 * MIB, of_memory),
    Row("running_statements", 1, of_running, beside={"waiting_statements": 0}),
    Row("waiting_statements", 0, of_running, beside={"running_statements": 1}),
    Row("statement_timeout", "300ms", of_statement_timeout),
    Row("planning_timeout", 0.0001, of_planning_timeout),
    Row("statement_limit", 30, of_statement_limit),
    Row("ticket_lifetime", "1min", of_ticket_lifetime),
    Row("ingest_idle_timeout", 0.3, of_ingest_idle_timeout),
    Row("stream_idle_timeout", 0.1, of_stream_idle_timeout),
    Row("stream_memory_limit", MIB, of_stream_memory, beside={"waiting_statements": 0}),
    Row("batch_limit", 1000, of_batch_limit),
    Row("parameter_limit", 1000, of_parameter_limit),
    Row("dictionary_ingest", "off", of_dictionary_ingest),
    Row("sessions", 2, of_sessions, beside={"sessions_per_principal": 2}),
    Row("sessions_per_principal", 2, of_sessions),
    Row("running_calls", 1, of_running_calls),
    Row("session_idle_timeout", 0.5, of_session_idle_timeout),
    Row("grace", 0.1, of_grace, server="alone"),
    Row("maintenance", "on", of_maintenance_off, beside={"maintenance_share": 1.0}),
    Row("maintenance_share", 1.0, of_maintenance, {"maintenance_share": 0.001}, {"maintenance": "on"}),
    Row("log_level", "info", of_log_level, server="alone"),
    Row("log_format", "json", lambda it: logged(it, r'\n\{"time".*SELECT'), beside={"log_statements": True}),
    Row("log_statements", after=True, seen=lambda it: logged(it, "lance_flight.statements: ended .*many characters")),
    Row("log_sql", 9, lambda it: logged(it, 'sql="SELECT .\\\\u2026"|SELECT .…'), beside={"log_statements": True}),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.setting)
def test_a_new_value_holds_when_it_is_reloaded(request: pytest.FixtureRequest, row: Row) -> None:
    reloaded: Reloading = request.getfixturevalue(row.server)
    if first := {**row.beside, **row.before}:
        reloaded.reload(first)
    if row.after is not None:
        reloaded.reload({**row.beside, row.setting: row.after})
    row.seen(reloaded)
    assert f"setting {row.setting} is " in reloaded.said()


def test_the_table_has_every_setting_that_is_reloaded() -> None:
    assert {row.setting for row in ROWS} == set(config.reloadable_values(ServerConfig()))


def test_a_file_that_changes_is_read_without_being_asked_for(reloaded: Reloading) -> None:
    write(reloaded.file, {"statement_limit": 30})
    until(lambda: "setting statement_limit is 30 now, and was 16777216" in reloaded.said())
    of_statement_limit(reloaded)


WRONG = {
    "a bad value": ({"grace": -1}, "setting 'grace' is -1.0; expected 0 or more"),
    "no such setting": ({"gracy": 1}, "has no setting 'gracy'"),
    "a peer that is none": ({"peers": "a:1"}, "setting 'peers' has 'a:1'"),
    "an open host": ({"host": "0.0.0.0"}, "host '0.0.0.0' is not loopback and there is no authentication"),  # noqa: S104
}


def test_an_invalid_configuration_changes_nothing_and_is_said_once(reloaded: Reloading) -> None:
    for settings, message in WRONG.values():
        write(reloaded.file, {"statement_limit": 30, **settings})
        until(lambda message=message: message in reloaded.said())
        assert reloaded.server.value(f"SELECT length('{'x' * 40}') AS n") == 40
    write(reloaded.file, {"statement_limit": 30})
    until(lambda: "setting statement_limit is 30 now" in reloaded.said())
    assert [reloaded.said().count(message) for _, message in WRONG.values()] == [1] * len(WRONG)
    of_statement_limit(reloaded)


def test_what_needs_a_restart_is_named_and_secrets_are_not(reloaded: Reloading) -> None:
    reloaded.reload({
        "host": "localhost", "storage_options": "aws_secret_access_key=hush", "statement_limit": 30, "plain_tables": "listed",
    })  # fmt: skip
    text = reloaded.said()
    for said in (
        "setting host stays '127.0.0.1': its new value 'localhost' needs a restart",
        "setting storage_options stays (hidden): its new value (hidden) needs a restart",
        "setting plain_tables stays 'both': its new value 'listed' needs a restart",
    ):
        assert text.count(said) == 1
    assert "hush" not in text


def test_a_configuration_that_cannot_be_loaded_changes_nothing_whatever_the_reason() -> None:
    loaded = [ServerConfig(sessions=3), InvalidInput("no"), KeyError("of ours"), ServerConfig(sessions=4, port=1)]

    def load() -> ServerConfig:
        found = loaded.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    reloader = Reloader(ServerConfig(), load)
    changed = [reloader.reload(is_asked=True) for _ in range(4)]
    assert changed == [True, False, False, True]
    assert (reloader.settings.sessions, reloader.settings.port) == (4, ServerConfig().port)
    assert not reloader.reload(is_asked=False), "without a file there is nothing to look at"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "lance-flight.toml"
    write(made, {})
    return made


def reload_unchanged(pid: int, log: Path) -> None:
    """Send the signal alone: a changed file is read without it, too."""
    before = log.read_text().count("the configuration is the one that runs")
    os.kill(pid, signal.SIGHUP)
    until(lambda: log.read_text().count("the configuration is the one that runs") > before)


def reload_by_parent(running: Supervised | Replicated, file: Path, settings: Mapping[str, Any]) -> None:
    before = running.log.read_text().count("setting statement_limit is")
    write(file, settings)
    running.process.send_signal(signal.SIGHUP)
    until(lambda: running.log.read_text().count("setting statement_limit is") > before)


def limit_of(uri: str) -> int | None:
    """The bound that a server refuses a statement by; None where it does not."""
    with closing(dbapi.connect(uri, autocommit=True)) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT '{'x' * 100}' AS n")
        except Error as exc:
            found = re.search(r"expected at most (\d+), the setting statement_limit", str(exc))
            return None if found is None else int(found[1])
    return None


def test_the_parent_tells_its_server_and_the_one_that_follows_it(tmp_path: Path, file: Path) -> None:
    with supervised(tmp_path / "place", "--config", str(file)) as running:
        uri = running.next_uri()
        reload_by_parent(running, file, {"statement_limit": 30, "log_level": "error", "host": "localhost"})
        until(lambda: limit_of(uri) == 30)
        assert running.log.read_text().count("its new value 'localhost' needs a restart") == 1, "one process says it"
        os.kill(running.child, signal.SIGKILL)
        assert running.next_uri() == uri
        assert limit_of(uri) == 30
        write(file, {"statement_limit": 40})
        until(lambda: limit_of(uri) == 40)
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 0


def test_every_replica_has_its_share_of_a_new_value(tmp_path: Path, file: Path) -> None:
    with replicated(tmp_path / "place", "--config", str(file)) as running:
        reload_by_parent(running, file, {"statement_limit": 30})
        until(lambda: {limit_of(running.uri) for _ in range(6)} == {30})
        settings = {"statement_limit": 200, "running_statements": 2, "waiting_statements": 0}
        reload_by_parent(running, file, settings)
        server = Server(running.root, running.uri, running.process)

        def shared() -> bool:
            """A connection stays with one replica, which has one of two slots."""
            with flight.connect(running.uri) as client:
                result = reader(client, LONG)
                try:
                    planned(client, "SELECT 1")
                except flight.FlightError as exc:
                    return "1 statements are at work, of 1 " in str(exc)
                finally:
                    result.cancel()
            return False

        until(shared)
        os.kill(running.replicas()[0], signal.SIGKILL)
        running.until("it is started again")
        until(lambda: len(running.replicas()) == 2)
        reload_by_parent(running, file, {"statement_limit": 50})
        reload_unchanged(running.process.pid, running.log)
        until(lambda: {limit_of(running.uri) for _ in range(6)} == {50})
        server.close()
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 0


def test_options_and_the_environment_win_over_the_file_as_at_the_start(tmp_path: Path, file: Path) -> None:
    write(file, {"statement_limit": 50})
    place, log = tmp_path / "root", tmp_path / "log"
    environment = {**os.environ, "LANCE_FLIGHT_STATEMENT_LIMIT": "60"}
    options = ("--config", str(file), "--sessions", "7")
    with serving(place, *options, environment=environment, log=log) as server:
        write(file, {"statement_limit": 70, "sessions": 8, "batch_limit": 1000})
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "setting batch_limit is 1000 now" in log.read_text())
        reload_unchanged(server.process.pid, log)
        assert "sessions" not in log.read_text()
        assert limit_of(server.uri) == 60


def test_a_server_that_does_not_listen_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    control, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with closing(control), closing(receiving):
        control.setblocking(False)  # noqa: FBT003 - a socket's interface
        child = Child(spec=ChildSpec(name="it", run=lambda _: 0, settings=lambda: bytes(60_000)), control=control)
        for _ in range(1000):
            child.send_settings()
    assert "it is not sent its settings" in caplog.text


@pytest.mark.parametrize("arguments", [[], ["--no-supervise"]], ids=["with a parent", "alone"])
def test_a_server_whose_terminal_is_closed_stops(tmp_path: Path, arguments: list[str]) -> None:
    """SIGHUP is then what the terminal sends; nobody could stop the server otherwise."""
    ready = tmp_path / "ready"
    ours, theirs = pty.openpty()
    serve = ["serve", str(tmp_path / "root"), "--create", "--port", "0", "--ready-file", str(ready)]
    with subprocess.Popen(
        [COMMAND, *serve, *arguments],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it is the terminal of that process
    ) as process:
        try:
            os.close(theirs)
            until(ready.exists)
            os.kill(process.pid, signal.SIGHUP)
            with flight.connect(ready.read_text()) as client:
                assert list(client.list_actions()), "with its terminal it reloads, and serves"
            os.close(ours)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
