"""Brackets around sums and products beside `||`, which bind closer than it in PostgreSQL and DuckDB.

sqlparser binds `||` as close as `*`: `'a' || 5 % 3` is `('a' || 5) % 3` to it. Unnecessary with a release of
https://github.com/apache/datafusion-sqlparser-rs in which the precedence of `||` is that of PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.checked_arithmetic import Factors
from lance_flight.engine.sql.tokens import Edit, Kind, Token

_ARITHMETIC = frozenset("+-*/%")


def concatenation_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits (start, stop, new text) that put brackets around the operands of `||` that are sums or products.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT 'a' || b + c * 2 || d, e % 3 || f FROM t"
    >>> edit_text(text, concatenation_edits(tokenize(text)))
    "SELECT 'a' || (b + c * 2) || d, (e % 3) || f FROM t"
    """
    places = [at for at in range(1, len(tokens) - 1) if _is_concatenation(tokens, at)]
    if not places:
        return []
    factors = Factors(tokens)
    spans: set[tuple[int, int]] = set()
    for at in places:
        stop = factors.right_of(at + 1, "+")
        while factors.text(stop) in {"+", "-"} and factors.is_binary(stop):
            stop = factors.right_of(stop, "+")
        spans |= {(factors.left_of(at, "+"), at), (at + 2, stop)}
    wrapped = sorted(span for span in spans if _has_arithmetic(factors, *span))
    edits = [(tokens[start].start, tokens[start].start, "(") for start, _ in wrapped]
    return sorted([*edits, *((tokens[stop - 1].stop, tokens[stop - 1].stop, ")") for _, stop in wrapped)])


def _is_concatenation(tokens: Sequence[Token], at: int) -> bool:
    one, other = tokens[at], tokens[at + 1]
    return one.is_sign("|") and other.is_sign("|") and one.stop == other.start


def _has_arithmetic(factors: Factors, start: int, stop: int) -> bool:
    """Return whether an operator between numbers stands in an operand, and not in a bracket of it."""
    at = start
    while at < stop:
        if factors.kind(at) is Kind.SIGN and factors.text(at) in _ARITHMETIC and at > start and factors.is_binary(at):
            return True
        at = max(at, factors.partners.get(at, at)) + 1
    return False
