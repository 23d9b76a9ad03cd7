"""Types that Arrow guesses from the first rows, where they would lose a part of the text.

Arrow takes `00012` for the number 12, text in another encoding than UTF-8 for bytes, and JSON's `…Z` for a moment without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.errors import DataError

First = Callable[[Sequence[str], Sequence[str]], Iterable[pa.RecordBatch]]
"""Function that returns the first rows of each file: of CSV with some columns as text, of JSON with others."""

_PADDED = r"^\s*[+-]?0[0-9]"
_ZONED = r"[0-9](?:[Zz]|[+-][0-9]{2}:?[0-9]{2})\s*$"
_UTC = pa.timestamp("us", "UTC")
_LEADING_ZERO = re.compile(r"(?:^|/)([^/=]+)=[+-]?0[0-9]")


def corrected(schema: pa.Schema, guessed: Sequence[str], first: First) -> pa.Schema:
    """Return the schema of files with types for the `guessed` columns that keep what the first rows have.

    Numbers with leading zeros become text, and moments with a zone ones of UTC. `DataError` names a column whose text is not UTF-8.
    """
    kinds = {field.name: field.type for field in schema if field.name in guessed}
    for name, kind in kinds.items():
        if pa.types.is_binary(kind):
            raise DataError(
                f"column {name!r} is no UTF-8 text; say what it is: --encoding latin-1 (or another),"
                f' or --types "{name} VARBINARY" for bytes'
            )
    numbers = [name for name, kind in kinds.items() if pa.types.is_integer(kind)]
    moments = [name for name, kind in kinds.items() if pa.types.is_timestamp(kind) and kind.tz is None]
    better: dict[str, pa.DataType] = {}
    for batch in first(numbers, moments) if numbers or moments else ():
        texts = {name: batch[name] for name in batch.schema.names if pa.types.is_string(batch.schema.field(name).type)}
        better |= {name: pa.utf8() for name in numbers if name in texts and _matches(texts[name], _PADDED)}
        better |= {name: _UTC for name in moments if name in texts and _matches(texts[name], _ZONED)}
    return pa.schema([field.with_type(better.get(field.name, field.type)) for field in schema])


def padded_names(paths: Iterable[str]) -> set[str]:
    """Return the columns that directories are named by, of which one has a number with leading zeros.

    >>> padded_names(["in/zip=00012/day=3/a.csv"])
    {'zip'}
    """
    return {name for path in paths for name in _LEADING_ZERO.findall(path)}


def as_numbers(
    batches: Iterable[pa.RecordBatch], types: pa.Schema, numbers: Iterable[str], nulls: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows with some `types`, whose columns of `numbers` were read as text; `ArrowInvalid` for a number with leading zeros."""
    rows = 0
    for batch in batches:
        columns = list(batch.columns)
        for place, field in enumerate(types):
            if field.name in numbers:
                try:
                    columns[place] = _as_number(columns[place], field.type, nulls, rows)
                except pa.ArrowInvalid as exc:
                    raise pa.ArrowInvalid(f"In CSV column #{place} ({field.name}): {exc}") from exc
        rows += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=types)


def _as_number(column: pa.Array, kind: pa.DataType, nulls: Sequence[str], rows: int) -> pa.Array:
    known = pc.if_else(pc.is_in(column, pa.array(nulls, pa.utf8())), pa.scalar(None, pa.utf8()), column)
    padded = pc.index(pc.match_substring_regex(known, _PADDED), True).as_py()
    if padded >= 0:
        raise pa.ArrowInvalid(f"Row #{rows + padded + 2}: {known[padded].as_py()!r} would lose its zeros as a number")
    trimmed = pc.utf8_trim_whitespace(known)
    wrong = pc.index(pc.match_substring_regex(trimmed, r"^-?[0-9]+$"), False).as_py()
    if wrong >= 0:
        raise pa.ArrowInvalid(
            f"Row #{rows + wrong + 2}: CSV conversion error to {kind}: invalid value {known[wrong].as_py()!r}"
        )
    return trimmed.cast(kind)


def _matches(column: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())
