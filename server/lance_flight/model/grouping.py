"""Rows by their partition values: equal values get equal numbers, NULL being a value (decision 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.model.arrow_types import contiguous

RADIX_SORTED = 1 << 16


def group_codes(columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> np.ndarray:
    """Return one int64 per row, equal exactly where all `columns` are equal (NULL equals NULL); not contiguous."""
    codes = np.zeros(rows, np.int64)
    width = 1
    for column in columns:
        numbers, size = _number_values(contiguous(column))
        if width * size >= 2**62:
            _, codes = np.unique(codes, return_inverse=True)
            width = int(codes.max(initial=0)) + 1
        codes = codes * size + numbers
        width *= size
    return codes


def _number_values(column: pa.Array) -> tuple[np.ndarray, int]:
    """Return a number below `size` for each value, and `size`.

    Small integers are their own numbers, NULL comes last.
    """
    if pa.types.is_integer(column.type) and column.null_count < len(column):
        least, most = (int(end.as_py()) for end in pc.min_max(column).values())
        if most - least < RADIX_SORTED:
            known = column.fill_null(pa.scalar(least, column.type)).to_numpy(zero_copy_only=False)
            # Unsigned values may lie beyond int64, and then subtract without leaving their type.
            numbers = (known - known.dtype.type(least)) if known.dtype.kind == "u" else known.astype(np.int64) - least
            numbers = numbers.astype(np.int64, copy=False)
            if column.null_count:
                numbers[column.is_null().to_numpy(zero_copy_only=False)] = most - least + 1
            return numbers, most - least + 2
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), max(len(encoded.dictionary), 1)


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows sorted by group: `order` takes them there (None: they are there); group i is `starts[i]:starts[i + 1]`.

    `first` is the first row of each group, in the old order.
    """

    order: np.ndarray | None
    starts: np.ndarray
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.first)


def group(columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> RowGroups:
    """The rows grouped by `columns`, in their old order within each group."""
    codes = group_codes(columns, rows)
    if codes.size and codes.max() < RADIX_SORTED:
        codes = codes.astype(np.uint16)  # numpy sorts 16 bits with a radix sort: ten times faster
    is_sorted = not np.any(codes[1:] < codes[:-1])
    order = np.arange(rows) if is_sorted else np.argsort(codes, kind="stable")
    arranged = codes if is_sorted else codes[order]
    edges = np.flatnonzero(arranged[1:] != arranged[:-1]) + 1
    starts = np.concatenate([[0], edges, [rows]]) if rows else np.zeros(1, np.int64)
    return RowGroups(None if is_sorted else order, starts, order[starts[:-1]])


def match(needles: pa.Table, haystack: pa.Table) -> np.ndarray:
    """Return for each row of `needles` the first equal row of `haystack`, or −1; columns match by position."""
    columns = [
        pa.concat_arrays([contiguous(a), contiguous(b).cast(a.type)])
        for a, b in zip(haystack.columns, needles.columns, strict=True)
    ]
    codes = group_codes(columns, haystack.num_rows + needles.num_rows)
    known, at = np.unique(codes[: haystack.num_rows], return_index=True)
    wanted = codes[haystack.num_rows :]
    place = np.searchsorted(known, wanted)
    place[place == len(known)] = 0
    hit = known[place] == wanted if len(known) else np.zeros(len(wanted), bool)
    return np.where(hit, at[place] if len(known) else -1, -1)
