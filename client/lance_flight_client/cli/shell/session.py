"""State of the shell: its connection and results, the progress of a statement, places of errors; and commands with a backslash."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Self, TypeAlias

import pyarrow as pa
from lance_flight.engine.sql.tokens import closing_places, tokenize
from lance_flight.errors import InvalidInput

from lance_flight_client.adbc import execute, ingest, run_statement
from lance_flight_client.cli.arguments import month_note
from lance_flight_client.cli.connecting import Begins, ChosenServer, cancellable, content
from lance_flight_client.cli.file_tables import SessionFiles
from lance_flight_client.cli.running_sql import statements_of
from lance_flight_client.errors import ServerError, plain
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import FileStream, open_files
from lance_flight_client.files.writing import write_file, written_format
from lance_flight_client.output import NULL, align_table, cells, document, is_document, one_line, outcome, text_width
from lance_flight_client.parameters import text_literal
from lance_flight_client.partition_map import partition_map
from lance_flight_client.terminal import ERASED, Meter, counted, draw, printable

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


Does: TypeAlias = Callable[[ShellSession, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command: its arguments as help says them, how many there may be, and what it does."""

    arguments: str
    help: str
    does: Does
    fewest: int = 0
    most: int = 1


def run_command(session: ShellSession, line: str) -> None:
    """Run a line that begins with a backslash; `InvalidInput` for an unknown one, or other arguments than it takes."""
    name, *arguments = _words(line.strip().removesuffix(";").removeprefix("\\"))
    if name not in COMMANDS:
        raise InvalidInput(f"no command \\{name}; \\? lists them")
    command = COMMANDS[name]
    if not command.fewest <= len(arguments) <= command.most:
        raise InvalidInput(f"\\{name} takes {command.arguments or 'no arguments'}, got {len(arguments)} of them")
    command.does(session, arguments)


def _words(line: str) -> list[str]:
    """Split a line; a query in brackets is one word, as in psql's copy."""
    tokens = tokenize(line) if _QUERY.match(line) else []
    closed = closing_places(tokens).get(1)
    if closed is not None:
        first, query, last = tokens[0], tokens[2:closed], tokens[closed]
        return [first.text, line[query[0].start : last.start] if query else "", *_words(line[last.stop :])]
    try:
        return shlex.split(line) or [""]
    except ValueError as exc:
        raise InvalidInput(f"\\{line}: {exc}") from exc


_QUERY = re.compile(r"\w+\s*\(")


def run_script(session: ShellSession, path: str) -> None:
    """Run the statements of a file; the first that fails ends it, and is named by its line."""
    for statement in statements_of(content(path) or ""):
        try:
            session.run(statement.text)
        except ServerError as exc:
            raise ServerError(f"{path}:{statement.line}: {exc}") from exc


def _describe(session: ShellSession, arguments: Sequence[str]) -> None:
    _show(session, f"DESCRIBE {arguments[0]}" if arguments else "SHOW TABLES")


def _describe_more(session: ShellSession, arguments: Sequence[str]) -> None:
    """Show the columns of a table and the statement that makes it, or the tables with their kinds and comments."""
    if not arguments:
        _show(session, _TABLES)
        return
    results = [
        execute(session.connection, f"{words} {arguments[0]}").rows for words in ("DESCRIBE", "SHOW CREATE TABLE")
    ]
    session.show(
        "\n\n".join(document(rows) if is_document(rows.schema) else align_table(rows) for rows in results if rows)
    )


def _functions(session: ShellSession, arguments: Sequence[str]) -> None:
    # As in psql, * stands for any characters, too.
    pattern = text_literal(arguments[0].replace("*", "%")) if arguments else "'%'"
    _show(session, f"SHOW FUNCTIONS LIKE {pattern}")


_SCHEMAS = "SELECT catalog_name, schema_name FROM information_schema.schemata"
_TABLES = "SELECT table_schema, table_name, table_type, partitioned, table_comment FROM information_schema.tables"


def _partitions(session: ShellSession, arguments: Sequence[str]) -> None:
    rows = execute(session.connection, f"SHOW PARTITIONS {arguments[0]}").rows
    assert rows is not None  # noqa: S101 - a query
    specs = rows["spec_id"].unique().to_pylist()
    picture = f"{partition_map(rows)}\n\n" if len(specs) == 1 else ""
    names = rows.column_names
    # The values of partition fields stand between these two, in the order of the picture.
    fields = names[names.index("spec_id") : names.index("object_id")]
    listed = rows.drop_columns(["location"]).sort_by([(name, "ascending") for name in fields])
    session.show(f"{picture}{align_table(listed, session.max_rows)}")


def _show(session: ShellSession, sql: str) -> None:
    rows = execute(session.connection, sql).rows
    session.show(align_table(pa.table({}) if rows is None else rows))


def _switch(name: str, label: str) -> Does:
    def does(session: ShellSession, arguments: Sequence[str]) -> None:
        if arguments and arguments[0] not in _SWITCHES:
            raise InvalidInput(f"{arguments[0]!r} is no switch; expected on or off")
        setattr(session, name, _SWITCHES[arguments[0]] if arguments else not getattr(session, name))
        print(f"{label}: {'on' if getattr(session, name) else 'off'}")

    return does


_SWITCHES = {"on": True, "off": False}


def _copy(session: ShellSession, arguments: Sequence[str]) -> None:
    what, way, path = arguments
    if way.lower() == "from":
        source = open_files([path], None, TextOptions(), io.BytesIO())
        for note in source.notes:
            print(note)
        db_schema, _, name = what.rpartition(".")
        into = partial(ingest, session.connection, name, mode="create_append", db_schema=db_schema or None)
        with FileStream(source, source.schema, f"loading {what}").reader(_HINT) as rows:
            count = cancellable(lambda begins: into(rows, begins=begins))
        print(f"{counted(count)} stored in {what}")
    elif way.lower() == "to":
        sql = what if any(map(str.isspace, what)) else f"SELECT * FROM {what}"  # noqa: S608 - the user's own
        sql = session.files.in_tables(session.connection, sql)
        format, meter = written_format(path, None), Meter(f"writing {path}", None)

        def work(begins: Begins) -> None:
            with run_statement(session.connection, sql, begins) as answer:
                write_file(path, format, answer.schema, meter.passing(answer.batches))

        try:
            cancellable(work)
        finally:
            meter.close()
        print(f"{path} written, {meter.rows:,} rows")
    else:
        raise InvalidInput(f"\\copy takes TO or FROM, got {way!r}")


_HINT = "name the types in INSERT INTO … SELECT … FROM read_csv('FILE', types = {'column': 'VARCHAR'})"


def _edit(session: ShellSession, arguments: Sequence[str]) -> None:
    """Have the user's editor change a file, or the last statement, and run what it holds then."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(arguments[0] if arguments else f"{place}/statement.sql")
        if not arguments:
            file.write_text(f"{session.last or ''}\n", encoding="utf-8")
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        try:
            subprocess.run([*editor, str(file)], check=True)  # noqa: S603 - the user's own editor
        except (OSError, subprocess.CalledProcessError) as exc:
            raise InvalidInput(f"the editor {editor[0]!r} failed: {exc}; expected one in EDITOR") from exc
        run_script(session, str(file))


def _again(session: ShellSession, _: Sequence[str]) -> None:
    session.run(_last(session, "g"))


def _last(session: ShellSession, name: str) -> str:
    if session.last is None:
        raise InvalidInput(f"\\{name} repeats the last statement; there is none")
    return session.last


def _watch(session: ShellSession, arguments: Sequence[str]) -> None:
    statement = _last(session, "watch")
    seconds = _seconds(arguments[0] if arguments else "2")
    try:
        while True:
            session.run(statement)
            time.sleep(seconds)
    except KeyboardInterrupt:
        print()


def _seconds(text: str) -> float:
    try:
        return max(float(text), 0.1)
    except ValueError:
        raise InvalidInput(f"{text!r} is no number of seconds") from None


def _quit(session: ShellSession, _: Sequence[str]) -> None:
    session.is_over = True


def _help(session: ShellSession, _: Sequence[str]) -> None:
    lines = [("\\" + f"{name} {command.arguments}".strip(), command.help) for name, command in COMMANDS.items()]
    width = max(len(form) for form, _ in lines if len(form) <= _WIDEST_FORM)
    shown = [
        f"{form:{width}}  {text}" if len(form) <= width else f"{form}\n{'':{width}}  {text}" for form, text in lines
    ]
    session.show("\n".join(shown) + f"\n\n{_OTHERWISE}")


_WIDEST_FORM = 20
_OTHERWISE = (
    "Statements end with a semicolon, and may have several lines.\nCtrl-C cancels a statement, Ctrl-D ends the shell."
)

COMMANDS: Mapping[str, ShellCommand] = MappingProxyType(
    {
        "d": ShellCommand("[TABLE]", "list the tables, or the columns of one", _describe),
        "d+": ShellCommand("[TABLE]", "the same with comments, or the statement that makes it", _describe_more),
        "df": ShellCommand("[PATTERN]", "list the functions", _functions),
        "l": ShellCommand("", "list the catalogs and schemas", lambda s, _: _show(s, _SCHEMAS), most=0),
        "dt": ShellCommand("", "list the tables", _describe, most=0),
        "dp": ShellCommand("TABLE", "draw and list the partitions of a table", _partitions, fewest=1),
        "x": ShellCommand("[on|off]", "show each value on a line of its own", _switch("is_expanded", "expanded")),
        "timing": ShellCommand("[on|off]", "show how long statements take", _switch("is_timed", "timing")),
        "o": ShellCommand(
            "[FILE]", "write results to a file, or to the terminal again", lambda s, a: s.write_to(a[0] if a else None)
        ),
        "i": ShellCommand("FILE", "run the statements of a file", lambda s, a: run_script(s, a[0]), fewest=1),
        "copy": ShellCommand(
            "TABLE FROM FILE | TABLE|(QUERY) TO FILE", "load a file of this machine, or write one", _copy, 3, 3
        ),
        "e": ShellCommand("[FILE]", "edit the last statement, or a file, and run it", _edit),
        "g": ShellCommand("", "run the last statement again, or the one before it", _again, most=0),
        "watch": ShellCommand("[SECONDS]", "run the last statement again and again, until Ctrl-C", _watch),
        "q": ShellCommand("", "end the shell", _quit, most=0),
        "?": ShellCommand("", "list these commands", _help, most=0),
    }
)
"""Commands by what follows the backslash."""

COMMAND_WORDS: Mapping[str, str] = MappingProxyType({"help": r"\?", "?": r"\?", "exit": r"\q", "quit": r"\q"})
"""Commands that are typed as words."""
