"""State of the shell: a connection, how results are shown, and where they go."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from lance_flight_client.adbc import answered, execute
from lance_flight_client.terminal import draw, printable

from lance_flight.cli.connecting import ChosenServer
from lance_flight.cli.interrupts import Begins, cancellable
from lance_flight.cli.shell.display import shown, taken
from lance_flight.cli.shell.running import Progress
from lance_flight.errors import InvalidInput

Page = Callable[[str], None]
"""Function that shows a text on the terminal, page by page where it is long."""


@dataclass(slots=True)
class ShellSession:
    """A connection whose statements are shown, one after another, until one of its commands ends it."""

    server: ChosenServer
    page: Page = print
    max_rows: int | None = 100
    is_timed: bool = True
    is_expanded: bool = False
    is_over: bool = False
    output: IO[str] | None = None
    last: str | None = None
    _connection: Any = field(default=None, repr=False)

    @property
    def connection(self) -> Any:
        """The connection, which is made where the last one was lost."""
        if self._connection is None:
            self._connection = self.server.connect()
        return self._connection

    def run(self, sql: str) -> None:
        """Run a statement and show its result; an interrupt cancels it."""
        self.last, began = sql, time.perf_counter()
        connection = self.connection

        def work(begins: Begins) -> str:
            with answered(connection, sql, begins) as answer:
                if not len(answer.schema):
                    return f"{answer.affected:,} rows affected" if answer.affected >= 0 else "done"
                rows, has_more = taken(answer.batches, answer.schema, self.max_rows)
                return shown(rows, expanded=self.is_expanded, has_more=has_more)

        with self.server.naming(self.forget):
            with Progress(self.server, sql) as progress:
                text = cancellable(work, progress.show)
            self.show(text)
        if self.is_timed:
            print(f"{(time.perf_counter() - began) * 1000:,.0f} ms")

    def show(self, text: str) -> None:
        """Show a text on the terminal, or write it where results go."""
        if self.output is None:
            self.page(text)
        else:
            print(text, file=self.output, flush=True)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.server.naming(self.forget):
            found = execute(self.connection, sql).rows
        return [] if found is None else list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def forget(self) -> None:
        """Forget a connection that the server no longer answers, so that the next statement makes another."""
        self._connection = None

    def write_to(self, path: str | None) -> None:
        """Send results to a file, or back to the terminal."""
        if self.output is not None:
            self.output.close()
            self.output = None
        if path is not None:
            try:
                self.output = open(path, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open until another one is said
            except OSError as exc:
                raise InvalidInput(f"{path!r} cannot be written: {exc.strerror}") from exc

    def close(self) -> None:
        """Close what is open."""
        self.write_to(None)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def warn(message: str) -> None:
    """Print an error, in red on a terminal."""
    if sys.stderr.isatty():
        draw(f"\033[31m{printable(message)}\033[0m\n", sys.stderr)
    else:
        print(message, file=sys.stderr)
