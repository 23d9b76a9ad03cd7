"""EXCLUDE, EXCEPT and REPLACE after `*`, whose names DataFusion 55 takes as they are written, and REPLACE without a look.

It drops what REPLACE says of a column that is not there, or that EXCLUDE leaves out, and keeps the last of two for one column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.select_lists import items
from lance_flight.engine.sql.tokens import Edit, Kind, Token, TokenPlaces, closing_places, fold_name
from lance_flight.errors import SqlError

_NAMES = (Kind.WORD, Kind.NAME)
_OPTIONS = frozenset(["EXCLUDE", "EXCEPT", "REPLACE"])


def wildcard_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that fold the names of such options, and have the columns of REPLACE looked up.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> query = "SELECT * EXCLUDE (B) REPLACE (a + 1 AS A) FROM t"
    >>> edit_text(query, wildcard_edits(query, tokenize(query)))
    'SELECT * EXCLUDE ("b") REPLACE (CASE WHEN TRUE OR "a" IS NULL THEN a + 1 END AS "a") FROM t'
    """
    if not any(token.word in _OPTIONS for token in tokens):
        return []
    places, closing = TokenPlaces(tokens), closing_places(tokens)
    stars = (at for at, token in enumerate(tokens) if token.is_sign("*") and places.ends_operand(at))
    return [edit for star in stars for edit in _Wildcard(text, tokens, closing, star).edits()]


class _Wildcard(TokenPlaces):
    def __init__(self, text: str, tokens: Sequence[Token], closing: dict[int, int], star: int) -> None:
        super().__init__(tokens)
        self.sql, self.closing, self.star = text, closing, star
        self.named: set[str] = set()

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all options of one wildcard."""
        at = self.star + 1
        while (word := self.word_at(at)) in _OPTIONS:
            closed = self.closing.get(at + 1)
            for item in items(self.tokens, at + 2) if closed is not None else [list(self.tokens[at + 1 : at + 2])]:
                if not item or item[-1].kind not in _NAMES:
                    return  # DataFusion says what is wrong
                yield from self._replace(item) if word == "REPLACE" else self._exclude(item)
            at = (at + 1 if closed is None else closed) + 1

    def _exclude(self, item: Sequence[Token]) -> Iterator[Edit]:
        if len(item) == 1:
            self.named.add(fold_name(item[0]))
            yield from _folded_name(item[0])

    def _replace(self, item: Sequence[Token]) -> Iterator[Edit]:
        name = fold_name(item[-1])
        if name in self.named:
            raise SqlError(f"the options of * name the column {name!r} twice; expected once in EXCLUDE or REPLACE")
        self.named.add(name)
        value = item[: -2 if item[-2].word == "AS" else -1]
        if not value:
            return
        column = f"{self._qualifier()}{quote_parts(name)}"
        yield value[0].start, value[0].start, f"CASE WHEN TRUE OR {column} IS NULL THEN "
        yield value[-1].stop, value[-1].stop, " END"
        yield from _folded_name(item[-1])

    def _qualifier(self) -> str:
        first = self.star
        while self.is_sign(first - 1, "."):
            first -= 2
        return self.sql[self.tokens[first].start : self.tokens[self.star].start]


def _folded_name(token: Token) -> Iterator[Edit]:
    if token.text != fold_name(token):
        yield token.start, token.stop, quote_parts(fold_name(token))
