"""Upper bound of the size of the values that a statement computes from its literals.

`x || x` in a subquery of a subquery … doubles a value at each level, and DataFusion computes constants while it plans. What the calls of a
level multiply is read from its tokens, and levels multiply each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lance_flight.engine.sql.bounds import CLAUSES
from lance_flight.engine.sql.tokens import RUNS, STRINGS, Kind, Token, fold_name, literals
from lance_flight.errors import LimitExceeded

MOST_BYTES = 1 << 30
"""Most bytes of a value that is computed from literals, in the worst case."""
_UNKNOWN_COUNT = 1 << 12
"""Assumed value of a count that is no literal: the result of such a call is bounded when it runs."""
_UNKNOWN_TEXT = 1_000
_MOST_COUNT = 1 << 24

_COUNTED = frozenset(["repeat", "array_repeat", "list_repeat", "lpad", "rpad", "array_resize", "list_resize"])
_SERIES = frozenset(["range", "generate_series"])
_SEPARATED = frozenset(["array_to_string", "list_to_string", "array_join", "list_join", "concat_ws"])
_JOINED = frozenset(
    ["format_text", "print_text", "concat", "array_concat", "list_concat", "array_cat", "list_cat", "concat_ws"]
)
_LISTED = frozenset(["make_array", "make_list", "struct", "named_struct", "row", "map"])
_GROWING = frozenset([*_COUNTED, *_SEPARATED, *_JOINED, *_LISTED, "replace", "regexp_replace", "encode", "["])
_NAMED = frozenset([Kind.WORD, Kind.NAME, Kind.SIGN])


@dataclass(slots=True)
class _Level:
    """State of one bracket while it is read: the growth of its expressions, and of the subqueries that they read."""

    call: str = ""
    named: str = ""
    is_made: bool = False
    is_list: bool = False
    names: int = 0
    counts: bool = True
    clause: str = ""
    is_query: bool = False
    bars: int = 0
    inside: int = 1
    expressions: int = 1
    base: int = 1
    commas: int = 0
    texts: list[int] = field(default_factory=list)
    count: int | None = None

    def end_expression(self) -> None:
        grown = (1 + self.bars // 2) * self.inside
        if self.counts:
            self.expressions = max(self.expressions, grown)
        elif grown > 1:
            # All expressions of a list are there at the same time.
            self.expressions += grown
        self.bars, self.inside = 0, 1

    def growth(self) -> int:
        self.end_expression()
        return min(self.expressions * self.base * self._factor(), 1 << 64)

    def _factor(self) -> int:
        """Return the factor by which the call of this bracket may multiply its largest argument."""
        if self.is_made:
            return _UNKNOWN_COUNT if self.count is None else max(1, min(self.count, _MOST_COUNT))
        if self.call == "replace":
            *_, old, new = [1, *self.texts] if len(self.texts) > 1 else [1, _UNKNOWN_TEXT]
            return max(1, -(-new // max(old, 1)))
        if self.call == "regexp_replace":
            # It inserts between all characters in the worst case, and replaces some in most.
            return self.counts + (self.texts[1] if len(self.texts) > 1 else _UNKNOWN_TEXT)
        separator = 1 + (max(self.texts) if self.texts else _UNKNOWN_TEXT) if self.call in _SEPARATED else 1
        is_joined = self.call in _JOINED or (not self.counts and self.names and (self.is_list or self.call in _LISTED))
        joined = 1 + self.commas if is_joined else 1
        return separator * joined * (2 if self.call == "encode" else 1)


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a statement: the most `copies` of a value that it writes side by side, and the characters of its `longest` literal."""

    copies: int = 1
    longest: int = 1

    @property
    def width(self) -> int:
        """Return the bytes that a row may take by the text of the statement alone."""
        return max(self.copies * self.longest, self.longest)


def growth_of(text: str, tokens: Sequence[Token]) -> Growth:
    """Return the growth of a statement; `LimitExceeded` for one whose literals may grow to more than a gigabyte.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> growth_of("SELECT 'a' || 'b' || c", tokenize("SELECT 'a' || 'b' || c"))
    Growth(copies=4, longest=1)
    """
    growing = sum(token.kind in _NAMED and token.text.lower() in _GROWING for token in tokens) + text.count("||")
    if not growing:
        return Growth(longest=_longest(tokens))
    is_alone = growing == 1
    copies, read = _read(tokens, counts=False), _read(tokens)
    size = read.growth() * read.longest
    if size > MOST_BYTES and not is_alone:  # one call is bounded when it runs
        raise LimitExceeded(
            f"the statement may make values of {size} bytes of its literals, by concatenating, repeating and replacing them;"
            f" expected at most {MOST_BYTES}"
        )
    return Growth(copies.growth(), read.longest)


def _longest(tokens: Sequence[Token]) -> int:
    read = _Statement()
    for token in tokens:
        if token.kind in STRINGS or token.kind in RUNS:
            read.word(token)
    return read.longest


def _read(tokens: Sequence[Token], *, counts: bool = True) -> _Statement:
    read = _Statement(counts=counts)
    for place, token in enumerate(tokens):
        if token.kind is Kind.SIGN:
            read.sign(tokens, place)
        else:
            read.word(token)
    return read


class _Statement:
    """State of a statement while it is read: its open brackets, the growth of its WITH queries, and its longest literal."""

    def __init__(self, *, counts: bool = True) -> None:
        self.longest = 1
        self._counts = counts
        self._levels = [_Level(counts=counts)]
        self._named: dict[str, int] = {}

    def sign(self, tokens: Sequence[Token], place: int) -> None:
        """Read a sign."""
        level, sign = self._levels[-1], tokens[place].text
        if sign in {"(", "["}:
            call = _call(tokens, place)
            is_made = call in _COUNTED or (call in _SERIES and level.call in _SEPARATED)
            self._levels.append(
                _Level(
                    call=call,
                    named=_name(tokens, place),
                    is_made=is_made and self._counts,
                    is_list=sign == "[",
                    counts=self._counts,
                )
            )
        elif sign in {")", "]"} and len(self._levels) > 1:
            self._close()
        elif sign == ",":
            level.commas += 1
            level.end_expression()
        else:
            level.bars += sign == "|"

    def word(self, token: Token) -> None:
        """Read a token that is no sign."""
        level = self._levels[-1]
        if token.kind in STRINGS:
            level.texts.append(len(token.text))
            self.longest = max(self.longest, len(token.text))
        elif token.kind in RUNS:
            self.longest = max(self.longest, *map(len, literals(token)))
        elif token.kind is Kind.NUMBER:
            level.count = max(level.count or 0, int(token.text) if token.text.isdigit() else _MOST_COUNT)
        elif token.word in CLAUSES and token.word != "AS":
            level.end_expression()
            level.clause = token.word
            level.is_query = level.is_query or token.word == "SELECT"
        elif token.kind in (Kind.WORD, Kind.NAME):
            level.names += 1
            if level.clause == "FROM" and self._named:
                level.base = max(level.base, self._named.get(fold_name(token), 1))

    def growth(self) -> int:
        """Return the growth of the whole statement, once all tokens were read."""
        while len(self._levels) > 1:
            self._close()
        return self._levels[0].growth()

    def _close(self) -> None:
        closed = self._levels.pop()
        growth, parent = closed.growth(), self._levels[-1]
        if closed.is_query and closed.named:
            self._named[closed.named] = growth
        elif closed.is_query and parent.clause == "FROM":
            parent.base = max(parent.base, growth)
        else:
            parent.inside = max(parent.inside, growth)


def _call(tokens: Sequence[Token], place: int) -> str:
    before = tokens[place - 1] if place else None
    return before.text.lower() if before is not None and before.kind in (Kind.WORD, Kind.NAME) else ""


def _name(tokens: Sequence[Token], place: int) -> str:
    """Return the name of the WITH query whose bracket opens at a place."""
    at = place - 1
    while at > 0 and tokens[at].word in {"NOT", "MATERIALIZED"}:
        at -= 1
    if at < 1 or tokens[at].word != "AS" or tokens[at - 1].kind not in (Kind.WORD, Kind.NAME):
        return ""
    return fold_name(tokens[at - 1])
