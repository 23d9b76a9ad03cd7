"""Reading tables one after another as one stream of batches.

The columns of a partition table are found by their ids, names or numbers (`schema_adapter.py`); what a table lacks is its
partition value under the identity, else NULL, and another type is cast (first draft, section 4). The next tables are opened ahead, so that their
planning and first reads overlap with the batches being consumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.arrow_streams import fixed_bytes, has_open_width
from lance_flight.catalog.storage.lance_columns import blob_arguments, field_id
from lance_flight.catalog.storage.whole_files import ROW_ADDRESS, TABLE_NUMBER
from lance_flight.catalog.tables.indices import has_outdated_index
from lance_flight.catalog.tables.rows import (
    LINEAGE,
    LINEAGE_FIELDS,
    PARTITION,
    PARTITION_FIELD,
    ROW_ID,
    ROW_NAME_FIELD,
    ROW_ORIGIN_FIELD,
    row_names,
)
from lance_flight.catalog.tables.schema_adapter import (
    Filling,
    Fills,
    Misfit,
    cast,
    ids_within,
    missing_column,
    path_of,
    physical,
    same_fields,
)
from lance_flight.catalog.tables.sources import Open, Source
from lance_flight.model.arrow_types import children, within
from lance_flight.model.json_documents import filter_rows, is_json
from lance_flight.model.schema import TABLE_FIELD_ID, is_blob

BATCH_ROWS = 64 * 1024
BATCH_BYTES = 16 << 20
"""Bytes of a batch of wide rows; a wide row alone may be larger."""
LEAST_ROWS = 64


def rows_within(schema: pa.Schema, rows: int = BATCH_ROWS) -> int:
    """Return how many rows, `rows` at most, have no more than `BATCH_BYTES` by the widths of their types; what varies in width counts for nothing.

    >>> rows_within(pa.schema({"id": pa.int64(), "vector": pa.list_(pa.float32(), 1024)}))
    4088
    """
    width = sum(fixed_bytes(field.type) for field in schema)
    return min(rows, max(LEAST_ROWS, BATCH_BYTES // max(width, 1)))


AHEAD = 1
IO_BUFFER_BYTES = 64 << 20

ADDRESS_FIELDS = (
    pa.field(TABLE_NUMBER, pa.int32(), nullable=False),
    pa.field(ROW_ADDRESS, pa.uint64(), nullable=False),
)
"""Columns with the location of a row: the number of its source, and its Lance address (fragment << 32 | offset)."""
ADDRESS_NAMES = tuple(field.name for field in ADDRESS_FIELDS)

# Lance takes a filter as Substrait, which has no words for some types and literals, and reads not all that there are.
_NOT_TAKEN = (ValueError, NotImplementedError, KeyError)


class Search(Protocol):
    """Search by Lance for the best rows of a table."""

    @property
    def column(self) -> str:
        """The column that is searched, by its name in `Scan.source`, or a field inside its structs by its dotted path."""
        ...

    @property
    def result(self) -> pa.Field:
        """The column that says how good a row is."""
        ...

    @property
    def results(self) -> tuple[pa.Field, ...]:
        """The columns that the search makes, `result` among them."""
        ...

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        """Return arguments for Lance's scanner, with the column as the table names it; at least `rows` are found (None: open)."""
        ...


@dataclass(frozen=True, slots=True)
class Span:
    """The first and the last value of a column in the rows that are wanted, which are few of a table."""

    column: str
    first: pa.Scalar
    last: pa.Scalar

    @property
    def condition(self) -> pc.Expression:
        """The condition that rows within the span fulfil."""
        return (pc.field(self.column) >= self.first) & (pc.field(self.column) <= self.last)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A condition in Lance's SQL over some `columns` that indices answer: it keeps all rows that are wanted.

    Not `is_whole`: it keeps others, too, and the filter of the scan is still to be applied.
    """

    condition: str
    columns: tuple[str, ...]
    is_whole: bool


_MADE = {field.name: field for field in (*ADDRESS_FIELDS, PARTITION_FIELD, *LINEAGE_FIELDS, ROW_ORIGIN_FIELD)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Scan of tables: `schema` is the result, `filter` decides the rows, over columns of `source`.

    A filter that Lance does not take, or should not (`pushable`), is applied to what it returns: `rest` is the same
    filter in Arrow's terms. `ids` are the field ids of the columns of `source` (empty: by name); fields inside them may carry
    theirs.
    `schema` may have `ADDRESS_FIELDS`, `PARTITION_FIELD`, `LINEAGE_FIELDS`, and in their place `ROW_NAME_FIELD` and `ROW_ORIGIN_FIELD`; a
    column of `ids` by the name of one of these is the table's own. A `search` finds some rows of each table, best first,
    and may add its result to `schema`; tables without its column have none. `among` says which rows count, by their addresses, in
    Lance's words, where no `filter` does. Few rows are within the `span` of a column, and no others are wanted. Where indices answer what is `looked_up`, Lance is told that in place of the filter.
    """

    source: pa.Schema
    schema: pa.Schema
    filter: pc.Expression | None = None
    rest: pc.Expression | None = None
    filter_columns: tuple[str, ...] = ()
    pushable: bool = True
    ids: Mapping[str, int]
    batch_rows: int = BATCH_ROWS
    search: Search | None = None
    among: str | None = None
    looked_up: LookedUp | None = None
    span: Span | None = None

    def read(self, tables: Iterable[Open]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `tables`, one table after another, with the next ones opened ahead."""
        waiting = (source for table in tables for source in table())
        ahead = deque(self._start(source) for source in islice(waiting, AHEAD + 1))
        while ahead:
            yield from ahead.popleft()
            ahead.extend(self._start(source) for source in islice(waiting, 1))

    def _start(self, source: Source) -> Iterator[pa.RecordBatch]:
        if not self.schema.names and self.filter is None and self.search is None:
            return empty_batches(source.count_rows(), self.batch_rows)
        columns = source.columns
        targets = {name: self._target(name, source) for name in self._needed}
        fields = {name: physical(columns, name, self.ids.get(name)) for name in targets}
        searched = None if self.search is None else self._search_rows(self.search, targets, fields)
        if self.search is not None and searched is None:
            return iter(())
        fill = source.filling(columns, {number for target in targets.values() for number in ids_within(target)})
        stored = {name: field for name, field in fields.items() if field is not None or not self._is_filled(name, fill)}
        is_plain = not fill.partly and all(
            field is not None and _is_plain(field, targets[name]) for name, field in stored.items()
        )
        table = _Table(
            source=source,
            columns=columns,
            targets=targets,
            fields=fields,
            stored=stored,
            fill=fill,
            searched=None if searched is None else ".".join(searched),
        )
        return self._direct(table) if is_plain else self._adapt_batches(table)

    def searched_path(self, search: Search, source: Source) -> tuple[str, ...] | None:
        """Return the path to the searched column as a source names it; None where it lacks it."""
        root = search.column.partition(".")[0]
        field = physical(source.columns, root, self.ids.get(root))
        return self._search_rows(search, {root: self._target(root, source)}, {root: field})

    @staticmethod
    def _search_rows(
        search: Search, targets: Mapping[str, pa.Field], fields: Mapping[str, pa.Field | None]
    ) -> tuple[str, ...] | None:
        """Return the path to the searched column as a table names it; None where it lacks it."""
        root, *inner = search.column.split(".")
        wanted, stored = within(targets[root], inner), fields[root]
        if wanted is None or stored is None:
            return None
        path = path_of(children(stored.type), wanted[1:]) if inner else ((), stored)
        return None if path is None else (stored.name, *path[0])

    def _target(self, name: str, source: Source) -> pa.Field:
        """Return a column that is wanted, with the ids of the fields inside where the namespace says them."""
        mine = self.source.field(name)
        number = self.ids.get(name)
        if number is None or not source.contexts:
            return mine
        column = source.contexts[0].schema.column(number)
        kind = mine.type if column is None or not column.type.equals(mine.type) else column.type
        return pa.field(name, kind, mine.nullable, {TABLE_FIELD_ID: str(number).encode()})

    def _is_filled(self, name: str, fill: Filling) -> bool:
        return self.ids.get(name) in fill.absent

    @property
    def _needed(self) -> list[str]:
        searched = () if self.search is None else (self.search.column.partition(".")[0],)
        looked_up = () if self.looked_up is None else self.looked_up.columns
        named = dict.fromkeys([*self.schema.names, *self.filter_columns, *searched, *looked_up])
        return [name for name in named if not self._is_made(name)]

    def _is_made(self, name: str) -> bool:
        """Return whether a column is made by the scan, and stored nowhere."""
        return self._is_generated(name) or (self.search is not None and name in self._made_by_search(self.search))

    def _made_by_search(self, search: Search) -> list[str]:
        return [field.name for field in search.results]

    def _is_generated(self, name: str) -> bool:
        return name in _MADE and name not in self.ids

    @property
    def _generated(self) -> list[str]:
        """The columns that are stored nowhere and wanted."""
        return [name for name in dict.fromkeys([*self.schema.names, *self.filter_columns]) if self._is_generated(name)]

    @property
    def _names_rows(self) -> bool:
        """True if the names of rows are wanted."""
        named = self.schema if ROW_ID in self.schema.names else self.source
        return ROW_ID in self._generated and named.field(ROW_ID).equals(ROW_NAME_FIELD)

    def _lineage(self, source: Source) -> list[str]:
        """Return the columns that Lance gives like stored ones, and that generated ones are or are made of."""
        if not source.dataset.has_stable_row_ids:
            return []
        wanted = [ROW_ID if name == ROW_ORIGIN_FIELD.name else name for name in self._generated]
        return [name for name in dict.fromkeys(wanted) if name in LINEAGE]

    def _direct(self, table: _Table) -> Iterator[pa.RecordBatch]:
        """Return a table whose columns are just what is asked for; Lance filters where it understands the filter."""
        lineage, not_stored = self._lineage(table.source), {*filter(self._is_generated, _MADE), *table.filled}
        not_pushed = not_stored | {
            name for name, field in table.fields.items() if field is not None and _is_opaque(field)
        }
        if self.looked_up is not None and not_pushed.isdisjoint(self.looked_up.columns):
            rows = self._looked_up(table, self.looked_up, lineage, not_stored)
            if rows is not None:
                return rows
        if self.filter is None or (self.pushable and not_pushed.isdisjoint(self.filter_columns)):
            condition, is_late = self.filter, False
            if self.span is not None and self.span.column not in not_pushed and self._reads_flat_columns(table):
                condition, is_late = _both(self.filter, self.span.condition), True
            try:
                columns = [name for name in self.schema.names if name not in not_stored]
                reader = self._reader(table, [*columns, *lineage], condition, self._search_arguments(), is_late=is_late)
                return (self._to_schema(batch, None, table) for batch in reader)
            except _NOT_TAKEN:
                if self.filter is None:
                    raise
        searching = self._search_arguments(all_of=table.source)
        reader = self._reader(table, [*self._results, *table.stored, *lineage], None, searching)
        return (self._to_schema(batch, self.rest, table) for batch in reader)

    def _reads_flat_columns(self, table: _Table) -> bool:
        """Return whether nothing is read but columns whose rows Lance finds one by one as it finds them all."""
        stored = [field for field in table.stored.values() if field is not None]
        is_flat = not any(pa.types.is_nested(field.type) or _is_opaque(field) for field in stored)
        return is_flat and self.search is None and not self._generated

    def _looked_up(
        self, table: _Table, looked_up: LookedUp, lineage: Sequence[str], not_stored: Collection[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """Return the rows that indices find; None where Lance does not take the condition."""
        rest = None if looked_up.is_whole else self.rest
        names = [name for name in (self.schema.names if rest is None else table.stored) if name not in not_stored]
        of_elements = any(_has_element_ids(table.fields[name]) for name in looked_up.columns)
        read = replace(table, source=table.source.for_elements) if of_elements else table
        try:
            reader = self._reader(read, [*names, *lineage], looked_up.condition, {})
        except _NOT_TAKEN:
            return None
        return (self._to_schema(batch, rest, table) for batch in reader)

    def _search_arguments(self, column: str | None = None, all_of: Source | None = None) -> Mapping[str, Any]:
        """Return the search arguments for Lance's scanner: for a column as a table names it, or to find all that a table has."""
        if self.search is None:
            return {}
        rows = None if all_of is None else all_of.count_rows()
        return self.search.arguments(column or self.search.column, rows)

    @property
    def _results(self) -> list[str]:
        if self.search is None:
            return []
        return [name for name in self._made_by_search(self.search) if name in self.schema.names]

    def _adapt_batches(self, table: _Table) -> Iterator[pa.RecordBatch]:
        """Yield a table that disagrees with the namespace.

        Its columns renamed, cast, filled, or NULL, and filtered then.
        """
        names = [field.name for field in table.fields.values() if field is not None]
        lineage = self._lineage(table.source)
        # Rows that are filtered afterwards are all asked for.
        searching = self._search_arguments(table.searched, None if self.filter is None else table.source)
        for batch in self._reader(table, [*self._results, *names, *lineage], None, searching):
            fills = table.fill.of(batch)
            columns = [
                missing_column(batch.num_rows, target, fills)
                if (field := table.fields[name]) is None
                else _cast(batch.column(field.name), field, target, table.source, fills)
                for name, target in table.targets.items()
            ]
            made = [self.schema.field(name) for name in self._results] + [_MADE[name] for name in lineage]
            made += [_MADE[ROW_ADDRESS]] if ROW_ADDRESS in batch.schema.names else []
            columns += [batch.column(field.name) for field in made]
            target = pa.schema([*table.targets.values(), *made])
            yield self._to_schema(pa.RecordBatch.from_arrays(columns, schema=target), self.rest, table)

    def _reader(
        self,
        table: _Table,
        columns: list[str],
        condition: pc.Expression | str | None,
        searching: Mapping[str, Any],
        *,
        is_late: bool = False,
    ) -> Iterable[pa.RecordBatch]:
        """Start reading at once, in the background; with `is_late` the columns of a condition first, and the others of the rows it leaves."""
        source = table.source
        scanner = source.dataset.scanner(
            columns=columns or [_least(table.columns)],
            filter=condition if self.among is None else self.among,
            fragments=None if source.fragments is None else list(source.fragments),
            batch_size=self.batch_rows,
            io_buffer_size=IO_BUFFER_BYTES,
            with_row_address=self._is_addressed
            or self._divides(source)
            or table.fill.is_by_address
            or self.among is not None,
            use_scalar_index=False if has_outdated_index(source.dataset) else None,
            late_materialization=_late_columns([column for column in table.columns if column.name in columns])
            or is_late
            or None,
            **{**_batch_bytes(table, columns), **_blob_arguments(table, columns)},
            **searching,
        )
        reader: Iterable[pa.RecordBatch] = scanner.to_reader()
        return reader

    @property
    def _is_addressed(self) -> bool:
        return self._names_rows or not set(self.schema.names).isdisjoint(ADDRESS_NAMES)

    def _divides(self, source: Source) -> bool:
        """Return whether the partitions of rows are wanted, of tables that were merged."""
        return PARTITION in self._generated and bool(source.partitions)

    def _to_schema(self, batch: pa.RecordBatch, rest: pc.Expression | None, table: _Table) -> pa.RecordBatch:
        batch = self._name_rows(batch, table.source)
        if self._divides(table.source):
            batch = batch.append_column(PARTITION_FIELD, table.source.partitions_of(batch.column(ROW_ADDRESS)))
        constants = {TABLE_NUMBER: table.source.number, PARTITION: table.source.partition}
        filled = [name for name in table.filled if name not in batch.schema.names]
        fills = table.fill.of(batch) if filled else {}
        for name in filled:
            target = self.source.field(name)
            batch = batch.append_column(target, fills[self.ids[name]].values.cast(target.type))
        for name in self._generated:
            # What is the same for all rows of a table; NULL where one has no lineage.
            if name not in batch.schema.names:
                field = _MADE[name]
                value = pa.repeat(pa.scalar(constants.get(name), field.type), batch.num_rows)
                batch = batch.append_column(field, value)
        if rest is not None:
            batch = filter_rows(batch, rest)
        if batch.schema.equals(self.schema) and not any(map(pa.types.is_nested, self.schema.types)):
            # Taking a batch apart and putting it together costs as much as a tenth of reading it; fields inside others
            # bring metadata of their table along that nobody else expects.
            return batch
        if not self.schema.names:
            return batch.select([])
        columns = batch.columns if batch.schema.names == self.schema.names else batch.select(self.schema.names).columns
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _name_rows(self, batch: pa.RecordBatch, source: Source) -> pa.RecordBatch:
        """Return a batch with the origin of its rows, and their names in place of their ids, if these are wanted."""
        ids = batch.column(ROW_ID) if ROW_ID in batch.schema.names else None
        if ids is not None and ROW_ORIGIN_FIELD.name in self._generated:
            batch = batch.append_column(ROW_ORIGIN_FIELD, ids)
        if not self._names_rows:
            return batch
        places = batch.column(ROW_ADDRESS) if ids is None else ids
        named = row_names(source.dataset, source.partition, places, source.named_by)
        if ids is None:
            return batch.append_column(ROW_NAME_FIELD, named)
        return batch.set_column(batch.schema.get_field_index(ROW_ID), ROW_NAME_FIELD, named)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """An opened source as a scan reads it: its own columns, and by name those that are wanted and what it has of each.

    `stored` are those without the ones that are filled whole, and `searched` is the column that is searched, or the field inside one.
    """

    source: Source
    columns: Sequence[pa.Field]
    targets: Mapping[str, pa.Field]
    fields: Mapping[str, pa.Field | None]
    stored: Mapping[str, pa.Field | None]
    fill: Filling
    searched: str | None

    @property
    def filled(self) -> list[str]:
        """The columns that are filled whole."""
        return [name for name in self.fields if name not in self.stored]


def _batch_bytes(table: _Table, columns: Collection[str]) -> Mapping[str, int]:
    """Return the bound on the bytes of a batch for Lance, if the rows may be wide in ways that their types do not tell."""
    is_open = any(has_open_width(column.type) for column in table.columns if column.name in columns)
    return {"batch_size_bytes": BATCH_BYTES} if is_open else {}


def _blob_arguments(table: _Table, columns: Collection[str]) -> Mapping[str, Any]:
    if not any(is_blob(column) for column in table.columns if column.name in columns):
        return {}
    return blob_arguments(table.source.dataset, columns, table.source.fragments)


def _both(one: pc.Expression | None, other: pc.Expression) -> pc.Expression:
    return other if one is None else one & other


def _late_columns(columns: Sequence[pa.Field]) -> list[str] | None:
    """Return the names of the columns that Lance reads after its filter; None leaves the choice to Lance.

    Lance chooses field by field. What it reads of a struct before and after the filter it puts together without the metadata of
    structs inside, and then refuses the result for its type.
    """
    if not any(_has_inner_struct(column.type) for column in columns):
        return None
    return [column.name for column in columns if not pa.types.is_primitive(column.type)]


def _has_inner_struct(kind: pa.DataType) -> bool:
    inner = children(kind)
    is_outer = pa.types.is_struct(kind) and any(pa.types.is_struct(field.type) for field in inner)
    return is_outer or any(_has_inner_struct(field.type) for field in inner)


def _least(columns: Sequence[pa.Field]) -> str:
    """Return the column that is read where none is wanted, and dropped: Lance reads no rows for no columns."""
    return str(next((column for column in columns if not is_blob(column)), columns[0]).name)


def _has_element_ids(stored: pa.Field | None) -> bool:
    """Return whether the type of a column has the id of its elements: Lance casts such lists, and looks nothing up in indices then."""
    return stored is not None and pa.types.is_list(stored.type) and field_id(stored.type.value_field) is not None


def _is_opaque(field: pa.Field) -> bool:
    """Return whether Lance compares no values of a column: blobs, and documents, which it has in a form of its own."""
    return is_blob(field) or is_json(field.type)


def _is_plain(field: pa.Field, target: pa.Field) -> bool:
    """Return whether a column of a table is just what is wanted."""
    return bool(field.name == target.name and field.type.equals(target.type) and same_fields(field, target))


def _cast(column: pa.Array, theirs: pa.Field, field: pa.Field, source: Source, fills: Fills) -> pa.Array:
    try:
        return cast(column, theirs, field, source.name, fills)
    except Misfit:
        if not source.tables:
            raise
        # Of several tables read as one, the first that has such a value is named.
        for fragment, table in source.fragments_of_tables():
            for batch in fragment.to_batches(
                columns=[theirs.name], **blob_arguments(source.dataset, [theirs.name], [fragment])
            ):
                cast(batch.column(0), theirs, field, table)
        raise


def empty_batches(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches without columns, of so many rows."""
    for start in range(0, rows, batch_rows):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(batch_rows, rows - start))], ["rows"]).select([])
