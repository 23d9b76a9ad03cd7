"""Files that statements name in place of tables, sent to the server as temporary tables of the session."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.errors import InvalidInput

from lance_flight_client.adbc import ingest
from lance_flight_client.cli.arguments import checked_delimiter, checked_encoding
from lance_flight_client.cli.connecting import cancellable
from lance_flight_client.cli.file_tables import FileTable, OptionValue
from lance_flight_client.files.lakehouse import LakehouseTable
from lance_flight_client.files.names import PIPE
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import NO_TYPES, FileStream, find_files, open_files
from lance_flight_client.parameters import quote_name
from lance_flight_client.terminal import counted


@dataclass(frozen=True, slots=True)
class SentFile:
    """Temporary table of a session: its name, and the sizes and times of change that its files had."""

    table: str
    state: Any


def send(connection: Any, table: FileTable, sent: dict[Any, SentFile]) -> str:
    """Return the temporary table that has the rows of files, which are sent unless `sent` says that it has them."""
    key = (table.files, table.format, repr(sorted(table.options.items())))
    known, state = sent.get(key), _state(table)
    if known is not None and known.state == state and state is not None:
        return known.table
    text, types = _text_options(table), _types(table)
    pipe = io.BytesIO() if sys.stdin.isatty() else sys.stdin.buffer
    source = open_files(table.files, table.format, text, pipe, types=types)
    for note in source.notes:
        print(note, file=sys.stderr)
    name = f"file {len(sent) + 1} {_plain(table.stem)}" if known is None else known.table
    with FileStream(source, source.schema, f"sending {table.files[0]}").reader(_HINT) as rows:
        cancellable(lambda begins: ingest(connection, name, rows, mode="replace", is_temporary=True, begins=begins))
    for row in source.rejected[:1]:
        print(f"{counted(len(source.rejected))} left out; the first: {row}", file=sys.stderr)
    sent[key] = SentFile(name, state)
    return name


_HINT = "write read_csv('FILE', types = {'column': 'VARCHAR'}), nullstr = '…', or ignore_errors = true to leave such rows out"


def _state(table: FileTable) -> Any:
    """Return what changes with the files; a pipe never does, and of a table in another format it is not known (None)."""
    if PIPE in table.files:
        return PIPE
    if any(LakehouseTable.named(file) is not None for file in table.files):
        return None
    files = [find_files(file, table.format) for file in table.files]
    return [(source.paths, source.sizes, source.changed) for source in files]


def _plain(stem: str) -> str:
    return "".join("_" if sign in "/\\@$." else sign for sign in stem)


_TYPES = frozenset(["types", "dtypes", "columns", "column_types"])
_NAMES: Mapping[str, tuple[str, type]] = MappingProxyType(
    {
        **dict.fromkeys(("delim", "sep", "delimiter"), ("delimiter", str)),
        "header": ("header", bool),
        **dict.fromkeys(("nullstr", "null"), ("nulls", tuple)),
        "encoding": ("encoding", str),
        **dict.fromkeys(("decimal_separator", "decimal"), ("decimal", str)),
        **dict.fromkeys(("dateformat", "timestampformat", "date_format"), ("date_format", str)),
        "skip": ("skip", int),
        "ignore_errors": ("ignores_errors", bool),
        "sheet": ("sheet", str),
    }
)
"""Options of text by the names that DuckDB and `ingest` have, the field of `TextOptions`, and the type of its value."""
_OF_TEXT = frozenset(["csv", "json", "excel"])
_ALWAYS = frozenset(["auto_detect", "hive_partitioning", "union_by_name"])
"""Options of DuckDB's that are always on here."""


def _text_options(table: FileTable) -> TextOptions:
    given: dict[str, Any] = {}
    for name, value in table.options.items():
        if name in _TYPES or (name in _ALWAYS and value is True):
            continue
        if name not in _NAMES or table.format not in _OF_TEXT:
            names = ", ".join([*_NAMES, *sorted(_TYPES)]) if table.format in _OF_TEXT else "none"
            raise InvalidInput(f"{table.files[0]!r} is read without the option {name!r}; expected {names}")
        field, kind = _NAMES[name]
        given[field] = _check_option(name, (value,) if kind is tuple and isinstance(value, str) else value, kind)
    if "delimiter" in given:
        given["delimiter"] = checked_delimiter(given["delimiter"], "delim")
    if "encoding" in given:
        given["encoding"] = checked_encoding(given["encoding"], "encoding")
    return TextOptions(**given)


def _check_option(name: str, value: OptionValue, kind: type) -> OptionValue:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        expected = {bool: "TRUE or FALSE", int: "a number", tuple: "a string, or a list of them"}.get(kind, "a string")
        raise InvalidInput(f"the option {name!r} is {value!r}; expected {expected}")
    if name.startswith("decimal") and value not in {".", ","}:
        raise InvalidInput(f"the option {name!r} is {value!r}; expected '.' or ','")
    return value


def _types(table: FileTable) -> pa.Schema:
    given = next((value for name, value in table.options.items() if name in _TYPES), None)
    if given is None:
        return NO_TYPES
    if isinstance(given, Mapping):
        given = ", ".join(f"{quote_name(name)} {kind}" for name, kind in given.items())
    if not isinstance(given, str):
        raise InvalidInput(f"the types are {given!r}; expected {{'column': 'TYPE'}}, or 'column TYPE, …'")
    # Only types that are said need the engine, which has their grammar.
    columns: pa.Schema = importlib.import_module("lance_flight_client.cli.root_loading").columns_of(given)
    return columns
