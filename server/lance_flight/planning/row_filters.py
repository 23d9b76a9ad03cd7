"""Filters that remain after pruning, in the forms that readers of the scan take."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow.compute as pc

from lance_flight.errors import Unsupported
from lance_flight.planning.arrow_expression import to_arrow
from lance_flight.planning.predicates import ALWAYS, And, Constant, Leaf, Opaque, Or, Predicate

MOST_DEPTH = 5
"""Lance's work on a filter doubles with each level of AND and OR (as Substrait); a deeper one is applied to what it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A filter as Lance runs it (`expression`) and as Arrow does (`rest`), and the columns that it speaks of.

    Not `pushable`: better not given to Lance.
    """

    expression: pc.Expression | None
    rest: pc.Expression | None
    columns: tuple[str, ...]
    pushable: bool


def row_filter(residual: Predicate | None) -> RowFilter:
    """Return the filter that a residual is (None: all rows match); `Unsupported` for what pyarrow cannot say.

    >>> row_filter(None).columns
    ()
    """
    if residual is None or residual == ALWAYS:
        return RowFilter(expression=None, rest=None, columns=(), pushable=True)
    return RowFilter(
        expression=_arrow(residual, to_arrow),
        rest=_arrow(residual, partial(to_arrow, sql_floats=True)),
        columns=columns_of(residual),
        pushable=_depth(residual) <= MOST_DEPTH,
    )


def _arrow(predicate: Predicate, leaf: Callable[[Predicate], pc.Expression]) -> pc.Expression:
    match predicate:
        case And(parts):
            return _balanced([_arrow(part, leaf) for part in parts], operator.and_)
        case Or(parts):
            return _balanced([_arrow(part, leaf) for part in parts], operator.or_)
    return leaf(predicate)


def _balanced(parts: Sequence[pc.Expression], join: Callable[[Any, Any], pc.Expression]) -> pc.Expression:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_balanced(parts[:middle], join), _balanced(parts[middle:], join))


def _depth(predicate: Predicate) -> int:
    """Return how deep the expression of `_arrow` is nested."""
    if isinstance(predicate, And | Or):
        return (len(predicate.parts) - 1).bit_length() + max(map(_depth, predicate.parts))
    return 0


def terms(predicate: Predicate) -> tuple[str, ...]:
    """Return the columns that a predicate compares; what its opaque parts speak of is not known."""
    compared = (leaf.term.name for leaf in _leaves(predicate) if not isinstance(leaf, Constant | Opaque))
    return tuple(dict.fromkeys(compared))


def columns_of(predicate: Predicate) -> tuple[str, ...]:
    """Return the columns that a predicate without opaque parts speaks of."""
    for leaf in _leaves(predicate):
        if isinstance(leaf, Opaque):
            raise Unsupported(str(leaf))
    return terms(predicate)


def _leaves(predicate: Predicate) -> Iterator[Leaf]:
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _leaves(part)
        case leaf:
            yield leaf
