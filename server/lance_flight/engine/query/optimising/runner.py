"""Runs of planned queries: each ends when its statement is cancelled, and has few rows a batch where these are wide."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, RecordBatchStream

from lance_flight.catalog.tables.scan import rows_within
from lance_flight.engine.plans.bounds import COLLECTING, check_windows, constant_bytes
from lance_flight.engine.plans.nodes import Node
from lance_flight.engine.query.optimising.optimiser import Optimiser
from lance_flight.engine.query.optimising.products import ending, has_product, has_unprotected_pairs, join_filters
from lance_flight.engine.query.tables.provider import Run
from lance_flight.engine.runtime.streams import cancellable
from lance_flight.engine.sql.growth import Growth
from lance_flight.errors import QueryFailed, SqlError, Unsupported

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
