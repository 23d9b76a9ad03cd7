"""Select lists: their items, with the names of computed columns, and names that columns repeat.

DataFusion 55 refuses columns that repeat a name, SQL does not: https://github.com/apache/datafusion/issues/6543.

A computed column is named by the text of its expression, as the user wrote it. DataFusion names `SELECT 1 + 1` like `Int64(1) + Int64(1)`, and refuses `SELECT id, CAST(id AS DOUBLE)` since both are named `id`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from lance_flight.engine.sql.clause_words import BEFORE_OPERAND, DIRECTIONS, QUERY_STARTS, SET_OPERATORS, UNITS
from lance_flight.engine.sql.references import quote_parts, relation_places
from lance_flight.engine.sql.tokens import (
    QUOTED,
    Edit,
    Kind,
    TextPlaces,
    Token,
    closing_places,
    edit_text,
    fold_name,
    tokenize,
)
from lance_flight.errors import LimitExceeded

REFUSAL = "Projections require unique expression names"
"""Part of DataFusion's error about columns of one name."""
_MARK, _END = "\ue000", "\ue001"
"""Around what an alias says of the column's own name; no text of a client has these characters."""

_AFTER_LIST = frozenset(
    [
        *("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH"),
        *("UNION", "EXCEPT", "INTERSECT"),
    ]
)

_WITHIN = {"FROM": "DISTINCT", "GROUP": "WITHIN"}
"""Words that end a list but after another one."""


def with_distinct_names(text: str) -> str:
    """Add an alias to each select item that repeats an earlier one of its list.

    DataFusion refuses two columns of one name. An INSERT takes columns by their places: there the name is no matter.

    >>> with_distinct_names("SELECT 1, a, 1 FROM t")
    'SELECT 1, a, 1 AS "column 3" FROM t'
    """
    tokens = tokenize(text)
    edits: list[Edit] = []
    for start in (place + 1 for place, token in enumerate(tokens) if token.word == "SELECT"):
        taken: set[tuple[str, ...]] = set()
        for number, item in enumerate(items(tokens, start), 1):
            if not is_without_alias(item):
                continue
            name = _name(item)
            if name in taken:
                edits.append((item[-1].stop, item[-1].stop, f' AS "column {number}"'))
            taken.add(name)
    return edit_text(text, edits)


def with_marked_repeats(text: str) -> str:
    r"""Add an alias to each column of the result that may repeat a name; `names_of` takes them off.

    Only the outermost lists are read: in a subquery a repeated name is ambiguous.

    >>> with_marked_repeats("SELECT a, a FROM t").encode("ascii", "backslashreplace").decode()
    'SELECT a, a AS "\\ue0001\\ue001a" FROM t'
    """
    tokens = tokenize(text)
    edits: list[Edit] = []
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        if token.word == "SELECT" and depth == 0:
            edits += _marks(text, list(items(tokens, place + 1)))
    return edit_text(text, edits)


def _marks(text: str, listed: list[list[Token]]) -> Iterator[Edit]:
    """Yield the edits of one list: an alias has the number of its column, and the name."""
    stars = [number for number, item in enumerate(listed) if item and item[-1].is_sign("*")]
    first: dict[tuple[str, ...], int] = {}
    for number, item in enumerate(listed):
        if not item or item[-1].is_sign("*"):
            continue
        if _is_query(item):
            yield item[-1].stop, item[-1].stop, f" AS {quote_parts(f'{_MARK}{number}{_END}{_query_name(item)}')}"
            continue
        alias = item[-1] if not is_without_alias(item) else None
        name = (fold_name(alias),) if alias is not None else _name(item)
        before = first.setdefault(name, number)
        if alias is not None:
            if before != number or stars:
                yield alias.start, alias.stop, quote_parts(f"{_MARK}{number}{_END}{fold_name(alias)}")
        elif before != number or (stars and len(name) == 1):
            is_column = all(token.kind in _NAMES or token.is_sign(".") for token in item)
            shown = fold_name(item[-1]) if is_column else text[item[0].start : item[-1].stop]
            yield item[-1].stop, item[-1].stop, f" AS {quote_parts(f'{_MARK}{number}{_END}{shown}')}"


def _is_query(item: list[Token]) -> bool:
    """Return whether an item is a query in brackets, without an alias: DataFusion calls it like the column of the query."""
    return item[0].is_sign("(") and item[-1].is_sign(")") and len(item) > 1 and item[1].word == "SELECT"


def _query_name(item: list[Token]) -> str:
    inner = next(items(item, 2))
    return fold_name(inner[-1]) if not is_without_alias(inner) else "".join(token.text for token in inner)


def names_of(columns: Sequence[str]) -> list[str]:
    r"""Return the names of result columns, without the aliases that mark repeated ones.

    >>> names_of(["a", "count(*)", "\ue0002\ue001a"])
    ['a', 'count(*)', 'a']
    """
    names: list[str] = []
    for column in columns:
        if column.startswith(_MARK):
            names.append(column.partition(_END)[2])
        else:
            names.append(column)
    return names


_NAMES = frozenset({Kind.WORD, Kind.NAME})


def items(tokens: Sequence[Token], start: int) -> Iterator[list[Token]]:
    """Yield the tokens of each item of the select list that begins at `start`."""
    if start < len(tokens) and tokens[start].word in {"DISTINCT", "ALL"}:
        start += 1
    item: list[Token] = []
    depth = 0
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        # IS DISTINCT FROM and WITHIN GROUP end no list.
        is_within = _WITHIN.get(token.word) == tokens[place - 1].word
        is_over = token.word in _AFTER_LIST and not is_within
        if depth < 0 or (depth == 0 and (is_over or token.word == "SELECT")):
            break
        if depth == 0 and token.is_sign(","):
            yield item
            item = []
        else:
            item.append(token)
    yield item


def own_places(tokens: Sequence[Token], closing: Mapping[int, int], start: int) -> Iterator[int]:
    """Yield the places of a query from one in it on, without those of the queries in it; `closing` pairs its brackets.

    >>> from lance_flight.engine.sql.tokens import closing_places, tokenize
    >>> tokens = tokenize("SELECT a, (SELECT b FROM u) FROM t UNION SELECT c")
    >>> [tokens[place].text for place in own_places(tokens, closing_places(tokens), 1)]
    ['a', ',', ')', 'FROM', 't']
    """
    place, depth = start, 0
    while place < len(tokens):
        token = tokens[place]
        if token.is_sign("(") and place in closing and tokens[place + 1].word in QUERY_STARTS:
            place = closing[place]
        elif token.is_sign("("):
            depth += 1
        elif token.is_sign(")"):
            depth -= 1
        if depth < 0 or (depth == 0 and (token.is_sign(";") or token.word in SET_OPERATORS)):
            return
        yield place
        place += 1


def is_wildcard(item: Sequence[Token]) -> bool:
    """Return whether an item is `*` or `t.*`, with options."""
    star = next((place for place, token in enumerate(item) if token.is_sign("*")), None)
    return star == 0 or (star is not None and item[star - 1].is_sign("."))


def is_without_alias(item: list[Token]) -> bool:
    """Return whether an item certainly has no alias, and is one column: its last token belongs to the token before it."""
    if not item or item[-1].is_sign("*"):
        return False
    last, before = item[-1], item[-2] if len(item) > 1 else None
    if last.word == "END" and item[0].word == "CASE":
        return True
    if last.kind not in QUOTED and last.kind is not Kind.WORD:
        return True
    return before is None or (before.kind is Kind.SIGN and before.text not in ")]}")


def _name(item: list[Token]) -> tuple[str, ...]:
    """Return the parts of an item that DataFusion's column name depends on, without casts, brackets and qualifiers."""
    name: list[str] = []
    skips = False
    for token in item:
        if skips:
            skips = False
        elif token.is_sign("::") or token.word == "AS":
            skips = True
        elif token.is_sign("."):
            del name[-1:]
        elif token.word not in {"CAST", "TRY_CAST"} and not token.is_sign("(") and not token.is_sign(")"):
            name.append(token.text.lower() if token.kind is Kind.WORD else token.text)
    return tuple(name)


LONGEST = 200
"""Most characters of a name; that of a longer expression ends with `…`."""
_VALUES = frozenset(
    [
        *("TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURRENT_CATALOG"),
        *("CURRENT_SCHEMA", "CURRENT_ROLE", "SESSION_USER", "USER"),
    ]
)
"""Words that are values and no columns."""
_EXPANDED = frozenset(["UNNEST", "EXPLODE", "COLUMNS"])
"""Functions that may give several columns."""
_ENDINGS = frozenset(["END", "NULL", "TRUE", "FALSE", "UNKNOWN"])
_BEFORE_QUERY = frozenset(["AS", "MATERIALIZED", "UNION", "EXCEPT", "INTERSECT", "MINUS"])


def name_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that give computed columns the names that their texts have, in queries whose columns have names.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT a, a  + 1, b AS c FROM (SELECT upper(a) FROM t) WHERE x IN (SELECT max(y) FROM u)"
    >>> edit_text(text, name_edits(text, tokenize(text)))
    'SELECT a, a  + 1 AS "a + 1", b AS c FROM (SELECT upper(a) AS "upper(a)" FROM t) WHERE x IN (SELECT max(y) FROM u)'
    """
    if any(token.word == "SELECT" for token in tokens):
        with suppress(LimitExceeded):  # brackets within brackets, which other rewrites or DataFusion refuse
            return list(_Reader(text, tokens).edits())
    return []


class _Reader(TextPlaces):
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        super().__init__(text, tokens)
        self._relations = relation_places(self)
        self._starts = [token.start for token in tokens]

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all lists whose columns have names."""
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.kind is Kind.SIGN and token.text in "([{":
                opened.append(at)
            elif token.kind is Kind.SIGN and token.text in ")]}":
                del opened[-1:]
            elif token.word == "SELECT" and not self.is_name(at) and self._has_names(opened):
                yield from self._list(at, is_inner=bool(opened))

    def _has_names(self, opened: Sequence[int]) -> bool:
        """Return whether a query in brackets is a relation or a whole query, whose columns have names."""
        for at in reversed(opened):
            before = self.word_at(at - 1)
            if before in {"ALL", "DISTINCT"}:
                before = self.word_at(at - 2) if self.word_at(at - 2) in SET_OPERATORS else ""
            if not self.is_sign(at, "("):
                return False
            if at - 1 in self._relations or (before in _BEFORE_QUERY and not self._is_cast(at)):
                return True
            if at and not self.is_sign(at - 1, "("):
                return False
        return True

    def _is_cast(self, at: int) -> bool:
        """Return whether the AS before a bracket is none of WITH: it follows no name and no list of names."""
        return self.word_at(at - 1) == "AS" and self.kind(at - 2) not in _NAMES and not self.is_sign(at - 2, ")")

    def _list(self, at: int, *, is_inner: bool) -> Iterator[Edit]:
        named: dict[tuple[str, ...], str] = {}
        taken: set[str] = set()
        for item in map(_trim, items(self.tokens, at + 1)):
            name = self._name(item)
            if name is None:
                continue
            is_cut = len(name) > LONGEST
            name = f"{name[: LONGEST - 1]}…" if is_cut else name
            named[_key(item)] = name
            while (is_inner or is_cut) and name in taken:
                name += "_1"
            taken.add(name)
            yield item[-1].stop, item[-1].stop, f" AS {quote_parts(name)}"
        if named and self.word_at(at + 1) == "DISTINCT":
            yield from self._keys(at, named)

    def _name(self, item: Sequence[Token]) -> str | None:
        """Return the name of a computed column; None for a column, a wildcard, and what has a name or may be several columns."""
        if not item or is_wildcard(item) or self._has_alias(item) or item[0].word in _EXPANDED or _is_column(item):
            return None
        if item[-1].word in BEFORE_OPERAND or (item[-1].kind is Kind.SIGN and item[-1].text not in ")]}"):
            return None  # an operand is missing, which an error says
        if item[0].is_sign("(") and item[1].word == "SELECT" and closing_places(item).get(0) == len(item) - 1:
            item = next(items(item, 2))
            if not item or is_wildcard(item):
                return None
            if _is_column(item) or self._has_alias(item):
                return fold_name(item[-1])
        between = (self._text[one.start : one.stop] + " " * (one.stop < after.start) for one, after in pairwise(item))
        return "".join(between) + self._text[item[-1].start : item[-1].stop]

    def _has_alias(self, item: Sequence[Token]) -> bool:
        """Return whether an item has an alias, or may have one: a unit of time may be the name of a column."""
        words = [token.word for token in item[-3:]]
        is_value = words[-1] in _ENDINGS and words[-2:-1] != ["AS"]
        if len(item) == 1 or is_value or words[-2] == "OVER" or (words[-1] in UNITS and words[0] == "INTERVAL"):
            return False
        return item[-1].word in UNITS or self.is_alias(bisect_left(self._starts, item[-1].start))

    def _keys(self, at: int, named: Mapping[tuple[str, ...], str]) -> Iterator[Edit]:
        """Yield the edits that write the names of items for the keys of ORDER BY that are alike, which DataFusion wants of DISTINCT."""
        while at < len(self.tokens) and not (self.kind(at) is Kind.SIGN and self.text(at) in ")]}"):
            if self.word_at(at) == "ORDER" and self.word_at(at + 1) == "BY":
                for item in items(self.tokens, at + 2):
                    key = list(item)
                    while key and key[-1].word in DIRECTIONS:
                        key.pop()
                    name = named.get(_key(key))
                    if name is not None:
                        yield key[0].start, key[-1].stop, quote_parts(name)
                return
            at = self._closing.get(at, at) + 1


def _is_column(item: Sequence[Token]) -> bool:
    is_path = all(token.kind in _NAMES for token in item[::2]) and all(token.is_sign(".") for token in item[1::2])
    return is_path and len(item) % 2 == 1 and item[0].word not in _VALUES


def _key(item: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.word or token.text for token in item)


def _trim(item: list[Token]) -> list[Token]:
    """Return a select item without what stands before and behind its expression."""
    if item and item[0].word == "ON" and len(item) > 1 and item[1].is_sign("("):
        item = item[closing_places(item).get(1, 0) + 1 :]
    if item and item[0].word == "TOP" and len(item) > 1:
        item = item[closing_places(item).get(1, 1) + 1 :]
    for at, token in enumerate(item):
        is_pipe = token.is_sign("|") and at + 1 < len(item) and item[at + 1].is_sign(">")
        if (is_pipe and token.stop == item[at + 1].start) or token.is_sign(";"):
            return item[:at]
    return item
