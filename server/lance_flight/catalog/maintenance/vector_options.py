"""Build options of a segment of a vector index.

Lance asks the whole table how many parts there are to be, and fails where the files of a segment have fewer vectors than
that: they are counted here first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from lance import LanceDataset

from lance_flight.model.arrow_types import field_at, is_multivector, vector_type
from lance_flight.model.index_kinds import PACKED_BITS, IndexKind, OptionValue

MOST_PARTS = 4096
_NUMBERS_OF_SUB_VECTOR = (8, 4, 2)
_BITS = 8
_BATCH_ROWS = 1024


def vector_options(
    dataset: LanceDataset,
    column: str,
    kind: IndexKind,
    options: Mapping[str, OptionValue],
    fragments: Mapping[int, int],
) -> dict[str, OptionValue] | None:
    """Return the options of a segment over some files (with their rows), including those that Lance has no default for.

    None where there are too few vectors to learn from. NULL and what has a number that is not finite does not count.
    """
    stored = field_at(dataset.schema, column).type
    vectors = vector_type(stored)
    if not pa.types.is_fixed_size_list(vectors):
        return dict(options)  # Lance says what is the matter
    count = sum(fragments.values())
    if is_multivector(stored):
        count = round(count * _vectors_of_row(dataset, column, fragments))
    parts = int(options.get("num_partitions", 0)) or min(max(1, count // kind.rows_of_part), MOST_PARTS)
    least, more = 1, {}
    if kind.is_quantised:
        least = 1 << int(options.get("num_bits", _BITS))
        more = {"num_sub_vectors": _sub_vectors(vectors.list_size, options)}
    found = _vectors(dataset, column, fragments, most=max(parts, least))
    return {**more, **options, "num_partitions": min(parts, found)} if found >= least else None


def _sub_vectors(size: int, options: Mapping[str, OptionValue]) -> int:
    """Return the number of sub-vectors, of eight numbers each if possible: with twice as many recall falls by a third.

    Lance packs two of four bits into a byte, and takes an even number of those.
    """
    packed = 2 if options.get("num_bits") == PACKED_BITS else 1
    return next((size // each for each in _NUMBERS_OF_SUB_VECTOR if size % (each * packed) == 0), packed)


def _vectors_of_row(dataset: LanceDataset, column: str, fragments: Iterable[int]) -> float:
    """Return how many vectors a multivector has on average, by the first rows of some files."""
    first = next(_batches(dataset, column, fragments), None)
    return len(first.flatten()) / len(first) if first is not None and len(first) else 0.0


def _batches(dataset: LanceDataset, column: str, fragments: Iterable[int]) -> Iterator[pa.Array]:
    files = [dataset.get_fragment(number) for number in sorted(fragments)]
    for batch in dataset.scanner(columns=[column], fragments=files, batch_size=_BATCH_ROWS).to_batches():
        yield batch.column(0)


def _vectors(dataset: LanceDataset, column: str, fragments: Iterable[int], most: int) -> int:
    """Return how many vectors some files have, up to a number."""
    found = 0
    for stored in _batches(dataset, column, fragments):
        found += _usable(stored.flatten() if is_multivector(stored.type) else stored)
        if found >= most:
            return most
    return found


def _usable(vectors: pa.FixedSizeListArray) -> int:
    stored = vectors.drop_null()
    numbers = stored.flatten().to_numpy(zero_copy_only=False).reshape(-1, vectors.type.list_size)
    return int(np.isfinite(numbers).all(axis=1).sum())
