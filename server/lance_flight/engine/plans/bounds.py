"""Bounds of a logical plan: what the optimiser makes of expressions once the columns of subqueries stand in them.

The bounds of a text (`engine.sql.bounds`) hold for each of its queries alone. The optimiser merges projections and moves conditions below
them: there `x` of `SELECT x + x AS x` in itself, twenty levels deep, has a million operators, and a chain of sums overflows the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce

import pyarrow as pa
from datafusion import DataFrame, Expr, LogicalPlan, SessionConfig, SessionContext, col, functions, lit
from datafusion import expr as nodes

from lance_flight.arrow_streams import fixed_bytes, has_open_width
from lance_flight.engine.functions.bounded_functions import GUARDS, MOST_SHORT
from lance_flight.engine.plans.nodes import expressions_of, nodes_of, operands_of
from lance_flight.engine.sql.bounds import MOST_EXPANDED
from lance_flight.errors import LimitExceeded, Unsupported

MOST_OPERATORS = 10_000
"""Most operators of the conditions of a statement, all levels of subqueries counted."""
DEEPEST_OPERATORS = 1_000
"""Most operators within each other, those of the subqueries that they read included."""
DEEPEST_PLAN = 500
"""Most relational operators that read each other."""
MOST_GROWTH = 1 << 30
"""Most bytes of a value that is made of the literals of a plan, in the worst case."""
MOST_WINDOW_BYTES = 256 << 20
"""Most bytes that a window which collects values makes of all rows."""
Run = Callable[[DataFrame], Iterable[pa.RecordBatch]]
"""Runs a query of its own for a check."""
_LEAST_ITEM = 8
_COLLECTING = ("string_agg", "array_agg")
COLLECTING = re.compile(rf"\b(?:{'|'.join(_COLLECTING)})\(")
"""Aggregates whose values are as long as all that they read."""
_WINDOW = "WindowAggr"
_LONG_PLAN = 16 << 10
"""Characters of a plan from which on it may have long constants."""
UNNESTED = "__unnest_placeholder("
"""What columns with the lists of UNNEST are called, whose values stand in rows of their own."""
SKETCH = "approx_percentile_cont"
"""Word of the aggregates that take a number of centroids."""
_CENTROIDS = {SKETCH: 2, f"{SKETCH}_with_weight": 3}
"""Place of the number of centroids among the arguments, by aggregate."""
COSTLY_OPERATORS = 500
"""Operators from which on planning may take long."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of an expression: its `operators`, how many of them are within each other (`depth`), and how often it writes a text or list."""

    operators: int = 0
    depth: int = 0
    growth: int = 1

    def __bool__(self) -> bool:
        return self.operators > 0 or self.growth > 1

    def __or__(self, other: Size) -> Size:
        return Size(max(self.operators, other.operators), max(self.depth, other.depth), max(self.growth, other.growth))


_NONE = Size()
Sizes = Mapping[str, Size]
"""Sizes of the columns of a relation, by `_key` of their names, without those that are read from tables as they are."""


def check_plan(plan: LogicalPlan) -> bool:
    """Refuse a plan that optimising expands too far (`LimitExceeded`); return whether it may take long to optimise."""
    read = _PlanReader()
    read.sizes(with_joined_subqueries(plan))
    return read.operators > COSTLY_OPERATORS


def check_sent_plan(plan: LogicalPlan) -> int:
    """Refuse a plan of a client's whose functions have no guards where they need one; return how often it writes a value side by side.

    The text of SQL is given guards, and says how far its literals grow (`engine.sql.bounds`); a plan has no text.
    """
    read = _SentPlanReader()
    sizes = read.sizes(with_joined_subqueries(plan))
    return max(read.growth, _largest(sizes).growth)


def with_joined_subqueries(plan: LogicalPlan) -> LogicalPlan:
    """Return a plan in whose joins the operators of subqueries are seen, which datafusion-python does not show in expressions."""
    return with_coercions(plan) if _SUBQUERY in plan.display_indent() else plan


def with_coercions(plan: LogicalPlan) -> LogicalPlan:
    """Return a plan with the casts that DataFusion adds, and with joins in place of subqueries."""
    return _joining().create_dataframe_from_logical_plan(plan).optimized_logical_plan()


@cache
def _joining() -> SessionContext:
    """Return a context that optimises a plan by making joins of its subqueries and by nothing else."""
    config = SessionConfig({"datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery": "false"})
    context = SessionContext(config)
    for rule in OTHER_RULES:
        context.remove_optimizer_rule(rule)
    return context


def constant_bytes(plan: LogicalPlan) -> int:
    """Return the bytes of the long constants of an optimised plan: each row may have a copy of what calls have made while it was planned."""
    if len(plan.display_indent()) < _LONG_PLAN:
        return 0
    size, nodes_left = 0, list[tuple[LogicalPlan, LogicalPlan | None]]([(plan, None)])
    while nodes_left:
        node, above = nodes_left.pop()
        nodes_left += [(below, node) for below in node.inputs()]
        waiting = [expression for expression in expressions_of(node) if not _is_taken_apart(expression, node, above)]
        while waiting:
            part = waiting.pop()
            if part.variant_name() == "Literal":
                size += _long_bytes(part)
            elif part.variant_name() != "InList":
                waiting += operands_of(part)
    return size


def _is_taken_apart(expression: Expr, node: LogicalPlan, above: LogicalPlan | None) -> bool:
    """Return whether an expression of the only row of a node is a list of UNNEST above it, which does not return the list itself."""
    unnest = None if above is None else above.to_variant()
    name = expression.schema_name()
    if not isinstance(unnest, nodes.Unnest) or not name.startswith(UNNESTED) or name in unnest.schema().field_names():
        return False
    return all(isinstance(below.to_variant(), nodes.EmptyRelation) for below in node.inputs())


def _long_bytes(literal: Expr) -> int:
    """Return the bytes of a literal that the text of a statement does not have; 0 for a short one."""
    value = literal.python_value()
    held = value.values if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar) else value
    size = 0 if held is None else held.nbytes if isinstance(held, pa.Array) else len(str(held))
    return size if size > MOST_SHORT else 0


def check_windows(plan: LogicalPlan, frame_of: Callable[[LogicalPlan], DataFrame], run: Run) -> None:
    """Refuse windows that collect too much (`LimitExceeded`): a row has all that its partition holds, or holds up to there.

    DataFusion makes the values of all rows at once. So what they would take is counted before, by queries over the same rows.
    """
    text = plan.display_indent()
    if COLLECTING.search(text) is None or _WINDOW not in text:
        return
    for node in nodes_of(with_joined_subqueries(plan)):
        windows = node.to_variant()
        if not isinstance(windows, nodes.WindowExpr):
            continue
        for window in windows.get_window_expr():
            name = windows.window_func_name(window)
            if name in _COLLECTING:
                value, *keys = map(Expr, [windows.get_args(window)[0], *windows.get_partition_exprs(window)])
                size = _window_bytes(frame_of(node.inputs()[0]), value, keys, run)
                if size > MOST_WINDOW_BYTES:
                    raise LimitExceeded(
                        f"{name} OVER would make {size} bytes: each row has a copy of what its partition holds; expected at most"
                        f" {MOST_WINDOW_BYTES}: compute {name} by GROUP BY in a query of FROM, and join it"
                    )


def _window_bytes(frame: DataFrame, value: Expr, keys: Sequence[Expr], run: Run) -> int:
    """Return the bytes that a window over the rows of a frame makes at most: the rows of each partition times its bytes."""
    rows = frame.select(value.alias("value"), *(key.alias(f"k{place}") for place, key in enumerate(keys)))
    size = _value_bytes(col("value"), rows.schema().field("value").type)
    count, total = functions.count_star().alias("count"), functions.sum(size).alias("size")
    parts = rows.aggregate([col(f"k{place}") for place in range(len(keys))], [count, total])
    made = parts.aggregate([], [functions.sum(col("count").cast(pa.float64()) * col("size"))])
    return int(sum(batch.column(0)[0].as_py() or 0 for batch in run(made)))


def _value_bytes(value: Expr, kind: pa.DataType) -> Expr:
    """Return an expression for the bytes of a value, as far as its type lets them be counted."""
    if pa.types.is_struct(kind):
        return reduce(Expr.__add__, (_value_bytes(value[field.name], field.type) for field in kind), lit(_LEAST_ITEM))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if not has_open_width(kind.value_type) or pa.types.is_nested(kind.value_type):
            width = lit(max(fixed_bytes(kind.value_type), _LEAST_ITEM))
            return functions.coalesce(functions.cardinality(value), lit(0)) * width
        value = functions.array_to_string(value, lit(","))
    elif not has_open_width(kind) or pa.types.is_nested(kind):
        return lit(max(fixed_bytes(kind), _LEAST_ITEM))
    return functions.coalesce(functions.octet_length(value.cast(pa.string())), lit(0)) + _LEAST_ITEM


class _PlanReader:
    """Adds up the sizes of the conditions of a plan, and counts its relations."""

    def __init__(self) -> None:
        self.operators = 0
        self._relations = 0

    def sizes(self, plan: LogicalPlan) -> Sizes:
        """Return the sizes of the columns of a plan."""
        # Without recursion: a plan may be deeper than Python's stack.
        waiting: list[tuple[LogicalPlan, int, bool]] = [(plan, 1, False)]
        read: list[Sizes] = []
        while waiting:
            node, depth, is_read = waiting.pop()
            inputs = node.inputs()
            if is_read:
                below = read[len(read) - len(inputs) :]
                del read[len(read) - len(inputs) :]
                read.append(self._columns(node, below))
                continue
            self._check_shape(depth, is_leaf=not inputs)
            waiting.append((node, depth, True))
            waiting += [(below, depth + 1, False) for below in reversed(inputs)]
        return read[0]

    def _check_shape(self, depth: int, *, is_leaf: bool) -> None:
        self._relations += is_leaf
        if self._relations > MOST_EXPANDED:
            raise LimitExceeded(
                f"the statement reads more than {MOST_EXPANDED} relations once its views stand where they are named;"
                f" expected at most {MOST_EXPANDED}"
            )
        if depth > DEEPEST_PLAN:
            raise LimitExceeded(
                f"the statement has more than {DEEPEST_PLAN} operators on relations within each other; expected at most {DEEPEST_PLAN}"
            )

    def _columns(self, plan: LogicalPlan, inputs: list[Sizes]) -> Sizes:
        """Return the sizes of the columns of one operator, and count its conditions."""
        _check_subqueries(plan)
        below = _merge(inputs)
        match plan.to_variant():
            case nodes.Projection() as node:
                return self._named_input(node.projections(), below)
            case nodes.Filter() as node:
                self._count([node.predicate()], below)
            case nodes.Join() as node:
                condition = node.filter()
                on = [side for sides in node.on() for side in sides]
                self._count([*on, condition] if condition is not None else on, below)
            case nodes.Sort() as node:
                self._count([key.expr() for key in node.sort_exprs()], below)
            case nodes.Aggregate() as node:
                _check_sketches(node.aggregate_exprs())
                return _merge([below, self._named_input([*node.group_by_exprs(), *node.aggregate_exprs()], below)])
            case nodes.WindowExpr() as node:
                _check_sketches(node.get_window_expr())
            case nodes.Union() as node:
                # By their places, which are not the names: so each may be the largest.
                largest = _largest(below)
                return dict.fromkeys(map(_key, node.schema().field_names()), largest) if largest else {}
        return below

    def _named_input(self, expressions: Iterable[Expr], below: Sizes) -> Sizes:
        sizes = ({_key(expression.schema_name()): self._size(expression, below)} for expression in expressions)
        return _merge(size for size in sizes if any(size.values()))

    def _count(self, conditions: Iterable[Expr], below: Sizes) -> None:
        self.operators += sum(self._size(condition, below).operators for condition in conditions)
        if self.operators > MOST_OPERATORS:
            raise LimitExceeded(
                f"the conditions of the statement have {self.operators} operators once the columns of its subqueries and views stand where"
                f" they are named; expected at most {MOST_OPERATORS}"
            )

    def _size(self, expression: Expr, below: Sizes) -> Size:
        operators = deepest = 0
        waiting = [(expression, 0)]
        while waiting:
            part, depth = waiting.pop()
            kind = part.variant_name()
            if kind in _LEAVES:
                inner = below.get(_key(part.schema_name()), _NONE)
            elif kind == _OUTER:
                inner = below.get(_key(part.schema_name().removesuffix(")")), _NONE)
            else:
                inner = Size(1, 1)
            if kind not in _WITHOUT_OPERANDS:
                waiting += [(operand, depth + 1) for operand in operands_of(part)]
            operators += inner.operators
            deepest = max(deepest, depth + inner.depth)
        if deepest > DEEPEST_OPERATORS:
            raise LimitExceeded(
                f"an expression of the statement has {deepest} operators within each other once the columns of its subqueries and views stand"
                f" where they are named; expected at most {DEEPEST_OPERATORS}"
            )
        return Size(operators, deepest)


class _SentPlanReader(_PlanReader):
    """Reads how often values are written, and refuses calls that need a guard."""

    def __init__(self) -> None:
        super().__init__()
        self.growth = 1

    def _columns(self, plan: LogicalPlan, inputs: list[Sizes]) -> Sizes:
        match plan.to_variant():
            case nodes.WindowExpr() as node:
                below = _merge(inputs)
                return _merge([below, self._named_input(node.get_window_expr(), below)])
        return super()._columns(plan, inputs)

    def _size(self, expression: Expr, below: Sizes) -> Size:
        size = super()._size(expression, below)
        # Without recursion: an expression may be deeper than Python's stack.
        waiting: list[tuple[Expr, Sequence[Expr], bool]] = [(expression, operands_of(expression), False)]
        grown: list[int] = []
        while waiting:
            part, operands, is_read = waiting.pop()
            if not is_read:
                waiting.append((part, operands, True))
                waiting += [(operand, operands_of(operand), False) for operand in reversed(operands)]
                continue
            first = len(grown) - len(operands)
            of, grown = grown[first:], grown[:first]
            inner = below.get(_key(part.schema_name()), _NONE).growth if part.variant_name() in _LEAVES else 1
            grown.append(_growth(part, operands, of) if operands else inner * _literal_bytes(part))
            if grown[-1] > MOST_GROWTH:
                raise LimitExceeded(
                    "the plan may make values of more than a gigabyte by concatenating, repeating and replacing texts and lists;"
                    " send smaller ones"
                )
        self.growth = max(self.growth, *grown)
        return Size(size.operators, size.depth, *grown)


def _growth(part: Expr, operands: Sequence[Expr], of: Sequence[int]) -> int:
    """Return how often an operator may write a value, by those of its operands; `LimitExceeded` for a call that only SQL's text has guards for."""
    kind, name = part.variant_name(), part.schema_name().partition("(")[0].lower()
    if (kind == "BinaryExpr" and part.rex_call_operator() == "||") or (kind, name) == ("ScalarFunction", "concat"):
        return sum(of)
    if kind != "ScalarFunction" or name not in _BOUNDED:
        return max(of)
    literals = [_literal(operands[place]) for place in _BOUNDED[name] if place < len(operands)]
    for place, literal in zip(_BOUNDED[name], literals, strict=False):
        if literal is None or literal > MOST_SHORT:
            raise LimitExceeded(
                f"argument {place + 1} of {name} is no literal up to {MOST_SHORT} (a number, or characters), which a plan in Substrait"
                " needs there; send the query as SQL"
            )
    return sum(of) * max(1, *(literal or 1 for literal in literals), 1)


def _literal(part: Expr) -> int | None:
    """Return the number that a literal is, or the length of its text; None for any other expression."""
    while part.variant_name() in {"Cast", "TryCast", "Alias"}:
        (part,) = part.rex_call_operands()
    if part.variant_name() != "Literal":
        return None
    value = part.python_value().as_py()
    return abs(int(value)) if isinstance(value, int | float) else len(value) if isinstance(value, str) else 0


def _literal_bytes(part: Expr) -> int:
    length = _literal(part)
    return (
        max(1, length or 1) if part.variant_name() == "Literal" and isinstance(part.python_value().as_py(), str) else 1
    )


_JOINING = frozenset(["concat_ws", "make_array", "struct", "named_struct", "array_concat", "list_concat"])
_BOUNDED: Mapping[str, Sequence[int]] = {
    **{name: sorted(places) for name, places in GUARDS.items()},
    **dict.fromkeys(("repeat", "array_repeat", "list_repeat"), (1,)),
    **dict.fromkeys(("range", "generate_series"), (0, 1, 2)),
    **dict.fromkeys(_JOINING - GUARDS.keys(), ()),
}
"""Places of the arguments that have to be small literals, by function."""
OTHER_RULES = frozenset(
    [
        *("optimize_unions", "unions_to_filter", "simplify_expressions"),
        *("replace_distinct_aggregate", "eliminate_join", "extract_equijoin_predicate"),
        *("eliminate_duplicated_expr", "eliminate_filter", "eliminate_cross_join"),
        *("eliminate_limit", "propagate_empty_relation", "filter_null_join_keys"),
        *("eliminate_outer_join", "push_down_limit", "push_down_filter"),
        *("single_distinct_aggregation_to_group_by", "eliminate_group_by_constant", "common_sub_expression_eliminate"),
        *("extract_leaf_expressions", "push_down_leaf_projections", "optimize_projections"),
    ]
)
"""Rules of DataFusion's optimiser that make no joins of subqueries."""
JOINING_RULES = frozenset(
    ["rewrite_set_comparison", "decorrelate_predicate_subquery", "scalar_subquery_to_join", "decorrelate_lateral_join"]
)
_SUBQUERY = "<subquery>"
_PROJECTION = "Projection:"
_OUTER = "Outer"
_SELECTS_OUTER = re.compile(r"Projection: .*\bouter_ref\(")
_LEAVES = frozenset(["Column", "Literal", "Placeholder", "ScalarVariable"])
_WITHOUT_OPERANDS = _LEAVES | {_OUTER, "ScalarSubquery", "Exists", "GroupingSet", "Wildcard"}
"""Kinds of expressions whose operands datafusion-python does not give, or that have none."""


def _check_subqueries(plan: LogicalPlan) -> None:
    """Refuse subqueries of an operator that read others, whose sizes datafusion-python does not tell."""
    line = plan.display()
    if _SUBQUERY not in line:
        return
    # A literal of the client's may have the word, too: so more is counted than there is, never less.
    inputs = sum(below.display_indent().count(_PROJECTION) for below in plan.inputs())
    if plan.display_indent().count(_PROJECTION) - line.count(_PROJECTION) - inputs > 1:
        if _SELECTS_OUTER.search(plan.display_indent()):
            raise Unsupported(
                "a subquery of IN, ANY or ALL whose SELECT list names a column of the query around it is not supported; write"
                " EXISTS (SELECT 1 FROM u WHERE t.a = u.b - t.c AND …)"
            )
        raise Unsupported(
            "a subquery of a SELECT list, ON, ORDER BY, GROUP BY, an aggregate or a window reads another subquery or a view, or there are two of them;"
            " write them in FROM or WITH, and join them"
        )


def _check_sketches(aggregates: Iterable[Expr]) -> None:
    """Refuse percentiles of too many centroids (`LimitExceeded`): DataFusion makes room for all of them in each group, before it counts it."""
    waiting = [aggregate for aggregate in aggregates if SKETCH in aggregate.schema_name()]
    while waiting:
        part = waiting.pop()
        operands = operands_of(part)
        waiting += operands
        name = part.schema_name().partition("(")[0]
        centroids = operands[_CENTROIDS[name] :] if name in _CENTROIDS else []
        for number in map(_literal, centroids):
            if number is None or number > MOST_SHORT:
                raise LimitExceeded(f"the number of centroids of {name} must be a literal up to {MOST_SHORT}")


def _key(name: str) -> str:
    """Return what a column is found by: the end of its name, which is the same with its relation and without it."""
    return name.rpartition(".")[2]


def _merge(relations: Iterable[Sizes]) -> dict[str, Size]:
    merged: dict[str, Size] = {}
    for sizes in relations:
        for name, size in sizes.items():
            merged[name] = merged.get(name, _NONE) | size
    return merged


def _largest(sizes: Sizes) -> Size:
    return reduce(Size.__or__, sizes.values(), _NONE)
