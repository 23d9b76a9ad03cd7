"""ALTER TABLE … COLUMN carried out: what it says in SQL, as a change of the namespace schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from lance_flight.catalog.directory import Root, TableName
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.new_columns import Computed, SchemaStep
from lance_flight.catalog.schema_evolution import SchemaEvolution
from lance_flight.catalog.snapshot import Snapshot
from lance_flight.catalog.store import unstorable
from lance_flight.engine import alterations
from lance_flight.engine.alterations import OfColumn, SetType
from lance_flight.engine.definitions import arrow_type
from lance_flight.engine.functions import check_expression, compute, evaluate, unsteady
from lance_flight.engine.session import Session
from lance_flight.engine.tokens import tokenize
from lance_flight.errors import DataError, SchemaError, SpecError, SqlError, Unsupported
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.schema_changes import (
    AddColumn,
    DropColumn,
    Path,
    RenameColumn,
    SchemaChange,
    SetNullable,
    WidenColumn,
    changed,
    dotted,
)
from lance_flight.model.spec import Expression

_PROBES = 2
_ONE_ROW = pa.record_batch({"nothing": pa.nulls(1, pa.int8())})


def alter_column(root: Root, name: TableName, table: PartitionedNamespace, alteration: OfColumn) -> None:
    """Change the columns of a partitioned table, in one commit for all its partitions."""
    change, text = _change(alteration), _said(alteration)
    expression = alteration.expression if isinstance(alteration, alterations.AddColumn) else None

    def decide(snapshot: Snapshot) -> tuple[SchemaStep, str]:
        after = changed(snapshot.schema, change)
        _check_storable(after)
        _check_expressions(snapshot, after)
        _check_rows(root, name, snapshot, change, is_computed=expression is not None)
        return SchemaStep(
            before=snapshot.schema, after=after, computed=_computed(snapshot.schema, after, change, expression)
        ), text

    table.evolve(SchemaEvolution(table.store, decide))


def _change(alteration: OfColumn) -> SchemaChange:
    match alteration:
        case alterations.AddColumn(path=path, type=text, nullable=nullable, default=default):
            kind = arrow_type(text)
            return AddColumn(path=path, type=kind, nullable=nullable, default=_default(path, kind, default))
        case SetType(path, text):
            return WidenColumn(path, arrow_type(text))
        case DropColumn() | RenameColumn() | SetNullable():
            return alteration


def _said(alteration: OfColumn) -> str:
    path = dotted(alteration.path)
    match alteration:
        case alterations.AddColumn():
            return f"add column {path}"
        case DropColumn():
            return f"drop column {path}"
        case RenameColumn(name=to):
            return f"rename column {path} to {to}"
        case SetType(type=kind):
            return f"alter column {path} type {kind}"
        case SetNullable(nullable=nullable):
            return f"alter column {path} {'drop' if nullable else 'set'} not null"


def _default(path: Path, kind: pa.DataType, text: str | None) -> str | None:
    """A default as the schema keeps it: text that casts to the very value."""
    if text is None:
        return None
    if len(path) > 1:
        raise Unsupported(f"column {dotted(path)!r} is inside another one and can have no default")
    _check_steady(f"the default of {dotted(path)!r}", text)
    value = compute(text, _ONE_ROW, kind)[0]
    try:
        kept = str(value.cast(pa.utf8()))
        same = value.is_valid and pa.scalar(kept).cast(kind).equals(value)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        same = False
    if not same:
        raise Unsupported(f"the default {text} of column {dotted(path)!r} ({kind}) cannot be kept as text")
    return kept


def _computed(
    before: NamespaceSchema, after: NamespaceSchema, change: SchemaChange, expression: str | None
) -> dict[int, Computed]:
    """How the values of the new column are made, where it has any."""
    if not isinstance(change, AddColumn):
        return {}
    if expression is None:
        default = after.defaults.get(change.path[0]) if len(change.path) == 1 else None
        return (
            {}
            if default is None
            else {after.ids[change.path[0]]: Computed((), lambda _, rows: pa.repeat(default, rows))}
        )
    if len(change.path) > 1:
        raise Unsupported(f"column {dotted(change.path)!r} is inside another one and cannot be computed")
    words = {token.text for token in tokenize(expression)} | {token.text.lower() for token in tokenize(expression)}
    names = [name for name in before.ids if name in words]
    _check_steady(f"the expression of {dotted(change.path)!r}", expression)
    # Whatever else is wrong with the expression shows before a row is read.
    probe = _evaluated(
        expression, names, change, [pa.nulls(_PROBES, before.arrow.field(n).type) for n in names], _PROBES
    )
    if len(probe) != _PROBES:
        raise SchemaError(
            "column", [f"the expression of {dotted(change.path)!r} is an aggregate; expected a value for each row"]
        )
    values = partial(_values, expression, names, change)
    return {after.ids[change.path[0]]: Computed(tuple(before.ids[name] for name in names), values)}


def _values(
    expression: str, names: Sequence[str], column: AddColumn, values: Sequence[pa.Array], rows: int
) -> pa.Array:
    found = _evaluated(expression, names, column, values, rows)
    if not column.nullable and found.null_count:
        raise DataError(f"column {dotted(column.path)!r} is NOT NULL and its expression gives NULL")
    return found


def _evaluated(
    expression: str, names: Sequence[str], column: AddColumn, values: Sequence[pa.Array], rows: int
) -> pa.Array:
    known = dict(zip(names, values, strict=True)) or {"nothing": pa.nulls(rows, pa.int8())}
    return compute(expression, pa.record_batch(known), column.type)


def _check_steady(what: str, expression: str) -> None:
    problems = list(unsteady(expression))
    if problems:
        raise SchemaError("column", [f"{what}: {problem}" for problem in problems])


def _check_storable(schema: NamespaceSchema) -> None:
    problems = unstorable(schema.plain)
    if problems:
        raise SchemaError("schema", problems)


def _check_expressions(snapshot: Snapshot, after: NamespaceSchema) -> None:
    """A custom partition expression must give the same values over columns of the new types, and one where they are gone."""
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
                raise SpecError("partition specs", [f"v{spec.id}, field {field.field_id!r}: {exc}"]) from exc


def _check_rows(root: Root, name: TableName, snapshot: Snapshot, change: SchemaChange, *, is_computed: bool) -> None:
    """Refuse NOT NULL where rows have NULL, or would have it."""
    match change:
        case SetNullable(path=path, nullable=False):
            conditions = _nulls(snapshot.schema, path)
        case AddColumn(path=path, nullable=False, default=None) if not is_computed:
            conditions = "TRUE"
        case _:
            return
    count = _count(root, name, snapshot, conditions)
    if count:
        raise DataError(f"column {dotted(path)!r} cannot be NOT NULL: it is NULL in {count} rows of {name.name!r}")


def _nulls(schema: NamespaceSchema, path: Path) -> str:
    """Where a column is NULL and what it is inside is not."""
    places = list(_places(path))
    kinds = {known: field.type for known, field in schema.paths.values()}
    inside = [dotted(path[:depth]) for depth in range(1, len(path))]
    if not all(pa.types.is_struct(kinds.get(above, pa.null())) for above in inside):
        raise Unsupported(f"column {dotted(path)!r} is inside a list or map, where NULL cannot be looked for")
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
    session = Session(root, ways=2)
    table, schema = (text.replace('"', '""') for text in (f"{name.name}@{snapshot.version}", name.db_schema))
    frame = session.frame(f'SELECT count(*) AS rows FROM "{schema}"."{table}" WHERE {condition}')  # noqa: S608 - quoted
    session.prepare(frame)
    return sum(int(batch.column(0)[0].as_py()) for batch in session.batches(frame, frame.schema()))
