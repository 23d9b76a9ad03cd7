"""Queries, which are passed to DataFusion; SUMMARIZE, aggregates over each column; and EXPLAIN, which shows how rows are found."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.compat.checked_arithmetic import without_checks
from lance_flight.engine.dialects.clauses import read_version
from lance_flight.engine.dialects.pivots import begins_pivot
from lance_flight.engine.query.access import Privilege
from lance_flight.engine.query.partition_wise.division import divide
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.runner import GOES_ON
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.measured_plans import MeasuredPlans
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import Cursor, enclose, quote_parts
from lance_flight.engine.sql.tokens import TokenPlaces
from lance_flight.engine.statements.kinds import Answer, RowsStatement, Statement
from lance_flight.engine.statements.row_changes import RowChange
from lance_flight.engine.translation import substrait
from lance_flight.errors import LimitExceeded, SqlError, Unsupported
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


EXPLAIN_SCHEMA = pa.schema(
    [pa.field("plan_type", pa.utf8(), nullable=False), pa.field("plan", pa.utf8(), nullable=False)]
)

_NOT_SHOWN = "the plan is not shown: the query reads a table of which columns are masked, or not granted"


_NUMBER = r"(?:\w+\()?-?(?:\d[\w.]*(?:[+-]\d+)?|NaN|inf|NULL)\)?"
_LONG_LIST = re.compile(rf"(?<![\w.])({_NUMBER}(?:, ?{_NUMBER}){{2}})((?:, ?{_NUMBER}){{17,}})")
"""Matches a list of twenty numbers and more, such as a vector, in two parts."""


@dataclass(frozen=True, slots=True)
class Explain(RowsStatement):
    """EXPLAIN [ANALYZE] of a query, or EXPLAIN of a `change`: shows how its rows are found."""

    forms = ("EXPLAIN",)
    nests = True

    sql: str
    analyze: bool
    change: RowChange | None = None

    @classmethod
    def read(cls, cursor: Cursor, parse: Callable[..., Statement]) -> Explain:
        analyze = _in_brackets(cursor) if _has_options(cursor) else cursor.accept("ANALYZE")
        cursor.accept("VERBOSE")
        first = 0 if cursor.sent is None else cursor.first + cursor.at
        text = cursor.rest()
        match parse(text, cursor.db_schema, cursor.sent, first):
            case Query(sql):
                return cls(sql, analyze)
            case RowChange() as change if not analyze:
                return cls(text, analyze, change)
            case inner:
                what = (
                    "EXPLAIN ANALYZE takes a query"
                    if analyze
                    else "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE"
                )
                raise SqlError(f"{what}, got {inner.label}{_INSTEAD.get(inner.label, '')}")

    @property
    def target(self) -> tuple[TableName | None, frozenset[Privilege]]:
        return (None, frozenset()) if self.change is None else (self.change.target_name, self.change.changing)

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        if self.change is None:
            return _Plans(session, session.frame(self.sql, parameters), self.analyze)
        change = self.change.resolve(session)
        frame = session.frame(change.query_in(session).sql, parameters)
        change.narrow(session, frame)
        return _Plans(session, frame, self.analyze)


_INSTEAD = dict.fromkeys(["Insert", "CreateTable"], "; write EXPLAIN with the query alone")
_SHOWN = ("ANALYZE", "VERBOSE", "COSTS", "TIMING", "SUMMARY", "BUFFERS", "SETTINGS", "WAL")
"""Options of PostgreSQL's EXPLAIN that are switches; of these, ANALYZE alone says what is shown here."""


def _has_options(cursor: Cursor) -> bool:
    return any(cursor.peek("(", word) for word in (*_SHOWN, "FORMAT"))


def _in_brackets(cursor: Cursor) -> bool:
    """Read `(option [on | off], …)`, and return whether the query is run."""
    analyze = False
    while not cursor.accept(")"):
        cursor.at += 1  # the bracket or a comma
        name = cursor.name("an option").upper()
        is_off = any(map(cursor.accept, ("FALSE", "OFF", "0")))
        is_on = not is_off and any(map(cursor.accept, ("TRUE", "ON", "1", "TEXT")))
        if name not in _SHOWN and not (name == "FORMAT" and is_on and cursor.last == "TEXT"):
            raise Unsupported(f"EXPLAIN with {name}; expected ANALYZE, or FORMAT TEXT")
        if not (cursor.peek(",") or cursor.peek(")")):
            raise cursor.error("on, off, a comma or the closing bracket")
        analyze = not is_off if name == "ANALYZE" else analyze
    return analyze


@dataclass(frozen=True, slots=True)
class _Plans:
    """Answer with the plans of a query, and the pruning of each of its scans."""

    session: QuerySession
    frame: DataFrame
    analyze: bool
    schema: pa.Schema = EXPLAIN_SCHEMA

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.session.prepare(self.frame)
        yield from explain(self.session, self.frame, analyze=self.analyze).to_batches()


def with_short_lists(plan: str) -> str:
    """Return the text of a plan with the first three numbers of a long list, and how many more there are.

    >>> with_short_lists("distance(v, List([" + ", ".join(["0.5"] * 768) + "]))")
    'distance(v, List([0.5, 0.5, 0.5, … 765 more]))'
    >>> with_short_lists("make_array(" + ",".join(["Float64(-1e-7)"] * 20) + ")")
    'make_array(Float64(-1e-7),Float64(-1e-7),Float64(-1e-7), … 17 more)'
    """
    return _LONG_LIST.sub(lambda match: f"{match[1]}, … {match[2].count(',')} more", plan)


def _rows_read(measured: MeasuredPlans) -> str:
    """Return the line of the rows that were read from each table, before they were filtered further; nothing without any."""
    read = [f"{count} of {name}" for name, count in measured.rows_read.items()]
    return f"rows read: {', '.join(read)}\n" if read else ""


def _shown(text: str) -> str:
    """Return the text of an operator without what we have added to it, and with short lists."""
    return with_short_lists(without_checks(text.replace(f", filter={GOES_ON}(true)", "")))


def explain(session: QuerySession, frame: DataFrame, *, analyze: bool) -> pa.Table:
    """Return the plans of a query; `analyze` runs it and adds its rows, opened tables and time, and the rows and time of each operator.

    Of a query over columns that are masked, or not all granted, only counts are told: plans have the masks, and the columns that these read.
    """
    division = divide(session, frame, ask_keys=analyze, is_told=True)
    logical, physical = session.optimiser.optimise(division.whole), session.optimiser.plan(division.whole)
    is_restricted = session.named.is_restricted
    rows = [("logical_plan", logical.display_indent()), ("physical_plan", physical.display_indent())]
    if is_restricted:
        rows = [("policy", _NOT_SHOWN)]
    session.log.is_explained = True
    reports = [report() for report in session.log.reports]
    if analyze:
        session.log.tables_read = 0
        measured = MeasuredPlans(_shown)
        # Others look at it from now on, which is for those alone who may see the plan.
        session.log.measured[:] = [] if is_restricted else [measured]
        began = time.perf_counter()
        produced = sum(batch.num_rows for batch in division.batches())
        seconds = time.perf_counter() - began
        opened = "" if is_restricted else f"tables opened: {session.log.tables_read}\n{_rows_read(measured)}"
        rows.append(("analyze", f"rows: {produced}\n{opened}seconds: {seconds:.3f}"))
        rows += (
            []
            if is_restricted
            else [
                ("operators", "\n".join(f"{'  ' * each.depth}{each.text}{each.measured}" for each in tree))
                for tree in measured.trees()
            ]
        )
    rows += [("partitions", report) for report in reports]
    rows += [] if is_restricted else division.notes
    rows = [(kind, with_short_lists(without_checks(text))) for kind, text in rows]
    return pa.Table.from_arrays(
        [pa.array(column, pa.utf8()) for column in zip(*rows, strict=True)], schema=EXPLAIN_SCHEMA
    )
