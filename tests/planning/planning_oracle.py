"""DataFusion as the oracle: it splits rows by a spec, answers a WHERE clause, and shows what it pushes down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from datafusion import SessionContext
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionField, PartitionSpec
from lance_flight.planning.pruning import SpecPartitions

ROW = "row"


def evaluate(sql: str, columns: Sequence[pa.Array], result: pa.DataType) -> pa.Array:
    """A custom expression, computed by DataFusion."""
    names = [f"col{i}" for i in range(len(columns))]
    numbers = pa.array(range(len(columns[0])))
    context = SessionContext()
    context.register_record_batches("t", [[pa.RecordBatch.from_arrays([*columns, numbers], [*names, ROW])]])
    found = context.sql(f"SELECT {sql} AS value FROM t ORDER BY {ROW}").to_arrow_table()["value"]
    return pa.concat_arrays([pa.nulls(0, result), *(chunk.cast(result) for chunk in found.chunks)])


def field(field_id: str, rule: Any, *sources: int, result: pa.DataType) -> PartitionField:
    """A partition field."""
    return PartitionField(field_id=field_id, source_ids=sources, rule=rule, result_type=result)


@dataclass(frozen=True, slots=True)
class Split:
    """Rows split by a spec: the partitions, and for each row the number of its partition."""

    partitions: SpecPartitions
    place: np.ndarray[Any, Any]

    def kept(self, rows: Iterable[int]) -> set[int]:
        """The partitions of these rows."""
        return {int(self.place[row]) for row in rows}


def split(spec: PartitionSpec, schema: NamespaceSchema, rows: pa.Table) -> Split:
    """Split rows by what the fields of a spec derive."""
    columns = {}
    for each in spec.fields:
        sources = [rows[schema.paths[number][0]].combine_chunks() for number in each.source_ids]
        columns[each.column] = each.apply([_array(source) for source in sources], evaluate)
    values = pa.table(columns)
    first: dict[tuple[str, ...], int] = {}
    keys = list(zip(*(_texts(column) for column in values.columns), strict=True))
    starts = []
    for row, key in enumerate(keys):
        if key not in first:
            first[key] = len(first)
            starts.append(row)
    place = np.array([first[key] for key in keys], np.int64)
    return Split(SpecPartitions(spec=spec, values=values.take(pa.array(starts, pa.int64()))), place)


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _texts(column: pa.ChunkedArray) -> list[str]:
    whole = _array(column.combine_chunks())
    if pa.types.is_timestamp(whole.type):
        whole = whole.view(pa.int64())
    return [repr(value) for value in whole.to_pylist()]


class Recorder(ds.Dataset):  # type: ignore[misc]
    """A dataset without rows that records the filters DataFusion pushes down to it."""

    def __init__(self, schema: pa.Schema) -> None:
        self.filters: list[pc.Expression | None] = []
        self._empty = ds.dataset(schema.empty_table())

    @property
    def schema(self) -> pa.Schema:
        return self._empty.schema

    def scanner(self, columns: list[str] | None = None, **_: Any) -> ds.Scanner:
        return self._empty.scanner(columns=columns)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[ds.Fragment]:
        self.filters.append(filter)
        return []


def pushed(schema: pa.Schema, where: str) -> list[pc.Expression | None]:
    """The filters that reach a provider of this schema for a WHERE clause; none where nothing is scanned."""
    recorder = Recorder(schema)
    context = SessionContext()
    context.register_table("t", recorder)
    try:
        context.sql(f"SELECT * FROM t WHERE {where}").collect()
    except Exception as exc:
        # DataFusion 55 folds a comparison of two binary literals into a pyarrow scalar, and then fails to AND it.
        if "pyarrow.lib.BooleanScalar" not in str(exc):
            raise
    return recorder.filters


def answer(rows: pa.Table, where: str) -> set[int]:
    """The numbers of the rows for which a WHERE clause is TRUE."""
    context = SessionContext()
    numbered = rows.append_column(ROW, pa.array(range(len(rows))))
    context.register_record_batches("t", [numbered.combine_chunks().to_batches()])
    return set(context.sql(f"SELECT {ROW} FROM t WHERE {where}").to_arrow_table()[ROW].to_pylist())


def truth(rows: pa.Table, leaves: Sequence[str]) -> list[pa.Array]:
    """The truth value (or NULL) of each leaf for each row."""
    context = SessionContext()
    numbered = rows.append_column(ROW, pa.array(range(len(rows))))
    context.register_record_batches("t", [numbered.combine_chunks().to_batches()])
    shown = ", ".join(f"({leaf}) AS leaf{i}" for i, leaf in enumerate(leaves))
    found = context.sql(f"SELECT {shown} FROM t ORDER BY {ROW}").to_arrow_table()
    return [_array(column).cast(pa.bool_()) for column in found.columns]
