"""Substrait plans, which a client may send in place of SQL.

Inside the engine a plan is a statement like any other, `SUBSTRAIT '…'` with the plan in base64: so tickets, transactions,
EXPLAIN and the records of running statements have one kind of text.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Sequence

from datafusion import DataFrame, SessionContext, column
from datafusion.substrait import Consumer, Serde
from datafusion.unparser import Dialect, Unparser

from lance_flight.engine.sql.bounds import check_type_text, names_types
from lance_flight.engine.sql.references import quoted
from lance_flight.engine.sql.substrait_names import check_names
from lance_flight.engine.sql.typed_calls import QUERIES_ONLY
from lance_flight.errors import SqlError, Unsupported

WORD = "SUBSTRAIT"
OLDEST, NEWEST = "0.20.0", "0.85.0"
"""The versions of Substrait that are read: from the oldest that there are plans of in the tests to DataFusion's own."""

_PANIC = "PanicException"
"""Type name of DataFusion's panic at an index out of bounds, which is no `Exception` and in no importable module."""

_NOT_STORED = "must be a TableScan"
"""Text in DataFusion's error where a name that a plan reads is that of a query: its reader takes stored tables alone."""

_STATEMENT = re.compile(rf"\s*{WORD}\s+'(?P<plan>[^']*)'\s*;?\s*", re.IGNORECASE)


def statement_of(plan: bytes) -> str:
    """Return the statement that carries a Substrait plan.

    >>> statement_of(b"plan")
    "SUBSTRAIT 'cGxhbg=='"
    """
    return f"{WORD} '{b64encode(plan).decode()}'"


def plan_in(statement: str) -> bytes | None:
    """Decode the Substrait plan of a statement; return None for SQL.

    >>> plan_in("SUBSTRAIT 'cGxhbg=='")
    b'plan'
    """
    found = _STATEMENT.fullmatch(statement)
    if found is None:
        return None
    try:
        return b64decode(found["plan"], validate=True)
    except binascii.Error as exc:
        raise SqlError(f"{WORD} takes a plan in base64: {exc}") from exc


def planned(context: SessionContext, plan: bytes) -> DataFrame:
    """Plan a Substrait plan over the tables of `context`.

    DataFusion reads queries alone: relations that write are refused here, as is all else that it does not know.
    """
    if names_types(plan.decode("latin-1")):
        # A text in a plan is of bytes of its own.
        for text in re.findall(rb"[ -~]+", plan):
            check_type_text(text.decode())
    check_names(plan)
    try:
        read = Consumer.from_substrait_plan(context, Serde.deserialize_bytes(plan))
    except BaseException as exc:
        if _NOT_STORED in str(exc):
            raise Unsupported(
                "a Substrait plan reads no view, and no table with masks; expected SQL for these"
            ) from exc
        if type(exc).__name__ != _PANIC:
            raise
        raise SqlError(f"the plan refers to what is not in it: {exc}") from exc
    frame = context.create_dataframe_from_logical_plan(read)
    frame.schema()  # some names of columns cannot leave DataFusion, which would fail later
    return frame


def text_of(context: SessionContext, frame: DataFrame) -> str:
    """Return a plan as SQL; `Unsupported` where DataFusion's text for it does not plan as the plan itself."""
    try:
        sql: str = Unparser(Dialect.default()).plan_to_sql(frame.logical_plan())
        again = context.sql_with_options(sql, QUERIES_ONLY).optimized_logical_plan()
    except Exception as exc:
        raise Unsupported("it has no text in SQL") from exc
    plans = again.display_indent(), frame.optimized_logical_plan().display_indent()
    # The rows of long lists are not in the text of a plan.
    if "Values: " in plans[0] or _meaning(plans[0]) != _meaning(plans[1]):
        raise Unsupported("its text in SQL has another plan")
    return sql


def _meaning(plan: str) -> list[str]:
    """Return the lines of a plan; of an aggregation at its top without the names, and the order, that a projection gives."""
    lines = plan.splitlines()
    if lines[0].startswith("Projection: ") and lines[1].startswith("  Aggregate: "):
        found = _AGGREGATE.fullmatch(lines[1].strip())
        outputs = Counter(map(_unnamed, _listed(lines[0].removeprefix("Projection: "))))
        if found is not None and outputs == Counter([*_listed(found["keys"]), *_listed(found["values"])]):
            lines = [line.removeprefix("  ") for line in lines[1:]]
    found = _AGGREGATE.fullmatch(lines[0])
    if found is None:
        return lines
    parts = [sorted(map(_unnamed, _listed(found[name]))) for name in ("keys", "values")]
    return [*map(str, parts), *lines[1:]]


_AGGREGATE = re.compile(r"Aggregate: groupBy=\[\[(?P<keys>.*)\]\], aggr=\[\[(?P<values>.*)\]\]")


def _listed(text: str) -> list[str]:
    """Split a list at the commas outside of brackets and quotes."""
    found, depth, quote, begun = [], 0, "", 0
    for at, sign in enumerate(text):
        if quote or sign in "\"'":
            quote = "" if sign == quote else quote or sign
        depth += (sign in "([{") - (sign in ")]}") if not quote else 0
        if sign == "," and not depth and not quote:
            found.append(text[begun:at].strip())
            begun = at + 1
    return [each for each in [*found, text[begun:].strip()] if each]


def _unnamed(output: str) -> str:
    """Return an expression of a plan without the name that it is given there.

    >>> _unnamed("sum(CAST(a AS Int64)) AS total")
    'sum(CAST(a AS Int64))'
    """
    depth = 0
    for at, sign in enumerate(output):
        depth += (sign in "([{") - (sign in ")]}")
        if not depth and output.startswith(" AS ", at):
            return output[:at]
    return output


def with_columns_of(frame: DataFrame, names: Sequence[str], wanted: Sequence[str]) -> DataFrame:
    """Return a query whose columns have these names with its columns in another order; `Unsupported` where others are wanted."""
    if list(names) == list(wanted):
        return frame
    if len(set(names)) < len(names) or sorted(names) != sorted(wanted):
        raise Unsupported("its text in SQL has other columns")
    stored = dict(zip(names, frame.schema().names, strict=True))
    return frame.select(*(column(quoted(stored[name])) for name in wanted))
