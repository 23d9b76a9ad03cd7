"""Lengths of text types in casts: `CAST(a AS VARCHAR(3))` keeps three characters, where DataFusion 55 ignores the length.

Its option `datafusion.sql_parser.support_varchar_with_length` says so. The sum of a length and zero tells such a call from a client's, so that
names of columns can leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lance_flight.engine.sql.clause_words import BEFORE_OPERAND
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places

_TEXTS = frozenset(["VARCHAR", "CHAR", "NVARCHAR"])
_CASTS = frozenset(["CAST", "TRY_CAST"])


def text_length_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that cut the text of each cast to a type with a length.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT CAST(a AS CHAR(2)), f(b)::varchar(3) FROM t"
    >>> edit_text(text, text_length_edits(tokenize(text)))
    'SELECT left(CAST(a AS CHAR), 2 + 0), left(f(b)::varchar, 3 + 0) FROM t'
    """
    lengths = list(_lengths(tokens))
    if not lengths:
        return []
    opening = {stop: start for start, stop in closing_places(tokens, "([", ")]").items()}
    return [edit for place, opened in lengths for edit in _edits(tokens, place, opened, opening)]


_CUT = re.compile(r",Int64\(\d+\) \+ Int64\(0\)\)")
_LEFT = "left("


def without_lengths(name: str) -> str:
    """Return the name of a column as it is without the cuts of casts to types with lengths.

    >>> without_lengths("upper(left(concat(t.a,t.b),Int64(3) + Int64(0)))")
    'upper(concat(t.a,t.b))'
    """
    while (match := _CUT.search(name)) is not None:
        depth, start = 0, match.start()
        while start >= 0 and not (depth == 0 and name.endswith(_LEFT, 0, start)):
            start -= 1
            depth += (name[start] == ")") - (name[start] == "(")
        if start < 0:
            return name
        name = name[: start - len(_LEFT)] + name[start : match.start()] + name[match.end() :]
    return name


def _lengths(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the place of each text type that a cast may name, and of the bracket of its length."""
    for place in range(1, len(tokens) - 3):
        if tokens[place].word in _TEXTS and (tokens[place - 1].is_sign("::") or tokens[place - 1].word == "AS"):
            opened = place + 1
            if tokens[opened].is_sign("(") and tokens[opened + 1].is_whole and tokens[opened + 2].is_sign(")"):
                yield place, opened


def _edits(tokens: Sequence[Token], place: int, opened: int, opening: Mapping[int, int]) -> Iterator[Edit]:
    length, end = tokens[opened + 1].text, opened + len(("(", "3"))
    if tokens[place - 1].is_sign("::"):
        first = tokens[first_of_operand(tokens, place - 2, opening)].start
        yield first, first, "left("
        yield tokens[opened].start, tokens[end].stop, f", {length} + 0)"
        return
    bracket = opening.get(end + 1)
    if bracket is not None and bracket and tokens[bracket - 1].word in _CASTS:
        yield tokens[bracket - 1].start, tokens[bracket - 1].start, "left("
        yield tokens[opened].start, tokens[end].stop, ""
        yield tokens[end + 1].stop, tokens[end + 1].stop, f", {length} + 0)"


def first_of_operand(tokens: Sequence[Token], last: int, opening: Mapping[int, int]) -> int:
    """Return the first token of the column, call, brackets or literal that ends at a place, with the casts of it."""
    first = last
    while True:
        if first in opening:
            first = opening[first]
            while first and tokens[first].is_sign("[") and first - 1 in opening:
                first = opening[first - 1]
            if first and _is_name(tokens[first - 1]):
                first -= 1
        while first > 1 and tokens[first - 1].is_sign(".") and _is_name(tokens[first - 2]):
            first -= 2
        if (
            first
            and tokens[first].kind is Kind.STRING
            and tokens[first - 1].kind is Kind.WORD
            and _touches(tokens, first)
        ):
            first -= 1  # X'00'
        if first == 0 or not tokens[first - 1].is_sign("::"):
            return first
        first -= 2


def _touches(tokens: Sequence[Token], place: int) -> bool:
    return tokens[place - 1].stop == tokens[place].start


def _is_name(token: Token) -> bool:
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in BEFORE_OPERAND)
