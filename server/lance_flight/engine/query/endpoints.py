"""Properties of a query that are decided before it runs: the number of its endpoints, and whether its rows are ordered."""

from __future__ import annotations

from datafusion import LogicalPlan
from datafusion.expr import Limit, Projection, Sort

from lance_flight.engine.query.partition_wise.statistics import read_tables
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.pure_scans import is_pure_scan


def split(planned: PlannedQuery, endpoints: int) -> tuple[int, int | None]:
    """Return the number of endpoints of a query, and the rows of the tables that they read; 1 and None if it is not split.

    A pure scan of one table has as many parts as it reads partition tables.
    """
    session, frame = planned.session, planned.frame
    if endpoints == 1 or not session.views or not is_pure_scan(session.optimised(frame)):
        return 1, None
    if any(view.hides_layout for view in session.views.values()):
        return 1, None
    scans = session.logical_scans(frame)
    if scans is None or len(scans) != 1:
        # A scalar subquery scans as well, and must see all of its table.
        return 1, None
    session.prepare(frame)
    prunings = session.prune(frame)
    parts = min(endpoints, sum(pruning.scanned for found in prunings.values() for pruning in found))
    if parts <= 1:
        return 1, None
    counted = [session.views[table].row_counts(read_tables(found)) for table, found in prunings.items()]
    return parts, sum(int(counts.sum()) for counts_of_table in counted for counts in counts_of_table)


def is_ordered(plan: LogicalPlan) -> bool:
    """Return whether the query's own ORDER BY determines the order of its rows; an unoptimised plan has the sort at its top."""
    node = plan.to_variant()
    if isinstance(node, Sort):
        return True
    return isinstance(node, _KEEP_ORDER) and all(is_ordered(child) for child in plan.inputs())


_KEEP_ORDER = (Limit, Projection)
