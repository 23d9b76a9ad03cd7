"""Uses of metadata in plans: row counts, by which inner joins are ordered, and aggregates that need no rows.

DataFusion 55 joins as the statement is written, and has no row counts of stored tables.

A tree of inner joins is joined anew, at each step the two sides with the fewest rows together, by the row counts of the tables and by
shares that conditions are taken to leave. A column that joins has as many values as the smallest of the tables that it joins has
rows, as a key of that table has. The order changes only where that makes far fewer rows.

Aggregates are answered from partition values and row counts, or in two phases. Of the former kind are `count(*)` and, of columns that are partition fields by identity, `count`, `min`, `max` and the different values; over
whole partitions, of which only those with a live row count.

Where the columns that are grouped by do not decide the group, the same values may come from several groups; their sums,
counts, minima and maxima are put together again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, Expr, SessionContext, col, lit
from datafusion import functions as f
from datafusion.expr import Aggregate, EmptyRelation, Filter, Join, Projection, Sort, SubqueryAlias, TableScan, Values

from lance_flight.engine.plans.nodes import (
    BOTH_SIDES,
    ColumnKey,
    ColumnReference,
    Node,
    Origin,
    column_key,
    conjuncts,
    date_part,
    expressions,
    is_one_row,
    join_type,
    operands_of,
    origin,
    strip_aliases,
    table_key,
    window_columns,
)
from lance_flight.engine.query.plan_rebuilding import name_columns, number_columns, rebuilt, select_columns
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.table_view import Prunings, Rows, TableView
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.translation.evaluation import inner_context
from lance_flight.errors import SqlError, Unsupported
from lance_flight.model.spec import PartitionField
from lance_flight.planning.pruning import Pruning


def read_tables(prunings: Sequence[Pruning]) -> Rows:
    """Return the partition tables that any of the scans of a table reads."""
    versions = [pruning.versions for pruning in prunings] or [()]
    return tuple(
        np.unique(np.concatenate([version[place].kept for version in versions])) for place in range(len(versions[0]))
    )


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Row counts of the tables of a query: of the partitions that its scans leave."""

    session: QuerySession
    prunings: Prunings
    _known: dict[str, int] = field(default_factory=dict)

    def of(self, node: Node) -> int:
        """Return the rows that a node reads from its largest table; 0 if that is not known."""
        scans = (part.variant for part in node.walk() if isinstance(part.variant, TableScan))
        return max((self._table(table_key(scan, self.session.db_schema)) for scan in scans), default=0)

    def estimate(self, node: Node) -> float:
        """Return how many rows a node is taken to have: the share of its largest table that its conditions leave."""
        return 1.0 if is_one_row(node) else self.of(node) * self.share(node)

    def share(self, node: Node) -> float:
        """Return the share of the counted rows of its largest table that a node is taken to have: ranges that prune partitions have left others out."""
        return share(node, self._pruning_columns)

    def _pruning_columns(self, scan: TableScan) -> frozenset[str]:
        """Return the columns of a table by whose values its partitions are made."""
        view = self.session.divisible.get(table_key(scan, self.session.db_schema))
        if view is None:
            return frozenset()
        return frozenset(name for name, number in view.ids.items() if number in view.snapshot.partition_sources)

    def _table(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = self._count(name)
        return self._known[name]

    def _count(self, name: str) -> int:
        view = self.session.scanned.get(name)
        if view is None:
            return 0
        return sum(int(counts.sum()) for counts in view.row_counts(read_tables(self.prunings.get(name, ()))))


OTHER_SHARE, _LIST_SHARE = 0.4, 0.1
_RANGES = frozenset({"<", "<=", ">", ">="})
_SHARES: Mapping[str, float] = MappingProxyType({"=": 0.05, **dict.fromkeys(_RANGES, 0.3)})
_GROUPS = 0.3
"""Share of rows that a condition leaves, by its operator, and that an aggregate makes."""


def share(side: Node, pruning_columns: Callable[[TableScan], frozenset[str]] = lambda _: frozenset()) -> float:
    """Return the share of the rows of its largest table that a side is taken to have; ranges of `pruning_columns` count for nothing."""
    left = 1.0
    for node in side.walk():
        match node.variant:
            case TableScan() as scan:
                columns = pruning_columns(scan)
                for condition in map(Expr, scan.filters()):
                    left *= 1.0 if _is_range_of(condition, columns) else _share_of(condition)
            case Filter() as found:
                for condition in conjuncts(Expr(found.predicate())):
                    left *= _share_of(condition)
            case Aggregate():
                left *= _GROUPS
    return left


def _is_range_of(condition: Expr, columns: frozenset[str]) -> bool:
    """Return whether a condition is a range of the values of one of these columns."""
    if condition.variant_name() != "BinaryExpr" or condition.rex_call_operator() not in _RANGES:
        return False
    return any(key is not None and key[1] in columns for key in map(column_key, operands_of(condition)))


def _share_of(condition: Expr) -> float:
    match condition.variant_name():
        case "BinaryExpr" if condition.rex_call_operator() == "OR":
            return min(sum(map(_share_of, operands_of(condition))), 0.9)
        case "BinaryExpr":
            return _SHARES.get(condition.rex_call_operator(), OTHER_SHARE)
        case "InList":
            return _LIST_SHARE
        case "IsNotNull":
            return 0.95
    return OTHER_SHARE


TOO_LARGE, MANY = 2, 20_000
"""Ratio of the left to the right side's rows from which on they are swapped, and fewest rows of the left side for that."""


def small_first(session: QuerySession, root: Node, counts: RowCounts) -> DataFrame | None:
    """Return the query with the smaller sides of its joins on the left; None if nothing changes, or the plan cannot be rebuilt.

    DataFusion keeps the rows of the left side in memory, where it looks up those of the right one; it puts each of them beside all of the
    right side's where nothing else joins them.
    """
    exchanged = frozenset(node for node in root.walk() if _is_wrong(node, counts))
    if not exchanged:
        return None
    session.optimiser.keep_joins()
    try:
        swapped = session.optimiser.run_planning(partial(rebuilt, session.optimiser.datafusion, root, {}, exchanged))
        return None if session.optimiser.misplaces_conditions(swapped) else swapped
    except (Unsupported, SqlError):
        return None


def _is_wrong(node: Node, counts: RowCounts) -> bool:
    if not isinstance(node.variant, Join) or join_type(node.variant) not in BOTH_SIDES:
        return False
    kind = join_type(node.variant)
    if not node.variant.on() and (kind != "Inner" or node.variant.filter() is not None):
        return False
    if node.variant.null_equals_null() or node.outputs is None:
        return False
    left, right = node.inputs
    if kind in {"Right", "Full"} and _has_constants(left):
        return kind == "Right" or not _has_constants(right)
    if kind in {"Left", "Full"} and _has_constants(right):
        return False
    before, after = counts.estimate(left), counts.estimate(right)
    return after > 0 and before > TOO_LARGE * after and before > MANY


def _has_constants(side: Node) -> bool:
    """Return whether DataFusion may know of a column that it is the same in all rows of a side.

    It goes on believing that of a left side whose rows a join fills up with NULL, and neither sorts nor distributes by the column.
    """
    return any(
        isinstance(node.variant, Filter | Values | EmptyRelation)
        or (
            isinstance(node.variant, Projection)
            and any(
                strip_aliases(expression).variant_name() != "Column"
                for expression in expressions(node.variant.projections())
            )
        )
        for node in side.walk()
    )


_FEWEST, _MOST = 3, 24
"""Fewest sides of joins that have another order, and most that are looked at."""
_WORTH, _MANY = 0.5, 1_000_000
"""Share of the rows of the written order that another one has to stay below, and how many fewer it has to be: joins may lose their groups."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinTree:
    """Inner joins below `top` without anything between them but columns left out: their sides, equalities and other conditions."""

    top: Node
    sides: tuple[Node, ...]
    equalities: tuple[tuple[Expr, Expr], ...]
    conditions: tuple[Expr, ...]


def join_trees(root: Node) -> list[JoinTree]:
    """Return the trees of a plan that may have another order; those within the sides of others come first."""
    trees: list[JoinTree] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        tree = _tree(node) if _is_inner(node) else None
        waiting += node.inputs if tree is None else tree.sides
        if tree is not None and _FEWEST <= len(tree.sides) <= _MOST and _is_known(tree):
            trees.append(tree)
    return trees[::-1]


def reorder_joins(session: QuerySession, root: Node, trees: Sequence[JoinTree], counts: RowCounts) -> DataFrame | None:
    """Return the query with its joins in an order of fewer rows; None if there is none, or the plan cannot be rebuilt."""
    orders = [(tree, steps) for tree in trees if (steps := _Order.of(tree, counts).best()) is not None]
    if not orders:
        return None
    replaced: dict[Node, DataFrame] = {}
    session.optimiser.keep_joins()
    try:
        for tree, steps in orders:
            replaced[tree.top] = session.optimiser.run_planning(
                partial(_rebuild_joins, session, tree, steps, dict(replaced))
            )
        frame = session.optimiser.run_planning(partial(rebuilt, session.optimiser.datafusion, root, replaced))
        return None if session.optimiser.misplaces_conditions(frame) else frame
    except (Unsupported, SqlError):
        return None


def _is_inner(node: Node) -> bool:
    return (
        isinstance(node.variant, Join)
        and join_type(node.variant) == "Inner"
        and bool(node.variant.on())
        and not node.variant.null_equals_null()
    )


def _tree(top: Node) -> JoinTree:
    sides: list[Node] = []
    equalities: list[tuple[Expr, Expr]] = []
    conditions: list[Expr] = []
    waiting = [top]
    while waiting:
        node = waiting.pop()
        inner = node
        while _only_leaves_out(inner):
            (inner,) = inner.inputs
        if not _is_inner(inner):
            sides.append(node)
            continue
        equalities += [(Expr(mine), Expr(theirs)) for mine, theirs in inner.variant.on()]
        if inner.variant.filter() is not None:
            conditions += conjuncts(Expr(inner.variant.filter()))
        waiting += reversed(inner.inputs)
    return JoinTree(top, tuple(sides), tuple(equalities), tuple(conditions))


def _only_leaves_out(node: Node) -> bool:
    """Return whether a projection has columns alone, by their names."""
    return isinstance(node.variant, Projection) and all(
        expression.variant_name() == "Column" for expression in expressions(node.variant.projections())
    )


def _is_known(tree: JoinTree) -> bool:
    """Return whether each column of the tree is known to be of one side."""
    outputs = [side.outputs for side in tree.sides]
    keys = [reference.key for columns in outputs for reference in columns or ()]
    known = set(keys)
    used = [*(one for pair in tree.equalities for one in pair), *tree.conditions]
    return (
        None not in outputs
        and tree.top.outputs is not None
        and len(keys) == len(known)
        and all(_columns(column) and _columns(column) <= known for column in used)
    )


def _columns(expression: Expr) -> frozenset[ColumnKey]:
    columns: set[ColumnKey] = set()
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        key = column_key(part)
        if key is not None:
            columns.add(key)
        waiting += operands_of(part)
    return frozenset(columns)


Step = tuple[frozenset[int], frozenset[int]]
"""Sides that are joined with other sides."""


@dataclass(frozen=True, slots=True)
class _Order:
    """Choice of an order by the rows of each side, the values of the equalities of two sides, and the sides of each condition."""

    tree: JoinTree
    rows: tuple[float, ...]
    equalities: Mapping[tuple[frozenset[int], frozenset[int]], float]
    conditions: tuple[frozenset[int], ...]
    sizes: dict[frozenset[int], float] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: JoinTree, counts: RowCounts) -> _Order:
        side_of = {reference.key: place for place, side in enumerate(tree.sides) for reference in side.outputs or ()}
        stored = [float(max(counts.of(side), 1)) for side in tree.sides]

        def sides(expression: Expr) -> frozenset[int]:
            return frozenset(side_of[key] for key in _columns(expression))

        values = _values(tree, side_of, stored)
        equalities: dict[tuple[frozenset[int], frozenset[int]], float] = {}
        for one, other in tree.equalities:
            pair = sides(one), sides(other)
            # Two keys of the same two tables are one of two columns.
            most = max(stored[place] for place in pair[0] | pair[1])
            equalities[pair] = min(equalities.get(pair, 1.0) * values[tuple(sorted(_columns(one)))], most)
        rows = tuple(max(count * counts.share(side), 1.0) for count, side in zip(stored, tree.sides, strict=True))
        return cls(tree, rows, equalities, tuple(map(sides, tree.conditions)))

    def best(self) -> list[Step] | None:
        """Return the steps of an order with far fewer rows than the written one; None if none is found."""
        groups = [frozenset([place]) for place in range(len(self.rows))]
        steps: list[Step] = []
        total = 0.0
        while len(groups) > 1:
            joined = [pair for pair in combinations(groups, 2) if self._meet(*pair)]
            if not joined:
                return None
            one, other = min(
                joined, key=lambda pair: (self._size(pair[0] | pair[1]), self._size(pair[0]) + self._size(pair[1]))
            )
            steps.append((one, other) if self._size(one) <= self._size(other) else (other, one))
            groups = [group for group in groups if group not in {one, other}] + [one | other]
            total += self._size(one | other)
        written = sum(self._size(sides) for sides in self._joined_sides(self.tree.top))
        return steps if total < _WORTH * written and written - total > _MANY else None

    def _joined_sides(self, node: Node) -> Iterator[frozenset[int]]:
        """Yield the sides that each join of the tree has joined, as it is written."""
        pairs: list[frozenset[int]] = []

        def below(node: Node) -> frozenset[int]:
            if node in self.tree.sides:
                return frozenset([self.tree.sides.index(node)])
            if not _is_inner(node):
                return below(node.inputs[0])
            sides = below(node.inputs[0]) | below(node.inputs[1])
            pairs.append(sides)
            return sides

        below(node)
        yield from pairs

    def _meet(self, one: frozenset[int], other: frozenset[int]) -> bool:
        return any(
            (mine <= one and theirs <= other) or (mine <= other and theirs <= one) for mine, theirs in self.equalities
        )

    def _size(self, sides: frozenset[int]) -> float:
        """Return how many rows sides are taken to have when they are joined."""
        if sides not in self.sizes:
            size = 1.0
            for place in sides:
                size *= self.rows[place]
            for (mine, theirs), values in self.equalities.items():
                size /= values if mine | theirs <= sides else 1.0
            size *= OTHER_SHARE ** sum(condition <= sides for condition in self.conditions)
            self.sizes[sides] = max(size, 1.0)
        return self.sizes[sides]


def _values(
    tree: JoinTree, side_of: Mapping[ColumnKey, int], stored: Sequence[float]
) -> dict[tuple[ColumnKey, ...], float]:
    """Return how many values the columns of equalities have: as many as the smallest table that they join has rows.

    A table that is joined with itself alone is so by no key: then it is the root of that.
    """
    classes: list[set[tuple[ColumnKey, ...]]] = []
    for one, other in tree.equalities:
        keys = {tuple(sorted(_columns(one))), tuple(sorted(_columns(other)))}
        met = [equals for equals in classes if equals & keys]
        classes = [equals for equals in classes if not equals & keys] + [keys.union(*met)]
    distinct: dict[tuple[ColumnKey, ...], float] = {}
    for members in classes:
        sides = {side_of[column] for columns in members for column in columns}
        tables = {
            tuple(str(node.variant.fqn()) for node in tree.sides[place].walk() if isinstance(node.variant, TableScan))
            for place in sides
        }
        fewest = min(stored[place] for place in sides)
        distinct |= dict.fromkeys(members, fewest if len(tables) > 1 else fewest**0.5)
    return distinct


def _rebuild_joins(
    session: QuerySession, tree: JoinTree, steps: Sequence[Step], replaced: Mapping[Node, DataFrame]
) -> DataFrame:
    """Return the joins of a tree in another order."""
    context = session.optimiser.datafusion
    side_of = {reference.key: place for place, side in enumerate(tree.sides) for reference in side.outputs or ()}
    conditions = [*(one == other for one, other in tree.equalities), *tree.conditions]
    about = [frozenset(side_of[key] for key in _columns(condition)) for condition in conditions]
    frames: dict[frozenset[int], DataFrame] = {}
    for place, side in enumerate(tree.sides):
        own = [condition for condition, sides in zip(conditions, about, strict=True) if sides == {place}]
        frames[frozenset([place])] = rebuilt(context, side, replaced).filter(*own)
    for one, other in steps:
        together = one | other
        now = [
            condition
            for condition, sides in zip(conditions, about, strict=True)
            if sides <= together and not sides <= one and not sides <= other
        ]
        frames[together] = frames.pop(one).join_on(frames.pop(other), *now, how="inner")
    (frame,) = frames.values()
    return select_columns(context, frame, tree.top.outputs or ())


_CALL = re.compile(r"(?P<function>count|min|max)\((?P<distinct>DISTINCT )?(?P<of>.*)\)", re.DOTALL)
_ROWS = "Int64(1)"
_TABLES = "partitions"
_COUNT = "row_count"


@dataclass(frozen=True, slots=True, eq=False)
class MetadataPart:
    """Aggregate with its result."""

    session: QuerySession
    node: Node
    table: str
    partitions: int
    rows: pa.Table

    def __str__(self) -> str:
        return f"answered from metadata: {self.node.said}, of {self.partitions} partitions of {self.table}"

    def frame(self, columns: list[ColumnReference]) -> DataFrame:
        """The answer for a plan above it, with its columns called so."""
        return name_columns(
            self.session.optimiser.datafusion,
            self.session.optimiser.datafusion.read_table(pads.dataset(self.rows)),
            columns,
        )


def from_metadata(session: QuerySession, prunings: Prunings, node: Node) -> MetadataPart | None:
    """Return the part that answers an aggregate from metadata alone; None if rows have to be read."""
    if not isinstance(node.variant, Aggregate) or node.outputs is None:
        return None
    partitions = _whole_partitions(session, prunings, node.inputs[0])
    if partitions is None:
        return None
    view, kept = partitions
    grouped = [_source(node, strip_aliases(expression)) for expression in expressions(node.variant.group_by_exprs())]
    aggregates = [_rewrite_aggregate(node, expression) for expression in expressions(node.variant.aggregate_exprs())]
    columns = {name for name in grouped if name is not None} | {name for _, name in filter(None, aggregates) if name}
    fields = {name: _identity(view, kept, name) for name in columns}
    if None in grouped or None in aggregates or None in fields.values():
        return None
    known = _partitions(view, kept, {name: field for name, field in fields.items() if field is not None})
    keys = [quote_parts(name) for name in grouped if name is not None]
    query = f"SELECT {', '.join([*keys, *(text for text, _ in filter(None, aggregates))])} FROM {_TABLES}"  # noqa: S608 - ours
    if keys:
        query += f" GROUP BY {', '.join(keys)}"
    kind = session.optimiser.datafusion.create_dataframe_from_logical_plan(node.plan).schema()
    return MetadataPart(session, node, view.name, known.num_rows, _answer(query, known, number_columns(kind)))


def may_answer(node: Node) -> bool:
    """Return whether metadata has such aggregates at all, whatever a scan leaves."""
    return all(
        _rewrite_aggregate(node, expression) is not None for expression in expressions(node.variant.aggregate_exprs())
    )


def _whole_partitions(session: QuerySession, prunings: Prunings, node: Node) -> tuple[TableView, Rows] | None:
    """Return the table that a node reads by whole partitions alone, with these partitions; None for any other node."""
    while isinstance(node.variant, Projection | SubqueryAlias):
        (node,) = node.inputs
    if not isinstance(node.variant, TableScan) or node.variant.fetch() is not None:
        return None
    view = session.divisible.get(table_key(node.variant, session.db_schema))
    planned = () if view is None else prunings.get(view.key, ())
    if view is None or len(planned) != 1 or session.share.of > 1:
        return None
    rests = [version.unfiltered for version in planned[0].versions if len(version.kept)]
    return (view, read_tables(planned)) if all(rest is None for rest in rests) else None


def _source(node: Node, expression: Expr) -> str | None:
    """Return the table's column that an expression refers to; None if it is computed."""
    column = column_key(expression)
    source: Origin | None = None if column is None else origin(node.inputs[0], column)
    return None if source is None else source.name


def _rewrite_aggregate(node: Node, expression: Expr) -> tuple[str, str | None] | None:
    """Return an aggregate rewritten over partitions instead of rows, with its column; None if that is impossible."""
    match = _CALL.fullmatch(strip_aliases(expression).schema_name())
    if match is None:
        return None
    if match["function"] == "count" and match["of"] == _ROWS and not match["distinct"]:
        return f"coalesce(sum({_COUNT}), 0)", None
    named = [c.key for c in node.inputs[0].outputs or () if ".".join((*c.relation, c.name)) == match["of"]]
    source = origin(node.inputs[0], named[0]) if len(named) == 1 else None
    if source is None:
        return None
    column = quote_parts(source.name)
    if match["function"] == "count" and not match["distinct"]:
        return f"coalesce(sum({_COUNT}) FILTER (WHERE {column} IS NOT NULL), 0)", source.name
    return f"{match['function']}({match['distinct'] or ''}{column})", source.name


def _identity(view: TableView, kept: Rows, name: str) -> PartitionField | None:
    """Return the identity field of a column in all specs that have tables to read; None without one, or for floats, which it may alter."""
    number = view.snapshot.schema.ids[name]
    if pa.types.is_floating(view.snapshot.schema.plain.field(name).type):
        return None
    for tables, rows in zip(view.snapshot.tables, kept, strict=True):
        if len(rows) and not any(_holds(field, number) for field in tables.spec.fields):
            return None
    return next((f for spec in view.snapshot.specs for f in spec.fields if _holds(f, number)), None)


def _holds(field: PartitionField, number: int) -> bool:
    return field.rule.keeps_value and field.source_ids == (number,)


def _partitions(view: TableView, kept: Rows, fields: dict[str, PartitionField]) -> pa.Table:
    """Return the partitions that have rows: the values of the fields, and the number of rows."""
    schema = pa.schema([*(view.schema.field(name) for name in fields), pa.field(_COUNT, pa.int64())])
    parts = []
    for tables, rows, counts in zip(view.snapshot.tables, kept, view.row_counts(kept), strict=True):
        live = np.flatnonzero(counts)
        if len(live):
            values = tables.values.take(pa.array(rows[live]))
            columns = [values[field.column].cast(schema.field(name).type) for name, field in fields.items()]
            parts.append(pa.Table.from_arrays([*columns, pa.array(counts[live])], schema=schema))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _answer(query: str, partitions: pa.Table, kind: pa.Schema) -> pa.Table:
    context = inner_context()
    context.register_table(_TABLES, pads.dataset(partitions))
    rows = context.sql(query).to_arrow_table()
    return pa.Table.from_arrays([c.cast(f.type) for c, f in zip(rows.columns, kind, strict=True)], schema=kind)


_PARTIAL_CALL = re.compile(r"(?P<function>count|sum|min|max)\((?!DISTINCT ).*\)", re.DOTALL)
_MERGED: Mapping[str, Callable[[Expr], Expr]] = MappingProxyType(
    {"count": f.sum, "sum": f.sum, "min": f.min, "max": f.max}
)


def is_mergeable(node: Node) -> bool:
    """Return whether an aggregate may be computed in two phases."""
    if not isinstance(node.variant, Aggregate) or node.outputs is None:
        return False
    return all(_function(expression) for expression in expressions(node.variant.aggregate_exprs()))


def merge_groups(context: SessionContext, node: Node, rows: pads.Dataset, columns: list[ColumnReference]) -> DataFrame:
    """The aggregate of all groups; `rows` are those of each, with their columns called by their places."""
    names = rows.schema.names
    functions = [_function(expression) for expression in expressions(node.variant.aggregate_exprs())]
    keys, values = names[: -len(functions) or None], names[len(names) - len(functions) :]
    again = [_MERGED[function](col(name)).alias(name) for function, name in zip(functions, values, strict=True)]
    frame = context.read_table(rows).aggregate([col(name) for name in keys], again)
    selected = [col(name) for name in keys]
    for function, name in zip(functions, values, strict=True):
        # No group at all has a sum of NULL, and a count of 0.
        value = f.coalesce(col(name), lit(0)) if function == "count" else col(name)
        selected.append(value.cast(rows.schema.field(name).type).alias(name))
    return name_columns(context, frame.select(*selected), columns)


def _function(expression: Expr) -> str:
    match = _PARTIAL_CALL.fullmatch(strip_aliases(expression).schema_name())
    return match["function"] if match else ""


def concerns_partitions(session: QuerySession, node: Node) -> bool:
    """Return whether a join, aggregate, window or sort may be run by partitions, or answered from metadata; every join may."""
    if isinstance(node.variant, Join):
        return True
    if isinstance(node.variant, Aggregate) and not node.variant.group_by_exprs():
        return may_answer(node)
    return any(_is_source(session, node.inputs[0], column) for column in _group_columns(node))


def _group_columns(node: Node) -> Iterator[ColumnKey]:
    """Yield the columns by which a node groups its rows, or the first one that it sorts by."""
    if isinstance(node.variant, Sort):
        first = column_key(Expr(node.variant.sort_exprs()[0].expr()))
        yield from [] if first is None else [first]
    elif isinstance(node.variant, Aggregate):
        for expression in map(strip_aliases, expressions(node.variant.group_by_exprs())):
            key, dated = column_key(expression), date_part(expression)
            yield from [] if key is None else [key]
            yield from [] if dated is None else [dated[1]]
    else:
        yield from window_columns(node.variant)


def _is_source(session: QuerySession, below: Node, column: ColumnKey) -> bool:
    """Return whether a partition field is computed from a column; one whose origin is not known may be."""
    source = origin(below, column)
    if source is None:
        return True
    view = session.divisible.get(table_key(source.scan.variant, session.db_schema))
    return view is not None and view.snapshot.schema.ids[source.name] in view.snapshot.partition_sources
