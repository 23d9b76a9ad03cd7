"""State of the shell: a connection, results as people read them, where they go, the progress of a statement, and places of errors in it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, Any, Self

import pyarrow as pa
from lance_flight.errors import InvalidInput

from lance_flight_client.adbc import execute, run_statement
from lance_flight_client.cli.arguments import month_note
from lance_flight_client.cli.connecting import Begins, ChosenServer, cancellable
from lance_flight_client.cli.file_tables import SessionFiles
from lance_flight_client.errors import ServerError, plain
from lance_flight_client.output import NULL, align_table, cells, document, is_document, one_line, outcome, text_width
from lance_flight_client.parameters import text_literal
from lance_flight_client.terminal import ERASED, counted, draw, printable

_PLACES = tuple(
    map(
        re.compile,
        (
            r"at line (?P<line>\d+), column (?P<column>\d+)",
            r"at character (?P<character>\d+)",
            r"found: (?P<end>EOF)",
            r"No field named (?P<name>\S+?)\.?(?:\s|$)",
            r"\bno (?:table|view|column|schema|index|setting) '(?P<name>[^']+)'",
            r"(?:Invalid function|may not begin with) '(?P<name>[^']+)'",
            r"'(?P<name>[^']+)' is not a type",
            r"^(?:\[\w+\] )?(?P<name>\w+) does not take ",
        ),
    )
)
"""Forms of the messages of a server that say where an error is: by a place, or by a name that is in the statement."""
_WIDEST = 100
"""Most characters of a line that are shown around the place of an error."""


def point_at_error(message: str, sql: str) -> str:
    r"""Return a message with the line of the statement that it is about, and a caret under the place.

    >>> print(point_at_error("[not_found] no table 'nope'", "SELECT *\nFROM nope"))
    [not_found] no table 'nope'
    LINE 2: FROM nope
                 ^
    >>> point_at_error("[query_failed] Divide by zero error", "SELECT 1/0")
    '[query_failed] Divide by zero error'
    """
    at = _place(message, sql)
    if at is None:
        return message
    start = sql.rfind("\n", 0, at) + 1
    end = sql.find("\n", at)
    line = sql[start : len(sql) if end < 0 else end].replace("\t", " ")
    skipped = max(0, at - start - _WIDEST // 2)
    head = f"LINE {sql.count(chr(10), 0, at) + 1}: " + ("…" if skipped else "")
    return f"{message}\n{head}{line[skipped : skipped + _WIDEST]}\n{' ' * (len(head) + at - start - skipped)}^"


def _place(message: str, sql: str) -> int | None:
    """Return the offset in a statement that a message is about; None where it says none."""
    for pattern in _PLACES:
        match = pattern.search(message)
        if match is None:
            continue
        given = match.groupdict()
        if "line" in given:
            lines = sql.splitlines(keepends=True)[: int(match["line"]) - 1]
            return sum(map(len, lines)) + int(match["column"]) - 1
        if "character" in given:
            return int(match["character"]) - 1
        if "end" in given:
            return len(sql.rstrip())
        named = re.search(rf"(?<![\w.])\"?{re.escape(match['name'])}\"?(?!\w)", sql, re.IGNORECASE)
        return None if named is None else named.start()
    return None


def take_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int | None) -> tuple[pa.Table, bool]:
    """Return the first rows of a result, and whether there are more; no further batch is asked for."""
    taken: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        taken.append(batch)
        count += batch.num_rows
        if limit is not None and count > limit:
            break
    rows = pa.Table.from_batches(taken, schema)
    return (rows, False) if limit is None or count <= limit else (rows.slice(0, limit), True)


def show_rows(rows: pa.Table, *, expanded: bool, has_more: bool = False) -> str:
    """Return rows as text, with their number.

    >>> print(show_rows(pa.table({"origin": ["EWR", None], "n": [12, 345]}), expanded=False))
    origin    n
    EWR      12
    NULL    345
    (2 rows)
    >>> print(show_rows(pa.table({"origin": ["EWR"], "n": [12]}), expanded=True, has_more=True))
    row 1
      origin  EWR
      n       12
    (the first row; there are more)
    """
    if is_document(rows.schema):
        return document(rows)
    text = _show_expanded(rows) if expanded else align_table(rows, null=NULL)
    count = f"the first {rows.num_rows:,} rows" if rows.num_rows > 1 else "the first row"
    return f"{text}\n({count}; there are more)" if has_more else f"{text}\n({counted(rows.num_rows)})"


def _show_expanded(rows: pa.Table) -> str:
    names = [one_line(name) for name in rows.schema.names]
    width = max(map(text_width, names), default=0)
    columns = [cells(column, NULL, None) for column in rows.columns]
    lines = []
    for number in range(rows.num_rows):
        lines.append(f"row {number + 1:,}")
        values = zip(names, columns, strict=True)
        lines += [f"  {name}{' ' * (width - text_width(name))}  {column[number]}" for name, column in values]
    return "\n".join(lines)


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
    _is_asking: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            draw(ERASED, sys.stderr)
        if self._connection is not None and not self._is_asking:
            self._connection.close()

    def show(self) -> None:
        """Show the time, and what the server says of the statement."""
        seconds = time.perf_counter() - self._began
        if seconds < _PATIENCE or not sys.stderr.isatty():
            return
        self._is_shown = True
        draw(f"{ERASED}{seconds:,.0f} s{printable(self._message())}, Ctrl-C cancels", sys.stderr)

    def _message(self) -> str:
        query = (
            "SELECT state, partitions_scanned, partitions_total, rows, bytes FROM system.queries"  # noqa: S608 - quoted
            f" WHERE sql = {text_literal(self.sql)} ORDER BY began DESC LIMIT 1"
        )
        try:
            if self._connection is None:
                self._connection = self.server.connect()
            self._is_asking = True
            # The driver would take an interrupt of the main thread for its own query's.
            rows = cancellable(lambda _: execute(self._connection, query), has_effect=False).rows
            self._is_asking = False
        except ServerError:
            # The statement goes on; only what is said of it is missing.
            self._is_asking = False
            return ""
        if rows is None or not rows.num_rows:
            return ""
        state, partitions, total, count, size = (column[0].as_py() for column in rows.columns)
        scanned = f", {partitions:,} of {counted(total, 'partition')}" if total else ""
        sent = f", {size / 1e6:,.1f} MB" if size else ""
        return f" {state}{scanned}, {counted(count or 0)}{sent}"


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
    files: SessionFiles = field(default_factory=SessionFiles)
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
            with run_statement(connection, sent, begins) as answer:
                if not len(answer.schema):
                    return outcome(sql, answer.affected)
                rows, has_more = take_rows(answer.batches, answer.schema, self.max_rows)
                return show_rows(rows, expanded=self.is_expanded, has_more=has_more)

        with self.server.naming(self.forget):
            sent = self.files.in_tables(connection, sql)
            try:
                with Progress(self.server, sent) as progress:
                    text = cancellable(work, progress.show)
            except ServerError as exc:
                raise ServerError(point_at_error(plain(exc), sent)) from exc
        # What a pager takes is the reader's time.
        took = time.perf_counter() - began
        self.show(text)
        note = month_note(sql) if _DEFINES.match(sql) else None
        if note is not None:
            warn(note)
        if self.is_timed:
            print(f"{took * 1000:,.0f} ms")

    def show(self, text: str) -> None:
        """Show a text on the terminal, or write it where results go."""
        if self.output is None:
            self.page(text)
        else:
            print(text, file=self.output, flush=True)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.server.naming(self.forget):
            rows = execute(self.connection, sql).rows
        return [] if rows is None else list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def forget(self) -> None:
        """Forget a connection that the server no longer answers, so that the next statement makes another."""
        self._connection = None
        self.files = SessionFiles()

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


_DEFINES = re.compile(r"\s*CREATE\b.*\bPARTITIONED\s+BY\b", re.IGNORECASE | re.DOTALL)


def warn(message: str) -> None:
    """Print an error, in red on a terminal."""
    if sys.stderr.isatty():
        draw(f"\033[31m{printable(message)}\033[0m\n", sys.stderr)
    else:
        print(message, file=sys.stderr)
