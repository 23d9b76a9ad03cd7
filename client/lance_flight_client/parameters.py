"""Parameters of a statement, and names and texts in quotes: no value becomes part of a statement's text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def quote_name(name: str) -> str:
    """Return a name in the quotes of SQL.

    >>> quote_name('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Return a text as SQL has it, for places that take no parameter.

    >>> text_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


class Parameters:
    """Values bound to one statement, in the order in which they were added.

    >>> bound = Parameters()
    >>> bound.condition("site", ["Oslo", "Lima"]), bound.add(7)
    ('"site" IN ($1, $2)', '$3')
    """

    def __init__(self) -> None:
        self._values: list[pa.Array] = []

    def add(self, value: Any, kind: pa.DataType | None = None) -> str:
        """Bind a value, and return the parameter that stands for it."""
        self._values.append(pa.array([value], kind))
        return f"${len(self._values)}"

    def condition(self, name: str, value: Any) -> str:
        """Return the condition that a column has a value, None for NULL, or any of several in a list, tuple or set."""
        if value is None:
            return f"{quote_name(name)} IS NULL"
        if not isinstance(value, list | tuple | set | frozenset):
            return f"{quote_name(name)} = {self.add(value)}"
        return f"{quote_name(name)} IN ({', '.join(map(self.add, value))})" if value else "FALSE"

    @property
    def row(self) -> pa.RecordBatch | None:
        """The values as ADBC takes them; None without any."""
        names = [str(place) for place, _ in enumerate(self._values, start=1)]
        return pa.record_batch(self._values, names) if names else None
