"""`highlight(text, query, …)` in SQL: a text with the words of a full-text query marked.

Arguments by name are put in their places before the query is planned (`with_highlights`), and what is not given gets its default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lance_flight.catalog.search.text_search import Highlighter, Marks
from lance_flight.catalog.search.text_syntax import MOST_CHARACTERS, SYNTAXES, Mode, parse
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.sql.tokens import QUOTED, Kind, Token, edit_text, tokenize
from lance_flight.errors import InvalidInput, LimitExceeded, SqlError
from lance_flight.model.arrow_types import is_string
from lance_flight.model.index_kinds import KINDS, OptionValue

HIGHLIGHT = "highlight"
MOST_MARK, MOST_LENGTH, MOST_TEXT, MOST_BYTES = 100, 1_000_000, 2_000_000, 64 << 20
"""Characters of a mark, of a fragment, and of a text; bytes of the texts that one batch gives."""
_ROWS_AT_ONCE = 64

_DEFAULTS: Mapping[str, str | int] = MappingProxyType(
    {"before": "<b>", "after": "</b>", "length": 0, "escape": "none", "syntax": "query", "mode": "any"}
)
_TYPES = (pa.utf8(), pa.utf8(), pa.utf8(), pa.utf8(), pa.int64(), pa.utf8(), pa.utf8(), pa.utf8(), pa.utf8())
"""Types of the arguments in their places: text, query, those of `_DEFAULTS`, and options of an index as JSON."""
_LEAST = 2
_OPTIONS = tuple(name for name in KINDS["inverted"].options if name != "with_position")
_ESCAPES: Mapping[str, bool] = MappingProxyType({"none": False, "html": True})


def with_highlights(sql: str, options: Mapping[str, Mapping[str, OptionValue]]) -> str:
    """Put the arguments of each call that are given by name in their places, and the options of the index of its column after them.

    `options` are those of the columns that the query searches. Options of an index can be given by name as well.

    >>> with_highlights("SELECT highlight(d.body, 'a', length => 80)", {})
    "SELECT highlight(d.body, 'a', '<b>', '</b>', 80, 'none', 'query', 'any', '{}')"
    """
    if HIGHLIGHT not in sql.lower():
        return sql
    tokens = tokenize(sql)
    cursor = Cursor(sql, tokens)
    edits = []
    while not cursor.done:
        token = tokens[cursor.at]
        cursor.at += 1
        if is_call(token) and cursor.peek("("):
            cursor.expect("(")
            start = tokens[cursor.at - 1].stop
            placed, named = _arguments(cursor)
            # The closing bracket has been read.
            edits.append((start, tokens[cursor.at - 1].start, _in_places(placed, named, options)))
    return edit_text(sql, edits)


def is_call(token: Token) -> bool:
    """Return whether a token before a bracket is the name of this function."""
    return token.kind not in QUOTED and token.text.lower() == HIGHLIGHT


def _arguments(cursor: Cursor) -> tuple[list[str], dict[str, str]]:
    placed: list[str] = []
    named: dict[str, str] = {}
    while not cursor.accept(")"):
        if placed or named:
            cursor.expect(",")
        name = None
        if [token.text for token in cursor.tokens[cursor.at + 1 : cursor.at + 3]] == ["=", ">"]:
            name = cursor.name("the name of an argument")
            cursor.expect("=", ">")
        text = cursor.until(",", ")")
        if not text:
            raise cursor.error(f"an argument of {HIGHLIGHT}")
        if any(is_call(token) for token in tokenize(text)):
            raise SqlError(
                f"{HIGHLIGHT} stands in an argument of {HIGHLIGHT}; expected a text, and words to mark in it"
            )
        if name is None and not named:
            placed.append(text)
        elif name in (*_DEFAULTS, *_OPTIONS) and name not in named:
            named[name] = text
        else:
            raise SqlError(f"{HIGHLIGHT} takes no {name or text!r} there; expected {_signature()}")
    return placed, named


def _in_places(
    placed: Sequence[str], named: Mapping[str, str], options: Mapping[str, Mapping[str, OptionValue]]
) -> str:
    if not _LEAST <= len(placed) <= len(_TYPES) - 1:
        raise SqlError(f"{HIGHLIGHT} is given {len(placed)} arguments without names; expected {_signature()}")
    given = dict(zip(_DEFAULTS, placed[_LEAST:], strict=False))
    twice = next((name for name in named if name in given), None)
    if len(placed) >= _LEAST and len(placed[1]) > 2 * MOST_CHARACTERS:
        raise LimitExceeded(
            f"query of {HIGHLIGHT} has {len(placed[1])} characters as it is written; expected at most {MOST_CHARACTERS}"
        )
    if twice is not None:
        raise SqlError(f"{HIGHLIGHT} is given {twice!r} twice; expected {_signature()}")
    usual = {name: value if isinstance(value, int) else f"'{value}'" for name, value in _DEFAULTS.items()}
    values = [str({**usual, **given, **named}[name]) for name in _DEFAULTS]
    column = _column(placed[0])
    cutting: dict[str, Any] = dict(options.get(column, {})) if column is not None else {}
    cutting |= {name: _literal(name, text) for name, text in named.items() if name in _OPTIONS}
    cutting.pop("with_position", None)
    quoted = json.dumps(cutting, sort_keys=True).replace("'", "''")
    return ", ".join([*placed[:_LEAST], *values, f"'{quoted}'"])


def _column(text: str) -> str | None:
    """Return the name of the column that an argument is, without that of its table."""
    tokens = tokenize(text)
    names, dots = tokens[::2], tokens[1::2]
    if not all(token.kind in (Kind.WORD, Kind.NAME) for token in names) or not all(dot.is_sign(".") for dot in dots):
        return None
    last = names[-1]
    return last.text if last.kind is Kind.NAME else last.text.lower()


def _literal(name: str, text: str) -> OptionValue:
    cursor = Cursor.over(text)
    value = cursor.literal(f"a literal for {name!r} of {HIGHLIGHT}")
    cursor.end()
    return value


def _signature() -> str:
    return ", ".join(["text", "query", *(f"{name} => …" for name in _DEFAULTS), "and options of a text index by name"])


def highlight_type(word: str, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of a highlight; `SqlError` for arguments of other types."""
    expected = _TYPES[: len(types)]
    if len(types) < _LEAST or len(types) > len(_TYPES):
        raise SqlError(f"{word} takes {_signature()}; got {len(types)} arguments")
    for place, (kind, wanted) in enumerate(zip(types, expected, strict=True), 1):
        fits = pa.types.is_integer(kind) if pa.types.is_integer(wanted) else is_string(kind)
        if not (fits or pa.types.is_null(kind)):
            raise SqlError(f"argument {place} of {word} is {kind}; expected {_signature()}")
    return pa.utf8()


def highlight_signature(types: Sequence[pa.DataType]) -> Sequence[pa.DataType]:
    """Return the types that arguments are cast to."""
    if len(types) > len(_TYPES) or any(pa.types.is_struct(kind) for kind in types):
        return types
    return _TYPES[: len(types)]


def compute_highlights(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute highlights: NULL where a text, or another argument, is NULL."""
    found: list[str | None] = []
    size = 0
    for row in _rows(columns):
        if any(value is None for value in row):
            found.append(None)
            continue
        text, query, *more = row
        if len(text) > MOST_TEXT:
            raise LimitExceeded(
                f"{HIGHLIGHT} of a text of {len(text)} characters; expected at most {MOST_TEXT}, as of a part of it"
            )
        highlighter, marks = _highlighter(query, tuple(more))
        marked = highlighter.mark(text, marks)
        found.append(marked)
        size += len(marked)
        if size > MOST_BYTES:
            raise LimitExceeded(f"{HIGHLIGHT} would make more than {MOST_BYTES} bytes at once; expected length => n")
    return pa.array(found, pa.utf8())


def _rows(columns: Sequence[pa.Array]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each row, few of which are Python's at the same time."""
    for start in range(0, len(columns[0]), _ROWS_AT_ONCE):
        yield from zip(*(column.slice(start, _ROWS_AT_ONCE).to_pylist() for column in columns), strict=True)


@lru_cache(64)
def _highlighter(query: str, given: tuple[Any, ...]) -> tuple[Highlighter, Marks]:
    values = dict(zip([*_DEFAULTS, "options"], [*given, *[*_DEFAULTS.values(), "{}"][len(given) :]], strict=True))
    for name in ("before", "after"):
        if len(values[name]) > MOST_MARK:
            raise SqlError(f"{name} of {HIGHLIGHT} has {len(values[name])} characters; expected {MOST_MARK} at most")
    if not 0 <= values["length"] <= MOST_LENGTH:
        raise SqlError(f"length of {HIGHLIGHT} is {values['length']}; expected a number from 0 to {MOST_LENGTH}")
    for name, known in (("escape", _ESCAPES), ("syntax", SYNTAXES)):
        if values[name].lower() not in known:
            raise SqlError(f"{name} of {HIGHLIGHT} is {values[name]!r}; expected {' or '.join(known)}")
    try:
        node = parse(query, Mode.named(values["mode"]), is_plain=SYNTAXES[values["syntax"].lower()])
        highlighter = Highlighter.of(node, json.loads(values["options"]))
    except InvalidInput as exc:
        raise SqlError(str(exc)) from exc
    is_html = _ESCAPES[values["escape"].lower()]
    return highlighter, Marks(values["before"], values["after"], is_html, values["length"])
