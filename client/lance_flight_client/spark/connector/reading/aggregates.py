"""Aggregates that Spark need not compute: from metadata, while it plans, or by a query of one task where a server reads.

From metadata are count(*) of whole tables, and of partition columns count, min, max and the different values, as the server's own
SQL finds them. What has no exact answer there (rows that a condition leaves in part, numbers with a fraction) is read by Spark.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from lance_flight.catalog.tables.row_counts import row_counts
from pyarrow import types

from lance_flight_client.parameters import quoted
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.conditions import Conditions, Node
from lance_flight_client.spark.connector.reading.limits import as_query, name_of
from lance_flight_client.spark.connector.reading.relations import DirectTable, Relation, ServerTable
from lance_flight_client.spark.types import carried_batch, carried_schema

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
        fields = [field for key in keys if (field := _compared(conditions, source, key)) is not None]
        calls = [_call(conditions, source, place, each) for place, each in enumerate(aggregates)]
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
        keys = ", ".join(quoted(field.name) for field in self.keys)
        chosen = [f"{call.sql} AS {quoted(call.result.name)}" for call in self.calls]
        where = "" if condition is None else f" WHERE {condition}"
        by = f" GROUP BY {keys}" if keys else ""
        return f"SELECT {', '.join([*filter(None, [keys]), *chosen])} FROM {name}{where}{by}"  # noqa: S608 - quoted


_ALL = "count(*)"


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _column(source: pa.Schema, node: Node) -> pa.Field | None:
    path = node.get("column", ())
    return source.field(path[0]) if len(path) == 1 and path[0] in source.names else None


def _compared(conditions: Conditions, source: pa.Schema, node: Node) -> pa.Field | None:
    """Return a column whose values Spark and SQL compare alike."""
    field = _column(source, node)
    return field if field is not None and field.name in conditions.compared else None


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
    field = _column(source, of) if is_read else _compared(conditions, source, of)
    if field is None:
        return None
    kind = pa.int64() if function == "COUNT" else field.type
    sql = f"{function.lower()}({'DISTINCT ' if is_distinct else ''}{quoted(field.name)})"
    return AggregateCall(sql, pa.field(name, kind), is_distinct)


def answer(backend: SqlRunner, relation: Relation, predicates: Sequence[Node], asked: Aggregation) -> pa.Table | None:
    """Return the rows of an aggregation that metadata have for all rows that fulfil predicates; None where rows have to be read."""
    conditions = Conditions.over(relation.source)
    condition = conditions.all_of(predicates)
    if any(conditions.sql(each) is None for each in predicates) or not isinstance(relation, DirectTable | ServerTable):
        return None
    if isinstance(relation, ServerTable):
        return _from_metadata(backend, asked, asked.sql(name_of(relation), condition))
    if asked.counts_rows:
        found = relation.where(condition).found()
        rows = sum(row_counts([piece.part.table for piece in found.pieces])) if found.is_whole else None
        return (
            None if rows is None else pa.Table.from_arrays([pa.array([rows])] * len(asked.calls), schema=asked.schema)
        )
    if relation.plan.resolved or not relation.takes_conditions:
        # In SQL, tables without a fixed version are read as they are now.
        return None
    answered = _from_metadata(backend, asked, asked.sql(name_of(relation), condition))
    relation.plan.checked()
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
    if any(conditions.sql(each) is None for each in predicates):
        return None
    sql = asked.sql(found.name, conditions.all_of(predicates))
    return replace(found, name=f"({sql}) AS answered", source=asked.schema)


def to_json(rows: pa.Table, schema: pa.Schema) -> list[list[Any]]:
    """Return rows for the JVM: integers, days and microseconds as numbers, decimals as text, binary in base64."""
    carried = carried_schema(schema)
    found: list[list[Any]] = []
    for batch in rows.rename_columns(schema.names).to_batches():
        columns = [_values(column) for column in carried_batch(batch, carried).columns]
        found += [list(row) for row in zip(*columns, strict=True)]
    return found


def _values(column: pa.Array) -> Iterator[Any]:
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
