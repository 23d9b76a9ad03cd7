"""Changes of columns: translates them from SQL to changes of the namespace schema, and executes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import BY_THREADS, PieceWork
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.schema_evolution import (
    INSTEAD,
    Computed,
    PlannedEvolution,
    SchemaEvolution,
    SchemaStep,
)
from lance_flight.catalog.storage.formats import unstorable_in
from lance_flight.catalog.storage.store import unstorable
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import StatementContext
from lance_flight.engine.translation.evaluation import check_expression, evaluate
from lance_flight.engine.writes.computed_columns import (
    PythonFunction,
    SqlExpression,
    Values,
    read_computation,
    stored_default,
    type_of,
)
from lance_flight.engine.writes.definitions import arrow_type, column_type
from lance_flight.errors import DataError, InvalidInput, SchemaError, SpecError, SqlError, Unsupported
from lance_flight.model.schema import COMMENT, NamespaceSchema
from lance_flight.model.schema_changes import (
    AddColumn,
    Annotation,
    DropColumn,
    Path,
    SchemaChange,
    SetDefault,
    SetNullable,
    WidenColumn,
    apply_changes,
    check_kept_key,
    encoded_comment,
    midway,
    show_path,
)
from lance_flight.model.spec import Expression


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change of a column, with the expression or function that computes a new one.

    One that `is_optional` adds no column that is there, and removes none that is not.
    """

    change: SchemaChange
    values: Values | None = None
    is_optional: bool = False

    def is_needed(self, schema: NamespaceSchema) -> bool:
        """Return whether the change is made to columns as these."""
        match self.change:
            case AddColumn(path=path) if self.is_optional:
                return not _has(schema, path)
            case DropColumn(path=path) if self.is_optional:
                return _has(schema, path)
        return True


def _has(schema: NamespaceSchema, path: Path) -> bool:
    return any(known == show_path(path) for known, _ in schema.paths.values())


def annotate(table: Table, change: Annotation, *, operation: str) -> None:
    """Change what a table's schema says of its columns, in one commit that writes no data; the history records `operation`."""

    def decide(snapshot: Snapshot) -> tuple[SchemaStep, str]:
        return SchemaStep(before=snapshot.schema, after=change(snapshot.schema)), operation

    table.evolve(SchemaEvolution(table.store, decide))


def added_column(
    path: Path, text: str, *, nullable: bool, default: str | None, comment: str | None = None
) -> AddColumn:
    """Build a new column from SQL texts of its type and of the default for rows without a value."""
    kind, marks = column_type(text)
    encoded = encoded_comment(comment)
    if encoded is not None and len(path) > 1:
        raise Unsupported(f"column {show_path(path)!r} is inside another one and can have no comment")
    return AddColumn(
        path=path,
        type=kind,
        nullable=nullable,
        default=stored_default(path, kind, default),
        marks=marks if encoded is None else {**marks, COMMENT: encoded},
    )


def changed_default(path: Path, value: str | None) -> SetDefault:
    """Build the change of a column's default to a value, given as SQL text; None removes the default."""
    if value is None:
        return SetDefault(path, None)

    def stored(field: pa.Field) -> str:
        text = stored_default(path, field.type, value)
        if text is None:
            raise AssertionError(value)
        return text

    return SetDefault(path, stored)


def widened_column(path: Path, text: str) -> WidenColumn:
    """Build the change of a column to another type, given as SQL text."""
    return WidenColumn(path, arrow_type(text))


def backfill(
    root: Root,
    name: TableName,
    column: str,
    values: Values,
    kind: pa.DataType | None = None,
    *,
    work: PieceWork = BY_THREADS,
) -> int:
    """Add a column with computed values to a table, in one commit, and return the version that has it.

    `kind` is its type; an expression has one by itself. `work` is how the values are computed.
    """
    table = root.table(name)
    if kind is None and isinstance(values, PythonFunction):
        raise InvalidInput(f"column {column!r} is computed by a function; expected its type")
    value_type = (
        type_of(values, table.snapshot().schema) if kind is None and isinstance(values, SqlExpression) else kind
    )
    change = ColumnChange(AddColumn(path=(column,), type=value_type), values)
    changing = ColumnChanges(root, name, (change,), f"add column {column}")
    return table.evolve(SchemaEvolution(table.store, changing, work))


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """Changes of columns, to be applied to a snapshot (`schema_evolution.Decide`); `said` is their name in the table's history."""

    root: Root
    name: TableName
    changes: tuple[ColumnChange, ...]
    said: str

    def plan(self, table: PartitionedNamespace, snapshot: Snapshot) -> PlannedEvolution | None:
        """Stage the changes on a snapshot, to be committed with rows; None for those that are committed before (`PlannedEvolution.plan`)."""
        return PlannedEvolution.plan(table.store, table.with_free_ids(snapshot), self)

    def __call__(self, snapshot: Snapshot) -> tuple[SchemaStep, str]:
        before = snapshot.schema
        changes = _needed(before, self.changes)
        after = apply_changes(before, *(change.change for change in changes))
        check_kept_key(before, after)
        _check_storable(after, snapshot.file_version)
        _check_expressions(snapshot, after)
        made: dict[int, Computed] = {}
        now = before
        for change in changes:
            _check_rows(self.root, self.name, snapshot, now, change)
            now = midway(now, change.change)
            if isinstance(change.change, AddColumn):
                # Expressions are over the columns that there are before the statement.
                made |= read_computation(before, now, change.change, change.values)
        return SchemaStep(before=before, after=after, computed=made), self.said


def _needed(before: NamespaceSchema, changes: Iterable[ColumnChange]) -> list[ColumnChange]:
    """Return the changes that are made to columns, one after the other, without the optional ones that change nothing."""
    now, needed = before, list[ColumnChange]()
    for change in changes:
        if change.is_needed(now):
            needed.append(change)
            now = midway(now, change.change)
    return needed


def _check_storable(schema: NamespaceSchema, file_version: str) -> None:
    problems = [*unstorable(schema.plain), *unstorable_in(schema.arrow, file_version)]
    if problems:
        raise SchemaError("schema", problems)


def _check_expressions(snapshot: Snapshot, after: NamespaceSchema) -> None:
    """Check that custom partition expressions give the same values for the new types, and some value where columns are dropped."""
    for spec in snapshot.specs:
        for field in spec.fields:
            types = field.source_types(after)
            if not isinstance(field.rule, Expression) or types == field.source_types(snapshot.schema):
                continue
            try:
                if pa.null() in types:
                    evaluate(field.rule.sql, [pa.nulls(1, kind) for kind in types], field.result_type)
                else:
                    check_expression(field.rule.sql, types, field.result_type)
            except (SpecError, SqlError) as exc:
                instead = "" if pa.null() in types else f"; {INSTEAD}"
                raise SpecError("partition specs", [f"v{spec.id}, field {field.field_id!r}: {exc}{instead}"]) from exc


def _check_rows(root: Root, name: TableName, snapshot: Snapshot, now: NamespaceSchema, column: ColumnChange) -> None:
    """Refuse NOT NULL if rows have NULL, or would have it; `now` are the columns after the earlier changes."""
    match column.change:
        case SetNullable(path=path, nullable=False):
            numbers = {known: number for number, (known, _) in now.paths.items()}
            conditions = _nulls(snapshot.schema, path, numbers[show_path(path)])
        case AddColumn(path=path, nullable=False, default=None) if column.values is None:
            conditions = "TRUE"
        case _:
            return
    count = _count(root, name, snapshot, conditions)
    if count:
        raise DataError(f"column {show_path(path)!r} cannot be NOT NULL: it is NULL in {count} rows of {name.name!r}")
    if isinstance(column.change, SetNullable) and snapshot.schema.is_numbered_by_lance:
        # No manifest says so, and Lance does not without writing the column anew.
        raise Unsupported(
            f"column {show_path(path)!r} of the plain table {name.name!r} cannot become NOT NULL; expected it in CREATE TABLE"
        )


def _nulls(schema: NamespaceSchema, path: Path, number: int) -> str:
    """Return the condition that a nested field is NULL and the struct around it is not; `path` is what it is called now."""
    source = schema.source_paths.get(number)
    if source is None:
        raise Unsupported(f"column {show_path(path)!r} is inside a list or map, where NULL cannot be looked for")
    places = list(_places(source))
    return " AND ".join([f"{places[-1]} IS NULL", *(f"{above} IS NOT NULL" for above in places[:-1])])


def _places(path: Path) -> Iterator[str]:
    quoted = path[0].replace('"', '""')
    place = f'"{quoted}"'
    yield place
    for name in path[1:]:
        escaped = name.replace("'", "''")
        place = f"{place}['{escaped}']"
        yield place


def _count(root: Root, name: TableName, snapshot: Snapshot, condition: str) -> int:
    session = QuerySession(StatementContext(root=root, target_partitions=2))
    table, schema = (text.replace('"', '""') for text in (f"{name.name}@{snapshot.version}", name.db_schema))
    frame = session.frame(f'SELECT count(*) AS rows FROM "{schema}"."{table}" WHERE {condition}')  # noqa: S608 - quoted
    session.prepare(frame)
    return sum(int(batch.column(0)[0].as_py()) for batch in session.batches(frame, frame.schema()))
