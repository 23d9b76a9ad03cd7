"""Joins that look at pairs of rows, and end with their statement.

DataFusion 55 notices that its rows are given up where its tasks yield: where they read, exchange or spill. Such a join goes through all
pairs of a batch before it reads the next one, and what it is read by goes on as long. So a limit that is never reached
stands above the pairs, which makes each batch an exchange between tasks; and a condition on pairs asks whether the statement goes on, since a
join whose condition nothing passes returns no batch. Both would be moved below the join by rules that have been applied already:
the plan is planned by a context without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
from datafusion import DataFrame, Expr, LogicalPlan, RuntimeEnvBuilder, SessionContext, lit, udf
from datafusion.expr import Aggregate, Join, Projection, SubqueryAlias

from lance_flight.engine.query.partition_wise.plan_rebuilding import can_be_joined, join_frames, rebuilt
from lance_flight.engine.query.partition_wise.plans import BOTH_SIDES, Node, join_type
from lance_flight.engine.query.plan_bounds import JOINING_RULES, OTHER_RULES
from lance_flight.errors import Unsupported

_ALL_ROWS = 1 << 62
_TRUE = lit(pa.scalar(True))
"""As a scalar of Arrow: for one of Python DataFusion looks for a package that is not there."""
_LEAST_LANES = 2
"""Lanes between which batches are exchanged."""
_OTHER_RULES = (OTHER_RULES | JOINING_RULES) - {"extract_equijoin_predicate"}
"""Rules that are applied to a plan already."""
_JOIN, _SUBQUERY, _VALUE = " Join:", "Subquery:", "__scalar_sq_"
_WITHOUT_EQUALITY = re.compile(r"Join:(?: *$|  Filter: )", re.MULTILINE)
_AS_VALUES = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery"


def pair_joins(root: Node) -> list[Node]:
    """Return the joins that may look at many pairs of rows, those within others last."""
    return [node for node in root.walk() if isinstance(node.variant, Join) and _looks_at_pairs(node)]


def _looks_at_pairs(node: Node) -> bool:
    join = node.variant
    if join.on() and not can_be_joined(node):
        return False
    # One that returns rows of one side alone stops at the first pair of each, unless it has a condition.
    returns_pairs = join_type(join) in BOTH_SIDES or join.filter() is not None
    return returns_pairs and not any(map(_is_one_row, node.inputs))


def _has_conditions(node: Node) -> bool:
    return bool(node.variant.on()) or node.variant.filter() is not None


def _is_one_row(node: Node) -> bool:
    if isinstance(node.variant, Aggregate):
        return not node.variant.group_by_exprs()
    return isinstance(node.variant, Projection | SubqueryAlias) and _is_one_row(node.inputs[0])


def has_product(plan: LogicalPlan) -> bool:
    """Return whether an optimised plan, or a subquery of it, may have a join without any equality."""
    return _WITHOUT_EQUALITY.search(plan.display_indent()) is not None


def joined(plan: LogicalPlan, context: SessionContext) -> Node | None:
    """Return the tree of an optimised plan that has joins, with joins in place of subqueries as values too; None for one without.

    `Unsupported` if one of these subqueries may have several rows, which DataFusion refuses as it runs, and a join would repeat.
    """
    text = plan.display_indent()
    if _JOIN not in text:
        return None
    if _SUBQUERY in text:
        config = context.copied_config().set(_AS_VALUES, "false")
        plan = SessionContext(config).create_dataframe_from_logical_plan(plan).optimized_logical_plan()
    root = Node.of(plan)
    for node in root.walk():
        is_value = isinstance(node.variant, SubqueryAlias) and node.variant.alias().startswith(_VALUE)
        if _SUBQUERY in node.said or (is_value and not _is_one_row(node)):
            raise Unsupported(f"{node.said}: a join is within a subquery as a value that may have several rows")
    return root if pair_joins(root) else None


def ending(
    context: SessionContext, runtime: RuntimeEnvBuilder, root: Node, target_partitions: int, check: Callable[[], None]
) -> Callable[[], DataFrame]:
    """Return what makes frames of an optimised plan whose joins end: they call `check`, which raises an error once the statement is over.

    `Unsupported` if it cannot be built again.
    """

    def pass_through(values: pa.Array) -> pa.Array:
        check()
        return values

    goes_on = udf(pass_through, [pa.bool_()], pa.bool_(), "volatile", "__goes_on")(_TRUE)
    pairs = pair_joins(root)
    lanes = target_partitions if all(map(_has_conditions, pairs)) else max(target_partitions, _LEAST_LANES)
    planner = SessionContext(context.copied_config().with_target_partitions(lanes), runtime)
    for rule in _OTHER_RULES:
        planner.remove_optimizer_rule(rule)
    frames: dict[Node, DataFrame] = {}
    for node in reversed(pairs):
        left, right = (rebuilt(planner, side, frames) for side in node.inputs)
        condition = node.variant.filter()
        if _has_conditions(node):
            asked = goes_on if condition is None else goes_on & Expr(condition)
            frames[node] = join_frames(node, left, right, [asked])
        else:
            frames[node] = join_frames(node, left, right, []).limit(_ALL_ROWS)
    plan = rebuilt(planner, root, frames).logical_plan()
    return lambda: planner.create_dataframe_from_logical_plan(plan)  # each is run once
