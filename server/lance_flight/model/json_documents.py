"""Columns of JSON: Arrow's own type for it, texts of which each is one document.

Lance stores a document, not its text: keys are sorted, spaces go, and numbers are integers of 64 bits or doubles. Its reader of texts
takes more than JSON (`{a: 01,}`, an empty text, NaN, which becomes null), changes what does not fit, and ends the process where brackets are
some thousands deep: what is written goes through `documents`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import DataError, LimitExceeded
from lance_flight.model.arrow_types import children, is_string
from lance_flight.threads import DOCUMENTS

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)

JSON = pa.json_()
MOST_DEPTH = 128
"""Arrays and objects inside each other: Lance's reader recurses into them on a small stack."""
MOST_CHARACTERS = 4 << 20
"""Characters of a document that is stored, or read by a function: read, it takes a hundred times its length."""
_SURE_DIGITS = 18
_INTEGERS = range(-(2**63), 2**64)
_SHOWN = 60


def is_json(kind: pa.DataType) -> bool:
    """Return whether a type is that of JSON.

    >>> is_json(pa.json_()), is_json(pa.utf8())
    (True, False)
    """
    return isinstance(kind, pa.JsonType)


def is_document(kind: pa.DataType) -> bool:
    """Return whether values of a type may be documents: JSON, or text."""
    return is_json(kind) or is_string(kind.value_type if pa.types.is_dictionary(kind) else kind)


def has_json_inside(kind: pa.DataType) -> bool:
    """Return whether a type has JSON at some depth, and is not JSON itself.

    >>> has_json_inside(pa.list_(pa.json_())), has_json_inside(pa.json_())
    (True, False)
    """
    return any(is_json(field.type) or has_json_inside(field.type) for field in children(kind))


def documents(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array | pa.ChunkedArray:
    """Return a column of texts or JSON as one of JSON; `DataError` names the column, the row and a text that is no document.

    >>> documents(pa.array(["[1]", "[1"]), "doc")
    Traceback (most recent call last):
    lance_flight.errors.DataError: column 'doc' holds '[1' in row 2 of a batch of 2, which is no JSON: Expecting ',' delimiter at character 3
    """
    if not is_document(column.type):
        raise DataError(f"column {name!r} holds {column.type}; expected documents, or texts of them")
    texts = column.cast(pa.utf8()) if is_json(column.type) or not pa.types.is_string(column.type) else column
    longest = pc.max(pc.utf8_length(texts)).as_py() or 0
    if longest > MOST_CHARACTERS:
        raise LimitExceeded(
            f"column {name!r} holds a document of {longest} characters; expected at most {MOST_CHARACTERS}"
        )
    for row, text in enumerate(texts.to_pylist(), 1):
        problem = None if text is None else _problem(text)
        if problem is not None:
            shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"
            raise DataError(f"column {name!r} holds {shown} in row {row} of a batch of {len(texts)}, which {problem}")
    return as_json(texts)


def as_json(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts that are known to be documents as JSON."""
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array(list(map(as_json, texts.chunks)), JSON)
    return pa.ExtensionArray.from_storage(JSON, texts)


def filter_rows(rows: pa.RecordBatch, condition: Any) -> pa.RecordBatch:
    """Return the rows of a batch for which an expression of Arrow is TRUE, to which documents are texts: Arrow compares no JSON."""
    kept: pa.RecordBatch = texts_of(rows).filter(condition)
    if kept.schema.equals(rows.schema):
        return kept
    columns = [
        as_json(column) if is_json(kind) else column
        for column, kind in zip(kept.columns, rows.schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def texts_of(rows: _Rows) -> _Rows:
    """Return rows with the texts of documents in place of these."""
    if not any(map(is_json, rows.schema.types)):
        return rows
    columns = [column.cast(pa.utf8()) if is_json(column.type) else column for column in rows.columns]
    return type(rows).from_arrays(columns, names=rows.schema.names)


def read_json(text: str | bytes) -> Any:
    """Return a stored document that is read as JSON; `ValueError` for one that is none, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"it {_TOO_DEEP}") from None


def _problem(text: str) -> str | None:
    """Return what is wrong with a text that is to be stored as a document."""
    try:
        with DOCUMENTS.turn(len(text)):
            value = _READER.decode(text)
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as exc:
        return f"is no JSON: {exc.msg.removesuffix(' at')} at character {exc.pos + 1}"
    except UnicodeEncodeError:
        return "has half of a character: a surrogate without the other one"
    except _Unfit as exc:
        return str(exc)
    except RecursionError:
        return _TOO_DEEP
    is_deep = text.count("[") + text.count("{") > MOST_DEPTH and _depth(value) > MOST_DEPTH
    return _TOO_DEEP if is_deep else None


_TOO_DEEP = f"is more than {MOST_DEPTH} arrays and objects deep"


class _Unfit(ValueError):
    """A part of a document that Lance does not store as it is."""


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    by_key = dict[str, Any]()
    for key, value in members:
        if key in by_key:
            raise _Unfit(f"has the key {key[:_SHOWN]!r} twice in one object")
        by_key[key] = value
    return by_key


def _integer(text: str) -> int:
    if len(text) > _SURE_DIGITS and (len(text) > _SURE_DIGITS + 3 or int(text) not in _INTEGERS):
        raise _Unfit(f"has the integer {text[:_SHOWN]}; expected one of 64 bits, or a text")
    return 0


def _fraction(text: str) -> float:
    if math.isinf(float(text)):
        raise _Unfit(f"has the number {text[:_SHOWN]}; expected one that a double holds, or a text")
    return 0.0


def _constant(word: str) -> NoReturn:
    raise _Unfit(f"is no JSON: {word} is no value of it")


_READER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def _depth(value: Any) -> int:
    """Return how many arrays and objects of a value lie inside each other."""
    depth, level = 0, [value]
    while level := [field for field in level if isinstance(field, list | dict)]:
        depth += 1
        level = [inner for field in level for inner in _members(field)]
    return depth


def _members(value: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
