"""Rewrites long chains of AND and OR so that their depth does not grow with their length.

Programs generate filters of thousands of conditions. `a = 1 OR a = 2 …` becomes `a IN (1, 2 …)`, `a <> 1 AND a <> 2 …` becomes
`a NOT IN (1, 2 …)`; what is left is bracketed as a balanced tree. All of it keeps the three-valued logic of SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lance_flight.engine.sql.bounds import CLAUSES, JOINS, SETS
from lance_flight.engine.sql.tokens import QUOTED, Edit, Kind, Token, comparisons, literals

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


class _Span(NamedTuple):
    """Characters `start` to `stop` of the text, which one operand takes."""

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
    has_run: bool = False


def chain_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits (start, stop, new) that make the long chains of a text shallow.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> chain_edits(tokenize("SELECT 1 WHERE a OR b"))
    []
    """
    if len(tokens) <= SHORT_CHAIN and not any(token.kind is Kind.COMPARISONS for token in tokens):
        return []
    # DataFusion merges lists of one column, and takes FALSE for NULL where nothing is left: there is one list for each.
    listed = None if any(token.word == "IN" for token in tokens) else set[str]()
    return [edit for expression, stop in _long_chains(tokens) for edit in _edits(tokens, expression, stop, listed)]


def _long_chains(tokens: Sequence[Token]) -> Iterator[tuple[_Expression, int]]:
    """Yield the conditions that are long chains, each with the place after its last token."""
    opened = [_Expression(0, is_condition=False)]
    for place, token in enumerate(tokens):
        expression, word = opened[-1], token.word
        sign = token.text if token.kind is Kind.SIGN else ""
        if sign in _OPENING or word == "CASE":
            opened.append(_Expression(place + 1, is_condition=sign == "(", is_case=word == "CASE"))
        elif sign in _CLOSING or (word == "END" and expression.is_case):
            if len(opened) > 1:
                yield from _if_long(opened.pop(), place)
        elif sign == "," or (word in _ENDS and not _is_call(tokens, place)):
            yield from _if_long(expression, place)
            opened[-1] = _Expression(place + 1, is_condition=word in _BEFORE_CONDITIONS, is_case=expression.is_case)
        elif word == "BETWEEN":
            expression.betweens += 1
        elif word == "AND" and expression.betweens:
            expression.betweens -= 1
        elif word in _COMPARED:
            expression.booleans.append(place)
        elif token.kind is Kind.COMPARISONS:
            expression.has_run = True
    yield from _if_long(opened[0], len(tokens))


def _if_long(expression: _Expression, stop: int) -> Iterator[tuple[_Expression, int]]:
    if expression.is_condition and (expression.has_run or len(expression.booleans) >= SHORT_CHAIN):
        yield expression, stop


def _is_call(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a word like LEFT is the name of a function at a place."""
    return tokens[place].word in JOINS and place + 1 < len(tokens) and tokens[place + 1].is_sign("(")


def _edits(tokens: Sequence[Token], expression: _Expression, stop: int, listed: set[str] | None) -> Iterator[Edit]:
    """Yield the edits of one condition: of its chain of OR, and of the chains of AND in that."""
    operands: list[_Operand] = []
    start, ands = expression.start, list[int]()
    for place in [*expression.booleans, stop]:
        if place != stop and tokens[place].word == "AND":
            ands.append(place)
            continue
        operands.append(_Operand(start, place))
        yield from _chain(tokens, _split_operands(start, ands, place), "AND", listed)
        start, ands = place + 1, []
    yield from _chain(tokens, operands, "OR", listed)


def _split_operands(start: int, places: Sequence[int], stop: int) -> list[_Operand]:
    return [
        _Operand(*operand) for operand in zip([start, *(place + 1 for place in places)], [*places, stop], strict=True)
    ]


def _chain(tokens: Sequence[Token], operands: list[_Operand], word: str, listed: set[str] | None) -> Iterator[Edit]:
    """Yield the edits of one chain if it is long; `listed` are the columns that have an IN list already, None: all of them."""
    if len(operands) == 1 or any(start >= stop for start, stop in operands):
        return
    if len(operands) <= SHORT_CHAIN and not any(_is_run(tokens, operand) for operand in operands):
        return
    kept, edits = (operands, []) if listed is None else _lists(tokens, operands, word, listed)
    yield from edits
    spans = [span for operand in kept for span in _spans(tokens, operand)]
    most = PUSHED[word]
    if len(spans) > most:
        # DataFusion does not look into this call. Some operands of AND are enough to prune by, of OR all are needed.
        opaque = spans[most - 1 :] if word == "AND" else spans
        whole = _Span(opaque[0].start, opaque[-1].stop)
        yield whole.start, whole.start, "nullif("
        yield from _balance(opaque)
        yield whole.stop, whole.stop, ", NULL)"
        spans = [*spans[: most - 1], whole] if word == "AND" else []
    yield from _balance(spans)


def _is_run(tokens: Sequence[Token], operand: _Operand) -> bool:
    """Return whether an operand is a run, which stands for as many operands as it has comparisons."""
    return tokens[operand.start].kind is Kind.COMPARISONS


def _spans(tokens: Sequence[Token], operand: _Operand) -> Iterator[_Span]:
    """Yield where the operands begin and end that one stands for."""
    if _is_run(tokens, operand):
        yield from (_Span(*comparison) for comparison in comparisons(tokens[operand.start]))
    else:
        yield _Span(tokens[operand.start].start, tokens[operand.stop - 1].stop)


def _balance(operands: Sequence[_Span]) -> Iterator[Edit]:
    """Yield brackets that turn a chain of operands into a balanced tree."""
    if len(operands) > 1:
        first, last = operands[0].start, operands[-1].stop
        half = len(operands) // 2
        yield first, first, "("
        yield from _balance(operands[:half])
        yield from _balance(operands[half:])
        yield last, last, ")"


def _lists(
    tokens: Sequence[Token], operands: list[_Operand], word: str, listed: set[str]
) -> tuple[list[_Operand], list[Edit]]:
    """Join comparisons of one column with literals of one kind into lists; return the remaining operands, and the edits."""
    sign, listing = _COMPARED[word]
    groups: dict[tuple[str, Kind], list[tuple[_Operand, list[str]]]] = {}
    compared = None
    for operand in operands:
        if compared is not None and _is_run(tokens, operand):
            column, kind, _ = compared  # it continues the comparison before it
            groups[column, kind].append((operand, literals(tokens[operand.start])))
            continue
        compared = _comparison(tokens[operand.start : operand.stop], sign)
        if compared is not None:
            column, kind, literal = compared
            groups.setdefault((column, kind), []).append((operand, [literal]))
    edits: list[Edit] = []
    joined: set[_Operand] = set()
    for (column, _), values_of in groups.items():
        name = column.rpartition(".")[2].strip('"').lower()
        values = [literal for _, those in values_of for literal in those]
        if len(values) > SHORT_CHAIN and name not in listed:
            listed.add(name)
            (first, _), *others = values_of
            edits.append(
                (tokens[first.start].start, tokens[first.stop - 1].stop, f"{column} {listing} ({', '.join(values)})")
            )
            edits += [(tokens[operand.start - 2].stop, tokens[operand.stop - 1].stop, "") for operand, _ in others]
            joined.update(operand for operand, _ in others)
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
