"""Detection of NULL inside vectors: in a column, and by what the data files of a table say of themselves.

A vector with NULL inside is near to nothing, and Lance takes the NULL for 0: a search has to look at the vectors of the rows that it finds.
Files say of each page of vectors whether any value is missing in it, so that of most tables no vector needs to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset
from lance.file import LanceFileReader

from lance_flight.catalog.storage.lance_fields import number_at
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.catalog.storage.whole_files import DATA
from lance_flight.catalog.tables.partitions import path_of_base
from lance_flight.lru_cache import LruCache
from lance_flight.model.arrow_types import is_multivector

MOST_FILES = 1024
"""Files of one version that are looked at; the vectors of one with more are read."""
_KNOWN_FILES = 65_536
_OF_VECTORS = "FixedSizeList"
_OF_GAPS = ("has_validity: true", "SomeNull", "AllNull")
"""What Lance's description of a page has if a value in it, or a vector as a whole, is missing."""

_of_versions: WeakKeyDictionary[LanceDataset, dict[tuple[str, ...], bool]] = WeakKeyDictionary()
_of_files = LruCache[tuple[str, int], bool](_KNOWN_FILES)
"""Whether the pages of a column of a file, which never changes, have no gaps."""


def may_have_gaps(dataset: LanceDataset, path: Sequence[str]) -> bool:
    """Return whether a vector of an open version may have NULL inside; `path` leads to the field of vectors.

    True where files do not say, or lie in an object store, which is asked for nothing that a search can do without.
    """
    known = _of_versions.setdefault(dataset, {})
    key = tuple(path)
    if key not in known:
        known[key] = not _is_whole(dataset, key)
    return known[key]


def _is_whole(dataset: LanceDataset, path: tuple[str, ...]) -> bool:
    number = number_at(dataset.lance_schema, path)
    if number is None:
        return False
    places, fragments = _places(dataset), dataset.get_fragments()
    return len(fragments) <= MOST_FILES and all(
        _of_fragment(fragment.metadata.files, number, places) for fragment in fragments
    )


def _places(dataset: LanceDataset) -> dict[int | None, str]:
    """Return the local directories that the data files of a version lie in, by the base paths that they name (None: its own)."""
    bases = {number: base.path for number, base in dataset.base_paths().items() if base.is_dataset_root}
    paths = {number: path_of_base(address) for number, address in {None: dataset.uri, **bases}.items()}
    return {number: f"{path}/{DATA}" for number, path in paths.items() if path.startswith("/")}


def _of_fragment(files: Sequence[Any], number: int, places: dict[int | None, str]) -> bool:
    """Return whether the files of a fragment say that the vectors of a field are whole; no file may hold the field."""
    held = [(file, index) for file in files for index in _columns_of(file, number)]
    return bool(held) and all(_of_file(file, index, places) for file, index in held)


def _columns_of(file: Any, number: int) -> Iterator[int]:
    for field, column in zip(file.fields, file.column_indices, strict=False):
        if field == number:
            yield int(column)


def _of_file(file: Any, column: int, places: dict[int | None, str]) -> bool:
    place = places.get(file.base_id)
    if place is None or "/" in file.path:
        return False
    path = f"{place}/{file.path}"
    return _of_files.find((path, column), lambda: _is_whole_in(Path(path), column, file.file_size_bytes))


def _is_whole_in(file: Path, column: int, size: int | None) -> bool:
    # Lance panics at what is shorter than the end of a file.
    if not file.is_file() or file.stat().st_size != size:
        return False
    try:
        columns = LanceFileReader(str(file)).metadata().columns
    except UNREADABLE:
        # Who reads rows of it says what is the matter.
        return False
    return 0 <= column < len(columns) and all(_of_page(str(page.encoding)) for page in columns[column].pages)


def _of_page(described: str) -> bool:
    return _OF_VECTORS in described and not any(sign in described for sign in _OF_GAPS)


def have_gaps(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which vectors or multivectors of a column have NULL at some place; one that is NULL as a whole has not.

    >>> have_gaps(pa.array([[1, None], None, [1, 2]], pa.list_(pa.uint8(), 2))).tolist()
    [True, False, False]
    >>> have_gaps(pa.array([[[1, 2], None], None, [], [[1, 2]]], pa.list_(pa.list_(pa.uint8(), 2)))).tolist()
    [True, False, False, False]
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.zeros(0, np.bool_), *map(_have_gaps, chunks)])


def _have_gaps(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not is_multivector(column.type):
        return _vectors_with_gaps(column)
    vectors, rows = column.flatten(), pc.list_parent_indices(column).to_numpy()
    missing = vectors.is_null().to_numpy(zero_copy_only=False) | _vectors_with_gaps(vectors)
    gaps = np.zeros(len(column), np.bool_)
    gaps[rows[missing]] = True
    return gaps


def _vectors_with_gaps(vectors: pa.FixedSizeListArray) -> npt.NDArray[np.bool_]:
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)
    if not values.null_count:
        return np.zeros(len(vectors), np.bool_)
    missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, size)
    gaps: npt.NDArray[np.bool_] = missing.any(axis=1) & vectors.is_valid().to_numpy(zero_copy_only=False)
    return gaps
