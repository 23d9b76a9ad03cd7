"""Division of a query into parts that run by partitions, and the rest that DataFusion runs as it is.

Values are read before the query around them is planned, so that they prune its partitions.

**Keys.** The few keys of one side of a join prune the partitions of the other like an IN, and filter its rows. Only sides are read that
return the same rows whenever they are read, that are filtered, and that have no more rows than the side that they prune. Rows are
filtered where they are many: what reads the keys costs a few milliseconds, and a row that is left out early some ten nanoseconds at
each join above.

**Scalar subqueries.** Only those in comparisons right above the scan of a partitioned table, and only uncorrelated ones: they have one
value, which takes their place.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, LogicalPlan
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
from lance_flight.engine.query.partition_wise import join_order
from lance_flight.engine.query.partition_wise.copartitioning import (
    WORTH,
    Chooser,
    CopartitioningAnalysis,
    GroupedPart,
    Part,
)
from lance_flight.engine.query.partition_wise.join_order import RowCounts, concerns_partitions, share
from lance_flight.engine.query.partition_wise.lanes import admission
from lance_flight.engine.query.plan_rebuilding import rebuilt
from lance_flight.engine.query.runner import shape_batches
from lance_flight.engine.query.search.ordered_scans import Found, ordered_scans, searched_scans
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.provider import JoinedKeys
from lance_flight.engine.sql.references import SYSTEM
from lance_flight.errors import SqlError, Unsupported
from lance_flight.planning.predicates import NEVER, Column, In, Predicate

MOST_KEYS = 10_000


def few_keys(session: QuerySession, keys: DataFrame) -> pa.Array | None:
    """Return the distinct non-NULL values of the only column of `keys`; None if there are too many."""
    # One more than may be: what a limit has cut off is not known, whether NULL is among the rest or not.
    distinct = keys.distinct().limit(MOST_KEYS + 1)
    batches = list(session.stream(distinct))
    distinct_keys = pa.chunked_array(
        [batch.column(0) for batch in batches], distinct.schema().field(0).type
    ).combine_chunks()
    return distinct_keys.drop_null() if len(distinct_keys) <= MOST_KEYS else None


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


_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
_CORRELATED = "outer_ref("
_SUBQUERY = "ScalarSubquery"


def find_scalar_subqueries(session: QuerySession, root: Node) -> list[Node]:
    """Return the filters of partitioned tables whose comparisons with subqueries can be pruned by."""
    if not has_subquery(root) or _CORRELATED in root.plan.display_indent():
        return []
    filters = [node for node in root.walk() if _is_of_partitions(session, node) and any(map(_subquery, _parts(node)))]
    try:
        # Where the plan cannot be rebuilt, nothing is read in vain.
        session.optimiser.run_planning(partial(_with_frames, session, root, dict.fromkeys(filters)))
    except (Unsupported, SqlError):
        return []
    return filters


def with_values(session: QuerySession, root: Node, filters: list[Node]) -> DataFrame:
    """Read the subqueries of some filters, and return the query with their values in their place."""
    conditions = {node: [_evaluate(session, part) for part in _parts(node)] for node in filters}
    return session.optimiser.run_planning(partial(_with_frames, session, root, conditions))


def describe_subquery(node: Node) -> str:
    """Return the conditions of a filter with subqueries, as EXPLAIN shows them."""
    shown = [str(part).removeprefix("Expr(").removesuffix(")") for part in _parts(node) if _subquery(part)]
    return " AND ".join(shown)


def table_of(session: QuerySession, node: Node) -> str:
    """Return the table (`schema.name`) that the rows of a filter come from."""
    (scan,) = [part for part in node.walk() if isinstance(part.variant, TableScan)]
    return table_key(scan.variant, session.db_schema)


def _is_of_partitions(session: QuerySession, node: Node) -> bool:
    """Return whether a node is a filter right above the scan of a partitioned table."""
    if not isinstance(node.variant, Filter):
        return False
    below = node.inputs[0]
    while isinstance(below.variant, Filter | Projection):
        below = below.inputs[0]
    view = (
        session.views.get(table_key(below.variant, session.db_schema)) if isinstance(below.variant, TableScan) else None
    )
    return view is not None and view.snapshot.is_partitioned


def _parts(node: Node) -> list[Expr]:
    """Return the conditions of a filter that all must hold."""
    waiting, parts = [Expr(node.variant.predicate())], []
    while waiting:
        current = waiting.pop()
        if current.variant_name() == "BinaryExpr" and current.rex_call_operator() == "AND":
            waiting += reversed(current.rex_call_operands())
        else:
            parts.append(current)
    return parts


def _subquery(condition: Expr) -> tuple[Expr, str, Expr] | None:
    """Return a comparison with a side that has a subquery and no column, as its other side, the operator and that side."""
    if condition.variant_name() != "BinaryExpr" or condition.rex_call_operator() not in _COMPARISONS:
        return None
    left, right = condition.rex_call_operands()
    for one, other, is_flipped in ((left, right, False), (right, left, True)):
        kinds = set(_variants(other))
        if _SUBQUERY in kinds and "Column" not in kinds and _SUBQUERY not in set(_variants(one)):
            name = condition.rex_call_operator()
            return one, _FLIPPED.get(name, name) if is_flipped else name, other
    return None


_FLIPPED = MappingProxyType({"<": ">", ">": "<", "<=": ">=", ">=": "<="})


def _variants(expression: Expr) -> Iterator[str]:
    name = expression.variant_name()
    yield name
    if name not in {"Column", "Literal", _SUBQUERY}:
        for operand in expression.rex_call_operands():
            yield from _variants(operand)


def _evaluate(session: QuerySession, condition: Expr) -> Expr:
    """Return a condition with the value of its subquery; one without a subquery as it is."""
    compared = _subquery(condition)
    if compared is None:
        return condition
    kept, name, asked = compared
    frame = session.literal_rows("VALUES (1)").select(asked.alias("value"))
    batches = list(session.stream(frame))
    values = pa.chunked_array([batch.column(0) for batch in batches], frame.schema().field(0).type)
    return _COMPARISONS[name](kept, Expr.literal(values[0]))


def _with_frames(session: QuerySession, root: Node, conditions: Mapping[Node, list[Expr] | None]) -> DataFrame:
    """Rebuild a query with other conditions in some filters; None: with those that they have."""
    context, frames = session.optimiser.datafusion, {}
    for node, parts in conditions.items():
        below = context.create_dataframe_from_logical_plan(node.inputs[0].plan)
        frames[node] = below.filter(reduce(operator.and_, _parts(node) if parts is None else parts))
    return rebuilt(context, root, frames)


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
    filters = find_scalar_subqueries(session, root)
    if not filters:
        return (), None
    shown = {node: f"{describe_subquery(node)} of {table_of(session, node)}" for node in filters}
    if not ask:
        return tuple(f"{text}, when it is run" for text in shown.values()), None
    planned = with_values(session, root, filters)
    session.prepare(planned)
    prunings = session.prune(planned)
    notes = []
    for node, text in shown.items():
        left = prunings.get(table_of(session, node), ())
        scanned = sum(pruning.scanned for pruning in left), sum(pruning.total for pruning in left)
        notes.append(f"{text}: {scanned[0]} of {scanned[1]} partitions are left")
    return tuple(notes), planned


def _prune_by_keys(
    session: QuerySession, frame: DataFrame, root: Node, counts: RowCounts, *, ask_keys: bool
) -> tuple[str, ...]:
    """Prune by keys of joins; what that did."""
    notes = []
    for pruning in find_key_prunings(session, root, counts):
        if not ask_keys:
            notes.append(f"{pruning}, when it is run")
            continue
        values = keys(session, pruning)
        if values is None:
            notes.append(f"{pruning}: there are more than {MOST_KEYS}")
            continue
        if pruning.is_compared_alike:
            joined = JoinedKeys(values, len(values) / rows_with_keys(pruning, counts))
            if pruning.scans == 1 or joined.span(pruning.column) is not None:
                session.filter_by(pruning.table, pruning.column, joined)
        if not pruning.is_of_partitions:
            notes.append(f"{pruning}: rows with one of {len(values)} are joined")
            continue
        before = session.prune(frame)[pruning.table][-1].scanned
        session.prune_by(pruning.table, predicate_of(pruning, values))
        session.settle(frame)
        after = session.prune(frame)[pruning.table][-1].scanned
        notes.append(f"{pruning}: {after} of {before} partitions are left")
    return tuple(notes)
