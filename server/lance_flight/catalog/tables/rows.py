"""Rows made to fit the namespace schema: columns by name, lossless casts, NULL where a column is missing; and their lineage.

The executors of a bulk pipeline use this as well as the server.

A vector with NULL inside is near to nothing, and Lance takes the NULL for 0: a search has to look at the vectors of the rows that it finds.
Files say of each page of vectors whether any value is missing in it, so that of most tables no vector needs to be read.

Lineage is the versions that added and changed rows, and the names that rows keep. Lance's format has both where stable row ids are on ("Row ID & Lineage"), which is said once, when a table is made. The
rows of a partition table are numbered by themselves: what names a row is the partition and its id.

A name is the partition with the id of the row there, `v1$a$dataset#7`, where rows have stable ids. Elsewhere it holds for one version of
the partition table, which the name says: `v1$a$dataset@12.5f3a#4294967296`, with the time of the version, since one of the
same number may be another one (a transaction was rolled back), and the address of the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset
from lance.file import LanceFileReader
from lance.fragment import RowIdSequence

from lance_flight.arrow_streams import fixed_bytes, has_dictionary
from lance_flight.catalog.storage.lance_columns import number_at
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.catalog.storage.whole_files import DATA, OFFSET_BITS, TABLE_NUMBER
from lance_flight.catalog.tables.partitions import path_of_base
from lance_flight.errors import DataError, SchemaError
from lance_flight.lru_cache import LruCache
from lance_flight.model.arrow_types import (
    is_list,
    is_multivector,
    is_number,
    is_string,
    is_vector,
    replace_innermost,
    storage_of,
    vector_type,
)
from lance_flight.model.json_documents import documents, has_json_inside, is_document, is_json
from lance_flight.model.type_names import type_name

_SHOWN = 3
MOST_EXACT_STEPS = 2.0**50
"""Most steps of the last digit of a decimal that a double tells apart with room to spare."""
_PART_BYTES, _FEWEST_ROWS = 64 << 20, 64
"""Bytes of rows that are made to fit at once, as far as the types of their columns tell, and the fewest rows."""
_ANY_DIGITS = Context(prec=100, rounding=ROUND_HALF_UP)
_ANY_INTEGER = pa.decimal128(20, 0)


NO_DEFAULTS: Mapping[str, pa.Scalar] = MappingProxyType({})


def fit(source: pa.Schema, target: pa.Schema, *, what: str, defaults: Mapping[str, pa.Scalar] = NO_DEFAULTS) -> None:
    """Check that rows of `source` can be stored as `target`; `SchemaError` names every column that cannot.

    A column that `source` lacks has its default, and a nullable one without becomes NULL. Types are compared as far as they decide alone; values
    are checked by `conform`.
    """
    problems = [f"column {n!r} stands {source.names.count(n)} times" for n in _duplicates(source.names)]
    problems += [f"column {n!r} is not in the table" for n in source.names if n not in target.names]
    for field in target:
        if field.name not in source.names:
            if not field.nullable and field.name not in defaults:
                problems.append(f"column {field.name!r} ({type_name(field.type)} NOT NULL) is missing")
            continue
        kind = source.types[source.names.index(field.name)]
        if not _castable(kind, field.type):
            problems.append(f"column {field.name!r} is {type_name(kind)}; expected {type_name(field.type)}")
    if problems:
        raise SchemaError(what, problems)


def conform(
    batch: pa.RecordBatch | pa.Table,
    target: pa.Schema,
    defaults: Mapping[str, pa.Scalar] = NO_DEFAULTS,
    *,
    is_stored: bool = False,
) -> pa.Table:
    """Return `batch` with exactly the columns of `target`; `DataError` names the column and a value that does not fit.

    Vectors with NULL inside, which nothing is near to, and texts that are no JSON in a column of it are refused unless the rows are stored already.
    """
    names = batch.schema.names
    columns = []
    for field in target:
        if field.name in names:
            column = batch.column(names.index(field.name))
            is_fit = column.type == field.type and (is_stored or not is_json(field.type))
            column = column if is_fit else _cast(column, field)
        else:
            default = defaults.get(field.name)
            column = pa.nulls(batch.num_rows, field.type) if default is None else pa.repeat(default, batch.num_rows)
        if not field.nullable and column.null_count:
            # Batches are stored as they come, several at a time: the rows before this one are not counted.
            where = f"row {_first_null(column) + 1} of a batch of {len(column)}"
            raise DataError(f"column {field.name!r} is NOT NULL and has NULL in {where}")
        if not is_stored:
            check_vectors(field, column)
            _check_inside(field)
        columns.append(with_one_nan(column))
    return pa.Table.from_arrays(columns, schema=target)


def with_one_nan(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a column whose NaN has no sign: 0 / 0 has one on x86, and DataFusion sorts it lowest.

    Numbers in lists, such as vectors, stay as they are.
    """
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([with_one_nan(chunk) for chunk in column.chunks], kind)
    if pa.types.is_struct(kind):
        fields = [column.field(place) for place in range(kind.num_fields)]
        unsigned = [with_one_nan(field) for field in fields]
        if all(new is field for new, field in zip(unsigned, fields, strict=True)):
            return column
        return pa.StructArray.from_arrays(unsigned, fields=list(kind), mask=column.is_null())
    if not pa.types.is_floating(kind):
        return column
    is_nan = pc.is_nan(column.cast(pa.float32()) if pa.types.is_float16(kind) else column)
    return pc.if_else(is_nan, pa.scalar(np.nan, kind), column) if pc.any(is_nan).as_py() else column


def in_parts(
    tables: Iterable[pa.Table], target: pa.Schema, defaults: Mapping[str, pa.Scalar] = NO_DEFAULTS
) -> Iterator[pa.Table]:
    """Yield the same rows, few enough at once that what their columns in `target` take is small: NULL vectors come without bytes."""
    width = sum(fixed_bytes(field.type) for field in target) + sum(
        pa.repeat(default, 1).nbytes for default in defaults.values()
    )
    most = max(_FEWEST_ROWS, _PART_BYTES // max(width, 1))
    for table in tables:
        if table.num_rows <= most:
            yield table
        else:
            yield from (table.slice(start, most) for start in range(0, table.num_rows, most))


def _check_inside(field: pa.Field) -> None:
    """Refuse documents inside lists, maps and structs, where their texts are not looked at."""
    if has_json_inside(field.type):
        raise DataError(
            f"column {field.name!r} is {type_name(field.type)}, in which no JSON is written; expected it in a column of its own"
        )


def check_vectors(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> None:
    """Raise `DataError` for a vector or multivector that has NULL inside."""
    if not is_vector(vector_type(field.type)):
        return
    (rows,) = np.nonzero(have_gaps(column))
    if len(rows):
        raise DataError(
            f"column {field.name!r} has NULL inside the vector of row {int(rows[0]) + 1} of a batch of {len(column)};"
            " expected numbers alone, or NULL for the whole vector"
        )


def round_to_float(table: pa.Table, target: pa.Schema) -> pa.Table:
    """Return `table` with its numbers as the nearest ones that float and decimal columns of `target` hold.

    This is SQL's assignment; the numbers of vectors, and of other lists of floats, are rounded too.
    Columns are matched by name. What is out of range stays as it is, for `conform` to refuse.
    """
    for place, field in enumerate(table.schema):
        kind = target.field(field.name).type
        is_wider = kind != field.type and (pa.types.is_floating(kind) or pa.types.is_decimal(kind))
        if (is_wider and is_number(field.type)) or _are_floats(field.type, kind):
            nearest = _nearest(table.column(place), kind)
            table = table.set_column(place, field.with_type(nearest.type), nearest)
    return table


def _are_floats(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether lists of numbers become lists of floats."""
    if source == target or not (is_list(source) and is_list(target)):
        return False
    source, target = source.value_type, target.value_type
    return (is_number(source) and pa.types.is_floating(target)) or _are_floats(source, target)


def _nearest(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        if pa.types.is_decimal(kind):
            is_finer = pa.types.is_decimal(column.type) and column.type.scale > kind.scale
            if pa.types.is_floating(column.type):
                return _as_written(column, kind)
            return _convert(pc.round(column, kind.scale, "half_towards_infinity") if is_finer else column, kind)
        nearest = column.cast(kind, safe=False)
    except pa.ArrowInvalid:
        return column
    mine, given = (
        _doubles(pc.list_flatten(each, recursive=True) if is_list(kind) else each) for each in (nearest, column)
    )
    return column if np.any(np.isinf(mine) & np.isfinite(given)) else nearest


def _as_written(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return floats as the decimals that are nearest to their shortest texts: of 2.675, which no double has, 2.68."""
    nearest, doubles = column.cast(kind), _doubles(column)
    with np.errstate(all="ignore"):
        scaled = np.abs(doubles) * 10.0**kind.scale
        # Beyond, a double has other digits than its text; half of the last digit is one step off in it.
        are_close = (scaled >= MOST_EXACT_STEPS) | (np.abs(scaled % 1 - 0.5) <= scaled * 2.0**-50 + 1e-9)
    places = np.flatnonzero(are_close & np.isfinite(doubles))
    if not len(places):
        return nearest
    step = Decimal(1).scaleb(-kind.scale)
    texts = map(str, column.take(pa.array(places)).to_numpy())
    written = [_ANY_DIGITS.quantize(Decimal(text), step) for text in texts]
    mask = np.zeros(len(column), np.bool_)
    mask[places] = True
    return pc.replace_with_mask(nearest.combine_chunks(), pa.array(mask), pa.array(written, kind))


def _doubles(numbers: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return numbers as doubles, NULL as NaN: Arrow asks no half float whether it is infinite."""
    if pa.types.is_decimal(numbers.type):
        numbers = numbers.cast(pa.float64())
    given = numbers.to_numpy() if isinstance(numbers, pa.ChunkedArray) else numbers.to_numpy(zero_copy_only=False)
    doubles: npt.NDArray[np.float64] = given.astype(np.float64)
    return doubles


def _cast(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if column.null_count == len(column):
        return pa.nulls(len(column), field.type)
    # Arrow casts no numbers to a dictionary, which the way back would need.
    if has_dictionary(column.type) and not has_dictionary(field.type):
        column = column.cast(_decoded_type(column.type))
    if is_json(field.type):
        return documents(column, field.name)
    try:
        if is_vector(vector_type(field.type)) and is_list(column.type):
            return _as_vectors(column, field)
        cast = _convert(column, field.type)
        # Text is parsed and written by rules of its own, and NULL alone, as in an empty list, is nothing else.
        if (
            not is_string(column.type)
            and not is_string(field.type)
            and not pa.types.is_null(_innermost_type(column.type))
        ):
            _refuse_changed(column, cast, field.name)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as exc:
        raise DataError(
            f"column {field.name!r} holds {type_name(column.type)} values that do not fit {type_name(field.type)} without loss: {exc}"
        ) from exc
    return cast


def _as_vectors(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return lists of numbers as vectors of a column: each number the nearest one that a float holds, and exactly it otherwise."""
    kind = vector_type(field.type)
    check_lengths(
        column, field.name, kind.list_size, f", as {type_name(kind)} has", are_inside=is_multivector(field.type)
    )
    if not pa.types.is_floating(kind.value_type):
        return _convert(column, field.type)
    nearest = column if column.type == field.type else _nearest(column, field.type)
    if nearest.type != field.type and is_string(_innermost_type(column.type)):
        raise DataError(
            f"column {field.name!r} is {type_name(column.type)}; expected lists of numbers, as {type_name(kind)} is"
        )
    if nearest.type != field.type:
        raise DataError(
            f"column {field.name!r} holds vectors in {type_name(column.type)} with numbers beyond {type_name(kind)}"
        )
    return nearest


def check_lengths(
    column: pa.Array | pa.ChunkedArray, name: str, size: int, why: str, *, are_inside: bool = False
) -> None:
    """Raise `DataError`, which names the row and the lengths, for a list that has not `size` numbers; `why` these are expected.

    The lists are `are_inside` those of the column, or these themselves.
    """
    lists = pc.list_flatten(column) if are_inside else column
    if not is_list(lists.type):
        return
    lengths = pc.list_value_length(lists)
    wrong = pc.index(pc.fill_null(pc.not_equal(lengths, size), fill_value=False), True).as_py()
    if wrong >= 0:
        row = _row_of(column, wrong) if are_inside else wrong
        raise DataError(
            f"column {name!r} holds {lengths[wrong].as_py()} numbers in {'a' if are_inside else 'the'} vector of row {row + 1}"
            f" of a batch of {len(column)}; expected {size}{why}"
        )


def _row_of(column: pa.Array | pa.ChunkedArray, place: int) -> int:
    """Return the row whose list has the element that stands at a place among those of all rows."""
    ends = np.cumsum(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False))
    return int(np.searchsorted(ends, place, side="right"))


def _convert(
    column: pa.Array | pa.ChunkedArray, kind: pa.DataType, *, is_safe: bool = True
) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_decimal(kind) and pa.types.is_integer(column.type):
        # Arrow asks whether the type holds every integer; as a decimal, whether it holds these.
        column = column.cast(_ANY_INTEGER)
    return column.cast(kind, safe=is_safe)


def _refuse_changed(column: pa.Array | pa.ChunkedArray, cast: pa.Array | pa.ChunkedArray, name: str) -> None:
    """Refuse values that casting back does not restore: Arrow's own checks let fractions, times of day and more be lost."""
    given, kind = column.type, cast.type
    if pa.types.is_struct(given) and pa.types.is_struct(kind) and [f.name for f in given] == [f.name for f in kind]:
        for one, other in zip(column.flatten(), cast.flatten(), strict=True):
            _refuse_changed(one, other, name)
        return
    if pa.types.is_null(_innermost_type(given)):  # of empty lists alone
        return
    changed = _differing(_convert(cast, given, is_safe=False), column)
    if pc.any(changed).as_py():
        values = column.filter(changed).slice(0, _SHOWN).to_pylist()
        raise DataError(f"column {name!r} holds {values} that do not fit {type_name(kind)} without loss")


def _differing(left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return where two columns of one type differ; NaN counts as the same."""
    kind = right.type
    if pa.types.is_nested(kind) or pa.types.is_float16(kind):
        # Arrow compares neither.
        return pa.array(
            [repr(a) != repr(b) for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)], pa.bool_()
        )
    different = pc.not_equal(left, right)
    return pc.and_(different, pc.invert(pc.is_nan(right))) if pa.types.is_floating(kind) else different


def _decoded_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries at any depth."""
    return replace_innermost(kind, lambda inner: inner.value_type if pa.types.is_dictionary(inner) else inner)


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether there is a cast at all; whether it is lossless, the values decide.

    Text is not parsed into numbers or dates by an ingest: that hides mistakes.
    """
    if has_dictionary(source) and not has_dictionary(target):
        source = _decoded_type(source)
    if source == target or pa.types.is_null(source):
        return True
    if is_json(target):
        return is_document(source)
    source = storage_of(source) if is_json(source) else source
    if is_string(source) != is_string(target) and not pa.types.is_dictionary(source):
        return False
    # Arrow looks at the sizes of lists only where there are some.
    have_sizes = pa.types.is_fixed_size_list(source) and pa.types.is_fixed_size_list(target)
    if have_sizes and source.list_size != target.list_size:
        return False
    try:
        _convert(pa.nulls(0, source), target)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True


def _innermost_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values in lists of any depth."""
    return _innermost_type(kind.value_type) if is_list(kind) else kind


def _duplicates(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return [name for name in dict.fromkeys(listed) if listed.count(name) > 1]


def _first_null(column: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.index(pc.is_null(column), True).as_py())


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


PARTITION = "_partition"
ROW_ID = "_rowid"
PARTITION_FIELD = pa.field(PARTITION, pa.utf8())
ROW_ID_FIELD = pa.field(ROW_ID, pa.uint64())
LINEAGE_FIELDS = (
    ROW_ID_FIELD,
    pa.field("_row_created_at_version", pa.uint64()),
    pa.field("_row_last_updated_at_version", pa.uint64()),
)
"""Lineage columns of Lance: the id of a row, and the versions of its table that inserted it and changed it last.

NULL in a table without stable row ids, as another writer may make one.
"""
ROW_ORIGIN = "_row_origin"
ROW_ORIGIN_FIELD = pa.field(ROW_ORIGIN, pa.uint64())
"""The id of a row, beside its name in `_rowid` (`row_names`)."""
LINEAGE = frozenset(field.name for field in LINEAGE_FIELDS)

NumberOf = Callable[[str], int | None]
"""The number of the table with an object id, in `TABLE_NUMBER`."""
ORIGIN_FIELDS = (pa.field(TABLE_NUMBER, pa.int32()), ROW_ORIGIN_FIELD)
"""Of a row that takes the place of another: the number of the table that has that one, and its id there."""


def with_origin(rows: pa.Table, origin: pa.Table) -> pa.Table:
    """Return rows with the origin of the same rows: NULL where they replace no row."""
    for field in ORIGIN_FIELDS:
        rows = rows.append_column(field, origin[field.name])
    return rows


def conform_with_lineage(
    table: pa.Table,
    target: pa.Schema,
    defaults: Mapping[str, pa.Scalar] = NO_DEFAULTS,
    *,
    is_stored: bool = False,
) -> pa.Table:
    """Return `conform`, which leaves what is known of the origin of rows where it is."""
    stored = conform(table, target, defaults, is_stored=is_stored)
    return with_origin(stored, table) if ROW_ORIGIN in table.column_names else stored


def by_ids(table: pa.Table, stored: pa.Schema, number: int | None) -> Iterator[tuple[pa.Table, pa.Array | None]]:
    """Yield rows for the table of a `number`: rows with the ids that they keep there, and new rows.

    New rows have no ids.
    """
    if ROW_ORIGIN not in table.column_names:
        yield table, None
        return
    ids = table[ROW_ORIGIN].combine_chunks()
    stays = pc.fill_null(
        pc.equal(table[TABLE_NUMBER].combine_chunks(), pa.scalar(number, pa.int32())), fill_value=False
    )
    stays = pc.and_(stays, ids.is_valid())
    plain = table.select(stored.names)
    for mine, kept in ((stays, True), (pc.invert(stays), False)):
        part = plain.filter(mine)
        if part.num_rows:
            yield part, ids.filter(mine) if kept else None


def keep_row_ids(fragments: Iterable[FragmentMetadata], ids: pa.Array | None) -> Iterator[FragmentMetadata]:
    """Yield new fragments whose rows are those that had the `ids`, in the same order: they go on being called so."""
    if ids is None:
        yield from fragments
        return
    if len(ids.unique()) < len(ids):
        raise DataError("a row is changed twice; expected one change at most")
    start = 0
    for fragment in fragments:
        mine = ids.slice(start, fragment.physical_rows)
        start += fragment.physical_rows
        yield replace(fragment, row_id_meta=RowIdSequence(mine).to_inline_metadata())


def without(fragments: Sequence[FragmentMetadata]) -> list[FragmentMetadata]:
    """Return the same fragments without lineage, for a table that knows of none."""
    return [
        replace(fragment, row_id_meta=None, created_at_version_meta=None, last_updated_at_version_meta=None)
        for fragment in fragments
    ]


ROW_NAME_FIELD = pa.field(ROW_ID, pa.utf8())
"""Column with the names of rows; in SQL it hides the number that Lance calls by the same name."""

_NAME = re.compile(r"(?P<partition>.*?)(?:@(?P<version>\d{1,20})\.[0-9a-f]+)?#\d{1,20}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Partition of a named row ("" of a plain table), and the version of its table that the name holds for (None: any)."""

    partition: str
    version: int | None


def place_of(name: str) -> RowPlace | None:
    """Return where a named row lies; None for a text that is no name of a row.

    >>> place_of("v1$a$dataset@12.5f3a#0"), place_of("v1$a$dataset#7"), place_of("seven")
    (RowPlace(partition='v1$a$dataset', version=12), RowPlace(partition='v1$a$dataset', version=None), None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return RowPlace(match["partition"], None if match["version"] is None else int(match["version"]))


def row_names(
    dataset: LanceDataset, partition: str | None, places: pa.Array, before: LanceDataset | None = None
) -> pa.Array:
    """Return the names of rows of one table, from their stable ids if it has such, else from their addresses.

    Rows that the version `before` has in the same files have their names from there: files never change.
    """
    if dataset.has_stable_row_ids:
        return _join_sequences(f"{partition or ''}#", places)
    named = _join_sequences(f"{partition or ''}{_version(dataset)}#", places)
    if before is None:
        return named
    files = _files(before)
    same = [number for number, path in _files(dataset).items() if files.get(number) == path]
    is_same = pc.is_in(pc.shift_right(places, OFFSET_BITS), value_set=pa.array(same, places.type))
    return pc.if_else(is_same, _join_sequences(f"{partition or ''}{_version(before)}#", places), named)


def _join_sequences(prefix: str, places: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(prefix, places.cast(pa.utf8()), "")


def _version(dataset: LanceDataset) -> str:
    committed_at = dataset.get_version()["timestamp"]
    return f"@{dataset.version}.{round(committed_at.timestamp() * 1e6):x}"


def _files(dataset: LanceDataset) -> dict[int, str]:
    """Return the path of the first file of each fragment, by the fragment's number."""
    return {fragment.fragment_id: fragment.metadata.files[0].path for fragment in dataset.get_fragments()}
