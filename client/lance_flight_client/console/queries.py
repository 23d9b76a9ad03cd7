"""Queries of the editor: each runs in a thread of its own, and its rows are fetched as they come, up to a limit."""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.errors import ServerError

MOST_QUERIES = 20
MOST_RUNNING = 4
MOST_TEXT = 2_000
"""Most characters that are shown of one value."""
_WAIT = 0.25


class TooManyQueries(Exception):
    """A browser has as many running queries as it may have."""


@dataclass(slots=True)
class ConsoleQuery:
    """A query that runs, or has ended; its rows as texts."""

    sql: str
    began: float = field(default_factory=time.monotonic)
    columns: list[dict[str, str]] | None = None
    rows: list[list[str | None]] = field(default_factory=list)
    affected: int = -1
    is_cut: bool = False
    error: str | None = None
    seconds: float | None = None
    _cancel: Callable[[], None] = lambda: None
    _is_cancelled: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, server: ConsoleServer) -> None:
        """Run it to its end, on the thread of the caller."""
        try:
            with server.answer(self.sql, self._begins) as answer:
                kinds = [{"name": each.name, "type": str(each.type)} for each in answer.schema]
                with self._changed:
                    self.columns, self.affected = kinds, answer.affected
                    self._changed.notify_all()
                for batch in answer.batches:
                    if not self._take(batch, server.limits.rows):
                        break
        except ServerError as exc:
            self.error = "cancelled" if self._is_cancelled else str(exc)
        finally:
            with self._changed:
                self.seconds = time.monotonic() - self.began
                self._changed.notify_all()

    def state(self, after: int) -> dict[str, Any]:
        """Return what there is beyond so many rows, and wait for a moment if there is nothing."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.rows) > after or self.seconds is not None, _WAIT)
            return {
                "columns": self.columns,
                "rows": self.rows[after:],
                "count": len(self.rows),
                "affected": self.affected,
                "cut": self.is_cut,
                "error": self.error,
                "done": self.seconds is not None,
                "seconds": time.monotonic() - self.began if self.seconds is None else self.seconds,
            }

    def cancel(self) -> None:
        """Have the server end it."""
        self._is_cancelled = True
        # It may have ended at this moment.
        with suppress(Exception):
            self._cancel()

    def _begins(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel

    def _take(self, batch: pa.RecordBatch, most: int) -> bool:
        """Add rows, as far as they are shown, and return whether more are wanted."""
        room = most - len(self.rows)
        shown = [[shown_value(value) for value in column.slice(0, room).to_pylist()] for column in batch.columns]
        with self._changed:
            self.rows += [list(row) for row in zip(*shown, strict=True)] if shown else []
            self.is_cut = batch.num_rows > room
            self._changed.notify_all()
        return not self.is_cut


def shown_value(value: Any) -> str | None:
    """Return a value as it is shown: long ones are cut, bytes are Base64.

    >>> shown_value(None), shown_value(b"a"), shown_value(1.5), shown_value("x" * 3000)[-14:]
    (None, 'YQ==', '1.5', '… (1,000 more)')
    """
    if value is None:
        return None
    text = base64.b64encode(value[:MOST_TEXT]).decode() if isinstance(value, bytes) else str(value)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}… ({len(text) - MOST_TEXT:,} more)"


class ConsoleQueries:
    """The queries of one browser, the oldest of which are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, ConsoleQuery] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, server: ConsoleServer, sql: str) -> str:
        """Run a query in the background, and return its id; `TooManyQueries` beside as many as may run."""
        query, number = ConsoleQuery(sql), secrets.token_urlsafe(12)
        with self._lock:
            if sum(each.seconds is None for each in self._known.values()) >= MOST_RUNNING:
                raise TooManyQueries(f"{MOST_RUNNING} queries of this browser run; expected one of them to end first")
            self._known[number] = query
            while len(self._known) > MOST_QUERIES:
                self._known.popitem(last=False)[1].cancel()
        threading.Thread(target=query.run, args=(server,), name="console query", daemon=True).start()
        return number

    def find(self, number: str) -> ConsoleQuery | None:
        """Return a query by its id."""
        with self._lock:
            return self._known.get(number)

    def close(self) -> None:
        """Cancel all that run."""
        with self._lock:
            running = [each for each in self._known.values() if each.seconds is None]
        for each in running:
            each.cancel()
