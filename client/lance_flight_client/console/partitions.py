"""The partition map: partitions by the values of one field down and of another across, coloured by their sizes, greyed where a query skips them.

Each is shown by itself as well: its fields in SQL, its rows, its files, and the snapshots that changed it. Layouts of the rows under
other partition fields are counted by queries, and nothing is written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight_client.console.exploring import MOMENT, WHOLE, Facet, InvalidSelection, ShownRows
from lance_flight_client.console.tables import (
    ConsoleServer,
    ConsoleSnapshot,
    ConsoleTable,
    fields_of,
    list_rows,
    partitions_at,
)
from lance_flight_client.parameters import quote_name, text_literal

LEVELS = 8
MOST_SVG_CELLS = 2_000
"""Cells up to which the map is SVG; more are drawn on a canvas."""
COLOURS = ("rows", "bytes", "files", "age")
FILLS = ("#e3e6ea", "#cfe9e4", "#b0dad2", "#8fcabf", "#6bb8aa", "#469f91", "#2a8577", "#156b5e", "#064f45")
"""Colours of a map without a style sheet, as console.css has them in light: what is not read, then the steps."""
_CELL_HEIGHT = 20
_LETTER = 7.2
_LONGEST_LABEL = 24
_STEP = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One or more partitions that share a place of the map."""

    row: int
    column: int
    partitions: int = 0
    read: int = 0
    rows: int = 0
    size: int = 0
    files: int = 0
    changed: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGrid:
    """A map of some partitions: its fields, the labels down and across, and the cells where there are partitions."""

    fields: Sequence[str]
    down: str
    across: str | None
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    cells: Sequence[GridCell]
    colour: str
    is_lit: bool

    @classmethod
    def of(
        cls,
        partitions: pa.Table,
        *,
        read: Collection[str] | None = None,
        down: str | None = None,
        across: str | None = None,
        colour: str = "rows",
    ) -> PartitionGrid:
        """Arrange the rows of `t$partitions`, of one spec; those whose `object_id` is in `read` (None: all) are lit."""
        used, down, across = _axes(partitions, down, across)
        rows, downs = _place_values(partitions, down)
        columns, acrosses = _place_values(partitions, across)
        is_read = [True] * len(downs) if read is None else _is_in(partitions["object_id"], read)
        # Moments are slow to make, and there are many.
        moments = partitions["last_change"].to_pylist() if colour == "age" else [None] * len(downs)
        sizes = zip(*(partitions[name].to_pylist() for name in ("rows", "bytes", "files")), strict=True)
        sums: dict[tuple[int, int], list[Any]] = {}
        for place, lit, size, changed in zip(zip(downs, acrosses, strict=True), is_read, sizes, moments, strict=True):
            cell = sums.setdefault(place, [0, 0, 0, 0, 0, None])
            cell[0] += 1
            cell[1] += lit
            cell[2] += size[0] or 0
            cell[3] += size[1] or 0
            cell[4] += size[2] or 0
            if changed is not None:
                cell[5] = changed if cell[5] is None else max(cell[5], changed)
        cells = [
            GridCell(
                row=row, column=column, partitions=count, read=lit, rows=amount, size=size, files=files, changed=changed
            )
            for (row, column), (count, lit, amount, size, files, changed) in sums.items()
        ]
        return cls(
            fields=used,
            down=down,
            across=across,
            row_labels=[_label(row) for row in rows],
            column_labels=[_label(column) for column in columns] if across else [],
            cells=cells,
            colour=colour if colour in COLOURS else COLOURS[0],
            is_lit=read is not None,
        )

    @staticmethod
    def members(partitions: pa.Table, down: str | None, across: str | None, row: int, column: int) -> pa.Table:
        """Return the partitions of a cell of the map of some partitions."""
        _, down, across = _axes(partitions, down, across)
        places = zip(_place_values(partitions, down)[1], _place_values(partitions, across)[1], strict=True)
        return partitions.filter(pa.array([place == (row, column) for place in places], pa.bool_()))

    @property
    def partitions(self) -> int:
        return sum(cell.partitions for cell in self.cells)

    @property
    def read(self) -> int:
        return sum(cell.read for cell in self.cells)

    @property
    def skew(self) -> float:
        """The largest cell in multiples of the mean, of what is coloured."""
        values = [self.value(cell) for cell in self.cells]
        mean = sum(values) / len(values) if values else 0
        return max(values) / mean if mean else 1.0

    def value(self, cell: GridCell) -> float:
        """Return the number that a cell is coloured by; for an age, seconds since its last change."""
        if self.colour == "age":
            return 0.0 if cell.changed is None else (datetime.now(UTC) - cell.changed).total_seconds()
        return float({"rows": cell.rows, "bytes": cell.size, "files": cell.files}[self.colour])

    def levels(self) -> list[tuple[GridCell, int]]:
        """Return the cells with the steps of their colours, 1 to `LEVELS`: a step is a share of the largest, by its logarithm."""
        values = [math.log1p(self.value(cell)) for cell in self.cells]
        low, high = min(values, default=0.0), max(values, default=0.0)
        span = high - low
        return [
            (cell, LEVELS // 2 if not span else 1 + round((LEVELS - 1) * (value - low) / span))
            for cell, value in zip(self.cells, values, strict=True)
        ]

    @property
    def legend(self) -> tuple[str, str]:
        """Return the least and the most of what cells are coloured by, with their unit."""
        ordered = sorted(self.cells, key=self.value)
        unit = "" if self.colour in ("bytes", "age") else f" {self.colour}"
        return f"{self.amount(ordered[0])}{unit}", f"{self.amount(ordered[-1])}{unit}"

    def describe(self, cell: GridCell) -> str:
        """Return what a cell is, in words."""
        named = [f"{self.down} = {self.row_labels[cell.row]}"] if self.down else []
        named += [f"{self.across} = {self.column_labels[cell.column]}"] if self.across else []
        sizes = f"{cell.rows:,} rows, {readable_bytes(cell.size)}, {cell.files:,} file{'' if cell.files == 1 else 's'}"
        several = f"{cell.partitions} partitions, " if cell.partitions > 1 else ""
        lit = (
            ""
            if not self.is_lit
            else f"; {cell.read} of {cell.partitions} read"
            if cell.partitions > 1
            else "; read"
            if cell.read
            else "; not read"
        )
        return f"{', '.join(named)}: {several}{sizes}{lit}"

    @property
    def layout(self) -> dict[str, Any]:
        """Return sizes in pixels: of a cell, of the labels, and of the whole."""
        columns = max(len(self.column_labels), 1)
        longest = max((len(_shorten(label)) for label in self.column_labels), default=0)
        width = max(8, min(44, round(1040 / columns)))
        turned = longest * _LETTER > width - 4
        left = round(max((len(_shorten(label)) for label in (*self.row_labels, self.down)), default=0) * _LETTER) + 12
        top = 26 + (round(longest * _LETTER * 0.72) if turned else 0)
        return {
            "cell": (width, _CELL_HEIGHT),
            "left": left,
            "top": top,
            "turned": turned,
            "every": max(1, math.ceil(14 / width)) if turned else 1,
            "width": left + columns * width + (70 if turned else 8),
            "height": top + len(self.row_labels) * _CELL_HEIGHT + 8,
        }

    @property
    def columns_labelled(self) -> list[tuple[int, str]]:
        """Return the labels across that have room, with their places."""
        return list(enumerate(self.column_labels))[:: self.layout["every"]]

    @property
    def is_large(self) -> bool:
        return len(self.cells) > MOST_SVG_CELLS

    def data(self) -> dict[str, Any]:
        """Return the map for a canvas: a row, a column, a step, and partitions, read ones, rows, bytes and files of each cell."""
        return {
            "layout": self.layout,
            "fields": [self.down, self.across],
            "isLit": self.is_lit,
            "rows": [_shorten(label) for label in self.row_labels],
            "columns": [_shorten(label) for label in self.column_labels],
            "cells": [
                [cell.row, cell.column, step, cell.partitions, cell.read, cell.rows, cell.size, cell.files]
                for cell, step in self.levels()
            ],
        }

    def share(self, cell: GridCell) -> int:
        """Return the length of a bar, in pixels, where there is one field alone."""
        most = max(map(self.value, self.cells), default=0)
        return max(2, round(440 * self.value(cell) / most)) if most else 2

    def amount(self, cell: GridCell) -> str:
        """Return what a bar is long by, with its unit."""
        value = self.value(cell)
        if self.colour == "bytes":
            return readable_bytes(value)
        return f"{value / 3600:,.1f} h" if self.colour == "age" else f"{value:,.0f}"

    def short(self, label: str) -> str:
        """Return a label as it fits beside the map."""
        return _shorten(label)


def readable_bytes(size: float) -> str:
    """Return a size with its unit.

    >>> readable_bytes(12), readable_bytes(3 << 20)
    ('12 B', '3.0 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _STEP:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} TiB"


def _shorten(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _label(value: Any) -> str:
    return "NULL" if value is None else value.hex() if isinstance(value, bytes) else str(value)


def _axes(partitions: pa.Table, down: str | None, across: str | None) -> tuple[list[str], str, str | None]:
    """Return the fields that have values, and those of them that go down and across: the wanted ones, or the first."""
    fields = fields_of(partitions)
    used = [name for name in fields if partitions[name].null_count < partitions.num_rows] or list(fields[:1])
    down = down if down in used else used[0] if used else ""
    across = across if across in used and across != down else next((name for name in used if name != down), None)
    return used, down, across


def _place_values(partitions: pa.Table, name: str | None) -> tuple[list[Any], list[int]]:
    """Return the values of a field in their order, and the place of each partition among them; one place without a field."""
    if not name:
        return [None], [0] * partitions.num_rows
    found = partitions[name].to_pylist()
    values = _order_values(set(found))
    place_of = {value: place for place, value in enumerate(values)}
    return values, [place_of[value] for value in found]


def _is_in(ids: pa.ChunkedArray, read: Collection[str]) -> list[bool]:
    found: list[bool] = pc.is_in(ids, value_set=pa.array(read, ids.type)).to_pylist()
    return found


def _order_values(values: Collection[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is not None, value if value is not None else 0))


MOST_FILES = 500
MOST_VERSIONS = 30
"""Snapshots that are looked through for changes of a partition."""
MOST_LOOKED_AT = 100_000
"""Partitions of all these snapshots together."""


@dataclass(frozen=True, slots=True)
class SpecValue:
    """Field of a partition spec: the name of its values, the columns that it is made from, and its transform."""

    name: str
    columns: Sequence[str]
    transform: Mapping[str, Any]

    def sql(self, kinds: Mapping[str, str]) -> str | None:
        """Return the value of the field in SQL, over columns of these types; None where SQL has no function for it.

        >>> SpecValue("at_year", ["at"], {"type": "year"}).sql({"at": "TIMESTAMP(6)"})
        'year("at")'
        >>> SpecValue("b", ["id"], {"type": "bucket", "num_buckets": 4}).sql({"id": "BIGINT"})
        'bucket(4, "id")'
        """
        if len(self.columns) != 1 or self.columns[0] not in kinds:
            return None
        column, kind = quote_name(self.columns[0]), kinds[self.columns[0]]
        match self.transform.get("type"):
            case "identity":
                return column
            case "year" | "month" | "day" | "hour" as part:
                return f"{part}({column})"
            case "bucket":
                return f"bucket({int(self.transform['num_buckets'])}, {column})"
            case "truncate" if kind == "VARCHAR":
                return f"left({column}, {int(self.transform['width'])})"
            case _:
                return None


def fields_of_spec(server: ConsoleServer, table: ConsoleTable, spec: int) -> list[SpecValue]:
    """Return the fields of a version of the partition spec; none where they are not told to this user."""
    sql = (
        f"SELECT field_id, source_columns, transform FROM {table.sql(metadata='specs')}"
        f" WHERE spec_id = {spec} ORDER BY position"
    )
    return [
        SpecValue(name, columns or [], json.loads(transform or "{}"))
        for name, columns, transform in list_rows(server, sql)[1]
    ]


def address_of_rows(
    table: ConsoleTable,
    kinds: Mapping[str, str],
    fields: Sequence[SpecValue],
    partition: Mapping[str, Any],
    at: int | None,
) -> str | None:
    """Return the address of the rows of a partition; None where SQL cannot say which they are."""
    conditions, written = [], []
    for each in fields:
        value, computed = partition.get(each.name), each.sql(kinds)
        literal = _literal(value)
        if computed is None or literal is None:
            return None
        if computed == quote_name(each.columns[0]):
            conditions.append(Facet(each.columns[0], None if value is None else str(value)))
        else:
            written.append(f"{computed} IS NULL" if value is None else f"{computed} = {literal}")
    if not fields:
        return None
    return ShownRows(table=table, kinds=kinds, at=at, conditions=conditions, where=" AND ".join(written)).address


def _literal(value: Any) -> str | None:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case str() | date() | datetime():
            return text_literal(str(value))
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Snapshot that changed a partition: what it did, and the rows, bytes and files after it."""

    snapshot: int
    committed: datetime
    operation: str | None
    rows: int
    size: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetails:
    """Files of a partition, and the snapshots that changed it, the newest first; `is_cut` if older ones were not looked at."""

    files: tuple[Sequence[str], Sequence[Sequence[Any]]]
    versions: Sequence[PartitionState] = field(default=())
    is_cut: bool = False


def details_of(server: ConsoleServer, table: ConsoleTable, object_id: str, at: int | None) -> PartitionDetails:
    """Return the files and versions of a partition of a snapshot (None: the newest)."""
    until = "" if at is None else f" WHERE version <= {at}"
    found = list_rows(
        server,
        f"SELECT version, committed_at, operation FROM {table.sql(metadata='snapshots')}{until}"
        f" ORDER BY version DESC LIMIT {MOST_VERSIONS + 1}",
    )[1]
    snapshot = ConsoleSnapshot(*found[0][:2]) if found else ConsoleSnapshot(at)
    partitions = partitions_at(server, table, snapshot).num_rows
    most = min(MOST_VERSIONS, max(2, MOST_LOOKED_AT // max(partitions, 1)))
    mine = f"object_id = {text_literal(object_id)}"
    files = list_rows(
        server,
        "SELECT path, rows, deleted_rows AS deleted, bytes, file_version AS format"
        f" FROM {table.sql(snapshot.version, 'files')} WHERE {mine} ORDER BY fragment_id, path LIMIT {MOST_FILES}",
    )
    looked_at = {row[0]: row for row in found[:most]}
    states = " UNION ALL ".join(
        f"SELECT {number} AS snapshot, location, read_version, read_branch, rows, bytes, files"
        f" FROM {table.sql(number, 'partitions')} WHERE {mine}"
        for number in looked_at
    )
    ordered = list_rows(server, states and f"SELECT * FROM ({states}) AS states ORDER BY snapshot DESC")[1]
    return PartitionDetails(files=files, versions=list(_changes(ordered, looked_at)), is_cut=len(found) > most)


def _changes(states: Sequence[Sequence[Any]], snapshots: Mapping[int, Sequence[Any]]) -> Iterator[PartitionState]:
    """Yield the snapshots whose partition table is not that of the one before."""
    for state, before in zip_longest(states, states[1:]):
        number, *place, rows, size, files = state
        if before is None or place != list(before[1:4]):
            _, committed, operation = snapshots[number]
            yield PartitionState(
                snapshot=number, committed=committed, operation=operation, rows=rows, size=size, files=files
            )


MOST_PARTITIONS = 10_000
"""Partitions of a layout that are counted."""
FEWEST_ROWS = 100_000
"""Rows of a typical partition, below which more of them cost a query more than they spare it: as `ingest --suggest` has it."""
_MOST_COLUMNS = 12
_MOST_DISTINCT = 1_000
_MOST_FIELDS = 6
_MOST_TOGETHER = 3
_MOST_CANDIDATES = 10
_OTHERS = ("object_id", "rows", "bytes", "files", "last_change")
_BARE = re.compile(r"[a-z_][a-z0-9_]*")
_FACETED = ("VARCHAR", "BOOLEAN")
_FIELD = re.compile(
    r"\s*(?:(?P<function>year|month|day|hour|bucket|truncate)\s*\(\s*(?:(?P<number>[1-9]\d{0,4})\s*,\s*)?)?"
    r"(?P<column>\"(?:[^\"]|\"\")+\"|\w+)(?P<end>\s*\))?\s*(?:,|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLayout:
    """Partitions that some fields make: how many, and the rows of the smallest, a typical and the largest; None where uncounted."""

    fields: str
    partitions: int | None = None
    smallest: int = 0
    typical: int = 0
    largest: int = 0

    @classmethod
    def of(cls, fields: str, rows: pa.ChunkedArray) -> CountedLayout:
        """Return the layout of partitions with so many rows each."""
        if not len(rows):
            return cls(fields=fields, partitions=0)
        ends, middle = pc.min_max(rows), pc.quantile(rows, 0.5, interpolation="lower")[0]
        smallest, largest = ends["min"].as_py(), ends["max"].as_py()
        return cls(fields=fields, partitions=len(rows), smallest=smallest, typical=middle.as_py(), largest=largest)

    @property
    def is_fit(self) -> bool:
        """True if there are several partitions, typically of many rows."""
        return self.partitions is not None and self.partitions > 1 and self.typical >= FEWEST_ROWS


def fields_of_text(text: str, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a PARTITIONED BY list with their values in SQL; `InvalidSelection` for what is no such list.

    >>> fields_of_text("year(at), bucket(4, id)", {"at": "DATE", "id": "BIGINT"})
    {'year(at)': 'year("at")', 'bucket(4, id)': 'bucket(4, "id")'}
    """
    found, place = dict[str, str](), 0
    while place < len(text):
        match = _FIELD.match(text, place)
        value = None if match is None else _value_of(match, kinds)
        if match is None or value is None or len(found) == _MOST_FIELDS:
            expected = f"at most {_MOST_FIELDS} of column, year(column), month, day, hour, bucket(4, column), truncate(4, column)"
            raise InvalidSelection(f"by is {text[place:][:60]!r} in the address; expected {expected}")
        found[match[0].strip().rstrip(",").strip()] = value
        place = match.end()
    return found


def _value_of(field: re.Match[str], kinds: Mapping[str, str]) -> str | None:
    """Return the value of a field in SQL; None for one that there is not."""
    written = field["column"]
    column = written[1:-1].replace('""', '"') if written.startswith('"') else written
    kind = (field["function"] or "identity").lower()
    is_numbered = kind in ("bucket", "truncate")
    if bool(field["function"]) != bool(field["end"]) or is_numbered != bool(field["number"]):
        return None
    number = int(field["number"] or 0)
    return SpecValue(written, [column], {"type": kind, "num_buckets": number, "width": number}).sql(kinds)


def partitions_under(
    server: ConsoleServer, table: ConsoleTable, fields: Mapping[str, str], row_size: float
) -> pa.Table:
    """Return the partitions that fields would make as `t$partitions` has them; their sizes are estimates by a row's."""
    found = _grouped(server, table, fields)
    rows = found["rows"]
    names = [f"{name} " if name in _OTHERS else name for name in fields]
    values = [found[f"f{place}"] for place in range(len(names))]
    sizes = pc.cast(pc.multiply(pc.cast(rows, pa.float64()), row_size), pa.int64(), safe=False)
    others = [pa.array(map(str, range(len(rows))), pa.string()), rows, sizes, pa.repeat(1, len(rows))]
    last = pa.nulls(len(rows), pa.timestamp("us", "UTC"))
    return pa.table([pa.repeat(0, len(rows)), *values, *others, last], names=["spec_id", *names, *_OTHERS])


def candidates(server: ConsoleServer, table: ConsoleTable, kinds: Mapping[str, str]) -> list[CountedLayout]:
    """Return layouts by the first date or time and by columns with few values: those of many partitions of enough rows first."""
    time = next((quoted_if_needed(name) for name, kind in kinds.items() if MOMENT.match(kind)), None)
    columns = [name for name, kind in kinds.items() if kind in _FACETED or WHOLE.match(kind)][:_MOST_COLUMNS]
    distinct = ", ".join(f"approx_distinct({quote_name(name)}) AS c{place}" for place, name in enumerate(columns))
    counted = server.rows(f"SELECT {distinct} FROM {table.sql()}").to_pylist()[0] if columns else {}
    few = [
        quoted_if_needed(name)
        for name, count in zip(columns, counted.values(), strict=True)
        if 1 < count <= _MOST_DISTINCT
    ]
    parts = [] if time is None else [f"year({time})", f"year({time}), month({time})"]
    texts = [*parts, *few, *(f"{parts[-1]}, {name}" for name in few[:_MOST_TOGETHER] if parts)]
    layouts = []
    for text in texts[:_MOST_CANDIDATES]:
        rows = _grouped(server, table, fields_of_text(text, kinds))["rows"]
        layouts.append(CountedLayout(fields=text) if len(rows) > MOST_PARTITIONS else CountedLayout.of(text, rows))
    return sorted(layouts, key=lambda each: (not each.is_fit, -(each.partitions or 0) if each.is_fit else 0))


def _grouped(server: ConsoleServer, table: ConsoleTable, fields: Mapping[str, str]) -> pa.Table:
    """Return the values of fields, as f0, f1, …, and how many rows have them."""
    names = [f"f{place}" for place in range(len(fields))]
    values = ", ".join(f"{value} AS {name}" for name, value in zip(names, fields.values(), strict=True))
    return server.rows(
        f"SELECT {', '.join(names)}, count(*) AS rows FROM (SELECT {values} FROM {table.sql()}) AS laid"
        f" GROUP BY {', '.join(names)} LIMIT {MOST_PARTITIONS + 1}"
    )


def quoted_if_needed(name: str) -> str:
    """Return the name of a column as a list of fields takes it."""
    return name if _BARE.fullmatch(name) else quote_name(name)
