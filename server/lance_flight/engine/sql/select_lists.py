"""Select lists of a query whose columns repeat a name: DataFusion 55 refuses them, SQL does not.

https://github.com/apache/datafusion/issues/6543
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lance_flight.engine.sql.clause_words import QUERY_STARTS, SET_OPERATORS
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.tokens import QUOTED, Edit, Kind, Token, edit_text, fold_name, tokenize

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
