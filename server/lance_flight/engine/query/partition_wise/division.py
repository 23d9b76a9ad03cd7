"""Division of a query into parts that run by partitions, and the rest that DataFusion runs as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan
from datafusion.expr import Join

from lance_flight.engine.plans.nodes import Node
from lance_flight.engine.query.optimising.plan_rebuilding import rebuilt
from lance_flight.engine.query.optimising.runner import shape_batches
from lance_flight.engine.query.partition_wise import join_order, key_pruning
from lance_flight.engine.query.partition_wise.aggregates import concerns_partitions
from lance_flight.engine.query.partition_wise.copartitioning import (
    WORTH,
    Chooser,
    CopartitioningAnalysis,
    GroupedPart,
    Part,
)
from lance_flight.engine.query.partition_wise.join_order import RowCounts
from lance_flight.engine.query.partition_wise.key_pruning import MOST_KEYS
from lance_flight.engine.query.partition_wise.lanes import admission
from lance_flight.engine.query.search.ordered_scans import Found, ordered_scans, searched_scans
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.provider import JoinedKeys
from lance_flight.errors import SqlError, Unsupported

ADMISSION_SECONDS = 5.0
_OFF = "SET partition_wise_join = 'off' keeps this session from it"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """Execution plan of a query: the parts that run by partitions, and the reasons why other parts do not.

    `whole` is the query itself, and `outer` its rest over the rows of its parts: None if the only part is
    all of it. `pruned` describes the pruning by keys of joins, `unsearched` why rows are sorted by a distance without a search.
    """

    session: QuerySession
    whole: DataFrame
    outer: DataFrame | None = None
    parts: tuple[Part, ...] = ()
    obstacles: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()

    @property
    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield the titles and texts that EXPLAIN shows of the division."""
        for note in self.unsearched:
            yield "search", note
        for note in self.pruned:
            yield "dynamic pruning", note
        for part in self.parts:
            yield ("groups" if isinstance(part, GroupedPart) else "metadata"), str(part)
        if self.obstacles and not any(isinstance(part, GroupedPart) for part in self.parts):
            yield "groups", "\n  ".join(["groups: none", *self.obstacles])
        elif self.obstacles:
            yield "groups", "\n  ".join(["not in groups:", *self.obstacles])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the query; its columns are in their positions, under arbitrary names."""
        if not self.parts:
            return self.session.stream(self.whole)
        (first, *_) = self.parts
        if self.outer is None and isinstance(first, GroupedPart):
            return first.batches()
        return self._above(self.outer or self.whole)

    def _above(self, outer: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run the plan above the parts, or the whole query if too many of DataFusion's workers already wait for lanes."""
        with admission.of(len(self.parts), ADMISSION_SECONDS) as is_admitted:
            yield from self.session.stream(outer if is_admitted else self.whole)


def rows(session: QuerySession, frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Run a prepared query and yield its rows in exactly `schema`."""
    return shape_batches(divide(session, frame).batches(), schema)


def divide(session: QuerySession, frame: DataFrame, *, ask_keys: bool = True, is_told: bool = False) -> Division:
    """Find how to run a query: which of its scans are searched by vectors, and how the rest is divided.

    With `ask_keys` the keys of small sides of joins are read now, to prune the others. With `is_told` every node records
    why it does not run in groups; else nodes that do not concern partitions are skipped, which costs less.
    """
    shape = session.optimiser.learn_from_plan(frame, _shape)
    notes: tuple[str, ...] = ()
    if session.execution.dynamic_pruning and session.share.of == 1:
        notes, planned = _prune_by_subqueries(session, frame, shape.root, ask=ask_keys)
        if planned is not None:
            return replace(divide(session, planned, ask_keys=ask_keys, is_told=is_told), pruned=notes)
    unsearched: tuple[str, ...] = ()
    if shape.ordered and session.share.of == 1:
        planned, unsearched = searched_scans(session, shape.root, shape.ordered, ask=ask_keys)
        if planned is not None:
            session.prepare(planned)
            frame, shape = planned, session.optimiser.learn_from_plan(planned, _shape)
    division = _divide(session, frame, shape, ask_keys=ask_keys, is_told=is_told)
    return replace(division, pruned=notes + division.pruned, unsearched=unsearched)


def _divide(session: QuerySession, frame: DataFrame, shape: _Shape, *, ask_keys: bool, is_told: bool) -> Division:
    root = shape.root
    # A merge join reads wrong columns in a further condition, which another order may give it.
    if session.share.of == 1 and shape.joins and not session.optimiser.has_merge_joins:
        ordered = join_order.reorder_joins(session, root, shape.joins, RowCounts(session, session.prune(frame)))
        if ordered is not None:
            frame, shape = ordered, session.optimiser.learn_from_plan(ordered, _shape)
            root = shape.root
    concerns = any(is_told or concerns_partitions(session, node) for node in shape.worth)
    if session.share.of > 1 or not (concerns or any(isinstance(node.variant, Join) for node in shape.worth)):
        return Division(session=session, whole=frame)
    counts = RowCounts(session, session.prune(frame))
    pruned: tuple[str, ...] = ()
    if session.execution.dynamic_pruning:
        pruned = _prune_by_keys(session, frame, root, counts, ask_keys=ask_keys)
    swapped = join_order.small_first(session, root, counts)
    if swapped is not None:
        frame, root = swapped, Node.of(session.optimiser.optimise(swapped))
    if not concerns:
        return Division(session=session, whole=frame, pruned=pruned)
    if not session.execution.partition_wise_join:
        return Division(session=session, whole=frame, obstacles=(_OFF,), pruned=pruned)
    divider = CopartitioningAnalysis({name: view.schema for name, view in session.divisible.items()}, session.db_schema)
    parts = tuple(Chooser(session, session.prune(frame), divider).choose(root))
    try:
        outer = (
            None
            if not parts or _is_all(parts, root)
            else session.optimiser.run_planning(partial(_outer, session, root, parts))
        )
    except (Unsupported, SqlError) as exc:
        return Division(session=session, whole=frame, obstacles=(*divider.obstacles(()), str(exc)), pruned=pruned)
    return Division(
        session=session,
        whole=frame,
        outer=outer,
        parts=parts,
        obstacles=divider.obstacles(part.node for part in parts),
        pruned=pruned,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Summary of a plan: the nodes that may be worth running by partitions, and its sorts by a distance."""

    root: Node
    worth: tuple[Node, ...]
    ordered: tuple[Found, ...]
    joins: tuple[join_order.JoinTree, ...]


def _shape(plan: LogicalPlan) -> _Shape:
    root = Node.of(plan)
    return _Shape(
        root,
        tuple(node for node in root.walk() if isinstance(node.variant, WORTH)),
        tuple(ordered_scans(root)),
        tuple(join_order.join_trees(root)),
    )


def _is_all(parts: tuple[Part, ...], root: Node) -> bool:
    return parts[0].node is root and isinstance(parts[0], GroupedPart) and not parts[0].is_partial


def _outer(session: QuerySession, root: Node, parts: tuple[Part, ...]) -> DataFrame:
    """Return what is left of a query."""
    session.optimiser.keep_joins()
    replaced = {}
    # Rows in an order stay so on their way through one lane alone.
    is_ordered = any(isinstance(part, GroupedPart) and part.is_ordered for part in parts)
    if is_ordered and session.optimiser.has_merge_joins:
        raise Unsupported("its joins are merge joins, which one lane has none of")
    target_partitions = 1 if is_ordered else session.optimiser.target_partitions
    with session.optimiser.lanes(target_partitions):
        for part in parts:
            if part.node.outputs is None:
                raise Unsupported(f"{part.node.said}: its columns have no names of their own")
            replaced[part.node] = part.frame(part.node.outputs)
        return rebuilt(session.optimiser.datafusion, root, replaced)


def _prune_by_subqueries(
    session: QuerySession, frame: DataFrame, root: Node, *, ask: bool
) -> tuple[tuple[str, ...], DataFrame | None]:
    """Read the scalar subqueries that prune; return what that did, and the query with their values."""
    filters = key_pruning.find_scalar_subqueries(session, root)
    if not filters:
        return (), None
    shown = {
        node: f"{key_pruning.describe_subquery(node)} of {key_pruning.table_of(session, node)}" for node in filters
    }
    if not ask:
        return tuple(f"{text}, when it is run" for text in shown.values()), None
    planned = key_pruning.with_values(session, root, filters)
    session.prepare(planned)
    prunings = session.prune(planned)
    notes = []
    for node, text in shown.items():
        left = prunings.get(key_pruning.table_of(session, node), ())
        scanned = sum(pruning.scanned for pruning in left), sum(pruning.total for pruning in left)
        notes.append(f"{text}: {scanned[0]} of {scanned[1]} partitions are left")
    return tuple(notes), planned


def _prune_by_keys(
    session: QuerySession, frame: DataFrame, root: Node, counts: RowCounts, *, ask_keys: bool
) -> tuple[str, ...]:
    """Prune by keys of joins; what that did."""
    notes = []
    for pruning in key_pruning.find_key_prunings(session, root, counts):
        if not ask_keys:
            notes.append(f"{pruning}, when it is run")
            continue
        values = key_pruning.keys(session, pruning)
        if values is None:
            notes.append(f"{pruning}: there are more than {MOST_KEYS}")
            continue
        if pruning.is_compared_alike:
            joined = JoinedKeys(values, len(values) / key_pruning.rows_with_keys(pruning, counts))
            if pruning.scans == 1 or joined.span(pruning.column) is not None:
                session.filter_by(pruning.table, pruning.column, joined)
        if not pruning.is_of_partitions:
            notes.append(f"{pruning}: rows with one of {len(values)} are joined")
            continue
        before = session.prune(frame)[pruning.table][-1].scanned
        session.prune_by(pruning.table, key_pruning.predicate_of(pruning, values))
        session.settle(frame)
        after = session.prune(frame)[pruning.table][-1].scanned
        notes.append(f"{pruning}: {after} of {before} partitions are left")
    return tuple(notes)
