"""Draws of namespaces whose partition tables are laid out by other writers in every way that can be read, with their rows.

Extensible by tables: a column of another type is one more `ColumnKind`, a way to partition one more `PartitionKind`, a way to
lay out a table one more function in `FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.catalog.foreign_namespaces import ForeignTable, SpecField, lay_out, with_ids

Row = dict[str, Any]
OLD_NAME = "old_"
VERSIONS = ("2.0", "2.1", "2.2", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnKind:
    """A column: its type, some values, conditions on it and expressions for its new values, in SQL."""

    name: str
    type: pa.DataType
    values: Sequence[Any]
    conditions: Sequence[str]
    updates: Sequence[str]
    wider: pa.DataType | None = None
    """Another type that files may have: its values cast to the column's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKind:
    """A partition field over the column at a dotted path: its transform, its values and their type."""

    path: str
    type: pa.DataType
    transform: Mapping[str, Any] = field(default_factory=lambda: {"type": "identity"})
    value: Callable[[Any], Any] = lambda value: value

    @property
    def name(self) -> str:
        """The id of the field."""
        return f"{self.path.replace('.', '_')}_{self.transform['type']}"

    @property
    def is_identity(self) -> bool:
        """Whether files may leave its column out."""
        return self.transform["type"] == "identity"

    def of(self, row: Row) -> Any:
        """The partition value of a row."""
        found: Any = row
        for name in self.path.split("."):
            found = None if found is None else found[name]
        return None if found is None else self.value(found)


PAIR = pa.struct([("x", pa.int32()), ("y", pa.utf8())])
COLUMNS = (
    ColumnKind(
        name="p",
        type=pa.utf8(),
        values=["US", "DE", "de", "", None],
        conditions=[
            "p = 'US'",
            "upper(p) = 'DE'",
            "p IS NULL",
            "p <> 'de'",
            "p LIKE '%E'",
            "p IN ('', 'US')",
            "p > 'D'",
        ],
        updates=["lower(p)", "'US'", "NULL"],
        wider=pa.large_utf8(),
    ),
    ColumnKind(
        name="n",
        type=pa.int64(),
        values=[-7, 0, 3, 12, None],
        conditions=["n = 3", "n + 0 = 3", "n > 0", "n % 2 = 1", "n IS NOT NULL", "n IN (0, 12)", "abs(n) = 7"],
        updates=["n + 1", "-n", "12"],
        wider=pa.decimal128(20, 0),
    ),
    ColumnKind(
        name="d",
        type=pa.date32(),
        values=[date(2024, 2, 29), date(2025, 1, 1), date(2025, 12, 31), None],
        conditions=["d = DATE '2025-01-01'", "d >= DATE '2025-01-01'", "date_part('year', d) = 2024", "d IS NULL"],
        updates=["DATE '2024-02-29'", "d + INTERVAL '1 day'"],
    ),
    ColumnKind(
        name="at",
        type=pa.timestamp("us", "UTC"),
        values=[datetime(2024, 12, 31, 23, 30, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC), None],
        conditions=["at > TIMESTAMP '2025-01-01T00:00:00Z'", "at IS NULL", "date_part('hour', at) = 23"],
        updates=["NULL"],
    ),
    ColumnKind(
        name="s",
        type=PAIR,
        values=[{"x": 1, "y": "one"}, {"x": None, "y": "two"}, {"x": 3, "y": None}],
        conditions=["s['x'] = 1", "s['y'] IS NULL", "s['x'] + 1 = 4", "upper(s['y']) = 'TWO'"],
        updates=["s"],
    ),
    ColumnKind(
        name="word",
        type=pa.utf8(),
        values=["a", "b", None],
        conditions=["word = 'a'", "word IS NULL", "word || p = 'aUS'", "word < 'b' OR p = 'DE'"],
        updates=["'c'", "word || word"],
    ),
)
PARTITIONS = (
    PartitionKind(path="p", type=pa.utf8()),
    PartitionKind(path="p", type=pa.utf8()),
    PartitionKind(path="n", type=pa.int64()),
    PartitionKind(path="d", type=pa.date32()),
    PartitionKind(path="at", type=pa.timestamp("us", "UTC")),
    PartitionKind(path="d", type=pa.int32(), transform={"type": "year"}, value=lambda day: day.year),
    PartitionKind(path="d", type=pa.int32(), transform={"type": "month"}, value=lambda day: day.month),
    PartitionKind(path="at", type=pa.int32(), transform={"type": "hour"}, value=lambda at: at.hour),
    PartitionKind(path="p", type=pa.utf8(), transform={"type": "truncate", "width": 1}, value=lambda text: text[:1]),
    PartitionKind(
        path="n",
        type=pa.int64(),
        transform={"type": "truncate", "width": 10},
        value=lambda number: number - (abs(number) % 10 if number >= 0 else -(abs(number) % 10)),
    ),
)
SCHEMA = pa.schema([pa.field("id", pa.int64()), *(pa.field(each.name, each.type) for each in COLUMNS)])
BY_NAME = {each.name: each for each in COLUMNS}


@dataclass(frozen=True, slots=True)
class Layout:
    """What a form is told: the partition fields of the table, the names that were changed in the schema since, and chance."""

    fields: Sequence[PartitionKind]
    renamed: frozenset[str]
    chance: Random

    @property
    def sources(self) -> list[str]:
        """The columns that the manifest tells the values of."""
        return [each.path for each in self.fields if each.is_identity and "." not in each.path]


Form = Callable[[pa.Table, Layout], list[pa.Table]]


def whole(rows: pa.Table, _: Layout) -> list[pa.Table]:
    """All columns, in several files."""
    return [rows.slice(0, 1), rows.slice(1)]


def without_sources(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """Without the columns of identity fields."""
    return [rows.drop_columns(list(dict.fromkeys(layout.sources)))]


def without_sources_in_a_file(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """The table has the columns of identity fields, and some of its files have not."""
    cut = layout.chance.randrange(2)
    return [rows.slice(0, cut), rows.slice(cut).drop_columns(list(dict.fromkeys(layout.sources)))]


def renamed(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """Columns under the names that they had, in the places that they have."""
    return [rows.rename_columns([OLD_NAME + name if name in layout.renamed else name for name in rows.column_names])]


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

    rows: list[Row]
    specs: Sequence[Sequence[PartitionKind]]
    forms: Sequence[str]


def draw(root: Path, chance: Random) -> Drawn:
    """Lay out a random namespace."""
    rows = [_row(number, chance) for number in range(chance.randint(4, 24))]
    specs = [_fields(chance) for _ in range(chance.choice([1, 1, 2]))]
    changed = frozenset(chance.sample([each.name for each in COLUMNS], 2))
    tables, forms = [], []
    for number, fields in enumerate(specs, 1):
        mine = [row for place, row in enumerate(rows) if place % len(specs) == number - 1]
        for values, group in _groups(mine, fields):
            form = chance.choice(FORMS)
            table = pa.Table.from_pylist(group, schema=SCHEMA)
            files = [
                file for file in form(table, Layout(fields, changed, chance)) if file.num_rows or form is not whole
            ]
            named = {each.name: value for each, value in zip(fields, values, strict=True)}
            tables.append(ForeignTable(values=named, files=files, version=chance.choice(VERSIONS), spec=number))
            forms.append(form.__name__)
    ids = {path: int(each.metadata[b"lance:field_id"]) for path, each in _paths(with_ids(SCHEMA))}
    laid = [
        [SpecField(name=each.name, source=ids[each.path], kind=each.type, transform=each.transform) for each in fields]
        for fields in specs
    ]
    lay_out(root / "t", with_ids(SCHEMA), laid, tables, pinned=chance.random() < 0.8)
    return Drawn(rows, specs, forms)


def _row(number: int, chance: Random) -> Row:
    return {"id": number, **{each.name: chance.choice(each.values) for each in COLUMNS}}


def _fields(chance: Random) -> list[PartitionKind]:
    picked = chance.sample(PARTITIONS, chance.choice([1, 1, 2]))
    return list({each.name: each for each in picked}.values())


def _groups(rows: Sequence[Row], fields: Sequence[PartitionKind]) -> list[tuple[tuple[Any, ...], list[Row]]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(each.of(row) for each in fields), []).append(row)
    return list(found.items())


def _paths(schema: pa.Schema) -> list[tuple[str, pa.Field]]:
    """Every field that a partition field may be over, by its path."""
    found = []
    for each in schema:
        found.append((each.name, each))
        if pa.types.is_struct(each.type):
            found += [(f"{each.name}.{inner.name}", inner) for inner in each.type]
    return found
