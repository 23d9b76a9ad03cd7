"""Detection and direct streaming of queries that read one table and process every row by itself, or read none.

They may be streamed in parts, and the plainest of them, columns and pushed filters only, need no DataFusion to run. Nor do
the plainest searches. A query that reads nothing is done at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from datafusion import LogicalPlan
from datafusion.expr import EmptyRelation, Filter, Projection, SubqueryAlias, TableScan

from lance_flight.engine.query.tables.provider import ScanLog

STREAM_ROWS = 32 * 1024
"""Rows of a batch that is streamed directly: cores decode the batches of one data file at once, and a partition has few of 64 k."""

_ROW_BY_ROW = (Projection, Filter, SubqueryAlias)


def is_pure_scan(plan: LogicalPlan) -> bool:
    """Return whether an optimised plan reads one table and processes every row by itself."""
    node = plan.to_variant()
    if isinstance(node, TableScan):
        return _is_whole(node)
    return isinstance(node, _ROW_BY_ROW) and all(is_pure_scan(child) for child in plan.inputs())


def is_one_row(plan: LogicalPlan) -> bool:
    """Return whether an optimised plan reads nothing and has one row at most, as that of `SELECT 1` does."""
    return "Subquery:" not in plan.display_indent() and _is_computed(plan)


def _is_computed(plan: LogicalPlan) -> bool:
    node = plan.to_variant()
    return isinstance(node, EmptyRelation) or (
        isinstance(node, Projection) and all(_is_computed(child) for child in plan.inputs())
    )


def bare_columns(plan: LogicalPlan) -> list[str] | None:
    """Return the table's columns that an optimised plan returns unchanged, in order; None if it does anything else."""
    node = plan.to_variant()
    if isinstance(node, TableScan):
        return [name for _, name in node.projection()] if _is_whole(node) else None
    if not isinstance(node, Projection):
        return None
    (below,) = (child.to_variant() for child in plan.inputs())
    if not isinstance(below, TableScan) or not _is_whole(below):
        return None
    columns = [_column(expression) for expression in node.projections()]
    known = [column for column in columns if column is not None]
    return known if len(known) == len(columns) else None


def stream(log: ScanLog, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch] | None:
    """Stream the only planned scan or search, under the names of `schema`; None unless there is just one."""
    batches: Iterable[pa.RecordBatch]
    read = list(dict.fromkeys(columns))
    match log.scans, log.searches:
        case [planned], []:
            batches = planned.batches([part for lane in planned.plan.lanes for part in lane], read, STREAM_ROWS)
        case [], [found]:
            batches = found(read)
        case _:
            return None
    return (_rename_columns(batch, columns, schema) for batch in batches)


def _rename_columns(batch: pa.RecordBatch, columns: list[str], schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    arrays = batch.columns if batch.schema.names == columns else [batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_whole(scan: Any) -> bool:
    """Return whether a scan returns all rows that its filters leave; one with a LIMIT does not, which counts over the whole table."""
    return scan.fetch() is None


def _column(expression: Any) -> str | None:
    """Return the column that an expression refers to, without its aliases; None for any other expression."""
    kind = expression.variant_name()
    if kind == "Alias":
        return _column(expression.to_variant().expr())
    return str(expression.to_variant().name()) if kind == "Column" else None
