"""Runs of planned queries: each ends when its statement is cancelled, and has few rows a batch where these are wide.

Joins that look at pairs of rows need help to end with their statement.
DataFusion 55 notices that its rows are given up where its tasks yield: where they read, exchange or spill. Such a join goes through all
pairs of a batch before it reads the next one, and what it is read by goes on as long. So a limit that is never reached
stands above the pairs, which makes each batch an exchange between tasks; and a condition on pairs asks whether the statement goes on, since a
join whose condition nothing passes returns no batch. Both would be moved below the join by rules that have been applied already:
the plan is planned by a context without them.

A plan that cannot be built again (NOT IN, recursive queries, EXISTS beside OR) is planned of another text, in which the conditions ask
(`with_asking_conditions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from datafusion import (
    DataFrame,
    Expr,
    LogicalPlan,
    RecordBatchStream,
    RuntimeEnvBuilder,
    ScalarUDF,
    SessionContext,
    lit,
    udf,
)
from datafusion.expr import Join, SubqueryAlias

from lance_flight.catalog.tables.scan import rows_within
from lance_flight.engine.functions.routines import volatile_functions
from lance_flight.engine.plans.bounds import COLLECTING, JOINING_RULES, OTHER_RULES, check_windows, constant_bytes
from lance_flight.engine.plans.nodes import BOTH_SIDES, Node, is_one_row, join_type
from lance_flight.engine.query.optimiser import Optimiser
from lance_flight.engine.query.plan_rebuilding import can_be_joined, join_frames, rebuilt
from lance_flight.engine.query.tables.provider import Run
from lance_flight.engine.runtime.streams import cancellable
from lance_flight.engine.sql.bounds import Growth
from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.comparisons import Operands
from lance_flight.engine.sql.tokens import Edit, Kind, edit_text, fold_name, tokenize
from lance_flight.errors import QueryFailed, SqlError, Unsupported

_ALL_ROWS = 1 << 62
_TRUE = lit(pa.scalar(True))
"""As a scalar of Arrow: for one of Python DataFusion looks for a package that is not there."""
_LEAST_LANES = 2
"""Lanes between which batches are exchanged."""
_OTHER_RULES = (OTHER_RULES | JOINING_RULES) - {"extract_equijoin_predicate"}
"""Rules that are applied to a plan already."""
_JOIN, _SUBQUERY, _VALUE = " Join:", "Subquery:", "__scalar_sq_"
GOES_ON = "__goes_on"
"""Function in the condition of a join: returns its argument, and raises the error of a statement that is over."""
_WITHOUT_EQUALITY = re.compile(rf"Join:(?: *$|  Filter: (?!.*{GOES_ON}\())", re.MULTILINE)
_OF_PAIRS = re.compile(r"Join:(?: *$|.* Filter: )", re.MULTILINE)
_ENDS_OF_CONDITIONS = frozenset(
    [
        *("GROUP", "ORDER", "HAVING", "QUALIFY", "WINDOW", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT"),
        *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "WHERE"),
    ]
)
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
    return returns_pairs and not any(map(is_one_row, node.inputs))


def _has_conditions(node: Node) -> bool:
    return bool(node.variant.on()) or node.variant.filter() is not None


def has_unprotected_pairs(root: Node) -> bool:
    """Return whether a join that cannot be built again has a condition on pairs."""
    joins = (node for node in root.walk() if isinstance(node.variant, Join) and node.variant.filter() is not None)
    return any(not can_be_joined(node) and GOES_ON not in node.said for node in joins)


def has_pairs(plan: LogicalPlan) -> bool:
    """Return whether an optimised plan may have a join that looks at pairs of rows beyond an equality."""
    return _OF_PAIRS.search(plan.display_indent()) is not None


def has_product(plan: LogicalPlan) -> bool:
    """Return whether an optimised plan, or a subquery of it, may have a join without any equality."""
    return _WITHOUT_EQUALITY.search(plan.display_indent()) is not None


def join_filters(plan: LogicalPlan, context: SessionContext) -> Node | None:
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
    # A correlated one has a row for each of its keys.
    keyed = {
        side for node in root.walk() if isinstance(node.variant, Join) and node.variant.on() for side in node.inputs
    }
    for node in root.walk():
        is_value = isinstance(node.variant, SubqueryAlias) and node.variant.alias().startswith(_VALUE)
        if _SUBQUERY in node.said or (is_value and node not in keyed and not is_one_row(node)):
            raise Unsupported(f"{node.said}: a join is within a subquery as a value that may have several rows")
    return root if pair_joins(root) or has_unprotected_pairs(root) else None


def ending(
    context: SessionContext, runtime: RuntimeEnvBuilder, root: Node, target_partitions: int, check: Callable[[], None]
) -> Callable[[], DataFrame]:
    """Return what makes frames of an optimised plan whose joins end: they call `check`, which raises an error once the statement is over.

    `Unsupported` if it cannot be built again.
    """
    goes_on = _asking(check, "volatile")(_TRUE)
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


def with_asking_conditions(
    context: SessionContext, text: str, check: Callable[[], None], *, equalities: bool = True
) -> str:
    """Return a query whose conditions of WHERE and ON, or those without an equality, call `check` for each batch of pairs that they are about."""
    context.register_udf(_asking(check, "immutable"))
    tokens = tokenize(text)
    operands = Operands(tokens)
    edits: list[Edit] = []
    for at, token in enumerate(tokens):
        is_condition = token.word in {"WHERE", "ON"} and not operands.is_name(at)
        if is_condition and tokens[at - 1].word != "DISTINCT" and operands.word_at(at - 2) != "FILTER":
            for start, stop in _parts(operands, at + 1):
                is_wanted = equalities or not any(operands.is_sign(place, "=") for place in range(start, stop))
                if is_wanted and _may_be_asked_twice(operands, start, stop):
                    first, last = tokens[start].start, tokens[stop - 1].stop
                    edits += [(first, first, f"{GOES_ON}({text[first:last]}) AND ("), (last, last, ")")]
    return edit_text(text, edits)


def _asking(check: Callable[[], None], volatility: str) -> ScalarUDF:
    def pass_through(values: pa.Array) -> pa.Array:
        check()
        return values

    return udf(pass_through, [pa.bool_()], pa.bool_(), volatility, GOES_ON)


def _parts(operands: Operands, start: int) -> list[tuple[int, int]]:
    """Return the places of the operands of AND in the condition that begins at a token; the whole of one that has OR."""
    parts, at, begun, has_or = list[tuple[int, int]](), start, start, False
    while True:
        at = operands.right(at)
        word = operands.word_at(at) if at < len(operands.tokens) else ""
        if word == "AND":
            parts.append((begun, at))
            begun = at + 1
        elif not word or word in _ENDS_OF_CONDITIONS:
            parts.append((begun, at))
            return [(start, at)] if has_or else parts
        has_or |= word == "OR"
        at += 1


def _may_be_asked_twice(operands: Operands, start: int, stop: int) -> bool:
    """Return whether a condition names several columns, no subquery, and nothing whose value changes."""
    inside = range(start, stop)
    words = [fold_name(operands.tokens[at]) for at in inside if operands.tokens[at].kind in {Kind.WORD, Kind.NAME}]
    has_query = any(operands.word_at(at) in QUERIES and not operands.is_name(at) for at in inside)
    return len(words) > 1 and not has_query and volatile_functions().isdisjoint(words)


_WIDEST_BATCH, _USUAL_TEXT = 16 << 20, 128
"""Bytes of a batch as far as the text of a statement tells, and those of a text in a column that it reads."""
COLLECTED_ROWS = 64
"""Rows of a batch where each may have a copy of all that an aggregate has collected."""
SMALL_BATCH_ROWS = 256
"""Rows of a batch of every pair of rows that cannot be ended before its end."""
_COPYING = re.compile(r"\b(?:Join|WindowAggr|Subquery|Unnest)\b")
_JOINING = re.compile(r"\bJoin|<subquery>")


class QueryRunner:
    """Begins the queries that an optimiser has planned, for the statement that runs."""

    def __init__(self, optimiser: Optimiser, run: Run) -> None:
        self._optimiser, self._run = optimiser, run
        self._ended: tuple[tuple[Node, int, int], Callable[[], DataFrame]] | None = None

    def stream(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a planned query; its batches have DataFusion's schema."""
        self.check_windows(frame)
        # It is planned physically first: what DataFusion refuses then is no failure of the run.
        yield from self.stream_begun(partial(self.start, frame))

    def stream_begun(self, begin: Callable[[], Sequence[RecordBatchStream]]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the streams that `begin` returns, which keeps no reference to them."""
        with self._optimiser.errors.raised_as(QueryFailed):
            yield from cancellable(begin, self._run.log.cancellation, self._run.log.ahead)

    def collect(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a short query at once, in a quarter of the time of streaming it; it cannot be cancelled."""
        with self._optimiser.errors.raised_as(QueryFailed):
            yield from frame.collect()

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a query that runs without DataFusion."""
        with self._optimiser.errors.raised_as(QueryFailed):
            yield from batches

    def check_windows(self, frame: DataFrame) -> None:
        """Refuse window functions that would hold too many rows; some are counted first."""
        with self._optimiser.errors.raised_as(QueryFailed):
            check_windows(
                frame.logical_plan(),
                self._optimiser.datafusion.create_dataframe_from_logical_plan,
                lambda counting: cancellable(counting.execute_stream_partitioned, self._run.log.cancellation),
            )

    def narrow_batches(self, growth: Growth, parameters: pa.RecordBatch | None = None) -> None:
        """Plan from here on in batches of few rows where the text and its parameters alone make rows wide: each row has a copy of a literal."""
        longest = max(
            [growth.longest, *(column.nbytes for column in ([] if parameters is None else parameters.columns))]
        )
        width = growth.copies * max(longest, _USUAL_TEXT)
        self._optimiser.narrow_batches(max(1, _WIDEST_BATCH // width))

    def start(self, frame: DataFrame, target_partitions: int | None = None) -> Sequence[RecordBatchStream]:
        """Begin a query so that it ends when it is cancelled, in batches of few rows where these are wide: operators make as many as the session says.

        A portion of a query, which is made of an optimised plan, has its own `target_partitions`.
        """
        optimiser = self._optimiser
        rows = rows_within(frame.schema(), optimiser.batch_rows)
        plan = frame.logical_plan()
        if _copies_collected_values(plan):
            rows = min(rows, COLLECTED_ROWS)
        is_whole = target_partitions is None
        constants = optimiser.learn_from_plan(frame, constant_bytes) if is_whole else constant_bytes(plan)
        rows = min(rows, max(1, _WIDEST_BATCH // max(1, constants)))
        # A merge join with a condition reads wrong columns.
        if not optimiser.has_merge_joins and _JOINING.search(plan.display_indent()) is not None:
            try:
                root = self._join_tree(frame)
                if root is not None:
                    return self._start_planned(
                        rows, lambda: self._ending(root, target_partitions or optimiser.target_partitions)
                    )
            except (SqlError, Unsupported):
                if optimiser.learn_from_plan(frame, has_product):
                    rows = min(rows, SMALL_BATCH_ROWS)
        if rows == optimiser.batch_rows:
            return self._start_planned(rows, lambda: frame)
        return self._start_planned(rows, lambda: optimiser.datafusion.create_dataframe_from_logical_plan(plan))

    def is_endless(self, frame: DataFrame) -> bool:
        """Return whether joins of a query go on for long when their statement is over."""
        if _JOINING.search(self._optimiser.text_of(frame)) is None:
            return False
        try:
            root = self._join_tree(frame)
            if root is not None:
                self._ending(root, self._optimiser.target_partitions)
        except (SqlError, Unsupported):
            return True
        return root is not None and has_unprotected_pairs(root)

    def _join_tree(self, frame: DataFrame) -> Node | None:
        """Return the tree of a query that has joins, with joins in place of its subqueries; `SqlError` if DataFusion has none."""
        with self._optimiser.errors.raised_as(SqlError):
            return self._optimiser.learn_from_plan(frame, join_filters, self._optimiser.datafusion)

    def _ending(self, root: Node, target_partitions: int) -> DataFrame:
        """Return a query whose joins end with the statement that runs; the last one is kept, since a query is asked for it twice."""
        optimiser = self._optimiser
        key = root, target_partitions, optimiser.batch_rows
        if self._ended is None or self._ended[0] != key:
            plan = partial(
                ending,
                optimiser.datafusion,
                optimiser.runtime,
                root,
                target_partitions,
                self._run.check,
            )
            self._ended = key, optimiser.run_planning(plan)
        return self._ended[1]()

    def _start_planned(self, rows: int, plan: Callable[[], DataFrame]) -> Sequence[RecordBatchStream]:
        """Begin a query that is planned anew, in batches of so many rows."""

        def execute() -> Sequence[RecordBatchStream]:
            frame = plan()
            streams: Sequence[RecordBatchStream] = frame.execute_stream_partitioned()
            for measured in self._run.log.measured:
                # It is the plan that runs: its operators count what they do.
                measured.add(frame.execution_plan())
            return streams

        with self._optimiser.in_batches(rows):
            return self._optimiser.run_planning(execute)


def _copies_collected_values(plan: LogicalPlan) -> bool:
    """Return whether a plan may write what an aggregate has collected beside each row of another relation."""
    text = plan.display_indent()
    return bool(COLLECTING.search(text) and _COPYING.search(text))


def shape_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same batches with exactly `schema`, with their columns matched by position.

    A column may change the form of its values (views, dictionaries), never a value: a cast of other types would lose some.
    """
    for batch in batches:
        for column, field in zip(batch.columns, schema, strict=True):
            if not _has_values_of(column.type, field.type):
                raise TypeError(f"column {field.name!r} has rows of {column.type}; expected {field.type}, as planned")
        columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _has_values_of(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether two types hold the same values, in whatever form."""
    if stored == wanted or pa.types.is_null(stored):
        return True
    if pa.types.is_dictionary(stored):
        return _has_values_of(stored.value_type, wanted)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        return bool(stored.scale == wanted.scale and stored.precision <= wanted.precision)
    for kinds in _FORMS:
        if any(is_kind(stored) for is_kind in kinds):
            return (
                any(is_kind(wanted) for is_kind in kinds)
                and stored.num_fields == wanted.num_fields
                and all(map(_has_values_of, _types_within(stored), _types_within(wanted)))
            )
    return False


_FORMS = (
    (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view),
    (pa.types.is_struct,),
    (pa.types.is_map,),
)
"""Kinds of types that hold the same values."""


def _types_within(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(place).type for place in range(kind.num_fields)]
