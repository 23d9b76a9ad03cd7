"""Aggregates answered from partition values and row counts, or in two phases, and which nodes concern partitions at all.

These are `count(*)` and, of columns that are partition fields by identity, `count`, `min`, `max` and the different values; over
whole partitions, of which only those with a live row count.

Where the columns that are grouped by do not decide the group, the same values may come from several groups; their sums,
counts, minima and maxima are put together again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, Expr, SessionContext, col, lit
from datafusion import functions as f
from datafusion.expr import Aggregate, Join, Projection, Sort, SubqueryAlias, TableScan

from lance_flight.engine.plans.nodes import (
    ColumnKey,
    ColumnReference,
    Node,
    Origin,
    column_key,
    date_part,
    expressions,
    origin,
    strip_aliases,
    table_key,
    window_columns,
)
from lance_flight.engine.query.optimising.plan_rebuilding import name_columns, number_columns
from lance_flight.engine.query.partition_wise.join_order import read_tables
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.table_view import Prunings, Rows, TableView
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.translation.evaluation import inner_context
from lance_flight.model.spec import PartitionField

_CALL = re.compile(r"(?P<function>count|min|max)\((?P<distinct>DISTINCT )?(?P<of>.*)\)", re.DOTALL)
_ROWS = "Int64(1)"
_TABLES = "partitions"
_COUNT = "row_count"


@dataclass(frozen=True, slots=True, eq=False)
class MetadataPart:
    """Aggregate with its result."""

    session: QuerySession
    node: Node
    table: str
    partitions: int
    rows: pa.Table

    def __str__(self) -> str:
        return f"answered from metadata: {self.node.said}, of {self.partitions} partitions of {self.table}"

    def frame(self, columns: list[ColumnReference]) -> DataFrame:
        """The answer for a plan above it, with its columns called so."""
        return name_columns(
            self.session.optimiser.datafusion,
            self.session.optimiser.datafusion.read_table(pads.dataset(self.rows)),
            columns,
        )


def from_metadata(session: QuerySession, prunings: Prunings, node: Node) -> MetadataPart | None:
    """Return the part that answers an aggregate from metadata alone; None if rows have to be read."""
    if not isinstance(node.variant, Aggregate) or node.outputs is None:
        return None
    partitions = _whole_partitions(session, prunings, node.inputs[0])
    if partitions is None:
        return None
    view, kept = partitions
    grouped = [_source(node, strip_aliases(expression)) for expression in expressions(node.variant.group_by_exprs())]
    aggregates = [_rewrite_aggregate(node, expression) for expression in expressions(node.variant.aggregate_exprs())]
    columns = {name for name in grouped if name is not None} | {name for _, name in filter(None, aggregates) if name}
    fields = {name: _identity(view, kept, name) for name in columns}
    if None in grouped or None in aggregates or None in fields.values():
        return None
    known = _partitions(view, kept, {name: field for name, field in fields.items() if field is not None})
    keys = [quote_parts(name) for name in grouped if name is not None]
    query = f"SELECT {', '.join([*keys, *(text for text, _ in filter(None, aggregates))])} FROM {_TABLES}"  # noqa: S608 - ours
    if keys:
        query += f" GROUP BY {', '.join(keys)}"
    kind = session.optimiser.datafusion.create_dataframe_from_logical_plan(node.plan).schema()
    return MetadataPart(session, node, view.name, known.num_rows, _answer(query, known, number_columns(kind)))


def may_answer(node: Node) -> bool:
    """Return whether metadata has such aggregates at all, whatever a scan leaves."""
    return all(
        _rewrite_aggregate(node, expression) is not None for expression in expressions(node.variant.aggregate_exprs())
    )


def _whole_partitions(session: QuerySession, prunings: Prunings, node: Node) -> tuple[TableView, Rows] | None:
    """Return the table that a node reads by whole partitions alone, with these partitions; None for any other node."""
    while isinstance(node.variant, Projection | SubqueryAlias):
        (node,) = node.inputs
    if not isinstance(node.variant, TableScan) or node.variant.fetch() is not None:
        return None
    view = session.divisible.get(table_key(node.variant, session.db_schema))
    planned = () if view is None else prunings.get(view.key, ())
    if view is None or len(planned) != 1 or session.share.of > 1:
        return None
    rests = [version.unfiltered for version in planned[0].versions if len(version.kept)]
    return (view, read_tables(planned)) if all(rest is None for rest in rests) else None


def _source(node: Node, expression: Expr) -> str | None:
    """Return the table's column that an expression refers to; None if it is computed."""
    column = column_key(expression)
    source: Origin | None = None if column is None else origin(node.inputs[0], column)
    return None if source is None else source.name


def _rewrite_aggregate(node: Node, expression: Expr) -> tuple[str, str | None] | None:
    """Return an aggregate rewritten over partitions instead of rows, with its column; None if that is impossible."""
    match = _CALL.fullmatch(strip_aliases(expression).schema_name())
    if match is None:
        return None
    if match["function"] == "count" and match["of"] == _ROWS and not match["distinct"]:
        return f"coalesce(sum({_COUNT}), 0)", None
    named = [c.key for c in node.inputs[0].outputs or () if ".".join((*c.relation, c.name)) == match["of"]]
    source = origin(node.inputs[0], named[0]) if len(named) == 1 else None
    if source is None:
        return None
    column = quote_parts(source.name)
    if match["function"] == "count" and not match["distinct"]:
        return f"coalesce(sum({_COUNT}) FILTER (WHERE {column} IS NOT NULL), 0)", source.name
    return f"{match['function']}({match['distinct'] or ''}{column})", source.name


def _identity(view: TableView, kept: Rows, name: str) -> PartitionField | None:
    """Return the identity field of a column in all specs that have tables to read; None without one, or for floats, which it may alter."""
    number = view.snapshot.schema.ids[name]
    if pa.types.is_floating(view.snapshot.schema.plain.field(name).type):
        return None
    for tables, rows in zip(view.snapshot.tables, kept, strict=True):
        if len(rows) and not any(_holds(field, number) for field in tables.spec.fields):
            return None
    return next((f for spec in view.snapshot.specs for f in spec.fields if _holds(f, number)), None)


def _holds(field: PartitionField, number: int) -> bool:
    return field.rule.keeps_value and field.source_ids == (number,)


def _partitions(view: TableView, kept: Rows, fields: dict[str, PartitionField]) -> pa.Table:
    """Return the partitions that have rows: the values of the fields, and the number of rows."""
    schema = pa.schema([*(view.schema.field(name) for name in fields), pa.field(_COUNT, pa.int64())])
    parts = []
    for tables, rows, counts in zip(view.snapshot.tables, kept, view.row_counts(kept), strict=True):
        live = np.flatnonzero(counts)
        if len(live):
            values = tables.values.take(pa.array(rows[live]))
            columns = [values[field.column].cast(schema.field(name).type) for name, field in fields.items()]
            parts.append(pa.Table.from_arrays([*columns, pa.array(counts[live])], schema=schema))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _answer(query: str, partitions: pa.Table, kind: pa.Schema) -> pa.Table:
    context = inner_context()
    context.register_table(_TABLES, pads.dataset(partitions))
    rows = context.sql(query).to_arrow_table()
    return pa.Table.from_arrays([c.cast(f.type) for c, f in zip(rows.columns, kind, strict=True)], schema=kind)


_PARTIAL_CALL = re.compile(r"(?P<function>count|sum|min|max)\((?!DISTINCT ).*\)", re.DOTALL)
_MERGED: Mapping[str, Callable[[Expr], Expr]] = MappingProxyType(
    {"count": f.sum, "sum": f.sum, "min": f.min, "max": f.max}
)


def is_mergeable(node: Node) -> bool:
    """Return whether an aggregate may be computed in two phases."""
    if not isinstance(node.variant, Aggregate) or node.outputs is None:
        return False
    return all(_function(expression) for expression in expressions(node.variant.aggregate_exprs()))


def merge_groups(context: SessionContext, node: Node, rows: pads.Dataset, columns: list[ColumnReference]) -> DataFrame:
    """The aggregate of all groups; `rows` are those of each, with their columns called by their places."""
    names = rows.schema.names
    functions = [_function(expression) for expression in expressions(node.variant.aggregate_exprs())]
    keys, values = names[: -len(functions) or None], names[len(names) - len(functions) :]
    again = [_MERGED[function](col(name)).alias(name) for function, name in zip(functions, values, strict=True)]
    frame = context.read_table(rows).aggregate([col(name) for name in keys], again)
    selected = [col(name) for name in keys]
    for function, name in zip(functions, values, strict=True):
        # No group at all has a sum of NULL, and a count of 0.
        value = f.coalesce(col(name), lit(0)) if function == "count" else col(name)
        selected.append(value.cast(rows.schema.field(name).type).alias(name))
    return name_columns(context, frame.select(*selected), columns)


def _function(expression: Expr) -> str:
    match = _PARTIAL_CALL.fullmatch(strip_aliases(expression).schema_name())
    return match["function"] if match else ""


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
        for expression in map(strip_aliases, expressions(node.variant.group_by_exprs())):
            key, dated = column_key(expression), date_part(expression)
            yield from [] if key is None else [key]
            yield from [] if dated is None else [dated[1]]
    else:
        yield from window_columns(node.variant)


def _is_source(session: QuerySession, below: Node, column: ColumnKey) -> bool:
    """Return whether a partition field is computed from a column; one whose origin is not known may be."""
    source = origin(below, column)
    if source is None:
        return True
    view = session.divisible.get(table_key(source.scan.variant, session.db_schema))
    return view is not None and view.snapshot.schema.ids[source.name] in view.snapshot.partition_sources
