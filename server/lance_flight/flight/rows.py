"""Rows of Flight streams: converted for clients to plain types in small messages, and validated as clients send them.

A message has some thousand rows, below the usual limit of 4 MiB.

| column | sent as |
|---|---|
| string_view, binary_view | utf8, binary |
| dictionary, run-end encoded | the type of its values |
| float16 | float32 |
| list_view, large_list_view | list, large_list |
| decimal32, decimal64 | decimal128 |
| an extension type stored as one of these | its storage, converted |

The same holds inside lists, maps and structs. A batch whose types are plain passes through untouched.

Rows and parameters that clients send are validated, within their bounds, and read to the end of their stream. Dictionary-encoded columns are refused before the first frame is read, or decoded on arrival. pyarrow's server dereferences a null
pointer where a dictionary batch is followed by a frame without a header, in its own code and before a handler sees either. A stream
whose schema has no dictionary type cannot get there, nested ones included.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyarrow import flight, lib

from lance_flight.arrow_streams import decoded_bytes, has_dictionary
from lance_flight.errors import InvalidInput, LimitExceeded, SchemaError
from lance_flight.flight.calls import Call

LARGEST_MESSAGE = 3 << 20
"""Most bytes of one record batch; clients accept 4 MiB by default, and an encoded batch has some overhead."""

FEWEST_ROWS = 8192
"""Rows up to which small batches are joined: every message has a cost of its own, to the client above all."""

_LONGEST_WAIT = 0.05
"""Seconds for which rows wait for others to be joined with; a batch that takes longer lets those before it go first."""

_ALIGNED_ROWS = 64
"""Alignment of slices in rows, so that no validity bitmap has to be shifted when it is written."""


def client_schema(schema: pa.Schema) -> pa.Schema:
    """Return `schema` with the types that are sent; names, nullability and metadata stay."""
    sent = [_client_field(field) for field in schema]
    if all(field is other for field, other in zip(sent, schema, strict=True)):
        return schema
    return pa.schema(sent, metadata=schema.metadata)


def client_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, wanted: pa.Schema | None = None
) -> Generator[pa.RecordBatch]:
    """Convert `batches` to the types `wanted` (default: `client_schema(schema)`), in messages of at most `LARGEST_MESSAGE` bytes.

    Smaller ones than `FEWEST_ROWS` are joined. A single row that is larger stays whole.
    """
    wanted = wanted or client_schema(schema)
    if wanted is not schema and not wanted.equals(schema, check_metadata=True):
        batches = (_convert_batch(batch, wanted) for batch in batches)
    for batch in join_batches(batches):
        if batch.num_rows <= 1 or (size := batch.nbytes) <= LARGEST_MESSAGE:
            yield batch
        else:
            yield from _cut_batch(batch, size)


def join_batches(
    batches: Iterable[pa.RecordBatch], now: Callable[[], float] = time.monotonic
) -> Iterator[pa.RecordBatch]:
    """Join small batches in their order until they have `FEWEST_ROWS`, or `LARGEST_MESSAGE` bytes; large ones are not copied."""
    waiting = _Waiting()
    reading = iter(batches)
    while True:
        try:
            batch = next(reading)
        except StopIteration:
            yield from waiting.take()
            return
        except Exception:
            yield from waiting.take()  # the rows before an error are sent as well
            raise
        if batch.num_rows >= FEWEST_ROWS or waiting.size + batch.nbytes > LARGEST_MESSAGE:
            yield from waiting.take()
        if batch.num_rows >= FEWEST_ROWS:
            yield batch
            continue
        since = waiting.add(batch, now())
        if waiting.rows >= FEWEST_ROWS or now() - since > _LONGEST_WAIT:
            yield from waiting.take()


@dataclass(slots=True)
class _Waiting:
    """Small batches that wait to be joined: how many `rows` and bytes (`size`) they have, and since when the first one waits."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    since: float = 0.0

    def add(self, batch: pa.RecordBatch, now: float) -> float:
        """Add a batch that came `now`; return since when the first one waits."""
        if not self.batches:
            self.since = now
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes
        return self.since

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield all that waits as one batch, if there is any."""
        if self.batches:
            taken = self.batches
            self.batches, self.rows, self.size = [], 0, 0
            yield taken[0] if len(taken) == 1 else pa.concat_batches(taken)


def convert(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert `array` to `wanted`, which is `client_type(array.type)`."""
    if array.type == wanted:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return convert(array.storage, wanted)
    rebuild = _REBUILD.get(array.type.id)
    return array.cast(wanted) if rebuild is None else rebuild(array, wanted)


def client_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that is sent for a column of type `kind`."""
    if isinstance(kind, pa.BaseExtensionType):
        storage = client_type(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    plain = _PLAIN.get(kind.id)
    return kind if plain is None else plain(kind)


def _convert_batch(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    columns = [convert(column, field.type) for column, field in zip(batch.columns, wanted, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _cut_batch(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    if size <= LARGEST_MESSAGE or batch.num_rows == 1:
        yield batch
        return
    parts = _divide_up(size, LARGEST_MESSAGE)
    rows = _divide_up(batch.num_rows, parts)
    if rows > _ALIGNED_ROWS:
        rows = _divide_up(rows, _ALIGNED_ROWS) * _ALIGNED_ROWS
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        yield from _cut_batch(part, part.nbytes)


def _divide_up(number: int, by: int) -> int:
    return -(-number // by)


def _client_field(field: pa.Field) -> pa.Field:
    kind = field.type
    sent = client_type(kind)
    return field if sent is kind else field.with_type(sent)


def _plain_struct(kind: pa.StructType) -> pa.DataType:
    return pa.struct([_client_field(field) for field in kind])


def _plain_map(kind: pa.MapType) -> pa.DataType:
    return pa.map_(_client_field(kind.key_field), _client_field(kind.item_field), keys_sorted=kind.keys_sorted)


_PLAIN: Mapping[int, Callable[[pa.DataType], pa.DataType]] = {
    lib.Type_STRING_VIEW: lambda _: pa.utf8(),
    lib.Type_BINARY_VIEW: lambda _: pa.binary(),
    lib.Type_HALF_FLOAT: lambda _: pa.float32(),
    lib.Type_DECIMAL32: lambda kind: pa.decimal128(kind.precision, kind.scale),
    lib.Type_DECIMAL64: lambda kind: pa.decimal128(kind.precision, kind.scale),
    lib.Type_DICTIONARY: lambda kind: client_type(kind.value_type),
    lib.Type_RUN_END_ENCODED: lambda kind: client_type(kind.value_type),
    lib.Type_LIST: lambda kind: pa.list_(_client_field(kind.value_field)),
    lib.Type_LIST_VIEW: lambda kind: pa.list_(_client_field(kind.value_field)),
    lib.Type_LARGE_LIST: lambda kind: pa.large_list(_client_field(kind.value_field)),
    lib.Type_LARGE_LIST_VIEW: lambda kind: pa.large_list(_client_field(kind.value_field)),
    lib.Type_FIXED_SIZE_LIST: lambda kind: pa.list_(_client_field(kind.value_field), kind.list_size),
    lib.Type_STRUCT: _plain_struct,
    lib.Type_MAP: _plain_map,
}


def _from_dictionary(array: pa.DictionaryArray, wanted: pa.DataType) -> pa.Array:
    return convert(array.dictionary, wanted).take(array.indices)


def _from_runs(array: pa.RunEndEncodedArray, wanted: pa.DataType) -> pa.Array:
    rows = np.arange(array.offset, array.offset + len(array))
    return convert(array.values, wanted).take(pa.array(np.searchsorted(array.run_ends, rows, side="right")))


def _from_list_view(array: pa.ListViewArray, wanted: pa.ListType) -> pa.Array:
    sizes = array.value_lengths().fill_null(0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(_OFFSETS[wanted.id])
    values = convert(array.flatten(), wanted.value_type)
    kind = pa.ListArray if wanted.id == lib.Type_LIST else pa.LargeListArray
    return kind.from_arrays(pa.array(offsets), values, type=wanted, mask=array.is_null())


def _in_list(array: pa.ListArray, wanted: pa.ListType) -> pa.Array:
    values = convert(array.values, wanted.value_type)
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=[values])


def _in_fixed_size_list(array: pa.FixedSizeListArray, wanted: pa.FixedSizeListType) -> pa.Array:
    values = convert(array.values, wanted.value_type)
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:1], offset=array.offset, children=[values])


def _in_map(array: pa.MapArray, wanted: pa.MapType) -> pa.Array:
    entries = pa.StructArray.from_arrays(
        [convert(array.keys, wanted.key_type), convert(array.items, wanted.item_type)],
        fields=[wanted.key_field, wanted.item_field],
    )
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _in_struct(array: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    children = [convert(array.field(position), field.type) for position, field in enumerate(wanted)]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())


_OFFSETS = {lib.Type_LIST: np.int32, lib.Type_LARGE_LIST: np.int64}

_REBUILD: Mapping[int, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    lib.Type_DICTIONARY: _from_dictionary,
    lib.Type_RUN_END_ENCODED: _from_runs,
    lib.Type_LIST_VIEW: _from_list_view,
    lib.Type_LARGE_LIST_VIEW: _from_list_view,
    lib.Type_LIST: _in_list,
    lib.Type_LARGE_LIST: _in_list,
    lib.Type_FIXED_SIZE_LIST: _in_fixed_size_list,
    lib.Type_MAP: _in_map,
    lib.Type_STRUCT: _in_struct,
}


NO_BOUND = sys.maxsize
LEAST_PARAMETER = 8
"""Bytes that a parameter counts at least: each row of them is a run of its statement."""
_MOST_APART = 1_024
"""Batches of parameters that are kept apart: each takes more memory than a row."""


@dataclass(slots=True, kw_only=True)
class InputRules:
    """Bounds of the input of clients in bytes, and whether columns may be dictionary-encoded; they may change while a server runs."""

    parameter_limit: int = NO_BOUND
    batch_limit: int = NO_BOUND
    takes_dictionaries: bool = False

    def follow(self, other: InputRules) -> None:
        """Take over the bounds of other rules."""
        self.parameter_limit, self.batch_limit = other.parameter_limit, other.batch_limit
        self.takes_dictionaries = other.takes_dictionaries

    def check_parameters(self, size: int) -> None:
        """Refuse parameters of more bytes than a statement may have."""
        if size > self.parameter_limit:
            raise LimitExceeded(
                f"more than {self.parameter_limit} bytes of parameters (parameter_limit), each value counted by itself and"
                f" with {LEAST_PARAMETER} bytes at least; expected an ingest"
            )


def read_rows(rows: pa.RecordBatchReader, call: Call, rules: InputRules, what: str) -> pa.RecordBatchReader:
    """Read the rows of an ingest, dictionaries decoded; `LimitExceeded` for a batch that is too large once each value stands by itself."""
    _check_names(rows.schema, what)
    if not rules.takes_dictionaries:
        refuse_dictionaries(rows.schema, what, "this server takes no dictionaries (dictionary_ingest)")
    schema = decoded_schema(rows.schema)

    def bounded() -> Iterator[pa.RecordBatch]:
        for batch in _to_the_end(rows, call, what):
            size = decoded_bytes(batch, rules.batch_limit)
            if size > rules.batch_limit:
                raise LimitExceeded(
                    f"a record batch of {max(size, batch.nbytes)} bytes; expected at most {rules.batch_limit} (batch_limit),"
                    " each value counted by itself"
                )
            yield batch

    return pa.RecordBatchReader.from_batches(schema, decode_batches(bounded(), schema))


def read_parameters(reader: flight.MetadataRecordBatchReader, call: Call, rules: InputRules) -> pa.RecordBatch | None:
    """Read all rows of parameters into one batch; None for a stream without columns, or without even a schema."""
    what = "the parameters of a statement"
    # A stream without a schema has no rows either; whether its client went away is asked at its end, below.
    with contextlib.suppress(OSError, pa.ArrowInvalid):
        _check_names(reader.schema, what)
        refuse_dictionaries(reader.schema, what, "parameters are no dictionaries")
    sent = (chunk.data for chunk in reader if chunk.data is not None)
    joined: list[pa.RecordBatch] = []
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in _to_the_end(sent, call, what):
        size += decoded_bytes(batch, rules.parameter_limit - size, least=LEAST_PARAMETER)
        rules.check_parameters(size)
        batches.append(batch)
        if len(batches) == _MOST_APART:
            joined.append(pa.concat_batches(batches))
            batches.clear()
    joined += batches
    return pa.concat_batches(joined) if joined and joined[0].num_columns else None


def _to_the_end(batches: Iterable[pa.RecordBatch], call: Call, what: str) -> Iterator[pa.RecordBatch]:
    """Yield the validated batches of a stream; raise an error if it ends because the client disconnected, which gRPC reports as its end.

    Each batch is validated in full: Arrow trusts its offsets, and those that point outside of it crash the process.
    """
    try:
        for batch in batches:
            batch.validate(full=True)
            yield batch
    except (flight.FlightError, pa.ArrowMemoryError):
        raise
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"{what} cannot be read: {error}") from error
    if call.is_cancelled():
        raise InvalidInput(f"the client went away before the end of {what}; nothing was stored")


def _check_names(fields: Iterable[pa.Field], what: str) -> None:
    """Refuse names that are no valid text, which Arrow does not check."""
    for column in fields:
        try:
            _ = column.name
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{what} have a column whose name is not UTF-8") from error
        if column.type.num_fields:
            _check_names((column.type.field(place) for place in range(column.type.num_fields)), what)


def refuse_dictionaries(schema: pa.Schema, what: str, why: str) -> None:
    """Raise `SchemaError` that names each column with a dictionary, the reason `why`, and the cast that removes it."""
    problems = [
        f"column {field.name!r} is {field.type}; {why}; expected it cast to {client_type(field.type)} before it is sent"
        for field in _with_dictionaries(schema)
    ]
    if problems:
        raise SchemaError(what, problems)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of batches that `decode_batches` returns: columns that contain dictionaries get the types of the values."""
    fields = [f.with_type(client_type(f.type)) if has_dictionary(f.type) else f for f in schema]
    return pa.schema(fields, metadata=schema.metadata)


def decode_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert `batches` to the types of `decoded_schema`."""
    for batch in batches:
        columns = [
            column if column.type == field.type else convert(column, field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_dictionaries(schema: pa.Schema) -> Sequence[pa.Field]:
    types = schema.types
    dictionaries = {kind for kind in set(types) if has_dictionary(kind)}
    return [schema.field(place) for place, kind in enumerate(types) if kind in dictionaries] if dictionaries else []
