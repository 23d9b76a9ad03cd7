"""Rebuilds the plan above the parts that are run in groups, over the rows of these parts.

Every node is made anew of the very expressions that it had. They name columns with their relations, which the rows of a
part do not have: those are given by aliases with a relation, which Python can only say in DataFusion's protobuf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionContext, lit
from datafusion import functions as f
from datafusion.expr import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Projection,
    Sort,
    SubqueryAlias,
    Union,
    Unnest,
    WindowExpr,
)

from lance_flight.engine.plans.bounds import UNNESTED
from lance_flight.engine.plans.nodes import (
    MARKED,
    ColumnReference,
    Node,
    column_key,
    expressions,
    is_null_aware,
    join_type,
)
from lance_flight.engine.query.tables.provider import ComputedTable
from lance_flight.engine.sql.references import quote_parts
from lance_flight.errors import Unsupported
from lance_flight.protobuf_wire import encode_field


def compute_part(schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> ComputedTable:
    """Return the rows of a part as a table for DataFusion: one lane, for which `batches` is called anew at each read.

    Their columns are called as in `schema`.
    """

    def rows(_: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in batches():
            # Arrow takes a batch that is made of no columns for one without rows.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.columns else batch

    return ComputedTable(schema, [rows])


def number_columns(schema: pa.Schema) -> pa.Schema:
    """Return the same columns, named by their positions."""
    return pa.schema([field.with_name(f"c{place}") for place, field in enumerate(schema)])


def name_columns(context: SessionContext, frame: DataFrame, columns: Sequence[ColumnReference]) -> DataFrame:
    """The rows of a frame, with its columns called as expressions above a part name them."""
    names = [_column(ColumnReference((), name)) for name in frame.schema().names]
    return frame.select(*(Expr.from_bytes(_alias(n, c), context) for n, c in zip(names, columns, strict=True)))


def vary_columns(context: SessionContext, frame: DataFrame, columns: Sequence[ColumnReference]) -> DataFrame:
    """The rows of a frame, with columns that DataFusion takes for other ones in each row, whatever is known of them."""
    values = (Expr.from_bytes(_column(column), context) for column in columns)
    varied = frame.select(
        *(f.when(f.random() < lit(2.0), each).end().alias(f"c{place}") for place, each in enumerate(values))
    )
    return name_columns(context, varied, columns)


def rebuilt(
    context: SessionContext,
    node: Node,
    replaced: Mapping[Node, DataFrame],
    exchanged: frozenset[Node] = frozenset(),
) -> DataFrame:
    """Rebuild the plan below `node` with frames in place of some nodes, and with the sides of `exchanged` joins swapped.

    `Unsupported` if it cannot be built again.
    """
    if node in replaced:
        return replaced[node]
    if not any(below in replaced or below in exchanged for below in node.walk()):
        return context.create_dataframe_from_logical_plan(node.plan)
    inputs = [rebuilt(context, child, replaced, exchanged) for child in node.inputs]
    build = _BUILDERS.get(type(node.variant))
    if build is None:
        raise _Unbuildable(node)
    frame = _rebuild_join(node, *inputs, exchange=True) if node in exchanged else build(node, *inputs)
    # DataFusion groups by the columns that depend on those in GROUP BY as well, and so gives more than the node has.
    if node not in exchanged and (node.outputs is None or len(node.outputs) == len(frame.schema())):
        return frame
    return select_columns(context, frame, node.outputs or ())


def select_columns(context: SessionContext, frame: DataFrame, columns: Sequence[ColumnReference]) -> DataFrame:
    """Return some columns of a frame, as expressions name them."""
    return frame.select(*(Expr.from_bytes(_column(column), context) for column in columns))


class _Unbuildable(Unsupported):
    """A node that cannot be rebuilt over the rows of groups."""

    def __init__(self, node: Node) -> None:
        super().__init__(f"{node.said}: it cannot be planned over the rows of groups")


def _rebuild_projection(node: Node, frame: DataFrame) -> DataFrame:
    if _GROUPING in node.said:  # a frame leaves it out
        raise _Unbuildable(node)
    return frame.select(*expressions(node.variant.projections()))


def _rebuild_filter(node: Node, frame: DataFrame) -> DataFrame:
    return frame.filter(Expr(node.variant.predicate()))


def _rebuild_alias(node: Node, frame: DataFrame) -> DataFrame:
    alias = node.variant.alias()
    if "." in alias:  # of a view in its schema, or within one name
        below = SessionContext().create_dataframe_from_logical_plan(node.inputs[0].plan)
        alias = alias if below.alias(alias).logical_plan() == node.plan else quote_parts(alias)
    return frame.alias(alias)


def _rebuild_aggregate(node: Node, frame: DataFrame) -> DataFrame:
    return frame.aggregate(expressions(node.variant.group_by_exprs()), expressions(node.variant.aggregate_exprs()))


def _rebuild_sort(node: Node, frame: DataFrame) -> DataFrame:
    sort = node.variant
    ordered = frame.sort(*(Expr(by.expr()).sort(by.ascending(), by.nulls_first()) for by in sort.sort_exprs()))
    return ordered if sort.get_fetch_val() is None else ordered.limit(sort.get_fetch_val())


def _rebuild_limit(node: Node, frame: DataFrame) -> DataFrame:
    skip, fetch = (
        None if raw is None else Expr(raw).python_value() for raw in (node.variant.skip(), node.variant.fetch())
    )
    if fetch is None:
        raise _Unbuildable(node)
    return frame.limit(_number(fetch), 0 if skip is None else _number(skip))


def _number(value: Any) -> int:
    return int(value.as_py() if isinstance(value, pa.Scalar) else value)


def _rebuild_union(_: Node, first: DataFrame, *others: DataFrame) -> DataFrame:
    return reduce(lambda frame, other: frame.union(other), others, first)


def _rebuild_unnest(node: Node, frame: DataFrame) -> DataFrame:
    columns = node.inputs[0].outputs or ()
    lists = [reference.name for reference in columns if reference.name.startswith(UNNESTED)]
    if node.said != f"Unnest: lists[{', '.join(f'{name}|depth=1' for name in lists)}] structs[]":
        raise _Unbuildable(node)
    context = SessionContext()
    made = [
        column.alias(f"{reference.name[:-1]},depth=1)") if reference.name in lists else column
        for reference in columns
        for column in [Expr.from_bytes(_column(reference), context)]
    ]
    return frame.unnest_columns(*lists, preserve_nulls=False).select(*made)


def _rebuild_join(node: Node, left: DataFrame, right: DataFrame, *, exchange: bool = False) -> DataFrame:
    condition = node.variant.filter()
    if join_type(node.variant) == MARKED:
        return _rebuild_marked(node, left, right)
    compare = _COMPARED_WHOLE.get(join_type(node.variant))
    if compare is not None and condition is None and _compares_whole_rows(node):
        return compare(left, right)
    conditions = [] if condition is None else [Expr(condition)]
    return (
        join_frames(node, right, left, conditions, exchange=True)
        if exchange
        else join_frames(node, left, right, conditions)
    )


def _rebuild_marked(node: Node, left: DataFrame, right: DataFrame) -> DataFrame:
    """Rebuild a join that marks rows with a partner: as a left join with the distinct keys, of which a partner has no NULL."""
    join, context = node.variant, SessionContext()
    keys = {column_key(key): key for key in (Expr(theirs) for _, theirs in join.on())}
    is_of_keys = bool(keys) and None not in keys and not join.null_equals_null()
    if join.filter() is not None or not is_of_keys or is_null_aware(node) or node.outputs is None:
        raise _Unbuildable(node)
    *columns, mark = node.outputs
    equalities = [Expr(mine) == Expr(theirs) for mine, theirs in join.on()]
    frame = left.join_on(right.select(*keys.values()).distinct(), *equalities, how="left")
    is_marked = next(iter(keys.values())).is_not_null().to_bytes()
    selected = [*map(_column, columns), _alias(is_marked, mark)]
    return frame.select(*(Expr.from_bytes(plan, context) for plan in selected))


def _compares_whole_rows(node: Node) -> bool:
    """Return whether a join compares all columns of one side with those of the other, NULL with NULL: as INTERSECT and EXCEPT do."""
    if not node.variant.null_equals_null():
        return False
    pairs = [(column_key(Expr(mine)), column_key(Expr(theirs))) for mine, theirs in node.variant.on()]
    sides = [[reference.key for reference in side.outputs or ()] for side in node.inputs]
    return [mine for mine, _ in pairs] == sides[0] and [theirs for _, theirs in pairs] == sides[1]


def can_be_joined(node: Node) -> bool:
    """Return whether a join can be made of frames."""
    join = node.variant
    return join_type(join) in _JOINS and not join.null_equals_null() and not is_null_aware(node)


def join_frames(
    node: Node, left: DataFrame, right: DataFrame, conditions: Sequence[Expr], *, exchange: bool = False
) -> DataFrame:
    """Join two frames as a node joins its sides, with these conditions beside its equalities, or with its sides swapped."""
    if not can_be_joined(node):
        raise _Unbuildable(node)
    join, kind = node.variant, _JOINS[join_type(node.variant)]
    all_of = [*(Expr(mine) == Expr(theirs) for mine, theirs in join.on()), *conditions]
    if not all_of and kind != "inner":
        all_of = [lit(True)]  # noqa: FBT003 - DataFusion refuses an outer join without any
    return left.join_on(right, *all_of, how=_EXCHANGED.get(kind, kind) if exchange else kind)


_JOINS = MappingProxyType(
    {"Inner": "inner", "Left": "left", "Right": "right", "Full": "full", "LeftSemi": "semi", "LeftAnti": "anti"}
)
_COMPARED_WHOLE: Mapping[str, Callable[[DataFrame, DataFrame], DataFrame]] = MappingProxyType(
    {"LeftSemi": DataFrame.intersect, "LeftAnti": DataFrame.except_all}
)
_GROUPING = "__grouping_id"
"""Column of an aggregate that tells which of its columns a row is grouped by."""
_EXCHANGED = MappingProxyType({"left": "right", "right": "left"})
_BUILDERS: Mapping[type[Any], Callable[..., DataFrame]] = MappingProxyType(
    {
        Projection: _rebuild_projection,
        Filter: _rebuild_filter,
        SubqueryAlias: _rebuild_alias,
        Aggregate: _rebuild_aggregate,
        WindowExpr: lambda node, frame: frame.window(*expressions(node.variant.get_window_expr())),
        Distinct: lambda _, frame: frame.distinct(),
        Sort: _rebuild_sort,
        Limit: _rebuild_limit,
        Union: _rebuild_union,
        Unnest: _rebuild_unnest,
        Join: _rebuild_join,
    }
)


def _alias(source: bytes, column: ColumnReference) -> bytes:
    """`source AS relation.column`: LogicalExprNode.alias over an expression in datafusion.proto."""
    return encode_field(2, encode_field(1, source) + encode_field(2, column.name.encode()) + _relation(column.relation))


def _column(column: ColumnReference) -> bytes:
    """LogicalExprNode.column, its relation as SQL writes it."""
    relation = quote_parts(*column.relation)
    named = encode_field(1, column.name.encode())
    return encode_field(1, named + encode_field(2, encode_field(1, relation.encode())) if relation else named)


def _relation(parts: Sequence[str]) -> bytes:
    """Encode an AliasNode.relation: a TableReference that is bare, partial or full."""
    if not parts:
        return b""
    fields = b"".join(encode_field(place, part.encode()) for place, part in enumerate(parts, 1))
    return encode_field(3, encode_field(len(parts), fields))
