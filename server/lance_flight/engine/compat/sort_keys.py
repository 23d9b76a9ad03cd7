"""Keys of ORDER BY and PARTITION BY that DataFusion 55 cannot sort rows of several partitions by (SanityCheckPlan).

Its check of a plan computes the range of each part of a key, and takes rows for unsorted where that fails: the negative of what a function
gives, a root or a logarithm of anything, a comparison of what is computed. Such a key is written twice, in a call that gives the greatest
of the two: a common subexpression is computed below the sort, whose key is a column then.

Of two aggregates with ORDER BY it sorts rows for one, and gives the values of another one with DISTINCT in that order as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lance_flight.engine.functions.routines import volatile_functions
from lance_flight.engine.sql.tokens import Edit, Kind, Token, TokenPlaces, closing_places, edit_text

REPEATED = "greatest"
"""Function of a key, twice, that gives the key: of any type, and NULL only of NULL."""
_RANGED = frozenset(
    [
        *("acos", "acosh", "asin", "atanh", "ln", "log10", "log2", "sqrt"),
        *("abs", "atan", "cos", "cosh", "exp", "radians", "sin", "tanh"),
    ]
)
"""Functions whose order DataFusion computes from the range of their argument: it fails for any, or for what is computed."""
_LISTS = frozenset(["ORDER", "PARTITION"])
_SUSPECTS = re.compile(r"\b(?:ORDER|PARTITION)\b", re.IGNORECASE)
_KEYS = re.compile(r"\b(?:ORDER|PARTITION) BY \[")
_AFTER_KEY = frozenset(["ASC", "DESC", "NULLS"])
_AFTER_LIST = frozenset(
    ["LIMIT", "OFFSET", "FETCH", "ROWS", "RANGE", "GROUPS", "UNION", "EXCEPT", "INTERSECT", "MINUS"]
)


_SORTED = re.compile(r"\b(?:array_agg|string_agg)\s*\(\s*DISTINCT\b", re.IGNORECASE)


def distinct_order_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that sort the lists of aggregates with DISTINCT and ORDER BY, where another aggregate has an ORDER BY.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> text = "SELECT array_agg(a ORDER BY a DESC), string_agg(DISTINCT b, ',' ORDER BY b) FILTER (WHERE c) FROM t"
    >>> edit_text(text, distinct_order_edits(text, tokenize(text)))[37:]
    "array_to_string(array_sort(array_agg(DISTINCT b) FILTER (WHERE (c) AND b IS NOT NULL), 'ASC', 'NULLS LAST'), ',') FROM t"
    """
    if not _SORTED.search(text):
        return []
    places, closing = TokenPlaces(tokens), closing_places(tokens, "([{", ")]}")
    ordered = [call for at in closing if (call := _ordered_call(places, closing, at)) is not None]
    return [edit for call in ordered for edit in call.edits(text)] if len(ordered) > 1 else []


@dataclass(frozen=True, slots=True)
class _OrderedCall:
    """Aggregate with ORDER BY: the place of its name, those of its brackets, its arguments and its first key."""

    places: TokenPlaces
    closing: Mapping[int, int]
    opened: int
    arguments: Sequence[range]
    key: range

    def edits(self, text: str) -> Iterator[Edit]:
        """Yield the edits that sort its list; none where it has no DISTINCT."""
        places, closed = self.places, self.closing[self.opened]
        called = places.word_at(self.opened - 1)
        is_text, stop = called == "STRING_AGG", closed + 1
        if places.word_at(self.opened + 1) != "DISTINCT" or called not in {"ARRAY_AGG", "STRING_AGG"}:
            return

        def shown(span: range) -> str:
            return text[places.tokens[span.start].start : places.tokens[span.stop - 1].stop]

        words = [places.word_at(at) for at in range(self.key.stop, closed)]
        direction = "DESC" if "DESC" in words else "ASC"
        nulls = "FIRST" if "FIRST" in words or (direction == "DESC" and "LAST" not in words) else "LAST"
        value = shown(range(self.opened + 2, self.arguments[0].stop))
        conditions = [f"{value} IS NOT NULL"] if is_text else []
        if places.word_at(stop) == "FILTER":
            inner = range(stop + 3, self.closing[stop + 1])
            conditions.insert(0, f"({shown(inner)})")
            stop = inner.stop + 1
        if places.word_at(stop) == "OVER":
            return
        filtered = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        made = f"array_sort(array_agg(DISTINCT {value}){filtered}, '{direction}', 'NULLS {nulls}')"
        if is_text:
            made = f"array_to_string({made}, {shown(self.arguments[1])})"
        yield places.tokens[self.opened - 1].start, places.tokens[stop - 1].stop, made


def _ordered_call(places: TokenPlaces, closing: Mapping[int, int], opened: int) -> _OrderedCall | None:
    """Return the aggregate whose brackets open at a place, if it has an ORDER BY."""
    if not places.is_sign(opened, "(") or not places.word_at(opened - 1) or places.word_at(opened - 1) in _NO_CALLS:
        return None
    arguments, begun, at = [], opened + 1, opened + 1
    while at < closing[opened]:
        if places.is_sign(at, ",") or (places.word_at(at) == "ORDER" and places.word_at(at + 1) == "BY"):
            arguments.append(range(begun, at))
            begun = at + 1
        if places.word_at(at) == "ORDER":
            stop = at + 2
            while stop < closing[opened] and places.word_at(stop) not in _AFTER_KEY and not places.is_sign(stop, ","):
                stop = closing.get(stop, stop) + 1
            return _OrderedCall(places, closing, opened, arguments, range(at + 2, stop))
        at = closing.get(at, at) + 1
    return None


_NO_CALLS = frozenset(["OVER", "AS", "FROM", "IN", "GROUP", "LATERAL", "EXISTS", "ANY", "ALL", "WITHIN", "UNION"])


@dataclass(slots=True)
class _Level:
    """Open bracket, or the whole text: the `key` that is being read (the place of its first token), and what is known of it.

    A key `is_ranged` if DataFusion may fail at it, and `is_single` if it must not be written twice. With `is_matched` keys must be those of
    DISTINCT ON or of the arguments of DISTINCT, or are the values of an aggregate. `has_list` tells that keys were read, `is_list` that more may follow.
    """

    is_matched: bool = False
    key: int | None = None
    is_ranged: bool = False
    is_single: bool = False
    has_list: bool = False
    is_list: bool = False


def sort_key_edits(text: str, tokens: Sequence[Token], single: Collection[str] = ()) -> list[Edit]:
    """Return the edits that write such keys twice, but for those that call volatile functions or one of `single`, or contain queries.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> text = "SELECT a FROM t ORDER BY b, -length(c) DESC"
    >>> edit_text(text, sort_key_edits(text, tokenize(text)))
    'SELECT a FROM t ORDER BY b, greatest(-length(c), -length(c)) DESC'
    """
    return _Reader(text, tokens, single).read() if _SUSPECTS.search(text) else []


class _Reader(TokenPlaces):
    """Reads a text once, from its first token to its last, so that its keys are written at most twice."""

    def __init__(self, text: str, tokens: Sequence[Token], single: Collection[str]) -> None:
        super().__init__(tokens)
        self._text = text
        self._single = {*single, *volatile_functions()}
        self._levels = [_Level()]
        self._edits: list[Edit] = []

    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        for at, token in enumerate(self.tokens):
            if token.kind is Kind.SIGN:
                self._sign(at, token.text)
            else:
                self._operand(at, token)
        self._end_key(len(self.tokens))
        return self._edits

    def _sign(self, at: int, sign: str) -> None:
        level = self._levels[-1]
        if sign in "([{":
            self._levels.append(_Level(is_matched=self.word_at(at - 2) == "WITHIN"))
        elif sign in ")]}":
            self._close(at)
        elif sign == ";" or (sign == "|" and self.is_pipe(at)):
            self._end_list(at)
        elif sign == "," and level.is_list:
            self._end_key(at)
            level.key = at + 1
        elif sign == "-":
            level.is_ranged |= not self.ends_operand(at - 1) and self.kind(at + 1) is not Kind.NUMBER
        elif sign in "<>":
            level.is_ranged |= "-" not in {self.text(at - 1), self.text(at - 2)}

    def _close(self, at: int) -> None:
        self._end_key(at)
        if len(self._levels) > 1:
            closed = self._levels.pop()
            outer = self._levels[-1]
            outer.is_ranged |= closed.is_ranged
            outer.is_single |= closed.is_single or closed.has_list

    def _operand(self, at: int, token: Token) -> None:
        level, name = self._levels[-1], token.text.lower()
        if self.is_sign(at + 1, "(") and token.kind in {Kind.WORD, Kind.NAME}:
            level.is_ranged |= name in _RANGED
            level.is_single |= name in self._single
        if token.kind is Kind.WORD and not self.is_name(at):
            self._word(at, token.word)

    def _word(self, at: int, word: str) -> None:
        level = self._levels[-1]
        if word == "SELECT":
            level.is_matched, level.is_single = False, True
        elif word == "DISTINCT" and (self.word_at(at + 1) == "ON" or self.is_sign(at - 1, "(")):
            level.is_matched = True
        elif word == "BETWEEN":
            level.is_ranged = True
        elif word in _LISTS and self.word_at(at + 1) == "BY":
            self._end_list(at)
            level.key, level.has_list, level.is_list = at + 2, True, True
            level.is_ranged, level.is_single = False, False
        elif self.ends_operand(at - 1) and word in _AFTER_KEY:
            self._end_key(at)
        elif self.ends_operand(at - 1) and word in _AFTER_LIST:
            self._end_list(at)

    def _end_list(self, at: int) -> None:
        self._end_key(at)
        self._levels[-1].is_list = False

    def _end_key(self, stop: int) -> None:
        """End the key that is being read, and write it twice if it has to be."""
        level, start = self._levels[-1], self._levels[-1].key
        if start is None:
            return
        if level.is_ranged and not (level.is_single or level.is_matched or self._is_negative_column(start, stop)):
            first, last = self.tokens[start].start, self.tokens[stop - 1].stop
            key = self._text[first:last]
            self._edits.append((first, last, f"{REPEATED}({key}, {key})"))
        level.key, level.is_ranged, level.is_single = None, False, False

    def _is_negative_column(self, start: int, stop: int) -> bool:
        return self.is_sign(start, "-") and all(
            self.kind(at) in {Kind.WORD, Kind.NAME} or self.is_sign(at, ".") for at in range(start + 1, stop)
        )


def written_once(name: str) -> str:
    """Return the name of a result column with the keys of its window or its aggregate as they were written.

    >>> written_once("row_number() ORDER BY [greatest((- abs(t.a)),(- abs(t.a))) ASC NULLS LAST]")
    'row_number() ORDER BY [(- abs(t.a)) ASC NULLS LAST]'
    """
    if f"{REPEATED}(" not in name or not _KEYS.search(name):
        return name
    edits: list[Edit] = []
    for match in re.finditer(rf"(?<=[\[ ]){REPEATED}\(", name):
        depth, end = 1, match.end()
        while depth and end < len(name):
            depth += (name[end] == "(") - (name[end] == ")")
            end += 1
        key = _key_twice(name[match.end() : end - 1])
        if key is not None:
            edits.append((match.start(), end, key))
    return edit_text(name, edits)


def _key_twice(arguments: str) -> str | None:
    """Return the text that is written twice in a list of arguments, as DataFusion names calls in windows and in aggregates."""
    for between in (",", ", "):
        key = arguments[: (len(arguments) - len(between)) // 2]
        if arguments == f"{key}{between}{key}":
            return key
    return None
