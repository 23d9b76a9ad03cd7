"""The terminal of the shell: a prompt with history, several lines and colours, completion of commands, names and words, and a pager."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lance_flight.errors import LanceFlightError
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import PostgresLexer

from lance_flight_client.adbc import execute
from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.cli.running_sql import is_whole, statements_of
from lance_flight_client.cli.shell.session import COMMAND_WORDS, COMMANDS, ShellSession, run_command, warn
from lance_flight_client.errors import ServerError, plain
from lance_flight_client.output import text_width
from lance_flight_client.terminal import printable

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
_TABLE_COMMAND = re.compile(r"\\(?:d|d\+|dp|copy)\s+([\w$.\"]*)$")
"""Commands whose first argument is a table, up to the cursor."""
_ALIAS = re.compile(
    r"\b(?:FROM|JOIN|UPDATE|INTO|USING|,)\s+(?P<table>[\w$.\"]+)(?:\s+(?:AS\s+)?(?P<alias>[\w$\"]+))?", re.IGNORECASE
)
_NAMES = (
    "SELECT table_schema, table_name FROM information_schema.tables",
    "SELECT table_schema, table_name, column_name FROM information_schema.columns",
    "SHOW FUNCTIONS",
    "SHOW ALL",
)


@dataclass(frozen=True, slots=True)
class ServerNames:
    """Names that a server has, as they are written in SQL; tables with their columns."""

    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    others: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """All of them, each once."""
        return sorted({*self.tables, *self.others, *(name for table in self.tables.values() for name in table)})


@dataclass(slots=True)
class KnownNames:
    """Names that the server has; they are asked for in the background, on a connection of their own."""

    server: ChosenServer
    found: ServerNames = field(default_factory=ServerNames)
    _asking: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def refresh(self) -> None:
        """Ask the server, unless that is under way."""
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        if not self._asking.acquire(blocking=False):
            return
        try:
            with self.server.connect() as connection:
                answers = [execute(connection, sql).rows for sql in _NAMES]
        except ServerError:
            # Without a server the words of SQL are completed alone.
            return
        finally:
            self._asking.release()
        listed = [[] if rows is None else list(zip(*rows.to_pydict().values(), strict=True)) for rows in answers]
        columns: dict[tuple[str, str], list[str]] = {(row[0], row[1]): [] for row in listed[0]}
        for schema, table, column in listed[1]:
            columns.setdefault((schema, table), []).append(_spell(column))
        tables: dict[str, list[str]] = {}
        for (schema, table), names in columns.items():
            tables |= {_spell(table): names, f"{_spell(schema)}.{_spell(table)}": names}
        functions = [f"{row[0]}(" for row in listed[2]]
        self.found = ServerNames(tables, [*functions, *(_spell(row[0]) for row in listed[3])])


def _spell(name: str) -> str:
    return name if _BARE.fullmatch(name) else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class NameCompleter(Completer):
    """Completes the word before the cursor: a command of the shell, a name of the server, or a word of SQL."""

    known: KnownNames

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what the word may become; SQL's words in the case that is typed."""
        text, names = document.text_before_cursor, self.known.found
        table_command = _TABLE_COMMAND.match(text)
        if table_command is not None:
            yield from _completions(names.tables, table_command[1])
            return
        if text.startswith("\\") and " " not in text:
            yield from (Completion("\\" + name, -len(text)) for name in COMMANDS if name.startswith(text[1:]))
            return
        match = _WORD.search(text)
        word = match[0] if match is not None else ""
        if not word:
            return
        alias, dot, begun = word.rpartition(".")
        columns = _columns_of(alias, document.text, names) if dot else None
        if columns is not None:
            yield from _completions(columns, begun)
            return
        yield from _completions(names.names, word)
        words = (each if word.isupper() else each.lower() for each in WORDS)
        yield from (Completion(each, -len(word)) for each in words if _begins(each, word) and len(each) > len(word))


def _completions(names: Mapping[str, object] | Sequence[str], word: str) -> Iterator[Completion]:
    return (Completion(name, -len(word)) for name in names if _begins(name, word))


def _columns_of(alias: str, text: str, found: ServerNames) -> Sequence[str] | None:
    """Return the columns of what a statement calls by an alias; None for another word."""
    named = {match["alias"]: match["table"] for match in _ALIAS.finditer(text) if match["alias"] is not None}
    return found.tables.get(named.get(alias, alias))


def _begins(name: str, word: str) -> bool:
    return name.lower().startswith(word.lower()) or name.lower().startswith('"' + word.lower())


_PAGER = "less -FRSX '-Pq goes back to the prompt, arrows move'"


def converse(server: ChosenServer, max_rows: int | None) -> int:
    """Read statements and commands from the terminal and run them, until the user ends it."""
    session = ShellSession(server, page=page_text, max_rows=max_rows)
    # A server that is not there, or lets nobody in, is said before the first prompt.
    session.rows("SELECT 1")
    known = KnownNames(server)
    known.refresh()
    print(f"{server.address}; statements end with a semicolon, help lists commands, Ctrl-D ends")
    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(history_file())),
        lexer=PygmentsLexer(PostgresLexer),
        completer=NameCompleter(known),
        complete_while_typing=False,
        multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
        prompt_continuation=lambda width, *_: "…> ".rjust(width),
        enable_history_search=True,
        enable_suspend=True,
        key_bindings=_keys(),
    )
    try:
        while not session.is_over:
            with suppress(KeyboardInterrupt):
                _one(session, prompt, known)
    except EOFError:
        pass
    finally:
        session.close()
    return 0


def _keys() -> KeyBindings:
    """Return keys beside the usual ones: colours in a text that is pasted look like a mouse, of which nothing is read."""
    keys = KeyBindings()
    keys.add(Keys.Vt100MouseEvent)(lambda _: None)
    return keys


def _one(session: ShellSession, prompt: Any, known: KnownNames) -> None:
    """Read one input and run it; an interrupt or an error ends what it is about and no more."""
    text = prompt.prompt("lance-flight> ")
    try:
        run_input(session, text)
    except KeyboardInterrupt:
        warn("cancelled")
    except LanceFlightError as exc:
        warn(f"[{exc.code}] {exc}")
    except ServerError as exc:
        warn(plain(exc))
    except EOFError:
        raise
    except Exception as exc:  # noqa: BLE001 - the prompt, with what was typed before, outlives what nobody foresaw
        warn(f"[internal] {type(exc).__name__}: {exc}")
    if text.lstrip()[:6].lower() in {"create", "alter ", "drop t", "drop v"}:
        known.refresh()


def run_input(session: ShellSession, text: str) -> None:
    """Run what was typed: a command, or statements."""
    command = COMMAND_WORDS.get(text.strip().rstrip("; ").lower(), text.lstrip())
    if command.startswith("\\"):
        run_command(session, command)
        return
    for statement in statements_of(_without_go(text)):
        session.run(statement.text)


def _without_go(text: str) -> str:
    r"""Return a text with a semicolon in place of a `\g` at its end."""
    return text.rstrip().removesuffix("\\g") + ";" if text.rstrip().endswith("\\g") else text


def is_complete(text: str) -> bool:
    r"""Return whether an input can be run: nothing, a command, or statements that end with a semicolon.

    >>> [is_complete(text) for text in ("SELECT ';'", "SELECT 1;", r"\dt", "exit", "SELECT 1; SELECT", r"SELECT 1 \g")]
    [False, True, True, True, False, True]
    """
    words = text.strip().lower()
    return not words or words.startswith("\\") or words in COMMAND_WORDS or is_whole(_without_go(text))


def history_file() -> Path:
    """Return the file of what was typed before, which its owner alone may read."""
    place = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "lance-flight"
    place.mkdir(parents=True, exist_ok=True)
    file = place / "history"
    file.touch(mode=0o600)
    return file


def page_text(text: str) -> None:
    """Print a text; through PAGER where it is longer or wider than the terminal."""
    text = printable(text)
    size, lines = shutil.get_terminal_size(), text.splitlines()
    fits = len(lines) < size.lines and max(map(text_width, lines), default=0) <= size.columns
    pager = shlex.split(os.environ.get("PAGER", _PAGER))
    if fits or not sys.stdout.isatty() or not pager or shutil.which(pager[0]) is None:
        print(text)
        return
    # An interrupt is the pager's, which keeps the terminal in a mode of its own until it ends.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        subprocess.run(pager, input=text, text=True, check=False)  # noqa: S603 - the user's own pager
    finally:
        signal.signal(signal.SIGINT, before)
