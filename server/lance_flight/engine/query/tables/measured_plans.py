"""Numbers that the operators of a plan count while it runs: EXPLAIN ANALYZE shows them at its end, `system.operators` until then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from datafusion import ExecutionPlan
from datafusion.plan import MetricsSet

_SCAN = "DatasetExec"


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """The table of a planned scan, and how many of its partitions are read (None: the table has none, or they are not told)."""

    name: str
    partitions: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class LaneCount:
    """Counts of one lane of a scan: its rows, and the seconds that it worked for them. One thread writes it."""

    table: MeasuredTable
    lanes: int
    columns: Sequence[str]
    rows: int = 0
    seconds: float = 0.0

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same batches, and count them."""
        found = iter(batches)
        while True:
            began = time.perf_counter()
            batch = next(found, None)
            self.seconds += time.perf_counter() - began
            if batch is None:
                return
            self.rows += batch.num_rows
            yield batch

    @property
    def display(self) -> tuple[str, str]:
        """The beginning and the end of the text of its operator in a plan."""
        return f"{_SCAN}: number_of_fragments={self.lanes},", f"projection=[{', '.join(self.columns)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOperator:
    """Operator of `plans` like plans that have begun: the rows that all of them made so far, and the seconds that they computed.

    Rows and seconds are None where it counts none. `depth` is its place below the root, in the order of the plan. A scan whose
    table is certain has its `scanned`.
    """

    depth: int
    text: str
    plans: int
    rows: int | None = None
    seconds: float | None = None
    scanned: MeasuredTable | None = None

    @property
    def measured(self) -> str:
        """The numbers that EXPLAIN ANALYZE adds to its line."""
        if self.rows is None or self.seconds is None:
            return ""
        said = [f"rows: {self.rows}", f"seconds: {self.seconds:.6f}"]
        if self.scanned is not None and self.scanned.partitions is not None:
            said.append("partitions: {} / {}".format(*self.scanned.partitions))
        if self.depth == 0 and self.plans > 1:
            said.append(f"plans: {self.plans}")
        return f"  [{', '.join(said)}]"


@dataclass(slots=True, eq=False)
class MeasuredPlans:
    """Plans that EXPLAIN ANALYZE runs, and the lanes of their scans. Its threads add to it while others look.

    `shown` returns the text of an operator as it is shown.
    """

    shown: Callable[[str], str]
    _plans: list[list[tuple[int, ExecutionPlan, str]]] = field(default_factory=list)
    _lanes: list[LaneCount] = field(default_factory=list)

    def add(self, plan: ExecutionPlan) -> None:
        """Take a plan that begins to run: its operators count from then on."""
        self._plans.append(list(_operators(plan)))

    def lane(self, table: MeasuredTable, lanes: int, columns: Sequence[str]) -> LaneCount:
        """Return what counts one of the `lanes` of a scan of a table."""
        self._lanes.append(count := LaneCount(table, lanes, columns))
        return count

    @property
    def rows_read(self) -> dict[str, int]:
        """The rows that were read from each table, before they were filtered further."""
        read = Counter[str]()
        for lane in list(self._lanes):
            read[lane.table.name] += lane.rows
        return dict(sorted(read.items()))

    def trees(self) -> list[list[MeasuredOperator]]:
        """Return the operators of each kind of plan, as far as they have come. Like plans, as those of groups, are added up."""
        alike: dict[tuple[tuple[int, str], ...], list[list[tuple[int, ExecutionPlan, str]]]] = {}
        for plan in list(self._plans):
            alike.setdefault(tuple((depth, name) for depth, _, name in plan), []).append(plan)
        texts = [[self.shown(" ".join(node.display().split())) for _, node, _ in plans[0]] for plans in alike.values()]
        scans = self._scans([text for tree in texts for text in tree if text.startswith(_SCAN)])
        return [
            [
                self._operator(text, len(plans), same, scans.get(text, ()))
                for text, same in zip(tree, zip(*plans, strict=True), strict=True)
            ]
            for tree, plans in zip(texts, alike.values(), strict=True)
        ]

    def _scans(self, texts: Sequence[str]) -> dict[str, list[LaneCount]]:
        """Return the lanes of the scans that nothing but one operator can have made, by its text."""
        by_scan: dict[tuple[str, str], list[LaneCount]] = {}
        for lane in list(self._lanes):
            by_scan.setdefault(lane.display, []).append(lane)
        found = {}
        for (first, last), lanes in by_scan.items():
            mine = [text for text in texts if text.startswith(first) and text.endswith(last)]
            if len(mine) == len({lane.table.name for lane in lanes}) == 1:
                found[mine[0]] = lanes
        return found

    @staticmethod
    def _operator(
        text: str, plans: int, same: Sequence[tuple[int, ExecutionPlan, str]], lanes: Sequence[LaneCount]
    ) -> MeasuredOperator:
        depth = same[0][0]
        if lanes:
            rows, seconds = sum(lane.rows for lane in lanes), sum(lane.seconds for lane in lanes)
            return MeasuredOperator(
                depth=depth, text=text, plans=plans, rows=rows, seconds=seconds, scanned=lanes[0].table
            )
        counted = [metrics for _, node, _ in same if (metrics := node.metrics()) is not None]
        rows_made = [made for metrics in counted if (made := metrics.output_rows) is not None]
        if not rows_made:
            return MeasuredOperator(depth=depth, text=text, plans=plans)
        computed = sum(max(metrics.elapsed_compute or 0, _joining(metrics)) for metrics in counted)
        return MeasuredOperator(depth=depth, text=text, plans=plans, rows=sum(rows_made), seconds=computed / 1e9)


def _joining(metrics: MetricsSet) -> int:
    """Return the nanoseconds of a join, which tells them as its whole time only at its end."""
    return sum(metrics.sum_by_name(name) or 0 for name in ("build_time", "join_time"))


def _operators(plan: ExecutionPlan) -> Iterator[tuple[int, ExecutionPlan, str]]:
    """Yield the operators of a plan with their depths and names, each before those that it reads from."""
    above = [(0, plan)]
    while above:
        depth, operator = above.pop()
        above += [(depth + 1, child) for child in reversed(operator.children())]
        yield depth, operator, operator.display().partition(":")[0].strip()
