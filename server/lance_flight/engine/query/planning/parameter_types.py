"""Types of the parameters of a query: those that DataFusion's type coercion casts each of them to.

Every parameter is planned as a call of a volatile function that returns Null. Coercion casts such a call to what its context wants
(the other side of a comparison, the other branches of a CASE, an argument of a function, LIMIT, a branch of a UNION …), and nothing
folds the cast away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, SessionContext, udf
from datafusion.expr import Values

from lance_flight.engine.sql.tokens import edit_text, parameters, tokens_of
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.engine.translation.typed_calls import NEVER, QUERIES_ONLY, TypedCalls, arrow_types
from lance_flight.errors import SqlError, Unsupported

_MARKER = "__parameter"
_CAST = re.compile(rf"(?<!TRY_)CAST\((?:\(- )*{_MARKER}\(Int64\((?P<number>\d+)\)\)+ AS ")
_BRACKETS = re.compile(r'"[^"]*"|[()]')
Planned = Callable[[Callable[[], Any]], Any]
"""Function that runs a planning function within its limits, and raises `SqlError` for what DataFusion refuses."""
_NONE: Mapping[str, pa.DataType] = MappingProxyType({})
_TRIED = (pa.null(), pa.utf8(), pa.int64(), pa.timestamp("us"), pa.month_day_nano_interval())
"""Types of markers, tried in order until the query has a plan: `$1 || $2`, `sum($1)` and `$1 - INTERVAL '1 day'` have none of Null."""
_MOST_WANTS = 16
"""Most types of one parameter, in a statement that repeats it, that are brought together."""


def parameter_schema(sql: str, wanted: Mapping[str, pa.DataType] = _NONE) -> pa.Schema:
    """Return the schema of the parameters: one nullable field for each of `$1`, `$2` … (`?` numbered in order).

    Its type is the one that is `wanted` of it, and null where the statement wants none: any value may be bound then.
    """
    names = [f"${number}" for number in range(1, parameter_count(sql) + 1)]
    return pa.schema([pa.field(name, wanted.get(name, pa.null())) for name in names])


def wanted_types(context: SessionContext, calls: TypedCalls, planned: Planned) -> Mapping[str, pa.DataType]:
    """Infer the types that the contexts of the parameters of a query want, by `$n`; a parameter without one is left out.

    A query that DataFusion cannot plan before the values are known tells nothing.
    """
    for kind in _TRIED:
        optimised = _plan_marked(context, calls, planned, kind)
        if optimised is not None:
            return _types_in(optimised, context, planned, {} if kind == pa.null() else _markers(calls.sql, kind))
    return {}


def _plan_marked(context: SessionContext, calls: TypedCalls, planned: Planned, kind: pa.DataType) -> LogicalPlan | None:
    """Plan the query with markers of this type in place of its parameters; None if it has no plan then."""
    marked = replace(calls, sql=_mark_parameters(calls.sql))

    def plan(text: str) -> DataFrame:
        frame = context.sql_with_options(text, QUERIES_ONLY)
        if marked.calls:
            # Some calls are checked against their signatures only now: those in filters, or of parameters.
            frame.optimized_logical_plan()
        return frame

    context.register_udf(udf(_never_run, [pa.int64()], kind, "volatile", _MARKER))
    try:
        return planned(lambda: marked.plan(context, plan).optimized_logical_plan())
    except (SqlError, Unsupported):
        return None
    finally:
        context.deregister_udf(_MARKER)


def _types_in(
    optimised: LogicalPlan, context: SessionContext, planned: Planned, tried: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Return the types that the parameters of a plan are cast to; the one that was `tried` of those that are not."""
    wanted = sorted({want for text in _texts(optimised) for want in _casts(text)})
    of_wants: dict[tuple[str, ...], list[str]] = {}
    for number, wants in groupby(wanted, itemgetter(0)):
        of_wants.setdefault(tuple(want for _, want in wants), []).append(f"${number}")
    types = dict(tried)
    for together, names in of_wants.items():
        with suppress(SqlError):  # contexts that have no type in common
            types |= dict.fromkeys(names, planned(partial(_common_type, context, together)))
    return {name: kind for name, kind in types.items() if kind != NEVER}


def _never_run(_: pa.Array) -> pa.Array:
    raise SqlError("a parameter has no value while its type is inferred")


def _markers(sql: str, kind: pa.DataType) -> dict[str, pa.DataType]:
    return {parameter.text: kind for token in tokens_of(sql) for parameter in parameters(token)}


def _mark_parameters(sql: str) -> str:
    """Replace each parameter by a call of the marker function."""
    marks = (each for token in tokens_of(sql) for each in parameters(token) if each.text[1:].isdigit())
    return edit_text(sql, [(token.start, token.stop, f"{_MARKER}({token.text[1:]})") for token in marks])


def _texts(plan: LogicalPlan) -> Iterator[str]:
    """Yield the texts of all expressions of a plan, those of long VALUES lists included, which its own text shortens."""
    text = plan.display_indent()
    yield text
    if "Values: " in text:
        yield from _value_texts(plan)


def _value_texts(plan: LogicalPlan) -> Iterator[str]:
    if not plan.inputs():
        node = plan.to_variant()
        if isinstance(node, Values):
            yield from (str(value) for row in node.values() for value in row)
    for child in plan.inputs():
        yield from _value_texts(child)


def _casts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parameters that are cast, and the types that they are cast to."""
    for match in _CAST.finditer(text):
        depth = 1
        for bracket in _BRACKETS.finditer(text, match.end()):
            depth += {"(": 1, ")": -1}.get(bracket[0], 0)
            if depth == 0:
                yield int(match["number"]), text[match.end() : bracket.start()]
                break


def _common_type(context: SessionContext, wants: Sequence[str]) -> pa.DataType:
    """Return the type that all contexts of a parameter can be given."""
    if len(wants) == 1:
        return arrow_types(context, wants[0])[0]
    nulls = ", ".join(f"arrow_cast(NULL, '{want}')" for want in wants[:_MOST_WANTS])
    common: pa.DataType = context.sql_with_options(f"SELECT coalesce({nulls})", QUERIES_ONLY).schema().field(0).type
    return common
