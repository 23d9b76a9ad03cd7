"""Progress of a statement that runs, as the server has it in `system.queries`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any, Self

from lance_flight_client.adbc import execute
from lance_flight_client.errors import ServerError
from lance_flight_client.terminal import ERASED, draw, printable

from lance_flight.cli.connecting import ChosenServer
from lance_flight.engine.sql.references import text_literal

_PATIENCE = 1.0
"""Seconds after which a statement is asked about."""


@dataclass(slots=True)
class Progress:
    """Shows how far a statement is, while standard error is a terminal."""

    server: ChosenServer
    sql: str
    _began: float = field(default_factory=time.perf_counter)
    _connection: Any = field(default=None, repr=False)
    _is_shown: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            draw(ERASED, sys.stderr)
        if self._connection is not None:
            self._connection.close()

    def show(self) -> None:
        """Show the time, and what the server says of the statement."""
        seconds = time.perf_counter() - self._began
        if seconds < _PATIENCE or not sys.stderr.isatty():
            return
        self._is_shown = True
        draw(f"{ERASED}{seconds:,.0f} s{printable(self._said())}, Ctrl-C cancels", sys.stderr)

    def _said(self) -> str:
        query = (
            "SELECT state, partitions_scanned, partitions_total, rows, bytes FROM system.queries"  # noqa: S608 - quoted
            f" WHERE sql = {text_literal(self.sql)} ORDER BY began DESC LIMIT 1"
        )
        try:
            if self._connection is None:
                self._connection = self.server.connect()
            rows = execute(self._connection, query).rows
        except ServerError:
            # The statement goes on; only what is said of it is missing.
            return ""
        if rows is None or not rows.num_rows:
            return ""
        state, partitions, total, count, size = (column[0].as_py() for column in rows.columns)
        scanned = f", {partitions:,} of {total:,} partitions" if total else ""
        sent = f", {size / 1e6:,.1f} MB" if size else ""
        return f" {state}{scanned}, {count or 0:,} rows{sent}"
