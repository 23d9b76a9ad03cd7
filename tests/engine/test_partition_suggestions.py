"""Suggestions of partition fields: counts of each candidate against those of the rows, and the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from lance_flight.engine.writes import definitions
from lance_flight.engine.writes.definitions import MOST_TABLES, suggestions
from lance_flight.errors import LanceFlightError

COUNT = 20_000
START = datetime(2025, 1, 1)
ROWS = pa.table(
    {
        "id": range(COUNT),
        "at": pa.array([START + timedelta(minutes=15 * number) for number in range(COUNT)], pa.timestamp("us")),
        "Site": [("Oslo", "Lima", None)[number % 3] for number in range(COUNT)],
        "celsius": [number / 7 for number in range(COUNT)],
        "tags": [[number] for number in range(COUNT)],
        "name": [str(number) for number in range(COUNT)],
    }
)


@pytest.fixture(autouse=True)
def _few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "FEWEST_ROWS", COUNT // 4)


def months(number: int) -> tuple[int, int]:
    at = START + timedelta(minutes=15 * number)
    return at.year, at.month


EXPECTED: dict[str, Callable[[int], object]] = {
    "year(at), month(at)": months,
    "year(at), month(at), day(at)": lambda number: (START + timedelta(minutes=15 * number)).date(),
    '"Site"': lambda number: number % 3,
    'year(at), month(at), "Site"': lambda number: (months(number), number % 3),
}


@pytest.mark.parametrize("fields", EXPECTED)
def test_candidates_are_counted_over_all_batches(fields: str) -> None:
    found = {each.fields: each for each in suggestions(ROWS.schema, ROWS.to_batches(3_000))}
    sizes = sorted(Counter(EXPECTED[fields](number) for number in range(COUNT)).values())
    said = found[fields]
    assert (said.tables, said.smallest, said.typical, said.largest) == (
        len(sizes),
        sizes[0],
        sizes[len(sizes) // 2],
        sizes[-1],
    )


def test_most_tables_of_enough_rows_come_first() -> None:
    found = suggestions(ROWS.schema, ROWS.to_batches())
    assert [each.fields for each in found if each.is_fit] == ['"Site"']
    assert all(each.typical >= COUNT // 4 for each in found if each.is_fit)


def test_columns_of_too_many_values_are_suggested_as_buckets_where_there_are_rows_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(definitions, "_BUCKET_ROWS", 10_000)
    parts = [pa.table({"id": pa.array(range(part * 7_000, (part + 1) * 7_000))}) for part in range(6)]
    found = suggestions(parts[0].schema, (batch for part in parts for batch in part.to_batches()))
    assert [(each.fields, each.tables, each.typical, each.is_fit) for each in found] == [
        ("bucket(4, id)", 4, 10_500, True)
    ]


def test_given_fields_are_counted_even_where_they_make_too_many_tables() -> None:
    found = {each.fields: each for each in suggestions(ROWS.schema, ROWS.to_batches(), "bucket(8, name)")}
    assert found["bucket(8, name)"].tables == 8
    found = {each.fields: each for each in suggestions(ROWS.schema, ROWS.to_batches(), "name")}
    assert COUNT > MOST_TABLES
    assert found["name"].tables is None
    assert "id" not in found


def test_fields_that_make_the_tables_of_a_part_of_them_are_left_out() -> None:
    rows = pa.table({"at": [START + timedelta(minutes=number) for number in range(1000)], "one": [1] * 1000})
    found = [each.fields for each in suggestions(rows.schema, rows.to_batches())]
    assert found == ["year(at)", "at", "one"]


@pytest.mark.parametrize("given", ["nothing", "month(celsius)", "month(at"])
def test_given_fields_that_cannot_be_are_refused(given: str) -> None:
    with pytest.raises(LanceFlightError):
        suggestions(ROWS.schema, [], given)


def test_no_rows_have_no_suggestion() -> None:
    assert not any(each.is_fit for each in suggestions(ROWS.schema, []))
