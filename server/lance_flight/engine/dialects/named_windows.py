"""Windows of a WINDOW clause, written out where they are named: DataFusion 55 takes `OVER w` in SELECT lists alone, and no `OVER (w …)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lance_flight.engine.sql.clause_words import WINDOW_WORDS
from lance_flight.engine.sql.tokens import Edit, Kind, TextPlaces, Token, fold_name
from lance_flight.errors import SqlError

_NAMES = frozenset({Kind.WORD, Kind.NAME})
_MOST_WITHIN = 20
"""Most windows that are named within one another."""


def named_window_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write the windows of WINDOW clauses where they are named.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT sum(a) OVER w, max(a) OVER (v ROWS 1 PRECEDING) FROM t WINDOW w AS (PARTITION BY b), v AS (w ORDER BY c)"
    >>> edit_text(text, named_window_edits(text, tokenize(text)))
    'SELECT sum(a) OVER (PARTITION BY b), max(a) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING) FROM t '
    """
    return list(_Reader(text, tokens).edits()) if any(token.word == "WINDOW" for token in tokens) else []


@dataclass(frozen=True, slots=True)
class _Clause:
    """WINDOW clause: the bracket around its query, its first and last token, and the brackets of each window."""

    scope: int
    first: int
    last: int
    windows: Mapping[str, int]


class _Reader(TextPlaces):
    def edits(self) -> Iterator[Edit]:
        """Yield the edits of the whole text."""
        clauses: list[_Clause] = []
        named: list[tuple[int, list[int]]] = []
        opened = [-1]
        for at, token in enumerate(self.tokens):
            if at in self._closing:
                opened.append(at)
            elif at == self._closing.get(opened[-1]):
                opened.pop()
            elif token.word == "WINDOW" and not self.is_name(at) and self._begins_window(at + 1):
                clauses.append(self._read_clause(at, opened[-1]))
            elif token.word == "OVER" and self._names_window(at + 1 + self.is_sign(at + 1, "(")):
                named.append((at, opened[::-1]))
        for clause in clauses:
            yield self.tokens[clause.first].start, self.tokens[clause.last].stop, ""
        for at, scopes in named:
            yield from self._over(at, scopes, clauses)

    def _begins_window(self, at: int) -> bool:
        return self.kind(at) in _NAMES and self.word_at(at + 1) == "AS" and self.is_sign(at + 2, "(")

    def _names_window(self, at: int) -> bool:
        return self.kind(at) in _NAMES and self.word_at(at) not in WINDOW_WORDS

    def _read_clause(self, first: int, scope: int) -> _Clause:
        windows, at = {}, first + 1
        while True:
            opened = at + 2
            windows[fold_name(self.tokens[at])] = opened
            last = self._closing.get(opened, opened)
            if not (self.is_sign(last + 1, ",") and self._begins_window(last + 2)):
                return _Clause(scope, first, last, windows)
            at = last + 2

    def _over(self, at: int, scopes: Sequence[int], clauses: Sequence[_Clause]) -> Iterator[Edit]:
        """Yield the edit of one OVER: its window is of the next clause of its query, or of a query around it."""
        place = at + 1 + self.is_sign(at + 1, "(")
        name = fold_name(self.tokens[place])
        known = [clause for scope in scopes for clause in clauses if clause.scope == scope and name in clause.windows]
        if not known:
            return  # which DataFusion says
        clause = next((clause for clause in known if clause.scope == known[0].scope and clause.first > at), known[0])
        inside = self._window(clause, name, 0)
        token = self.tokens[place]
        yield token.start, token.stop, inside if place > at + 1 else f"({inside})"

    def _window(self, clause: _Clause, name: str, within: int) -> str:
        opened = clause.windows[name]
        start, stop = self.tokens[opened].stop, self.tokens[self._closing[opened]].start
        base = fold_name(self.tokens[opened + 1])
        if not (self._names_window(opened + 1) and base in clause.windows):
            return self._text[start:stop]
        if within == _MOST_WITHIN:
            raise SqlError(f"the window {name!r} names windows that name it, or more than {_MOST_WITHIN} others")
        return self._window(clause, base, within + 1) + self._text[self.tokens[opened + 1].stop : stop]
