"""Substrait plans, which a client may send in place of SQL.

A projection over a projection has the name of each field as often in its own as it refers to it: a few hundred bytes of plan make
gigabytes of names.

Inside the engine a plan is a statement like any other, `SUBSTRAIT '…'` with the plan in base64: so tickets, transactions,
EXPLAIN and the records of running statements have one kind of text.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Sequence

from datafusion import DataFrame, SessionContext, column
from datafusion.substrait import Consumer, Serde
from datafusion.unparser import Dialect, Unparser
from google.protobuf.message import DecodeError, Message
from substrait.algebra_pb2 import Expression, Rel
from substrait.plan_pb2 import Plan

from lance_flight.engine.sql.bounds import check_type_text, names_types
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.translation.typed_calls import QUERIES_ONLY
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

MOST_CHARACTERS = 1 << 20
"""Characters of the names of one relation's columns."""


def check_names(plan: bytes) -> None:
    """Refuse a plan whose columns would have too long names; one that cannot be read is left to DataFusion."""
    try:
        read = Plan.FromString(plan)
    except DecodeError:
        return
    for relation in read.relations:
        _lengths(relation.root.input if relation.HasField("root") else relation.rel)


def _lengths(relation: Rel) -> Sequence[int]:
    """Return the lengths of the names of a relation's columns."""
    kind = relation.WhichOneof("rel_type")
    if kind is None:
        return []
    node = getattr(relation, kind)
    inputs = [_lengths(each) for each in _relations(node)]
    below = [length for each in inputs for length in each]
    match kind:
        case "read":
            columns = [len(name) for name in node.base_schema.names]
        case "project":
            columns = [*below, *(_length(expression, below) for expression in node.expressions)]
        case "aggregate":
            columns = [_length(expression, below) for expression in _expressions(node)]
        case "set":
            columns = list(inputs[0]) if inputs else []
        case _:
            columns = below
    if sum(columns) > MOST_CHARACTERS:
        raise LimitExceeded(
            f"the plan gives its expressions names of more than {MOST_CHARACTERS} characters, which are their texts with those of the"
            " expressions that they read; send the query as SQL"
        )
    mapping = node.common.emit.output_mapping if "common" in node.DESCRIPTOR.fields_by_name else ()
    return [columns[place] for place in mapping if place < len(columns)] if mapping else columns


def _length(expression: Expression, below: Sequence[int]) -> int:
    """Return the length of the name of an expression over columns with names of some lengths."""
    if expression.WhichOneof("rex_type") == "selection":
        place = expression.selection.direct_reference.struct_field.field
        return below[place] if place < len(below) else 0
    inside = list(_expressions(expression))
    return sum(_length(token, below) for token in inside) + (16 if inside else expression.ByteSize())


def _relations(message: Message) -> Iterator[Rel]:
    """Yield the relations that one reads, without those of its expressions."""
    for part in _parts(message):
        if isinstance(part, Rel):
            yield part
        elif not isinstance(part, Expression):
            yield from _relations(part)


def _expressions(message: Message) -> Iterator[Expression]:
    """Yield the outermost expressions in a message, without those of the relations that it reads."""
    for part in _parts(message):
        if isinstance(part, Expression):
            yield part
        elif not isinstance(part, Rel):
            yield from _expressions(part)


def _parts(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            yield from value if field.is_repeated else [value]


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
    match = _STATEMENT.fullmatch(statement)
    if match is None:
        return None
    try:
        return b64decode(match["plan"], validate=True)
    except binascii.Error as exc:
        raise SqlError(f"{WORD} takes a plan in base64: {exc}") from exc


def plan_substrait(context: SessionContext, plan: bytes) -> DataFrame:
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
        match = _AGGREGATE.fullmatch(lines[1].strip())
        outputs = Counter(map(_strip_name, _split_list(lines[0].removeprefix("Projection: "))))
        if match is not None and outputs == Counter([*_split_list(match["keys"]), *_split_list(match["values"])]):
            lines = [line.removeprefix("  ") for line in lines[1:]]
    match = _AGGREGATE.fullmatch(lines[0])
    if match is None:
        return lines
    parts = [sorted(map(_strip_name, _split_list(match[name]))) for name in ("keys", "values")]
    return [*map(str, parts), *lines[1:]]


_AGGREGATE = re.compile(r"Aggregate: groupBy=\[\[(?P<keys>.*)\]\], aggr=\[\[(?P<values>.*)\]\]")


def _split_list(text: str) -> list[str]:
    """Split a list at the commas outside of brackets and quotes."""
    parts, depth, quote, begun = [], 0, "", 0
    for at, sign in enumerate(text):
        if quote or sign in "\"'":
            quote = "" if sign == quote else quote or sign
        depth += (sign in "([{") - (sign in ")]}") if not quote else 0
        if sign == "," and not depth and not quote:
            parts.append(text[begun:at].strip())
            begun = at + 1
    return [each for each in [*parts, text[begun:].strip()] if each]


def _strip_name(output: str) -> str:
    """Return an expression of a plan without the name that it is given there.

    >>> _strip_name("sum(CAST(a AS Int64)) AS total")
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
    return frame.select(*(column(quote_parts(stored[name])) for name in wanted))
