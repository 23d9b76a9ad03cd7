"""DataFusion's logical plans as a tree of nodes: operations, output columns, columns that pass unchanged, and expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
from datafusion import Expr, LogicalPlan
from datafusion import expr as nodes
from datafusion.expr import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Projection,
    Sort,
    SubqueryAlias,
    TableScan,
    Union,
    WindowExpr,
)

ColumnKey: TypeAlias = tuple[str, str]
"""Identifies a column among those of a node: its relation as one text, and its name."""

LEFT_ONLY = frozenset({"LeftSemi", "LeftAnti"})
RIGHT_ONLY = frozenset({"RightSemi", "RightAnti"})
BOTH_SIDES = frozenset({"Inner", "Left", "Right", "Full"})
MARKED = "LeftMark"
"""Type of a join that tells of each row of the left side whether it has a partner: what IN and EXISTS beside OR become."""


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column as expressions name it: its relation (catalog, schema and table, as far as they are said) and its name."""

    relation: tuple[str, ...]
    name: str

    @property
    def key(self) -> ColumnKey:
        """Return the key that identifies the column among those of a node."""
        return ".".join(self.relation), self.name


@dataclass(frozen=True, eq=False)
class Node:
    """One node of a plan. `variant` is DataFusion's Python class of its kind, None if there is none."""

    plan: LogicalPlan
    variant: Any
    inputs: tuple[Node, ...]

    @classmethod
    def of(cls, plan: LogicalPlan) -> Node:
        """Build the tree of a plan."""
        return cls(plan, _variant(plan), tuple(cls.of(child) for child in plan.inputs()))

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes below it."""
        yield self
        for child in self.inputs:
            yield from child.walk()

    @cached_property
    def said(self) -> str:
        """Return a description of the node in one line, as EXPLAIN shows it."""
        return str(self.plan.display())

    @cached_property
    def outputs(self) -> list[ColumnReference] | None:
        """Its columns in order; None where they are not known."""
        return _outputs(self)


def expressions(raw: Sequence[Any]) -> list[Expr]:
    """Wrap the raw expressions of a variant."""
    return [Expr(expression) for expression in raw]


def column_key(expression: Expr) -> ColumnKey | None:
    """The column that an expression is, by `ColumnReference.key`."""
    if expression.variant_name() != "Column":
        return None
    column = expression.to_variant()
    return column.relation() or "", column.name()


def is_one_row(node: Node) -> bool:
    """Return whether a node has just one row: an aggregate of all rows, and its columns."""
    if isinstance(node.variant, Aggregate):
        return not node.variant.group_by_exprs()
    return isinstance(node.variant, Projection | SubqueryAlias) and is_one_row(node.inputs[0])


def table_key(scan: TableScan, default_schema: str) -> str:
    """Return the table that a scan reads, in the form that sessions use: `schema.table`."""
    _, db_schema, table = scan.fqn()
    return f"{db_schema or default_schema}.{table}"


def strip_aliases(expression: Expr) -> Expr:
    """Return the expression without its aliases."""
    while expression.variant_name() == "Alias":
        expression = Expr(expression.to_variant().expr())
    return expression


def date_part(expression: Expr) -> tuple[str, ColumnKey] | None:
    """Return the part and the column of a `date_part` call; None for any other expression."""
    if expression.variant_name() != "ScalarFunction" or expression.rex_call_operator() != "date_part":
        return None
    part, of = expression.rex_call_operands()
    column = column_key(of)
    if part.variant_name() != "Literal" or column is None:
        return None
    name = part.python_value()
    return str(name.as_py() if isinstance(name, pa.Scalar) else name).lower(), column


def field_inside(expression: Expr) -> tuple[ColumnKey, tuple[str, ...]] | None:
    """Return the column of a `get_field` call, and the path of nested fields that it takes; None for any other expression."""
    if expression.variant_name() != "ScalarFunction" or expression.rex_call_operator() != "get_field":
        return None
    of, *names = expression.rex_call_operands()
    column, literals = column_key(of), [name for name in names if name.variant_name() == "Literal"]
    if column is None or len(literals) < len(names):
        return None
    values = [name.python_value() for name in literals]
    plain = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
    return (column, tuple(plain)) if all(isinstance(value, str) for value in plain) else None


def alias_key(expression: Expr) -> ColumnKey | None:
    """Return the key of an aliased expression above its node; None for an expression without an alias."""
    if expression.variant_name() == "Alias":
        name, whole = expression.to_variant().alias(), expression.schema_name()
        return (whole.removesuffix(f".{name}") if whole != name else ""), name
    return column_key(expression)


def window_columns(window: WindowExpr) -> frozenset[ColumnKey]:
    """Return the columns that all windows of a node partition by."""
    shared: frozenset[ColumnKey] | None = None
    for expression in window.get_window_expr():
        keys = {column_key(part) for part in expressions(window.get_partition_exprs(expression))}
        columns = frozenset(key for key in keys if key is not None)
        shared = columns if shared is None else shared & columns
    return shared or frozenset()


def join_type(join: Any) -> str:
    """Return the type of a join as DataFusion prints it: Inner, Left, LeftSemi and so on."""
    return str(join.join_type())


def is_null_aware(node: Node) -> bool:
    """Return whether a join is NOT IN, each of whose rows depends on whether there is a NULL anywhere on the other side."""
    return node.said.endswith(" null_aware")


def has_subquery(node: Node) -> bool:
    """Return whether expressions of the node, or of one below, contain subqueries."""
    return "Subquery:" in node.plan.display_indent()


# What DataFusion raises of a node that there is no class for in Python.
def sorts_without_columns(plan: LogicalPlan, shown: str) -> bool:
    """Return whether an optimised plan, `shown` without its schemas, takes the first rows of a sort whose rows have no columns left."""
    return _SORT.search(shown) is not None and _BARE_SORT.search(plan.display_indent_schema()) is not None


_SORT = re.compile(r"^\s*Sort: .*fetch=\d+$", re.MULTILINE)
_BARE_SORT = re.compile(r"^\s*Sort: .*fetch=\d+ \[\]$", re.MULTILINE)
_NO_VARIANT = (NotImplementedError, ValueError, TypeError, RuntimeError)


def _variant(plan: LogicalPlan) -> Any:
    try:
        return plan.to_variant()
    except _NO_VARIANT:
        return None


def _outputs(node: Node) -> list[ColumnReference] | None:
    below = [child.outputs for child in node.inputs]
    known = [some for some in below if some is not None]
    if len(known) != len(below):
        return None
    name = _OUTPUTS.get(type(node.variant))
    return None if name is None else name(node.variant, *known)


def _scan_columns(scan: TableScan) -> list[ColumnReference]:
    relation = tuple(part for part in scan.fqn() if part)
    return [ColumnReference(relation, name) for _, name in scan.projection()]


def _aggregate_columns(aggregate: Aggregate, below: list[ColumnReference]) -> list[ColumnReference] | None:
    grouped = expressions(aggregate.group_by_exprs())
    if any(expression.variant_name() == "GroupingSet" for expression in grouped):
        return None
    return _output_names([*grouped, *expressions(aggregate.aggregate_exprs())], below)


def _window_outputs(window: WindowExpr, below: list[ColumnReference]) -> list[ColumnReference]:
    return [
        *below,
        *(ColumnReference((), expression.schema_name()) for expression in expressions(window.get_window_expr())),
    ]


def _join_columns(
    join: Join, left: list[ColumnReference], right: list[ColumnReference]
) -> list[ColumnReference] | None:
    kind = join_type(join)
    if kind in BOTH_SIDES:
        return left + right
    if kind in LEFT_ONLY:
        return left
    if kind == MARKED:
        relations = {reference.relation for reference in right}
        return [*left, ColumnReference(relations.pop() if len(relations) == 1 else (), "mark")]
    return right if kind in RIGHT_ONLY else None


def _output_names(
    expressions_of_node: Sequence[Expr], below: Sequence[ColumnReference]
) -> list[ColumnReference] | None:
    """Return what expressions over the columns `below` are called."""
    known = {reference.key: reference for reference in below}
    columns: list[ColumnReference | None] = []
    for expression in expressions_of_node:
        relation, name = alias_key(expression) or ("", expression.schema_name())
        if column_key(expression) is not None:
            columns.append(known.get((relation, name)))
        else:
            # A relation of several parts cannot be told from one with dots in its name.
            columns.append(None if "." in relation else ColumnReference((relation,) if relation else (), name))
    return [reference for reference in columns if reference is not None] if None not in columns else None


_OUTPUTS: Mapping[type[Any], Callable[..., list[ColumnReference] | None]] = MappingProxyType(
    {
        TableScan: _scan_columns,
        SubqueryAlias: lambda alias, below: [replace(operand, relation=(alias.alias(),)) for operand in below],
        Filter: lambda _, below: below,
        Sort: lambda _, below: below,
        Limit: lambda _, below: below,
        Projection: lambda projection, below: _output_names(expressions(projection.projections()), below),
        Aggregate: _aggregate_columns,
        WindowExpr: _window_outputs,
        Union: lambda _, below, *__: [replace(operand, relation=()) for operand in below],
        Join: _join_columns,
    }
)


LEFT_KEPT = frozenset({"Inner", "Left"}) | LEFT_ONLY
RIGHT_KEPT = frozenset({"Inner", "Right"}) | RIGHT_ONLY
"""Types of joins that return a side's values unchanged; other outer joins may return NULL instead."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Column of a scan: rows that it reads with other values than some have no part in the node's rows with those."""

    scan: Node
    name: str


def origin(node: Node, column: ColumnKey) -> Origin | None:
    """Return the origin of a column of a node; None if its values are computed."""
    find = _ORIGINS.get(type(node.variant))
    return None if find is None else find(node, column)


def _through_scan(node: Node, column: ColumnKey) -> Origin | None:
    return Origin(node, column[1]) if node.variant.fetch() is None else None


def _through_alias(node: Node, column: ColumnKey) -> Origin | None:
    below = node.inputs[0]
    for outer, inner in zip(node.outputs or (), below.outputs or (), strict=True):
        if outer.key == column:
            return origin(below, inner.key)
    return None


def _through_projection(node: Node, column: ColumnKey) -> Origin | None:
    return _origin_among(node, column, expressions(node.variant.projections()))


def _through_aggregate(node: Node, column: ColumnKey) -> Origin | None:
    return _origin_among(node, column, expressions(node.variant.group_by_exprs()))


def _origin_among(node: Node, column: ColumnKey, expressions_of_node: list[Any]) -> Origin | None:
    for expression in expressions_of_node:
        if alias_key(expression) == column:
            inner = column_key(strip_aliases(expression))
            return None if inner is None else origin(node.inputs[0], inner)
    return None


def _through_window(node: Node, column: ColumnKey) -> Origin | None:
    return origin(node.inputs[0], column) if column in window_columns(node.variant) else None


def _through_join(node: Node, column: ColumnKey) -> Origin | None:
    kind = join_type(node.variant)
    for side, kept in zip(node.inputs, (LEFT_KEPT, RIGHT_KEPT), strict=True):
        if kind in kept and any(reference.key == column for reference in side.outputs or ()):
            return origin(side, column)
    return None


_ORIGINS: Mapping[type[Any], Callable[[Node, ColumnKey], Origin | None]] = MappingProxyType(
    {
        TableScan: _through_scan,
        SubqueryAlias: _through_alias,
        Filter: lambda node, column: origin(node.inputs[0], column),
        Projection: _through_projection,
        Aggregate: _through_aggregate,
        WindowExpr: _through_window,
        Join: _through_join,
    }
)


_WITHOUT_OPERANDS = frozenset(
    [
        "Column",
        "Literal",
        "Placeholder",
        "ScalarVariable",
        "Exists",
        "ScalarSubquery",
        "Wildcard",
        "OuterReferenceColumn",
        "LambdaVariable",
    ]
)


def nodes_of(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yield each operator of a plan."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs()
        yield node


def expressions_of(node: LogicalPlan) -> list[Expr]:
    """Return the expressions of one operator, without those of what it reads."""
    match node.to_variant():
        case nodes.Filter() as found:
            return [found.predicate()]
        case nodes.Projection() as found:
            return list(found.projections())
        case nodes.Aggregate() as found:
            return [*found.group_by_exprs(), *found.aggregate_exprs()]
        case nodes.WindowExpr() as found:
            return list(found.get_window_expr())
        case nodes.Sort() as found:
            return [key.expr() for key in found.sort_exprs()]
        case nodes.Join() as found:
            condition = found.filter()
            return [side for sides in found.on() for side in sides] + ([] if condition is None else [condition])
    return []


def operands_of(expression: Expr) -> list[Expr]:
    """Return the operands of an expression; none of one that datafusion-python does not show, such as a subquery."""
    if expression.variant_name() in _WITHOUT_OPERANDS:
        return []
    try:
        return list(expression.rex_call_operands())
    except RuntimeError:
        return []


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """Yield the conditions that an expression joins by AND."""
    if condition.variant_name() == "BinaryExpr" and condition.rex_call_operator() == "AND":
        for part in operands_of(condition):
            yield from conjuncts(part)
    else:
        yield condition
