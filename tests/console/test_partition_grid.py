"""Maps of partitions as data: places, steps, words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from lance_flight_client.console.partitions import LEVELS, MOST_SVG_CELLS, PartitionGrid
from lance_flight_client.console.tables import differences


def partitions(*rows: tuple[Any, ...], names: tuple[str, ...] = ("year", "site")) -> pa.Table:
    """Rows of `t$partitions`: the values, then rows."""
    found = [
        {
            "spec_id": 1,
            **dict(zip(names, row[:-1], strict=True)),
            "object_id": f"p{number}",
            "location": f"l{number}",
            "read_version": 1,
            "read_branch": None,
            "rows": row[-1],
            "bytes": row[-1] * 10,
            "files": 1,
            "last_change": datetime.now(UTC) - timedelta(hours=number),
        }
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(found)


SOME = partitions((2024, "b", 10), (2023, "a", 100), (2024, "a", 1000), (None, "a", 1))


def test_values_are_ordered_with_null_first() -> None:
    grid = PartitionGrid.of(SOME)
    assert (grid.down, grid.across) == ("year", "site")
    assert (grid.row_labels, grid.column_labels) == (["NULL", "2023", "2024"], ["a", "b"])
    assert {(cell.row, cell.column): cell.rows for cell in grid.cells} == {
        (0, 0): 1,
        (1, 0): 100,
        (2, 0): 1000,
        (2, 1): 10,
    }


def test_more_rows_have_a_higher_step() -> None:
    steps = {cell.rows: step for cell, step in PartitionGrid.of(SOME).levels()}
    assert (steps[1], steps[1000]) == (1, LEVELS)
    assert sorted(steps, key=lambda rows: steps[rows]) == sorted(steps)
    assert [step for _, step in PartitionGrid.of(partitions((1, "a", 5), (2, "b", 5))).levels()] == [LEVELS // 2] * 2


def test_partitions_that_share_a_place_are_added_and_may_be_read_in_part() -> None:
    several = partitions((2024, 1, "a", 5), (2024, 2, "a", 7), (2023, 1, "a", 1), names=("year", "month", "site"))
    grid = PartitionGrid.of(several, read={"p0"}, down="year", across="site")
    cell = next(each for each in grid.cells if each.partitions == 2)
    assert (cell.rows, cell.files, cell.read) == (12, 2, 1)
    assert grid.describe(cell) == "year = 2024, site = a: 2 partitions, 12 rows, 120 B, 2 files; 1 of 2 read"
    assert (grid.read, grid.partitions) == (1, 3)


def test_one_field_is_a_list_of_bars() -> None:
    grid = PartitionGrid.of(partitions((0, 10), (1, 30), names=("id_bucket",)))
    assert (grid.across, [grid.share(cell) for cell in grid.cells], grid.skew) == (None, [147, 440], 1.5)


@pytest.mark.parametrize(("colour", "amount"), [("rows", "30"), ("bytes", "300 B"), ("files", "1"), ("age", "1.0 h")])
def test_amounts_have_their_units(colour: str, amount: str) -> None:
    grid = PartitionGrid.of(partitions((0, 10), (1, 30), names=("id_bucket",)), colour=colour)
    assert grid.amount(grid.cells[1]) == amount


def test_large_maps_are_data() -> None:
    grid = PartitionGrid.of(partitions(*((n // 100, f"s{n % 100}", n) for n in range(MOST_SVG_CELLS + 100))))
    assert grid.is_large
    assert len(grid.data()["cells"]) == MOST_SVG_CELLS + 100


def test_differences_of_snapshots_name_each_partition_once() -> None:
    before = partitions((1, "a", 10), (2, "b", 20), (3, "c", 30))
    rows = before.to_pylist()
    after = pa.Table.from_pylist(
        [rows[0], {**rows[1], "read_version": 2, "rows": 25}, {**rows[2], "object_id": "p9", "site": "d", "rows": 1}]
    )
    found = [(each.what, each.values, each.before, each.after) for each in differences(before, after)]
    assert found == [
        ("changed", "year = 2, site = b", 20, 25),
        ("removed", "year = 3, site = c", 30, None),
        ("added", "year = 3, site = d", None, 1),
    ]
    assert differences(before, before) == []
