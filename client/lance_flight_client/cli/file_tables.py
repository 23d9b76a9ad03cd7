"""Files of this machine that statements name in place of tables: `FROM 'flights.csv'`, `FROM read_csv('flights.csv', skip = 2)`.

Nothing heavy is imported here: what reads and sends files is, once a statement names one.
"""

from __future__ import annotations

import glob
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from lance_flight.engine.sql.references import Cursor, is_alias, relation_places
from lance_flight.engine.sql.tokens import MOST_TOKENS, Edit, Kind, TokenPlaces, edit_text, tokens_of
from lance_flight.errors import InvalidInput

from lance_flight_client.files.names import PIPE, format_of

OptionValue: TypeAlias = str | int | bool | tuple[str, ...] | Mapping[str, str]

READERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("read_csv", "read_csv_auto"), "csv"),
        **dict.fromkeys(("read_parquet", "parquet_scan"), "parquet"),
        **dict.fromkeys(("read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto"), "json"),
        "read_arrow": "arrow",
        "read_orc": "orc",
        "read_xlsx": "excel",
        **dict.fromkeys(("delta_scan", "iceberg_scan"), ""),
    }
)
"""Table functions that read files, and the formats that they read."""
_STATEMENTS = frozenset(
    [
        *("SELECT", "WITH", "FROM", "INSERT", "CREATE", "MERGE", "UPDATE", "DELETE", "EXPLAIN"),
        *("DESCRIBE", "DESC", "SUMMARIZE", "PIVOT", "UNPIVOT", ""),
    ]
)
"""First words of statements that may read files; COPY and others have places of their own for strings."""
_ABOUT_A_TABLE = frozenset(["DESCRIBE", "DESC", "SUMMARIZE", "PIVOT", "UNPIVOT"])
"""First words that a table follows at once."""
_BEFORE_NAME = 5
"""Most words of CREATE OR REPLACE MATERIALIZED VIEW."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTable:
    """A place in a statement that names files: its offsets, the files, their format (None: by their names), and how they are read."""

    start: int
    stop: int
    files: tuple[str, ...]
    format: str | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    needs_alias: bool = False

    @property
    def stem(self) -> str:
        """The first file's name without its ends, by which columns of the table may be called."""
        return Path(self.files[0]).name.split(".")[0] or "file"

    def named(self, table: str) -> Edit:
        """Return the edit that names a table in place of the files."""
        name, alias = ('"' + each.replace('"', '""') + '"' for each in (table, self.stem))
        return self.start, self.stop, f"{name} AS {alias}" if self.needs_alias else name


def file_tables(sql: str) -> Sequence[FileTable]:
    """Return the files that a statement names in place of tables; `InvalidInput` where those of a view are.

    >>> [each.files for each in file_tables("SELECT 'a.csv' FROM 'b.csv', read_json(['c.json', 'd.json']) AS c WHERE x = 'e.csv'")]
    [('b.csv',), ('c.json', 'd.json')]
    >>> file_tables("COPY t FROM 'a.csv'"), file_tables("SELECT * FROM 'flights'")
    ([], [])
    """
    places = TokenPlaces(list(islice(tokens_of(sql), MOST_TOKENS + 1)))
    # The one longer statement that a server takes is an INSERT of rows, which names no file.
    if not 0 < len(places.tokens) <= MOST_TOKENS or places.tokens[0].word not in _STATEMENTS:
        return []
    tables = list(_find_tables(sql, places))
    first = [token.word for token in places.tokens[:_BEFORE_NAME]]
    if tables and first[0] == "CREATE" and "VIEW" in first:
        raise InvalidInput(
            f"a view cannot read {tables[0].files[0]!r}, a file of this machine; expected CREATE TABLE … AS"
        )
    return tables


def _find_tables(sql: str, places: TokenPlaces) -> Iterator[FileTable]:
    relations = relation_places(places)
    is_merge = places.word_at(0) in {"MERGE", "DELETE", "EXPLAIN"}
    for at in range(1, len(places.tokens)):
        before = at - 1
        while places.is_sign(before, "("):
            before -= 1
        is_relation = before in relations or (is_merge and places.word_at(before) == "USING")
        if not is_relation and not (at == 1 and places.word_at(0) in _ABOUT_A_TABLE):
            continue
        token = places.tokens[at]
        if places.word_at(before - 1) == "DELETE" and token.kind is Kind.STRING and _is_file(token.text):
            raise InvalidInput(f"{token.text!r} is a file of this machine, which no statement changes")
        if token.kind is Kind.STRING and _is_file(token.text):
            paths, behind = (token.text,), at + 1
            yield FileTable(
                start=token.start,
                stop=token.stop,
                files=paths,
                needs_alias=_lacks_alias(places, behind, is_relation=is_relation),
            )
        elif token.word and token.text.lower() in READERS and places.is_sign(at + 1, "("):
            yield _read_call(sql, places, at, is_relation=is_relation)


def _is_file(text: str) -> bool:
    """Return whether a string in the place of a table names a file; another one is left to the server."""
    return format_of(text) is not None or "/" in text or glob.has_magic(text) or Path(text).exists()


def _lacks_alias(places: TokenPlaces, at: int, *, is_relation: bool) -> bool:
    return is_relation and not (places.word_at(at) == "AS" or (at < len(places.tokens) and is_alias(places.tokens[at])))


def _read_call(sql: str, places: TokenPlaces, at: int, *, is_relation: bool) -> FileTable:
    """Read the call of a function that reads files."""
    token, cursor = places.tokens[at], Cursor(sql, places.tokens, at + 2)
    name = token.text.lower()
    files = _texts(cursor) if cursor.accept("[") else (cursor.string("a file, or a list of them"),)
    options = dict[str, OptionValue]()
    while cursor.accept(","):
        option = cursor.name("the name of an option")
        if not any(cursor.accept(*signs) for signs in (("=", ">"), (":", "="), ("=",))):
            raise cursor.error("=")
        options[option] = _value(cursor)
    cursor.expect(")")
    if name.endswith("_scan") and not READERS[name]:
        files = tuple(f"{name.removesuffix('_scan')}:{file}" for file in files)
    return FileTable(
        start=token.start,
        stop=places.tokens[cursor.at - 1].stop,
        files=files,
        format=READERS[name] or None,
        options=options,
        needs_alias=_lacks_alias(places, cursor.at, is_relation=is_relation),
    )


def _value(cursor: Cursor) -> OptionValue:
    if cursor.accept("TRUE") or cursor.accept("FALSE"):
        return cursor.last == "TRUE"
    if cursor.accept("["):
        return _texts(cursor)
    if cursor.accept("{"):
        pairs = dict[str, str]()
        while not cursor.accept("}"):
            name = cursor.text_or_name("the name of a column")
            cursor.expect(":")
            pairs[name] = cursor.string("a type")
            cursor.accept(",")
        return pairs
    if cursor.at_literal and cursor.tokens[cursor.at].kind is Kind.NUMBER:
        return cursor.number("a whole number")
    return cursor.string("a string, a number, TRUE or FALSE")


def _texts(cursor: Cursor) -> tuple[str, ...]:
    """Read the rest of a list of strings."""
    texts = [cursor.string("a string")]
    while cursor.accept(","):
        texts.append(cursor.string("a string"))
    cursor.expect("]")
    return tuple(texts)


@dataclass(slots=True)
class SessionFiles:
    """Files that a session of a server has as temporary tables: their names and states, by what was said of them."""

    sent: dict[Any, Any] = field(default_factory=dict)

    def in_tables(self, connection: Any, sql: str) -> str:
        """Return a statement with tables in place of files, whose rows are sent; one that names none is returned as it is."""
        tables = file_tables(sql)
        if not tables:
            return sql
        if any(PIPE in table.files for table in tables) and len(tables) > 1:
            raise InvalidInput(f"{PIPE!r} (a pipe) is read once; expected it alone")
        sending = importlib.import_module("lance_flight_client.cli.file_sending")
        return edit_text(sql, [table.named(sending.send(connection, table, self.sent)) for table in tables])
