"""Aggregates in two phases: within each group, and then over the results of the groups.

Where the columns that are grouped by do not decide the group, the same values may come from several groups; their sums,
counts, minima and maxima are put together again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pyarrow.dataset as pads
from datafusion import DataFrame, Expr, SessionContext, col, lit
from datafusion import functions as f
from datafusion.expr import Aggregate

from lance_flight.engine.query.partition_wise.plan_rebuilding import named
from lance_flight.engine.query.partition_wise.plans import ColumnReference, Node, expressions, unaliased

_CALL = re.compile(r"(?P<function>count|sum|min|max)\((?!DISTINCT ).*\)", re.DOTALL)
_MERGED: Mapping[str, Callable[[Expr], Expr]] = MappingProxyType(
    {"count": f.sum, "sum": f.sum, "min": f.min, "max": f.max}
)


def is_mergeable(node: Node) -> bool:
    """Return whether an aggregate may be computed in two phases."""
    if not isinstance(node.variant, Aggregate) or node.outputs is None:
        return False
    return all(_function(each) for each in expressions(node.variant.aggregate_exprs()))


def merged(context: SessionContext, node: Node, rows: pads.Dataset, columns: list[ColumnReference]) -> DataFrame:
    """The aggregate of all groups; `rows` are those of each, with their columns called by their places."""
    names = rows.schema.names
    functions = [_function(each) for each in expressions(node.variant.aggregate_exprs())]
    keys, values = names[: -len(functions) or None], names[len(names) - len(functions) :]
    again = [_MERGED[function](col(name)).alias(name) for function, name in zip(functions, values, strict=True)]
    frame = context.read_table(rows).aggregate([col(name) for name in keys], again)
    said = [col(name) for name in keys]
    for function, name in zip(functions, values, strict=True):
        # No group at all has a sum of NULL, and a count of 0.
        value = f.coalesce(col(name), lit(0)) if function == "count" else col(name)
        said.append(value.cast(rows.schema.field(name).type).alias(name))
    return named(context, frame.select(*said), columns)


def _function(expression: Expr) -> str:
    found = _CALL.fullmatch(unaliased(expression).schema_name())
    return found["function"] if found else ""
