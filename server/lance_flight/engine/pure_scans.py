"""Queries that read one table and treat every row by itself.

They may be streamed in parts, and the plainest of them, columns and pushed filters only, need no DataFusion to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan

from lance_flight.engine.provider import ScanLog

_ROW_BY_ROW = {"Projection", "Filter", "TableScan", "SubqueryAlias"}


def is_pure_scan(frame: DataFrame) -> bool:
    """Whether a query reads one table and treats every row by itself."""
    return _is_row_by_row(frame.optimized_logical_plan())


def bare_columns(frame: DataFrame) -> list[str] | None:
    """The columns of a table that a query returns as they are, in order; None where it does anything else."""
    plan = frame.optimized_logical_plan()
    if _node(plan) == "TableScan":
        return None if _is_limited(plan) else list(frame.schema().names)
    if _node(plan) != "Projection" or [_node(child) for child in plan.inputs()] != ["TableScan"]:
        return None
    columns = [_column(expression) for expression in plan.to_variant().projections()]
    known = [column for column in columns if column is not None]
    return known if len(known) == len(columns) and not _is_limited(plan.inputs()[0]) else None


def stream(log: ScanLog, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch] | None:
    """The rows of the only scan that was planned, under the names of `schema`; None unless there is just one."""
    if len(log.scans) != 1:
        return None
    (planned,) = log.scans
    work = [part for lane in planned.plan.lanes for part in lane]
    return (_named(batch, columns, schema) for batch in planned.batches(work, list(dict.fromkeys(columns))))


def _named(batch: pa.RecordBatch, columns: list[str], schema: pa.Schema) -> pa.RecordBatch:
    arrays = batch.columns if batch.schema.names == columns else [batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_row_by_row(plan: LogicalPlan) -> bool:
    if _node(plan) == "TableScan":
        return not _is_limited(plan)
    children = plan.inputs()
    return _node(plan) in _ROW_BY_ROW and len(children) == 1 and _is_row_by_row(children[0])


def _node(plan: LogicalPlan) -> str:
    return str(plan.display()).split(":")[0].split(" ")[0]


def _is_limited(scan: LogicalPlan) -> bool:
    return "fetch=" in scan.display()


def _column(expression: Any) -> str | None:
    """The column that an expression is, whatever it is called in the result."""
    kind = expression.variant_name()
    if kind == "Alias":
        return _column(expression.to_variant().expr())
    return str(expression.to_variant().name()) if kind == "Column" else None
