"""A predicate as alternatives: each a list of leaves that must all hold, at most so many of them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lance_flight.planning.predicates import (
    And,
    Compare,
    In,
    Leaf,
    Op,
    Or,
    Predicate,
    StartsWith,
    Term,
    after_prefix,
    all_of,
    any_of,
)

MAX_BRANCHES = 128


def simplified(predicate: Predicate) -> Predicate:
    """Return the same predicate with equalities on one term under OR joined to an IN, and NOT LIKE 'x%' as two ranges."""
    match predicate:
        case And(parts):
            return all_of(map(simplified, parts))
        case Or():
            flat = any_of([predicate])
            parts = flat.parts if isinstance(flat, Or) else (flat,)
            return any_of(_joined([simplified(part) for part in parts]))
        case StartsWith(term, prefix, True):
            return _outside(term, prefix)
    return predicate


def _outside(term: Term, prefix: str) -> Predicate:
    below = Compare(term, Op.LT, pa.scalar(prefix))
    following = after_prefix(prefix)
    return below if following is None else Or((below, Compare(term, Op.GE, pa.scalar(following))))


def _joined(parts: Iterable[Predicate]) -> Iterable[Predicate]:
    lists: dict[tuple[Term, str], list[pa.Array]] = {}
    for part in parts:
        match part:
            case Compare(term, Op.EQ, value):
                lists.setdefault((term, str(value.type)), []).append(pa.repeat(value, 1))
            case In(term, values, False):
                lists.setdefault((term, str(values.type)), []).append(values)
            case _:
                yield part
    yield from (In(term, pa.concat_arrays(values)) for (term, _), values in lists.items())


def branches(predicate: Predicate) -> list[tuple[Leaf, ...]] | None:
    """Return the alternatives of `predicate`; None where they are more than `MAX_BRANCHES`."""
    match predicate:
        case And(parts):
            return product([branches(part) for part in parts])
        case Or(parts):
            nested = [branches(part) for part in parts]
            flat = [branch for some in nested if some is not None for branch in some]
            return None if None in nested or len(flat) > MAX_BRANCHES else flat
        case leaf:
            return [(leaf,)]


def product(factors: Iterable[list[tuple[Leaf, ...]] | None]) -> list[tuple[Leaf, ...]] | None:
    """Return every combination of one branch of each factor; None where they are more than `MAX_BRANCHES`."""
    combined: list[tuple[Leaf, ...]] = [()]
    for factor in factors:
        if factor is None or len(combined) * len(factor) > MAX_BRANCHES:
            return None
        combined = [(*left, *right) for left in combined for right in factor]
    return combined
