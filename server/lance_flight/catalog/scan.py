"""Reading tables one after another as one stream of batches in the namespace's schema.

The columns of a partition table are found by field id, or by name where the table keeps no ids; what a table
lacks is NULL, another type is cast (first draft, section 4). The next tables are opened ahead, so that their
planning and first reads overlap with the batches being consumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceFragment

from lance_flight.catalog.adapting import same_fields
from lance_flight.catalog.addresses import ROW_ADDRESS
from lance_flight.catalog.disagreeing import Misfit, cast, physical
from lance_flight.catalog.store import Store

BATCH_ROWS = 64 * 1024
AHEAD = 1
IO_BUFFER_BYTES = 64 << 20

TABLE_NUMBER = "_table_number"
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

    `number` is what `TABLE_NUMBER` says of its rows; `tables` are the names of those that were merged.
    """

    dataset: LanceDataset
    fragments: tuple[LanceFragment, ...] | None = None
    number: int = 0
    tables: tuple[str, ...] = ()

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
        return Source(self.dataset, tuple(fragments[number::of]), self.number, self.tables)


_ADDRESSES = frozenset(field.name for field in ADDRESS_FIELDS)
Open = Callable[[], Sequence[Source]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What to read from every table: `schema` is the result, `filter` decides the rows, over columns of `source`.

    A filter that Lance does not take, or should not (`pushable`), is applied to what it returns: `rest` is the same
    filter in Arrow's terms. `ids` are the field ids of the columns of `source` (empty: by name); fields inside them may carry
    theirs.
    `schema` may end with `ADDRESS_FIELDS`.
    """

    source: pa.Schema
    schema: pa.Schema
    filter: pc.Expression | None
    rest: pc.Expression | None
    filter_columns: tuple[str, ...] = ()
    pushable: bool = True
    ids: Mapping[str, int]
    batch_rows: int = BATCH_ROWS

    def read(self, tables: Iterable[Open]) -> Iterator[pa.RecordBatch]:
        """The rows of `tables`, one table after another, with the next ones opened ahead."""
        waiting = (source for table in tables for source in table())
        ahead = deque(self._start(source) for source in islice(waiting, AHEAD + 1))
        while ahead:
            yield from ahead.popleft()
            ahead.extend(self._start(source) for source in islice(waiting, 1))

    def _start(self, source: Source) -> Iterator[pa.RecordBatch]:
        if not self.schema.names and self.filter is None:
            return _counted(source.count_rows(), self.batch_rows)
        schema = source.dataset.schema
        fields = {name: physical(schema, name, self.ids.get(name)) for name in self._needed}
        if all(field is not None and self._is_plain(name, field) for name, field in fields.items()):
            return self._direct(source, schema)
        return self._adapted(source, schema, fields)

    @property
    def _needed(self) -> list[str]:
        return [name for name in dict.fromkeys([*self.schema.names, *self.filter_columns]) if name not in _ADDRESSES]

    def _is_plain(self, name: str, field: pa.Field) -> bool:
        target = self.source.field(name)
        return bool(field.name == name and field.type.equals(target.type) and same_fields(field, target))

    def _direct(self, source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """A table whose columns are just what is asked for; Lance filters where it understands the filter."""
        # Lance reads no rows for no columns: take any, it is dropped again.
        any_column = schema.names[:1]
        if self.filter is None or self.pushable:
            try:
                columns = [name for name in self.schema.names if name not in _ADDRESSES]
                reader = self._reader(source, columns or any_column, self.filter)
                return (self._shaped(batch, None, source) for batch in reader)
            except _NOT_TAKEN:
                if self.filter is None:
                    raise
        reader = self._reader(source, self._needed or any_column, None)
        return (self._shaped(batch, self.rest, source) for batch in reader)

    def _adapted(
        self, source: Source, schema: pa.Schema, fields: Mapping[str, pa.Field | None]
    ) -> Iterator[pa.RecordBatch]:
        """A table that disagrees with the namespace: its columns renamed, cast, or NULL, and filtered then."""
        names = [field.name for field in fields.values() if field is not None]
        for batch in self._reader(source, names or schema.names[:1], None):
            columns = [
                pa.nulls(batch.num_rows, self.source.field(name).type)
                if field is None
                else self._cast(batch.column(field.name), field, self.source.field(name), source)
                for name, field in fields.items()
            ]
            target = [self.source.field(name) for name in fields]
            if self._is_addressed:
                columns.append(batch.column(ROW_ADDRESS))
                target.append(pa.field(ROW_ADDRESS, pa.uint64()))
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

    def _reader(self, source: Source, columns: list[str], condition: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        """Starts reading at once, in the background."""
        scanner = source.dataset.scanner(
            columns=columns,
            filter=condition,
            fragments=None if source.fragments is None else list(source.fragments),
            batch_size=self.batch_rows,
            io_buffer_size=IO_BUFFER_BYTES,
            with_row_address=self._is_addressed,
        )
        reader: Iterable[pa.RecordBatch] = scanner.to_reader()
        return reader

    @property
    def _is_addressed(self) -> bool:
        return not _ADDRESSES.isdisjoint(self.schema.names)

    def _shaped(self, batch: pa.RecordBatch, rest: pc.Expression | None, source: Source) -> pa.RecordBatch:
        if rest is not None:
            batch = batch.filter(rest)
        if TABLE_NUMBER in self.schema.names:
            batch = batch.append_column(TABLE_NUMBER, pa.repeat(pa.scalar(source.number, pa.int32()), batch.num_rows))
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
