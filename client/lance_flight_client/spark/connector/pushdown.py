"""Work that Spark need not do: aggregates that metadata answers, and shuffles of tables that are partitioned alike.

From metadata are count(*) of whole tables, and of partition columns count, min, max and the different values, as the server's own
SQL finds them. What has no exact answer there (rows that a condition leaves in part, numbers with a fraction) is read by Spark.

Reported are fields whose values say the same of both sides of any join that Spark plans: buckets and identities of columns whose
values Spark has as they are stored, and years, months … of moments without a zone or in UTC.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.catalog.manifests.snapshot import SpecTables
from lance_flight.catalog.tables.sources import divide_rows, row_counts
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionField, PartitionSpec
from pyarrow import types

from lance_flight_client.dataset.portions import ROWS_PER_TASK
from lance_flight_client.dataset.views import PrunedTables
from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.conditions import Conditions, Node
from lance_flight_client.spark.connector.relations import DirectTable, Relation, ServerTable, as_query, name_of
from lance_flight_client.spark.portions import DirectPortion
from lance_flight_client.spark.reading import DirectPlan
from lance_flight_client.spark.types import carried_batch, carried_schema, carried_type

MOST_ROWS = 10_000
"""Of an answer that becomes part of Spark's plan."""
_ANSWERED = "metadata"
"""Title under which EXPLAIN lists an aggregate that reads no row."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate as SQL has it, and the field of its result."""

    sql: str
    result: pa.Field
    is_distinct: bool = False


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates of a relation by the values of its columns `keys`."""

    keys: tuple[pa.Field, ...]
    calls: tuple[AggregateCall, ...]

    @classmethod
    def of(cls, source: pa.Schema, aggregates: Sequence[Node], keys: Sequence[Node]) -> Aggregation | None:
        """Return what Spark asks for; None where one of it may mean something else in SQL."""
        conditions = Conditions.over(source)
        fields = [field for key in keys if (field := _comparable_column(conditions, source, key)) is not None]
        calls = [_call(conditions, source, place, aggregate) for place, aggregate in enumerate(aggregates)]
        known = [call for call in calls if call is not None]
        return cls(tuple(fields), tuple(known)) if (len(fields), len(known)) == (len(keys), len(aggregates)) else None

    @property
    def schema(self) -> pa.Schema:
        """The keys, then the results."""
        return pa.schema([*self.keys, *(call.result for call in self.calls)])

    @property
    def counts_rows(self) -> bool:
        """Return whether count(*) is all of it."""
        return not self.keys and all(call.sql == _ALL for call in self.calls)

    def sql(self, name: str, condition: str | None) -> str:
        """Return the query for the rows of a relation, whose name is quoted."""
        keys = ", ".join(quote_name(field.name) for field in self.keys)
        chosen = [f"{call.sql} AS {quote_name(call.result.name)}" for call in self.calls]
        where = "" if condition is None else f" WHERE {condition}"
        by = f" GROUP BY {keys}" if keys else ""
        return f"SELECT {', '.join([*filter(None, [keys]), *chosen])} FROM {name}{where}{by}"  # noqa: S608 - quoted


_ALL = "count(*)"


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _column(source: pa.Schema, node: Node) -> pa.Field | None:
    path = node.get("column", ())
    return source.field(path[0]) if len(path) == 1 and path[0] in source.names else None


def _comparable_column(conditions: Conditions, source: pa.Schema, node: Node) -> pa.Field | None:
    """Return a column whose values Spark and SQL compare alike."""
    field = _column(source, node)
    return field if field is not None and (field.name,) in conditions.compared else None


def _call(conditions: Conditions, source: pa.Schema, place: int, node: Node) -> AggregateCall | None:
    name = _free(f"a{place}", source.names)
    function, arguments = node.get("function"), node.get("arguments", [])
    if function == "COUNT_STAR":
        return AggregateCall(_ALL, pa.field(name, pa.int64()))
    if function not in {"COUNT", "MIN", "MAX"}:
        return None
    (of,) = arguments
    is_distinct = bool(node.get("distinct"))
    is_read = function == "COUNT" and not is_distinct
    field = _column(source, of) if is_read else _comparable_column(conditions, source, of)
    if field is None:
        return None
    kind = pa.int64() if function == "COUNT" else field.type
    sql = f"{function.lower()}({'DISTINCT ' if is_distinct else ''}{quote_name(field.name)})"
    return AggregateCall(sql, pa.field(name, kind), is_distinct)


def answer(backend: SqlRunner, relation: Relation, predicates: Sequence[Node], asked: Aggregation) -> pa.Table | None:
    """Return the rows of an aggregation that metadata have for all rows that fulfil predicates; None where rows have to be read."""
    conditions = Conditions.over(relation.source)
    condition = conditions.all_of(predicates)
    if any(conditions.sql(predicate) is None for predicate in predicates) or not isinstance(
        relation, DirectTable | ServerTable
    ):
        return None
    if isinstance(relation, ServerTable):
        return _from_metadata(backend, asked, asked.sql(name_of(relation), condition))
    if asked.counts_rows:
        pruned_tables = relation.where(condition).plan_tables()
        rows = sum(row_counts([piece.part.table for piece in pruned_tables.pieces])) if pruned_tables.is_whole else None
        return (
            None if rows is None else pa.Table.from_arrays([pa.array([rows])] * len(asked.calls), schema=asked.schema)
        )
    if relation.plan.resolved or not relation.takes_conditions:
        # In SQL, tables without a fixed version are read as they are now.
        return None
    answered = _from_metadata(backend, asked, asked.sql(name_of(relation), condition))
    relation.plan.open_table()
    return answered


def _from_metadata(backend: SqlRunner, asked: Aggregation, sql: str) -> pa.Table | None:
    if _ANSWERED not in backend.rows(f"EXPLAIN {sql}").column("plan_type").to_pylist():
        return None
    rows = backend.rows(sql)
    return None if rows.num_rows > MOST_ROWS else rows


def query(relation: Relation, predicates: Sequence[Node], asked: Aggregation) -> Relation | None:
    """Return the relation that an aggregation of a server's rows is; None where Spark's own tasks compute it better."""
    found = as_query(relation)
    conditions = Conditions.over(relation.source)
    if found is None or asked.keys or any(call.is_distinct for call in asked.calls):
        return None
    if any(conditions.sql(predicate) is None for predicate in predicates):
        return None
    sql = asked.sql(found.name, conditions.all_of(predicates))
    return replace(found, name=f"({sql}) AS answered", source=asked.schema)


def to_json(rows: pa.Table, schema: pa.Schema) -> list[list[Any]]:
    """Return rows for the JVM: integers, days and microseconds as numbers, decimals as text, binary in base64."""
    carried = carried_schema(schema)
    found: list[list[Any]] = []
    for batch in rows.rename_columns(schema.names).to_batches():
        columns = [_plain_values(column) for column in carried_batch(batch, carried).columns]
        found += [list(row) for row in zip(*columns, strict=True)]
    return found


def _plain_values(column: pa.Array) -> Iterator[Any]:
    kind = column.type
    number: Mapping[Callable[[pa.DataType], bool], pa.DataType] = {
        types.is_date32: pa.int32(),
        types.is_timestamp: pa.int64(),
    }
    plain = next((to for test, to in number.items() if test(kind)), kind)
    for value in column.cast(plain).to_pylist():
        if isinstance(value, bytes):
            yield base64.b64encode(value).decode()
        else:
            yield str(value) if types.is_decimal(kind) and value is not None else value


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


def group_tasks(plan: DirectPlan, found: PrunedTables, most: int) -> GroupedTasks | None:
    """Plan the tasks of a scan by its keys; None where it has none, more than `most`, or tables of several specs."""
    if plan.table.name.find("@") >= 0:
        return None
    snapshot = found.planned.snapshot
    used = [(tables, kept) for tables, kept in zip(snapshot.tables, found.planned.kept, strict=True) if len(kept)]
    if not snapshot.is_partitioned or len(used) > 1:
        return None
    keys = list(reported_keys(used[0][0].spec if used else snapshot.current_spec, snapshot.schema))
    values = _key_values(keys, *used[0]) if used else []
    if not keys or len(set(values)) > most:
        return None
    return _tasks(plan, found, keys, values)


def _key_values(keys: Sequence[ReportedKey], tables: SpecTables, kept: Any) -> list[tuple[Any, ...]]:
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
        for part, rows_of_part in divide_rows(piece.part.table, rows, ROWS_PER_TASK):
            if tasks[-1] and sum(known for _, known in tasks[-1]) + rows_of_part > ROWS_PER_TASK:
                tasks.append([])
            tasks[-1].append((replace(piece, part=part), rows_of_part))
    dealt = [(value, [piece for piece, _ in task]) for value, tasks in by_value.items() for task in tasks]
    return GroupedTasks(
        keys, [plan.portion(found, pieces) for _, pieces in dealt], [value for value, _ in dealt], sum(counts)
    )


def reported_keys(spec: PartitionSpec, schema: NamespaceSchema) -> Iterator[ReportedKey]:
    """Yield the keys that a spec's fields make; the others do not take part in joins."""
    moments: dict[str, dict[str, str]] = {}
    for field in spec.fields:
        column = _source_column(field, schema)
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


def _source_column(field: PartitionField, schema: NamespaceSchema) -> pa.Field | None:
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
