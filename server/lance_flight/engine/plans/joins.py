"""Joins of a plan that DataFusion 55 runs wrongly: of subqueries, and below conditions on their result. Each is planned otherwise, or refused.

**Subqueries.** From one that names columns of the query around it (a correlated one) it drops what is about all of its rows: the row
that an aggregate without GROUP BY has where nothing matches, HAVING of such an aggregate, OFFSET. NOT IN over a correlated subquery
returns rows that are compared with NULL, and IN of a constant may be no join at all; comparisons with ANY and ALL in their place are
right (`engine.compat.memberships`). datafusion-python shows subqueries in the text of a plan alone.

**Conditions** on the result of a join. It moves them below the join by the names of columns as it makes a physical plan. Those of inner
joins are below them already, unless the rule `push_down_filter` was taken away. Where both sides have a column of that name, the
condition may come to the wrong one, and rows are lost. A merge join takes no conditions from above; one that has a condition itself
reads wrong columns (https://github.com/apache/datafusion/issues/24414). Unnecessary with a release of
https://github.com/apache/datafusion/pull/25259.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from datafusion import Expr, LogicalPlan, SessionContext
from datafusion import expr as nodes

from lance_flight.engine.plans.nodes import nodes_of, operands_of
from lance_flight.errors import SqlError, Unsupported

_USE = re.compile(r"(?:\b(?P<word>NOT IN|IN|EXISTS|ANY|ALL) )?\(<subquery>\)")
_NOT_IN = "NOT IN (<subquery>)"
_NOT_EXISTS = "NOT EXISTS (<subquery>)"
_KEYED_JOIN = re.compile(r"(?:Left|Right)Anti Join: (?! *Filter: )(?!null_aware)\S")
_RELATION = re.compile(r"^\s*(?:TableScan|SubqueryAlias): (?P<name>\S+)")
_OUTER = "outer_ref("
_SUBQUERY = "Subquery:"
_AGGREGATE = "Aggregate:"
_WHERE = "a subquery that names columns of the query around it"
_OVER_ONE_ROW = {
    "": None,
    "EXISTS": f"EXISTS over an aggregate without GROUP BY in {_WHERE} is always true; leave it out, or write GROUP BY",
}
_COMPARED_WITH_ONE_ROW = (
    f"IN, ANY and ALL over an aggregate without GROUP BY in {_WHERE} are not supported;"
    " it has one row, which = or <> compare: x = (SELECT count(*) …)"
)
_HAVING = (
    f"HAVING without GROUP BY in {_WHERE} is not supported; write the condition as a value:"
    " CASE WHEN count(*) > 1 THEN max(y) END in place of max(y)"
)


@dataclass(frozen=True, slots=True)
class _Subquery:
    """Subquery of a plan: the word before its bracket, and the operators in it from its top, each with its indentation.

    `around` are those that the query around it reads, after it in the text of the plan.
    """

    word: str
    lines: Sequence[str]
    around: Sequence[str]

    @property
    def is_correlated(self) -> bool:
        return any(_OUTER in line for line in self.lines)

    def operators(self) -> list[str]:
        """Return the operators from its top down to its first aggregate, or to the first that reads no single one."""
        operators: list[str] = []
        depth = _depth(self.lines[0]) if self.lines else 0
        for place, line in enumerate(self.lines):
            if _depth(line) != depth:
                continue
            operators.append(line.strip())
            is_one = sum(_depth(each) == depth + 2 for each in self.lines[place + 1 :]) == 1
            if operators[-1].startswith(_AGGREGATE) or not is_one:
                break
            depth += 2
        return operators


def has_correlated_not_in(plan: LogicalPlan) -> bool:
    """Return whether a NOT IN is over a correlated subquery; `Unsupported` for correlated subqueries that have no right plan.

    The plan is one that was not optimised.
    """
    text: str = plan.display_indent()
    if "<subquery>" not in text or _OUTER not in text:
        return False
    correlated = [subquery for subquery in _subqueries(text.splitlines()) if subquery.is_correlated]
    for subquery in correlated:
        _check(subquery)
    return any(subquery.word == "NOT IN" for subquery in correlated)


def has_constant_not_in(plan: LogicalPlan, optimised: LogicalPlan) -> bool:
    """Return whether a NOT IN compares a constant: it becomes no join with a key, and what is NULL is forgotten."""
    text = plan.display_indent()
    if _NOT_IN not in text:
        return False
    wanted: int = text.count(_NOT_IN) + text.count(_NOT_EXISTS)
    # EXCEPT is such a join as it is written.
    return wanted > len(_KEYED_JOIN.findall(optimised.display_indent())) - len(_KEYED_JOIN.findall(text))


def has_shared_names(plan: LogicalPlan) -> bool:
    """Return whether a comparison with ANY or ALL reads a table of a name that the query around it has, too.

    DataFusion takes the columns of both for those of the subquery: `id <> ALL (SELECT id FROM t)` compares t.id with itself.
    """
    text = plan.display_indent()
    if " ANY (<subquery>)" not in text and " ALL (<subquery>)" not in text:
        return False
    is_shared = False
    for subquery in _subqueries(text.splitlines()):
        shared = _relations(subquery.lines) & _relations(subquery.around) if subquery.word in {"ANY", "ALL"} else set()
        if shared and subquery.is_correlated:
            raise Unsupported(
                f"a subquery that is compared with IN, ANY or ALL reads {min(shared)!r}, as does the query around it, of which it"
                " names columns; give one of them an alias"
            )
        is_shared |= bool(shared)
    return is_shared


def _relations(lines: Sequence[str]) -> set[str]:
    """Return the names that the relations of some operators have outside of them."""
    names: set[str] = set()
    hidden = len(max(lines, key=len, default="")) + 1
    for line in lines:
        if _depth(line) <= hidden:
            hidden = len(line) + 1
        named = _RELATION.match(line)
        if named is not None and _depth(line) <= hidden:
            names.add(named["name"].rpartition(".")[2])
            hidden = _depth(line)
    return names


def is_ambiguous(message: str) -> bool:
    """Return whether DataFusion refuses a query because a name is that of columns of several tables."""
    return "mbiguous" in message


def is_about_membership(message: str) -> bool:
    """Return whether DataFusion refuses a query because it cannot make a join of IN over a subquery."""
    return any(said in message for said in ("__correlated_sq_", "InSubquery(", "single expression required"))


def _check(subquery: _Subquery) -> None:
    """Refuse a correlated subquery of which DataFusion drops a part."""
    operators = subquery.operators()
    if any(line.startswith("Limit:") and not line.startswith("Limit: skip=0,") for line in operators):
        raise Unsupported(f"OFFSET in {_WHERE} is not supported; number its rows by row_number() and join them")
    if not (operators and operators[-1].startswith(f"{_AGGREGATE} groupBy=[[]]")):
        return
    if any(line.startswith("Filter:") for line in operators):
        raise Unsupported(_HAVING)
    message = _OVER_ONE_ROW.get(subquery.word, _COMPARED_WITH_ONE_ROW)
    if message is not None:
        raise Unsupported(message)


def _subqueries(lines: Sequence[str]) -> Iterator[_Subquery]:
    """Yield the subqueries of a plan, each after the operator that names it, in the order in which it names them."""
    named: dict[int, Iterator[str]] = {}
    for place, line in enumerate(lines):
        depth = _depth(line)
        if line.strip() == _SUBQUERY:
            word = next(named.get(depth - 2, iter(())), "")
            stop = next((at for at in range(place + 1, len(lines)) if _depth(lines[at]) <= depth), len(lines))
            end = next((at for at in range(stop, len(lines)) if _depth(lines[at]) < depth), len(lines))
            yield _Subquery(word, lines[place + 1 : stop], list(_without_subqueries(lines[stop:end], depth)))
        else:
            named[depth] = iter([match["word"] or "" for match in _USE.finditer(line)])


def _without_subqueries(lines: Sequence[str], depth: int) -> Iterator[str]:
    """Yield the operators of a plan that are in no subquery of one depth."""
    is_subquery = False
    for line in lines:
        if _depth(line) <= depth:
            is_subquery = line.strip() == _SUBQUERY
        if not is_subquery:
            yield line


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


_ABOVE_JOIN = re.compile(
    r"FilterExec: (.*)\n(?:\s*(?:ProjectionExec|RepartitionExec|CoalescePartitionsExec|CoalesceBatchesExec)\b.*\n)*"
    r"\s*\w*JoinExec: .*join_type=(\w+)"
)
"""Conditions above a join, in the text of a physical plan."""
_ALIKE = (
    "WHERE over such a join, whose tables have columns of one name, is not supported;"
    " give the columns of one table other names: FROM (SELECT a AS b FROM t) AS t"
)
_INNER = "Inner Join"


def has_misplaced_condition(
    context: SessionContext, plan: LogicalPlan, physical: Callable[[], str], *, has_pushing: bool, is_stacked: bool
) -> bool:
    """Return whether DataFusion moves a condition of an optimised plan to the wrong side of a join.

    `physical` shows its physical plan, which is made only for a plan with such joins; `has_pushing` says whether the conditions of
    inner joins are below them, `is_stacked` whether conditions above one another may come down together. `Unsupported` if a join has conditions beside equalities, so that it cannot be a merge join.
    """
    waiting, is_shared, has_conditions = [plan], False, False
    above: list[int] = []
    while waiting:
        node = waiting.pop()
        condition = node.to_variant()
        has_conditions |= isinstance(condition, nodes.Join) and condition.filter() is not None
        if isinstance(condition, nodes.Filter):
            conditions = _conditions(node.display())
            while is_stacked and isinstance(_below(node).to_variant(), nodes.Filter):
                node = _below(node)
                conditions += _conditions(node.display())
            join, is_direct = _join_below(node, has_pushing=has_pushing)
            if join is not None:
                above.append(conditions)
                shared = _shared_names(context, join)
                is_alone = is_direct and not is_stacked
                is_shared |= bool(shared & _names(condition.predicate()) if is_alone else shared)
        waiting += reversed(node.inputs())
    if not is_shared:
        return False
    filters = _ABOVE_JOIN.findall(physical())
    stayed = [_conditions(text) for text, kind in filters if not (has_pushing and kind == "Inner")]
    # A condition may have moved to those of the next join below.
    if len(stayed) >= len(above) and all(there >= here for there, here in zip(stayed, above, strict=False)):
        return False
    if has_conditions:
        raise Unsupported(_ALIKE)
    return True


def _conditions(text: str) -> int:
    """Return how many conditions AND joins in a text: a part of them may have moved."""
    return text.count(" AND ") + 1


def check_merge_joins(planned: Callable[[], object]) -> None:
    """Refuse a query whose merge joins DataFusion fails to plan (`Unsupported`)."""
    try:
        planned()
    except SqlError as exc:
        raise Unsupported(_ALIKE) from exc


def check_stacked_conditions(context: SessionContext, plan: LogicalPlan) -> None:
    """Refuse a plan whose conditions stand above each other, if they are about columns of which there are two of one name."""
    for node in nodes_of(plan):
        condition = node.to_variant()
        if isinstance(condition, nodes.Filter) and isinstance(_below(node).to_variant(), nodes.Filter):
            names = context.create_dataframe_from_logical_plan(node).schema().names
            twice = {name for name in names if names.count(name) > 1}
            if twice & _names(condition.predicate()):
                raise Unsupported(
                    f"a condition that is NULL whatever the row, beside a join whose tables both have a column {min(twice)!r},"
                    " is not supported; leave out what is compared with NULL, or write IS NULL"
                )


def _below(node: LogicalPlan) -> LogicalPlan:
    """Return what a condition is about, below the projections of it."""
    (below,) = node.inputs()
    while isinstance(below.to_variant(), nodes.Projection | nodes.SubqueryAlias):
        (below,) = below.inputs()
    return below


def _join_below(node: LogicalPlan, *, has_pushing: bool) -> tuple[LogicalPlan | None, bool]:
    """Return the join, an outer one if the others `has_pushing`, that a condition is about, if only projections are between them, and whether none is."""
    below, (first,) = _below(node), node.inputs()
    is_join = isinstance(below.to_variant(), nodes.Join) and not (has_pushing and below.display().startswith(_INNER))
    return (below if is_join else None), not isinstance(first.to_variant(), nodes.Projection)


def _shared_names(context: SessionContext, join: LogicalPlan) -> set[str]:
    left, right = (set(context.create_dataframe_from_logical_plan(side).schema().names) for side in join.inputs())
    return left & right


def _names(condition: Expr) -> set[str]:
    """Return the names of the columns in a condition, without the relations that they are of."""
    names: set[str] = set()
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.variant_name() == "Column":
            names.add(part.to_variant().name())
        waiting += operands_of(part)
    return names
