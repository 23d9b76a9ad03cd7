"""Row counts of the tables of a plan, from metadata, and how DataFusion runs joins by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import numpy as np
from datafusion import DataFrame, Expr
from datafusion.expr import Aggregate, EmptyRelation, Filter, Join, Projection, TableScan, Values

from lance_flight.engine.plans.nodes import (
    BOTH_SIDES,
    Node,
    column_key,
    conjuncts,
    expressions,
    is_one_row,
    join_type,
    operands_of,
    strip_aliases,
    table_key,
)
from lance_flight.engine.query.optimising.plan_rebuilding import rebuilt
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.tables.table_view import Prunings, Rows
from lance_flight.errors import SqlError, Unsupported
from lance_flight.planning.pruning import Pruning


def read_tables(prunings: Sequence[Pruning]) -> Rows:
    """Return the partition tables that any of the scans of a table reads."""
    versions = [pruning.versions for pruning in prunings] or [()]
    return tuple(
        np.unique(np.concatenate([version[place].kept for version in versions])) for place in range(len(versions[0]))
    )


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Row counts of the tables of a query: of the partitions that its scans leave."""

    session: QuerySession
    prunings: Prunings
    _known: dict[str, int] = field(default_factory=dict)

    def of(self, node: Node) -> int:
        """Return the rows that a node reads from its largest table; 0 if that is not known."""
        scans = (part.variant for part in node.walk() if isinstance(part.variant, TableScan))
        return max((self._table(table_key(scan, self.session.db_schema)) for scan in scans), default=0)

    def estimate(self, node: Node) -> float:
        """Return how many rows a node is taken to have: the share of its largest table that its conditions leave."""
        return 1.0 if is_one_row(node) else self.of(node) * self.share(node)

    def share(self, node: Node) -> float:
        """Return the share of the counted rows of its largest table that a node is taken to have: ranges that prune partitions have left others out."""
        return share(node, self._pruning_columns)

    def _pruning_columns(self, scan: TableScan) -> frozenset[str]:
        """Return the columns of a table by whose values its partitions are made."""
        view = self.session.divisible.get(table_key(scan, self.session.db_schema))
        if view is None:
            return frozenset()
        return frozenset(name for name, number in view.ids.items() if number in view.snapshot.partition_sources)

    def _table(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = self._count(name)
        return self._known[name]

    def _count(self, name: str) -> int:
        view = self.session.scanned.get(name)
        if view is None:
            return 0
        return sum(int(counts.sum()) for counts in view.row_counts(read_tables(self.prunings.get(name, ()))))


OTHER_SHARE, _LIST_SHARE = 0.4, 0.1
_RANGES = frozenset({"<", "<=", ">", ">="})
_SHARES: Mapping[str, float] = MappingProxyType({"=": 0.05, **dict.fromkeys(_RANGES, 0.3)})
_GROUPS = 0.3
"""Share of rows that a condition leaves, by its operator, and that an aggregate makes."""


def share(side: Node, pruning_columns: Callable[[TableScan], frozenset[str]] = lambda _: frozenset()) -> float:
    """Return the share of the rows of its largest table that a side is taken to have; ranges of `pruning_columns` count for nothing."""
    left = 1.0
    for node in side.walk():
        match node.variant:
            case TableScan() as scan:
                columns = pruning_columns(scan)
                for condition in map(Expr, scan.filters()):
                    left *= 1.0 if _is_range_of(condition, columns) else _share_of(condition)
            case Filter() as found:
                for condition in conjuncts(Expr(found.predicate())):
                    left *= _share_of(condition)
            case Aggregate():
                left *= _GROUPS
    return left


def _is_range_of(condition: Expr, columns: frozenset[str]) -> bool:
    """Return whether a condition is a range of the values of one of these columns."""
    if condition.variant_name() != "BinaryExpr" or condition.rex_call_operator() not in _RANGES:
        return False
    return any(key is not None and key[1] in columns for key in map(column_key, operands_of(condition)))


def _share_of(condition: Expr) -> float:
    match condition.variant_name():
        case "BinaryExpr" if condition.rex_call_operator() == "OR":
            return min(sum(map(_share_of, operands_of(condition))), 0.9)
        case "BinaryExpr":
            return _SHARES.get(condition.rex_call_operator(), OTHER_SHARE)
        case "InList":
            return _LIST_SHARE
        case "IsNotNull":
            return 0.95
    return OTHER_SHARE


TOO_LARGE, MANY = 2, 20_000
"""Ratio of the left to the right side's rows from which on they are swapped, and fewest rows of the left side for that."""


def small_first(session: QuerySession, root: Node, counts: RowCounts) -> DataFrame | None:
    """Return the query with the smaller sides of its joins on the left; None if nothing changes, or the plan cannot be rebuilt.

    DataFusion keeps the rows of the left side in memory, where it looks up those of the right one; it puts each of them beside all of the
    right side's where nothing else joins them.
    """
    exchanged = frozenset(node for node in root.walk() if _is_wrong(node, counts))
    if not exchanged:
        return None
    session.optimiser.keep_joins()
    try:
        swapped = session.optimiser.run_planning(partial(rebuilt, session.optimiser.datafusion, root, {}, exchanged))
        return None if session.optimiser.misplaces_conditions(swapped) else swapped
    except (Unsupported, SqlError):
        return None


def _is_wrong(node: Node, counts: RowCounts) -> bool:
    if not isinstance(node.variant, Join) or join_type(node.variant) not in BOTH_SIDES:
        return False
    kind = join_type(node.variant)
    if not node.variant.on() and (kind != "Inner" or node.variant.filter() is not None):
        return False
    if node.variant.null_equals_null() or node.outputs is None:
        return False
    left, right = node.inputs
    if kind in {"Right", "Full"} and _has_constants(left):
        return kind == "Right" or not _has_constants(right)
    if kind in {"Left", "Full"} and _has_constants(right):
        return False
    before, after = counts.estimate(left), counts.estimate(right)
    return after > 0 and before > TOO_LARGE * after and before > MANY


def _has_constants(side: Node) -> bool:
    """Return whether DataFusion may know of a column that it is the same in all rows of a side.

    It goes on believing that of a left side whose rows a join fills up with NULL, and neither sorts nor distributes by the column.
    """
    return any(
        isinstance(node.variant, Filter | Values | EmptyRelation)
        or (
            isinstance(node.variant, Projection)
            and any(
                strip_aliases(expression).variant_name() != "Column"
                for expression in expressions(node.variant.projections())
            )
        )
        for node in side.walk()
    )
