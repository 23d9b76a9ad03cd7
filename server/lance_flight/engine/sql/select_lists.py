"""Select lists of a query: repeated items get names where only their position matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lance_flight.engine.sql.tokens import QUOTED, Kind, Token, edited, tokenize

_AFTER_LIST = frozenset(
    [
        *("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH"),
        *("UNION", "EXCEPT", "INTERSECT"),
    ]
)


def with_distinct_names(text: str) -> str:
    """Add an alias to each select item that repeats an earlier one of its list.

    DataFusion refuses two columns of one name. An INSERT takes columns by their places: there the name is no matter.

    >>> with_distinct_names("SELECT 1, a, 1 FROM t")
    'SELECT 1, a, 1 AS "column 3" FROM t'
    """
    tokens = tokenize(text)
    edits: list[tuple[int, int, str]] = []
    for start in (place + 1 for place, token in enumerate(tokens) if token.word == "SELECT"):
        taken: set[tuple[str, ...]] = set()
        for number, item in enumerate(items(tokens, start), 1):
            if not _is_without_alias(item):
                continue
            name = _name(item)
            if name in taken:
                edits.append((item[-1].stop, item[-1].stop, f' AS "column {number}"'))
            taken.add(name)
    return edited(text, edits)


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
        # IS DISTINCT FROM ends no list.
        is_over = token.word in _AFTER_LIST and not (token.word == "FROM" and tokens[place - 1].word == "DISTINCT")
        if depth < 0 or (depth == 0 and (is_over or token.word == "SELECT")):
            break
        if depth == 0 and token.is_sign(","):
            yield item
            item = []
        else:
            item.append(token)
    yield item


def _is_without_alias(item: list[Token]) -> bool:
    """Return whether an item certainly has no alias, and is one column: its last token belongs to the token before it."""
    if not item or item[-1].is_sign("*"):
        return False
    last, before = item[-1], item[-2] if len(item) > 1 else None
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
