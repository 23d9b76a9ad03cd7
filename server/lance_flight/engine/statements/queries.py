"""Queries, which are passed to DataFusion, and SUMMARIZE: aggregates over each column, as DuckDB has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.engine.dialects.clauses import read_version
from lance_flight.engine.dialects.pivots import begins_pivot
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import enclose, quote_parts
from lance_flight.engine.sql.tokens import TokenPlaces
from lance_flight.engine.statements.kinds import Answer, RowsStatement
from lance_flight.engine.translation import substrait
from lance_flight.errors import LimitExceeded
from lance_flight.model.type_names import type_name


@dataclass(frozen=True, slots=True)
class Query(RowsStatement):
    """SELECT …, WITH …, VALUES …, FROM …, PIVOT …, UNPIVOT …: any statement that returns rows and is passed to DataFusion."""

    forms: ClassVar[tuple[str, ...]] = ("SELECT", "WITH", "VALUES", "FROM", "(", "PIVOT", "UNPIVOT")

    sql: str

    @classmethod
    def read(cls, cursor: Cursor) -> Query:
        cursor.at = 0
        return cls(cursor.rest())

    @property
    def text(self) -> str | None:
        return self.sql

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        return PlannedQuery.of(session, self.sql, parameters)


@dataclass(frozen=True, slots=True)
class SubstraitPlan(Query):
    """SUBSTRAIT 'plan': a query as a plan in base64."""

    forms = (substrait.WORD,)

    @classmethod
    def read(cls, cursor: Cursor) -> Query:
        if substrait.plan_in(cursor.source(0, len(cursor.tokens))) is None:
            raise cursor.error("a plan in base64, in quotes")
        return Query.read(cursor)


def begins_query(cursor: Cursor) -> bool:
    """Return whether a query comes next, and no name."""
    is_query = any(cursor.peek(word) for word in ("SELECT", "WITH", "VALUES", "FROM", "("))
    return is_query or begins_pivot(TokenPlaces(cursor.tokens), cursor.at)


def query_text(cursor: Cursor, stop: int | None = None) -> str:
    """Read the query that ends another statement, or ends at the place of a token."""
    if not begins_query(cursor):
        raise cursor.error("a query (SELECT, VALUES, WITH)")
    if stop is None:
        return cursor.rest()
    start, cursor.at = cursor.at, stop
    return cursor.source(start, stop)


MOST_COLUMNS = 512

_TEXTS = ("min", "max", "avg", "std", "q25", "q50", "q75")
_SCHEMA = pa.schema(
    [
        pa.field("column_name", pa.utf8(), nullable=False),
        pa.field("column_type", pa.utf8(), nullable=False),
        pa.field("min", pa.utf8()),
        pa.field("max", pa.utf8()),
        pa.field("approx_unique", pa.int64()),
        pa.field("avg", pa.utf8()),
        pa.field("std", pa.utf8()),
        pa.field("q25", pa.utf8()),
        pa.field("q50", pa.utf8()),
        pa.field("q75", pa.utf8()),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("null_percentage", pa.decimal128(9, 2)),
    ]
)
_QUANTILES = {"q25": 0.25, "q50": 0.5, "q75": 0.75}


@dataclass(frozen=True, slots=True)
class Summarize(RowsStatement):
    """SUMMARIZE t, SUMMARIZE SELECT …: one row for each column, in one pass over the rows; `relation` is SQL text."""

    forms = ("SUMMARIZE",)

    relation: str

    @classmethod
    def read(cls, cursor: Cursor) -> Summarize:
        if begins_query(cursor):
            return cls(enclose(query_text(cursor)))
        start = cursor.at
        references.table(cursor)
        read_version(cursor)  # which the query reads again
        return cls(cursor.source(start, cursor.at))

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        rows = f"SELECT * FROM {self.relation} AS source"  # noqa: S608 - read token by token, or a query of its own
        columns = list(session.frame(rows, parameters).schema())
        if len(columns) > MOST_COLUMNS:
            raise LimitExceeded(
                f"SUMMARIZE has {len(columns)} columns; expected at most {MOST_COLUMNS}: name some in a query"
            )
        aggregates = ["count(*) AS rows"]
        for place, field in enumerate(columns):
            by_name = _aggregates(quote_parts(field.name), field.type)
            aggregates += [f"{expression} AS {name}_{place}" for name, expression in by_name.items()]
        query = f"SELECT {', '.join(aggregates)} FROM {self.relation} AS source"  # noqa: S608 - as above
        return _Summary(PlannedQuery.of(session, query, parameters), columns)


@dataclass(frozen=True, slots=True)
class _Summary:
    """Answer with one row for each column, from the one row of aggregates."""

    planned: PlannedQuery
    columns: Sequence[pa.Field]
    schema: pa.Schema = _SCHEMA

    @property
    def frame(self) -> DataFrame:
        """Return the plan of the aggregates."""
        return self.planned.frame

    def batches(self) -> Iterator[pa.RecordBatch]:
        (row,) = pa.Table.from_batches(self.planned.batches(), self.planned.schema).to_pylist()
        rows = [_summary(place, field, row) for place, field in enumerate(self.columns)]
        yield from pa.Table.from_pylist(rows, schema=self.schema).to_batches()


def _summary(place: int, field: pa.Field, values: Mapping[str, Any]) -> dict[str, object]:
    total, present = values["rows"], values[f"present_{place}"]
    return {
        "column_name": field.name,
        "column_type": type_name(field.type),
        "approx_unique": values[f"unique_{place}"],
        "count": total,
        "null_percentage": round(Decimal(total - present) * 100 / total, 2) if total else None,
        **{name: values.get(f"{name}_{place}") for name in _TEXTS},
    }


def _aggregates(column: str, kind: pa.DataType) -> dict[str, str]:
    """Return the aggregates over a column of a type, as SQL, by their names; those without a meaning for it are left out."""
    comparable = f"CAST({column} AS VARCHAR)" if pa.types.is_floating(kind) else column
    by_name = {"present": f"count({column})", "unique": f"CAST(approx_distinct({comparable}) AS BIGINT)"}
    if not pa.types.is_nested(kind):
        by_name |= {name: _as_text(f"{name}({column})", kind) for name in ("min", "max")}
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        number = f"CAST({column} AS DOUBLE)"
        by_name |= {"avg": f"CAST(avg({number}) AS VARCHAR)", "std": f"CAST(stddev({number}) AS VARCHAR)"}
        by_name |= {
            name: f"CAST(approx_percentile_cont({number}, {share}) AS VARCHAR)" for name, share in _QUANTILES.items()
        }
    return by_name


def _as_text(value: str, kind: pa.DataType) -> str:
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return f"encode({value}, 'hex')" if is_binary else f"CAST({value} AS VARCHAR)"
