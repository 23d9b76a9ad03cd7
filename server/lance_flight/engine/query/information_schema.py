"""Schema `information_schema` of the SQL standard: what a principal may see of the root, computed when it is read.

Its tables are in no list of tables. Those that tell of columns and keys read the schema of each table that the filter of the
query leaves, never its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.roots.listings import ViewDefinition
from lance_flight.catalog.storage.retries import looking_since
from lance_flight.engine.functions.routines import routines
from lance_flight.engine.query.access import Access
from lance_flight.engine.query.tables.provider import ComputedColumn, ComputedTable, RowTable
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import CATALOG
from lance_flight.engine.translation.plan_messages import sql_types
from lance_flight.errors import Corrupt, NewerFormat, NotFound, Unsupported
from lance_flight.model.schema import NamespaceSchema, primary_key_name
from lance_flight.model.type_names import (
    column_type_name,
    datetime_precision,
    numeric_precision,
    numeric_radix,
    numeric_scale,
)
from lance_flight.planning.arrow_expression import columns_of, predicate_from_arrow, row_filter
from lance_flight.planning.predicates import Predicate, all_of, conjuncts

INFORMATION_SCHEMA = "information_schema"
BASE_TABLE, LOCAL_TEMPORARY, VIEW = "BASE TABLE", "LOCAL TEMPORARY", "VIEW"
PRIMARY_KEY = "PRIMARY KEY"

_TEXT, _NUMBER = pa.utf8(), pa.int64()
_NAMES = ("table_schema", "table_name")
_NO_COLUMNS = NamespaceSchema.assign(pa.schema([]))


@dataclass(frozen=True, slots=True, kw_only=True)
class InformationSchema:
    """Tables of `information_schema` as one statement sees the root; `check` ends the listing of a cancelled one.

    `condition` restricts the listed tables, by `table_schema` and `table_name`.
    """

    root: Root
    tables: Root | SqlTransaction
    access: Access
    check: Callable[[], None]
    condition: pc.Expression | None = None

    def table(self, name: str) -> ComputedTable | None:
        """Return the table of a name; None if there is none."""
        row_table = _TABLES.get(name)
        return None if row_table is None else row_table.of(self, self.narrow)

    def narrow(self, filter: pc.Expression) -> InformationSchema:
        """Return the same tables, of those alone that a filter on their columns leaves by the names of tables."""
        names = [part for part in conjuncts(predicate_from_arrow(filter)) if _is_of_names(part)]
        return replace(self, condition=row_filter(all_of(names)).rest) if names else self

    def schemas(self) -> Iterator[str]:
        """Yield the visible SQL schemas."""
        yield from self.root.schemas()

    def list_tables(self) -> Iterator[_Table]:
        """Yield the visible tables and views, by name."""
        with looking_since():
            kinds = self.tables.kinds()
            views = {view.name: view for view in self.root.views() if view.name not in kinds}
        for name in self._fitting(sorted([*kinds, *views])):
            self.check()
            yield _Table(self, name, is_partitioned=kinds.get(name, False), view=views.get(name))

    def views(self) -> Iterator[_Table]:
        """Yield the visible views."""
        return (table for table in self.list_tables() if table.view is not None)

    def columns(self) -> Iterator[_Column]:
        """Yield the columns of the visible tables."""
        for table in self.list_tables():
            schema = table.schema()
            for place, field in enumerate(schema.plain):
                yield _Column(table, schema, place + 1, field)

    def keys(self) -> Iterator[_Table]:
        """Yield the visible tables that have a primary key."""
        return (table for table in self.list_tables() if table.schema().primary_key)

    def key_columns(self) -> Iterator[_Column]:
        """Yield the columns of the primary keys of the visible tables, each with its place in the key."""
        for table in self.list_tables():
            schema = table.schema()
            for place, name in enumerate(schema.primary_key):
                yield _Column(table, schema, place + 1, schema.plain.field(name))

    def routines(self) -> Iterator[Mapping[str, Any]]:
        """Yield the SQL functions, one row for each signature."""
        yield from routines()

    def schema_of(self, name: TableName) -> NamespaceSchema:
        """Return the columns of a table that the principal may know of; none of one that was dropped meanwhile, or whose own use says why it cannot be read."""
        try:
            with looking_since():
                schema: NamespaceSchema = self.tables.read(name, lambda table: table.snapshot().schema)
                return self.access.visible_schema(schema, self.root.governing_table(name))
        except (NotFound, Corrupt, NewerFormat):
            return _NO_COLUMNS

    def _fitting(self, names: list[TableName]) -> list[TableName]:
        if self.condition is None:
            return names
        columns = [[name.db_schema for name in names], [name.name for name in names]]
        listed = pa.record_batch(
            [*(pa.array(column, _TEXT) for column in columns), pa.array(range(len(names)))], [*_NAMES, "place"]
        )
        return [names[place] for place in listed.filter(self.condition)["place"].to_pylist()]


@dataclass(frozen=True, slots=True)
class _Table:
    of: InformationSchema
    name: TableName
    is_partitioned: bool
    view: ViewDefinition | None = None

    @property
    def kind(self) -> str:
        """Return the type of the table, in the words of the SQL standard."""
        if self.view is not None:
            return VIEW
        return LOCAL_TEMPORARY if self.of.root.is_temporary(self.name) else BASE_TABLE

    def schema(self) -> NamespaceSchema:
        """Read the columns of the table."""
        if self.view is not None:
            return NamespaceSchema.assign(self.view.columns)
        return self.of.schema_of(self.name)


@dataclass(frozen=True, slots=True)
class _Column:
    table: _Table
    schema: NamespaceSchema
    place: int
    field: pa.Field

    @property
    def default(self) -> str | None:
        """Return the default value as text; None without one."""
        return self.schema.shown_defaults.get(self.field.name)


def _is_of_names(predicate: Predicate) -> bool:
    """Return whether a predicate is about the schema and the name of a table alone."""
    try:
        return set(columns_of(predicate)) <= set(_NAMES)
    except Unsupported:
        return False


def _text(name: str, value: Callable[[Any], object], *, is_nullable: bool = False) -> ComputedColumn[Any]:
    return ComputedColumn(name, _TEXT, value, is_nullable)


def _number(name: str, value: Callable[[Any], object], *, is_nullable: bool = True) -> ComputedColumn[Any]:
    return ComputedColumn(name, _NUMBER, value, is_nullable)


def _nothing(name: str, kind: pa.DataType = _TEXT) -> ComputedColumn[Any]:
    """Return a column of the standard that has no value here."""
    return ComputedColumn(name, kind, lambda _: None, is_nullable=True)


def _yes(value: object) -> str:
    return "YES" if value else "NO"


def _names_of(table: Callable[[Any], _Table], prefix: str = "table") -> tuple[ComputedColumn[Any], ...]:
    return (
        _text(f"{prefix}_catalog", lambda _: CATALOG),
        _text(f"{prefix}_schema", lambda subject: table(subject).name.db_schema),
    )


def _name_filter(table: Callable[[Any], _Table]) -> tuple[ComputedColumn[Any], ...]:
    return (*_names_of(table), _text("table_name", lambda subject: table(subject).name.name))


def _constraint(table: Callable[[Any], _Table]) -> tuple[ComputedColumn[Any], ...]:
    name = _text("constraint_name", lambda subject: primary_key_name(table(subject).name.name))
    return (*_names_of(table, "constraint"), name, *_name_filter(table))


def _itself(table: _Table) -> _Table:
    return table


def _of_column(column: _Column) -> _Table:
    return column.table


_SCHEMATA: RowTable[InformationSchema, str] = RowTable(
    InformationSchema.schemas,
    (
        _text("catalog_name", lambda _: CATALOG),
        _text("schema_name", lambda name: name),
        _nothing("schema_owner"),
        _nothing("default_character_set_catalog"),
        _nothing("default_character_set_schema"),
        _nothing("default_character_set_name"),
        _nothing("sql_path"),
    ),
)
_LISTED: RowTable[InformationSchema, _Table] = RowTable(
    InformationSchema.list_tables,
    (
        *_name_filter(_itself),
        _text("table_type", lambda table: table.kind),
        _text("is_insertable_into", lambda table: _yes(table.view is None)),
        _text("table_comment", lambda table: table.schema().comment, is_nullable=True),
        ComputedColumn("partitioned", pa.bool_(), lambda table: table.is_partitioned),
    ),
)
_COLUMNS: RowTable[InformationSchema, _Column] = RowTable(
    InformationSchema.columns,
    (
        *_name_filter(_of_column),
        _text("column_name", lambda column: column.field.name),
        _number("ordinal_position", lambda column: column.place, is_nullable=False),
        _text("column_default", lambda column: column.default, is_nullable=True),
        _text("is_nullable", lambda column: _yes(column.field.nullable)),
        _text("data_type", lambda column: column_type_name(column.schema.arrow.field(column.field.name))),
        _nothing("character_maximum_length", _NUMBER),
        _nothing("character_octet_length", _NUMBER),
        _number("numeric_precision", lambda column: numeric_precision(column.field.type)),
        _number("numeric_precision_radix", lambda column: numeric_radix(column.field.type)),
        _number("numeric_scale", lambda column: numeric_scale(column.field.type)),
        _number("datetime_precision", lambda column: datetime_precision(column.field.type)),
        _text("column_comment", lambda column: column.schema.comments.get(column.field.name), is_nullable=True),
    ),
)
_VIEWS: RowTable[InformationSchema, _Table] = RowTable(
    InformationSchema.views,
    (
        *_name_filter(_itself),
        _text("view_definition", lambda table: table.view.sql),
        _text("check_option", lambda _: "NONE"),
        _text("is_updatable", lambda _: _yes(value=False)),
        _text("is_insertable_into", lambda _: _yes(value=False)),
    ),
)
_CONSTRAINTS: RowTable[InformationSchema, _Table] = RowTable(
    InformationSchema.keys,
    (
        *_constraint(_itself),
        _text("constraint_type", lambda _: PRIMARY_KEY),
        _text("is_deferrable", lambda _: _yes(value=False)),
        _text("initially_deferred", lambda _: _yes(value=False)),
        _text("enforced", lambda _: _yes(value=False)),
    ),
)
_KEY_COLUMNS: RowTable[InformationSchema, _Column] = RowTable(
    InformationSchema.key_columns,
    (
        *_constraint(_of_column),
        _text("column_name", lambda column: column.field.name),
        _number("ordinal_position", lambda column: column.place, is_nullable=False),
        _nothing("position_in_unique_constraint", _NUMBER),
    ),
)
_ROUTINES: RowTable[InformationSchema, Mapping[str, Any]] = RowTable(
    InformationSchema.routines,
    (
        _text("specific_catalog", lambda _: CATALOG),
        _text("specific_schema", lambda _: INFORMATION_SCHEMA),
        _text("specific_name", lambda routine: routine["specific_name"]),
        _text("routine_catalog", lambda _: CATALOG),
        _text("routine_schema", lambda _: INFORMATION_SCHEMA),
        _text("routine_name", lambda routine: routine["routine_name"]),
        _text("routine_type", lambda routine: routine["routine_type"]),
        _text("data_type", lambda routine: _sql_type(routine["data_type"]), is_nullable=True),
        _text("function_type", lambda routine: routine["function_type"], is_nullable=True),
        _text("is_deterministic", lambda routine: _yes(routine["is_deterministic"])),
        _text("description", lambda routine: routine["description"], is_nullable=True),
        _text("syntax_example", lambda routine: routine["syntax_example"], is_nullable=True),
    ),
)
_TABLES: Mapping[str, RowTable[InformationSchema, Any]] = MappingProxyType(
    {
        "schemata": _SCHEMATA,
        "tables": _LISTED,
        "columns": _COLUMNS,
        "views": _VIEWS,
        "table_constraints": _CONSTRAINTS,
        "key_column_usage": _KEY_COLUMNS,
        "routines": _ROUTINES,
    }
)


def _sql_type(name: str | None) -> str | None:
    return None if name is None else sql_types(name)
