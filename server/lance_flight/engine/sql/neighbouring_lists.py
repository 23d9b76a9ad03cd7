"""Lists of one operand side by side, which DataFusion 55 makes one list of, and forgets NULL and columns by that.

`x NOT IN (1) OR x NOT IN (2)` is TRUE to it where x is NULL, and `x IN (1, a) AND x NOT IN (a)` has rows where x is a. The second list
is written as a CASE here, into which it does not look; subqueries are left as they are, which it makes joins of. Unnecessary once its `ShortenInListSimplifier` takes literals alone, and
keeps what NULL means.
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.comparisons import Operands
from lance_flight.engine.sql.tokens import Edit, Token


def neighbouring_list_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that keep lists of the same operand, with only AND or OR between them, apart.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT x NOT IN (1) OR x NOT IN (2) FROM t"
    >>> edit_text(text, neighbouring_list_edits(tokenize(text)))
    'SELECT x NOT IN (1) OR (CASE x NOT IN (2) WHEN TRUE THEN TRUE WHEN FALSE THEN FALSE END) FROM t'
    >>> neighbouring_list_edits(tokenize("SELECT 1 FROM t WHERE x IN (SELECT y FROM u) AND x IN (SELECT z FROM u)"))
    []
    """
    places = [place for place, token in enumerate(tokens[:-1]) if token.word == "IN" and tokens[place + 1].is_sign("(")]
    if len(places) < 2:  # noqa: PLR2004 - a pair
        return []
    operands = Operands(tokens)
    places = [place for place in places if operands.first_word(place + 1) not in QUERIES]
    edits: list[Edit] = []
    before: tuple[int, list[str]] | None = None
    for place in places:
        operator = place - (tokens[place - 1].word == "NOT")
        first, closed = operands.start_of_operand(operator), operands.partners.get(place + 1)
        if closed is None:
            continue
        compared = [token.text.lower() for token in tokens[first:operator]]
        if before is not None and before[1] == compared and _are_neighbours(tokens[before[0] + 1 : first]):
            edits += [
                (tokens[first].start, tokens[first].start, "(CASE "),
                (tokens[closed].stop, tokens[closed].stop, " WHEN TRUE THEN TRUE WHEN FALSE THEN FALSE END)"),
            ]
        before = closed, compared
    return edits


def _are_neighbours(between: Sequence[Token]) -> bool:
    """Return whether only brackets, NOT and one AND or OR stand between two lists."""
    words = [token.word or token.text for token in between]
    return sum(word in {"AND", "OR"} for word in words) == 1 and {*words} <= {"AND", "OR", "NOT", "(", ")"}
