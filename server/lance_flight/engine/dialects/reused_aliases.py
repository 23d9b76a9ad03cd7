"""Names of select items that stand elsewhere in their query, as in `SELECT a + 1 AS b, b * 2`: DataFusion knows only columns there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lance_flight.engine.functions.routines import calls_of, mutable_functions
from lance_flight.engine.sql.select_lists import is_without_alias, items, own_places
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places, edit_text, fold_name, tokenize

MOST_REUSED = 32
"""Names of a query that are replaced one after another."""
LONGEST = 30_000
"""Characters of a query that names are replaced in, and that it has afterwards: names of names double it each time."""
_UNKNOWN = re.compile(r"No field named (?P<name>\"(?:[^\"]|\"\")+\"|\w+)\.")
_NAMES = frozenset({Kind.WORD, Kind.NAME})


def with_reused_alias(text: str, refusal: str) -> str | None:
    """Put the expression of a select item where its query names it, for a name that DataFusion does not know; None where it can't.

    >>> with_reused_alias("SELECT a + 1 AS b, b * 2 FROM t WHERE b > 3", "No field named b. Valid fields are t.a.")
    'SELECT a + 1 AS b, (a + 1) * 2 FROM t WHERE (a + 1) > 3'
    """
    match = _UNKNOWN.search(refusal)
    if match is None or len(text) > LONGEST:
        return None
    name, tokens = fold_name(tokenize(match["name"])[0]), tokenize(text)
    closing = closing_places(tokens)
    for start in (place + 1 for place, token in enumerate(tokens) if token.word == "SELECT"):
        edits = list(_edits(text, tokens, closing, start, name))
        if edits:
            reused = edit_text(text, edits)
            return reused if len(reused) <= LONGEST else None
    return None


def _edits(text: str, tokens: Sequence[Token], closing: Mapping[int, int], start: int, name: str) -> Iterator[Edit]:
    """Yield the edits of the query whose select list begins at `start`."""
    listed = [item for item in items(tokens, start) if item and not is_without_alias(item)]
    called = next(
        (item for item in listed if len(item) > 1 and item[-1].kind in _NAMES and fold_name(item[-1]) == name), None
    )
    if called is None:
        return
    value = called[: -2 if called[-2].word == "AS" else -1]
    expression = text[value[0].start : value[-1].stop]
    is_own = any(token.kind in _NAMES and fold_name(token) == name for token in value)
    if is_own or next(calls_of(expression, mutable_functions()), None) is not None:
        return
    aliases = {item[-1].start for item in listed}
    for token in (tokens[at] for at in own_places(tokens, closing, start) if _is_column(tokens, at, name)):
        if token.start > called[-1].start and token.start not in aliases:
            yield token.start, token.stop, f"({expression})"


def _is_column(tokens: Sequence[Token], place: int, name: str) -> bool:
    """Return whether a token is this name, and no part of a longer one, no function and no alias of a table."""
    token, before = tokens[place], tokens[place - 1]
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    is_part = before.is_sign(".") or before.word in {"AS", "FROM", "JOIN"}
    is_followed = after is not None and (after.is_sign("(") or after.is_sign("."))
    return token.kind in _NAMES and fold_name(token) == name and not is_part and not is_followed
