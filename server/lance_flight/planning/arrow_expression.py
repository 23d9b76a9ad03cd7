"""Predicates from and to pyarrow expressions, and the filters that remain for the readers of a scan.

A pyarrow expression cannot be inspected, and Substrait cannot say all of its types, so its own serialisation is
read: an IPC file with one record batch. The schema's metadata is the tree in prefix order (`literal` → column,
`field_ref` → name, `call` → function … `options` → column … `end` → function) and the columns hold the literals.

That metadata has repeated keys in an order, which pyarrow's dict loses. It is read through the Arrow C data interface: the `metadata` member
of `ArrowSchema` is an int32 count, then for each entry the int32 length of the key, the key, the int32 length of the value, the value; all in
native byte order.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import Unsupported
from lance_flight.planning.predicates import (
    ALWAYS,
    NEVER,
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Leaf,
    Op,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    all_of,
    any_of,
    negate,
    sql_literal,
)

_INT32 = struct.Struct("=i")


class _ArrowSchema(ctypes.Structure):
    """`struct ArrowSchema` of the C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def metadata_entries(schema: pa.Schema) -> list[tuple[bytes, bytes]]:
    """Return every key and value of the schema's metadata, in order.

    >>> metadata_entries(pa.schema([], metadata={"k": "v"}))
    [(b'k', b'v')]
    """
    capsule = schema.__arrow_c_schema__()
    address = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if address is None:
        return []
    (count,) = _INT32.unpack(ctypes.string_at(address, _INT32.size))
    texts = _texts(address + _INT32.size)
    return [(next(texts), next(texts)) for _ in range(count)]


def _texts(address: int) -> Iterator[bytes]:
    while True:
        (length,) = _INT32.unpack(ctypes.string_at(address, _INT32.size))
        yield ctypes.string_at(address + _INT32.size, length)
        address += _INT32.size + length


@dataclass(frozen=True, slots=True)
class _Field:
    name: str

    def __str__(self) -> str:
        return str(Column(self.name))


@dataclass(frozen=True, slots=True)
class _Literal:
    value: pa.Scalar

    def __str__(self) -> str:
        return sql_literal(self.value)


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    arguments: tuple[_Node, ...]
    options: pa.Scalar | None

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


_Node: TypeAlias = _Field | _Literal | _Call


def predicate_from_arrow(expression: pc.Expression | pa.Scalar) -> Predicate:
    """Return the predicate that `expression` states; what has no counterpart becomes `Opaque` and says why.

    A filter that DataFusion folded to one value arrives as a scalar.

    >>> str(predicate_from_arrow((pc.field("a") > 3) & ~pc.field("b").isin([1, 2])))
    'a > 3 AND b NOT IN (1, 2)'
    """
    try:
        return _predicate(_parse(expression))
    except (pa.ArrowException, _Unreadable) as exc:
        return Opaque(str(expression), f"the expression cannot be read: {exc}")


class _Unreadable(ValueError):
    """A serialised expression with a part that is not known here."""


_Entry: TypeAlias = tuple[bytes, bytes]


def _parse(expression: pc.Expression | pa.Scalar) -> _Node:
    """Return the tree of an expression; a filter that DataFusion folded to one value is a scalar."""
    if isinstance(expression, pa.Scalar):
        return _Literal(expression)
    batch = pa.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
    return _node(iter(metadata_entries(batch.schema)), batch)


def _node(entries: Iterator[_Entry], batch: pa.RecordBatch) -> _Node:
    return _node_from(next(entries), entries, batch)


def _node_from(entry: _Entry, entries: Iterator[_Entry], batch: pa.RecordBatch) -> _Node:
    match entry:
        case b"literal", column:
            value = batch.column(int(column))[0]
            return _Literal(value.value if isinstance(value, pa.DictionaryScalar) else value)
        case b"field_ref", name:
            return _Field(name.decode())
        case b"nested_field_ref", count:
            path = [next(entries)[1].decode() for _ in range(int(count))]
            return _Call("field of", tuple(_Field(name) for name in path), None)
        case b"call", function:
            return _call(function.decode(), entries, batch)
    raise _Unreadable(f"unknown entry {entry[0].decode()!r}")


def _call(function: str, entries: Iterator[_Entry], batch: pa.RecordBatch) -> _Call:
    arguments: list[_Node] = []
    options = None
    while (entry := next(entries))[0] != b"end":
        if entry[0] == b"options":
            options = batch.column(int(entry[1]))[0]
        else:
            arguments.append(_node_from(entry, entries, batch))
    return _Call(function, tuple(arguments), options)


_COMPARISONS: Mapping[str, Op] = MappingProxyType(
    {
        "equal": Op.EQ,
        "not_equal": Op.NE,
        "less": Op.LT,
        "less_equal": Op.LE,
        "greater": Op.GT,
        "greater_equal": Op.GE,
    }
)


def pushed_filter(expression: pc.Expression | pa.Scalar, schema: pa.Schema) -> RowFilter:
    """Return the filter over columns of `schema` that means in Arrow what DataFusion means by an expression that it pushed.

    To Arrow NULL is in no list, rather than unknown, and NaN is neither equal to itself nor greater than a number.
    `Unsupported` for what DataFusion sends to no scan.

    >>> found = pushed_filter(~pc.field("a").isin([1]) | (pc.field("a") < pc.field("b")), pa.schema({}))
    >>> pa.table({"a": [None, 1, 2], "b": [0, 0, 0]}).filter(found.rest)["a"].to_pylist(), found.columns
    ([2], ('a', 'b'))
    """
    try:
        node = _parse(expression)
    except (pa.ArrowException, _Unreadable) as exc:
        raise Unsupported(f"the filter {expression} cannot be read: {exc}") from exc
    condition = _in_sql(node, schema)
    return RowFilter(expression=condition, rest=condition, columns=tuple(dict.fromkeys(_fields(node))), pushable=False)


def _fields(node: _Node) -> Iterator[str]:
    match node:
        case _Field(name):
            yield name
        case _Call("field of", path, _):
            yield from _fields(path[0])
        case _Call(_, arguments, _):
            for argument in arguments:
                yield from _fields(argument)


_LOGIC: Mapping[str, Callable[..., pc.Expression]] = MappingProxyType(
    {
        "and_kleene": operator.and_,
        "or_kleene": operator.or_,
        "invert": operator.invert,
        "is_valid": pc.Expression.is_valid,
        "is_null": pc.Expression.is_null,
    }
)


def _in_sql(node: _Node, schema: pa.Schema) -> pc.Expression:
    match node:
        case _Field(name):
            return pc.field(name)
        case _Literal(value):
            return pc.scalar(value)
        case _Call("field of", path, _):
            return pc.field(*(str(part) for part in path))
        case _Call(function, arguments, options) if function in _LOGIC and not _option(options, "nan_is_null"):
            return _LOGIC[function](*(_in_sql(argument, schema) for argument in arguments))
        case _Call("is_in", (argument,), pa.StructScalar() as options):
            return _in_list(_in_sql(argument, schema), options["value_set"].values)
        case _Call(function, (left, right), _) if function in _COMPARISONS:
            compared = _in_sql(left, schema), _in_sql(right, schema)
            is_floating = any(_is_floating(side, schema) for side in (left, right))
            op = _COMPARISONS[function]
            return _compared_floats(op, *compared) if is_floating else _OPERATORS[op](*compared)
    raise Unsupported(f"{node} as a filter of a partition table")


def _is_floating(node: _Node, schema: pa.Schema) -> bool:
    match node:
        case _Field(name) if name in schema.names:
            return bool(pa.types.is_floating(schema.field(name).type))
        case _Literal(value):
            return bool(pa.types.is_floating(value.type))
    return False


def _in_list(value: pc.Expression, values: pa.Array) -> pc.Expression:
    """Return whether a value is in a list: NULL if it is NULL, or not found beside a NULL."""
    known = values.drop_null()
    if pa.types.is_floating(known.type) and pc.any(pc.equal(known, 0.0)).as_py():
        known = pa.concat_arrays([known, pa.array([0.0, -0.0], known.type)])
    unknown = pa.scalar(None, pa.bool_())
    is_known = value.isin(known)
    if len(values.drop_null()) < len(values):
        return pc.if_else(is_known, pa.scalar(value=True), unknown)
    return pc.if_else(value.is_valid(), is_known, unknown)


def _compared_floats(op: Op, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """Compare floats in SQL's order, in which NaN equals itself and is greater than every number."""
    if op in {Op.NE, Op.LE, Op.GE}:
        return ~_compared_floats(op.negated, left, right)
    is_left, is_right = pc.is_nan(left), pc.is_nan(right)
    match op:
        case Op.EQ:
            return (left == right) | (is_left & is_right)
        case Op.LT:
            return (left < right) | (is_right & ~is_left)
    return (left > right) | (is_left & ~is_right)


def _predicate(node: _Node) -> Predicate:
    match node:
        case _Field(name):
            return Compare(Column(name), Op.EQ, pa.scalar(True))
        case _Literal(value) if pa.types.is_boolean(value.type) or pa.types.is_null(value.type):
            return Constant(value.as_py())
        case _Call("and_kleene", arguments, _):
            return all_of(map(_predicate, arguments))
        case _Call("or_kleene", arguments, _):
            return any_of(map(_predicate, arguments))
        case _Call("invert", (argument,), _):
            return negate(_predicate(argument))
        case _Call(function, (left, right), _) if function in _COMPARISONS:
            return _comparison(node, left, _COMPARISONS[function], right)
        case _Call("is_valid", (_Field(name),), _):
            return IsNull(Column(name), negated=True)
        case _Call("is_null", (_Field(name),), options) if not _option(options, "nan_is_null"):
            return IsNull(Column(name))
        case _Call("is_in", (_Field(name),), pa.StructScalar() as options) if _option(options, _NULLS) == _MATCH:
            return In(Column(name), options["value_set"].values)
    return Opaque(str(node), "it is not a comparison of a column with a value")


_NULLS = "null_matching_behavior"
# SetLookupOptions::MATCH. As a filter DataFusion sends no other; it differs from SQL for NULL rows only.
_MATCH = 0


def _option(options: pa.Scalar | None, name: str) -> object:
    return options[name].as_py() if options is not None and name in options else None


def _comparison(node: _Node, left: _Node, op: Op, right: _Node) -> Predicate:
    match left, right:
        case _Field(name), _Literal(value):
            return Compare(Column(name), op, value)
        case _Literal(value), _Field(name):
            return Compare(Column(name), op.flipped, value)
        case _Field(), _Field():
            return Opaque(f"{left} {op.value} {right}", "it compares two columns")
    return Opaque(f"{left} {op.value} {right}", "it compares a computed value")


_OPERATORS: Mapping[Op, Callable[[pc.Expression, pc.Expression], pc.Expression]] = MappingProxyType(
    {
        Op.EQ: operator.eq,
        Op.NE: operator.ne,
        Op.LT: operator.lt,
        Op.LE: operator.le,
        Op.GT: operator.gt,
        Op.GE: operator.ge,
    }
)


def to_arrow(predicate: Predicate, *, sql_floats: bool = False) -> pc.Expression:
    """Return the same condition for a dataset's `filter`: it keeps a row exactly where `predicate` is TRUE.

    To SQL (DataFusion, and Lance when it is given the filter) NaN equals itself and is greater than every number; to
    Arrow's own functions it is neither, and -0.0 is not in a list with 0.0. `sql_floats` says it so that they agree.
    `Unsupported` for what pyarrow cannot say here: an opaque part, a `date_part`, a field inside a struct.
    """
    match predicate:
        case And(parts):
            return reduce(operator.and_, [to_arrow(part, sql_floats=sql_floats) for part in parts])
        case Or(parts):
            return reduce(operator.or_, [to_arrow(part, sql_floats=sql_floats) for part in parts])
        case Constant(value):
            return pc.scalar(value is True)
        case Compare(_, _, value) if not value.is_valid:
            return to_arrow(NEVER)
        case Compare(Column(name, ()), op, value):
            compare = _compared_as_sql if sql_floats and pa.types.is_floating(value.type) else _compare
            return compare(pc.field(name), op, value)
        case IsNull(Column(name, ()), negated):
            return pc.field(name).is_valid() if negated else pc.field(name).is_null()
        case In(Column(name, ()), values, negated):
            if sql_floats and pa.types.is_floating(values.type) and pc.any(pc.equal(values, 0.0)).as_py():
                values = pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])
            return _membership(pc.field(name), values, negated=negated)
        case StartsWith(Column(name, ()), prefix, negated):
            condition = pc.starts_with(pc.field(name), prefix)
            return ~condition if negated else condition
    raise Unsupported(f"{predicate} as a filter of a partition table")


def _compare(column: pc.Expression, op: Op, value: pa.Scalar) -> pc.Expression:
    return _OPERATORS[op](column, pc.scalar(value))


def _compared_as_sql(column: pc.Expression, op: Op, value: pa.Scalar) -> pc.Expression:
    is_nan = pc.is_nan(column)
    if not pc.is_nan(value).as_py():
        compared = _compare(column, op, value)
        return compared | is_nan if op in {Op.GT, Op.GE} else compared
    match op:
        case Op.EQ | Op.GE:
            return is_nan
        case Op.NE | Op.LT:
            return ~is_nan
        case Op.LE:
            return column.is_valid()
        case Op.GT:
            return to_arrow(NEVER)


def _membership(column: pc.Expression, values: pa.Array, *, negated: bool) -> pc.Expression:
    known = values.drop_null()
    if negated and len(known) < len(values):
        return to_arrow(NEVER)
    is_member = column.isin(known)
    # `is_in` calls a NULL row not found instead of unknown.
    return ~is_member & column.is_valid() if negated else is_member


MOST_DEPTH = 5
"""Lance's work on a filter doubles with each level of AND and OR (as Substrait); a deeper one is applied to what it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A filter as Lance runs it (`expression`) and as Arrow does (`rest`), and the columns that it speaks of.

    Not `pushable`: better not given to Lance.
    """

    expression: pc.Expression | None
    rest: pc.Expression | None
    columns: tuple[str, ...]
    pushable: bool


def row_filter(residual: Predicate | None) -> RowFilter:
    """Return the filter that a residual is (None: all rows match); `Unsupported` for what pyarrow cannot say.

    >>> row_filter(None).columns
    ()
    """
    if residual is None or residual == ALWAYS:
        return RowFilter(expression=None, rest=None, columns=(), pushable=True)
    return RowFilter(
        expression=_arrow(residual, to_arrow),
        rest=_arrow(residual, partial(to_arrow, sql_floats=True)),
        columns=columns_of(residual),
        pushable=_depth(residual) <= MOST_DEPTH,
    )


def _arrow(predicate: Predicate, leaf: Callable[[Predicate], pc.Expression]) -> pc.Expression:
    match predicate:
        case And(parts):
            return _balance([_arrow(part, leaf) for part in parts], operator.and_)
        case Or(parts):
            return _balance([_arrow(part, leaf) for part in parts], operator.or_)
    return leaf(predicate)


def _balance(parts: Sequence[pc.Expression], join: Callable[[Any, Any], pc.Expression]) -> pc.Expression:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_balance(parts[:middle], join), _balance(parts[middle:], join))


def _depth(predicate: Predicate) -> int:
    """Return how deep the expression of `_arrow` is nested."""
    if isinstance(predicate, And | Or):
        return (len(predicate.parts) - 1).bit_length() + max(map(_depth, predicate.parts))
    return 0


def terms(predicate: Predicate) -> tuple[str, ...]:
    """Return the columns that a predicate compares; what its opaque parts speak of is not known."""
    compared = (leaf.term.name for leaf in _leaves(predicate) if not isinstance(leaf, Constant | Opaque))
    return tuple(dict.fromkeys(compared))


def columns_of(predicate: Predicate) -> tuple[str, ...]:
    """Return the columns that a predicate without opaque parts speaks of."""
    for leaf in _leaves(predicate):
        if isinstance(leaf, Opaque):
            raise Unsupported(str(leaf))
    return terms(predicate)


def _leaves(predicate: Predicate) -> Iterator[Leaf]:
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _leaves(part)
        case leaf:
            yield leaf
