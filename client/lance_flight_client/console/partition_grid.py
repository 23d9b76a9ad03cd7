"""The partition map: partitions by the values of one field down and of another across, coloured by their sizes, greyed where a query skips them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight_client.console.tables import fields_of

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
