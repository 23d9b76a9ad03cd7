"""Tables in the order of a key: each order and each refusal by name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.model.transforms import Bucket, Day, Hour, Identity, Month, MultiBucket, Truncate, Year
from lance_flight.planning.joins import Groups, NotCopartitioned, Side, in_order

from tests.planning.join_cases import listed, side
from tests.planning.planning_cases import at, day

INT, TEXT, DATE, TIME = pa.int64(), pa.utf8(), pa.date32(), pa.timestamp("us")
D1, D2, D3 = day("2024-12-31"), day("2025-01-01"), day("2025-12-10")


def scan(kind: pa.DataType, *versions: tuple[list[Any], list[Any]]) -> Side:
    """A scan of tables by rules over its one key."""
    return side("t", {"k": kind}, *(([(rule, "k") for rule in rules], values) for rules, values in versions))


ORDERS: list[tuple[str, Side, tuple[str, ...], dict[tuple[Any, ...], list[Any]]]] = [
    ("identity", scan(INT, ([Identity()], [3, -1, 2])), ("identity(k)",), {(-1,): [[1]], (2,): [[2]], (3,): [[0]]}),
    ("identity of texts, by bytes", scan(TEXT, ([Identity()], ["é", "z", "Z", "\U0010ffff", "\uffff"])), ("identity(k)",),
     {("Z",): [[2]], ("z",): [[1]], ("é",): [[0]], ("\uffff",): [[4]], ("\U0010ffff",): [[3]]}),
    ("identity of decimals", scan(pa.decimal128(9, 2), ([Identity()], [Decimal("10.00"), Decimal("9.50")])), ("identity(k)",),
     {(Decimal("9.50"),): [[1]], (Decimal("10.00"),): [[0]]}),
    ("identity of times, and of nothing else", scan(TIME, ([Year(), Identity()], [(2025, at("2025-06-01").as_py()), (2024, at("2024-06-01").as_py())])), ("identity(k)",),
     {(at("2024-06-01").as_py(),): [[1]], (at("2025-06-01").as_py(),): [[0]]}),
    ("identity under a year", scan(DATE, ([Identity()], [D3, D1, D2]), ([Year()], [2026, 2025])), ("year(k)",),
     {(2024,): [[[1], []]], (2025,): [[[0, 2], [1]]], (2026,): [[[], [0]]]}),
    ("year", scan(TIME, ([Bucket(4), Year()], [(0, 2025), (1, 1969), (1, 2025)])), ("year(k)",), {(1969,): [[1]], (2025,): [[0, 2]]}),
    ("year and month", scan(TIME, ([Month(), Year()], [(1, 2025), (12, 2024), (2, 2025)])), ("year(k)", "month(k)"),
     {(2024, 12): [[1]], (2025, 1): [[0]], (2025, 2): [[2]]}),
    ("year and day, without the month", scan(TIME, ([Year(), Day()], [(2025, 1), (2025, 2)])), ("year(k)",), {(2025,): [[0, 1]]}),
    ("year, month, day and hour", scan(TIME, ([Year(), Month(), Day(), Hour()], [(2025, 1, 2, 3), (2025, 1, 2, 1), (2025, 1, 1, 23)])), ("year(k)", "month(k)", "day(k)", "hour(k)"),
     {(2025, 1, 1, 23): [[2]], (2025, 1, 2, 1): [[1]], (2025, 1, 2, 3): [[0]]}),
    ("year, month and day beside year and month", scan(TIME, ([Year(), Month(), Day()], [(2025, 1, 9), (2025, 1, 2)]), ([Year(), Month()], [(2024, 2)])), ("year(k)", "month(k)"),
     {(2024, 2): [[[], [0]]], (2025, 1): [[[0, 1], []]]}),
    ("truncated numbers", scan(INT, ([Truncate(10)], [10, -10, 0])), ("truncate(k, 10)",), {(-10,): [[1]], (0,): [[2]], (10,): [[0]]}),
    ("truncated texts", scan(TEXT, ([Truncate(1)], ["é", "z", ""])), ("truncate(k, 1)",), {("",): [[2]], ("z",): [[1]], ("é",): [[0]]}),
    ("no tables", scan(INT, ([Bucket(4)], [])), (), {}),
]  # fmt: skip


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize(("only", "by", "groups"), [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_orders(only: Side, by: tuple[str, ...], groups: dict[tuple[Any, ...], list[Any]], descending: bool) -> None:  # noqa: FBT001
    found = in_order(only, descending=descending, nulls_first=False)
    assert isinstance(found, Groups)
    assert found.by == by
    assert list(listed(found).items()) == (list(groups.items())[::-1] if descending else list(groups.items()))


@pytest.mark.parametrize(
    ("descending", "nulls_first", "years"),
    [
        (False, False, [2024, 2025, None]),
        (False, True, [None, 2024, 2025]),
        (True, False, [2025, 2024, None]),
        (True, True, [None, 2025, 2024]),
    ],
)
def test_nulls_stand_where_they_are_asked_to(descending: bool, nulls_first: bool, years: list[int | None]) -> None:  # noqa: FBT001
    found = in_order(scan(DATE, ([Year()], [2025, None, 2024])), descending=descending, nulls_first=nulls_first)
    assert [values[0] for values in listed(found)] == years


NAN = "NaN has no one place in its order"
REFUSALS: list[tuple[str, Side, str]] = [
    ("floats", scan(pa.float64(), ([Identity()], [1.0])), f"k of t is double: {NAN}"),
    ("truncated floats", scan(pa.float32(), ([Truncate(2)], [None])), f"k of t is float: {NAN}"),
    ("months alone", scan(DATE, ([Month()], [1])), "month(k) of t does not follow the order of k"),
    ("months and days", scan(DATE, ([Month(), Day()], [(1, 1)])), "month(k), day(k) of t does not follow the order of k"),
    ("buckets", scan(INT, ([Bucket(4)], [1])), "bucket(k, 4) of t does not follow the order of k"),
    ("versions with nothing in common", scan(DATE, ([Year()], [2025]), ([Month()], [1])),
     "year(k) of t v1 and month(k) of t v2: month alone does not determine a year"),
    ("versions with no order in common", scan(DATE, ([Year(), Bucket(2)], [(2025, 1)]), ([Bucket(4)], [1])), "bucket(k, 2) of t does not follow the order of k"),
    ("another column", side("t", {"k": INT, "v": INT}, ([(MultiBucket(4), "k", "v")], [1])),
     "t has no partition field of k alone (multi_bucket(k, v, 4): it is not of keys alone)"),
    ("two keys", side("t", {"k": INT, "v": INT}, ([(Identity(), "k")], [1]), keys=["k", "v"]), "an order of t by 2 keys; expected one"),
    ("nested", side("t", {"k": pa.list_(INT), "v": INT}, ([(Identity(), "v")], [1])), "k of t is list<item: int64>, which is not compared"),
]  # fmt: skip


@pytest.mark.parametrize(("only", "why"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusals(only: Side, why: str) -> None:
    assert in_order(only, descending=False, nulls_first=False) == NotCopartitioned(why)
