"""Queries that find the rows of an UPDATE, a DELETE or a MERGE, and compute their new values.

Each reads the target under the name `t$rows`, which has the address of every row beside its columns. What comes back
are batches of `RowChanges`: addresses of rows that go, and rows that come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.tables.lineage import ROW_ORIGIN, with_origin
from lance_flight.catalog.tables.scan import ADDRESS_NAMES
from lance_flight.engine.query.named_tables import TARGET_ROWS
from lance_flight.engine.sql.references import enclosed, quoted
from lance_flight.engine.sql.result_parameters import column_name, column_types, equal_columns, result_types
from lance_flight.engine.writes.row_changes import Assignment, Matched, MergeClause, Merging, Target
from lance_flight.errors import NotFound, SqlError

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

    `inserted` of the new rows replace no row; the rest may have `ORIGIN_FIELDS`.
    """

    gone: pa.Table
    come: tuple[pa.Table, ...] = ()
    inserted: int = 0


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Query over the target's rows, and the translation of its batches to changes.

    `parameter_types` are those of the target's columns that parameters are written to, or matched with.
    """

    sql: str
    read: Callable[[pa.RecordBatch], RowChanges]
    parameter_types: Mapping[str, pa.DataType] = field(default_factory=dict)


def delete_query(target: Target, where: str | None, db_schema: str) -> RowQuery:
    """Build the query for the addresses of the rows that a DELETE removes."""
    columns = ", ".join(_of(target.alias, ADDRESS_NAMES))
    sql = f"SELECT {columns} FROM {_from(target, db_schema)}{_where(where)}"  # noqa: S608 - quoted
    return RowQuery(sql, lambda batch: RowChanges(pa.Table.from_batches([batch])))


def update_query(
    target: Target,
    assignments: Sequence[Assignment],
    where: str | None,
    db_schema: str,
    schema: pa.Schema,
    *,
    keeps_ids: bool,
) -> RowQuery:
    """Build the query for the addresses and the new values of the rows that an UPDATE changes, with their ids if they keep them."""
    values = _values(assignments, target.alias, schema)
    columns = ", ".join([*_of(target.alias, _address_names(keeps_ids=keeps_ids)), *_with_prefix(values, "v")])
    sql = f"SELECT {columns} FROM {_from(target, db_schema)}{_where(where)}"  # noqa: S608 - quoted

    def read(batch: pa.RecordBatch) -> RowChanges:
        rows = pa.Table.from_batches([batch])
        come = rows.select(rows.column_names[-len(schema) :]).rename_columns(schema.names)
        return RowChanges(rows.select(list(ADDRESS_NAMES)), (with_origin(come, rows) if keeps_ids else come,))

    return RowQuery(sql, read, _assigned_types(assignments, schema))


def merge_query(
    statement: Merging, db_schema: str, schema: pa.Schema, source: pa.Schema, *, keeps_ids: bool
) -> RowQuery:
    """Build the query for the pairs of rows that a MERGE changes: the number of the clause, the target's address (and id), and the new row.

    Each clause has columns of its own for what it assigns, so that no type is bent to that of another clause.
    """
    alias = statement.target.alias
    clauses = [_resolve(clause, statement.source_alias, schema, source) for clause in statement.clauses]
    action = _action(statement, clauses)
    old = [f"{column} AS {quoted(f'o{place}')}" for place, column in enumerate(_of(alias, schema.names))]
    new = [
        f"CASE WHEN {action} = {number} THEN {enclosed(assignment.expression)} END AS {quoted(f'c{number}_{place}')}"
        for number, clause in enumerate(clauses)
        for place, assignment in enumerate(clause.assignments or ())
    ]
    matters = {clause.matched for clause in clauses}
    join = _JOINS[Matched.SOURCE_ONLY in matters, Matched.TARGET_ONLY in matters]
    columns = ", ".join(
        [f"{action} AS {quoted(_ACTION)}", *_of(alias, _address_names(keeps_ids=keeps_ids)), *old, *new]
    )
    origin = f"(SELECT *, TRUE AS {quoted(_IN_SOURCE)} FROM {_relation(statement)}) AS {quoted(statement.source_alias)}"  # noqa: S608 - quoted
    sql = (
        # No query in FROM: the parser tells nothing of what is wrong inside one.
        f"WITH {quoted(_PAIRS)} AS (SELECT {columns} FROM {_from(statement.target, db_schema)} {join} JOIN {origin}"  # noqa: S608 - quoted
        f" ON {enclosed(statement.on)}) SELECT * FROM {quoted(_PAIRS)} WHERE {quoted(_ACTION)} IS NOT NULL"
    )
    return RowQuery(
        sql,
        lambda batch: _read_merge(pa.Table.from_batches([batch]), clauses, schema, keeps_ids=keeps_ids),
        _merged_types(statement, clauses, schema, source),
    )


def _read_merge(batch: pa.Table, clauses: Sequence[MergeClause], schema: pa.Schema, *, keeps_ids: bool) -> RowChanges:
    gone = batch.select(list(ADDRESS_NAMES))
    come, inserted = [], 0
    for number, clause in enumerate(clauses):
        if clause.assignments is None:
            continue
        mine = batch.filter(pc.equal(batch[_ACTION], number))
        assigned = {a.column: f"c{number}_{place}" for place, a in enumerate(clause.assignments)}
        is_new = clause.matched is Matched.SOURCE_ONLY
        names = [assigned.get(name, None if is_new else f"o{place}") for place, name in enumerate(schema.names)]
        columns = {name: mine[held] for name, held in zip(schema.names, names, strict=True) if held is not None}
        if mine.num_rows:
            rows = pa.table(columns)
            come.append(with_origin(rows, mine) if keeps_ids else rows)
            inserted += mine.num_rows * is_new
    return RowChanges(gone.filter(pc.is_valid(gone.column(1))), tuple(come), inserted)


def _action(statement: Merging, clauses: Sequence[MergeClause]) -> str:
    """Build the CASE that gives the number of the first clause that applies to a pair of rows; NULL if none does."""
    in_target = f"{_of(statement.target.alias, ADDRESS_NAMES)[1]} IS NOT NULL"
    in_source = f"{quoted(statement.source_alias, _IN_SOURCE)} IS NOT NULL"
    applies = {
        Matched.BOTH: f"{in_target} AND {in_source}",
        Matched.SOURCE_ONLY: f"NOT ({in_target})",
        Matched.TARGET_ONLY: f"NOT ({in_source})",
    }
    whens = [
        f"WHEN {applies[clause.matched]}"
        + (f" AND {enclosed(clause.condition)}" if clause.condition else "")
        + f" THEN {number}"
        for number, clause in enumerate(clauses)
    ]
    return f"(CASE {' '.join(whens)} END)"


def _resolve(clause: MergeClause, source_alias: str, schema: pa.Schema, source: pa.Schema) -> MergeClause:
    """Return the clause with its `*` expanded, and its columns checked."""
    if clause.takes_all:
        taken = [Assignment(name, quoted(source_alias, name)) for name in schema.names if name in source.names]
        if not taken:
            raise SqlError(
                f"* takes nothing over: the source has the columns {', '.join(source.names)}, the table has"
                f" {', '.join(schema.names)}"
            )
        return MergeClause(matched=clause.matched, condition=clause.condition, assignments=tuple(taken))
    _check_known(clause.assignments or (), schema)
    return clause


def _relation(statement: Merging) -> str:
    columns = f" ({', '.join(map(quoted, statement.source_columns))})" if statement.source_columns else ""
    return f"{statement.source} AS {quoted(statement.source_alias)}{columns}"


def _values(assignments: Sequence[Assignment], alias: str, schema: pa.Schema) -> list[str]:
    """Return what each column of the target becomes."""
    _check_known(assignments, schema)
    assigned = {assignment.column: assignment.expression for assignment in assignments}
    return [enclosed(assigned[name]) if name in assigned else quoted(alias, name) for name in schema.names]


def _assigned_types(assignments: Iterable[Assignment], schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the parameters that are assigned to columns, with the types of these."""
    found: dict[str, pa.DataType] = {}
    for assignment in assignments:
        found.update(result_types(assignment.expression, schema.field(assignment.column).type))
    return found


def _merged_types(
    statement: Merging, clauses: Sequence[MergeClause], schema: pa.Schema, source: pa.Schema
) -> dict[str, pa.DataType]:
    """Return the parameters that a MERGE assigns to columns, or whose columns of the source it assigns or matches with some."""
    assignments = [assignment for clause in clauses for assignment in clause.assignments or ()]
    pairs = [*equal_columns(statement.on), *((column_name(each.expression), each.column) for each in assignments)]
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
    return [f"{value} AS {quoted(f'{prefix}{place}')}" for place, value in enumerate(values)]


def _of(alias: str, names: Sequence[str]) -> list[str]:
    return [quoted(alias, name) for name in names]


def _from(target: Target, db_schema: str) -> str:
    return (
        f"{quoted(target.table.db_schema or db_schema, f'{target.table.name}${TARGET_ROWS}')} AS {quoted(target.alias)}"
    )


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {enclosed(condition)}"


def source_query(statement: Merging) -> str:
    """Return the query for the source of a MERGE."""
    return f"SELECT * FROM {_relation(statement)}"  # noqa: S608 - the client's own text
