"""Conditions and expressions in Lance's dialect of SQL, translated to ours.

Lance finds the names of columns whatever their case, and takes backticks around those that need quotes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lance_flight.engine.sql.references import enclose, quote_parts
from lance_flight.engine.sql.tokens import Kind, Token, edit_text, spelled_out
from lance_flight.errors import InvalidInput, SqlError

MOST_CHARACTERS = 4 << 20


def expression(text: object, names: Collection[str], relation: str = "") -> str:
    """Return an expression of Lance in our SQL, in brackets; `SqlError` for one that is not a single expression.

    `names` are the columns of the table. Those without a relation are of `relation`, if one is given.

    >>> expression("`my col` = 'a' AND price > 2", ["my col", "Price"]).split()
    ['("my', 'col"', '=', "'a'", 'AND', '"Price"', '>', '2', ')']
    >>> expression("date > date '2026-01-01'", ["date"]).split()
    ['("date"', '>', 'date', "'2026-01-01'", ')']
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{text!r} is no expression of SQL; expected a text")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"an expression of {len(text)} characters; expected at most {MOST_CHARACTERS}")
    tokens = spelled_out(text)
    _check_single(tokens, text)
    folded = {name.lower(): name for name in reversed(list(names))}
    edits = []
    for place, token in enumerate(tokens):
        if token.kind is Kind.NAME:
            name = token.text if token.text in names else None
        elif token.kind is Kind.WORD and not _is_type_or_function(tokens, place):
            name = token.text if token.text in names else folded.get(token.text.lower())
        else:
            continue
        if name is not None or token.kind is Kind.NAME:
            is_inside = place > 0 and tokens[place - 1].is_sign(".")
            before = f"{relation}." if relation and name is not None and not is_inside else ""
            edits.append((token.start, token.stop, before + quote_parts(name or token.text)))
    return enclose(edit_text(text, edits))


def _is_type_or_function(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a word is the name of a function, or a type: `f(`, `date '2026-01-01'`, `CAST(… AS date)`."""
    following = tokens[place + 1] if place + 1 < len(tokens) else None
    is_before = following is not None and (following.is_sign("(") or following.kind is Kind.STRING)
    return is_before or (place > 0 and tokens[place - 1].word == "AS")


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
