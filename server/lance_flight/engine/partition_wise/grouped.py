"""Dividing a planned query into groups of partition tables, and running it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.directory import PUBLIC
from lance_flight.engine.functions import evaluate
from lance_flight.engine.partition_wise.divisible import Divider, Divisible, Key
from lance_flight.engine.partition_wise.lanes import Tasks, admission, run
from lance_flight.engine.partition_wise.plans import Node, has_subquery
from lance_flight.engine.partition_wise.spine import GroupRows, numbered, rebuilt, rows_frame
from lance_flight.engine.session import Session
from lance_flight.engine.tables import PartitionedView, Rows, partitions_of
from lance_flight.errors import SqlError, Unsupported
from lance_flight.planning.joins import Apart, Group, Groups, Side, match

SHOWN_GROUPS = 64
ADMISSION_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class GroupedPart:
    """A part of a plan and the groups that it is run in; `steps` are those that are run together, being small."""

    part: Divisible
    views: tuple[PartitionedView, ...]
    groups: Groups
    steps: tuple[Group, ...]

    def __str__(self) -> str:
        lines = [f"groups: {len(self.groups.groups)}  by {', '.join(self.groups.by)}: {self.part.does}"]
        if len(self.steps) < len(self.groups.groups):
            lines[0] += f"; small ones together, in {len(self.steps)} steps"
        for group in self.groups.groups[:SHOWN_GROUPS]:
            counts = [sum(map(len, rows)) for rows in group.rows]
            tables = ", ".join(
                f"{view.name} {count} {'table' if count == 1 else 'tables'}"
                for view, count in zip(self.views, counts, strict=True)
            )
            lines.append(f"  {', '.join('NULL' if v is None else str(v) for v in group.values)}: {tables}")
        if len(self.groups.groups) > SHOWN_GROUPS:
            lines.append(f"  and {len(self.groups.groups) - SHOWN_GROUPS} more")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """How a query is run: which parts of it in groups, and what kept others from it.

    `whole` is the query itself, and `outer` what is left of it over the rows of its parts: None where the only part is all
    of it. `frames` are the parts themselves, each run over the tables of one group after another.
    """

    session: Session
    whole: DataFrame
    outer: DataFrame | None = None
    parts: tuple[GroupedPart, ...] = ()
    frames: tuple[DataFrame, ...] = ()
    obstacles: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [str(part) for part in self.parts] or ["groups: none"]
        return "\n".join([*said, *(f"  not in groups: {why}" for why in self.obstacles)])

    @property
    def is_worth_telling(self) -> bool:
        """Whether there was anything to divide."""
        return bool(self.parts or self.obstacles)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the query; its columns are in their places, and called somehow."""
        if not self.parts:
            return self.session.stream(self.whole)
        if self.outer is not None:
            return self._above(self.outer)
        (part,), (frame,) = self.parts, self.frames
        return run(_tasks(self.session, part, frame), self.session.ways)

    def _above(self, outer: DataFrame) -> Iterator[pa.RecordBatch]:
        """A query whose workers wait for lanes: when too many do already, it is run as a whole."""
        with admission.of(self.session.ways * len(self.parts), ADMISSION_SECONDS) as is_admitted:
            yield from self.session.stream(outer if is_admitted else self.whole)


def divide(session: Session, frame: DataFrame) -> Division:
    """Find what of a query can be run in groups."""
    if not session.execution.partition_wise_join:
        return Division(session, frame, obstacles=("SET partition_wise_join = 'off' keeps this session from it",))
    views = session.divisible
    if not views or session.share.of > 1:
        return Division(session, frame)
    root = Node.of(session.optimised(frame))
    divider = Divider({name: view.schema for name, view in views.items()}, PUBLIC)
    candidates = _Candidates(divider, views)
    if not any(True for _ in candidates.possible(root)):
        return Division(session, frame, obstacles=divider.said)
    session.plan(frame)
    parts = tuple(candidates.chosen(root, session.execution.group_rows))
    return (
        _divided(session, frame, root, parts, divider.said)
        if parts
        else Division(session, frame, obstacles=divider.said)
    )


def _divided(
    session: Session, frame: DataFrame, root: Node, parts: tuple[GroupedPart, ...], obstacles: tuple[str, ...]
) -> Division:
    frames = tuple(session.lane_frame(part.part.node.plan) for part in parts)
    if parts[0].part.node is root:
        return Division(session, frame, None, parts, frames, obstacles)
    try:
        replaced = {
            part.part.node: _replacement(session, part, inner) for part, inner in zip(parts, frames, strict=True)
        }
        outer = session.planned(partial(rebuilt, session.context, root, replaced))
    except (Unsupported, SqlError) as exc:
        return Division(session, frame, obstacles=(*obstacles, str(exc)))
    return Division(session, frame, outer, parts, frames, obstacles)


def _replacement(session: Session, part: GroupedPart, frame: DataFrame) -> DataFrame:
    """What stands in a query for a part of it."""
    columns = part.part.node.outputs
    if columns is None:
        raise Unsupported(f"{part.part.node.said}: its columns have no names of their own")
    rows = GroupRows(numbered(frame.schema()), lambda: _tasks(session, part, frame), session.ways)
    return rows_frame(session.context, rows, columns)


def _tasks(session: Session, part: GroupedPart, frame: DataFrame) -> Tasks:
    """One task for each step."""
    tables = [scan.table for scan in part.part.scans]
    steps = [dict(zip(tables, step.rows, strict=True)) for step in part.steps]
    return Tasks(iter([partial(session.stream_portion, frame, portion) for portion in steps]))


class _Candidates:
    """Chooses the largest parts whose partitions are groups."""

    def __init__(self, divider: Divider, views: Mapping[str, PartitionedView]) -> None:
        self._divider = divider
        self._views = views

    def possible(self, node: Node) -> Iterator[Divisible]:
        """The largest parts that may be divided, by their shape."""
        part = self._divider.part(node)
        if part is not None and part.is_worth:
            yield part
            return
        for child in node.inputs:
            yield from self.possible(child)

    def chosen(self, node: Node, group_rows: int) -> Iterator[GroupedPart]:
        """The largest parts that are divided."""
        part = self._divider.part(node)
        if part is not None and part.is_worth:
            found = self._grouped(part, group_rows)
            if not isinstance(found, str):
                yield found
                return
            self._divider.meet(node, found)
        for child in node.inputs:
            yield from self.chosen(child, group_rows)

    def _grouped(self, part: Divisible, group_rows: int) -> GroupedPart | str:
        if has_subquery(part.node):
            return "a query inside an expression reads other rows than those of its group"
        part = _agreeing(part)
        if not part.keys:
            return "a table is read more than once, by other columns each time"
        views = tuple(self._views[scan.table] for scan in part.scans)
        sides = [_side(view, part.keys, place) for place, view in enumerate(views)]
        found = match(
            sides, evaluate, inner=part.is_inner and len({scan.table for scan in part.scans}) == len(part.scans)
        )
        if isinstance(found, Apart):
            return found.why
        groups = [group for group in found.groups if part.has_rows([any(map(len, rows)) for rows in group.rows])]
        if len(found.groups) == 1 and groups:
            return f"all rows are in one group by {', '.join(found.by)}"
        return GroupedPart(part, views, Groups(found.by, tuple(groups)), _steps(groups, views, group_rows))


def _agreeing(part: Divisible) -> Divisible:
    """The part with the keys alone that are the same column in all scans of one table: these read the same tables."""

    def agrees(key: Key) -> bool:
        columns: dict[str, str] = {}
        return all(
            columns.setdefault(scan.table, source) == source
            for scan, source in zip(part.scans, key.sources, strict=True)
        )

    return replace(part, keys=tuple(filter(agrees, part.keys)))


def _side(view: PartitionedView, keys: Sequence[Key], place: int) -> Side:
    schema = view.snapshot.schema
    return Side(
        name=view.name,
        schema=schema,
        partitions=partitions_of(view.snapshot),
        kept=_kept(view),
        keys=tuple(schema.ids[key.sources[place]] for key in keys),
    )


def _kept(view: PartitionedView) -> Rows:
    """The tables that any of the scans that were planned reads."""
    prunings = [pruning.versions for pruning in view.planned]
    return tuple(
        np.unique(np.concatenate([versions[place].kept for versions in prunings])) for place in range(len(prunings[0]))
    )


def _steps(groups: Sequence[Group], views: Sequence[PartitionedView], group_rows: int) -> tuple[Group, ...]:
    """The groups with those joined to one that have few rows; but none where a table is in several of them."""
    if group_rows <= 0 or not groups:
        return tuple(groups)
    sizes = np.zeros(len(groups), np.int64)
    for side, view in enumerate(views):
        for version in range(len(groups[0].rows[side])):
            rows = [group.rows[side][version] for group in groups]
            whole = np.concatenate(rows)
            unique = np.unique(whole)
            if len(unique) < len(whole):
                return tuple(groups)
            only = tuple(unique if v == version else whole[:0] for v in range(len(groups[0].rows[side])))
            counts = view.row_counts(only)[version][np.searchsorted(unique, whole)]
            ends = np.cumsum([0, *map(len, rows)])
            sizes += [int(counts[start:stop].sum()) for start, stop in pairwise(ends)]
    return tuple(_together([groups[place] for place in places]) for places in _runs(sizes, group_rows))


def _runs(sizes: np.ndarray, enough: int) -> Iterator[list[int]]:
    """Neighbours whose sizes together are enough."""
    begun: list[int] = []
    for place in range(len(sizes)):
        begun.append(place)
        if sizes[begun].sum() >= enough:
            yield begun
            begun = []
    if begun:
        yield begun


def _together(groups: Sequence[Group]) -> Group:
    if len(groups) == 1:
        return groups[0]
    rows = tuple(
        tuple(np.sort(np.concatenate(versions)) for versions in zip(*sides, strict=True))
        for sides in zip(*(group.rows for group in groups), strict=True)
    )
    return Group((), rows)
