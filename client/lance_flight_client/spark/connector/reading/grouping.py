"""Tasks by partition keys, as Spark's joins of tables that are stored alike want them: each task has rows of one key.

Reported are fields whose values say the same of both sides of any join that Spark plans: buckets and identities of columns whose
values Spark has as they are stored, and years, months … of moments without a zone or in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.catalog.manifests.snapshot import SpecTables
from lance_flight.catalog.tables.pinned_tables import divided
from lance_flight.catalog.tables.row_counts import row_counts
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionField, PartitionSpec
from pyarrow import types

from lance_flight_client.dataset.balancing import ROWS_PER_TASK
from lance_flight_client.dataset.pruning import PrunedTables
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.reading.portion import DirectPortion
from lance_flight_client.spark.types import carried_type

MOST_GROUPS = 64
"""Default maximum of the keys of a scan that reports them: each is a task, in queries without a join, too."""

_PARTS = ("year", "month", "day", "hour")
_RADIX = 100
"""A moment's parts are one number in decimal digits, from which the last parts can be cut off: 2026, 202601, 20260131 …"""


@dataclass(frozen=True, slots=True)
class ReportedKey:
    """A key of tasks: its transform and column as Spark has them, the partition fields that it is made of, and its type there."""

    transform: str
    arguments: tuple[int, ...]
    column: str
    fields: tuple[str, ...]
    type: str

    def to_json(self) -> dict[str, Any]:
        """Return the key for the JVM."""
        return {"transform": self.transform, "arguments": self.arguments, "columns": [self.column], "type": self.type}

    def value(self, row: Mapping[str, Any]) -> Any:
        """Return the key's value for a partition."""
        parts = [row[name] for name in self.fields]
        if None in parts:
            return None
        if self.type == "date":
            return parts[0].toordinal() - _EPOCH_DAY
        if len(parts) == 1:
            return parts[0]
        number = parts[0]
        for part in parts[1:]:
            number = number * _RADIX + part
        return number


_EPOCH_DAY = 719_163


@dataclass(frozen=True, slots=True)
class GroupedTasks:
    """Tasks of a scan, each with the values of its keys."""

    keys: Sequence[ReportedKey]
    portions: Sequence[DirectPortion]
    values: Sequence[tuple[Any, ...]]
    rows: int


def grouped(plan: DirectPlan, found: PrunedTables, most: int) -> GroupedTasks | None:
    """Plan the tasks of a scan by its keys; None where it has none, more than `most`, or tables of several specs."""
    if plan.table.name.find("@") >= 0:
        return None
    snapshot = found.planned.snapshot
    used = [(tables, kept) for tables, kept in zip(snapshot.tables, found.planned.kept, strict=True) if len(kept)]
    if not snapshot.is_partitioned or len(used) > 1:
        return None
    keys = list(reported(used[0][0].spec if used else snapshot.current_spec, snapshot.schema))
    values = _values(keys, *used[0]) if used else []
    if not keys or len(set(values)) > most:
        return None
    return _tasks(plan, found, keys, values)


def _values(keys: Sequence[ReportedKey], tables: SpecTables, kept: Any) -> list[tuple[Any, ...]]:
    rows = tables.values.take(pa.array(kept, pa.int64())).to_pylist()
    return [tuple(key.value(row) for key in keys) for row in rows]


def _tasks(
    plan: DirectPlan, found: PrunedTables, keys: Sequence[ReportedKey], values: Sequence[tuple[Any, ...]]
) -> GroupedTasks:
    """Give each key its tables, and more than one task where they have many rows."""
    counts = row_counts([piece.part.table for piece in found.pieces])
    by_value: dict[tuple[Any, ...], list[list[Any]]] = {}
    for piece, rows, value in zip(found.pieces, counts, values, strict=True):
        tasks = by_value.setdefault(value, [[]])
        for part, rows_of_part in divided(piece.part.table, rows, ROWS_PER_TASK):
            if tasks[-1] and sum(known for _, known in tasks[-1]) + rows_of_part > ROWS_PER_TASK:
                tasks.append([])
            tasks[-1].append((replace(piece, part=part), rows_of_part))
    dealt = [(value, [piece for piece, _ in task]) for value, tasks in by_value.items() for task in tasks]
    return GroupedTasks(
        keys, [plan.portion(found, pieces) for _, pieces in dealt], [value for value, _ in dealt], sum(counts)
    )


def reported(spec: PartitionSpec, schema: NamespaceSchema) -> Iterator[ReportedKey]:
    """Yield the keys that a spec's fields make; the others do not take part in joins."""
    moments: dict[str, dict[str, str]] = {}
    for field in spec.fields:
        column = _column(field, schema)
        if column is None:
            continue
        kind = field.rule.type
        if kind in _PARTS and _is_plain_moment(column.type):
            moments.setdefault(column.name, {})[kind] = field.column
        elif carried_type(column.type) != column.type:
            continue
        elif kind == "bucket":
            yield ReportedKey("bucket", (field.rule.num_buckets,), column.name, (field.column,), "integer")  # type: ignore[union-attr]
        elif kind == "identity" and column.type.id in _WORDS:
            yield ReportedKey("identity", (), column.name, (field.column,), _WORDS[column.type.id])
    for column_name, parts in moments.items():
        depth = next((place for place, part in enumerate(_PARTS) if part not in parts), len(_PARTS))
        if depth == len(parts):
            fields = tuple(parts[part] for part in _PARTS[:depth])
            yield ReportedKey(f"{_PARTS[depth - 1]}s", (), column_name, fields, "long")


def _column(field: PartitionField, schema: NamespaceSchema) -> pa.Field | None:
    """Return the only column of a field; None for several, and for one inside a struct."""
    if len(field.source_ids) != 1:
        return None
    name = next((name for name, number in schema.ids.items() if number == field.source_ids[0]), None)
    return None if name is None or name not in schema.plain.names else schema.plain.field(name)


def _is_plain_moment(kind: pa.DataType) -> bool:
    return types.is_date32(kind) or (types.is_timestamp(kind) and kind.tz in {None, "UTC"})


_WORDS: Mapping[int, str] = MappingProxyType(
    {
        pa.lib.Type_INT8: "byte",
        pa.lib.Type_INT16: "short",
        pa.lib.Type_INT32: "integer",
        pa.lib.Type_INT64: "long",
        pa.lib.Type_STRING: "string",
        pa.lib.Type_BOOL: "boolean",
        pa.lib.Type_DATE32: "date",
    }
)
"""Spark's names of the types of identities."""
