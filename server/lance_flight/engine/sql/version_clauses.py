"""Version clauses after a table's name (`FOR VERSION AS OF 12`), which become the name of that version (`"t@12"`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from lance_flight.engine.sql.clause_words import AFTER_FROM, FIRST_WORDS, JOINS, SET_OPERATORS, TABLE
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.time_travel import Point, point
from lance_flight.engine.sql.tokens import Kind, Token, folded
from lance_flight.errors import SqlError
from lance_flight.model.naming import check_label

_VERSION, _TIME, _TAG = "VERSION", "TIMESTAMP", "TAG"
_FORMS: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        ("FOR", "VERSION", "AS", "OF"): _VERSION,
        ("FOR", "SYSTEM_VERSION", "AS", "OF"): _VERSION,
        ("VERSION", "AS", "OF"): _VERSION,
        ("FOR", "TIMESTAMP", "AS", "OF"): _TIME,
        ("FOR", "SYSTEM_TIME", "AS", "OF"): _TIME,
        ("TIMESTAMP", "AS", "OF"): _TIME,
        ("FOR", "TAG"): _TAG,
    }
)
"""Words of each form, and what follows them."""
_EXPECTED = {
    _VERSION: "the number of a version, or the name of a tag or branch in quotes",
    _TIME: "a time in quotes, as in '2026-01-31 12:00:00'",
    _TAG: "the name of a tag",
}
_TIME_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "DATE")
_NO_ALIASES = AFTER_FROM | JOINS | SET_OPERATORS | FIRST_WORDS | {"ON", "USING", "WHEN", "FETCH"}
"""Words that follow a table and are not its alias."""
_NAME = re.compile(r"(?P<table>[^$@]+)(?P<metadata>\$[a-z]+)?", re.DOTALL)

TableUpdate = tuple[int, int, str]


def read_version(cursor: Cursor) -> Point | None:
    """Read a version clause from a cursor; None where none begins."""
    kind = next((kind for words, kind in _FORMS.items() if cursor.accept(*words)), None)
    if kind is None:
        return None
    if not cursor.done and cursor.tokens[cursor.at].kind is Kind.PARAMETER:
        raise SqlError(
            "the version of a table is no parameter: it decides which columns the query has, before values are bound;"
            f" expected {_EXPECTED[kind]}"
        )
    match kind:
        case "VERSION":
            return _version(cursor)
        case "TIMESTAMP":
            return _time(cursor)
        case _:
            return check_label("tag", cursor.text_or_name(_EXPECTED[kind]))


def version_edits(cursor: Cursor, table: int, named_queries: Collection[str]) -> list[TableUpdate] | None:
    """Rewrite `t FOR VERSION AS OF 12` as `"t@12" AS t`, from the token `table` on; the cursor, which is at the clause, moves past it.

    None where there is no table of the root: a function, a query in brackets, or one of the `named_queries` of WITH.
    """
    first, clause = cursor.tokens[table], cursor.at
    named = TABLE.fullmatch(cursor.text, first.start, cursor.tokens[clause - 1].stop)
    parts = [] if named is None else [token for token in cursor.tokens[table:clause] if token.stop <= named.end("name")]
    if named is None or (len(parts) == 1 and folded(parts[0]) in named_queries):
        return None
    if _NAME.fullmatch(folded(parts[-1])) is None:
        raise SqlError(f"{parts[-1].text!r} has a version already; expected one of the two")
    at = read_version(cursor)
    if at is None:
        return None
    versioned = _quoted(versioned_name(folded(parts[-1]), at))
    has_alias = named["alias"] is not None or (not cursor.done and is_alias(cursor.tokens[cursor.at]))
    alias = "" if has_alias else f" AS {named['last']}"
    return [
        (parts[-1].start, parts[-1].stop, versioned),
        (cursor.tokens[clause].start, cursor.tokens[cursor.at - 1].stop, alias),
    ]


def _version(cursor: Cursor) -> Point:
    if cursor.done or cursor.tokens[cursor.at].kind is not Kind.STRING:
        return cursor.number(_EXPECTED[_VERSION])
    text = cursor.string(_EXPECTED[_VERSION])
    found = point(text)
    return found if isinstance(found, int) else check_label("tag", text)


def _time(cursor: Cursor) -> datetime:
    for word in _TIME_TYPES:
        cursor.accept(word)
    text = cursor.string(_EXPECTED[_TIME])
    try:
        moment = datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError as exc:
        raise SqlError(f"{text!r} is no time; expected {_EXPECTED[_TIME]}") from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def versioned_name(name: str, at: Point) -> str:
    """Return the name of a table, or of a metadata table, at a version.

    >>> versioned_name("t$files", 12)
    't@12$files'
    """
    table, sign, metadata = name.partition("$")
    return f"{table}@{at.isoformat() if isinstance(at, datetime) else at}{sign}{metadata}"


def is_alias(token: Token) -> bool:
    """Return whether the token behind a table begins its alias."""
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in _NO_ALIASES)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
