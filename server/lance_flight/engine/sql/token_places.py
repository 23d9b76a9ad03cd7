"""Classification of tokens by their neighbours: ends of operands, and names."""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.clause_words import BEFORE_OPERAND, BEFORE_WILDCARD, ENDINGS, EXPECTED_BEFORE
from lance_flight.engine.sql.tokens import Kind, Token, folded


class TokenPlaces:
    """Tokens of a text, with tests on them by their number."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self._brackets = range(0)
        """The opening brackets, one after another, that were passed over last."""

    def text(self, at: int) -> str:
        """Return the text of a token; an empty string beyond the ends."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def kind(self, at: int) -> Kind | None:
        """Return the kind of a token; None beyond the ends."""
        return self.tokens[at].kind if 0 <= at < len(self.tokens) else None

    def word_at(self, at: int) -> str:
        """Return a word in capitals; an empty string for any other token."""
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""

    def first_word(self, at: int) -> str:
        """Return the first word inside the brackets that open at a token."""
        if at not in self._brackets:
            end = at
            while self.is_sign(end, "("):
                end += 1
            self._brackets = range(at, end)
        return self.word_at(self._brackets.stop)

    def is_pipe(self, at: int) -> bool:
        """Return whether `|>` begins here."""
        return self.text(at + 1) == ">" and self.tokens[at].stop == self.tokens[at + 1].start

    def is_name(self, at: int) -> bool:
        """Return whether a word is surely a name: one after AS, or a part of one."""
        return self.is_sign(at - 1, ".") or self.word_at(at - 1) == "AS" or self.is_sign(at + 1, ".")

    def is_sign(self, at: int, sign: str) -> bool:
        """Return whether there is a sign like `(`."""
        return self.kind(at) is Kind.SIGN and self.text(at) == sign

    def is_comparison(self, at: int) -> bool:
        """Return whether a FROM is that of IS [NOT] DISTINCT FROM."""
        return self.word_at(at - 1) == "DISTINCT" and self.word_at(at - 2) in {"IS", "NOT"}

    def ends_operand(self, at: int) -> bool:
        """Return whether an operand, a name or a wildcard ends here, so that no name follows but an alias."""
        kind, word = self.kind(at), self.word_at(at)
        if kind is None:
            return False
        if kind is Kind.SIGN:
            before = self.text(at - 1)
            is_wildcard = self.text(at) == "*" and (before in {",", "."} or self.word_at(at - 1) in BEFORE_WILDCARD)
            return is_wildcard or self.text(at) in ")]}"
        if kind is not Kind.WORD or self.is_name(at):
            return True
        before = self.text(at - 1).upper()
        match word:
            case "ALL":
                return before in {"BY", "LIMIT"}
            case "ZONE":
                return before != "TIME" or self.word_at(at - 2) != "AT"
            case _:
                return word not in BEFORE_OPERAND or before not in EXPECTED_BEFORE.get(word, {before})

    def is_alias(self, at: int) -> bool:
        """Return whether the name that ends here is an alias, of a column or a table."""
        kind, word = self.kind(at), self.word_at(at)
        if kind not in {Kind.WORD, Kind.NAME, Kind.STRING} or self.is_sign(at - 1, "."):
            return False
        if self.word_at(at - 1) == "AS":
            return True
        is_part = word in ENDINGS or (kind is Kind.STRING and self.kind(at - 1) is Kind.WORD)
        return not is_part and self.ends_operand(at - 1)

    def query_name(self, opening: int) -> str:
        """Return the name of the query of WITH whose bracket opens at a token."""
        at = opening - 1
        while self.word_at(at) in {"AS", "MATERIALIZED", "NOT"}:
            at -= 1
        if self.is_sign(at, ")"):
            at = next(place for place in range(at, -1, -1) if self.is_sign(place, "(")) - 1
        return folded(self.tokens[at]) if at >= 0 else ""
