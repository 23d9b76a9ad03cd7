"""Reading tables one after another as one stream of batches in the namespace's schema.

The columns of a partition table are found by field id, or by name where the table keeps no ids; what a table
lacks is NULL, another type is cast (first draft, section 4). The next tables are opened ahead, so that their
planning and first reads overlap with the batches being consumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.errors import DataError
from lance_flight.model.schema import TABLE_FIELD_ID

BATCH_ROWS = 64 * 1024
AHEAD = 2
IO_BUFFER_BYTES = 64 << 20

Open = Callable[[], LanceDataset]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What to read from every table: `schema` is the result, `filter` decides the rows, over columns of `source`.

    `ids` are the field ids of the columns of `source` (empty: by name).
    """

    source: pa.Schema
    schema: pa.Schema
    filter: pc.Expression | None = None
    filter_columns: tuple[str, ...] = ()
    ids: Mapping[str, int]
    batch_rows: int = BATCH_ROWS

    def read(self, tables: Iterable[Open]) -> Iterator[pa.RecordBatch]:
        """The rows of `tables`, one table after another, with the next ones opened ahead."""
        waiting = iter(tables)
        ahead = deque(self._start(table) for table in islice(waiting, AHEAD + 1))
        while ahead:
            yield from ahead.popleft()
            ahead.extend(self._start(table) for table in islice(waiting, 1))

    def _start(self, table: Open) -> Iterator[pa.RecordBatch]:
        dataset = table()
        if not self.schema.names and self.filter is None:
            return _counted(dataset.count_rows(), self.batch_rows)
        fields = {name: _physical(dataset.schema, name, self.ids.get(name)) for name in self._needed}
        if all(field is not None and self._is_plain(name, field) for name, field in fields.items()):
            return self._direct(dataset)
        return self._adapted(dataset, fields)

    @property
    def _needed(self) -> list[str]:
        return list(dict.fromkeys([*self.schema.names, *self.filter_columns]))

    def _is_plain(self, name: str, field: pa.Field) -> bool:
        return bool(field.name == name and field.type.equals(self.source.field(name).type))

    def _direct(self, dataset: LanceDataset) -> Iterator[pa.RecordBatch]:
        """A table whose columns are just what is asked for; Lance filters where it understands the filter."""
        pushed = self.filter is not None and _is_pushable(self.filter, dataset.schema)
        # Lance reads no rows for no columns: take any, it is dropped again.
        wanted = self.schema.names if pushed or self.filter is None else self._needed
        reader = _reader(dataset, wanted or self._needed or dataset.schema.names[:1], self.filter if pushed else None, self.batch_rows)
        rest = None if pushed else self.filter
        return (self._shaped(batch, rest) for batch in reader)

    def _adapted(self, dataset: LanceDataset, fields: Mapping[str, pa.Field | None]) -> Iterator[pa.RecordBatch]:
        """A table that disagrees with the namespace: its columns renamed, cast, or NULL, and filtered then."""
        physical = [field.name for field in fields.values() if field is not None]
        for batch in _reader(dataset, physical or dataset.schema.names[:1], None, self.batch_rows):
            columns = [
                pa.nulls(batch.num_rows, self.source.field(name).type)
                if field is None
                else _cast(batch.column(field.name), self.source.field(name), dataset.uri)
                for name, field in fields.items()
            ]
            schema = pa.schema([self.source.field(name) for name in fields])
            yield self._shaped(pa.RecordBatch.from_arrays(columns, schema=schema), self.filter)

    def _shaped(self, batch: pa.RecordBatch, rest: pc.Expression | None) -> pa.RecordBatch:
        if rest is not None:
            batch = batch.filter(rest)
        if not self.schema.names:
            return batch.select([])
        columns = batch.columns if batch.schema.names == self.schema.names else batch.select(self.schema.names).columns
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _reader(
    dataset: LanceDataset, columns: list[str], condition: pc.Expression | None, batch_rows: int
) -> Iterable[pa.RecordBatch]:
    scanner = dataset.scanner(columns=columns, filter=condition, batch_size=batch_rows, io_buffer_size=IO_BUFFER_BYTES)
    reader: Iterable[pa.RecordBatch] = scanner.to_reader()
    return reader


def _physical(schema: pa.Schema, name: str, field_id: int | None) -> pa.Field | None:
    """The column of a table's own schema that holds the namespace's column."""
    if field_id is not None:
        by_id = {(f.metadata or {}).get(TABLE_FIELD_ID): f for f in schema}
        if any(by_id):
            return by_id.get(str(field_id).encode())
    at = schema.get_field_index(name)
    return schema.field(at) if at >= 0 else None


def _cast(column: pa.Array, field: pa.Field, table: str) -> pa.Array:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise DataError(f"column {field.name!r} of table {table!r} is {column.type}, not {field.type}: {exc}") from exc


def _is_pushable(condition: pc.Expression, schema: pa.Schema) -> bool:
    """Whether Lance can be given this filter: it takes it as Substrait, which has no word for some literals."""
    try:
        condition.to_substrait(schema)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowKeyError):
        return False
    return True


def _counted(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns, of so many rows."""
    for start in range(0, rows, batch_rows):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(batch_rows, rows - start))], ["rows"]).select([])
