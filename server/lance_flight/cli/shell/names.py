"""Names for completion: tables, columns and settings of the server, and the words of SQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lance_flight_client.adbc import execute
from lance_flight_client.errors import ServerError
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from lance_flight.cli.connecting import ChosenServer
from lance_flight.cli.shell.commands import COMMANDS

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
