"""Quick check whether a node concerns partitions, made before scans are planned for it."""

from __future__ import annotations

from collections.abc import Iterator

from datafusion import Expr
from datafusion.expr import Aggregate, Join, Sort

from lance_flight.engine.query.partition_wise.column_lineage import origin
from lance_flight.engine.query.partition_wise.metadata_answers import may_answer
from lance_flight.engine.query.partition_wise.plans import (
    ColumnKey,
    Node,
    column_key,
    date_part,
    expressions,
    table_key,
    unaliased,
    window_columns,
)
from lance_flight.engine.query.session import QuerySession


def concerns_partitions(session: QuerySession, node: Node) -> bool:
    """Return whether a join, aggregate, window or sort may be run by partitions, or answered from metadata; every join may."""
    if isinstance(node.variant, Join):
        return True
    if isinstance(node.variant, Aggregate) and not node.variant.group_by_exprs():
        return may_answer(node)
    return any(_is_source(session, node.inputs[0], column) for column in _columns(node))


def _columns(node: Node) -> Iterator[ColumnKey]:
    """Yield the columns by which a node groups its rows, or the first one that it sorts by."""
    if isinstance(node.variant, Sort):
        first = column_key(Expr(node.variant.sort_exprs()[0].expr()))
        yield from [] if first is None else [first]
    elif isinstance(node.variant, Aggregate):
        for each in map(unaliased, expressions(node.variant.group_by_exprs())):
            found, dated = column_key(each), date_part(each)
            yield from [] if found is None else [found]
            yield from [] if dated is None else [dated[1]]
    else:
        yield from window_columns(node.variant)


def _is_source(session: QuerySession, below: Node, column: ColumnKey) -> bool:
    """Return whether a partition field is computed from a column; one whose origin is not known may be."""
    found = origin(below, column)
    if found is None:
        return True
    view = session.divisible.get(table_key(found.scan.variant, session.db_schema))
    return view is not None and view.snapshot.schema.ids[found.name] in view.snapshot.partition_sources
