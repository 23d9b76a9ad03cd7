"""Completion at the prompt: commands, names that the server has, and words of SQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from lance_flight_client.adbc import execute
from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.cli.shell.commands import COMMANDS
from lance_flight_client.errors import ServerError

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
