"""Positions in errors: maps a token of the text that DataFusion planned to the text that the client sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lance_flight.engine.functions.routines import MACROS
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Kind, Token, tokenize
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

_POSITION = re.compile(r"[; ]*\bat Line: (?P<line>\d+), Column: (?P<column>\d+)")
"""Matches a position as sqlparser writes it; positions in the sent text are written differently, so that they are not matched again."""
_REWRITTEN = frozenset({Kind.PARAMETER, Kind.LITERALS})
_MOST_ALIKE = 1_000
_MOST_NEIGHBOURS = 50


@contextmanager
def translate_positions(sent: str | None, planned: str) -> Iterator[None]:
    """Translate positions in the errors of the block from `planned` to `sent`, drop those that are not known, and tell of macros."""
    try:
        yield
    except (SqlError, Unsupported, LimitExceeded) as exc:
        message = str(exc)
        text = with_sent_position(message, planned, sent)
        text += "" if sent is None else MACROS.explain_missing(sent, message)
        text += "" if sent is None else _explain_quotes(sent, message)
        if text == message:
            raise
        raise type(exc)(text) from exc


def _explain_quotes(sent: str, message: str) -> str:
    r"""Say that a text has other quotes, where the column that is missing stands in double ones.

    >>> _explain_quotes('SELECT a = "x y" FROM t', 'No field named "x y".')
    "\nA text has single quotes: 'x y'."
    """
    missing = _MISSING.match(message)
    name = None if missing is None else missing["name"].replace('"', "")
    is_quoted = any(token.kind is Kind.NAME and token.text == name for token in _tokens_of(sent))
    return f"\nA text has single quotes: {text_literal(name)}." if name is not None and is_quoted else ""


_MISSING = re.compile(r"No field named (?P<name>\"[^\n]*?\"|\w+)\.(?!\w)")


def with_sent_position(message: str, planned: str, sent: str | None) -> str:
    """Translate the position in a message about `planned` to `sent`, the text that `planned` was made from.

    >>> with_sent_position("found: y at Line: 1, Column: 16", "SELECT (x AND) y", "SELECT x AND y")
    'found: y at line 1, column 14'
    """
    match = _POSITION.search(message)
    if match is None:
        return message
    line, column = int(match["line"]), int(match["column"])
    start = None if sent is None else sent_start(planned, _offset(planned, line, column), sent)
    position = ""
    if sent is not None and start is not None:
        before = sent[:start]
        position = f" at line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"
    return message[: match.start()] + position + message[match.end() :]


def sent_start(planned: str, offset: int, sent: str) -> int | None:
    """Return the start in `sent` of the token at `offset` in `planned`: the token with the most equal neighbours."""
    ours, theirs = _tokens_of(planned), _tokens_of(sent)
    at = next((place for place, token in enumerate(ours) if token.stop > offset), None)
    if at is None:
        return None
    alike = [place for place, token in enumerate(theirs) if _key(token) == _key(ours[at])]
    longer = len(theirs) - len(ours)
    alike.sort(key=lambda place: min(abs(place - at), abs(place - at - longer)))
    runs = {
        place: _run(ours, theirs, at, place, 1) + _run(ours, theirs, at, place, -1) for place in alike[:_MOST_ALIKE]
    }
    best = max(runs, key=runs.__getitem__, default=None)
    if best is None or (runs[best] == 0 and (len(alike) > 1 or ours[at].kind is Kind.SIGN)):
        return None  # a sign without neighbours may be one of ours
    return theirs[best].start


def _tokens_of(text: str) -> Sequence[Token]:
    try:
        return tokenize(text)
    except SqlError:
        return []


def _run(ours: Sequence[Token], theirs: Sequence[Token], at: int, place: int, step: int) -> int:
    """Return the number of equal neighbours on one side."""
    run = 0
    while run < _MOST_NEIGHBOURS:
        at, place = at + step, place + step
        if not (0 <= at < len(ours) and 0 <= place < len(theirs)) or _key(ours[at]) != _key(theirs[place]):
            return run
        run += 1
    return run


def _key(token: Token) -> tuple[Kind, str]:
    """Return the properties that a token shares with its copy; parameters are numbered by rewriting, and lists of them get their values."""
    kind = Kind.LITERALS if token.kind is Kind.PARAMETERS else token.kind
    return kind, "" if kind in _REWRITTEN else token.text


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return start + column - 1
