"""Statements that return no rows: each is carried out once, by us, and says how many rows it affected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lance_flight.catalog import rows
from lance_flight.catalog.directory import Root
from lance_flight.engine import ingest
from lance_flight.engine.answers import table_name
from lance_flight.engine.definitions import arrow_schema, storable
from lance_flight.engine.functions import cast
from lance_flight.engine.session import Session
from lance_flight.engine.statements import ChangeStatement, CreateTable, DropTable, Insert
from lance_flight.errors import AlreadyExists, DataError, NotFound, SqlError
from lance_flight.model.transforms import is_string

NewSession = Callable[[], Session]
Bindings = Sequence[pa.RecordBatch | None]


def change(root: Root, statement: ChangeStatement, new_session: NewSession, bindings: Bindings) -> int:
    """Run a statement once for each of `bindings` (one row of parameters, or None); the number of affected rows."""
    match statement:
        case Insert():
            return _insert(root, statement, new_session, bindings)
        case CreateTable():
            return sum(_create(root, statement, new_session, binding) for binding in bindings)
        case DropTable():
            return sum(_drop(root, statement) for _ in bindings)


def insert_columns(root: Root, statement: Insert) -> pa.Schema:
    """The target columns of an INSERT in their order; an unknown one, or a missing NOT NULL one, is named."""
    schema = root.read(table_name(statement.table), ingest.schema_of)
    if statement.columns is None:
        return schema
    for name in statement.columns:
        if name not in schema.names:
            raise NotFound.named("column", name, schema.names)
    listed = pa.schema([schema.field(name) for name in statement.columns])
    rows.fit(listed, schema, what=f"INSERT INTO {statement.table.name}")
    return listed


def _insert(root: Root, statement: Insert, new_session: NewSession, bindings: Bindings) -> int:
    """The rows of all bindings in one commit."""
    target = insert_columns(root, statement)

    def data() -> Iterator[pa.Table]:
        for binding in bindings:
            session = new_session()
            frame = session.frame(statement.query, binding)
            source = storable(frame.schema())
            if len(source) != len(target):
                raise SqlError(
                    f"INSERT INTO {statement.table.name} has {len(source)} values for {len(target)} columns"  # noqa: S608 - a message
                    f" ({', '.join(target.names)})"
                )
            session.prepare(frame)
            for batch in session.batches(frame, source):
                yield _assigned(pa.Table.from_arrays(batch.columns, names=target.names), target)

    return ingest.append(root.table(table_name(statement.table)), data())


def _assigned(table: pa.Table, target: pa.Schema) -> pa.Table:
    """The rows of an INSERT as SQL assigns them: text is read as a literal, numbers are rounded; the rest has to fit."""
    for place, field in enumerate(target):
        column = table.column(place)
        if is_string(column.type) and not is_string(field.type):
            try:
                table = table.set_column(place, field.name, cast(column.combine_chunks(), field.type))
            except SqlError as exc:
                raise DataError(f"column {field.name!r} ({field.type}) cannot be read from text: {exc}") from exc
    return rows.rounded(table, target)


def _create(root: Root, statement: CreateTable, new_session: NewSession, binding: pa.RecordBatch | None) -> int:
    name = table_name(statement.table)
    if root.has(name):
        if statement.if_not_exists:
            return 0
        raise AlreadyExists(f"table {name.name!r} is there already")
    try:
        return _created(root, statement, new_session, binding)
    except AlreadyExists:
        # Somebody else was faster; a name without a table is another matter.
        if statement.if_not_exists and root.has(name):
            return 0
        raise


def _created(root: Root, statement: CreateTable, new_session: NewSession, binding: pa.RecordBatch | None) -> int:
    name = table_name(statement.table)
    if statement.query is None:
        return ingest.create(root, name, arrow_schema(statement.columns), statement.partitioned_by, ())
    session = new_session()
    frame = session.frame(statement.query, binding)
    schema = storable(frame.schema())
    session.prepare(frame)
    data = (pa.Table.from_batches([batch]) for batch in session.batches(frame, schema))
    return ingest.create(root, name, schema, statement.partitioned_by, data)


def _drop(root: Root, statement: DropTable) -> int:
    name = table_name(statement.table)
    if not (statement.if_exists and not root.has(name)):
        root.drop(name)
    return 0
