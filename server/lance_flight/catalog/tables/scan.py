"""Reading tables one after another as one stream of batches in the namespace's schema.

The columns of a partition table are found by field id, or by name where the table keeps no ids; what a table
lacks is NULL, another type is cast (first draft, section 4). The next tables are opened ahead, so that their
planning and first reads overlap with the batches being consumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceFragment

from lance_flight.catalog.storage.addresses import ROW_ADDRESS, TABLE_NUMBER
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables.adapting import same_fields
from lance_flight.catalog.tables.disagreeing import Misfit, cast, physical
from lance_flight.catalog.tables.lineage import LINEAGE, LINEAGE_FIELDS, PARTITION, PARTITION_FIELD

BATCH_ROWS = 64 * 1024
AHEAD = 1
IO_BUFFER_BYTES = 64 << 20

ADDRESS_FIELDS = (
    pa.field(TABLE_NUMBER, pa.int32(), nullable=False),
    pa.field(ROW_ADDRESS, pa.uint64(), nullable=False),
)
"""Where a row lies: the number of its source, and its address in Lance's terms (fragment << 32 | offset)."""

# Lance takes a filter as Substrait, which has no words for some types and literals, and reads not all that there are.
_NOT_TAKEN = (ValueError, NotImplementedError, KeyError)


@dataclass(frozen=True, slots=True)
class Source:
    """An opened version of a table, or of several merged into one, and which of its fragments to read (None: all).

    `number` is what `TABLE_NUMBER` says of its rows, and `partition` what `PARTITION` does; `tables` are the names of those
    that were merged.
    """

    dataset: LanceDataset
    fragments: tuple[LanceFragment, ...] | None = None
    number: int = 0
    tables: tuple[str, ...] = ()
    partition: str | None = None

    @property
    def name(self) -> str:
        """What errors call it."""
        return ", ".join(self.tables) or Store(self.dataset.uri).name

    def fragments_of_tables(self) -> Iterator[tuple[LanceFragment, str]]:
        """Each fragment of merged tables with the name of its table."""
        for fragment in self.dataset.get_fragments() if self.fragments is None else self.fragments:
            base = fragment.metadata.files[0].base_id
            yield fragment, self.name if base is None else self.tables[base - 1]

    def count_rows(self) -> int:
        """How many rows there are, from metadata alone."""
        if self.fragments is None:
            return int(self.dataset.count_rows())
        return sum(fragment.count_rows() for fragment in self.fragments)

    def part(self, number: int, of: int) -> Source:
        """One of `of` equal parts: every `of`-th fragment."""
        fragments = self.dataset.get_fragments() if self.fragments is None else self.fragments
        return replace(self, fragments=tuple(fragments[number::of]))


class Search(Protocol):
    """How Lance finds the best rows of a table."""

    @property
    def column(self) -> str:
        """The column that is searched, by its name in `Scan.source`."""
        ...

    @property
    def result(self) -> pa.Field:
        """The column that says how good a row is."""
        ...

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        """What Lance's scanner is told: the column as the table calls it; None, or so many `rows` as shall be found at least."""
        ...


_ADDRESSES = frozenset(field.name for field in ADDRESS_FIELDS)
_MADE = {field.name: field for field in (*ADDRESS_FIELDS, PARTITION_FIELD, *LINEAGE_FIELDS)}
Open = Callable[[], Sequence[Source]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What to read from every table: `schema` is the result, `filter` decides the rows, over columns of `source`.

    A filter that Lance does not take, or should not (`pushable`), is applied to what it returns: `rest` is the same
    filter in Arrow's terms. `ids` are the field ids of the columns of `source` (empty: by name); fields inside them may carry
    theirs.
    `schema` may have `ADDRESS_FIELDS`, `PARTITION_FIELD` and `LINEAGE_FIELDS`. A `search` finds some rows of each table, best first,
    and may add its result to `schema`; tables without its column have none. `among` says which rows count, by their addresses, in
    Lance's words, where no `filter` does.
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

    def read(self, tables: Iterable[Open]) -> Iterator[pa.RecordBatch]:
        """The rows of `tables`, one table after another, with the next ones opened ahead."""
        waiting = (source for table in tables for source in table())
        ahead = deque(self._start(source) for source in islice(waiting, AHEAD + 1))
        while ahead:
            yield from ahead.popleft()
            ahead.extend(self._start(source) for source in islice(waiting, 1))

    def _start(self, source: Source) -> Iterator[pa.RecordBatch]:
        if not self.schema.names and self.filter is None and self.search is None:
            return _counted(source.count_rows(), self.batch_rows)
        schema = source.dataset.schema
        fields = {name: physical(schema, name, self.ids.get(name)) for name in self._needed}
        if self.search is not None and fields[self.search.column] is None:
            return iter(())
        if all(field is not None and self._is_plain(name, field) for name, field in fields.items()):
            return self._direct(source, schema)
        return self._adapted(source, schema, fields)

    @property
    def _needed(self) -> list[str]:
        searched = () if self.search is None else (self.search.column,)
        named = dict.fromkeys([*self.schema.names, *self.filter_columns, *searched])
        return [name for name in named if not self._is_made(name)]

    def _is_made(self, name: str) -> bool:
        """Whether a column is made by the scan, and stored nowhere."""
        return name in _MADE or (self.search is not None and name == self.search.result.name)

    @property
    def _made(self) -> list[str]:
        """The columns that are stored nowhere and wanted."""
        return [name for name in dict.fromkeys([*self.schema.names, *self.filter_columns]) if name in _MADE]

    def _lineage(self, source: Source) -> list[str]:
        """Those of them that Lance gives like stored ones."""
        return [name for name in self._made if name in LINEAGE] if source.dataset.has_stable_row_ids else []

    def _is_plain(self, name: str, field: pa.Field) -> bool:
        target = self.source.field(name)
        return bool(field.name == name and field.type.equals(target.type) and same_fields(field, target))

    def _direct(self, source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """A table whose columns are just what is asked for; Lance filters where it understands the filter."""
        # Lance reads no rows for no columns: take any, it is dropped again.
        any_column = schema.names[:1]
        lineage = self._lineage(source)
        if self.filter is None or (self.pushable and _MADE.keys().isdisjoint(self.filter_columns)):
            try:
                columns = [name for name in self.schema.names if name not in _MADE or name in lineage]
                reader = self._reader(source, columns or any_column, self.filter, self._searching())
                return (self._shaped(batch, None, source) for batch in reader)
            except _NOT_TAKEN:
                if self.filter is None:
                    raise
        searching = self._searching(all_of=source)
        reader = self._reader(source, [*self._results, *self._needed, *lineage] or any_column, None, searching)
        return (self._shaped(batch, self.rest, source) for batch in reader)

    def _searching(self, column: str | None = None, all_of: Source | None = None) -> Mapping[str, Any]:
        """What Lance's scanner is told of the search: of a column as a table calls it; to find all that a table has."""
        if self.search is None:
            return {}
        rows = None if all_of is None else all_of.count_rows()
        return self.search.arguments(column or self.search.column, rows)

    @property
    def _results(self) -> list[str]:
        if self.search is None or self.search.result.name not in self.schema.names:
            return []
        return [self.search.result.name]

    def _adapted(
        self, source: Source, schema: pa.Schema, fields: Mapping[str, pa.Field | None]
    ) -> Iterator[pa.RecordBatch]:
        """A table that disagrees with the namespace: its columns renamed, cast, or NULL, and filtered then."""
        names, lineage = [field.name for field in fields.values() if field is not None], self._lineage(source)
        searched = None if self.search is None else fields[self.search.column]
        # Rows that are filtered afterwards are all asked for.
        searching = self._searching(searched and searched.name, None if self.filter is None else source)
        for batch in self._reader(source, [*self._results, *names, *lineage] or schema.names[:1], None, searching):
            columns = [
                pa.nulls(batch.num_rows, self.source.field(name).type)
                if field is None
                else self._cast(batch.column(field.name), field, self.source.field(name), source)
                for name, field in fields.items()
            ]
            target = [self.source.field(name) for name in fields]
            for name in self._results:
                columns.append(batch.column(name))
                target.append(self.schema.field(name))
            for name in (*lineage, *([ROW_ADDRESS] if self._is_addressed else ())):
                columns.append(batch.column(name))
                target.append(_MADE[name])
            yield self._shaped(pa.RecordBatch.from_arrays(columns, schema=pa.schema(target)), self.rest, source)

    def _cast(self, column: pa.Array, theirs: pa.Field, field: pa.Field, source: Source) -> pa.Array:
        try:
            return cast(column, theirs, field, source.name)
        except Misfit:
            if not source.tables:
                raise
            # Of several tables read as one, the first that has such a value is named.
            for fragment, table in source.fragments_of_tables():
                for batch in fragment.to_batches(columns=[theirs.name]):
                    cast(batch.column(0), theirs, field, table)
            raise

    def _reader(
        self, source: Source, columns: list[str], condition: pc.Expression | None, searching: Mapping[str, Any]
    ) -> Iterable[pa.RecordBatch]:
        """Starts reading at once, in the background."""
        scanner = source.dataset.scanner(
            columns=columns,
            filter=condition if self.among is None else self.among,
            fragments=None if source.fragments is None else list(source.fragments),
            batch_size=self.batch_rows,
            io_buffer_size=IO_BUFFER_BYTES,
            with_row_address=self._is_addressed or self.among is not None,
            **searching,
        )
        reader: Iterable[pa.RecordBatch] = scanner.to_reader()
        return reader

    @property
    def _is_addressed(self) -> bool:
        return not _ADDRESSES.isdisjoint(self.schema.names)

    def _shaped(self, batch: pa.RecordBatch, rest: pc.Expression | None, source: Source) -> pa.RecordBatch:
        said = {TABLE_NUMBER: source.number, PARTITION: source.partition}
        for name in self._made:
            # What is the same for all rows of a table; NULL where one has no lineage.
            if name not in batch.schema.names:
                field = _MADE[name]
                value = pa.repeat(pa.scalar(said.get(name), field.type), batch.num_rows)
                batch = batch.append_column(field, value)
        if rest is not None:
            batch = batch.filter(rest)
        if batch.schema.equals(self.schema) and not any(map(pa.types.is_nested, self.schema.types)):
            # Taking a batch apart and putting it together costs as much as a tenth of reading it; fields inside others
            # bring metadata of their table along that nobody else expects.
            return batch
        if not self.schema.names:
            return batch.select([])
        columns = batch.columns if batch.schema.names == self.schema.names else batch.select(self.schema.names).columns
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _counted(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns, of so many rows."""
    for start in range(0, rows, batch_rows):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(batch_rows, rows - start))], ["rows"]).select([])
