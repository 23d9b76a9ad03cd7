"""What is said of a query before it runs: into how many endpoints it may be split, whether its rows have an order."""

from __future__ import annotations

from datafusion import LogicalPlan
from datafusion.expr import Limit, Projection, Sort

from lance_flight.engine.query.partition_wise.statistics import read_tables
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.pure_scans import is_pure_scan
from lance_flight.engine.query.session import Session


def most_shares(planned: PlannedQuery, endpoints: int) -> int:
    """Into how many parts a query may be split: as many as it reads partition tables, for a pure scan of one table."""
    session, frame = planned.session, planned.frame
    if not session.views or not is_pure_scan(session.optimised(frame)):
        return 1
    scans = session.logical_scans(frame)
    if scans is None or len(scans) != 1:
        # A scalar subquery scans as well, and must see all of its table.
        return 1
    session.prepare(frame)
    session.prune(frame)
    scanned = sum(view.planned[-1].scanned for view in session.views.values() if view.planned)
    return max(1, min(endpoints, scanned))


def table_rows(session: Session) -> int:
    """How many rows the tables that are read have."""
    return sum(int(counts.sum()) for view in session.views.values() for counts in view.row_counts(read_tables(view)))


def is_ordered(plan: LogicalPlan) -> bool:
    """Whether the rows come in an order that the query itself asks for; one that is not optimised says so at its top."""
    node = plan.to_variant()
    if isinstance(node, Sort):
        return True
    return isinstance(node, _KEEP_ORDER) and all(is_ordered(child) for child in plan.inputs())


_KEEP_ORDER = (Limit, Projection)
