"""Keys of ORDER BY and PARTITION BY that DataFusion 55 cannot sort rows of several partitions by (SanityCheckPlan).

Its check of a plan computes the range of each part of a key, and takes rows for unsorted where that fails: the negative of what a function
gives, a root or a logarithm of anything, a comparison of what is computed. Such a key is written twice, in a call that gives the greatest
of the two: a common subexpression is computed below the sort, whose key is a column then.

Keys of the last ORDER BY are about the columns of the SELECT list to it, also within expressions: `-a AS a … ORDER BY a + 1` was sorted
by the negatives, `max(a) AS a … ORDER BY max(a)` is refused, and what `unnest` gives is sorted by listed columns alone. To SQL a name
within an expression is a column of FROM. Such a key is a column of a query below, or the name of the item that is written alike.

Of two aggregates with ORDER BY it sorts rows for one, and gives the values of another one with DISTINCT in that order as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from lance_flight.engine.functions.routines import volatile_functions
from lance_flight.engine.sql.clause_words import DIRECTIONS
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.select_lists import is_without_alias, items
from lance_flight.engine.sql.tokens import (
    Edit,
    Kind,
    Token,
    TokenPlaces,
    closing_places,
    edit_text,
    fold_name,
    outer_places,
    tokenize,
)

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


_NAMES = frozenset({Kind.WORD, Kind.NAME})
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


_BEHIND_KEYS = frozenset(["LIMIT", "OFFSET", "FETCH"])
_OTHER_ROWS = frozenset(["DISTINCT", "QUALIFY", "UNION", "EXCEPT", "INTERSECT", "MINUS"])
"""Words of queries that no column may be added to."""
_OF_VALUES = frozenset(["END", "FALSE", "NULL", "TRUE", "UNKNOWN", "DAY", "HOUR", "MINUTE", "MONTH", "SECOND", "YEAR"])
"""Words that may end a value."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a SELECT list: its value as it is written, the tokens of that, and its name."""

    value: str
    tokens: Sequence[Token]
    name: str

    @classmethod
    def of(cls, text: str, tokens: list[Token]) -> _Item | None:
        """Read an item; None for one whose last word may be its alias, or a part of its value."""
        last, value = tokens[-1], tokens
        if len(tokens) > 1 and tokens[-2].word == "AS":
            value = tokens[:-2]
        elif not is_without_alias(tokens):
            value = tokens[:-1]
            if last.word in _OF_VALUES:
                return None
        written = text[value[0].start : value[-1].stop]
        is_named = len(value) < len(tokens) or _is_column(value)
        return cls(written, value, text[last.start : last.stop] if is_named else quote_parts(written))


def with_hidden_keys(text: str, *, are_columns: bool = False) -> str:
    """Return a query whose keys of ORDER BY are about the columns of its FROM: each is the name of an item, or a column of a query below.

    Each item has a name already. If a key names an item within an expression, a column of FROM may be called so too. The text tells that of
    columns that other items read; with `are_columns` each such name is one.

    >>> with_hidden_keys("SELECT p, max(a) AS a FROM t GROUP BY p ORDER BY max(a) DESC")
    'SELECT p, max(a) AS a FROM t GROUP BY p ORDER BY a DESC'
    >>> with_hidden_keys("SELECT -a AS a, b FROM t ORDER BY a + 1, b LIMIT 3")
    'SELECT "item 1" AS a, b FROM (SELECT -a AS "item 1", b AS b, a + 1 AS "sort 1" FROM t ) AS "sorted" ORDER BY "sort 1", b LIMIT 3'
    >>> with_hidden_keys("SELECT -a AS b FROM t ORDER BY b + 1")
    'SELECT -a AS b FROM t ORDER BY b + 1'
    >>> with_hidden_keys("SELECT -a AS b FROM t ORDER BY b + 1", are_columns=True)
    'SELECT "item 1" AS b FROM (SELECT -a AS "item 1", b + 1 AS "sort 1" FROM t ) AS "sorted" ORDER BY "sort 1"'
    """
    if _SUSPECTS.search(text) is None:
        return text
    tokens = tokenize(text)
    closing = closing_places(tokens)
    below = [
        (
            tokens[at].stop,
            tokens[end].start,
            with_hidden_keys(text[tokens[at].stop : tokens[end].start], are_columns=are_columns),
        )
        for at in outer_places(closing, range(len(tokens)))
        if (end := closing.get(at)) is not None and end > at + 1
    ]
    return _with_own_keys(edit_text(text, below), are_columns=are_columns)


def _with_own_keys(text: str, *, are_columns: bool) -> str:
    tokens = tokenize(text)
    closing = closing_places(tokens)
    select = next(
        (place for place in outer_places(closing, range(len(tokens))) if tokens[place].word == "SELECT"), None
    )
    outer = (
        {}
        if select is None
        else {tokens[at].word: at for at in outer_places(closing, range(len(tokens))) if at >= select}
    )
    order, begun = outer.get("ORDER", 0), outer.get("FROM", 0)
    if select is None or not (select < begun < order) or not outer.keys().isdisjoint(_OTHER_ROWS):
        return text
    listed = list(items(tokens, select + 1))
    if any(not item or item[-1].is_sign("*") or item[0].word == "TOP" for item in listed):
        return text
    read = [item for item in (_Item.of(text, item) for item in listed) if item is not None]
    if len(read) < len(listed):
        return text
    keys = _Keys.of(text, read, are_columns=are_columns)
    last = next((at for word, at in outer.items() if word in _BEHIND_KEYS and at > order), len(tokens))
    sorted_by = list(items(tokens[order + 1 : last], 1))
    if not any(map(keys.is_other, sorted_by)):
        return text
    written = [keys.write(key) for key in sorted_by]
    rest = f" {text[tokens[last].start :]}" if last < len(tokens) else ""
    head = text[: tokens[select].start]
    if not keys.hidden:
        return f"{text[: tokens[order].start]}ORDER BY {', '.join(written)}{rest}"
    if len({item.name for item in read}) < len(read):
        return text
    inner = ", ".join([f"{item.value} AS {keys.name_below(at)}" for at, item in enumerate(read)] + keys.hidden)
    shown = ", ".join(
        item.name if keys.name_below(at) == item.name else f"{keys.name_below(at)} AS {item.name}"
        for at, item in enumerate(read)
    )
    source = text[tokens[begun].start : tokens[order].start]
    sorted_rows = f'(SELECT {inner} {source}) AS "sorted"'
    return f"{head}SELECT {shown} FROM {sorted_rows} ORDER BY {', '.join(written)}{rest}"  # noqa: S608 - a query's parts


@dataclass(slots=True)
class _Keys:
    """Keys of the last ORDER BY: the items, the names of those that are not the column called so, the names of `columns`, and what is `hidden`."""

    text: str
    listed: Sequence[_Item]
    others: AbstractSet[str]
    columns: AbstractSet[str]
    sorts_items: bool
    hidden: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, listed: Sequence[_Item], *, are_columns: bool) -> _Keys:
        names = ((fold_name(tokenize(item.name)[0]), item.tokens) for item in listed)
        others = {name for name, value in names if not (_is_column(value) and fold_name(value[-1]) == name)}
        columns = others if are_columns else {name for item in listed for name in _columns(item.tokens)}
        unnests = any(token.word == "UNNEST" for item in listed for token in item.tokens)
        return cls(text, listed, others, columns, unnests)

    def is_other(self, key: Sequence[Token]) -> bool:
        """Return whether DataFusion takes a key for another value than SQL does."""
        value, _ = _split(key)
        if len(value) > 1:
            of_tables = {name for table, name in _parts(value) if table}
            named = (self.others & self.columns & _columns(value)) | (self.others & of_tables)
            return self.sorts_items or bool(named)
        return self.sorts_items and not self._is_item(value[0])

    def write(self, key: Sequence[Token]) -> str:
        """Return a key with its direction as the place or name of its item, or the name of a hidden column."""
        value, direction = _split(key)
        written = self.text[value[0].start : value[-1].stop]
        if len(value) > 1 or not self._is_item(value[0]):
            alike = next((item.name for item in self.listed if _are_alike(item.tokens, value)), None)
            if alike is None:
                self.hidden.append(f'{written} AS "sort {len(self.hidden) + 1}"')
            written = alike or f'"sort {len(self.hidden)}"'
        return " ".join([written, *direction])

    def _is_item(self, token: Token) -> bool:
        return token.kind is Kind.NUMBER or fold_name(token) in {
            fold_name(tokenize(item.name)[0]) for item in self.listed
        }

    def name_below(self, at: int) -> str:
        """Return the name of an item in the query below: its own one, if it is the column called so."""
        name = self.listed[at].name
        return f'"item {at + 1}"' if fold_name(tokenize(name)[0]) in self.others else name


def _split(key: Sequence[Token]) -> tuple[Sequence[Token], list[str]]:
    """Return the value of a key, and its direction."""
    size = next((at for at, token in enumerate(key) if token.word in DIRECTIONS), len(key))
    return key[:size], [token.text for token in key[size:]]


def _columns(tokens: Sequence[Token]) -> set[str]:
    """Return the names that may be columns in an expression, without the tables before them."""
    return {
        fold_name(token)
        for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True)
        if token.kind in _NAMES and not (after is not token and (after.is_sign("(") or after.is_sign(".")))
    }


def _is_column(tokens: Sequence[Token]) -> bool:
    return all(token.kind in _NAMES or token.is_sign(".") for token in tokens)


def _are_alike(one: Sequence[Token], other: Sequence[Token]) -> bool:
    """Return whether two expressions are written alike; a column may have its table before it in one of them.

    >>> _are_alike(tokenize("max(t.a)"), tokenize("MAX( A )")), _are_alike(tokenize("t.a + 1"), tokenize("u.a + 1"))
    (True, False)
    """
    parts = list(_parts(one)), list(_parts(other))
    return len(parts[0]) == len(parts[1]) and all(
        name == other_name and (table == other_table or not (table and other_table))
        for (table, name), (other_table, other_name) in zip(*parts, strict=True)
    )


def _parts(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield each token of an expression with the tables before it, if it is a name."""
    table = ""
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        name = fold_name(token) if token.kind in _NAMES else f"{token.kind}{token.text}"
        if token.kind in _NAMES and after is not None and after.is_sign("."):
            table += f"{name}."
        elif not (token.is_sign(".") and table):
            yield table, name
            table = ""
