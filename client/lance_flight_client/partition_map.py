"""Pictures of the partitions of a table for a terminal: a grid of two groups of fields, or a bar for each value of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lance_flight_client.values import Form, form_of, texts

Key: TypeAlias = tuple[Any, ...]
_LEVELS = "▁▂▃▄▅▆▇█"
_NOT_READ = "·"
_BAR = 40


@dataclass(frozen=True, slots=True)
class PartitionCell:
    """A partition, or some that share a place of the picture: their rows, and whether a query reads any of them."""

    rows: int
    is_read: bool = True


def partition_map(
    partitions: pa.Table, read: Collection[str] | None = None, *, width: int = 100, height: int = 40
) -> str:
    """Draw the rows of SHOW PARTITIONS, of one spec; those whose `object_id` is not in `read` are dots.

    A block is the higher, and a bar the longer, the more rows there are. Fields are split in two groups, one down and one across,
    so that both have many values; values that do not fit across share a column.

    >>> print(partition_map(pa.table({"spec_id": [1, 1], "site": ["a", "b"], "object_id": ["x", "y"], "rows": [20, 10]}), {"x"}))
    site
    a     ████████████████████████████████████████  20
    b     ····················                      10
    """
    names = partitions.column_names[1 : partitions.column_names.index("object_id")]
    keyed = (
        zip(*(_order_values(partitions[name]) for name in names), strict=True) if names else [()] * partitions.num_rows
    )
    counted = zip(keyed, partitions["rows"].to_pylist(), partitions["object_id"].to_pylist(), strict=True)
    cells = {key: PartitionCell(rows or 0, read is None or place in read) for key, rows, place in counted}
    keys = list(cells)
    down = _split(keys, names)
    if down == 0:
        return _bars(" ".join(names), cells, height)
    grid = {(key[:down], key[down:]): cell for key, cell in cells.items()}
    heads = " ".join(names[:down]), " ".join(names[down:])
    if len({column for _, column in grid}) <= len({row for row, _ in grid}):
        # The longer group lies across, and the first where both are as long.
        grid, heads = {(column, row): cell for (row, column), cell in grid.items()}, (heads[1], heads[0])
    return _grid(heads, grid, width, height)


def _split(keys: Sequence[Key], names: Sequence[str]) -> int:
    """Return how many of the fields are in the first group; 0 where each has a single value in one of two groups."""

    def rank(at: int) -> tuple[bool, bool, int, int]:
        fewer = min(len({key[:at] for key in keys}), len({key[at:] for key in keys}))
        # Parts of one column, as at_year and at_month, stay together.
        return fewer > 1, _source(names[at - 1]) != _source(names[at]), fewer, at

    best = max(range(1, len(names)), key=rank, default=0)
    return best if best and rank(best)[0] else 0


def _source(name: str) -> str:
    return name.rpartition("_")[0] or name


def _bars(head: str, cells: Mapping[Key, PartitionCell], height: int) -> str:
    ordered = sorted(cells.items(), key=lambda item: _order(item[0]))
    most = max((cell.rows for cell in cells.values()), default=0)
    width = max([len(head), *(len(_label(key)) for key, _ in ordered[:height])])
    lines = [head]
    for key, cell in ordered[:height]:
        bar = ("█" if cell.is_read else _NOT_READ) * max(1, round(_BAR * cell.rows / max(most, 1)))
        lines.append(f"{_label(key):{width}}  {bar:{_BAR}}  {cell.rows:,}")
    return "\n".join([*lines, *_left(len(ordered), height)])


def _grid(heads: tuple[str, str], grid: Mapping[tuple[Key, Key], PartitionCell], width: int, height: int) -> str:
    rows, columns = (sorted({place[side] for place in grid}, key=_order) for side in (0, 1))
    indent = max([len(heads[0]), *(len(_label(row)) for row in rows[:height])]) + 2
    labels = [_label(column) for column in columns]
    wide = max(len(label) for label in labels) + 1
    room = max(width - indent, 1)
    if wide * len(columns) <= room:
        shares, size = [[column] for column in columns], wide
        top = "".join(f"{label:>{wide - 1}} " for label in labels)
    else:
        each = -(-len(columns) // room)
        shares, size = [columns[at : at + each] for at in range(0, len(columns), each)], 1
        between = max(len(shares) - len(labels[0]) - len(labels[-1]), 3)
        top = labels[0] + f"{'…':^{between}}" + labels[-1] + (f"  ({each} in each column)" if each > 1 else "")
    drawn = [[_together([grid.get((row, column)) for column in share]) for share in shares] for row in rows]
    most = max((cell.rows for line in drawn for cell in line if cell is not None), default=0)
    lines = [f"{'':{indent}}{heads[1]}", f"{heads[0]:{indent}}{top}".rstrip()]
    for row, line in list(zip(rows, drawn, strict=True))[:height]:
        blocks = "".join(f"{_block(cell, most) * max(size - 1, 1):<{size}}" for cell in line)
        lines.append(f"{_label(row):{indent}}{blocks}".rstrip())
    return "\n".join([*lines, *_left(len(rows), height)])


def _together(cells: Sequence[PartitionCell | None]) -> PartitionCell | None:
    partition_cells = [cell for cell in cells if cell is not None]
    return (
        PartitionCell(sum(cell.rows for cell in partition_cells), any(cell.is_read for cell in partition_cells))
        if partition_cells
        else None
    )


def _block(cell: PartitionCell | None, most: int) -> str:
    if cell is None:
        return " "
    return _LEVELS[max(0, -(-8 * cell.rows // max(most, 1)) - 1)] if cell.is_read else _NOT_READ


def _left(count: int, height: int) -> list[str]:
    return [f"… {count - height:,} more"] if count > height else []


def _order_values(column: pa.ChunkedArray) -> Sequence[Any]:
    """Return the values of a field, which order the map: moments, of which Python has not all, as texts."""
    if form_of(column.type) is Form.MOMENT:
        return texts(column)
    values = column.to_pylist()
    return [value.decode(errors="backslashreplace") if isinstance(value, bytes) else value for value in values]


def _order(key: Key) -> tuple[Any, ...]:
    return tuple((value is None, 0 if value is None else value) for value in key)


def _label(key: Key) -> str:
    return " ".join("NULL" if value is None else str(value) for value in key)
