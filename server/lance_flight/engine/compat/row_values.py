"""Comparisons of row values, `(a, b) = (1, 2)`, as the comparisons of their parts that SQL defines them by.

DataFusion 55 makes structs of row values and compares them as one value, NULL and all: `(a, b) < (1, 3)` is true where `a` is NULL.
`(a, b) IS NULL` stays a question about the struct, as in DuckDB: PostgreSQL asks each part.
Of `(a, b) IN (SELECT …)` it has no plan: unnecessary with a release of https://github.com/apache/datafusion/pull/19857, and of what
https://github.com/apache/datafusion/pull/21054 began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lance_flight.engine.compat.memberships import ends_condition
from lance_flight.engine.functions.routines import is_aggregate
from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.comparisons import OperandsOfText
from lance_flight.engine.sql.tokens import Edit, Kind, Token
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

_OPERATORS = frozenset(["=", "<>", "!=", "<", "<=", ">", ">="])
_BEFORE = frozenset(
    [
        *("WHERE", "AND", "OR", "NOT", "ON", "HAVING", "QUALIFY", "SELECT", "WHEN", "THEN", "ELSE", "BY", "CASE"),
        *("BETWEEN", "DISTINCT", "FILTER", "ALL"),
    ]
)
"""Words before a row value: others, like IN, VALUES and USING, are before lists of another kind."""
_CONDITIONS = frozenset(["WHERE", "HAVING", "ON"])
_EXISTS = "EXISTS (SELECT 1 FROM … WHERE c = a AND d = b)"
_MOST_QUERIES = 100
_LARGEST = 4 << 20
"""Characters that the comparisons of one statement may take once they are written out."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row value: the texts of its parts, and the tokens from its first one to the one after it."""

    parts: Sequence[str]
    start: int
    stop: int


def row_value_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write out the comparisons of row values.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> for text in ["(a, b) = (1, 2)", "(a, b) < (1, 2)", "(a, b) NOT IN ((1, 2), (3, 4))"]:
    ...     text = f"SELECT 1 FROM t WHERE {text}"
    ...     print(edit_text(text, row_value_edits(text, tokenize(text))).partition("WHERE ")[2])
    ((a) = (1) AND (b) = (2))
    ((a) < (1) OR ((a) = (1) AND ((b) < (2))))
    (NOT (((a) = (1) AND (b) = (2)) OR ((a) = (3) AND (b) = (4))))
    """
    if not any(_may_begin(tokens, at) for at in range(len(tokens))):
        return []
    reader = _Reader(text, tokens)
    edits = list(reader.read())
    if sum(len(new) for _, _, new in edits) > _LARGEST:
        raise LimitExceeded(
            f"the row values of the statement take more than {_LARGEST} characters once they are compared part by part;"
            " expected fewer, or a join with a table of them"
        )
    return edits


def _may_begin(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a bracket opens at a token where a row value may stand."""
    if not tokens[at].is_sign("("):
        return False
    before = tokens[at - 1] if at else None
    if before is None or before.word in _BEFORE:
        return True
    if before.word == "ROW":
        return True
    return before.kind is Kind.SIGN and before.text in "(,[="


class _Reader(OperandsOfText):
    """Reads the comparisons of row values of a text, from its first token to its last."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        super().__init__(sql, tokens)
        self.queries = 0

    def read(self) -> Iterator[Edit]:
        """Yield the edits of the whole text."""
        at = 0
        while at < len(self.tokens):
            row = self._row(at) if _may_begin(self.tokens, at) else None
            end = None if row is None else self._end_of_comparison(row)
            if end is None or row is None:
                at += 1
                continue
            stop, written = end
            yield self.tokens[row.start].start, self.tokens[stop - 1].stop, f"({written})"
            at = stop

    def _row(self, at: int) -> _Row | None:
        """Return the row value whose bracket opens at a token; None where there is none."""
        closing = self.partners.get(at)
        if closing is None or not self.is_sign(at, "(") or self.first_word(at) in QUERIES:
            return None
        commas, place = [at], at + 1
        while place < closing:
            if self.is_sign(place, ","):
                commas.append(place)
            elif self.kind(place) in {Kind.LITERALS, Kind.PARAMETERS}:
                return None
            place = max(place, self.partners.get(place, place)) + 1
        if len(commas) == 1 or any(second - first == 1 for first, second in pairwise([*commas, closing])):
            return None
        parts = [
            self.sql[self.tokens[first + 1].start : self.tokens[second - 1].stop]
            for first, second in pairwise([*commas, closing])
        ]
        start = at - 1 if self.word_at(at - 1) == "ROW" else at
        return _Row(parts, start, closing + 1)

    def _row_at(self, at: int, like: _Row) -> _Row | None:
        """Return the row value that begins at a token, with as many parts as another one."""
        row = self._row(at + 1 if self.word_at(at) == "ROW" else at)
        if row is not None and len(row.parts) != len(like.parts):
            raise SqlError(
                f"a row value of {len(like.parts)} is compared with one of {len(row.parts)} values; expected as many"
            )
        return row

    def _end_of_comparison(self, row: _Row) -> tuple[int, str] | None:
        """Return the token after the comparison that begins with a row value, and what it is written out as."""
        at = row.stop
        is_negated = self.word_at(at) == "NOT"
        word = self.word_at(at + is_negated)
        if word == "IN":
            return self._member(row, at + is_negated + 1, is_negated=is_negated)
        if word == "BETWEEN":
            return self._between(row, at + is_negated + 1, is_negated=is_negated)
        if word == "IS":
            return self._is(row, at + 1)
        operator, width = self._operator(at)
        if operator not in _OPERATORS:
            return None
        if self.word_at(at + width) in {"ANY", "ALL", "SOME"} or self._is_query(at + width):
            raise Unsupported(
                f"{operator} of a row value and a subquery is not offered; write (a, b) IN (SELECT …), or {_EXISTS}"
            )
        other = self._row_at(at + width, row)
        return None if other is None else (other.stop, _compare(row.parts, operator, other.parts))

    def _operator(self, at: int) -> tuple[str, int]:
        """Return the comparison at a token, and how many tokens it takes."""
        if self.kind(at) is not Kind.SIGN:
            return "", 0
        if self.kind(at + 1) is Kind.SIGN and self.tokens[at].stop == self.tokens[at + 1].start:
            both = self.text(at) + self.text(at + 1)
            if both in _OPERATORS:
                return both, 2
        return self.text(at), 1

    def _is_query(self, at: int) -> bool:
        return self.is_sign(at, "(") and self.first_word(at) in QUERIES

    def _between(self, row: _Row, at: int, *, is_negated: bool) -> tuple[int, str] | None:
        low = self._row_at(at, row)
        high = None if low is None or self.word_at(low.stop) != "AND" else self._row_at(low.stop + 1, row)
        if low is None or high is None:
            return None
        within = f"({_compare(row.parts, '>=', low.parts)}) AND ({_compare(row.parts, '<=', high.parts)})"
        return high.stop, f"NOT ({within})" if is_negated else within

    def _is(self, row: _Row, at: int) -> tuple[int, str] | None:
        is_negated = self.word_at(at) == "NOT"
        at += is_negated
        if self.word_at(at) != "DISTINCT" or self.word_at(at + 1) != "FROM":
            return None
        other = self._row_at(at + 2, row)
        if other is None:
            return None
        word, joint = ("IS NOT DISTINCT FROM", " AND ") if is_negated else ("IS DISTINCT FROM", " OR ")
        pairs = zip(row.parts, other.parts, strict=True)
        return other.stop, joint.join(f"(({mine}) {word} ({theirs}))" for mine, theirs in pairs)

    def _member(self, row: _Row, at: int, *, is_negated: bool) -> tuple[int, str] | None:
        closing = self.partners.get(at)
        if closing is None or not self.is_sign(at, "("):
            return None
        if self.first_word(at) in QUERIES:
            return closing + 1, self._member_of_query(row, at, closing, is_negated=is_negated)
        rows, place = [], at + 1
        while place < closing:
            other = self._row_at(place, row)
            if other is None or not (self.is_sign(other.stop, ",") or other.stop == closing):
                return None
            rows.append(other.parts)
            place = other.stop + 1
        if not rows:
            return None
        if len(rows) * sum(map(len, row.parts)) > _LARGEST:
            raise LimitExceeded(
                f"IN has {len(rows)} row values, too many to compare with each; expected a join with a table of them"
            )
        among = " OR ".join(f"({_compare(row.parts, '=', parts)})" for parts in rows)
        return closing + 1, f"NOT ({among})" if is_negated else among

    def _member_of_query(self, row: _Row, at: int, closing: int, *, is_negated: bool) -> str:
        if any(self.is_sign(place + 1, "(") and is_aggregate(self.text(place)) for place in range(row.start, row.stop)):
            raise Unsupported(
                "a row value of aggregates IN (SELECT …) is not offered; name them in a query below:"
                " FROM (SELECT a, count(*) AS n FROM t GROUP BY a) WHERE (a, n) IN (SELECT …)"
            )
        names = [f'"$row.{number}"' for number in range(len(row.parts))]
        query = self.sql[self.tokens[at].start : self.tokens[closing].stop]
        equal = _compare(names, "=", row.parts)
        self.queries += 1
        if self.queries > _MOST_QUERIES:
            raise LimitExceeded(f"the statement has more than {_MOST_QUERIES} row values IN a query; expected a join")
        rows = f'SELECT 1 FROM {query} AS "$row"({", ".join(names)}) WHERE'  # noqa: S608 - planned, not run
        if self._is_condition(row.start, closing + 1):
            return f"NOT EXISTS ({rows} ({equal}) IS NOT FALSE)" if is_negated else f"EXISTS ({rows} {equal})"
        met, other = ("FALSE", "TRUE") if is_negated else ("TRUE", "FALSE")
        null = f"EXISTS ({rows} ({equal}) IS NULL)"
        return f"CASE WHEN EXISTS ({rows} {equal}) THEN {met} WHEN {null} THEN CAST(NULL AS BOOLEAN) ELSE {other} END"

    def _is_condition(self, start: int, stop: int) -> bool:
        """Return whether an expression is a whole part of a condition, with nothing but AND, OR and brackets around it."""
        while True:
            before, after = start - 1, stop
            if not ends_condition(self, after - 1):
                return False
            while self.word_at(before) in {"AND", "OR"}:
                if self._is_of_between(before - 1):
                    return False
                before = self.left(before - 1) - 1
            if self.word_at(before) in _CONDITIONS:
                return True
            if not self.is_sign(before, "(") or self.partners.get(before) is None:
                return False
            stop = self.right(after) if self.word_at(after) in {"AND", "OR"} else after
            while self.word_at(stop) in {"AND", "OR"}:
                stop = self.right(stop + 1)
            if stop != self.partners[before] or self.ends_operand(before - 1):
                return False
            start, stop = before, stop + 1


def _compare(mine: Sequence[str], operator: str, theirs: Sequence[str]) -> str:
    """Return the comparison of two row values, part by part; from left to right where their order counts."""
    pairs = list(zip(mine, theirs, strict=True))
    if operator == "=":
        return " AND ".join(f"({left}) = ({right})" for left, right in pairs)
    if operator in {"<>", "!="}:
        return " OR ".join(f"({left}) <> ({right})" for left, right in pairs)
    *first, (left, right) = pairs
    written = f"({left}) {operator} ({right})"
    for left, right in reversed(first):
        written = f"({left}) {operator[0]} ({right}) OR (({left}) = ({right}) AND ({written}))"
    return written
