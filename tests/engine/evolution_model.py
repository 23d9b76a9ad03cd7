"""What a table is whose columns change: a schema and rows in Python, where every change is a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from datafusion import SessionContext
from lance_flight.engine.sql.functions import session_config

Path = tuple[str, ...]
Row = dict[str, Any]
KEY = "n"


@dataclass(frozen=True)
class Kind:
    """A type in SQL, values of it, their literals, what it can become, and partition fields over it."""

    sql: str
    type: pa.DataType
    values: Sequence[Any]
    wider: Sequence[str] = ()
    fields: Sequence[str] = ()

    def literal(self, value: Any) -> str:
        """A value in SQL."""
        if value is None:
            return "NULL"
        text = str(value).replace("'", "''") if not isinstance(value, datetime) else value.isoformat()
        return f"CAST('{text}' AS {self.sql})"


NUMBERS = ("{c}", "bucket(3, {c})", "truncate(10, {c})", "expr('col0 % 3', {c})")
MOMENTS = [datetime(1969, 12, 31, 23), datetime(2024, 2, 29, 12), datetime(2025, 1, 1)]
KINDS = {
    kind.sql: kind
    for kind in (
        Kind("SMALLINT", pa.int16(), [-17, 0, 3, 25], ("INT", "BIGINT"), NUMBERS),
        Kind("INT", pa.int32(), [-17, 0, 3, 25, 2**31 - 1], ("BIGINT",), NUMBERS),
        Kind("BIGINT", pa.int64(), [-17, 0, 3, 25, 2**40], (), NUMBERS),
        Kind("INT UNSIGNED", pa.uint32(), [0, 3, 25, 2**32 - 1], ("BIGINT", "BIGINT UNSIGNED"), NUMBERS[:3]),
        Kind("BIGINT UNSIGNED", pa.uint64(), [0, 3, 25], (), NUMBERS[:3]),
        Kind("FLOAT", pa.float32(), [-2.5, 0.0, 1.5], ("DOUBLE",), ("{c}", "bucket(2, {c})", "truncate(1, {c})")),
        Kind("DOUBLE", pa.float64(), [-2.5, 0.0, 1.5, 1e300], (), ("{c}", "bucket(2, {c})")),
        Kind(
            "DECIMAL(9, 2)", pa.decimal128(9, 2), [Decimal("-14.20"), Decimal("3.50")], ("DECIMAL(12, 2)",), NUMBERS[:3]
        ),
        Kind("DECIMAL(12, 2)", pa.decimal128(12, 2), [Decimal("-14.20"), Decimal("1234567890.50")], (), NUMBERS[:2]),
        Kind(
            "VARCHAR",
            pa.utf8(),
            ["", "a", "ab", "é'"],
            (),
            ("{c}", "bucket(4, {c})", "truncate(1, {c})", "expr('upper(col0)', {c})"),
        ),
        Kind("DATE", pa.date32(), [date(1960, 3, 1), date(2024, 2, 29)], (), ("{c}", "year({c})", "month({c})")),
        Kind("TIMESTAMP", pa.timestamp("us"), MOMENTS, (), ("{c}", "year({c})", "hour({c})")),
        Kind("BOOLEAN", pa.bool_(), [True, False], (), ("{c}",)),
    )
}
BY_TYPE = {kind.type: kind for kind in KINDS.values()}


@dataclass
class Model:
    """The table: its columns, its rows by their keys, and what columns hold where nothing is said of them."""

    schema: pa.Schema
    rows: dict[int, Row] = field(default_factory=dict)
    defaults: Row = field(default_factory=dict)

    def copy(self) -> Model:
        """The same, kept as it is now: rows are values."""
        return Model(self.schema, dict(self.rows), dict(self.defaults))

    @property
    def table(self) -> pa.Table:
        """The rows, by their keys."""
        rows = pa.RecordBatch.from_pylist([row for _, row in sorted(self.rows.items())], schema=self.schema)
        return pa.Table.from_arrays([_with_nulls(column) for column in rows.columns], schema=self.schema)

    def scalars(self, *, inside: bool = False) -> list[tuple[Path, Kind]]:
        """The columns of plain types but for the key; those inside others as well."""
        found = [(path, BY_TYPE[f.type]) for path, f in _walk(self.schema, ()) if f.type in BY_TYPE and path != (KEY,)]
        return found if inside else [(path, kind) for path, kind in found if len(path) == 1]

    def structs(self) -> list[tuple[Path, pa.StructType]]:
        """Every place where columns stand side by side."""
        nested = [(path, f.type) for path, f in _walk(self.schema, ()) if pa.types.is_struct(f.type)]
        return [((), pa.struct(list(self.schema))), *nested]

    def is_in_structs(self, path: Path) -> bool:
        """Whether all that a column is inside are structs."""
        kinds = {known: f.type for known, f in _walk(self.schema, ())}
        return all(pa.types.is_struct(kinds[path[:depth]]) for depth in range(1, len(path)))

    def is_null(self, row: Row, path: Path) -> bool:
        """Whether a column is NULL where what it is inside is not."""
        value: Any = row
        for name in path[:-1]:
            value = value[name]
            if value is None:
                return False
        return value[path[-1]] is None

    def missing(self, names: Sequence[str]) -> list[str]:
        """The columns that a row has to say more of than these."""
        return [f.name for f in self.schema if not f.nullable and f.name not in (*names, *self.defaults)]

    def put(self, row: Row) -> None:
        """Add a row; what it does not say has its default or is NULL."""
        self.rows[row[KEY]] = {name: row.get(name, self.defaults.get(name)) for name in self.schema.names}

    def matching(self, condition: str) -> list[int]:
        """The keys of the rows that a condition keeps, by DataFusion over a table in memory."""
        context = SessionContext(session_config())
        context.register_record_batches("t", [self.table.to_batches() or [_empty(self.schema)]])
        found = context.sql(f"SELECT {KEY} FROM t WHERE {condition}").to_arrow_table()
        return sorted(found[KEY].to_pylist()) if found.num_rows else []

    def add(self, path: Path, column: pa.Field, value: Callable[[Row], Any]) -> None:
        """A new column, with values made from rows."""
        self._change(path, lambda fields: [*fields, column], lambda row: {**row, path[-1]: value(row)})

    def drop(self, path: Path) -> None:
        """A column goes."""
        self._change(
            path, lambda fields: [f for f in fields if f.name != path[-1]], lambda row: _without(row, path[-1])
        )
        self._move_default(path, None)

    def rename(self, path: Path, name: str) -> None:
        """A column has another name."""
        old = path[-1]
        self._change(
            path,
            lambda fields: [f.with_name(name) if f.name == old else f for f in fields],
            lambda row: {name if key == old else key: value for key, value in row.items()},
        )
        self._move_default(path, name)

    def replace(self, path: Path, change: Callable[[pa.Field], pa.Field]) -> None:
        """A column has another type that holds the same values, or may or may not be NULL."""
        self._change(path, lambda fields: [change(f) if f.name == path[-1] else f for f in fields], lambda row: row)

    def _move_default(self, path: Path, name: str | None) -> None:
        if len(path) == 1 and path[0] in self.defaults:
            value = self.defaults.pop(path[0])
            if name is not None:
                self.defaults[name] = value

    def _change(
        self, path: Path, fields: Callable[[list[pa.Field]], list[pa.Field]], values: Callable[[Row], Row]
    ) -> None:
        before = pa.struct(list(self.schema))
        self.schema = pa.schema(list(_retyped(before, path[:-1], fields)))
        self.rows = {key: _revalued(row, before, path[:-1], values) for key, row in self.rows.items()}


def _with_nulls(column: pa.Array) -> pa.Array:
    """A column whose structs have NULL inside where they are NULL: DataFusion looks no higher."""
    if not pa.types.is_struct(column.type):
        return column
    inner = [_with_nulls(field) for field in column.flatten()]
    return pa.StructArray.from_arrays(inner, fields=list(column.type), mask=column.is_null())


def _walk(fields: Any, above: Path) -> list[tuple[Path, pa.Field]]:
    found = []
    for f in fields:
        path = (*above, f.name)
        found.append((path, f))
        found += _walk(_inside(f.type), path)
    return found


def _inside(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]


def _retyped(kind: pa.DataType, path: Path, change: Callable[[list[pa.Field]], list[pa.Field]]) -> pa.DataType:
    """A type after a change of the fields side by side at a path, or of the one field of a list or map there."""
    inside = _inside(kind)
    if path:
        inside = [f.with_type(_retyped(f.type, path[1:], change)) if f.name == path[0] else f for f in inside]
    else:
        inside = change(inside)
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, inside[0])
    return pa.list_(inside[0]) if pa.types.is_list(kind) else pa.struct(inside)


def _revalued(value: Any, kind: pa.DataType, path: Path, change: Callable[[Row], Row]) -> Any:
    """A value after a change of the rows that it holds at a path."""
    if value is None:
        return None
    if not path:
        return change(value) if pa.types.is_struct(kind) else value
    name, *rest = path
    inner = next(f.type for f in _inside(kind) if f.name == name)
    if pa.types.is_map(kind):
        return [(key, _revalued(item, inner, tuple(rest), change)) for key, item in value]
    if pa.types.is_list(kind):
        return [_revalued(item, inner, tuple(rest), change) for item in value]
    return {**value, name: _revalued(value[name], inner, tuple(rest), change)}


def _without(row: Row, name: str) -> Row:
    return {key: value for key, value in row.items() if key != name}


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
