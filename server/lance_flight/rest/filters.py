"""Conditions and expressions in Lance's dialect of SQL, translated to ours.

Lance takes names as they are written, with backticks around those that need quotes. Text in double quotes is a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lance_flight.engine.sql.references import enclosed, quoted, text_literal
from lance_flight.engine.sql.tokens import Kind, Token, edited, spelled_out
from lance_flight.errors import InvalidInput, SqlError

MOST_CHARACTERS = 4 << 20

Names = Callable[[], Collection[str]]
"""Function that returns the names of the columns of a table; it is called only for a text with capitals."""


def expression(text: object, names: Names, relation: str = "") -> str:
    """Return an expression of Lance in our SQL, in brackets; `SqlError` for one that is not a single expression.

    Names of columns without a relation are those of `relation`, if one is given.

    >>> expression('`my col` = "it" AND Price > 2', lambda: ["my col", "Price"]).split()
    ['("my', 'col"', '=', "'it'", 'AND', '"Price"', '>', '2', ')']
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{text!r} is no expression of SQL; expected a text")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"an expression of {len(text)} characters; expected at most {MOST_CHARACTERS}")
    tokens = spelled_out(text)
    _check_single(tokens, text)
    is_folded = all(token.text == token.text.lower() for token in tokens if token.kind is Kind.WORD)
    known = () if is_folded and not relation else names()
    edits = []
    for place, token in enumerate(tokens):
        if token.kind is Kind.NAME and text[token.start] == '"':
            edits.append((token.start, token.stop, text_literal(token.text)))
        elif token.kind is Kind.NAME or (token.kind is Kind.WORD and token.text in known):
            is_inside = place > 0 and tokens[place - 1].is_sign(".")
            before = f"{relation}." if relation and not is_inside and token.text in known else ""
            edits.append((token.start, token.stop, before + quoted(token.text)))
    return enclosed(edited(text, edits))


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
