"""Choice and execution of the parts of a plan that run by partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa
from datafusion import DataFrame, Expr
from datafusion.expr import Aggregate, Sort

from lance_flight.engine.plans.nodes import ColumnReference, Node, column_key, has_subquery
from lance_flight.engine.query.optimising.plan_rebuilding import compute_part, name_columns, number_columns
from lance_flight.engine.query.partition_wise import lanes
from lance_flight.engine.query.partition_wise.aggregates import MetadataPart, from_metadata, is_mergeable, merge_groups
from lance_flight.engine.query.partition_wise.copartitioning import WORTH, CopartitioningAnalysis, Divisible, Key
from lance_flight.engine.query.partition_wise.lanes import Task, run
from lance_flight.engine.query.partition_wise.statistics import read_tables
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.tables.table_view import Prunings, TableView, side_of
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import LanceFlightError
from lance_flight.model.schema import Path
from lance_flight.planning.joins import Group, Groups, NotCopartitioned, Side, in_order, match

SHOWN_GROUPS = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedPart:
    """Part that runs group by group, on several lanes; one of its `steps` may hold several groups.

    One whose rows are in the order of the groups runs them one by one, until it has `fetch` rows. The rows of a partial
    one are aggregated once more.
    """

    session: QuerySession
    part: Divisible
    views: tuple[TableView, ...]
    groups: Groups
    steps: tuple[Group, ...]
    is_ordered: bool = False
    fetch: int | None = None
    is_partial: bool = False

    def __str__(self) -> str:
        count = len(self.groups.groups)
        lines = [f"groups: {count}  by {', '.join(self.groups.by)}: {self.part.does}"]
        if self.is_ordered:
            lines[0] += "; in this order" + (f" until there are {self.fetch} rows" if self.fetch is not None else "")
        if self.is_partial:
            lines[0] += "; the aggregates of the groups are put together"
        if len(self.steps) < count:
            lines[0] += f"; small ones together, in {len(self.steps)} {'step' if len(self.steps) == 1 else 'steps'}"
        lines += [f"  {self._describe(group)}" for group in self.groups.groups[:SHOWN_GROUPS]]
        if count > SHOWN_GROUPS:
            lines.append(f"  and {count - SHOWN_GROUPS} more")
        return "\n".join(lines)

    @property
    def node(self) -> Node:
        """Return the node of the plan that this part replaces."""
        return self.part.node

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the part and yield its rows, with the columns in their positions."""
        return self._run(self._frame())

    def frame(self, columns: list[ColumnReference]) -> DataFrame:
        """Its rows for a plan above it, with its columns called so."""
        context, frame = self.session.optimiser.datafusion, self._frame()
        rows = compute_part(number_columns(frame.schema()), partial(self._run, frame))
        return (
            merge_groups(context, self.node, rows, columns)
            if self.is_partial
            else name_columns(context, context.read_table(rows), columns)
        )

    def _describe(self, group: Group) -> str:
        counts = [sum(map(len, rows)) for rows in group.rows]
        tables = [
            f"{view.name} {count} {'table' if count == 1 else 'tables'}"
            for view, count in zip(self.views, counts, strict=True)
        ]
        return f"{', '.join('NULL' if v is None else str(v) for v in group.values)}: {', '.join(tables)}"

    @property
    def _ways(self) -> int:
        """Return the target partitions of each group's plan: all for an ordered part, and for merge joins, which one has none of; else one."""
        return (
            self.session.optimiser.target_partitions if self.is_ordered or self.session.optimiser.has_merge_joins else 1
        )

    def _frame(self) -> DataFrame:
        return self.session.optimiser.frame_of(self.node.plan, self._ways)

    def _run(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all groups; each group is planned when a lane takes it."""
        tables = [scan.table for scan in self.part.scans]
        portions = [dict(zip(tables, step.rows, strict=True)) for step in self.steps]
        tasks: list[Task] = [partial(self.session.stream_portion, frame, portion, self._ways) for portion in portions]
        if self.is_ordered:
            in_turn = (batch for task in tasks for batch in task())
            tasks = [lambda: _first(self.fetch, in_turn)]
        try:
            lanes = 1 if self.is_ordered else self.session.optimiser.target_partitions
            yield from run(tasks, lanes, self.session.log.ahead)
        except LanceFlightError as exc:
            # It is DataFusion that reads the rows of a part below others, and tells of an error in words alone.
            self.session.log.error = exc
            raise


Part: TypeAlias = GroupedPart | MetadataPart
Matching: TypeAlias = tuple[tuple[str, ...], tuple[tuple[tuple[Path, ...], frozenset[str] | None], ...], bool]
"""Cache key of the groups of a part: its tables, the columns of its keys, and whether all its joins are inner."""


class Chooser:
    """Chooses the largest parts of a plan whose scans leave some partitions."""

    def __init__(self, session: QuerySession, prunings: Prunings, divider: CopartitioningAnalysis) -> None:
        self._session = session
        self._prunings = prunings
        self._divider = divider
        self._matched: dict[Matching, Groups | NotCopartitioned] = {}

    def choose(self, node: Node) -> Iterator[Part]:
        """Yield the parts in and below a node."""
        parts = (
            self._metadata_part(node)
            or self._ordered_part(node)
            or self._grouped_part(node)
            or self._partial_part(node)
        )
        if parts is not None:
            yield parts
            return
        for child in node.inputs:
            yield from self.choose(child)

    def _metadata_part(self, node: Node) -> MetadataPart | None:
        """Return the part that answers an aggregate from metadata, looking through nodes with a single input."""
        while len(node.inputs) == 1 and not isinstance(node.variant, Aggregate):
            (node,) = node.inputs
        return from_metadata(self._session, self._prunings, node)

    def _grouped_part(self, node: Node) -> GroupedPart | None:
        part = self._divider.part(node)
        if part is None or not part.is_worth or not self._is_whole(part):
            return None
        part = _agreeing(part)
        views = tuple(self._session.divisible[scan.table] for scan in part.scans)
        if not part.keys:
            return self._none(node, "a table is read more than once, by other columns each time")
        matched = self._match(part, views)
        if isinstance(matched, NotCopartitioned):
            return self._none(node, matched.why)
        groups = [group for group in matched.groups if part.has_rows([any(map(len, rows)) for rows in group.rows])]
        if len(matched.groups) == 1 and groups:
            return self._none(node, f"all rows are in one group by {', '.join(matched.by)}")
        together = lanes.join_groups(groups, views, self._session.execution.group_rows)
        return GroupedPart(
            session=self._session, part=part, views=views, groups=Groups(matched.by, tuple(groups)), steps=together
        )

    def _match(self, part: Divisible, views: Sequence[TableView]) -> Groups | NotCopartitioned:
        """Return the groups of a part, cached because nested nodes mostly need the same ones."""
        tables = tuple(scan.table for scan in part.scans)
        inner = part.is_inner and len(set(tables)) == len(tables)
        asked = tables, tuple((key.sources, key.parts) for key in part.keys), inner
        if asked not in self._matched:
            sides = [self._side(view, part.keys, place) for place, view in enumerate(views)]
            self._matched[asked] = match(sides, evaluate, inner=inner)
        return self._matched[asked]

    def _partial_part(self, node: Node) -> GroupedPart | None:
        """Return a part that pre-aggregates each group, for an aggregate with other keys than the part below it."""
        if not is_mergeable(node) or has_subquery(node):
            return None
        part = self._grouped_part(node.inputs[0])
        return None if part is None else replace(part, part=replace(part.part, node=node), is_partial=True)

    def _ordered_part(self, node: Node) -> GroupedPart | None:
        """Return a part that sorts group by group, for a sort whose first key has the order of the partitions."""
        if not isinstance(node.variant, Sort) or not (part := self._divider.part(node.inputs[0])):
            return None
        first = node.variant.sort_exprs()[0]
        column = column_key(Expr(first.expr()))
        keys = [key for key in part.keys if column in key.columns and key.parts is None]
        if not keys or len(part.scans) > 1 or not self._is_whole(part):
            return None
        view = self._session.divisible[part.scans[0].table]
        side = self._side(view, keys[:1], 0)
        ordered = in_order(side, descending=not first.ascending(), nulls_first=first.nulls_first())
        if isinstance(ordered, NotCopartitioned):
            return self._none(node, ordered.why)
        if len(ordered.groups) < 2:  # noqa: PLR2004 - one group has no order
            return None
        fetch = node.variant.get_fetch_val()
        if fetch is None:
            together = lanes.join_groups(ordered.groups, [view], self._session.execution.group_rows)
        else:
            together = lanes.growing_steps(ordered.groups, [view], fetch)
        return GroupedPart(
            session=self._session,
            part=replace(part, node=node),
            views=(view,),
            groups=ordered,
            steps=together,
            is_ordered=True,
            fetch=fetch,
        )

    def _side(self, view: TableView, keys: Sequence[Key], place: int) -> Side:
        parts = {number: key.parts for number, key in enumerate(keys) if key.parts is not None}
        kept = read_tables(self._prunings[view.key])
        return side_of(view.name, view.snapshot, kept, [key.sources[place] for key in keys], parts)

    def _is_whole(self, part: Divisible) -> bool:
        if has_subquery(part.node):
            self._divider.meet(part.node, "a query inside an expression reads other rows than those of its group")
            return False
        return True

    def _none(self, node: Node, why: str) -> GroupedPart | None:
        if isinstance(node.variant, WORTH):
            self._divider.meet(node, why)
        return None


def _agreeing(part: Divisible) -> Divisible:
    """Return the part with the keys that are the same column in all scans of one table, which read the same partitions."""

    def agrees(key: Key) -> bool:
        columns: dict[str, Path] = {}
        return all(
            columns.setdefault(scan.table, source) == source
            for scan, source in zip(part.scans, key.sources, strict=True)
        )

    return replace(part, keys=tuple(filter(agrees, part.keys)))


def _first(rows: int | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the first `rows` rows (None: all), without reading further batches once there are enough."""
    left = rows
    for batch in batches:
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return
