"""Dynamic pruning: the few keys of one side of a join prune the partitions of the other, and filter its rows.

The keys are read before the join is planned, and prune like an IN. Only sides are read that return the same rows whenever
they are read, that are filtered, and that have no more rows than the side that they prune. Rows are filtered where they are many:
what reads the keys costs a few milliseconds, and a row that is left out early some ten nanoseconds at each join above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from datafusion import DataFrame, Expr
from datafusion.expr import Aggregate, Filter, Join, Projection, RecursiveQuery, SubqueryAlias, TableScan

from lance_flight.engine.functions.routines import volatile_functions
from lance_flight.engine.plans.nodes import (
    Node,
    column_key,
    has_subquery,
    is_null_aware,
    join_type,
    origin,
    table_key,
)
from lance_flight.engine.query.partition_wise.statistics import RowCounts, share
from lance_flight.engine.query.planning.few_keys import MOST_KEYS, few_keys
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.sql.activity import SYSTEM
from lance_flight.planning.predicates import NEVER, Column, In, Predicate

_MANY, _FEWER, _SHARE = 200_000, 16, 0.3
"""Fewest rows that are filtered by keys, how many times fewer the other side reads, and the share of that which its conditions may leave."""
_SIDES = 2
"""Most sides whose keys are read to filter the rows of one table: each is a query of its own."""
_STEADY = (TableScan, Filter, Projection, SubqueryAlias, Join, Aggregate)

# For each side of a join, the types in which its rows without a match count for nothing.
_LEFT_NEEDS_MATCH = frozenset({"Inner", "Right", "LeftSemi", "RightSemi", "RightAnti"})
_RIGHT_NEEDS_MATCH = frozenset({"Inner", "Left", "LeftSemi", "RightSemi", "LeftAnti"})


@dataclass(frozen=True, slots=True, eq=False)
class KeySide:
    """One side of a join: the values of `expression` in the rows of `keys` are those that rows of `scan` may have in `column`."""

    scan: Node
    column: str
    keys: Node
    expression: Expr

    def values(self, session: QuerySession) -> DataFrame:
        """Return the query of the values, in a column `key`."""
        frame = session.optimiser.datafusion.create_dataframe_from_logical_plan(self.keys.plan)
        return frame.select(self.expression.alias("key"))


@dataclass(frozen=True, slots=True, eq=False)
class KeyPruning:
    """Equalities of joins, one for each of the `scans` of `table` (`schema.name`): the values of all `sides` filter its rows.

    Copies of a WITH query have the same values, and are one side. They prune its partitions where it `is_of_partitions`, and filter its rows where Arrow finds values of its type in a list just as a
    join does (`is_compared_alike`).
    """

    table: str
    column: str
    sides: tuple[KeySide, ...]
    scans: int
    is_of_partitions: bool
    is_compared_alike: bool

    def __str__(self) -> str:
        names = dict.fromkeys(side.expression.schema_name() for side in self.sides)
        if len(names) > 1:  # of several scans: which alias each has says little
            names = dict.fromkeys(name.rpartition(".")[2] for name in names)
        return f"{Column(self.column)} of {self.table.partition('.')[2]} by the keys {', '.join(names)}"


def find_key_prunings(session: QuerySession, root: Node, counts: RowCounts) -> list[KeyPruning]:
    """Return what can be pruned so in a plan: of a table that is scanned more than once, what each of its scans may leave out."""
    # DataFusion fails at a limit over the distinct rows of merge joins.
    if session.optimiser.has_merge_joins or has_subquery(root):
        return []
    scans = Counter(
        table_key(node.variant, session.db_schema) for node in root.walk() if isinstance(node.variant, TableScan)
    )
    sides: dict[tuple[str, str], dict[Node, list[KeySide]]] = {}
    for node in _run_once(root):
        for side in _of_join(session, node) if isinstance(node.variant, Join) else ():
            table = table_key(side.scan.variant, session.db_schema)
            sides.setdefault((table, side.column), {}).setdefault(side.scan, []).append(side)
    prunings = [
        KeyPruning(table, column, _distinct(session, together), scans[table], *uses)
        for (table, column), of_scans in sides.items()
        if len(of_scans) == scans[table] and any(uses := _uses(session, table, column))
        for together in zip(*of_scans.values(), strict=False)
    ]
    return [pruning for pruning in prunings if _is_worth(pruning, counts)]


def _distinct(session: QuerySession, sides: tuple[KeySide, ...]) -> tuple[KeySide, ...]:
    """Return one of all sides with the same plan: the text of a plan may be the same for another one, by what stands in a literal."""
    first, *others = sides
    key_sides, plans = [first], [first.values(session).logical_plan()] if others else []
    for side in others:
        plan = side.values(session).logical_plan()
        if plan not in plans:
            key_sides.append(side)
            plans.append(plan)
    return tuple(key_sides)


def _run_once(node: Node) -> Iterator[Node]:
    """Yield a node and those below it, but those of recursive queries: what a step of one has found is read within it alone."""
    if not isinstance(node.variant, RecursiveQuery):
        yield node
        for child in node.inputs:
            yield from _run_once(child)


def _is_worth(pruning: KeyPruning, counts: RowCounts) -> bool:
    rows = counts.of(pruning.sides[0].scan)
    if pruning.is_of_partitions:
        return all(counts.of(side.keys) <= rows for side in pruning.sides)
    return (
        rows >= _MANY
        and len(pruning.sides) <= _SIDES
        and all(
            counts.of(side.keys) * _FEWER <= rows
            and counts.estimate(side.keys) <= MOST_KEYS
            and share(side.keys) <= _SHARE
            for side in pruning.sides
        )
    )


def rows_with_keys(pruning: KeyPruning, counts: RowCounts) -> int:
    """Return how many rows the sides read that have the keys."""
    return max(sum(counts.of(side.keys) for side in pruning.sides), 1)


def keys(session: QuerySession, pruning: KeyPruning) -> pa.Array | None:
    """Return the keys, none of them NULL, in the type of the column that they prune; None where they are too many, of another kind, or not read rightly."""
    kind = session.scanned[pruning.table].schema.field(pruning.column).type
    keys: list[pa.Array] = []
    for side in pruning.sides:
        frame = side.values(session)
        values = None if session.optimiser.misplaces_conditions(frame) else few_keys(session, frame)
        if values is None:
            return None
        try:
            keys.append(values.cast(kind))
        except pa.ArrowInvalid:
            return None
    together = keys[0] if len(keys) == 1 else pa.concat_arrays(keys).unique()
    return together if len(together) <= MOST_KEYS else None


def predicate_of(pruning: KeyPruning, values: pa.Array) -> Predicate:
    """Return what the keys say of the rows that they prune."""
    return In(Column(pruning.column), values) if len(values) else NEVER


def _of_join(session: QuerySession, node: Node) -> Iterator[KeySide]:
    join = node.variant
    if join.null_equals_null() or is_null_aware(node):
        return
    kind, (left, right) = join_type(join), node.inputs
    for on_left, on_right in join.on():
        if kind in _LEFT_NEEDS_MATCH:
            yield from _of_side(session, left, Expr(on_left), right, Expr(on_right))
        if kind in _RIGHT_NEEDS_MATCH:
            yield from _of_side(session, right, Expr(on_right), left, Expr(on_left))


def _of_side(session: QuerySession, side: Node, mine: Expr, other: Node, theirs: Expr) -> Iterator[KeySide]:
    column = column_key(mine)
    source = None if column is None else origin(side, column)
    if source is None:
        return
    table = table_key(source.scan.variant, session.db_schema)
    view = session.scanned.get(table)
    if view is None or source.name not in view.ids or not _is_steady(session, other, theirs) or not _is_filtered(other):
        return
    yield KeySide(source.scan, source.name, other, theirs)


def _uses(session: QuerySession, table: str, column: str) -> tuple[bool, bool]:
    """Return whether keys of a column prune partitions, and whether they filter rows as a join does."""
    view = session.scanned[table]
    kind = view.schema.field(column).type
    is_of_partitions = table in session.divisible and view.ids[column] in view.snapshot.partition_sources
    return is_of_partitions, pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind)


def _is_steady(session: QuerySession, node: Node, key: Expr) -> bool:
    """Return whether a part returns the same rows, and the same key of each, whenever it is read."""
    texts = [key.canonical_name(), *(part.said for part in node.walk())]
    return not any(f"{name}(" in text for name in volatile_functions() for text in texts) and all(
        isinstance(part.variant, _STEADY)
        and not (isinstance(part.variant, TableScan) and _may_change(session, part.variant))
        and not (isinstance(part.variant, Aggregate) and part.variant.aggregate_exprs())
        for part in node.walk()
    )


def _may_change(session: QuerySession, scan: TableScan) -> bool:
    """Return whether a scan may have other rows at each read: one of a system table, or with a limit."""
    return scan.fetch() is not None or table_key(scan, session.db_schema).startswith(f"{SYSTEM}.")


def _is_filtered(node: Node) -> bool:
    return any(
        isinstance(part.variant, Filter) or (isinstance(part.variant, TableScan) and part.variant.filters())
        for part in node.walk()
    )
