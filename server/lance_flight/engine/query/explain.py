"""EXPLAIN and EXPLAIN ANALYZE: DataFusion's plans, and a report for each scan of a partitioned table."""

from __future__ import annotations

import time

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.engine.query.partition_wise.division import divide
from lance_flight.engine.query.session import QuerySession

EXPLAIN_SCHEMA = pa.schema(
    [pa.field("plan_type", pa.utf8(), nullable=False), pa.field("plan", pa.utf8(), nullable=False)]
)


def explain(session: QuerySession, frame: DataFrame, *, analyze: bool) -> pa.Table:
    """Return the plans of a query; `analyze` runs it and adds the rows, opened tables and time that it took."""
    division = divide(session, frame, ask_keys=analyze, is_told=True)
    rows = [("logical_plan", session.optimised(division.whole).display_indent())]
    rows.append(("physical_plan", session.plan(division.whole).display_indent()))
    reports = [report() for report in session.log.reports]
    if analyze:
        session.log.tables_read = 0
        began = time.perf_counter()
        produced = sum(batch.num_rows for batch in division.batches())
        seconds = time.perf_counter() - began
        rows.append(("analyze", f"rows: {produced}\ntables opened: {session.log.tables_read}\nseconds: {seconds:.3f}"))
    rows += [("partitions", report) for report in reports]
    rows += division.notes
    return pa.Table.from_arrays(
        [pa.array(column, pa.utf8()) for column in zip(*rows, strict=True)], schema=EXPLAIN_SCHEMA
    )
