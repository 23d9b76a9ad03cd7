"""Adds brackets around comparisons by IS [NOT] DISTINCT FROM, whose right operand DataFusion's parser extends too far.

sqlparser takes all that follows for the right operand: `a IS DISTINCT FROM b AND c` is `a IS DISTINCT FROM (b AND c)` to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.tokens import Edit, Kind, Token, TokenPlaces

SIGNS = frozenset("<>=!")
"""Signs of comparisons."""
_LOOSER = frozenset(["AND", "OR", "IS"])
_STARTS = frozenset(
    [
        *(
            "AGGREGATE",
            "ALL",
            "BY",
            "DISTINCT",
            "ELSE",
            "EXTEND",
            "FROM",
            "HAVING",
            "LIMIT",
            "OFFSET",
            "ON",
            "OR",
            "QUALIFY",
        ),
        *("SELECT", "THEN", "VALUES", "WHEN", "WHERE"),
    ]
)
"""Words that a left operand cannot extend over; AND and NOT may be parts of BETWEEN and NOT IN."""
_INFIX = frozenset(
    [
        *(
            "AT",
            "BETWEEN",
            "COLLATE",
            "DIV",
            "ESCAPE",
            "FILTER",
            "GROUP",
            "IGNORE",
            "ILIKE",
            "IN",
            "LIKE",
            "NOT",
            "NULLS",
        ),
        *("OVER", "REGEXP", "RESPECT", "RLIKE", "SIMILAR", "TIME", "TO", "WITHIN", "XOR", "ZONE"),
        *("PRECISION", "UNSIGNED", "VARYING"),
        *("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
    ]
)
"""Words that continue an operand that could end before them."""
_SECOND = {"GROUP": ("WITHIN",), "NULLS": ("IGNORE", "RESPECT")}
"""Words that do so behind some words alone."""


def comparison_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return edits (start, stop, new text) that put brackets around each IS [NOT] DISTINCT FROM followed by a looser operator."""
    places = [
        at
        for at, token in enumerate(tokens)
        if token.word == "FROM"
        and at > 1
        and tokens[at - 1].word == "DISTINCT"
        and tokens[at - 2].word in {"IS", "NOT"}
    ]
    if not places:
        return []
    reader = Operands(tokens)
    edits: list[Edit] = []
    left_of: dict[int, int] = {}
    for at in places:
        operator = at - 2 if tokens[at - 2].word == "IS" else at - 3
        start = left_of.get(operator - 1)
        start = reader.left(operator - 1) if start is None else start
        stop = reader.right(at + 1)
        left_of[stop - 1] = start
        if start < operator and at + 1 < stop < len(tokens) and tokens[stop].word in _LOOSER:
            opens, closes = tokens[start].start, tokens[stop - 1].stop
            edits += [(opens, opens, "("), (closes, closes, ")")]
    return edits


class Operands(TokenPlaces):
    """Finds the bounds of the operands of a comparison."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.partners = dict(self._pairs())
        self.partners |= {closing: opening for opening, closing in self.partners.items()}

    def left(self, at: int) -> int:
        """Return the first token of the operand that ends at `at`."""
        while at >= 0 and not self._starts_operand(at):
            at = self.partners.get(at, at) - 1
        return at + 1

    def start_of_operand(self, operator: int) -> int:
        """Return the first token of what IN compares: it ends before `operator`, and binds closer than comparisons do."""
        first, at = self.left(operator - 1), operator - 1
        while at >= first and not (self.kind(at) is Kind.SIGN and self.text(at) in SIGNS):
            at = self.partners.get(at, at) - 1
        return max(at + 1, first)

    def read_items(self, opened: int) -> list[tuple[int, int]]:
        """Return the items of a list in brackets; a long run of literals is one."""
        found, begun, place, closed = [], opened + 1, opened + 1, self.partners.get(opened, opened)
        while place < closed:
            if self.is_sign(place, ","):
                found.append((begun, place))
                begun = place + 1
            place = max(place, self.partners.get(place, place)) + 1
        found += [(begun, closed)] if closed > opened + 1 else []
        return found

    def right(self, at: int) -> int:
        """Return the token after the operand that begins at `at`."""
        betweens = 0
        while at < len(self.tokens):
            word, is_infix = self.word_at(at), self.ends_operand(at - 1) and not self.is_name(at)
            if word == "BETWEEN" and is_infix:
                betweens += 1
            elif word == "AND" and betweens:
                betweens -= 1
            elif (self.kind(at) is Kind.SIGN and self.text(at) in ",;)]}") or (
                word and is_infix and not self._continues(at) and self.word_at(at - 1) != "OVER"
            ):
                break
            at = max(at, self.partners.get(at, at)) + 1
        return at

    def _continues(self, at: int) -> bool:
        """Return whether a word continues an operand that could end before it: not GROUP of GROUP BY, and NULLS of ORDER BY."""
        word, before = self.word_at(at), self.word_at(at - 1)
        return word in _INFIX and (word not in _SECOND or before in _SECOND[word])

    def _starts_operand(self, at: int) -> bool:
        """Return whether the token at `at` precedes the operand that follows it."""
        word = self.word_at(at)
        if self.kind(at) is Kind.SIGN:
            is_arrow = self.text(at) == ">" and self.text(at - 1) in {"-", "=", "|"}
            return self.text(at) in "([{,;:" or (is_arrow and self.tokens[at - 1].stop == self.tokens[at].start)
        if not word or self.is_name(at):
            return False
        if word == "NOT":
            return not self.ends_operand(at - 1) and self.word_at(at - 1) != "IS"
        if word == "AND":
            return not self._is_of_between(at - 1)
        # Who comes from the right meets CASE inside alone: of a whole one END is met, and skipped with all before it.
        return word in _STARTS or word == "CASE"

    def _is_of_between(self, at: int) -> bool:
        while at >= 0 and self.word_at(at) != "BETWEEN":
            if self.word_at(at) == "AND" or self._starts_operand(at):
                return False
            at = self.partners.get(at, at) - 1
        return at >= 0

    def _pairs(self) -> list[tuple[int, int]]:
        """Pair each bracket, and each CASE, with the token that closes it."""
        pairs: list[tuple[int, int]] = []
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            is_case = bool(opened) and self.word_at(opened[-1]) == "CASE"
            if token.word in {"CASE", "END"} and self.is_name(at):
                continue
            if token.word == "CASE" or (token.kind is Kind.SIGN and token.text in "([{"):
                opened.append(at)
            elif (token.word == "END" and is_case) or (token.kind is Kind.SIGN and token.text in ")]}" and opened):
                pairs.append((opened.pop(), at))
        return pairs


class OperandsOfText(Operands):
    """Finds the bounds of operands in the tokens of `sql`, which rewrites quote."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.sql = sql
