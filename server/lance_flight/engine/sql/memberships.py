"""IN over a subquery as a comparison with ANY or ALL, where DataFusion 55 forgets that it may be NULL.

DataFusion makes a join of `x IN (SELECT y …)` whose rows match or do not. That is right where nothing but AND and OR is
around it in a condition; NOT IN only beside AND. Elsewhere, and where what is compared is a constant or the subquery is
correlated (`engine.query.subqueries`), rows that should be left out are returned. `x = ANY (SELECT …)` and
`x <> ALL (SELECT …)` mean the same, and are right; they take longer.
Unnecessary with a release that solves https://github.com/apache/datafusion/issues/14554.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.comparisons import SIGNS, Operands
from lance_flight.engine.sql.tokens import Edit, Token, closing_places, edit_text, tokenize
from lance_flight.errors import Unsupported

_CONDITIONS = frozenset(["WHERE", "HAVING", "ON"])
_CONNECTIVES = frozenset(["AND", "OR"])
_CLAUSES = frozenset(["SELECT", "FROM", "BY", "SET", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "QUALIFY"])
_FOLLOWING = frozenset(
    [
        *("AND", "OR", "GROUP", "ORDER", "HAVING", "QUALIFY", "WINDOW", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"),
        *("INTERSECT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "WHERE", "SELECT", "WHEN"),
    ]
)
"""Words that end a condition, or continue it by another one."""


@dataclass(slots=True)
class _Condition:
    """State of the reader inside one condition, or outside of conditions."""

    is_condition: bool = False
    has_or: bool = False
    outer: _Condition | None = None

    @property
    def has_any_or(self) -> bool:
        condition: _Condition | None = self
        while condition is not None and not condition.has_or:
            condition = condition.outer
        return condition is not None


@dataclass(frozen=True, slots=True)
class _Membership:
    """`IN (SELECT …)`: where its left operand begins, its IN or NOT, the bracket, and the condition around it (None: another place)."""

    left: int
    operator: int
    opening: int
    is_negated: bool
    condition: _Condition | None


def membership_edits(tokens: Sequence[Token], *, is_strict: bool = False) -> list[Edit]:
    """Return the edits that make comparisons with ANY or ALL of IN over subqueries; `is_strict` of all of them.

    >>> for text in ["x NOT IN (SELECT y FROM u) OR a", "NOT x IN (SELECT y FROM u)", "x IN (SELECT y FROM u) OR a"]:
    ...     text = f"SELECT 1 FROM t WHERE {text}"
    ...     print(edit_text(text, membership_edits(tokenize(text))))
    SELECT 1 FROM t WHERE (x <> ALL (SELECT y FROM u)) OR a
    SELECT 1 FROM t WHERE NOT (x = ANY (SELECT y FROM u))
    SELECT 1 FROM t WHERE x IN (SELECT y FROM u) OR a
    """
    edits: list[Edit] = []
    if not any(token.word == "IN" for token in tokens):
        return edits
    operands = Operands(tokens)
    for membership in list(_memberships(operands)):
        is_right = membership.condition is not None and not (membership.is_negated and membership.condition.has_any_or)
        if is_strict or not is_right:
            opens, closes = tokens[membership.left].start, tokens[operands.partners[membership.opening]].stop
            edits += [
                (opens, opens, "("),
                (
                    tokens[membership.operator].start,
                    tokens[membership.opening - 1].stop,
                    "<> ALL" if membership.is_negated else "= ANY",
                ),
                (closes, closes, ")"),
            ]
            # After ANY, VALUES is a function to DataFusion's parser.
            if tokens[membership.opening + 1].word == "VALUES":
                inside, end = tokens[membership.opening].stop, tokens[operands.partners[membership.opening]].start
                edits += [(inside, inside, "SELECT * FROM ("), (end, end, ") AS __listed")]
    return edits


def check_negated_exists(tokens: Sequence[Token]) -> None:
    """Refuse `NOT EXISTS (…) IS NULL` and the like: DataFusion binds NOT closer than IS, and SQL does not."""
    places = [at for at in range(1, len(tokens)) if tokens[at].word == "EXISTS" and tokens[at - 1].word == "NOT"]
    closing = closing_places(tokens) if places else {}
    for at in places:
        after = closing.get(at + 1, len(tokens)) + 1
        if after < len(tokens) and (tokens[after].word == "IS" or tokens[after].text in SIGNS):
            raise Unsupported(
                f"NOT EXISTS (…) {tokens[after].text} at character {tokens[at - 1].start + 1} has two meanings;"
                " write (NOT EXISTS (…)) in brackets, or NOT (EXISTS (…) IS …)"
            )


def with_strict_memberships(text: str) -> str:
    """Return a text without IN over a subquery.

    >>> with_strict_memberships("SELECT 1 FROM t WHERE 3 NOT IN (SELECT y FROM u)")
    'SELECT 1 FROM t WHERE (3 <> ALL (SELECT y FROM u))'
    """
    return edit_text(text, membership_edits(tokenize(text), is_strict=True))


def with_apart_names(text: str) -> str:
    """Return a text whose comparisons with ANY and ALL read tables under names of their own.

    >>> with_apart_names("SELECT 1 FROM t WHERE x <> ALL (SELECT x FROM t)")
    'SELECT 1 FROM t WHERE x <> ALL (SELECT * FROM (SELECT x FROM t) AS __compared_0)'
    """
    tokens = tokenize(text)
    closing = closing_places(tokens)
    edits: list[Edit] = []
    for place, token in enumerate(tokens[:-2]):
        closed = closing.get(place + 1)
        if token.word in {"ANY", "ALL", "SOME"} and closed is not None and tokens[place + 2].word in QUERIES:
            edits += [
                (tokens[place + 2].start, tokens[place + 2].start, "SELECT * FROM ("),
                (tokens[closed].start, tokens[closed].start, f") AS __compared_{len(edits)}"),
            ]
    return edit_text(text, sorted(edits))


def _memberships(operands: Operands) -> Iterator[_Membership]:
    """Yield each IN over a subquery; the conditions around are known once all are read."""
    tokens, current = operands.tokens, _Condition()
    outer: list[_Condition] = []
    for at, token in enumerate(tokens):
        word = "" if operands.is_name(at) else token.word
        if token.is_sign("("):
            outer.append(current)
            is_within = (
                current.is_condition
                and _begins(operands, at)
                and ends_condition(operands, operands.partners.get(at, at))
            )
            current = _Condition(is_within, outer=current if is_within else None)
        elif token.is_sign(")") and outer:
            current = outer.pop()
        elif word in _CONDITIONS:
            current = _Condition(is_condition=True)
        elif word in _CLAUSES:
            current = _Condition()
        elif word == "OR":
            current.has_or = True
        elif word == "IN" and operands.is_sign(at + 1, "(") and operands.first_word(at + 1) in QUERIES:
            is_negated = operands.word_at(at - 1) == "NOT"
            operator = at - is_negated
            left = operands.start_of_operand(operator)
            is_plain = current.is_condition and _begins(operands, left)
            is_plain = is_plain and ends_condition(operands, operands.partners.get(at + 1, at + 1))
            if left < operator and at + 1 in operands.partners:
                yield _Membership(left, operator, at + 1, is_negated, current if is_plain else None)


def _begins(operands: Operands, at: int) -> bool:
    """Return whether a part of a condition begins at a token, and not one of another expression."""
    before = at - 1
    return operands.word_at(before) in _CONDITIONS | _CONNECTIVES or operands.is_sign(before, "(")


def ends_condition(operands: Operands, at: int) -> bool:
    """Return whether a part of a condition ends at a token."""
    after = at + 1
    if after >= len(operands.tokens):
        return True
    return operands.word_at(after) in _FOLLOWING or operands.text(after) in {")", ";", ",", "|"}
