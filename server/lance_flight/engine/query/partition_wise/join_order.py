"""The order of inner joins, and the row counts of tables from metadata that it is chosen by, as is how DataFusion runs each join.

DataFusion 55 joins as the statement is written, and has no row counts of stored tables.

A tree of inner joins is joined anew, at each step the two sides with the fewest rows together, by the row counts of the tables and by
shares that conditions are taken to leave. A column that joins has as many values as the smallest of the tables that it joins has
rows, as a key of that table has. The order changes only where that makes far fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from types import MappingProxyType

import numpy as np
from datafusion import DataFrame, Expr
from datafusion.expr import Aggregate, EmptyRelation, Filter, Join, Projection, TableScan, Values

from lance_flight.engine.plans.nodes import (
    BOTH_SIDES,
    ColumnKey,
    Node,
    column_key,
    conjuncts,
    expressions,
    is_one_row,
    join_type,
    operands_of,
    strip_aliases,
    table_key,
)
from lance_flight.engine.query.optimising.plan_rebuilding import rebuilt, select_columns
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.table_view import Prunings, Rows
from lance_flight.errors import SqlError, Unsupported
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
