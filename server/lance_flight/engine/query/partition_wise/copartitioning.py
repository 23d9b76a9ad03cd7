"""Co-partitioning: the parts of a plan that can be run group by group, with the keys of the groups, and those that are chosen and run.

A part is divisible by a key if its rows are those of its groups together, wherever the rows of its tables are divided so
that equal values of the key are in one group. Whether the partitions of the tables are such groups is for
`planning.joins` to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa
from datafusion import DataFrame, Expr
from datafusion.expr import Aggregate, Filter, Join, Projection, Sort, SubqueryAlias, TableScan, Union, WindowExpr

from lance_flight.engine.plans.nodes import (
    BOTH_SIDES,
    LEFT_ONLY,
    RIGHT_ONLY,
    ColumnKey,
    ColumnReference,
    Node,
    alias_key,
    column_key,
    date_part,
    expressions,
    field_inside,
    has_subquery,
    is_null_aware,
    join_type,
    strip_aliases,
    table_key,
    window_columns,
)
from lance_flight.engine.query.partition_wise import lanes
from lance_flight.engine.query.partition_wise.join_order import (
    MetadataPart,
    from_metadata,
    is_mergeable,
    merge_groups,
    read_tables,
)
from lance_flight.engine.query.partition_wise.lanes import Task, run
from lance_flight.engine.query.plan_rebuilding import compute_part, name_columns, number_columns
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.table_view import Prunings, TableView, side_of
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import LanceFlightError
from lance_flight.model.schema import Path
from lance_flight.planning.joins import Group, Groups, NotCopartitioned, Side, in_order, match

Present = Sequence[bool]

_CAST = re.compile(r"^Expr\(CAST\(.* AS (?P<type>\w+)\)\)$", re.DOTALL)
_INTEGERS = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
_TEXTS = frozenset({"Utf8", "LargeUtf8", "Utf8View"})


WORTH = (Join, Aggregate, Sort, WindowExpr)
"""Plan nodes that do more than process single rows, so that running them in groups pays."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """One scan of a partitioned table: its table (`schema.table`), and the types of its columns."""

    table: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Key:
    """Columns that are equal in rows of one group: one of each scan, and those of the part that still hold its value.

    Sources are paths: fields inside structs are columns, too. With `parts` only these date parts of them are equal.
    """

    sources: tuple[Path, ...]
    columns: frozenset[ColumnKey]
    parts: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Divisible:
    """Part of a plan that may be run group by group.

    `is_inner` says that rows of one scan without rows of the others count for nothing, nor does a NULL in a key, and
    that it does not matter in how many groups a pair of tables meets as long as it is one. `is_worth` says that it does
    more than to read rows. `has_rows` tells whether there can be any, by which scans have tables.
    """

    node: Node
    scans: tuple[Scanned, ...]
    keys: tuple[Key, ...]
    is_inner: bool
    is_worth: bool
    has_rows: Callable[[Present], bool]

    @property
    def does(self) -> str:
        """Describe the operations that run in each group."""
        return "; ".join(node.said for node in self.node.walk() if isinstance(node.variant, WORTH))


class CopartitioningAnalysis:
    """Finds the divisible parts of a plan over `tables`: the partitioned ones, by `schema.table`, with their columns."""

    def __init__(self, tables: Mapping[str, pa.Schema], default_schema: str) -> None:
        self._obstacles: dict[Node, str] = {}
        self._tables = tables
        self._default_schema = default_schema
        self._found: dict[Node, Divisible | None] = {}

    def obstacles(self, parts: Iterable[Node]) -> tuple[str, ...]:
        """Return the reasons why joins, aggregates and windows outside of `parts` do not run in groups."""
        inside = {node for part in parts for node in part.walk()}
        return tuple(
            dict.fromkeys(f"{node.said}: {why}" for node, why in self._obstacles.items() if node not in inside)
        )

    def meet(self, node: Node, why: str) -> None:
        """Record the reason why a node does not run in groups."""
        self._obstacles[node] = why

    def part(self, node: Node) -> Divisible | None:
        """Return the node as a divisible part; None if it is not divisible."""
        if node not in self._found:
            self._found[node] = self._part(node)
        return self._found[node]

    def _part(self, node: Node) -> Divisible | None:
        below = [self.part(child) for child in node.inputs]
        match node.variant, below:
            case TableScan() as scan, []:
                return self._scan(node, scan)
            case ((Join() as join), [left, right]):
                return self._join(node, join, left, right)
            case Union(), [first, *others]:
                return self._union(node, first, others)
            case Aggregate() as aggregate, [Divisible() as part]:
                key_expressions = expressions(aggregate.group_by_exprs())
                return self._within(
                    node,
                    part,
                    _output_keys(part, key_expressions),
                    is_all=not key_expressions,
                    what="the columns that it groups by",
                )
            case WindowExpr() as window, [Divisible() as part]:
                columns = window_columns(window)
                keys = [key for key in part.keys if key.columns & columns]
                return self._within(
                    node, part, keys, is_all=False, what="the columns that all its windows partition by"
                )
            case SubqueryAlias() as alias, [Divisible() as part]:
                renamed = [(alias.alias(), name) for _, name in _keys(node.inputs[0])]
                return replace(
                    part, node=node, keys=_rename_keys(part.keys, zip(_keys(node.inputs[0]), renamed, strict=True))
                )
            case Projection() as projection, [Divisible() as part]:
                # A key that is not said above still divides what is below.
                key_expressions = _output_keys(part, expressions(projection.projections()))
                held = {key.sources for key in key_expressions if key.parts is None}
                lost = [replace(key, columns=frozenset()) for key in part.keys if key.sources not in held]
                return replace(part, node=node, keys=(*key_expressions, *lost))
            case Filter(), [Divisible() as part]:
                return replace(part, node=node)
        return None

    def _scan(self, node: Node, scan: TableScan) -> Divisible | None:
        name = table_key(scan, self._default_schema)
        schema = self._tables.get(name)
        if schema is None or scan.fetch() is not None:
            return None
        keys = tuple(Key(((column.name,),), frozenset([column.key])) for column in node.outputs or ())
        return Divisible(
            node=node, scans=(Scanned(name, schema),), keys=keys, is_inner=True, is_worth=False, has_rows=lambda p: p[0]
        )

    def _join(self, node: Node, join: Join, left: Divisible | None, right: Divisible | None) -> Divisible | None:
        kind = join_type(join)
        if left is None or right is None:
            apart = [part.node for part in (left, right) if part is not None]
            return self._none(
                node, "one side of it is not partitioned" if apart else "neither side of it is partitioned"
            )
        if is_null_aware(node):
            return self._none(node, "NOT IN depends on all rows of the other side")
        if kind not in BOTH_SIDES | LEFT_ONLY | RIGHT_ONLY:
            return self._none(node, f"a {kind} join is not run in groups")
        keys: list[Key] = []
        for raw_left, raw_right in join.on():
            keys += _combine_keys(left, Expr(raw_left), right, Expr(raw_right), kind)
        if not keys:
            return self._none(node, "none of its equalities is between columns of partitioned tables")
        split = len(left.scans)
        return Divisible(
            node=node,
            scans=left.scans + right.scans,
            keys=tuple(keys),
            is_inner=left.is_inner and right.is_inner and kind == "Inner" and not join.null_equals_null(),
            is_worth=True,
            has_rows=lambda p: _JOINED[kind](left.has_rows(p[:split]), right.has_rows(p[split:])),
        )

    def _union(self, node: Node, first: Divisible | None, others: Sequence[Divisible | None]) -> Divisible | None:
        parts = [part for part in (first, *others) if part is not None]
        outputs = [child.outputs for child in node.inputs]
        known = [some for some in outputs if some is not None]
        if len(parts) != len(outputs) or len(known) != len(outputs):
            return None
        keys = tuple(key for columns in zip(*known, strict=True) if (key := _unite_keys(parts, columns)) is not None)
        if not keys:
            return None
        splits = [len(part.scans) for part in parts]
        return Divisible(
            node=node,
            scans=tuple(scan for part in parts for scan in part.scans),
            keys=keys,
            is_inner=False,
            is_worth=any(part.is_worth for part in parts),
            has_rows=lambda p: any(
                part.has_rows(p[sum(splits[:place]) : sum(splits[: place + 1])]) for place, part in enumerate(parts)
            ),
        )

    def _within(self, node: Node, part: Divisible, keys: Sequence[Key], *, is_all: bool, what: str) -> Divisible | None:
        """Return a part that processes all rows with equal `keys` together; `is_all`: all rows of the input."""
        if not keys:
            return None if is_all else self._none(node, f"{what} hold no key of its groups")
        return replace(part, node=node, keys=tuple(keys), is_inner=False, is_worth=True)

    def _none(self, node: Node, why: str) -> Divisible | None:
        self.meet(node, why)
        return None


_JOINED: Mapping[str, Callable[[bool, bool], bool]] = {
    "Inner": lambda left, right: left and right,
    "Left": lambda left, _: left,
    "Right": lambda _, right: right,
    "Full": lambda left, right: left or right,
    "LeftSemi": lambda left, right: left and right,
    "LeftAnti": lambda left, _: left,
    "RightSemi": lambda left, right: left and right,
    "RightAnti": lambda _, right: right,
}
"""Whether a join of each type can return rows, given whether its left and right sides can."""


def _unite_keys(parts: Sequence[Divisible], columns: Sequence[ColumnReference]) -> Key | None:
    """The key that all parts of a union hold in the column of one place."""
    sources: list[Path] = []
    for part, column in zip(parts, columns, strict=True):
        whole = [key for key in part.keys if column.key in key.columns and key.parts is None]
        if not whole:
            return None
        sources += whole[0].sources
    return Key(tuple(sources), frozenset([("", columns[0].name)]))


def _combine_keys(left: Divisible, on_left: Expr, right: Divisible, on_right: Expr, kind: str) -> Iterable[Key]:
    """Yield the keys that an equality of two sides combines into one."""
    for mine in _preserved_keys(left, on_left):
        for theirs in _preserved_keys(right, on_right):
            if mine.parts != theirs.parts:
                continue
            columns: frozenset[ColumnKey] = frozenset()
            if kind in {"Inner", "Left"} | LEFT_ONLY:
                columns |= mine.columns
            if kind in {"Inner", "Right"} | RIGHT_ONLY:
                columns |= theirs.columns
            yield Key(mine.sources + theirs.sources, columns, mine.parts)


def _preserved_keys(part: Divisible, expression: Expr) -> list[Key]:
    """Return the keys that an expression preserves: a column, a date part of one, or a cast to a type that keeps values distinct."""
    dated = date_part(expression)
    if dated is not None:
        name, column = dated
        return [
            replace(key, columns=frozenset(), parts=frozenset([name]))
            for key in _holding(part, column)
            if key.parts is None
        ]
    taken = field_inside(expression)
    if taken is not None:
        column, names = taken
        keys = [key for key in _holding(part, column) if key.parts is None and len(key.sources) == 1]
        return [Key(((*key.sources[0], *names),), frozenset()) for key in keys]
    kind = None
    if expression.variant_name() == "Cast":
        match = _CAST.match(str(expression))
        kind = match["type"] if match else ""
        (expression,) = expression.rex_call_operands()
    keys = _holding(part, column_key(expression))
    return [key for key in keys if kind is None or _keeps_apart(part, key, kind)]


def _holding(part: Divisible, column: ColumnKey | None) -> list[Key]:
    """Return the keys that a column holds.

    DataFusion names a field that it takes out of a struct by its own name alone, even above the alias of a table.
    """
    named = [reference.key for reference in part.node.outputs or () if column == ("", reference.name)]
    asked = named[0] if len(named) == 1 else column
    return [key for key in part.keys if asked in key.columns]


def _keeps_apart(part: Divisible, key: Key, kind: str) -> bool:
    return key.parts is None and all(_keeps(source, kind) for source in _types(part, key))


def _output_keys(part: Divisible, group_expressions: Iterable[Expr]) -> list[Key]:
    """Return the keys among some expressions, under the names of their output columns."""
    by_sources: dict[tuple[tuple[Path, ...], frozenset[str] | None], frozenset[ColumnKey]] = {}
    for expression in group_expressions:
        name = alias_key(expression) or ("", expression.schema_name())
        inner = strip_aliases(expression)
        if inner.variant_name() == "Cast":
            continue
        for key in _preserved_keys(part, inner):
            known = by_sources.setdefault((key.sources, key.parts), frozenset())
            by_sources[key.sources, key.parts] = known | {name}
    return [Key(sources, columns, parts) for (sources, parts), columns in by_sources.items()]


def _types(part: Divisible, key: Key) -> list[pa.DataType]:
    return [_type(scan.schema, path) for scan, path in zip(part.scans, key.sources, strict=True)]


def _type(schema: pa.Schema, path: Path) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def _keeps(source: pa.DataType, cast: str) -> bool:
    """Return whether a cast maps distinct values of a type to distinct values, or fails."""
    if pa.types.is_integer(source):
        return cast in _INTEGERS
    if pa.types.is_floating(source):
        return cast == "Float64"
    return bool(pa.types.is_string(source) or pa.types.is_large_string(source)) and cast in _TEXTS


def _keys(node: Node) -> list[ColumnKey]:
    return [column.key for column in node.outputs or ()]


def _rename_keys(keys: Iterable[Key], pairs: Iterable[tuple[ColumnKey | None, ColumnKey | None]]) -> tuple[Key, ...]:
    """Return the same keys, held by their columns under new names."""
    names: dict[ColumnKey | None, set[ColumnKey]] = {}
    for old, new in pairs:
        if new is not None:
            names.setdefault(old, set()).add(new)
    return tuple(
        replace(key, columns=frozenset(new for old in key.columns for new in names.get(old, ()))) for key in keys
    )


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
