"""Draws of namespaces whose partition tables are laid out by other writers in every way that can be read, with their rows.

Extensible by tables: a way to lay out a table is one more function in `FORMS`; columns and partition fields are those of
`odd_columns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.catalog.foreign_namespaces import ForeignTable, SpecField, lay_out, with_ids
from tests.engine.odd_columns import (
    BY_NAME,
    COLUMNS,
    PARTITIONS,
    ZONED,
    ColumnKind,
    PartitionKind,
    Row,
    zoned_partitions,
)

OLD_NAME = "old_"
VERSIONS = ("2.0", "2.1", "2.2", None)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a form is told: the partition fields of the table, the names that were changed in the schema since, and chance."""

    fields: Sequence[PartitionKind]
    renamed: frozenset[str]
    chance: Random

    @property
    def sources(self) -> frozenset[str]:
        """The paths of the columns that the manifest tells the values of."""
        return frozenset(each.path for each in self.fields if each.is_identity)


Form = Callable[[pa.Table, Layout], list[pa.Table]]


def whole(rows: pa.Table, _: Layout) -> list[pa.Table]:
    """All columns, in several files."""
    return [rows.take([0]), rows.take(pa.array(range(1, rows.num_rows), pa.int64()))]


def without_sources(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """Without the columns of identity fields, also those inside structs."""
    return [_without(rows, layout.sources)]


def without_sources_in_a_file(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """The table has the columns of identity fields, and some of its files have not."""
    cut = layout.chance.randrange(2)
    return [rows.slice(0, cut), _without(rows.slice(cut), layout.sources)]


def renamed(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """Columns, and fields inside them, under the names that they had, in the places that they have."""

    def old(path: str) -> str:
        name = path.rpartition(".")[2]
        return OLD_NAME + name if path in layout.renamed else name

    return [_edited(rows, old)]


def shuffled(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """The columns in another order, with others beside."""
    names = [*rows.column_names, "theirs"]
    layout.chance.shuffle(names)
    return [rows.append_column("theirs", pa.array(["x"] * rows.num_rows)).select(names)]


def of_other_types(rows: pa.Table, _: Layout) -> list[pa.Table]:
    """Columns of types that are cast."""
    for place, name in enumerate(rows.column_names):
        wider = BY_NAME[name].wider if name in BY_NAME else None
        if wider is not None:
            rows = rows.set_column(place, name, rows[name].cast(wider))
    return [rows]


def nested_in_another_order(rows: pa.Table, _: Layout) -> list[pa.Table]:
    """Fields inside a struct in another order, with one more."""
    pairs = [None if s is None else {"z": True, "y": s["y"], "x": s["x"]} for s in rows["s"].to_pylist()]
    kind = pa.struct([("z", pa.bool_()), ("y", pa.utf8()), ("x", pa.int32())])
    return [rows.set_column(rows.column_names.index("s"), "s", pa.array(pairs, kind))]


TableUpdate = Callable[[str], str | None]
"""The name that the field at a path is given; None leaves it out."""


def _without(rows: pa.Table, paths: frozenset[str]) -> pa.Table:
    return _edited(rows, lambda path: None if path in paths else path.rpartition(".")[2])


def _edited(rows: pa.Table, edit: TableUpdate) -> pa.Table:
    """Rows with their fields renamed or left out."""
    found = [_edited_field(each, rows[each.name].to_pylist(), each.name, edit) for each in rows.schema]
    kept = [each for each in found if each is not None]
    return pa.table([_array(values, each.type) for each, values in kept], schema=pa.schema([each for each, _ in kept]))


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table whose fields inside a NULL struct are NULL, too: pyarrow has zeros there, which DataFusion reads."""
    return pa.table([_array([row[each.name] for row in rows], each.type) for each in schema], schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return pa.array(values, kind)
    inner = [_array([value and value[each.name] for value in values], each.type) for each in kind]
    return pa.StructArray.from_arrays(
        inner, fields=list(kind), mask=pa.array([value is None for value in values], pa.bool_())
    )


def _edited_field(each: pa.Field, values: list[Any], path: str, edit: TableUpdate) -> tuple[pa.Field, list[Any]] | None:
    name = edit(path)
    if name is None or not pa.types.is_struct(each.type):
        return None if name is None else (each.with_name(name), values)
    found = [
        _edited_field(inner, [value and value[inner.name] for value in values], f"{path}.{inner.name}", edit)
        for inner in each.type
    ]
    kept = [each for each in found if each is not None]
    made = [
        None if value is None else {inner.name: column[place] for inner, column in kept}
        for place, value in enumerate(values)
    ]
    return pa.field(name, pa.struct([inner for inner, _ in kept])), made


FORMS: Sequence[Form] = (
    whole,
    without_sources,
    without_sources,
    without_sources_in_a_file,
    renamed,
    shuffled,
    of_other_types,
    nested_in_another_order,
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A namespace `t` below a root, and its rows."""

    columns: Sequence[ColumnKind]
    schema: pa.Schema
    rows: list[Row]
    specs: Sequence[Sequence[PartitionKind]]
    forms: Sequence[str]


def draw(root: Path, chance: Random) -> Drawn:
    """Lay out a random namespace."""
    zoned = chance.sample(ZONED, chance.choice([1, 2]))
    columns = [*COLUMNS, *zoned]
    chance.shuffle(columns)
    schema = pa.schema([pa.field("id", pa.int64()), *(pa.field(each.name, each.type) for each in columns)])
    # Version 2.0 of the format knows no NULL of a struct.
    has_null_structs = chance.random() < 0.6
    versions = VERSIONS[1:] if has_null_structs else VERSIONS
    rows = [
        {"id": number, **{each.name: _value(each, chance, has_null_structs=has_null_structs) for each in columns}}
        for number in range(chance.randint(4, 24))
    ]
    specs = [_fields(zoned, chance) for _ in range(chance.choice([1, 1, 2]))]
    paths = [path for path, _ in _paths(schema)]
    changed = frozenset(chance.sample(paths[1:], 3))
    tables, forms = [], []
    for number, fields in enumerate(specs, 1):
        mine = [row for place, row in enumerate(rows) if place % len(specs) == number - 1]
        for values, group in _groups(mine, fields):
            form = chance.choice(FORMS)
            table = pa.Table.from_pylist(group, schema=schema)
            files = [
                file for file in form(table, Layout(fields, changed, chance)) if file.num_rows or form is not whole
            ]
            named = {each.name: value for each, value in zip(fields, values, strict=True)}
            tables.append(ForeignTable(values=named, files=files, version=chance.choice(versions), spec=number))
            forms.append(form.__name__)
    ids = {path: int(each.metadata[b"lance:field_id"]) for path, each in _paths(with_ids(schema))}
    laid = [
        [SpecField(name=each.name, source=ids[each.path], kind=each.type, transform=each.transform) for each in fields]
        for fields in specs
    ]
    lay_out(root / "t", with_ids(schema), laid, tables, pinned=chance.random() < 0.8)
    return Drawn(columns, schema, rows, specs, forms)


def _value(column: ColumnKind, chance: Random, *, has_null_structs: bool) -> Any:
    found = chance.choice(column.values)
    if has_null_structs or not pa.types.is_struct(column.type):
        return found
    return _of_nulls(column.type) if found is None else _without_null_structs(found, column.type)


def _of_nulls(kind: pa.DataType) -> Any:
    return {each.name: _of_nulls(each.type) for each in kind} if pa.types.is_struct(kind) else None


def _without_null_structs(value: Row, kind: pa.DataType) -> Row:
    return {each.name: _of_nulls(each.type) if value[each.name] is None else value[each.name] for each in kind}


def _fields(zoned: Sequence[ColumnKind], chance: Random) -> list[PartitionKind]:
    """One or two fields, half of them over a column of a time zone."""
    of_zones = [kind for column in zoned for kind in zoned_partitions(column)]
    picked = [chance.choice(of_zones if chance.random() < 0.4 else PARTITIONS) for _ in range(chance.choice([1, 1, 2]))]
    return list({each.name: each for each in picked}.values())


def _groups(rows: Sequence[Row], fields: Sequence[PartitionKind]) -> list[tuple[tuple[Any, ...], list[Row]]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(each.of(row) for each in fields), []).append(row)
    return list(found.items())


def _paths(schema: pa.Schema) -> list[tuple[str, pa.Field]]:
    """Every field that a partition field may be over, by its path."""
    found: list[tuple[str, pa.Field]] = []

    def enter(each: pa.Field, above: str) -> None:
        found.append((f"{above}{each.name}", each))
        for inner in each.type if pa.types.is_struct(each.type) else ():
            enter(inner, f"{above}{each.name}.")

    for each in schema:
        enter(each, "")
    return found
