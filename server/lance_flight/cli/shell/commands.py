"""Commands of the prompt, which begin with a backslash, and the names and words for completion."""

from __future__ import annotations

import io
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
from lance_flight_client.adbc import answered, execute, ingest
from lance_flight_client.errors import ServerError
from lance_flight_client.files.formats import TextOptions
from lance_flight_client.files.sources import opened
from lance_flight_client.files.writing import write_file, written_format
from lance_flight_client.output import aligned
from lance_flight_client.partition_map import partition_map
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from lance_flight.cli.connecting import ChosenServer, content
from lance_flight.cli.scripts import statements_of
from lance_flight.cli.shell.session import ShellSession
from lance_flight.errors import InvalidInput

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
    try:
        return shlex.split(line) or [""]
    except ValueError as exc:
        raise InvalidInput(f"\\{line}: {exc}") from exc


def run_script(session: ShellSession, path: str) -> None:
    """Run the statements of a file; the first that fails ends it, and is named by its line."""
    for statement in statements_of(content(path) or ""):
        try:
            session.run(statement.text)
        except ServerError as exc:
            raise ServerError(f"{path}:{statement.line}: {exc}") from exc


def _describe(session: ShellSession, arguments: Sequence[str]) -> None:
    _show(session, f"DESCRIBE {arguments[0]}" if arguments else "SHOW TABLES")


def _partitions(session: ShellSession, arguments: Sequence[str]) -> None:
    rows = execute(session.connection, f"SHOW PARTITIONS {arguments[0]}").rows
    assert rows is not None  # noqa: S101 - a query
    specs = rows["spec_id"].unique().to_pylist()
    picture = f"{partition_map(rows)}\n\n" if len(specs) == 1 else ""
    session.show(f"{picture}{aligned(rows.drop_columns(['location']), session.max_rows)}")


def _show(session: ShellSession, sql: str) -> None:
    rows = execute(session.connection, sql).rows
    session.show(aligned(pa.table({}) if rows is None else rows))


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
        source = opened([path], None, TextOptions(), io.BytesIO())
        rows = pa.RecordBatchReader.from_batches(source.schema, source.batches(source.schema))
        db_schema, _, name = what.rpartition(".")
        count = ingest(session.connection, name, rows, mode="create_append", db_schema=db_schema or None)
        print(f"{count:,} rows stored in {what}")
    elif way.lower() == "to":
        sql = what if any(map(str.isspace, what)) else f"SELECT * FROM {what}"  # noqa: S608 - the user's own
        format = written_format(path, None)
        with answered(session.connection, sql) as answer:
            write_file(path, format, answer.schema, answer.batches)
        print(f"{path} written")
    else:
        raise InvalidInput(f"\\copy takes TO or FROM, got {way!r}")


def _watch(session: ShellSession, arguments: Sequence[str]) -> None:
    if session.last is None:
        raise InvalidInput("\\watch repeats the last statement; there is none")
    seconds = _seconds(arguments[0] if arguments else "2")
    try:
        while True:
            session.run(session.last)
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
    lines = [("\\" + f"{name} {each.arguments}".strip(), each.help) for name, each in COMMANDS.items()]
    width = max(len(form) for form, _ in lines)
    session.show("\n".join(f"{form:{width}}  {text}" for form, text in lines) + f"\n\n{_OTHERWISE}")


_OTHERWISE = (
    "Statements end with a semicolon, and may have several lines. Ctrl-C cancels a statement, Ctrl-D ends the shell."
)

COMMANDS: Mapping[str, ShellCommand] = MappingProxyType(
    {
        "d": ShellCommand("[TABLE]", "list the tables, or the columns of one", _describe),
        "dt": ShellCommand("", "list the tables", _describe, most=0),
        "dp": ShellCommand("TABLE", "draw and list the partitions of a table", _partitions, fewest=1),
        "x": ShellCommand("[on|off]", "show each value on a line of its own", _switch("is_expanded", "expanded")),
        "timing": ShellCommand("[on|off]", "show how long statements take", _switch("is_timed", "timing")),
        "o": ShellCommand(
            "[FILE]", "write results to a file, or to the terminal again", lambda s, a: s.write_to(a[0] if a else None)
        ),
        "i": ShellCommand("FILE", "run the statements of a file", lambda s, a: run_script(s, a[0]), fewest=1),
        "copy": ShellCommand(
            "TABLE FROM FILE | TABLE|'QUERY' TO FILE", "load a file of this machine, or write one", _copy, 3, 3
        ),
        "watch": ShellCommand("[SECONDS]", "run the last statement again and again, until Ctrl-C", _watch),
        "q": ShellCommand("", "end the shell", _quit, most=0),
        "?": ShellCommand("", "list these commands", _help, most=0),
    }
)
"""Commands by what follows the backslash."""


WORDS = (
    "ALTER", "ANALYZE", "AND", "AS", "ASC", "BEGIN", "BETWEEN", "BRANCH", "BY", "CASE", "CAST", "COMMIT", "COUNT", "CREATE", "CROSS",
    "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DROP", "ELSE", "END", "EXCEPT", "EXISTS", "EXPLAIN", "FALSE", "FROM", "FULL", "GROUP",
    "HAVING", "IN", "INNER", "INSERT", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "MERGE", "NOT",
    "NULL", "OFFSET", "ON", "OPTIMIZE", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "PARTITIONED", "PARTITIONS", "RENAME", "REPLACE",
    "RIGHT", "ROLLBACK", "SELECT", "SET", "SHOW", "TABLE", "TABLES", "TAG", "THEN", "TRUE", "TRUNCATE", "UNION", "UPDATE", "USING",
    "VACUUM", "VALUES", "VERSION", "VIEW", "WHEN", "WHERE", "WINDOW", "WITH",
)  # fmt: skip
"""Words that statements of the server begin with, or have in their clauses."""

_WORD = re.compile(r"[\w$.\"]*$")
_BARE = re.compile(r"[a-z_][a-z0-9_$]*")
_NAMES = (
    "SELECT table_schema, table_name FROM information_schema.tables",
    "SELECT DISTINCT column_name FROM information_schema.columns",
    "SHOW ALL",
)


@dataclass(slots=True)
class KnownNames:
    """Names that the server has; they are asked for in the background, on a connection of their own."""

    server: ChosenServer
    names: Sequence[str] = ()
    _asking: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def refresh(self) -> None:
        """Ask the server, unless that is under way."""
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        if not self._asking.acquire(blocking=False):
            return
        try:
            with self.server.connect() as connection:
                tables, columns, settings = (execute(connection, sql).rows for sql in _NAMES)
        except ServerError:
            # Without a server the words of SQL are completed alone.
            return
        finally:
            self._asking.release()
        found: set[str] = set()
        if tables is not None:
            for schema, name in zip(*(column.to_pylist() for column in tables.columns), strict=True):
                found |= {_spelled(name), f"{_spelled(schema)}.{_spelled(name)}"}
        for names in (columns, settings):
            found |= set() if names is None else {_spelled(name) for name in names.column(0).to_pylist()}
        self.names = sorted(found)


def _spelled(name: str) -> str:
    return name if _BARE.fullmatch(name) else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class NameCompleter(Completer):
    """Completes the word before the cursor: a command of the shell, a name of the server, or a word of SQL."""

    known: KnownNames

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what the word may become; SQL's words in the case that is typed."""
        text = document.text_before_cursor
        if text.startswith("\\") and " " not in text:
            yield from (Completion("\\" + name, -len(text)) for name in COMMANDS if name.startswith(text[1:]))
            return
        match = _WORD.search(text)
        word = match[0] if match is not None else ""
        if not word:
            return
        yield from (Completion(name, -len(word)) for name in self.known.names if _begins(name, word))
        words = (each if word.isupper() else each.lower() for each in WORDS)
        yield from (Completion(each, -len(word)) for each in words if _begins(each, word) and len(each) > len(word))


def _begins(name: str, word: str) -> bool:
    return name.lower().startswith(word.lower()) or name.lower().startswith('"' + word.lower())
