"""The rows that a filter drops, as a predicate of its own: those for which it is FALSE or NULL."""

from __future__ import annotations

import pyarrow as pa

from lance_flight.model.schema import NamespaceSchema
from lance_flight.planning.predicates import (
    ALWAYS,
    NEVER,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Leaf,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    all_of,
    any_of,
    negate,
)


def not_true(predicate: Predicate, schema: NamespaceSchema) -> Predicate:
    """Return a predicate that is TRUE of every row of which `predicate` is not; it may be TRUE of further rows too.

    `negate` says FALSE alone.
    """
    match predicate:
        case And(parts):
            return any_of(not_true(part, schema) for part in parts)
        case Or(parts):
            return all_of(not_true(part, schema) for part in parts)
        case leaf:
            return _dropped_by(leaf, schema)


def _dropped_by(leaf: Leaf, schema: NamespaceSchema) -> Predicate:
    match leaf:
        case Constant(value):
            return NEVER if value else ALWAYS
        case IsNull():
            return negate(leaf)
        case In(_, values, negated) if values.null_count:
            return ALWAYS if negated else _dropped_by(In(leaf.term, values.drop_null()), schema)
        case Compare() | In() | StartsWith() if not _is_float(leaf, schema):
            return any_of([negate(leaf), IsNull(leaf.term)])
        case Compare() | In() | StartsWith() | Opaque():
            return ALWAYS


def _is_float(leaf: Compare | In | StartsWith, schema: NamespaceSchema) -> bool:
    """Return whether a leaf compares floats: engines disagree about zeros and NaNs."""
    number = schema.source_ids.get(leaf.term.path)
    return number is None or pa.types.is_floating(schema.sources[number].field.type)
