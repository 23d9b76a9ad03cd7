"""Parser of the calls of search functions in a query.

Their arguments are texts of SQL: first those that have a place, then `name => value` in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.tokens import QUOTED, tokenize
from lance_flight.errors import SqlError
from lance_flight.lru_cache import for_short_texts

_KNOWN, _LONGEST_KNOWN = 32, 64 << 10
"""Number of texts whose calls are cached, and the longest of them in characters."""

VECTOR_SEARCH, FULL_TEXT_SEARCH, HYBRID_SEARCH = "vector_search", "full_text_search", "hybrid_search"


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a search function: `placed` (positional, required) and `named` (optional) arguments.

    In place of some that are required there may be one of those that are `instead`.
    """

    placed: tuple[str, ...]
    named: tuple[str, ...]
    instead: Mapping[str, str] = field(default_factory=dict)


# Possessive quantifiers: a list that is none must not be tried in every other way.
_VECTOR_TEXT = re.compile(r"\[(?:[\s\d.eE+-]++,){7,}+[\s\d.eE+-]++\]")
"""A list of many numbers."""

_VECTOR = ("metric", "nprobes", "refine", "ef", "min_distance", "max_distance")
_TEXT = ("mode", "fuzziness", "slop", "syntax", "statistics", "offset")

NUMBERS = frozenset({"k", "nprobes", "refine", "ef", "fuzziness", "slop", "depth", "offset"})
"""Arguments that are whole numbers."""

DISTANCES = frozenset({"min_distance", "max_distance"})
"""Arguments that are distances."""

SWITCHES = frozenset({"use_index", "fast_search"})
"""Arguments that are true or false."""

SIGNATURES: Mapping[str, Signature] = MappingProxyType(
    {
        VECTOR_SEARCH: Signature(
            ("table", "column", "vector"),
            ("k", "filter", *_VECTOR, "use_index", "fast_search", "after", "queries"),
            MappingProxyType({"vector": "queries"}),
        ),
        FULL_TEXT_SEARCH: Signature(("table", "column", "query"), ("k", "filter", *_TEXT)),
        HYBRID_SEARCH: Signature(
            ("table", "vector_column", "vector", "text_column", "query"),
            ("k", "filter", "depth", "fusion", "weights", *_VECTOR, *_TEXT),
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCall:
    """One call: its function, where it stands in the text, and the texts of its arguments by name."""

    function: str
    start: int
    stop: int
    arguments: Mapping[str, str]


def calls(sql: str) -> tuple[SearchCall, ...]:
    """The outermost calls of search functions, in order; `SqlError` for arguments that they do not take.

    >>> [dict(call.arguments) for call in calls("SELECT * FROM vector_search('t', 'v', [1, 2], k => 3)")]
    [{'table': "'t'", 'column': "'v'", 'vector': '[1, 2]', 'k': '3'}]
    """
    if not _may_search(sql):
        return ()
    return _known_calls(sql)


@for_short_texts(_KNOWN, _LONGEST_KNOWN)
def _known_calls(sql: str) -> tuple[SearchCall, ...]:
    """Return the calls of a text, cached: it is read by GetFlightInfo, and again by DoGet."""
    return tuple(_calls(sql))


def _calls(sql: str) -> Iterator[SearchCall]:
    cursor = Cursor(sql, tokenize(sql))
    while not cursor.done:
        token = cursor.tokens[cursor.at]
        function = token.text.lower()
        cursor.at += 1
        if function in SIGNATURES and token.kind not in QUOTED and cursor.peek("("):
            cursor.expect("(")
            arguments = _arguments(cursor, function)
            yield SearchCall(
                function=function, start=token.start, stop=cursor.tokens[cursor.at - 1].stop, arguments=arguments
            )


def without_vectors(sql: str) -> str:
    """Return a text with its lists of many numbers left out if it may have searches, which differ in them alone.

    >>> without_vectors("SELECT * FROM vector_search('t', 'v', [1, 2, 3, 4, 5, 6, 7, 8], k => 3)")
    "SELECT * FROM vector_search('t', 'v', [], k => 3)"
    """
    return _VECTOR_TEXT.sub("[]", sql) if _may_search(sql) else sql


def _may_search(sql: str) -> bool:
    lower = sql.lower()
    return any(function in lower for function in SIGNATURES)


def _arguments(cursor: Cursor, function: str) -> Mapping[str, str]:
    signature = SIGNATURES[function]
    found: dict[str, str] = {}
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        name = _name(cursor)
        if name is None:
            if len(found) >= len(signature.placed):
                raise SqlError(
                    f"{function} takes {_format_signature(signature)}; expected no other value without a name"
                )
            name = signature.placed[len(found)]
        elif name not in (*signature.placed, *signature.named):
            raise SqlError(f"{function} takes no {name!r}; expected {_format_signature(signature)}")
        if name in found:
            raise SqlError(f"{function} is given {name!r} twice")
        text = cursor.until(",", ")")
        if not text:
            raise cursor.error(f"a value for {name!r} of {function}")
        found[name] = text
    _check_given(function, signature, found)
    return found


def _check_given(function: str, signature: Signature, found: Mapping[str, str]) -> None:
    for name, other in signature.instead.items():
        if name in found and other in found:
            raise SqlError(f"{function} is given {name!r} and {other!r}; expected one of them")
    missing = [name for name in signature.placed if name not in found and signature.instead.get(name) not in found]
    if missing:
        raise SqlError(f"{function} has no {', '.join(missing)}; expected {_format_signature(signature)}")


def _name(cursor: Cursor) -> str | None:
    """Return the name of an argument that is given by name; None for a positional one."""
    at = cursor.at
    if at + 2 < len(cursor.tokens) and cursor.tokens[at + 1].is_sign("=") and cursor.tokens[at + 2].is_sign(">"):
        name = cursor.name("the name of an argument")
        cursor.expect("=", ">")
        return name
    return None


def _format_signature(signature: Signature) -> str:
    return ", ".join([*signature.placed, *(f"{name} => …" for name in signature.named)])
