"""pgvector's operators `<->` (L2), `<=>` (cosine) and `<#>` (negative inner product), which DataFusion's dialect does not know.

They become calls of functions. Operators of this kind bind closer than comparisons and looser than arithmetic, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType

from lance_flight.engine.sql.bounds import CLAUSES
from lance_flight.engine.sql.comparisons import Operands
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.token_places import TokenPlaces
from lance_flight.engine.sql.tokens import Kind, Token, edited, tokenize
from lance_flight.errors import SqlError

COSINE_OR_SAME = "__cosine_or_same"
"""Function that `<=>` is called by until the types of its operands are known: of others than vectors it is IS NOT DISTINCT FROM."""
_OPERATORS: Mapping[str, str] = MappingProxyType(
    {"<->": "array_distance", "<=>": COSINE_OR_SAME, "<#>": "negative_inner_product"}
)
"""The function of each."""
_NEGATED = "inner_product"
_SIGNS = 3
_LOOSER = frozenset(
    [
        *("AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "SIMILAR", "BETWEEN", "XOR", "ESCAPE"),
        *("SET", "RETURNING", "WHERE", "ON", "USING", "WINDOW", "PARTITION", "ROWS", "AS", "INTO", "OFFSET", "WITH"),
    ]
)
"""Words that no operand extends over, beside those of comparisons."""
_PARTS = frozenset(["PRECISION", "VARYING", "UNSIGNED"])
"""Words of types that follow another word of them."""


def operator_edits(text: str, tokens: Sequence[Token]) -> list[tuple[int, int, str]]:
    """Return the edits that write these operators as calls.

    >>> text = "SELECT 1 - (e <=> $1), a.e <-> [1.0] < 2 FROM a"
    >>> edited(text, operator_edits(text, tokenize(text)))
    'SELECT 1 - (__cosine_or_same(e , $1)), array_distance(a.e , [1.0]) < 2 FROM a'
    """
    places = list(_places(text, tokens)) if any(operator in text for operator in _OPERATORS) else []
    is_negated = _NEGATED in text.lower()
    if not places and not is_negated:
        return []
    reader = _VectorOperands(tokens)
    opened: list[tuple[int, int, str]] = []
    closed: list[tuple[int, int, str]] = []
    ends = set(places)
    for at in places:
        first, stop = reader.left(at - 1), reader.right(at + _SIGNS)
        operator = text[tokens[at].start : tokens[at + _SIGNS - 1].stop]
        if first >= at or stop <= at + _SIGNS:
            raise SqlError(
                f"{operator} at character {tokens[at].start + 1} has no vector on one side; expected a {operator} b"
            )
        if stop in ends:
            raise SqlError(
                f"{operator} at character {tokens[at].start + 1} is followed by another one; expected brackets"
            )
        opened.append((tokens[first].start, tokens[first].start, f"{_OPERATORS[operator]}("))
        closed += [
            (tokens[at].start, tokens[at + _SIGNS - 1].stop, ","),
            (tokens[stop - 1].stop, tokens[stop - 1].stop, ")"),
        ]
    if is_negated:
        closed += _negated_edits(tokens, reader)
    return sorted([*opened, *closed], key=itemgetter(0, 1))


def same_instead(sql: str, name: str) -> str:
    """Return a query with IS NOT DISTINCT FROM in place of the call of a function of two arguments.

    >>> same_instead("SELECT f(a, (b)) FROM t", "f")
    'SELECT ((a) IS NOT DISTINCT FROM ((b))) FROM t'
    """
    tokens = tokenize(sql)
    at = next(place for place, token in enumerate(tokens) if token.text == name)
    cursor = Cursor(sql, tokens, at + 2)
    one = cursor.until(",")
    cursor.expect(",")
    other = cursor.until(")")
    new = f"(({one}) IS NOT DISTINCT FROM ({other}))"
    return edited(sql, [(tokens[at].start, tokens[cursor.at].stop, new)])


def _negated_edits(tokens: Sequence[Token], places: TokenPlaces) -> Iterator[tuple[int, int, str]]:
    """Yield the edits of `-inner_product(…)`, by whose negative DataFusion 55 cannot sort rows of several partitions (SanityCheckPlan)."""
    for at in range(len(tokens) - 2):
        is_called = tokens[at + 1].word.lower() == _NEGATED and tokens[at + 2].is_sign("(")
        if tokens[at].is_sign("-") and is_called and not places.ends_operand(at - 1):
            yield tokens[at].start, tokens[at + 1].stop, f"negative_{_NEGATED}"


def _places(text: str, tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the place of the first sign of each operator."""
    for at in range(len(tokens) - _SIGNS + 1):
        if tokens[at].is_sign("<"):
            last = tokens[at + _SIGNS - 1]
            if last.stop - tokens[at].start == _SIGNS and text[tokens[at].start : last.stop] in _OPERATORS:
                yield at


class _VectorOperands(Operands):
    """Finds the bounds of the operands of an operator that binds closer than comparisons."""

    def right(self, at: int) -> int:
        """Return the token after the operand that begins at `at`."""
        while at < len(self.tokens):
            if self.kind(at) is Kind.SIGN and self.text(at) in ",;)]}<>=!":
                break
            word = "" if self.is_name(at) else self.word_at(at)
            if word in CLAUSES or (word and self.ends_operand(at - 1) and word not in _PARTS):
                break
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def _starts_operand(self, at: int) -> bool:
        if self.kind(at) is Kind.SIGN:
            return self.text(at) in "([{,;:<>=!"
        return (self.word_at(at) in _LOOSER and not self.is_name(at)) or super()._starts_operand(at)
