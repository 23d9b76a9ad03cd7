"""Patterns of SIMILAR TO and of LIKE with ESCAPE, in the forms that DataFusion 55 matches as SQL means them.

It reads `SIMILAR TO` as `~`, which may match anywhere: unnecessary with a release of
https://github.com/apache/datafusion/pull/23188. Of LIKE it takes a backslash alone as escape character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, Token
from lance_flight.errors import SqlError, Unsupported

_SAME = frozenset("|*+?{}()[]")
"""Signs that mean the same in both."""


def pattern_edits(tokens: Sequence[Token]) -> list[Edit]:
    r"""Return the edits that write patterns so that DataFusion matches them.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT a SIMILAR TO '(a|b)%.txt', a LIKE '5!%' ESCAPE '!' FROM t"
    >>> edit_text(text, pattern_edits(tokenize(text)))
    "SELECT a SIMILAR TO '^(?s:(a|b).*\\.txt)$', a LIKE '5\\%' FROM t"
    """
    edits = []
    for place, token in enumerate(tokens):
        if token.word == "TO" and place and tokens[place - 1].word == "SIMILAR":
            pattern, escape, stop = _pattern(tokens, place + 1)
            if pattern is None:
                raise Unsupported(
                    "SIMILAR TO takes a pattern that is a literal; write one, or a regular expression and the operator ~"
                )
            regular = _expression(pattern.text, "\\" if escape is None else escape)
            edits.append((pattern.start, stop, text_literal(f"^(?s:{regular})$")))
        elif token.word in {"LIKE", "ILIKE"}:
            pattern, escape, stop = _pattern(tokens, place + 1)
            if pattern is not None and escape is not None:
                edits.append((pattern.start, stop, text_literal(_with_backslashes(pattern.text, escape))))
    return edits


def _pattern(tokens: Sequence[Token], place: int) -> tuple[Token | None, str | None, int]:
    """Return the literal pattern at a place, its escape character, and where they end; no pattern where it is no literal."""
    found = tokens[place] if place < len(tokens) and tokens[place].kind is Kind.STRING else None
    if found is None:
        return None, None, 0
    match tokens[place + 1 : place + 3]:
        case [Token(text=word), Token(kind=Kind.STRING, text=escape, stop=stop)] if word.upper() == "ESCAPE":
            return found, escape, stop
    return found, None, found.stop


def _with_backslashes(pattern: str, escape: str) -> str:
    """Return a pattern of LIKE whose escape character is a backslash."""
    parts, signs = [], iter(pattern)
    for sign in signs:
        if sign == escape:
            escaped = _read_escaped(signs, pattern)
            parts.append(f"\\{escaped}" if escaped in "%_\\" else escaped)
        else:
            parts.append("\\\\" if sign == "\\" else sign)
    return "".join(parts)


def _read_escaped(signs: Iterator[str], pattern: str) -> str:
    """Return the character after an escape character."""
    escaped = next(signs, None)
    if escaped is None:
        raise SqlError(f"the pattern {pattern!r} ends with its escape character; expected a character after it")
    return escaped


def _expression(pattern: str, escape: str) -> str:
    """Return the regular expression of a pattern: `%` is any text, `_` any character."""
    parts, signs, is_class = [], iter(pattern), False
    for sign in signs:
        if sign == escape:
            parts.append(re.escape(_read_escaped(signs, pattern)))
        elif is_class:
            parts.append(sign if sign in "]^-:" or sign.isalnum() else re.escape(sign))
            is_class = sign != "]"
        else:
            is_class = sign == "["
            parts.append({"%": ".*", "_": "."}.get(sign) or (sign if sign in _SAME else re.escape(sign)))
    return "".join(parts)
