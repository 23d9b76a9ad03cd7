"""Lengths of the names that DataFusion gives the expressions of a Substrait plan, which has none: each is its whole text.

A projection over a projection has the name of each field as often in its own as it refers to it: a few hundred bytes of plan make
gigabytes of names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.protobuf.message import DecodeError, Message
from substrait.algebra_pb2 import Expression, Rel
from substrait.plan_pb2 import Plan

from lance_flight.errors import LimitExceeded

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
            columns = [*below, *(_length(each, below) for each in node.expressions)]
        case "aggregate":
            columns = [_length(each, below) for each in _expressions(node)]
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
    return sum(_length(each, below) for each in inside) + (16 if inside else expression.ByteSize())


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
