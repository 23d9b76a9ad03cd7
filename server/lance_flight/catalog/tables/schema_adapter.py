"""Rows of partition tables made to fit the schema of the namespace: missing columns are filled, others are cast.

Some writers leave the columns of identity fields out of their tables, since the manifest says what all rows have there.
Files may also lack a column that their table has, as Lance lets an append leave out columns.

First draft of the spec, section 4 (reads). A field of a table holds that of the namespace whose id is in its metadata. Where
none of its neighbours has an id there, it is the one of its name, and else the one whose id is Lance's own number of it. Names come
first, since Lance numbers the columns of a new table by position: a writer that leaves out a column, or has them in another
order, gives the others numbers of which the namespace knows nothing, but nobody gives a column another's name unawares.

First draft, section 4. Columns of one name, or one field id, are cast, nested fields by their names: what is missing reads
as NULL, what is extra is left out. Who writes leaves nothing out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.manifests.snapshot import PartitionContext
from lance_flight.catalog.storage.lance_columns import (
    columns_of,
    columns_with_metadata,
    field_id,
    numbered_columns,
    numbers,
    walk,
    without_files,
)
from lance_flight.catalog.storage.whole_files import OFFSET_BITS, ROW_ADDRESS
from lance_flight.errors import DataError, SchemaError
from lance_flight.lru_cache import VersionCache
from lance_flight.model.arrow_types import children, contiguous, is_binary, is_string, rebuilt
from lance_flight.model.schema import FIELD_ID, TABLE_FIELD_ID, NamespaceSchema, Path
from lance_flight.model.type_names import type_name

KEPT_TABLES = 65_536


@dataclass(frozen=True, slots=True)
class Fill:
    """The values of a column for the rows of a batch; `rows` are those whose files lack it (None: all)."""

    values: pa.Array
    rows: pa.Array | None = None


Fills = Mapping[int, Fill]
"""By the ids of the columns."""
NO_FILLS: Fills = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Filling:
    """Filling of the columns that the files of a dataset lack, by their ids.

    `values` has one value for each table that the dataset is made of, `fragments` and `tables` say which fragment is of which
    (none where there is one table). `partly` names the fragments without a column that others have.
    """

    values: Mapping[int, pa.Array] = dataclasses.field(default_factory=dict)
    fragments: np.ndarray | None = None
    tables: np.ndarray | None = None
    partly: Mapping[int, np.ndarray] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def absent(self) -> set[int]:
        """The columns that no file has."""
        return set(self.values) - set(self.partly)

    @property
    def is_by_address(self) -> bool:
        """True if the address of a row decides its value."""
        return bool(self.values) and (self.tables is not None or bool(self.partly))

    def of(self, batch: pa.RecordBatch) -> dict[int, Fill]:
        """Return the values for the rows of a batch, which has their addresses where these decide."""
        fragments = batch[ROW_ADDRESS].to_numpy() >> OFFSET_BITS if self.is_by_address else None
        return {number: self._fill(number, fragments, batch.num_rows) for number in self.values}

    def _fill(self, number: int, fragments: np.ndarray | None, rows: int) -> Fill:
        values = self.values[number]
        if fragments is None:
            return Fill(pa.repeat(values[0], rows))
        if self.tables is not None and self.fragments is not None:
            return Fill(values.take(pa.array(self.tables[np.searchsorted(self.fragments, fragments)])))
        lacking = self.partly.get(number)
        rows_lacking = None if lacking is None else pa.array(np.isin(fragments, lacking))
        return Fill(pa.repeat(values[0], rows), rows_lacking)


NOTHING = Filling()


def filling(
    dataset: LanceDataset,
    columns: Iterable[pa.Field],
    contexts: tuple[PartitionContext, ...],
    tables: Callable[[], Mapping[int, int]] | None,
    wanted: Collection[int],
) -> Filling:
    """Return what is to be filled of the `wanted` columns; `columns` are those of the dataset with the ids that they hold.

    The dataset is one table, or made of one for each context: `tables` says then by fragment which.
    """
    identity = {number for context in contexts for number in context.identity.by_source}.intersection(wanted)
    if not identity:
        return NOTHING
    stored = {number for _, node in walk(list(columns)) if (number := field_id(node)) is not None}
    partly = {} if tables is not None else partly_stored(dataset, columns, identity)
    lacking = [number for number in identity if number not in stored or number in partly]
    values = {number: _values(contexts, number) for number in lacking}
    if tables is None or not values:
        return Filling(values, partly=partly)
    bases = tables()
    order = sorted(bases)
    return Filling(values, np.array(order, np.uint64), np.array([bases[number] for number in order]), partly)


def partly_stored(dataset: LanceDataset, columns: Iterable[pa.Field], wanted: Iterable[int]) -> dict[int, np.ndarray]:
    """Return the fragments whose files lack a column that the table has, by the ids of those of the `wanted` columns.

    What Lance writes anew of them by itself has NULL there.
    """
    unstored = _unstored_fields(dataset)
    if not unstored:
        return {}
    keys = [key for key, _ in walk(list(columns))]
    by_key = dict(zip(keys, numbers(dataset.lance_schema), strict=True))
    lacking_by_field = {number: unstored.get(by_key.get(number, -1), ()) for number in wanted}
    return {number: np.array(sorted(lacking), np.uint64) for number, lacking in lacking_by_field.items() if lacking}


def _values(contexts: tuple[PartitionContext, ...], number: int) -> pa.Array:
    """Return the value of a column in each table, in the type that the namespace has."""
    path, column = contexts[0].schema.paths[number]
    values = [context.identity.by_source.get(number) for context in contexts]
    try:
        return pa.concat_arrays([_cast(value, column.type) for value in values])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise DataError(
            f"a partition value of column {path!r}, which the files lack, is no {column.type}: {exc}"
        ) from exc


def _cast(value: pa.Scalar | None, kind: pa.DataType) -> pa.Array:
    return pa.nulls(1, kind) if value is None else pa.array([value], value.type).cast(kind)


def _unstored_fields(dataset: LanceDataset) -> Mapping[int, frozenset[int]]:
    """Return the fields of a table, by Lance's numbers, that the files of some fragments lack, and those fragments."""
    version = int(dataset.version), dataset.get_version()["timestamp"]
    return _known.find(str(dataset.uri), version, partial(_read_unstored, dataset))


def _read_unstored(dataset: LanceDataset) -> Mapping[int, frozenset[int]]:
    lacking = without_files(dataset.lance_schema, (fragment.metadata for fragment in dataset.get_fragments()))
    return {number: frozenset(fragments) for number, fragments in lacking.items()}


_known = VersionCache[str, tuple[int, datetime], Mapping[int, frozenset[int]]](KEPT_TABLES)


def namespace_id(field: pa.Field) -> int | None:
    """Return the id of a field of the namespace schema, or of one of a partition table."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else field_id(field)


def ids_within(field: pa.Field) -> Iterator[int]:
    """Yield the ids of a field and of those inside it."""
    number = namespace_id(field)
    if number is not None:
        yield number
    for child in children(field.type):
        yield from ids_within(child)


def matching(field: pa.Field, among: Sequence[pa.Field]) -> int | None:
    """Return the place of the field of a table that holds a field of the namespace.

    By id, or by name where either has none.
    """
    mine, ids = namespace_id(field), [field_id(each) for each in among]
    if mine is not None and any(number is not None for number in ids):
        return ids.index(mine) if mine in ids else None
    names = [each.name for each in among]
    return names.index(field.name) if field.name in names else None


def path_within(columns: Sequence[pa.Field], namespace: NamespaceSchema, number: int) -> tuple[Path, pa.Field] | None:
    """Return where a table, whose columns have the namespace's ids, keeps a field of it: the path there, and the field.

    None where the table lacks it, or the namespace.
    """
    path = namespace.source_paths.get(number, ())
    wanted = [namespace.sources[namespace.source_ids[path[:depth]]].field for depth in range(1, len(path) + 1)]
    return path_of(columns, wanted)


def path_of(columns: Sequence[pa.Field], wanted: Sequence[pa.Field]) -> tuple[Path, pa.Field] | None:
    """Return where a table keeps the last of some fields of the namespace, of which each lies inside the one before."""
    names: list[str] = []
    column: pa.Field | None = None
    for field in wanted:
        place = matching(field, columns)
        if place is None:
            return None
        column = columns[place]
        names.append(column.name)
        columns = children(column.type)
    return None if column is None else (tuple(names), column)


def identify_columns(dataset: LanceDataset, namespace: NamespaceSchema) -> list[pa.Field]:
    """Return a table's columns with the ids of the namespace's that they hold, even if the table does not keep them."""
    if namespace.is_numbered_by_lance:
        return numbered_columns(dataset)
    physical = columns_of(dataset)
    stored = [] if any(field_id(field) is not None for field in physical) else dataset.lance_schema.fields()
    return _with_ids(physical, list(namespace.arrow), stored)


def _with_ids(physical: Sequence[pa.Field], namespace: Sequence[pa.Field], stored: Sequence[Any]) -> list[pa.Field]:
    held = {place: field for field in namespace if (place := matching(field, physical)) is not None}
    if all(field_id(field) is None for field in physical) and len(stored) == len(physical):
        by_number = {int(field.id()): place for place, field in enumerate(stored) if place not in held}
        named = {namespace_id(field) for field in held.values()}
        for field in namespace:
            number = namespace_id(field)
            place = None if number is None or number in named else by_number.get(number)
            if place is not None and _is_alike(physical[place].type, field.type):
                held[place] = field
    deeper: Sequence[Any] = stored if len(stored) == len(physical) else [None] * len(physical)
    return [
        _with_id(field, held[place], deeper[place]) if place in held else field for place, field in enumerate(physical)
    ]


def _is_alike(mine: pa.DataType, other: pa.DataType) -> bool:
    """Return whether a column of one type can be the other under another name: Lance gives what is cast a new number."""
    return bool(mine.id == other.id) or any(is_kind(mine) and is_kind(other) for is_kind in (is_string, is_binary))


def _with_id(physical: pa.Field, of: pa.Field, stored: Any) -> pa.Field:
    # Lance has a field more between a map and its sides, and none inside a vector: these are known by name.
    below = [] if stored is None or pa.types.is_map(physical.type) else stored.children()
    inner = _with_ids(children(physical.type), children(of.type), below)
    metadata = {**(physical.metadata or {}), TABLE_FIELD_ID: str(namespace_id(of)).encode()}
    return pa.field(
        physical.name, rebuilt(physical.type, inner) if inner else physical.type, physical.nullable, metadata
    )


def adapt_column(column: pa.Array, physical: pa.Field, target: pa.Field, fills: Fills = NO_FILLS) -> pa.Array:
    """Return a column as `target`; `pa.ArrowInvalid` or `pa.ArrowNotImplementedError` where a value cannot be cast.

    Fields that the table, or its files, lack have the values that `fills` has for them.
    """
    fill = _fill(target, fills)
    if fill is not None and fill.rows is not None:
        return pc.if_else(fill.rows, fill.values.cast(target.type), adapt_column(column, physical, target))
    if column.type.equals(target.type) and same_fields(physical, target) and not _holds(target, fills):
        return column
    kind, inner, wanted = target.type, children(physical.type), children(target.type)
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _adapted_struct(column, inner, target, fills)
    if any(test(kind) and test(column.type) for test in _LISTS):
        values = adapt_column(column.values, inner[0], wanted[0])
        buffers = column.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        return pa.Array.from_buffers(kind, len(column), buffers, offset=column.offset, children=[values])
    if pa.types.is_map(kind) and pa.types.is_map(column.type):
        sides = [adapt_column(*each) for each in zip((column.keys, column.items), inner, wanted, strict=True)]
        entries = pa.StructArray.from_arrays(sides, fields=wanted)
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], offset=column.offset, children=[entries])
    return column.cast(kind)


def missing_column(rows: int, target: pa.Field, fills: Fills = NO_FILLS) -> pa.Array:
    """Return a column that a table lacks: what `fills` has for it, or for the fields inside it, else NULL."""
    fill = _fill(target, fills)
    if fill is not None:
        return fill.values.cast(target.type)
    if not pa.types.is_struct(target.type) or not _holds(target, fills):
        return pa.nulls(rows, target.type)
    return _adapted_struct(pa.nulls(rows, pa.struct([])), [], target, fills)


def _adapted_struct(column: pa.Array, inner: Sequence[pa.Field], target: pa.Field, fills: Fills) -> pa.Array:
    wanted = children(target.type)
    places = [matching(field, inner) for field in wanted]
    for field, place in zip(wanted, places, strict=True):
        is_missing = place is None and not field.nullable and not _holds(field, fills)
        if is_missing and column.null_count < len(column):
            raise pa.ArrowInvalid(f"field {field.name!r} is NOT NULL and missing")
    filled_fields = [
        missing_column(len(column), field, fills)
        if place is None
        else adapt_column(column.field(place), inner[place], field, fills)
        for place, field in zip(places, wanted, strict=True)
    ]
    is_null = column.is_null()
    for field, filled in zip(wanted, filled_fields, strict=True):
        if _holds(field, fills):
            # A struct with a value inside is not NULL.
            is_null = pc.and_(is_null, filled.is_null())
    return pa.StructArray.from_arrays(filled_fields, fields=wanted, mask=is_null)


def _fill(target: pa.Field, fills: Fills) -> Fill | None:
    number = namespace_id(target) if fills else None
    return None if number is None else fills.get(number)


def _holds(field: pa.Field, fills: Fills) -> bool:
    """Return whether a field, or one inside it, is filled."""
    if not fills:
        return False
    return namespace_id(field) in fills or any(_holds(child, fills) for child in children(field.type))


def same_fields(physical: pa.Field, target: pa.Field) -> bool:
    """Return whether the fields inside a column are, one by one, those of the namespace, as far as both have ids."""
    inner, wanted = children(physical.type), children(target.type)
    return len(inner) == len(wanted) and all(
        (None in (ids := (namespace_id(a), namespace_id(b))) or ids[0] == ids[1]) and same_fields(a, b)
        for a, b in zip(inner, wanted, strict=True)
    )


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


_NO_CAST = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


class Misfit(DataError):
    """Values of a column that cannot be had in another type."""


def physical(columns: Iterable[pa.Field], name: str, field_id: int | None) -> pa.Field | None:
    """Return the column of a table's own schema that holds the namespace's column.

    By field id, or by name where it keeps none.
    """
    if field_id is not None:
        by_id = {(f.metadata or {}).get(TABLE_FIELD_ID): f for f in columns}
        if any(by_id):
            return by_id.get(str(field_id).encode())
    return next((field for field in columns if field.name == name), None)


def cast(
    column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field, table: str, fills: Fills = NO_FILLS
) -> pa.Array | pa.ChunkedArray:
    """Return a column, which is `theirs` there, as `field`.

    `Misfit` names the column, the table and the first value that cannot be.
    """
    try:
        return _convert(column, theirs, field, fills)
    except _NO_CAST as exc:
        why = _what_fails(column, theirs, field)
        raise Misfit(f"column {field.name!r} of table {table!r} {why}: {exc}") from exc


def writable(rows: pa.Table, dataset: LanceDataset, context: PartitionContext, table: str) -> pa.Table:
    """Return rows of the namespace in a table's own columns: converted, and NULL in those that the namespace has not.

    What the manifest says of all rows may be missing in the table.
    """
    schema, ids, known = identify_columns(dataset, context.schema), context.schema.ids, context.identity.by_source
    mine = {field.name: field for field in context.schema.table}
    stored = {name: physical(schema, name, ids[name]) for name in rows.column_names}
    names = {field.name: name for name, field in stored.items() if field is not None}
    problems = [
        f"column {name!r} is not in the table"
        for name, field in stored.items()
        if field is None and not known.keys() >= _leaves(mine[name])
    ]
    problems += [
        f"column {field.name!r} is NOT NULL there, and no column of the namespace"
        for field in schema
        if field.name not in names and not field.nullable
    ]
    for field in schema:
        if field.name in names:
            problems += _lost_fields(field.name, mine[names[field.name]], field, known)
    if problems:
        raise SchemaError(f"partition table {table!r}", problems)
    columns = [
        _with_values(cast(rows[names[field.name]], mine[names[field.name]], field, table), field, table)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=columns_with_metadata(dataset))


def readable(schema: pa.Schema, table: pa.Schema) -> list[str]:
    """Return what keeps a table with other columns, found by name, from being read as `schema`, whatever its rows are."""
    problems = []
    for field in schema:
        at = table.get_field_index(field.name)
        if at < 0:
            problems += [f"column {field.name!r} ({type_name(field.type)} NOT NULL) is missing"] * (not field.nullable)
            continue
        try:
            pa.nulls(0, table.field(at).type).cast(field.type)
        except _NO_CAST:
            problems.append(
                f"column {field.name!r} is {type_name(table.field(at).type)}; expected {type_name(field.type)}"
            )
    return problems


def _what_fails(column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field) -> str:
    """Return the first value without a counterpart; without one, the types alone do not go together."""
    flat = contiguous(column)
    if not len(flat) or not _fits(flat.take(pa.array([], pa.int64())), theirs, field):
        return f"is {flat.type}, not {field.type}"
    # The first place up to which the values do not all fit; a slice of a list would bring along what lies around it.
    low, high = 0, len(flat) - 1
    while low < high:
        middle = (low + high) // 2
        fits = _fits(flat.take(pa.array(range(low, middle + 1))), theirs, field)
        low, high = (middle + 1, high) if fits else (low, middle)
    return f"holds {flat[low].as_py()!r} ({flat.type}), which is no {field.type}"


def _convert(
    column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field, fills: Fills = NO_FILLS
) -> pa.Array | pa.ChunkedArray:
    """Return a column cast, at every depth.

    Arrow itself takes a NULL struct for one whose fields are NULL against their type.
    """
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_convert(chunk, theirs, field) for chunk in column.chunks], field.type)
    return adapt_column(column, theirs, field, fills)


def _fits(column: pa.Array, theirs: pa.Field, field: pa.Field) -> bool:
    try:
        _convert(column, theirs, field)
    except _NO_CAST:
        return False
    return True


def _lost_fields(path: str, source: pa.Field, target: pa.Field, known: Collection[int]) -> Iterator[str]:
    """Yield the nested fields of `source` that `target` has no place for, and those that it must have and does not get.

    Those that are `known` by their ids need no place.
    """
    mine, theirs = children(source.type), children(target.type)
    if not (pa.types.is_struct(source.type) and pa.types.is_struct(target.type)):
        # Of a map the keys have no fields inside.
        for inner, place in list(zip(mine, theirs, strict=False))[-1:]:
            yield from _lost_fields(path, inner, place, known)
        return
    places = [matching(field, theirs) for field in mine]
    for field, place in zip(mine, places, strict=True):
        if place is not None:
            yield from _lost_fields(f"{path}.{field.name}", field, theirs[place], known)
        elif field_id(field) not in known:
            yield f"field {path}.{field.name} is not in the table"
    for number, field in enumerate(theirs):
        if number not in places and not field.nullable:
            yield f"field {path}.{field.name} is NOT NULL there, and no field of the namespace"


def _leaves(field: pa.Field) -> set[int | None]:
    """Return the ids of the fields with values of their own inside a column, or its own."""
    inner = children(field.type) if pa.types.is_struct(field.type) else []
    return set().union(*map(_leaves, inner)) if inner else {field_id(field)}


def _with_values(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    if not field.nullable and column.null_count:
        raise DataError(f"column {field.name!r} of table {table!r} is NOT NULL there, and a row has NULL for it")
    return column
