"""Conditions and expressions in Lance's dialect of SQL, translated to ours.

Lance finds the names of columns whatever their case, and takes backticks around those that need quotes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from lance_flight.engine.sql.references import enclose, quote_parts
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places, edit_text, spelled_out
from lance_flight.errors import InvalidInput, SqlError

MOST_CHARACTERS = 4 << 20
_CASTS: Mapping[str, str] = MappingProxyType({"CAST": "arrow_cast", "TRY_CAST": "arrow_try_cast"})
_INTEGERS: Mapping[str, str] = MappingProxyType(
    {"TINYINT": "Int8", "SMALLINT": "Int16", "INT": "Int32", "INTEGER": "Int32", "BIGINT": "Int64"}
)
"""Types of Arrow by their names in SQL."""
_OPERATORS = frozenset(
    ["AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "FROM", "DISTINCT"]
)
"""Words before a bracket that are no function."""


def expression(text: object, names: Collection[str], relation: str = "", *, is_condition: bool = False) -> str:
    """Return an expression of Lance in our SQL, in brackets; `SqlError` for one that is not a single expression.

    `names` are the columns of the table. Those without a relation are of `relation`, if one is given. Casts to integers cut numbers
    off, where ours round. In a condition `regexp_match` tells whether a text matches.

    >>> expression("`my col` = 'a' AND price > 2", ["my col", "Price"]).split()
    ['("my', 'col"', '=', "'a'", 'AND', '"Price"', '>', '2', ')']
    >>> expression("date > date '2026-01-01'", ["date"]).split()
    ['("date"', '>', 'date', "'2026-01-01'", ')']
    >>> print(expression("cast(a as int) = f(b)::bigint OR (a)::text::int = 1", ["a", "b"]).strip(")"))
    (arrow_cast("a" ,'Int32') = arrow_cast(f("b"),'Int64') OR arrow_cast(("a")::text,'Int32') = 1
    <BLANKLINE>
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{text!r} is no expression of SQL; expected a text")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"an expression of {len(text)} characters; expected at most {MOST_CHARACTERS}")
    tokens = spelled_out(text)
    _check_single(tokens, text)
    folded = {name.lower(): name for name in reversed(list(names))}
    edits = list(_integer_casts(tokens))
    for place, token in enumerate(tokens):
        if token.kind is Kind.NAME:
            name = token.text if token.text in names else None
        elif token.kind is Kind.WORD and not _is_type_or_function(tokens, place):
            name = token.text if token.text in names else folded.get(token.text.lower())
        else:
            if is_condition and token.word == "REGEXP_MATCH":
                edits.append((token.start, token.stop, "regexp_like"))
            continue
        if name is not None or token.kind is Kind.NAME:
            is_inside = place > 0 and tokens[place - 1].is_sign(".")
            before = f"{relation}." if relation and name is not None and not is_inside else ""
            edits.append((token.start, token.stop, before + quote_parts(name or token.text)))
    return enclose(edit_text(text, edits))


def _integer_casts(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Yield what makes casts to integers those of Arrow: `CAST(x AS INT)`, `TRY_CAST(x AS INT)` and `x::INT`."""
    closing = closing_places(tokens, "([", ")]")
    opening = {close: start for start, close in closing.items()}
    begins: dict[int, int] = {}
    for place, token in enumerate(tokens):
        function, following = _CASTS.get(token.word), tokens[place + 1 : place + 2]
        if function is not None and following and following[0].is_sign("("):
            end = closing.get(place + 1, 0)
            kind = _INTEGERS.get(tokens[end - 1].word) if end else None
            if kind is not None and tokens[end - 2].word == "AS":
                yield token.start, token.stop, function
                yield tokens[end - 2].start, tokens[end - 1].stop, f",'{kind}'"
        elif token.is_sign("::") and following and place:
            begins[place] = _operand(tokens, place - 1, opening, begins)
            if following[0].word not in _INTEGERS:
                continue
            begin = tokens[begins[place]].start
            yield begin, begin, "arrow_cast("
            yield token.start, following[0].stop, f",'{_INTEGERS[following[0].word]}')"


def _operand(tokens: Sequence[Token], last: int, opening: Mapping[int, int], begins: Mapping[int, int]) -> int:
    """Return the place at which the operand of `::` begins, whose last token is at `last`; `begins` has those of casts before."""
    place = opening.get(last, last)
    while place > 0:
        before = tokens[place - 1]
        is_name = before.kind is Kind.NAME or (before.kind is Kind.WORD and before.word not in _OPERATORS)
        if tokens[place].text in ("(", "[") and is_name:
            place -= 1
        elif tokens[place].is_sign("[") and place - 1 in opening:
            place = opening[place - 1]
        elif before.is_sign(".") and place > 1:
            place -= 2
        else:
            return begins.get(place - 1, place)
    return place


def _is_type_or_function(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a word is the name of a function, or a type: `f(`, `date '2026-01-01'`, `CAST(… AS date)`."""
    following = tokens[place + 1] if place + 1 < len(tokens) else None
    is_before = following is not None and (following.is_sign("(") or following.kind is Kind.STRING)
    return is_before or (place > 0 and (tokens[place - 1].word == "AS" or tokens[place - 1].is_sign("::")))


def _check_single(tokens: Sequence[Token], text: str) -> None:
    """Refuse a text that would end the brackets around it, or has parameters."""
    depth = 0
    for token in tokens:
        if token.kind is Kind.PARAMETER:
            raise SqlError(f"{text[:200]!r} has the parameter {token.text}; expected values")
        if token.kind is Kind.SIGN:
            depth += (token.text in "([") - (token.text in ")]")
            if depth < 0 or token.text == ";":
                raise SqlError(f"{text[:200]!r} is no single expression: {token.text!r} at {token.start + 1}")
    if depth:
        raise SqlError(f"{text[:200]!r} is no expression: {depth} brackets have no end")
