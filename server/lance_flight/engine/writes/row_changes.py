"""Row changes of UPDATE, DELETE and MERGE: their parts, the queries that find rows, and the new rows with the removed addresses.

Conditions and expressions stay SQL text, which is put into the queries that find the rows.

Each reads the target under the name `t$rows`, which has the address of every row beside its columns. What comes back
are batches of `RowChanges`: addresses of rows that go, and rows that come.

Only keys of a source that gives the same rows whenever it is read (a table, a list of values) are asked for; any other one is
evaluated once, by the statement itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import DataFrame, Expr, LogicalPlan

from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.tables import rows
from lance_flight.catalog.tables.rows import ROW_ORIGIN, with_origin
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, ADDRESS_NAMES
from lance_flight.engine.dialects.clauses import read_version
from lance_flight.engine.functions.date_spans import durations_of
from lance_flight.engine.query.information_schema import INFORMATION_SCHEMA
from lance_flight.engine.query.named_tables import TARGET_ROWS
from lance_flight.engine.query.partition_wise.division import few_keys
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql.references import SYSTEM, Cursor, TableRef, enclose, names, quote_parts, table
from lance_flight.engine.translation.evaluation import cast, unsteady
from lance_flight.engine.translation.parameters import (
    column_name,
    column_types,
    equal_columns,
    parameter_count,
    result_types,
)
from lance_flight.engine.translation.plan_messages import COERCED
from lance_flight.engine.writes.change_clauses import (
    DEFAULT,
    RETURNING,
    ReturnedRows,
    Returning,
    value_of_default,
    with_queries,
)
from lance_flight.engine.writes.definitions import storable
from lance_flight.errors import DataError, NotFound, SqlError
from lance_flight.model.arrow_types import is_string
from lance_flight.model.json_documents import is_document
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.type_names import type_name
from lance_flight.planning.predicates import Column, In, Predicate, all_of

_AFTER_TABLE = ("SET", "WHERE", "USING", RETURNING, "JOIN", "INNER", "LEFT")
BEHIND = (RETURNING, "LIMIT", "ORDER")
"""Words behind what is set, or the condition of a statement; no statement takes the last ones."""
_JOINED = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Table whose rows are changed, and its alias in the statement; `queries` are those of a WITH before it, as SQL text."""

    table: TableRef
    alias: str
    queries: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression`."""

    column: str
    expression: str

    @property
    def is_default(self) -> bool:
        """True for `column = DEFAULT`."""
        return self.expression.upper() == DEFAULT


@dataclass(frozen=True, slots=True)
class Where:
    """Condition that finds the rows of the target, over the columns of some further tables, too; both as SQL text."""

    condition: str | None
    sources: str = ""


class Matched(Enum):
    """Rows that a WHEN clause of MERGE applies to."""

    BOTH = "MATCHED"
    SOURCE_ONLY = "NOT MATCHED"
    TARGET_ONLY = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """WHEN … [AND condition] THEN; `assignments` None deletes the row, () with `takes_all` takes every column over.

    `values` are those of INSERT VALUES without columns, until these are looked up. A clause that `does_nothing` keeps the
    rows from the clauses behind it.
    """

    matched: Matched
    condition: str | None
    assignments: tuple[Assignment, ...] | None
    takes_all: bool = False
    values: tuple[str, ...] = ()
    does_nothing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """`INTO t [[AS] a] USING source [[AS] s [(column, …)]] ON condition WHEN …`; `source` is SQL text; `on` is empty until the primary key is looked up."""

    target: Target
    source: str
    source_alias: str
    source_columns: tuple[str, ...]
    on: str
    clauses: tuple[MergeClause, ...]
    returning: Returning | None = None


def target(cursor: Cursor) -> Target:
    """Read `t [[AS] a]`."""
    reference = table(cursor)
    called = alias(cursor, *_AFTER_TABLE) or reference.name
    return Target(table=reference, alias=called, queries=cursor.queries)


def alias(cursor: Cursor, *following: str) -> str | None:
    """Read `[[AS] a]`, which ends before one of some words."""
    if cursor.accept("AS"):
        return cursor.name("an alias")
    if cursor.done or any(cursor.peek(word) for word in following):
        return None
    return cursor.name("an alias or " + " or ".join(following))


def where(cursor: Cursor, before_sources: str = "") -> Where:
    """Read `[word table, …] [WHERE condition]`; the word is another one in each statement."""
    read = _sources(cursor) if before_sources and cursor.accept(before_sources) else ""
    condition = text(cursor, "a condition", *BEHIND) if cursor.accept("WHERE") else None
    if cursor.peek("LIMIT") or cursor.peek("ORDER"):
        raise cursor.error(f"{RETURNING} or the end; write WHERE id IN (SELECT id FROM t ORDER BY … LIMIT n)")  # noqa: S608 - a message
    return Where(condition, read)


def _sources(cursor: Cursor) -> str:
    """Read `table|(query) [[AS] a [(column, …)]], …`; return the text, in which nothing else stands."""
    start = cursor.at
    while True:
        if cursor.peek("("):
            cursor.read_bracket()
        else:
            table(cursor)
            read_version(cursor)  # which the query that finds the rows reads again
        alias(cursor, ",", "WHERE", RETURNING, *_JOINED)
        if any(map(cursor.peek, _JOINED)):
            raise cursor.error("WHERE or ','; tables that are joined stand in a query, as (SELECT …) AS s")
        if cursor.peek("("):
            names(cursor)
        if not cursor.accept(","):
            return cursor.source(start, cursor.at)


def assignments(cursor: Cursor, *stops: str) -> tuple[Assignment, ...]:
    """Read `column = expression, …` up to some words; also `(column, …) = (expression, …)`."""
    assignments = list(_assigned(cursor, *stops))
    while cursor.accept(","):
        assignments += _assigned(cursor, *stops)
    return unique(assignments)


def _assigned(cursor: Cursor, *stops: str) -> Iterator[Assignment]:
    if not cursor.peek("("):
        yield _assignment(cursor, *stops)
        return
    columns = names(cursor)
    cursor.expect("=")
    cursor.accept("ROW")
    if cursor.peek("(", "SELECT") or cursor.peek("(", "WITH") or not cursor.peek("("):
        raise cursor.error(
            "a value for each column, as (1, 'a'); for values of a query write UPDATE … SET a = s.a FROM (SELECT …) AS s WHERE …"
        )
    values = Cursor.over(cursor.read_bracket()[1:-1])
    expressions = [text(values, f"a value for {columns[0]!r}", ",")]
    while values.accept(","):
        expressions.append(text(values, "a value", ","))
    if len(expressions) != len(columns):
        raise SqlError(f"({', '.join(columns)}) = … has {len(expressions)} values for {len(columns)} columns")
    yield from map(Assignment, columns, expressions)


def _assignment(cursor: Cursor, *stops: str) -> Assignment:
    column = cursor.name("a column name")
    while cursor.accept("."):
        column = cursor.name("a column name")
    cursor.expect("=")
    start = cursor.at
    text(cursor, f"a value for {column!r}", ",", *stops)
    while cursor.peek("FROM") and cursor.last == "DISTINCT":  # of IS DISTINCT FROM
        cursor.at += 1
        text(cursor, f"a value for {column!r}", ",", *stops)
    return Assignment(column, cursor.source(start, cursor.at))


def with_default_values(
    assignments: tuple[Assignment, ...], described: Callable[[], NamespaceSchema]
) -> tuple[Assignment, ...]:
    """Return assignments with the default of the column in the place of DEFAULT; `described` gives the schema of the table."""
    if not any(assignment.is_default for assignment in assignments):
        return assignments
    schema = described()
    return tuple(
        Assignment(assignment.column, value_of_default(schema, assignment.column))
        if assignment.is_default
        else assignment
        for assignment in assignments
    )


def unique(assignments: list[Assignment]) -> tuple[Assignment, ...]:
    """Refuse to assign a column twice."""
    columns = [assignment.column for assignment in assignments]
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise SqlError(f"column {twice[0]!r} is assigned twice")
    return tuple(assignments)


def text(cursor: Cursor, what: str, *stops: str) -> str:
    """Read SQL up to one of some words; raise an error that expects `what` if there is none."""
    text = cursor.until(*stops)
    if not text:
        raise cursor.error(what)
    return text


_ACTION = "_action"
_IN_SOURCE = "in.source"  # with a dot, as no column of a table may be called
_PAIRS = "the.pairs"
_JOINS = {
    (False, False): "INNER",
    (True, False): "RIGHT",
    (False, True): "LEFT",
    (True, True): "FULL",
}
"""Join types by whether unmatched rows of the source, and of the target, are needed."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Batch of changes: the addresses of removed rows (`ADDRESS_FIELDS`), and new rows, named as the target's.

    Those of `inserted` replace no row; those of `come` may have `ORIGIN_FIELDS`. `removed` are rows that nothing replaces, for RETURNING.
    """

    gone: pa.Table
    come: tuple[pa.Table, ...] = ()
    inserted: tuple[pa.Table, ...] = ()
    removed: tuple[pa.Table, ...] = ()


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Query over the target's rows, and the translation of its batches to changes.

    `parameter_types` are those of the target's columns that parameters are written to, or matched with. No two of the rows that are
    inserted may have equal values in the columns `unique`, where none is NULL.
    """

    sql: str
    read: Callable[[pa.RecordBatch], RowChanges]
    parameter_types: Mapping[str, pa.DataType] = field(default_factory=dict)
    unique: tuple[str, ...] = ()


def delete_query(target: Target, where: Where, db_schema: str, returned: Sequence[str] = ()) -> RowQuery:
    """Build the query for the addresses of the rows that a DELETE removes: each once, of however many rows of the sources.

    With them come the columns that are `returned`.
    """
    columns = ", ".join([*_of(target.alias, ADDRESS_NAMES), *_with_prefix(_of(target.alias, returned), "o")])
    distinct = "DISTINCT " * bool(where.sources)
    sql = f"SELECT {distinct}{columns} FROM {_show_row(target, where, db_schema)}"  # noqa: S608 - quoted

    def read(batch: pa.RecordBatch) -> RowChanges:
        found = pa.Table.from_batches([batch])
        return RowChanges(found.select(list(ADDRESS_NAMES)), removed=(_old(found, returned),) if returned else ())

    return RowQuery(with_queries(target.queries, sql), read)


def update_query(
    target: Target,
    assignments: Sequence[Assignment],
    where: Where,
    db_schema: str,
    schema: pa.Schema,
    *,
    keeps_ids: bool,
) -> RowQuery:
    """Build the query for the addresses and the new values of the rows that an UPDATE changes, with their ids if they keep them."""
    values = _values(assignments, target.alias, schema)
    columns = ", ".join([*_of(target.alias, _address_names(keeps_ids=keeps_ids)), *_with_prefix(values, "v")])
    sql = f"SELECT {columns} FROM {_show_row(target, where, db_schema)}"  # noqa: S608 - quoted

    def read(batch: pa.RecordBatch) -> RowChanges:
        rows = pa.Table.from_batches([batch])
        come = rows.select(rows.column_names[-len(schema) :]).rename_columns(schema.names)
        return RowChanges(rows.select(list(ADDRESS_NAMES)), (with_origin(come, rows) if keeps_ids else come,))

    return RowQuery(with_queries(target.queries, sql), read, _assigned_types(assignments, schema))


def merge_query(
    statement: Merging, db_schema: str, schema: pa.Schema, source: pa.Schema, *, keeps_ids: bool
) -> RowQuery:
    """Build the query for the pairs of rows that a MERGE changes: the number of the clause, the target's address (and id), and the new row.

    Each clause has columns of its own for what it assigns, so that no type is bent to that of another clause.
    """
    alias = statement.target.alias
    clauses = [_resolve(clause, statement.source_alias, schema, source) for clause in statement.clauses]
    action = _action(statement, clauses)
    old = [f"{column} AS {quote_parts(f'o{place}')}" for place, column in enumerate(_of(alias, schema.names))]
    new = [
        f"CASE WHEN {action} = {number} THEN {enclose(assignment.expression)} END AS {quote_parts(f'c{number}_{place}')}"
        for number, clause in enumerate(clauses)
        for place, assignment in enumerate(clause.assignments or ())
    ]
    matters = {clause.matched for clause in clauses if not clause.does_nothing}
    join = _JOINS[Matched.SOURCE_ONLY in matters, Matched.TARGET_ONLY in matters]
    columns = ", ".join(
        [f"{action} AS {quote_parts(_ACTION)}", *_of(alias, _address_names(keeps_ids=keeps_ids)), *old, *new]
    )
    origin = f"(SELECT *, TRUE AS {quote_parts(_IN_SOURCE)} FROM {_relation(statement)}) AS {quote_parts(statement.source_alias)}"  # noqa: S608 - quoted
    sql = (
        # No query in FROM: the parser tells nothing of what is wrong inside one.
        f"WITH {quote_parts(_PAIRS)} AS (SELECT {columns} FROM {_from(statement.target, db_schema)} {join} JOIN {origin}"  # noqa: S608 - quoted
        f" ON {enclose(statement.on)}) SELECT * FROM {quote_parts(_PAIRS)} WHERE {quote_parts(_ACTION)} IS NOT NULL"
    )
    return RowQuery(
        with_queries(statement.target.queries, sql),
        lambda batch: _read_merge(
            pa.Table.from_batches([batch]),
            clauses,
            schema,
            keeps_ids=keeps_ids,
            is_returned=statement.returning is not None,
        ),
        _merged_types(statement, clauses, schema, source),
    )


def _read_merge(
    batch: pa.Table, clauses: Sequence[MergeClause], schema: pa.Schema, *, keeps_ids: bool, is_returned: bool
) -> RowChanges:
    gone = batch.select(list(ADDRESS_NAMES))
    come, inserted, removed = list[pa.Table](), list[pa.Table](), list[pa.Table]()
    for number, clause in enumerate(clauses):
        if clause.assignments is None and not is_returned:
            continue
        mine = batch.filter(pc.equal(batch[_ACTION], number))
        if clause.assignments is None:
            removed.append(_old(mine, schema.names))
            continue
        assigned = {a.column: f"c{number}_{place}" for place, a in enumerate(clause.assignments)}
        is_new = clause.matched is Matched.SOURCE_ONLY
        names = [assigned.get(name, None if is_new else f"o{place}") for place, name in enumerate(schema.names)]
        columns = {name: mine[held] for name, held in zip(schema.names, names, strict=True) if held is not None}
        if mine.num_rows:
            rows = pa.table(columns)
            (inserted if is_new else come).append(with_origin(rows, mine) if keeps_ids else rows)
    return RowChanges(gone.filter(pc.is_valid(gone.column(1))), tuple(come), tuple(inserted), tuple(removed))


def _old(found: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the columns of the target as they were found."""
    return found.select([f"o{place}" for place in range(len(names))]).rename_columns(names)


def _action(statement: Merging, clauses: Sequence[MergeClause]) -> str:
    """Build the CASE that gives the number of the first clause that applies to a pair of rows; NULL if none does."""
    in_target = f"{_of(statement.target.alias, ADDRESS_NAMES)[1]} IS NOT NULL"
    in_source = f"{quote_parts(statement.source_alias, _IN_SOURCE)} IS NOT NULL"
    applies = {
        Matched.BOTH: f"{in_target} AND {in_source}",
        Matched.SOURCE_ONLY: f"NOT ({in_target})",
        Matched.TARGET_ONLY: f"NOT ({in_source})",
    }
    whens = [
        f"WHEN {applies[clause.matched]}"
        + (f" AND {enclose(clause.condition)}" if clause.condition else "")
        + (" THEN NULL" if clause.does_nothing else f" THEN {number}")
        for number, clause in enumerate(clauses)
    ]
    return f"(CASE {' '.join(whens)} END)"


def _resolve(clause: MergeClause, source_alias: str, schema: pa.Schema, source: pa.Schema) -> MergeClause:
    """Return the clause with its `*` expanded, and its columns checked."""
    if clause.takes_all:
        taken = [Assignment(name, quote_parts(source_alias, name)) for name in schema.names if name in source.names]
        if not taken:
            raise SqlError(
                f"* takes nothing over: the source has the columns {', '.join(source.names)}, the table has"
                f" {', '.join(schema.names)}"
            )
        return MergeClause(matched=clause.matched, condition=clause.condition, assignments=tuple(taken))
    _check_known(clause.assignments or (), schema)
    return clause


def _relation(statement: Merging) -> str:
    columns = f" ({', '.join(map(quote_parts, statement.source_columns))})" if statement.source_columns else ""
    return f"{statement.source} AS {quote_parts(statement.source_alias)}{columns}"


def _values(assignments: Sequence[Assignment], alias: str, schema: pa.Schema) -> list[str]:
    """Return what each column of the target becomes."""
    _check_known(assignments, schema)
    assigned = {assignment.column: assignment.expression for assignment in assignments}
    return [enclose(assigned[name]) if name in assigned else quote_parts(alias, name) for name in schema.names]


def _assigned_types(assignments: Iterable[Assignment], schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the parameters that are assigned to columns, with the types of these."""
    types: dict[str, pa.DataType] = {}
    for assignment in assignments:
        types.update(result_types(assignment.expression, schema.field(assignment.column).type))
    return types


def _merged_types(
    statement: Merging, clauses: Sequence[MergeClause], schema: pa.Schema, source: pa.Schema
) -> dict[str, pa.DataType]:
    """Return the parameters that a MERGE assigns to columns, or whose columns of the source it assigns or matches with some."""
    assignments = [assignment for clause in clauses for assignment in clause.assignments or ()]
    pairs = [
        *equal_columns(statement.on),
        *((column_name(assignment.expression), assignment.column) for assignment in assignments),
    ]
    names = {name: name for name in source.names} | {name: column for name, column in pairs if column in schema.names}
    taken = {name: schema.field(column).type for name, column in names.items() if column in schema.names}
    kinds = [taken.get(name) if pa.types.is_null(source.field(name).type) else None for name in source.names]
    return {**column_types(statement.source, kinds), **_assigned_types(assignments, schema)}


def _check_known(assignments: Sequence[Assignment], schema: pa.Schema) -> None:
    for assignment in assignments:
        if assignment.column not in schema.names:
            raise NotFound.named("column", assignment.column, schema.names)


def _address_names(*, keeps_ids: bool) -> tuple[str, ...]:
    return (*ADDRESS_NAMES, ROW_ORIGIN) if keeps_ids else ADDRESS_NAMES


def _with_prefix(values: Sequence[str], prefix: str) -> list[str]:
    return [f"{value} AS {quote_parts(f'{prefix}{place}')}" for place, value in enumerate(values)]


def _of(alias: str, names: Sequence[str]) -> list[str]:
    return [quote_parts(alias, name) for name in names]


def _from(target: Target, db_schema: str) -> str:
    rows = quote_parts(target.table.db_schema or db_schema, f"{target.table.name}${TARGET_ROWS}")
    return f"{rows} AS {quote_parts(target.alias)}"


def _show_row(target: Target, where: Where, db_schema: str) -> str:
    sources = f", {where.sources}" if where.sources else ""
    condition = "" if where.condition is None else f" WHERE {enclose(where.condition)}"
    return f"{_from(target, db_schema)}{sources}{condition}"


def source_query(statement: Merging) -> str:
    """Return the query for the source of a MERGE."""
    return with_queries(statement.target.queries, f"SELECT * FROM {_relation(statement)}")  # noqa: S608 - the client's own text


class Finding(Protocol):
    """Interface of a statement that finds the rows which it changes."""

    @property
    def label(self) -> str:
        """Return the name of the statement in error messages, and in a table's history."""
        ...

    @property
    def target(self) -> Target:
        """Return the table whose rows are changed."""
        ...

    def narrow(self, session: QuerySession, frame: DataFrame) -> None:
        """Restrict what `frame`, its query, reads of the target, before it is run."""
        ...


class RowDelta:
    """Changes that one statement makes to the rows of its target, whose columns are `target`.

    Iterating runs its query and yields the new rows; the removed ones are known afterwards.
    """

    def __init__(
        self,
        session: QuerySession,
        statement: Finding,
        query: RowQuery,
        parameters: pa.RecordBatch | None,
        target: pa.Schema,
        *,
        returned: ReturnedRows | None = None,
    ) -> None:
        self.kind = statement.label
        self._session = session
        self._statement = statement
        self._query = query
        self._target = target
        self._returned = returned
        self._frame = session.frame(query.sql, parameters)
        self._gone = [pa.schema(ADDRESS_FIELDS).empty_table()]
        self._inserted = 0
        self._keys: list[pa.Table] = []

    def __iter__(self) -> Iterator[pa.Table]:
        return self._rows() if self._returned is None else self._returned.collect(self._rows())

    def _rows(self) -> Iterator[pa.Table]:
        self._statement.narrow(self._session, self._frame)
        self._session.prepare(self._frame)
        for batch in self._session.batches(self._frame, storable(self._frame.schema())):
            changes: RowChanges = self._query.read(batch)
            self._gone.append(changes.gone.cast(pa.schema(ADDRESS_FIELDS)))
            if self._returned is not None:
                for removed in changes.removed:
                    self._returned.add(removed)
            yield from (self._assign(rows) for rows in changes.come)
            for new in changes.inserted:
                stored = self._assign(new)
                self._inserted += stored.num_rows
                self._keys.append(stored.select(self._query.unique))
                yield stored
        self._check_once()
        self._check_unique()

    @property
    def count(self) -> int:
        """Return the number of rows inserted, changed and removed."""
        return sum(int(part.num_rows) for part in self._gone) + self._inserted

    @property
    def addresses(self) -> np.ndarray:
        """Return the addresses of the removed rows, if all are of one table."""
        addresses: np.ndarray = pa.concat_tables(self._gone).column(1).to_numpy()
        return addresses

    @property
    def by_table(self) -> dict[PartitionTable, np.ndarray]:
        """Return the addresses of the removed rows, for each partition table that has any."""
        gone = pa.concat_tables(self._gone)
        numbers, addresses = gone.column(0).to_numpy(), gone.column(1).to_numpy()
        order = np.argsort(numbers, kind="stable")
        distinct, starts = np.unique(numbers[order], return_index=True)
        parts = np.split(addresses[order], starts[1:]) if len(distinct) else []
        tables = self._session.named.targets.tables
        return {tables[int(number)]: part for number, part in zip(distinct, parts, strict=True)}

    def number_of(self, object_id: str) -> int | None:
        """Return the number of a partition table among the origins of the new rows; None if it has none."""
        return self._session.named.targets.number_of(object_id)

    def _assign(self, rows: pa.Table) -> pa.Table:
        known = [name for name in rows.column_names if name in self._target.names]
        stored = convert_assigned(rows.select(known), self._target)
        return stored if len(known) == rows.num_columns else with_origin(stored, rows)

    def _check_once(self) -> None:
        """Refuse a MERGE that changes one row of the target twice, since the order of the changes is not defined."""
        gone = pa.concat_tables(self._gone)
        if gone.group_by(gone.column_names).aggregate([]).num_rows != gone.num_rows:
            raise DataError(
                f"{self.kind.upper()} finds several rows of its source for one row of"
                f" {self._statement.target.table.name!r}; expected one at most"
            )

    def _check_unique(self) -> None:
        """Refuse rows with one key of which the second would conflict with the first."""
        names = self._query.unique
        if not names or not self._keys:
            return
        keys = pa.concat_tables(self._keys).drop_null()
        counts = keys.group_by(list(names)).aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).select(names).to_pylist()
        if twice:
            key = ", ".join(f"{name} = {value!r}" for name, value in twice[0].items())
            raise DataError(
                f"{self.kind.upper()} … ON CONFLICT meets several new rows with {key}; expected one at most of each key"
            )


def _example(kind: pa.DataType) -> str | None:
    """Return how a value of a type is written, where a text of it has one form alone."""
    examples = {
        pa.types.is_date: "'2024-02-29'",
        pa.types.is_timestamp: "'2024-02-29 10:00:00'",
        pa.types.is_time: "'10:00:00'",
        pa.types.is_duration: "INTERVAL '3 hours', which is no text",
        pa.types.is_nested: "[1, 2], {'a': 1} or map(['a'], [1]), which is no text",
    }
    return next((example for is_kind, example in examples.items() if is_kind(kind)), None)


def _is_row(kind: pa.DataType) -> bool:
    """Return whether a type is that of `row(1, 'a')`, whose fields have no names of their own."""
    return pa.types.is_struct(kind) and [field.name for field in kind] == [f"c{place}" for place in range(len(kind))]


def _with_names(rows_without: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return structs with the names that the fields of a type have, by position."""
    fields = [field.with_name(named.name) for field, named in zip(rows_without.type, kind, strict=True)]
    chunks = [
        pa.StructArray.from_arrays(
            [chunk.field(place) for place in range(len(fields))], fields=fields, mask=chunk.is_null()
        )
        for chunk in rows_without.chunks
    ]
    return pa.chunked_array(chunks, pa.struct(fields))


def convert_assigned(table: pa.Table, target: pa.Schema) -> pa.Table:
    """Convert rows by SQL's rules of assignment: text is read as a literal, numbers are rounded; other values have to fit."""
    for place, name in enumerate(table.column_names):
        field, column = target.field(name), table.column(place)
        if _is_row(column.type) and pa.types.is_struct(field.type) and len(column.type) == len(field.type):
            table = table.set_column(place, field.name, _with_names(column, field.type))
        if pa.types.is_interval(column.type) and pa.types.is_duration(field.type):
            table = table.set_column(place, field.name, durations_of(column.combine_chunks()))
        if is_string(column.type) and not is_document(field.type):
            try:
                table = table.set_column(place, field.name, cast(column.combine_chunks(), field.type))
            except SqlError as exc:
                why, example = str(exc).removesuffix(COERCED), _example(field.type)
                expected = f"; expected one as {example}" if example else ""
                raise DataError(
                    f"column {field.name!r} ({type_name(field.type)}) cannot be read from text: {why}{expected}"
                ) from exc
    return rows.round_to_float(table, target)


def matched_rows(session: QuerySession, statement: Merging, frame: DataFrame) -> Predicate:
    """Return what holds of every row of the target that `frame`, the query of the statement, can be about."""
    if any(clause.matched is Matched.TARGET_ONLY for clause in statement.clauses) or not _is_stable(
        statement, session.db_schema
    ):
        return all_of([])
    source = session.frame(source_query(statement))
    pairs = _keys(session.optimiser.optimise(frame), statement.target.alias)
    return all_of(
        [In(Column(name), values) for name, key in pairs if (values := _key_values(session, source, key)) is not None]
    )


def _is_stable(statement: Merging, db_schema: str) -> bool:
    """Return whether the source, and the keys computed from it, are the same when they are computed twice."""
    text = statement.source.lstrip("( \n\t").upper()
    # The source is asked for its keys without the values of parameters.
    if parameter_count(statement.source) or statement.target.queries:
        return False
    is_rows = not statement.source.startswith("(") or text.startswith("VALUES")
    source = f"{db_schema}.{statement.source}".lower()
    is_of_system = SYSTEM in source or INFORMATION_SCHEMA in source
    return is_rows and not is_of_system and not any(chain(unsteady(statement.source), unsteady(statement.on)))


def _keys(plan: LogicalPlan, alias: str) -> Iterator[tuple[str, Any]]:
    """Yield the columns of the target that a join compares, with the expressions they are compared to."""
    node = plan.to_variant()
    # Where NULL matches NULL the values that are not NULL say too little.
    if type(node).__name__ == "Join" and not node.null_equals_null():
        for pair in node.on():
            for mine, theirs in (pair, pair[::-1]):
                if mine.variant_name() == "Column" and mine.to_variant().relation() == alias:
                    yield mine.to_variant().name(), theirs
    for child in plan.inputs():
        yield from _keys(child, alias)


def _key_values(session: QuerySession, source: DataFrame, key: Any) -> pa.Array | None:
    """Return the distinct values of a key; None if there are too many, or none at all."""
    keys = source.select(Expr(key).alias("key"))
    session.prepare(keys)
    values = few_keys(session, keys)
    return values if values is not None and len(values) else None
