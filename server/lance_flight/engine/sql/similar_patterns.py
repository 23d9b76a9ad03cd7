"""Patterns of SIMILAR TO, which DataFusion takes for regular expressions that may match anywhere.

DataFusion 55 reads `SIMILAR TO` as `~`; unnecessary with a release of https://github.com/apache/datafusion/pull/23188.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Kind, Token
from lance_flight.errors import SqlError, Unsupported

_SAME = frozenset("|*+?{}()[]")
"""Signs that mean the same in both."""


def similar_edits(tokens: Sequence[Token]) -> list[tuple[int, int, str]]:
    r"""Return the edits that write the pattern of each SIMILAR TO as a regular expression.

    >>> from lance_flight.engine.sql.tokens import edited, tokenize
    >>> text = "SELECT a SIMILAR TO '(a|b)%.txt' FROM t"
    >>> edited(text, similar_edits(tokenize(text)))
    "SELECT a SIMILAR TO '^(?s:(a|b).*\\.txt)$' FROM t"
    """
    edits = []
    for place in range(len(tokens) - 1):
        if tokens[place].word != "SIMILAR" or tokens[place + 1].word != "TO":
            continue
        pattern, *after = [*tokens[place + 2 : place + 5], None, None]
        if pattern is None or pattern.kind is not Kind.STRING:
            raise Unsupported(
                "SIMILAR TO takes a pattern that is a literal; write one, or a regular expression and the operator ~"
            )
        escape, stop = "\\", pattern.stop
        if after[0] is not None and after[0].word == "ESCAPE" and after[1] is not None:
            escape, stop = after[1].text, after[1].stop
        edits.append((pattern.start, stop, text_literal(f"^(?s:{_expression(pattern.text, escape)})$")))
    return edits


def _expression(pattern: str, escape: str) -> str:
    """Return the regular expression of a pattern: `%` is any text, `_` any character."""
    parts, signs, is_class = [], iter(pattern), False
    for sign in signs:
        if sign == escape and escape:
            escaped = next(signs, None)
            if escaped is None:
                raise SqlError(f"the pattern {pattern!r} ends with its escape character; expected a character after it")
            parts.append(re.escape(escaped))
        elif is_class:
            parts.append(sign if sign in "]^-:" or sign.isalnum() else re.escape(sign))
            is_class = sign != "]"
        else:
            is_class = sign == "["
            parts.append({"%": ".*", "_": "."}.get(sign) or (sign if sign in _SAME else re.escape(sign)))
    return "".join(parts)
