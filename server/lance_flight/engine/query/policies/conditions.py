"""Parser of row policy conditions: comparisons of columns with literals, independent of DataFusion.

```text
condition  = conjunction { OR conjunction }
conjunction = part { AND part }
part       = NOT part | ( condition ) | column IS [NOT] NULL | column [NOT] IN ( literal, … ) | column operator literal
literal    = 'text' | number | TRUE | FALSE | DATE 'text' | TIMESTAMP 'text' | CURRENT_USER
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import pyarrow as pa

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.errors import Refused
from lance_flight.planning.predicates import Column, Compare, In, IsNull, Op, Predicate, all_of, any_of, negate

_OPERATORS: Mapping[tuple[str, ...], Op] = MappingProxyType(
    {
        ("=",): Op.EQ,
        ("<", ">"): Op.NE,
        ("!", "="): Op.NE,
        ("<", "="): Op.LE,
        (">", "="): Op.GE,
        ("<",): Op.LT,
        (">",): Op.GT,
    }
)


@dataclass(frozen=True, slots=True)
class Condition:
    """Text of a row policy condition.

    >>> str(Condition.parse("tenant = CURRENT_USER AND day > '2026-01-31'"))
    "tenant = CURRENT_USER AND day > '2026-01-31'"
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a condition; raise `SqlError` for an invalid one."""
        _Reader(Cursor.over(text, is_spelled_out=True), None, "").whole()
        return cls(text)

    def __str__(self) -> str:
        return self.text

    def bound(self, columns: pa.Schema, user: str) -> Predicate:
        """Return the condition as a predicate on the columns of a table; raise `Refused` if they cannot be compared so.

        >>> str(Condition("tenant IN ('a', CURRENT_USER)").bound(pa.schema({"tenant": pa.utf8()}), "bob"))
        "tenant IN ('a', 'bob')"
        """
        return _Reader(Cursor.over(self.text, is_spelled_out=True), columns, user).whole()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Parses a condition over some columns (None: over any columns, without checking values)."""

    cursor: Cursor
    columns: pa.Schema | None
    user: str

    def whole(self) -> Predicate:
        predicate = self._any()
        self.cursor.end()
        return predicate

    def _any(self) -> Predicate:
        parts = [self._all()]
        while self.cursor.accept("OR"):
            parts.append(self._all())
        return any_of(parts)

    def _all(self) -> Predicate:
        parts = [self._part()]
        while self.cursor.accept("AND"):
            parts.append(self._part())
        return all_of(parts)

    def _part(self) -> Predicate:
        if self.cursor.accept("NOT"):
            return negate(self._part())
        if self.cursor.accept("("):
            inner = self._any()
            self.cursor.expect(")")
            return inner
        name = self.cursor.name("a column")
        kind = self._type(name)
        if self.cursor.accept("IS"):
            negated = self.cursor.accept("NOT")
            self.cursor.expect("NULL")
            return IsNull(Column(name), negated=negated)
        negated = self.cursor.accept("NOT")
        if negated or self.cursor.peek("IN"):
            self.cursor.expect("IN")
            return In(Column(name), self._list(name, kind), negated=negated)
        for signs, op in _OPERATORS.items():
            if self.cursor.accept(*signs):
                return Compare(Column(name), op, self._literal(name, kind))
        raise self.cursor.error("a comparison, IN or IS")

    def _type(self, name: str) -> pa.DataType:
        if self.columns is None:
            return pa.utf8()
        if name not in self.columns.names:
            raise Refused(f"the row policy speaks of column {name!r}, which the table has not")
        return self.columns.field(name).type

    def _list(self, name: str, kind: pa.DataType) -> pa.Array:
        self.cursor.expect("(")
        values = [self._literal(name, kind)]
        while self.cursor.accept(","):
            values.append(self._literal(name, kind))
        self.cursor.expect(")")
        return pa.array(values, kind)

    def _literal(self, name: str, kind: pa.DataType) -> pa.Scalar:
        text = self._text()
        try:
            return pa.scalar(text).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            raise Refused(f"the row policy compares column {name!r} ({kind}) with {text!r}") from exc

    def _text(self) -> str:
        return self.user if self.cursor.accept("CURRENT_USER") else self.cursor.literal("a literal")
