"""Substrait plans, which a client may send in place of SQL.

Inside the engine a plan is a statement like any other, `SUBSTRAIT '…'` with the plan in base64: so tickets, transactions,
EXPLAIN and the records of running statements have one kind of text.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode

from datafusion import DataFrame, SessionContext
from datafusion.substrait import Consumer, Serde

from lance_flight.engine.sql.bounds import check_type_text, names_types
from lance_flight.engine.sql.substrait_names import check_names
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
