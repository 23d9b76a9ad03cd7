"""PostgreSQL's operators `doc -> 'a' ->> 'b'`, which DataFusion reads and does not plan: they become calls of functions.

They belong to the column, call or brackets before them, whatever stands before that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from lance_flight.engine.sql.clause_words import BEFORE_OPERAND
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Kind, Token, closing_places
from lance_flight.errors import SqlError

Edit = tuple[int, int, str]
_TEXT, _VALUE = "->>", "->"


def json_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    r"""Return the edits that write `->>`, and each `->` that leads to one, as calls.

    >>> from lance_flight.engine.sql.tokens import edited, tokenize
    >>> text = "SELECT v.doc->'a b'->0->>'c' = $1 FROM v"
    >>> edited(text, json_edits(text, tokenize(text)))
    'SELECT json_get_string(json_extract(json_extract(v.doc,\'$["a b"]\'),\'$[0]\'),\'c\') = $1 FROM v'
    """
    if _TEXT not in text:
        return []
    places = [at for at in range(len(tokens)) if _is_operator(text, tokens, at, _TEXT)]
    closing = closing_places(tokens, "([", ")]") if places else {}
    opened = {end: start for start, end in closing.items()}
    return sorted((edit for at in places for edit in _chain(text, tokens, at, opened)), key=itemgetter(0))


def _is_operator(text: str, tokens: Sequence[Token], at: int, sign: str) -> bool:
    if not (0 <= at <= len(tokens) - len(sign) and tokens[at].is_sign("-")):
        return False
    start, stop = tokens[at].start, tokens[at + len(sign) - 1].stop
    return text[start:stop] == sign and not text.startswith(">", stop)


def _chain(text: str, tokens: Sequence[Token], at: int, opened: Mapping[int, int]) -> Iterator[Edit]:
    """Yield the edits of a `->>`, and of each `->` before it in one chain."""
    key = at + len(_TEXT)
    if key >= len(tokens) or tokens[key].kind not in _KEYS:
        raise SqlError(f"->> at character {tokens[at].start + 1} has no key; expected a text, a number or a parameter")
    wanted = tokens[key].text if tokens[key].kind is Kind.PARAMETER else text_literal(tokens[key].text)
    yield tokens[at].start, tokens[key].stop, f",{wanted})"
    calls = "json_get_string("
    while _is_operator(text, tokens, at - 1 - len(_VALUE), _VALUE) and tokens[at - 1].kind in _STEPS:
        step, at = tokens[at - 1], at - 1 - len(_VALUE)
        place = step.text if step.kind is Kind.NUMBER else json.dumps(step.text, ensure_ascii=False)
        yield tokens[at].start, step.stop, f",{text_literal(f'$[{place}]')})"
        calls += "json_extract("
    first = _first(tokens, at - 1, opened)
    if first >= at or any(_is_operator(text, tokens, first - len(sign), sign) for sign in (_TEXT, _VALUE)):
        raise SqlError(
            f"the operator at character {tokens[at].start + 1} has no document before it; expected doc -> 'a' ->> 'b'"
        )
    yield tokens[first].start, tokens[first].start, calls


def _first(tokens: Sequence[Token], at: int, opened: Mapping[int, int]) -> int:
    """Return the first token of the column, call, brackets or text that ends at a place; the one after it without any."""
    begins = at + 1
    while at >= 0:
        if at in opened:
            is_index = tokens[at].is_sign("]")
            begins = opened[at]
            at = begins - 1
            if at < 0 or not (is_index or _is_named(tokens[at])):
                break
        elif tokens[at].kind is Kind.STRING or _is_named(tokens[at]):
            begins = at
            if at < 1 or not tokens[at - 1].is_sign("."):
                break
            at -= len((".", "name"))
        else:
            break
    return begins


def _is_named(token: Token) -> bool:
    """Return whether a token is the name of a column or a function: no word that an expression follows."""
    return token.kind in _NAMES and token.word not in BEFORE_OPERAND


_NAMES = frozenset([Kind.WORD, Kind.NAME])
_STEPS = frozenset([Kind.STRING, Kind.NUMBER])
_KEYS = _STEPS | {Kind.PARAMETER}
