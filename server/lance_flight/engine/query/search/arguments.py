"""Calls of search functions in a query, and their arguments: literals, parameters, or the results of queries.

Their arguments are texts of SQL: first those that have a place, then `name => value` in any order.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.tokens import QUOTED, Kind, Token, tokenize
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import SqlError
from lance_flight.lru_cache import for_short_texts

MOST_ROWS = 10_000
DEFAULT_ROWS = 10
_KNOWN, _LONGEST_KNOWN = 128, 64 << 10
"""Number of literals whose values are cached, and the longest of them in characters."""
_AFTER = 2
"""Values of `after`."""

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_PARAMETER = re.compile(r"\$[1-9]\d{0,4}")
_LIST = rf"\[\s*{_NUMBER}(?:\s*,\s*{_NUMBER})*\s*\]"
_NUMBERS = re.compile(_LIST)
_LISTS = re.compile(rf"\[\s*{_LIST}(?:\s*,\s*{_LIST})*\s*\]")

Evaluate = Callable[[str], pa.Scalar]
"""Function that evaluates an expression to its one value."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one call; an unbound parameter has no value yet."""

    function: str
    texts: Mapping[str, str]
    evaluate: Evaluate
    is_bound: bool
    parameters: pa.RecordBatch | None = None

    def value(self, name: str) -> pa.Scalar | None:
        """Return the value of an argument; None if it was not given, is NULL, or is not known yet."""
        text = self.texts.get(name)
        value = None if text is None else self._compute(text)
        return value if value is not None and value.is_valid else None

    def _compute(self, text: str) -> pa.Scalar | None:
        """Return the value of an expression; None if it is not known yet."""
        if not self.is_bound and parameter_count(text) > 0:
            return None
        if self.parameters is not None and _PARAMETER.fullmatch(text):
            return self.parameters.column(int(text[1:]) - 1)[0]
        return _literal_value(text) or self.evaluate(text)

    def text(self, name: str) -> str | None:
        """Return the value of a text argument."""
        value = self.value(name)
        if value is None:
            return None
        if not isinstance(value, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
            raise self.error(name, value.as_py(), "a text")
        return str(value.as_py())

    def name(self, name: str) -> str:
        """Return an argument that names what to search, which must be known before parameters are bound."""
        text = self.text(name)
        if not text:
            raise SqlError(f"{name} of {self.function} is {self.texts[name]}; expected a name, as a text in quotes")
        return text

    def names(self, name: str) -> list[str]:
        """Return an argument that is one name or an array of names."""
        value = self.value(name)
        if value is None or not pa.types.is_nested(value.type):
            return [self.name(name)]
        names = value.as_py()
        if not isinstance(names, list) or not names or not all(isinstance(value, str) and value for value in names):
            raise self.error(name, names, "a name, or an array of names: ['title^2', 'body']")
        return names

    def numbers(self, name: str) -> list[float] | None:
        """Return the value of an argument that is an array of numbers."""
        value = self.value(name)
        if value is None:
            return None
        numbers = value.as_py()
        if not isinstance(numbers, list) or not all(map(_is_number, numbers)):
            raise self.error(name, numbers, "an array of numbers")
        return [float(value) for value in numbers]

    def number(self, name: str, *, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """Return the value of an argument that is a whole number."""
        value = self.value(name)
        if value is None:
            return None
        number = value.as_py()
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise self.error(name, number, f"a whole number from {least} to {most}")
        return number

    def decimal(self, name: str) -> float | None:
        """Return the value of an argument that is a finite number, as the nearest float32, which distances are."""
        value = self.value(name)
        if value is None:
            return None
        return self._distance(name, value.as_py())

    def after(self, name: str) -> tuple[float, str] | None:
        """Return the two values of an argument like `(0.25, 'v1$a$dataset#7')`: a distance and the name of a row."""
        parts = self.parts(name)
        values = [self._compute(part) for part in parts]
        if not values or None in values:
            return None
        distance, row = (value.as_py() for value in values if value is not None)
        if row is None and distance is None:
            return None
        if not isinstance(row, str):
            raise self.error(name, (distance, row), "a distance and the name of a row: (_distance, _rowid)")
        return self._distance(name, distance), row

    def parts(self, name: str) -> list[str]:
        """Return the texts of the two values in the brackets of an argument; none if it was not given or is NULL."""
        text = self.texts.get(name)
        if text is None or text.upper() == "NULL":
            return []
        cursor, parts = Cursor.over(text), []
        if cursor.accept("("):
            parts.append(cursor.until(","))
            while cursor.accept(","):
                parts.append(cursor.until(","))
            cursor.expect(")")
            cursor.end()
        if len(parts) != _AFTER or not all(parts):
            raise self.error(name, text, "a distance and the name of a row in brackets: (_distance, _rowid)")
        return parts

    def _distance(self, name: str, value: object) -> float:
        distance = math.nan
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            with np.errstate(over="ignore"):
                distance = float(np.float32(float(value)))
        if not math.isfinite(distance):
            raise self.error(name, value, "a distance, which is a number")
        return distance

    @property
    def count(self) -> int:
        """Return the number of rows to find."""
        return self.number("k", most=MOST_ROWS) or DEFAULT_ROWS

    @property
    def offset(self) -> int:
        """Return the number of rows to leave out before those to find."""
        offset = self.number("offset", least=0, most=MOST_ROWS) or 0
        if offset + self.count > MOST_ROWS:
            raise self.error("offset", offset, f"{MOST_ROWS - self.count:,} at most where k is {self.count:,}")
        return offset

    def switch(self, name: str, *, default: bool) -> bool:
        """Return the value of an argument that is true or false."""
        value = self.value(name)
        if value is None:
            return default
        switch = value.as_py()
        if not isinstance(switch, bool):
            raise self.error(name, switch, "true or false")
        return switch

    def error(self, name: str, value: object, expected: str) -> SqlError:
        """Return an error about the value of an argument."""
        shown = str(value) if isinstance(value, Decimal) else repr(value)
        return SqlError(f"{name} of {self.function} is {shown}; expected {expected}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value)


@for_short_texts(_KNOWN, _LONGEST_KNOWN)
def _literal_value(text: str) -> pa.Scalar | None:
    """Return the value of a literal, or a list of numbers, of lists of numbers, or of texts; None for an expression that has to be computed.

    It is cached: GetFlightInfo reads a vector, and DoGet again.
    """
    if _NUMBERS.fullmatch(text):
        return pa.scalar(json.loads(text), pa.list_(pa.float64()))
    if _LISTS.fullmatch(text):
        return pa.scalar(json.loads(text), pa.list_(pa.list_(pa.float64())))
    match tokenize(text):
        case [Token(kind=Kind.STRING, text=inside)]:
            return pa.scalar(inside)
        case [Token(is_whole=True, text=digits)]:
            return pa.scalar(int(digits))
        case [Token() as first, *inside, Token() as last] if first.is_sign("[") and last.is_sign("]"):
            return _literal_texts(inside)
    return None


def _literal_texts(tokens: Sequence[Token]) -> pa.Scalar | None:
    """Return the value of a list of texts; None for any other list."""
    texts, commas = tokens[::2], tokens[1::2]
    if len(texts) != len(commas) + 1 or not all(comma.is_sign(",") for comma in commas):
        return None
    if any(token.kind is not Kind.STRING for token in texts):
        return None
    return pa.scalar([token.text for token in texts], pa.list_(pa.utf8()))


_KNOWN_QUERIES, _LONGEST_QUERY = 32, 64 << 10
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


@for_short_texts(_KNOWN_QUERIES, _LONGEST_QUERY)
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
    arguments: dict[str, str] = {}
    while not cursor.accept(")"):
        if arguments:
            cursor.expect(",")
        name = _name(cursor)
        if name is None:
            if len(arguments) >= len(signature.placed):
                raise SqlError(
                    f"{function} takes {_format_signature(signature)}; expected no other value without a name"
                )
            name = signature.placed[len(arguments)]
        elif name not in (*signature.placed, *signature.named):
            raise SqlError(f"{function} takes no {name!r}; expected {_format_signature(signature)}")
        if name in arguments:
            raise SqlError(f"{function} is given {name!r} twice")
        text = cursor.until(",", ")")
        if not text:
            raise cursor.error(f"a value for {name!r} of {function}")
        arguments[name] = text
    _check_given(function, signature, arguments)
    return arguments


def _check_given(function: str, signature: Signature, arguments: Mapping[str, str]) -> None:
    for name, other in signature.instead.items():
        if name in arguments and other in arguments:
            raise SqlError(f"{function} is given {name!r} and {other!r}; expected one of them")
    missing = [
        name for name in signature.placed if name not in arguments and signature.instead.get(name) not in arguments
    ]
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
