"""Rewrites long chains of AND and OR so that their depth does not grow with their length.

Programs generate filters of thousands of conditions. `a = 1 OR a = 2 …` becomes `a IN (1, 2 …)`, `a <> 1 AND a <> 2 …` becomes
`a NOT IN (1, 2 …)`; what is left is bracketed as a balanced tree. All of it keeps the three-valued logic of SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lance_flight.engine.sql.bounds import CLAUSES, JOINS, SETS
from lance_flight.engine.sql.tokens import QUOTED, Kind, Token

TableUpdate = tuple[int, int, str]

SHORT_CHAIN = 32
"""Longest chain, in operands, that is left as it was written."""
PUSHED = {"AND": 128, "OR": 256}
"""So many operands may be pushed down into scans, which prune by them. Readers take quadratic time in them, and DataFusion joins those of AND
one after another again, however they were bracketed."""

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_ENDS = CLAUSES | JOINS | SETS
_BEFORE_CONDITIONS = frozenset(["WHERE", "HAVING", "ON", "WHEN", "QUALIFY"])
_COMPARED = {"OR": ("=", "IN"), "AND": ("<>", "NOT IN")}


class _Operand(NamedTuple):
    """Tokens `start` to `stop` between two operators of a chain."""

    start: int
    stop: int


@dataclass(slots=True)
class _Expression:
    """Expression that begins at token `start`, with the places of its AND and OR outside of nested brackets."""

    start: int
    is_condition: bool
    is_case: bool = False
    booleans: list[int] = field(default_factory=list)
    betweens: int = 0


def chain_edits(tokens: Sequence[Token]) -> list[TableUpdate]:
    """Return the edits (start, stop, new) that make the long chains of a text shallow.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> chain_edits(tokenize("SELECT 1 WHERE a OR b"))
    []
    """
    if len(tokens) <= SHORT_CHAIN:
        return []
    # DataFusion merges lists of one column, and takes FALSE for NULL where nothing is left: there is one list for each.
    listed = None if any(token.word == "IN" for token in tokens) else set[str]()
    return [edit for found, stop in _long_chains(tokens) for edit in _edits(tokens, found, stop, listed)]


def _long_chains(tokens: Sequence[Token]) -> Iterator[tuple[_Expression, int]]:
    """Yield the conditions that are long chains, each with the place after its last token."""
    opened = [_Expression(0, is_condition=False)]
    for place, token in enumerate(tokens):
        found, word = opened[-1], token.word
        sign = token.text if token.kind is Kind.SIGN else ""
        if sign in _OPENING or word == "CASE":
            opened.append(_Expression(place + 1, is_condition=sign == "(", is_case=word == "CASE"))
        elif sign in _CLOSING or (word == "END" and found.is_case):
            if len(opened) > 1:
                yield from _if_long(opened.pop(), place)
        elif sign == "," or (word in _ENDS and not _is_call(tokens, place)):
            yield from _if_long(found, place)
            opened[-1] = _Expression(place + 1, is_condition=word in _BEFORE_CONDITIONS, is_case=found.is_case)
        elif word == "BETWEEN":
            found.betweens += 1
        elif word == "AND" and found.betweens:
            found.betweens -= 1
        elif word in _COMPARED:
            found.booleans.append(place)
    yield from _if_long(opened[0], len(tokens))


def _if_long(found: _Expression, stop: int) -> Iterator[tuple[_Expression, int]]:
    if found.is_condition and len(found.booleans) >= SHORT_CHAIN:
        yield found, stop


def _is_call(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a word like LEFT is the name of a function at a place."""
    return tokens[place].word in JOINS and place + 1 < len(tokens) and tokens[place + 1].is_sign("(")


def _edits(tokens: Sequence[Token], found: _Expression, stop: int, listed: set[str] | None) -> Iterator[TableUpdate]:
    """Yield the edits of one condition: of its chain of OR, and of the chains of AND in that."""
    operands: list[_Operand] = []
    start, ands = found.start, list[int]()
    for place in [*found.booleans, stop]:
        if place != stop and tokens[place].word == "AND":
            ands.append(place)
            continue
        operands.append(_Operand(start, place))
        yield from _chain(tokens, _split_operands(start, ands, place), "AND", listed)
        start, ands = place + 1, []
    yield from _chain(tokens, operands, "OR", listed)


def _split_operands(start: int, places: Sequence[int], stop: int) -> list[_Operand]:
    return [_Operand(*each) for each in zip([start, *(place + 1 for place in places)], [*places, stop], strict=True)]


def _chain(
    tokens: Sequence[Token], operands: list[_Operand], word: str, listed: set[str] | None
) -> Iterator[TableUpdate]:
    """Yield the edits of one chain if it is long; `listed` are the columns that have an IN list already, None: all of them."""
    if len(operands) <= SHORT_CHAIN or any(start >= stop for start, stop in operands):
        return
    kept, edits = (operands, []) if listed is None else _lists(tokens, operands, word, listed)
    yield from edits
    most = PUSHED[word]
    if len(kept) > most:
        # DataFusion does not look into this call. Some operands of AND are enough to prune by, of OR all are needed.
        opaque = kept[most - 1 :] if word == "AND" else kept
        whole = _Operand(opaque[0].start, opaque[-1].stop)
        yield tokens[whole.start].start, tokens[whole.start].start, "nullif("
        yield from _balance(tokens, opaque)
        yield tokens[whole.stop - 1].stop, tokens[whole.stop - 1].stop, ", NULL)"
        kept = [*kept[: most - 1], whole] if word == "AND" else []
    yield from _balance(tokens, kept)


def _balance(tokens: Sequence[Token], operands: Sequence[_Operand]) -> Iterator[TableUpdate]:
    """Yield brackets that turn a chain of operands into a balanced tree."""
    if len(operands) > 1:
        first, last = tokens[operands[0].start].start, tokens[operands[-1].stop - 1].stop
        half = len(operands) // 2
        yield first, first, "("
        yield from _balance(tokens, operands[:half])
        yield from _balance(tokens, operands[half:])
        yield last, last, ")"


def _lists(
    tokens: Sequence[Token], operands: list[_Operand], word: str, listed: set[str]
) -> tuple[list[_Operand], list[TableUpdate]]:
    """Join comparisons of one column with literals of one kind into lists; return the remaining operands, and the edits."""
    sign, listing = _COMPARED[word]
    groups: dict[tuple[str, Kind], list[tuple[_Operand, str]]] = {}
    for operand in operands:
        compared = _comparison(tokens[operand.start : operand.stop], sign)
        if compared is not None:
            column, kind, literal = compared
            groups.setdefault((column, kind), []).append((operand, literal))
    edits: list[TableUpdate] = []
    joined: set[_Operand] = set()
    for (column, _), found in groups.items():
        name = column.rpartition(".")[2].strip('"').lower()
        if len(found) > SHORT_CHAIN and name not in listed:
            listed.add(name)
            (first, _), *others = found
            values = ", ".join(literal for _, literal in found)
            edits.append((tokens[first.start].start, tokens[first.stop - 1].stop, f"{column} {listing} ({values})"))
            edits += [(tokens[each.start - 2].stop, tokens[each.stop - 1].stop, "") for each, _ in others]
            joined.update(each for each, _ in others)
    return [operand for operand in operands if operand not in joined], edits


def _comparison(tokens: Sequence[Token], sign: str) -> tuple[str, Kind, str] | None:
    """Return the column, the kind of the literal and the literal of `column <sign> literal`; None for anything else."""
    literal, at = tokens[-1], len(tokens) - 1
    if literal.kind is not Kind.STRING and not (literal.kind is Kind.NUMBER and literal.text.isdigit()):
        return None
    minus = "-" if at and literal.kind is Kind.NUMBER and tokens[at - 1].is_sign("-") else ""
    at -= len(minus)
    compared = "".join(token.text for token in tokens[at - 2 : at] if token.kind is Kind.SIGN)
    compared = {"!=": "<>"}.get(compared, compared)
    width = 1 if sign == "=" else 2
    name = tokens[: at - width]
    if (compared[-1:] if width == 1 else compared) != sign or not _is_name(name):
        return None
    text = f"{minus}{literal.text}" if literal.kind is Kind.NUMBER else "'" + literal.text.replace("'", "''") + "'"
    return "".join(_as_sql(token) for token in name), literal.kind, text


def _is_name(tokens: Sequence[Token]) -> bool:
    """Return whether tokens form a column name: names separated by dots."""
    names, dots = tokens[::2], tokens[1::2]
    return (
        len(tokens) % 2 == 1
        and all(token.kind in (Kind.WORD, Kind.NAME) for token in names)
        and all(token.is_sign(".") for token in dots)
        and names[0].word != "NOT"
    )


def _as_sql(token: Token) -> str:
    return '"' + token.text.replace('"', '""') + '"' if token.kind in QUOTED else token.text
