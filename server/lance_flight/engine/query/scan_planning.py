"""`plan_scan`: the partition tables that a filter leaves, for readers outside SQL.

Bulk pipelines and `lance-flight inspect --where` plan with it; the server's own scans use the same pruning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from lance_flight.catalog.maintenance.rewriting import Choose
from lance_flight.catalog.manifests.snapshot import PartitionContext, PartitionTable, Pin, Snapshot, SpecTables
from lance_flight.catalog.roots.directory import PUBLIC, Root
from lance_flight.catalog.table import Table
from lance_flight.engine.query.optimiser import bare_columns
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import StatementContext
from lance_flight.engine.query.tables.provider import filter_of
from lance_flight.engine.query.tables.table_view import Rows, partitions_of, report, side_of
from lance_flight.engine.sql.references import enclose, quote_parts
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.planning.arrow_expression import RowFilter, predicate_from_arrow
from lance_flight.planning.joins import Side
from lance_flight.planning.predicates import ALWAYS, NEVER, Predicate
from lance_flight.planning.pruning import Pruning, SpecPruning, prune, with_certain


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """One table to read: its location and pin, and the residual of the filter that is still to be applied (None: nothing).

    `filter` is the part of that which a reader can apply as it reads, `context` what the snapshot says of its rows.
    """

    spec_id: int
    object_id: str
    uri: str
    pin: Pin
    residual: Predicate | None
    filter: RowFilter
    context: PartitionContext = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """Tables to read for a filter; `str()` describes how they were pruned and what could not be used.

    Where the filters of the tables do not say all of it, `condition` is the whole in SQL, to be applied to their rows.
    """

    name: str
    snapshot: Snapshot
    tables: tuple[PlannedTable, ...]
    pruning: Pruning
    condition: str | None

    def __str__(self) -> str:
        return report(self.name, self.pruning, self.snapshot.version)

    @property
    def kept(self) -> Rows:
        """Return the numbers of the tables that are left, version by version, in the order of `tables`."""
        return tuple(version.kept for version in self.pruning.versions)

    def side(self, name: str, keys: Sequence[str]) -> Side:
        """Return this scan as one side of a join by these columns (`planning.joins`), under a name for messages."""
        return side_of(name, self.snapshot, self.kept, [(key,) for key in keys])


def plan_scan(
    namespace: Table,
    filter: pc.Expression | str | None = None,
    *,
    snapshot: Snapshot | None = None,
) -> PlannedScan:
    """Plan a read of `namespace`; `filter` is a pyarrow expression or SQL over its columns.

    >>> plan_scan(namespace, pc.field("origin") == "JFK").tables          # doctest: +SKIP
    """
    at = snapshot or namespace.snapshot()
    if isinstance(filter, str) and not namespace.is_partitioned:
        return _build_scan(namespace, at, prune(partitions_of(at), at.schema, ALWAYS, None), None, filter)
    if isinstance(filter, str):
        return _plan_by_sql(namespace, filter, snapshot)
    predicate = ALWAYS if filter is None else predicate_from_arrow(filter)
    return _build_scan(namespace, at, prune(partitions_of(at), at.schema, predicate, evaluate), filter, None)


def _plan_by_sql(namespace: Table, condition: str, at: Snapshot | None) -> PlannedScan:
    """Return what a query with this WHERE reads: planned just as the server plans it."""
    session = QuerySession(StatementContext(root=Root(namespace.store), target_partitions=1))
    name = namespace.store.name + (f"@{at.version}" if at is not None else "")
    frame = session.frame(f"SELECT * FROM {quote_parts(name)} WHERE {enclose(condition)}")  # noqa: S608 - planned, never run
    session.prepare(frame)
    session.optimiser.plan(frame)
    view = session.views[f"{PUBLIC}.{name}"]
    if not session.log.scans:
        # DataFusion knows that no row fulfils it, and reads nothing.
        return _build_scan(
            namespace, view.snapshot, prune(partitions_of(view.snapshot), view.snapshot.schema, NEVER, None), None, None
        )
    is_whole = bare_columns(session.optimiser.optimise(frame)) is not None
    (scan,) = session.log.scans
    return _build_scan(
        namespace, view.snapshot, session.log.prunings[view.key][-1], scan.condition, None if is_whole else condition
    )


def _build_scan(
    namespace: Table,
    snapshot: Snapshot,
    pruning: Pruning,
    pushed: pc.Expression | None,
    condition: str | None,
) -> PlannedScan:
    if pushed is not None and any(
        version.unfiltered is not None and not len(version.certain) for version in pruning.versions
    ):
        # One partition that needs no filter spares a query nothing, and others its column, or the whole read.
        pruning = with_certain(pruning, partitions_of(snapshot), snapshot.schema, predicate_from_arrow(pushed))
    tables = tuple(
        table
        for stored, version in zip(snapshot.tables, pruning.versions, strict=True)
        for table in _tables(namespace, snapshot, stored, version, pushed)
    )
    return PlannedScan(name=namespace.name, snapshot=snapshot, tables=tables, pruning=pruning, condition=condition)


def _tables(
    namespace: Table, snapshot: Snapshot, stored: SpecTables, version: SpecPruning, pushed: pc.Expression | None
) -> Iterator[PlannedTable]:
    """Yield the tables that are kept of a spec version, in their order; one filter is one object."""
    filters = {
        int(row): (version.residual if residual is not None else None, filter)
        for residual, rows in version.by_residual(version.kept)
        for filter in [filter_of(residual, pushed, snapshot.schema.plain)]
        for row in rows
    }
    for row in map(int, version.kept):
        yield _table(namespace, snapshot, stored.table(row), *filters[row])


def _table(
    namespace: Table,
    snapshot: Snapshot,
    table: PartitionTable,
    residual: Predicate | None,
    filter: RowFilter,
) -> PlannedTable:
    return PlannedTable(
        spec_id=table.spec_id,
        object_id=table.object_id,
        uri=namespace.store.child(table.location).uri,
        pin=table.pin,
        residual=residual,
        filter=filter,
        context=snapshot.context_of(table),
    )


def tables_where(namespace: Table, condition: str) -> Choose:
    """Return a function that prunes a snapshot's tables by a condition; an invalid condition is refused at once."""
    plan_scan(namespace, condition)

    def choose(snapshot: Snapshot) -> list[PartitionTable]:
        planned = plan_scan(namespace, condition, snapshot=snapshot)
        return list(snapshot.tables_named([table.object_id for table in planned.tables]).values())

    return choose
