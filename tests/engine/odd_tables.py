"""Draws of namespaces whose partition tables are laid out by other writers in every way that can be read, with their rows.

Extensible by tables: a column of another type is one more `ColumnKind`, a way to partition one more `PartitionKind`, a way to
lay out a table one more function in `FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

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
    keys: Sequence[str] = ()
    """Expressions to group by, beside the column itself."""


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
# Lance keeps no NULL of a struct without fields: one field is over no partition field.
INNER = pa.struct([("b", pa.utf8()), ("c", pa.int64()), ("e", pa.bool_())])
DEEP = pa.struct([("k", pa.int32()), ("a", INNER)])
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
        name="s",
        type=PAIR,
        values=[{"x": 1, "y": "one"}, {"x": None, "y": "two"}, {"x": 3, "y": None}, {"x": 1, "y": "ONE"}, None],
        conditions=[
            "s['x'] = 1",
            "s.x IN (1, 7)",
            "s.x > 1 AND s.x <= 3",
            "s.x IS NULL",
            "s.x IS NOT DISTINCT FROM 3",
            "s['y'] IS NULL",
            "s['x'] + 1 = 4",
            "upper(s['y']) = 'TWO'",
        ],
        updates=["s", "named_struct('x', CAST(7 AS INT), 'y', s.y)", "named_struct('x', CAST(NULL AS INT), 'y', p)"],
        wider=pa.struct([("x", pa.int64()), ("y", pa.large_utf8())]),
        keys=["s.x", "s['y']"],
    ),
    ColumnKind(
        name="deep",
        type=DEEP,
        values=[
            {"k": 1, "a": {"b": "u", "c": 1, "e": True}},
            {"k": 2, "a": {"b": "v", "c": None, "e": True}},
            {"k": None, "a": {"b": None, "c": 2, "e": True}},
            {"k": 3, "a": None},
            None,
        ],
        conditions=[
            "deep.a.b = 'u'",
            "deep['a']['b'] IN ('u', 'w')",
            "deep.a.b IS NULL",
            "deep.a.b IS NOT NULL AND deep.k < 2",
            "deep.a.b >= 'v'",
            "upper(deep.a.b) <> 'V'",
            "deep.a.c = 2 OR deep.k = 3",
        ],
        updates=["deep", "named_struct('k', deep.k, 'a', named_struct('b', 'w', 'c', deep.a.c, 'e', deep.a.e))"],
        keys=["deep.a.b", "deep['a']['c']"],
    ),
    ColumnKind(
        name="word",
        type=pa.utf8(),
        values=["a", "b", None],
        conditions=["word = 'a'", "word IS NULL", "word || p = 'aUS'", "word < 'b' OR p = 'DE'"],
        updates=["'c'", "word || word"],
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """A time zone: instants around which its values lie, and a local time that its clocks show once."""

    zone: str
    clock: tzinfo
    instants: Sequence[str]
    plain: str
    wider: pa.DataType


def _zoned(name: str, clocks: Clocks) -> ColumnKind:
    """A column of a time zone, with values just before, at, before and after its instants."""
    zone, clock = clocks.zone, clocks.clock
    instants = [datetime.fromisoformat(each) for each in clocks.instants]
    steps = [timedelta(microseconds=-1), timedelta(0), timedelta(minutes=-20), timedelta(minutes=40)]
    values = [each + step for each in instants for step in steps]
    literals = [
        f"arrow_cast('{each.isoformat(timespec='microseconds')}', 'Timestamp(Microsecond, Some(\"{zone}\"))')"
        for each in values
    ]
    local = [each.astimezone(clock) for each in values]
    return ColumnKind(
        name=name,
        type=pa.timestamp("us", zone),
        values=[*values, None],
        conditions=[
            *(f"{name} = {each}" for each in literals[:3]),
            *(f"{name} >= {low} AND {name} < {high}" for low, high in zip(literals[::2], literals[1::2], strict=True)),
            *(f"{name} BETWEEN {low} AND {high}" for low, high in zip(literals, literals[5:], strict=False)),
            f"{name} IN ({literals[0]}, {literals[-1]})",
            f"{name} NOT IN ({literals[1]}, {literals[2]})",
            f"{name} IS NULL",
            f"{name} IS NOT DISTINCT FROM {literals[1]}",
            f"{name} > TIMESTAMP '{clocks.plain}'",
            f"{name} <= '{clocks.plain}'",
            *(f"date_part('{part}', {name}) = {getattr(each, part)}" for part in PARTS for each in local[:2]),
            f"date_part('hour', {name}) IN (0, 1, 23)",
            f"date_part('year', {name}) > {local[0].year}",
            f"date_part('day', {name}) = 1 AND date_part('hour', {name}) = 0",
            f"date_trunc('day', {name}) = date_trunc('day', {literals[0]})",
        ],
        updates=["NULL", literals[1], f"{name} + INTERVAL '1 hour'", f"{name} - INTERVAL '1 day'"],
        wider=clocks.wider,
        keys=[f"date_part('{part}', {name})" for part in PARTS],
    )


PARTS = ("year", "month", "day", "hour")
ZONES: Mapping[str, Clocks] = {
    # The clocks are set back; the year ends.
    "ny": Clocks(
        zone="America/New_York",
        clock=ZoneInfo("America/New_York"),
        instants=["2024-11-03T06:00:00+00:00", "2024-03-10T07:00:00+00:00", "2025-01-01T05:00:00+00:00"],
        plain="2024-12-31T20:00:00",
        wider=pa.timestamp("us", "UTC"),
    ),
    # Fifteen minutes more since 1986, whose first day began a quarter past midnight. Conditions on that year are left out:
    # DataFusion makes them ranges from its first midnight, which it takes for NULL.
    "ktm": Clocks(
        zone="Asia/Kathmandu",
        clock=ZoneInfo("Asia/Kathmandu"),
        instants=["2024-12-31T18:15:00+00:00", "1985-12-31T18:30:00+00:00"],
        plain="2024-12-31T20:00:00",
        wider=pa.timestamp("ns", "UTC"),
    ),
    # A day is left out; the clocks are set back.
    "apia": Clocks(
        zone="Pacific/Apia",
        clock=ZoneInfo("Pacific/Apia"),
        instants=["2011-12-30T10:00:00+00:00", "2021-04-03T14:00:00+00:00"],
        plain="2012-01-01T00:00:00",
        wider=pa.timestamp("us", "America/New_York"),
    ),
    # By half an hour.
    "howe": Clocks(
        zone="Australia/Lord_Howe",
        clock=ZoneInfo("Australia/Lord_Howe"),
        instants=["2025-04-05T15:00:00+00:00", "2024-10-05T15:30:00+00:00"],
        plain="2025-01-01T00:00:00",
        wider=pa.timestamp("ns", "Australia/Lord_Howe"),
    ),
    "two": Clocks(
        zone="+02:00",
        clock=timezone(timedelta(hours=2)),
        instants=["2024-12-31T22:00:00+00:00"],
        plain="2025-01-01T00:00:00",
        wider=pa.timestamp("us", "UTC"),
    ),
    "at": Clocks(
        zone="UTC",
        clock=UTC,
        instants=["2024-12-31T23:30:00+00:00", "2025-07-01T00:00:00+00:00"],
        plain="2025-01-01T00:00:00",
        wider=pa.timestamp("ns", "UTC"),
    ),
}
ZONED = tuple(_zoned(name, clocks) for name, clocks in ZONES.items())
PARTITIONS = (
    PartitionKind(path="p", type=pa.utf8()),
    PartitionKind(path="p", type=pa.utf8()),
    PartitionKind(path="n", type=pa.int64()),
    PartitionKind(path="d", type=pa.date32()),
    PartitionKind(path="d", type=pa.int32(), transform={"type": "year"}, value=lambda day: day.year),
    PartitionKind(path="d", type=pa.int32(), transform={"type": "month"}, value=lambda day: day.month),
    PartitionKind(path="p", type=pa.utf8(), transform={"type": "truncate", "width": 1}, value=lambda text: text[:1]),
    PartitionKind(
        path="n",
        type=pa.int64(),
        transform={"type": "truncate", "width": 10},
        value=lambda number: number - (abs(number) % 10 if number >= 0 else -(abs(number) % 10)),
    ),
    PartitionKind(path="s.x", type=pa.int32()),
    PartitionKind(path="s.x", type=pa.int32()),
    PartitionKind(path="s.y", type=pa.utf8(), transform={"type": "truncate", "width": 1}, value=lambda text: text[:1]),
    PartitionKind(path="deep.a.b", type=pa.utf8()),
    PartitionKind(path="deep.a.b", type=pa.utf8()),
    PartitionKind(path="deep.a.c", type=pa.int64()),
)


def _zoned_partitions(column: ColumnKind) -> list[PartitionKind]:
    """The fields over a column of a time zone: what its clocks show, as `date_part` has it, and the instant itself."""
    clock = ZONES[column.name].clock

    def of_part(part: str) -> PartitionKind:
        return PartitionKind(
            path=column.name,
            type=pa.int32(),
            transform={"type": part},
            value=lambda at: getattr(at.astimezone(clock), part),
        )

    return [PartitionKind(path=column.name, type=column.type), *map(of_part, PARTS)]


BY_NAME = {each.name: each for each in (*COLUMNS, *ZONED)}


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


Edit = Callable[[str], str | None]
"""The name that the field at a path is given; None leaves it out."""


def _without(rows: pa.Table, paths: frozenset[str]) -> pa.Table:
    return _edited(rows, lambda path: None if path in paths else path.rpartition(".")[2])


def _edited(rows: pa.Table, edit: Edit) -> pa.Table:
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


def _edited_field(each: pa.Field, values: list[Any], path: str, edit: Edit) -> tuple[pa.Field, list[Any]] | None:
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
    of_zones = [kind for column in zoned for kind in _zoned_partitions(column)]
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
