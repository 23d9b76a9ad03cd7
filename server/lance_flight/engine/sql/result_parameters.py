"""Parameters that are the result of an expression, or a column of a query's rows, so that they have the type of what takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import pyarrow as pa

from lance_flight.engine.sql.select_lists import items
from lance_flight.engine.sql.tokens import Kind, Token, folded, tokenize

_OPENING, _CLOSING = {"(", "[", "{"}, {")", "]", "}"}
_NAMES = frozenset({Kind.WORD, Kind.NAME})
_SAME_TYPED = frozenset({"COALESCE", "NVL", "IFNULL", "GREATEST", "LEAST", "NULLIF"})
"""Functions whose result has the type of their arguments."""


def result_types(expression: str, kind: pa.DataType) -> dict[str, pa.DataType]:
    """Return the parameters that an expression gives as its value, by `$n`, each with the type that takes the value.

    >>> result_types("CASE WHEN a = $1 THEN $2 ELSE -coalesce(b, $3) END", pa.int32())
    {'$2': DataType(int32), '$3': DataType(int32)}
    """
    return dict.fromkeys(_results(tokenize(expression)), kind)


def column_types(query: str, kinds: Sequence[pa.DataType | None]) -> dict[str, pa.DataType]:
    """Return the parameters that are columns of the rows of a query, each with the type that takes that column (None: unknown).

    >>> column_types("VALUES ($1, 'a'), ($2, upper($3))", [pa.int64(), pa.utf8()])
    {'$1': DataType(int64), '$2': DataType(int64)}
    >>> column_types("SELECT a, $1 AS b FROM t WHERE c = $2", [None, pa.date32()])
    {'$1': DataType(date32[day])}
    """
    found = {}
    for row in _rows(_unwrapped(tokenize(query))):
        for item, kind in zip(row, kinds, strict=False):
            if item and item[-1].is_sign("*"):
                break  # the columns from here on have other places
            found.update({} if kind is None else dict.fromkeys(_results(_without_alias(item)), kind))
    return found


def equal_columns(condition: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the columns on the two sides of each equality of a condition, in both orders.

    >>> list(equal_columns("t.id = s.k AND t.n > 1"))
    [('id', 'k'), ('k', 'id')]
    """
    tokens = tokenize(condition)
    for place in (place for place, token in enumerate(tokens[1:-1], 1) if token.is_sign("=")):
        qualifier, *rest = tokens[place + 1 : place + 4]
        other = rest[1] if len(rest) > 1 and rest[0].is_sign(".") else qualifier
        if {tokens[place - 1].kind, other.kind} <= _NAMES:
            yield from permutations((folded(tokens[place - 1]), folded(other)))


def column_name(expression: str) -> str | None:
    """Return the name of the column that an expression is, without its qualifier; None for any other expression."""
    match tokenize(expression):
        case [column] | [_, Token(text="."), column] if column.kind in _NAMES:
            return folded(column)
    return None


def _rows(tokens: Sequence[Token]) -> Iterator[Sequence[Sequence[Token]]]:
    """Yield the items of each row of a VALUES list, and of each select list that is not within brackets."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind is not Kind.SIGN:
            if depth == 0 and token.word == "SELECT":
                yield list(items(tokens, place + 1))
            continue
        if (
            token.text == "("
            and depth == 0
            and place
            and (tokens[place - 1].word == "VALUES" or _follows_row(tokens, place))
        ):
            yield list(items(tokens, place + 1))
        depth += (token.text in _OPENING) - (token.text in _CLOSING)


def _follows_row(tokens: Sequence[Token], place: int) -> bool:
    """Return whether the bracket at a place begins a further row of a statement that is a VALUES list."""
    return tokens[0].word == "VALUES" and tokens[place - 1].is_sign(",")


def _results(tokens: Sequence[Token]) -> Iterator[str]:
    tokens = _unwrapped(tokens)
    while tokens and (tokens[0].is_sign("-") or tokens[0].is_sign("+")):
        tokens = _unwrapped(tokens[1:])
    if not tokens:
        return
    first, last = tokens[0], tokens[-1]
    if len(tokens) == 1 and first.kind is Kind.PARAMETER:
        yield first.text
    elif first.word == "CASE" and last.word == "END":
        for branch in _branches(tokens[1:-1]):
            yield from _results(branch)
    elif first.word in _SAME_TYPED and _is_wrapped(tokens[1:]):
        for argument in items(tokens, 2):
            yield from _results(argument)


def _branches(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the results of the branches of a CASE, whose inside the tokens are."""
    depth, start = 0, None
    for place, token in enumerate(tokens):
        depth += (token.word == "CASE" or (token.kind is Kind.SIGN and token.text in _OPENING)) - (
            token.word == "END" or (token.kind is Kind.SIGN and token.text in _CLOSING)
        )
        if depth == 0 and token.word in {"WHEN", "THEN", "ELSE"}:
            if start is not None:
                yield tokens[start:place]
            start = None if token.word == "WHEN" else place + 1
    if start is not None:
        yield tokens[start:]


def _without_alias(item: Sequence[Token]) -> Sequence[Token]:
    if len(item) > 2 and item[-2].word == "AS":  # noqa: PLR2004 - an expression, AS, and the alias
        return item[:-2]
    is_name = len(item) > 1 and item[-1].kind in _NAMES and item[-1].word != "END"
    is_after_value = is_name and (item[-2].kind is Kind.PARAMETER or item[-2].is_sign(")") or item[-2].word == "END")
    return item[:-1] if is_after_value else item


def _unwrapped(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens without the brackets around all of them."""
    while tokens and _is_wrapped(tokens):
        tokens = tokens[1:-1]
    return tokens


def _is_wrapped(tokens: Sequence[Token]) -> bool:
    """Return whether the first token is a bracket that the last one closes."""
    if not (tokens and tokens[0].is_sign("(") and tokens[-1].is_sign(")")):
        return False
    depth = 0
    for place, token in enumerate(tokens):
        depth += token.is_sign("(") - token.is_sign(")")
        if depth == 0:
            return place == len(tokens) - 1
    return False
