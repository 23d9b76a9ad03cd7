"""Connections of one login to the server, each in a session that reads only unless writes are wanted."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa

from lance_flight_client.adbc import COOKIES, Credentials, StatementAnswer, connect, execute, query, run_statement
from lance_flight_client.errors import ServerError

_MOST_KNOWN_BYTES = 32 << 20
OWN = "/* console */ "
"""What every statement of the console's own begins with, so that pages can leave them out of what users have run."""
_CODED = re.compile(r"\[FlightSQL\] \[\w+\] \[\w+\]")
_NO_SESSION = "finds no session"
_AROUND = re.compile(r"^([A-Z_]+: )?\[FlightSQL\] (\[\w{5}\] )?|\.? Detail: .*|[.;] Vendor code: .*", re.DOTALL)
"""What the driver puts around the words of the server."""
_CODE_FIRST = re.compile(r"\A\[(\w+)\] (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConsoleLimits:
    """Bounds of what the console asks: rows shown of a query, and seconds that one may take."""

    rows: int = 10_000
    seconds: float = 30.0


class KnownPartitions:
    """Cache of `t$partitions` at snapshots, which never change, up to so many bytes. Safe to share among threads.

    A snapshot is a version and the moment of its commit: a table that is dropped and made again counts from the same versions.
    """

    def __init__(self, most_bytes: int = _MOST_KNOWN_BYTES) -> None:
        self._most_bytes = most_bytes
        self._known: OrderedDict[tuple[str, datetime], pa.Table] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, sql: str, committed: datetime | None, ask: Callable[[str], pa.Table]) -> pa.Table:
        """Return what a query about the snapshot of a moment gives (None: not known, asked for each time)."""
        if committed is None:
            return ask(sql)
        with self._lock:
            found = self._known.get((sql, committed))
            if found is not None:
                self._known.move_to_end((sql, committed))
                return found
        found = ask(sql)
        # Partitions that float with a branch or a tag change without a snapshot.
        is_pinned = not found["read_version"].null_count and found["read_tag"].null_count == found.num_rows
        if is_pinned and found.nbytes <= self._most_bytes:
            with self._lock:
                self._known[sql, committed] = found
                while sum(query.nbytes for query in self._known.values()) > self._most_bytes:
                    self._known.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True)
class ConsoleServer:
    """The server as one login sees it; threads borrow its connections."""

    uri: str
    credentials: Credentials
    limits: ConsoleLimits = field(default_factory=ConsoleLimits)
    writes: bool = False
    partitions: KnownPartitions = field(default_factory=KnownPartitions, repr=False)
    _idle: SimpleQueue[Any] = field(default_factory=SimpleQueue, repr=False)
    _closed: threading.Event = field(default_factory=threading.Event, repr=False)

    def rows(self, sql: str) -> pa.Table:
        """Return all rows of a query of the console's own, on a connection that is kept for the next one."""
        try:
            found = self._rows_of_idle(sql)
            return self._rows_of(self._begun(), sql) if found is None else found
        except ServerError as exc:
            raise _plain(exc) from exc

    @contextmanager
    def answer(
        self,
        sql: str,
        begins: Callable[[Callable[[], None]], None] | None = None,
        *,
        writes: bool | None = None,
        parameters: pa.RecordBatch | None = None,
        before: Sequence[str] = (),
        session: Callable[[str], None] | None = None,
        ended: Callable[[int | None, int], None] = lambda _rows, _affected: None,
    ) -> Iterator[StatementAnswer]:
        """Run a statement of a user in a session of its own, so that no SET or BEGIN reaches another one.

        Its rows come as they are read; `begins` is given what cancels it. `writes` says whether it may change anything (None: as
        the console may). Statements `before` it run first, in the same session; `ended` is given the rows of each (None: it has
        none) and how many it affected. `session` is given the id of the session before anything runs.
        """
        try:
            connection = self._begun(writes=self.writes if writes is None else writes and self.writes)
            try:
                if session is not None:
                    session(_session_of(connection))
                for earlier in before:
                    with run_statement(connection, earlier, begins) as answer:
                        rows = sum(batch.num_rows for batch in answer.batches)
                        ended(rows if len(answer.schema) else None, answer.affected)
                with run_statement(connection, sql, begins, parameters) as answer:
                    yield answer
            finally:
                connection.close()
        except ServerError as exc:
            raise _plain(exc) from exc

    def close(self) -> None:
        """Close the connections, those that are lent once they are given back."""
        self._closed.set()
        self._close_idle()

    def _rows_of_idle(self, sql: str) -> pa.Table | None:
        """Return the rows by a connection that is there; None without one whose session goes on."""
        try:
            return self._rows_of(self._idle.get_nowait(), sql)
        except Empty:
            return None
        except ServerError as exc:
            if _CODED.search(str(exc)) and _NO_SESSION not in str(exc):
                raise
            # It has ended with its server, or by idleness, and so have those of the others.
            self._close_idle()
            return None

    def _rows_of(self, connection: Any, sql: str) -> pa.Table:
        try:
            found = query(connection, OWN + sql)
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        if self._closed.is_set():
            self._close_idle()
        return found

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _begun(self, *, writes: bool = False) -> Any:
        made = connect(self.uri, self.credentials, {COOKIES: "true"})
        try:
            execute(made, f"{OWN}SET statement_timeout = '{self.limits.seconds:g}'")
            if not writes:
                execute(made, f"{OWN}SET access = 'read'")
        except BaseException:
            made.close()
            raise
        return made


def _session_of(connection: Any) -> str:
    """Return the id of a connection's session, where a query finds itself by a word of its own."""
    word = secrets.token_hex(8)
    found = query(connection, f"{OWN}SELECT session FROM system.queries WHERE sql LIKE '%{word}%' LIMIT 1")
    return str(found["session"][0].as_py())


def _plain(error: ServerError) -> ServerError:
    """Return an error in the words of the server alone: the cause, and the code after it."""
    return ServerError(words_of(str(error)))


def words_of(error: str) -> str:
    """Return what a server said of an error: the cause first, for people, and the code last, for those who look it up.

    >>> words_of("NOT_FOUND: [FlightSQL] [42S02] [not_found] no table 't'. Detail: Python exception: Missing (Prepare)")
    "no table 't' (not_found)"
    >>> words_of("UNKNOWN: [FlightSQL] connection refused (Unavailable; Prepare)")
    'connection refused (Unavailable; Prepare)'
    """
    return _CODE_FIRST.sub(r"\2 (\1)", _AROUND.sub("", error), count=1)
