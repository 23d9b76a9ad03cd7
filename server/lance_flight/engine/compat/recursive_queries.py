"""Recursive queries that are refused: those whose types lose values, and those that cannot end.

DataFusion casts the rows of the repeated part to the types of the first part. Where that loses a part of a value, as in
`SELECT 1 AS x UNION ALL SELECT x + 0.5 …`, the query gives wrong rows or never ends. An aggregate without GROUP BY has one row also of
no rows, so a repeated part such as `SELECT max(x) + 1 FROM c WHERE x < 5` never ends. PostgreSQL refuses both. DataFusion 55 casts by design: https://github.com/apache/datafusion/pull/9795.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan, SessionContext, udf

from lance_flight.arrow_streams import has_open_width
from lance_flight.engine.functions.bounded_functions import Budget, Made
from lance_flight.engine.sql.bounds import with_queries
from lance_flight.engine.sql.clause_words import SET_OPERATORS
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.tokens import Token, closing_places, edit_text, tokenize
from lance_flight.errors import SqlError

_OF_ONE_ROW = "Aggregate: groupBy=[[]]"
_OF_AS_MANY_ROWS = ("Projection:", "SubqueryAlias:", "Sort:", "WindowAggr:", "Distinct:")
"""Operators that have a row if their input has one; a sort with a LIMIT is another one."""


class RecursiveQuery(NamedTuple):
    """A query of WITH RECURSIVE: its name, statements that give rows as its `first` and its `repeated` part do, and where the latter stands."""

    name: str
    first: str
    repeated: str
    start: int
    stop: int


def recursive_queries(text: str) -> Iterator[RecursiveQuery]:
    """Yield each query of WITH RECURSIVE that is a union of two parts.

    >>> list(recursive_queries("WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM c) SELECT * FROM c"))[0].repeated
    'WITH RECURSIVE c AS (SELECT 1 AS x) SELECT x + 1 FROM c'
    """
    tokens = tokenize(text)
    starts = [
        place - 1
        for place, token in enumerate(tokens)
        if token.word == "RECURSIVE" and tokens[place - 1].word == "WITH"
    ]
    if not starts:
        return
    closing = closing_places(tokens)
    for query in with_queries(tokens):
        union = _union(tokens, query.start, query.stop, closing)
        start = max((start for start in starts if start < query.start), default=None)
        if union is None or start is None:
            continue
        after = union + 1 + (tokens[union + 1].word in {"ALL", "DISTINCT"})
        head = text[tokens[start].start : tokens[union - 1].stop] + ")"
        place = tokens[after].start, tokens[query.stop - 1].stop
        first = f"{head} SELECT * FROM {quote_parts(query.name)}"  # noqa: S608 - quoted
        yield RecursiveQuery(query.name, first, f"{head} {text[slice(*place)]}", *place)


def _union(tokens: Sequence[Token], start: int, stop: int, closing: dict[int, int]) -> int | None:
    """Return the place of the last UNION directly within a bracket; None without one."""
    place, union = start + 1, None
    while place < stop:
        if tokens[place].word in SET_OPERATORS:
            union = place if tokens[place].word == "UNION" else None
        place = closing.get(place, place) + 1
    return union


def check_recursive_queries(text: str, planned: Callable[[str], DataFrame]) -> None:
    """Refuse a recursive query whose repeated part has values that the types of its first part cannot hold, or always has a row."""
    for query in recursive_queries(text):
        repeated_part = planned(query.repeated)
        if _always_has_a_row(repeated_part.logical_plan(), query.name):
            raise SqlError(
                f"the part that repeats of the recursive query {query.name!r} is an aggregate, which has a row also of no rows, so that"
                " the query never ends; write the aggregate in the query that reads it, or HAVING with a condition that ends it"
            )
        for first, repeated in zip(_schema(planned(query.first)), _schema(repeated_part), strict=False):
            if _loses(repeated.type, first.type):
                raise SqlError(
                    f"column {first.name!r} of the recursive query {query.name!r} is {first.type} in its first part and"
                    f" {repeated.type} in the part that repeats; expected one type: write a CAST in the first part"
                )


def with_bounded_steps(text: str, planned: Callable[[str], DataFrame], context: SessionContext) -> str:
    """Return a text in which each step of a recursive query checks the size of its values: `x || x` doubles them again and again."""
    budget, edits = Budget(), []
    for query in recursive_queries(text):
        columns = []
        for place, field in enumerate(_schema(planned(query.repeated))):
            column = f"c{place}"
            if has_open_width(field.type):
                name = f"__step{query.start}_{place}"
                step = partial(_check_step, budget.of(name), query.name)
                context.register_udf(udf(step, [field.type], field.type, "immutable", name))
                column = f"{name}({column})"
            columns.append(column)
        if any("(" in column for column in columns):
            names = ", ".join(f"c{place}" for place in range(len(columns)))
            edits += [
                (query.start, query.start, f"SELECT {', '.join(columns)} FROM ("),  # noqa: S608 - names made here
                (query.stop, query.stop, f") AS __step({names})"),
            ]
    return edit_text(text, edits)


def _check_step(made: Made, query: str, values: pa.Array) -> pa.Array:
    made.check_bytes(f"a step of the recursive query {query!r}", values.nbytes, len(values))
    return values


def _schema(frame: DataFrame) -> pa.Schema:
    return pa.schema(frame.schema())


def _always_has_a_row(plan: LogicalPlan, name: str) -> bool:
    """Return whether a plan has a row whatever the rows of the relation of a name, which it aggregates."""
    while plan.display().startswith(_OF_AS_MANY_ROWS):
        (plan,) = plan.inputs()
    return plan.display().startswith(_OF_ONE_ROW) and f"SubqueryAlias: {name}\n" in plan.display_indent()


def _loses(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a cast may give another value without an error."""
    if kind == wanted:
        return False
    is_fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if pa.types.is_decimal(wanted):
        return bool(pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale > wanted.scale))
    if pa.types.is_integer(wanted):
        return bool(is_fraction)
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_decimal(kind) or (pa.types.is_floating(kind) and kind.bit_width > wanted.bit_width))
    if pa.types.is_date(wanted):
        return bool(pa.types.is_timestamp(kind))
    if pa.types.is_timestamp(wanted):
        units = ("s", "ms", "us", "ns")
        return bool(pa.types.is_timestamp(kind)) and units.index(kind.unit) > units.index(wanted.unit)
    return False
