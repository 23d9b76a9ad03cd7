"""A real server process over a directory, and a client of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from pyarrow import flight

from tests.service.forked import Forked

COMMAND = str(Path(sys.executable).with_name("lance-flight"))
SERVE = (COMMAND, "serve", "--no-supervise", "--create")
"""One process, which a test can kill, over a root that need not be there."""
COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
"""Options of a connection whose driver keeps cookies, and by them its session."""
PARTITION_BY = "adbc.flight.sql.rpc.call_header.lance-flight-partition-by"
PRIVATE, LEASES = ".lance-flight", "leases"
_TICK = 0.05
_NUMBERS = count(1)
_PATIENCE = 60.0


class Asking:
    """Statements over one ADBC connection."""

    connection: dbapi.Connection

    def query(self, sql: str, parameters: Sequence[Any] | pa.RecordBatch | None = None) -> pa.Table:
        """All rows of a query."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetch_arrow_table()

    def rows(self, sql: str, parameters: Sequence[Any] | pa.RecordBatch | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query, as tuples."""
        table = self.query(sql, parameters)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def value(self, sql: str, parameters: Sequence[Any] | pa.RecordBatch | None = None) -> Any:
        """The one value of a query."""
        ((value,),) = self.rows(sql, parameters)
        return value

    def run(self, sql: str, parameters: Sequence[Any] | None = None) -> int:
        """Run a statement that returns no rows; how many it affected."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return int(cursor.rowcount)

    def ingest(self, table: str, data: Any, mode: str = "create", *, partition_by: str | None = None, **at: Any) -> int:
        """Send rows; how many the server says it stored."""
        with self.connection.cursor() as cursor:
            if partition_by is not None:
                cursor.adbc_statement.set_options(**{PARTITION_BY: partition_by})
            return int(cursor.adbc_ingest(table, data, mode=mode, **at))

    def refuses(self, sql: str, parameters: Sequence[Any] | None = None) -> str:
        """Run a statement that must fail; what the server says."""
        with pytest.raises(Error) as raised:
            self.rows(sql, parameters)
        return str(raised.value)


@dataclass(frozen=True)
class Client(Asking):
    """A connection of one session."""

    connection: dbapi.Connection

    def close(self) -> None:
        """Close the connection, and with it the session."""
        self.connection.close()


@dataclass(frozen=True)
class Server(Asking):
    """A running `lance-flight serve`."""

    root: Path
    uri: str
    process: subprocess.Popen[str] | Forked

    @cached_property
    def connection(self) -> dbapi.Connection:
        """One ADBC connection, kept open."""
        return dbapi.connect(self.uri, autocommit=True)

    @cached_property
    def client(self) -> flight.FlightClient:
        """One plain Flight client, kept open."""
        return flight.connect(self.uri)

    def session(self, options: Mapping[str, str] = COOKIES, *, autocommit: bool = True) -> closing[Client]:
        """Open a connection with a session of its own, which a cookie tells unless other options do."""
        return closing(Client(dbapi.connect(self.uri, db_kwargs=dict(options), autocommit=autocommit)))

    def copy(self, table: str, name: str) -> str:
        """Put a copy of a partitioned table beside it, which is quicker than writing it again; its name."""
        shutil.copytree(self.root / table, self.root / name)
        return name

    def close(self) -> None:
        """Close whatever clients were opened."""
        for name in ("connection", "client"):
            if name in self.__dict__:
                self.__dict__[name].close()


@contextmanager
def serving(
    root: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    is_forked: bool = True,
) -> Iterator[Server]:
    """A server over `root` on a free port; it is asked to stop, and must exit with 0, at the end."""
    ready = _ready_file(root)
    with serving_uri(str(root), ready, *arguments, environment=environment, log=log, is_forked=is_forked) as server:
        yield server


@contextmanager
def serving_uri(
    root: str,
    ready: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    is_forked: bool = True,
) -> Iterator[Server]:
    """The same for a root of any kind; `ready` is the file that the server writes, `log` one for what it logs."""
    with started_uri(root, ready, *arguments, environment=environment, log=log, is_forked=is_forked) as server:
        yield server
        server.close()
        server.process.terminate()
        assert _exit_code(server.process) == 0


@contextmanager
def started(root: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server over `root` on a free port; whether and how it ends is left to the caller."""
    with started_uri(str(root), _ready_file(root), *arguments, environment=environment) as server:
        yield server


@contextmanager
def started_uri(
    root: str,
    ready: Path,
    *arguments: str,
    environment: Mapping[str, str] | None,
    log: Path | None = None,
    is_forked: bool = True,
) -> Iterator[Server]:
    """The same for a root of any kind; `ready` is the file that the server writes.

    It is forked from a process that has imported all it needs, or the command itself for who looks at how that starts.
    """
    ready.unlink(missing_ok=True)
    command = [*SERVE, root, "--port", "0", "--ready-file", str(ready), *arguments]
    start = Forked if is_forked else _command
    with start(command[1:], environment=environment, log=log) as process:
        try:
            yield Server(Path(root), _uri(ready, process), process)
        finally:
            process.kill()


@contextmanager
def _command(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: Path | None
) -> Iterator[subprocess.Popen[str]]:
    """The command as somebody types it."""
    with (
        nullcontext() if log is None else log.open("w") as errors,
        subprocess.Popen(
            [COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=errors, text=True, env=environment
        ) as process,
    ):
        yield process


def _ready_file(root: Path) -> Path:
    """A file beside a root that no other server writes."""
    return root.parent / f"{root.name}.{next(_NUMBERS)}.ready"


def _exit_code(process: subprocess.Popen[str] | Forked) -> int:
    """How a server that was asked to stop ended; one that does not end first shows where its threads are."""
    try:
        return process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TICK)
        raise


def _uri(ready: Path, process: subprocess.Popen[str] | Forked) -> str:
    """What the ready file says, as soon as there is one."""
    for _ in range(int(_PATIENCE / _TICK)):
        if ready.exists():
            return ready.read_text()
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the server exited with {process.wait(_TICK)} before it was ready")
    pytest.fail("the server did not become ready")


def files(root: Path) -> set[str]:
    """Every file and directory below `root` but for the leases of readers, which come and go by themselves.

    Equal before and after means that nothing was written.
    """
    # By hand: a root that hundreds of tests share is listed before and after many of them.
    found, places = set(), [""]
    while places:
        above = places.pop()
        try:
            entries = list(os.scandir(root / above))
        except FileNotFoundError:
            # A draft that the server was removing.
            continue
        for entry in entries:
            path = above + entry.name
            if (above and entry.name == PRIVATE) or path == f"{PRIVATE}/{LEASES}":
                continue
            if path != PRIVATE:
                # A lease on a table makes the directory.
                found.add(path)
            if entry.is_dir(follow_symlinks=False):
                places.append(path + "/")
    return found
