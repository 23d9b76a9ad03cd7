"""Connections of one login to the server, each in a session that reads only unless writes are wanted."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa

from lance_flight_client.adbc import Credentials, StatementAnswer, answered, connect, execute
from lance_flight_client.errors import ServerError

_MOST_KNOWN = 16
_AROUND = re.compile(r"^[A-Z_]+: \[FlightSQL\] (\[\w+\] )?|\.? Detail: .*|[.;] Vendor code: .*", re.DOTALL)
"""What the driver puts around the words of the server."""
_COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}


@dataclass(frozen=True, slots=True)
class ConsoleLimits:
    """Bounds of what the console asks: rows shown of a query, and seconds that one may take."""

    rows: int = 10_000
    seconds: float = 30.0


class KnownPartitions:
    """The partitions of some tables at versions that were looked at last: a version never changes. Safe to share among threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, pa.Table] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, sql: str, version: int | None, ask: Callable[[str], pa.Table]) -> pa.Table:
        """Return what a query gives, which is about a version (None: the newest one, asked for each time)."""
        with self._lock:
            found = self._known.get(sql) if version is not None else None
        if found is None:
            found = ask(sql)
            with self._lock:
                self._known[sql] = found
                while len(self._known) > _MOST_KNOWN:
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

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Lend a connection; one whose statement failed is not used again."""
        try:
            lent = self._idle.get_nowait()
        except Empty:
            lent = self._begun()
        try:
            yield lent
        except ServerError as exc:
            lent.close()
            raise ServerError(_AROUND.sub("", str(exc))) from exc
        except BaseException:
            lent.close()
            raise
        self._idle.put(lent)

    def rows(self, sql: str) -> pa.Table:
        """Return all rows of a query of the console's own."""
        with self.connection() as connection:
            found = execute(connection, sql).rows
        return pa.table({}) if found is None else found

    @contextmanager
    def answer(self, sql: str, begins: Callable[[Callable[[], None]], None] | None = None) -> Iterator[StatementAnswer]:
        """Run a statement of a user, whose rows come as they are read; `begins` is given what cancels it."""
        with self.connection() as connection, answered(connection, sql, begins) as answer:
            yield answer

    def reading(self) -> ConsoleServer:
        """Return the same server without writes, and with connections of its own."""
        return ConsoleServer(self.uri, self.credentials, self.limits)

    def close(self) -> None:
        """Close the connections that are not lent."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _begun(self) -> Any:
        made = connect(self.uri, self.credentials, _COOKIES)
        try:
            execute(made, f"SET statement_timeout = '{self.limits.seconds:g}'")
            if not self.writes:
                execute(made, "SET access = 'read'")
        except ServerError:
            made.close()
            raise
        return made
