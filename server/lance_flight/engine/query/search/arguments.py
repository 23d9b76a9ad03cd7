"""Values of a search's arguments: literals, parameters, or the results of queries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.engine.sql.tokens import Kind, Token, tokenize
from lance_flight.errors import SqlError

MOST_ROWS = 10_000
DEFAULT_ROWS = 10

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_DIGITS = 18
"""Most digits of a number that always fits into 64 bits."""
_NUMBERS = re.compile(rf"\[\s*{_NUMBER}(?:\s*,\s*{_NUMBER})*\s*\]")

Evaluate = Callable[[str], pa.Scalar]
"""Function that evaluates an expression to its one value."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one call; an unbound parameter has no value yet."""

    function: str
    texts: Mapping[str, str]
    evaluate: Evaluate
    is_bound: bool

    def value(self, name: str) -> pa.Scalar | None:
        """Return the value of an argument; None if it was not given, is NULL, or is not known yet."""
        text = self.texts.get(name)
        if text is None or (not self.is_bound and parameter_count(text) > 0):
            return None
        value = _literal_value(text) or self.evaluate(text)
        return value if value.is_valid else None

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
        found = self.text(name)
        if not found:
            raise SqlError(f"{name} of {self.function} is {self.texts[name]}; expected a name, as a text in quotes")
        return found

    def number(self, name: str, *, least: int = 1, most: int = 2**31 - 1) -> int | None:
        """Return the value of an argument that is a whole number."""
        value = self.value(name)
        if value is None:
            return None
        found = value.as_py()
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.error(name, found, f"a whole number from {least} to {most}")
        return found

    @property
    def count(self) -> int:
        """Return the number of rows to find."""
        return self.number("k", most=MOST_ROWS) or DEFAULT_ROWS

    def switch(self, name: str, *, default: bool) -> bool:
        """Return the value of an argument that is true or false."""
        value = self.value(name)
        if value is None:
            return default
        found = value.as_py()
        if not isinstance(found, bool):
            raise self.error(name, found, "true or false")
        return found

    def error(self, name: str, value: object, expected: str) -> SqlError:
        """Return an error about the value of an argument."""
        return SqlError(f"{name} of {self.function} is {value!r}; expected {expected}")


def _literal_value(text: str) -> pa.Scalar | None:
    """Return the value of a literal or a list of numbers; None for an expression that has to be computed."""
    if _NUMBERS.fullmatch(text):
        return pa.scalar(json.loads(text), pa.list_(pa.float64()))
    match tokenize(text):
        case [Token(kind=Kind.STRING, text=inside)]:
            return pa.scalar(inside)
        case [Token(kind=Kind.NUMBER, text=digits)] if digits.isdigit() and len(digits) <= _DIGITS:
            return pa.scalar(int(digits))
    return None
