"""Rows and parameters that clients send: validated, within their bounds, read to the end of their stream.

Dictionary-encoded columns are refused before the first frame is read, or decoded on arrival. pyarrow's server dereferences a null
pointer where a dictionary batch is followed by a frame without a header, in its own code and before a handler sees either. A stream
whose schema has no dictionary type cannot get there, nested ones included.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import flight

from lance_flight.decoded_sizes import decoded_bytes
from lance_flight.errors import InvalidInput, LimitExceeded, SchemaError
from lance_flight.flight.calls import Call
from lance_flight.flight.normalise import client_type, convert

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
    for field in fields:
        try:
            _ = field.name
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{what} have a column whose name is not UTF-8") from error
        if field.type.num_fields:
            _check_names((field.type.field(place) for place in range(field.type.num_fields)), what)


def has_dictionary(kind: pa.DataType) -> bool:
    """Return whether a type is a dictionary, or contains one at any depth.

    >>> has_dictionary(pa.list_(pa.struct({"x": pa.dictionary(pa.int8(), pa.utf8())})))
    True
    """
    if isinstance(kind, pa.BaseExtensionType):
        return has_dictionary(kind.storage_type)
    return pa.types.is_dictionary(kind) or any(has_dictionary(kind.field(n).type) for n in range(kind.num_fields))


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
