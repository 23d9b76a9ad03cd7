"""Appendix F as data, and each rule and each refusal of the matching by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.model.hashing import bucket, murmur3, murmur3_multi
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression
from lance_flight.model.transforms import Bucket, Day, Hour, Identity, Month, MultiBucket, Truncate, Year
from lance_flight.planning.joins import Groups, NotCopartitioned, Side, match
from lance_flight.planning.partitions import Partitions, SpecPartitions, Unresolved

from tests.planning.join_cases import listed, side
from tests.planning.planning_cases import day
from tests.planning.planning_oracle import evaluate

INT, TEXT, DATE, TIME, FLOAT = pa.int64(), pa.utf8(), pa.date32(), pa.timestamp("us"), pa.float64()

APPENDIX_F = {0: [0, 8], 1: [1, 9], 2: [2, 10], 3: [3, 11], 4: [4, 12], 5: [5, 13], 6: [6, 14], 7: [7, 15]}


def test_appendix_f() -> None:
    orders = side(
        "orders", {"o": INT, "customer_id": INT}, ([(Bucket(16), "customer_id")], range(16)), keys=["customer_id"]
    )
    customers = side("customers", {"id": INT, "name": TEXT}, ([(Bucket(8), "id")], range(8)), keys=["id"])
    found = match([orders, customers], None, inner=True)
    assert listed(found) == {(i,): [buckets, [i]] for i, buckets in APPENDIX_F.items()}
    assert isinstance(found, Groups)
    assert found.by == ("bucket(customer_id, 8)",)


Version = tuple[Sequence[Any], Sequence[Any]]


def keyed(name: str, kind: pa.DataType, *versions: Version) -> Side:
    """A side of one key, whose fields are rules over it."""
    return side(name, {"k": kind}, *(([_over(rule, "k") for rule in rules], values) for rules, values in versions))


def paired(name: str, *versions: Version, kinds: tuple[pa.DataType, ...] = (INT, INT)) -> Side:
    """A side of the keys a and b; its fields are (rule, columns …)."""
    return side(name, dict(zip("ab", kinds, strict=True)), *versions, keys=["a", "b"])


def tripled(name: str, by: str) -> Side:
    """A side of three keys with the identity of some."""
    return side(name, dict.fromkeys("xyz", INT), ([(Identity(), key) for key in by], [(1, 1)]), keys=["x", "y", "z"])


def _over(rule: Any, column: str) -> tuple[Any, ...]:
    return (rule[0], column, *rule[1:]) if isinstance(rule, tuple) else (rule, column)


def hashed(value: Any, count: int) -> int:
    return int(bucket(murmur3(pa.array([value])), count)[0].as_py())


D1, D2, D3 = day("2024-12-31"), day("2025-01-01"), day("2025-12-10")
MOD3 = (Expression("col0 % 3"), INT)
NY, PARIS = pa.timestamp("us", "America/New_York"), pa.timestamp("us", "Europe/Paris")
NOON = dt.datetime(2025, 1, 1, 12, tzinfo=dt.UTC)
MONEY = (Decimal("1.00"), Decimal("2.50"))

Groups_ = dict[tuple[Any, ...], list[Any]]
MATCHES: list[tuple[str, list[Side], tuple[str, ...], Groups_]] = [
    ("identity of two widths, NULL last", [keyed("a", pa.int32(), ([Identity()], [None, 2, 1])), keyed("b", INT, ([Identity()], [3, 2]))], ("identity(k)",),
     {(1,): [[2], []], (2,): [[1], [1]], (3,): [[], [0]], (None,): [[0], []]}),
    ("identity of unsigned and signed", [keyed("a", pa.uint64(), ([Identity()], [2**64 - 1, 7])), keyed("b", INT, ([Identity()], [-1, 7]))], ("identity(k)",),
     {(-1,): [[], [0]], (7,): [[1], [1]], (2**64 - 1,): [[0], []]}),
    ("identity of texts in three layouts", [keyed("a", TEXT, ([Identity()], ["é", "z"])), keyed("b", pa.large_utf8(), ([Identity()], ["z"])), keyed("c", pa.dictionary(pa.int8(), TEXT), ([Identity()], ["é", ""]))], ("identity(k)",),
     {("",): [[], [], [1]], ("z",): [[1], [0], []], ("é",): [[0], [], [0]]}),
    ("identity of two widths of floats", [keyed("a", pa.float32(), ([Identity()], [np.float32(0.1), np.float32(1.5)])), keyed("b", FLOAT, ([Identity()], [0.1, 1.5]))], ("identity(k)",),
     {(0.1,): [[], [0]], (float(np.float32(0.1)),): [[0], []], (1.5,): [[1], [1]]}),
    ("identity of two precisions of decimals", [keyed("a", pa.decimal128(9, 2), ([Identity()], MONEY)), keyed("b", pa.decimal256(50, 2), ([Identity()], MONEY[1:]))], ("identity(k)",),
     {(MONEY[0],): [[0], []], (MONEY[1],): [[1], [0]]}),
    ("identity of dates in days and in milliseconds", [keyed("a", DATE, ([Identity()], [D1, D2])), keyed("b", pa.date64(), ([Identity()], [D2]))], ("identity(k)",),
     {(D1,): [[0], []], (D2,): [[1], [0]]}),
    ("identity of instants in two zones", [keyed("a", NY, ([Identity()], [NOON])), keyed("b", PARIS, ([Identity()], [NOON]))], ("identity(k)",),
     {(NOON,): [[0], [0]]}),
    ("years of one zone by two names", [keyed("a", NY, ([Year()], [2024])), keyed("b", pa.timestamp("us", "US/Eastern"), ([Year()], [2024, 2025]))], ("year(k)",),
     {(2024,): [[0], [0]], (2025,): [[], [1]]}),
    ("the same year", [keyed("a", DATE, ([Year()], [2025, 2024])), keyed("b", DATE, ([Year()], [2024, None]))], ("year(k)",),
     {(2024,): [[1], [0]], (2025,): [[0], []], (None,): [[], [1]]}),
    ("the same month, whatever the year", [keyed("a", DATE, ([Month()], [1])), keyed("b", DATE, ([Year(), Month()], [(2024, 1), (2025, 1)]))], ("month(k)",),
     {(1,): [[0], [0, 1]]}),
    ("the same width", [keyed("a", pa.int8(), ([Truncate(10)], [-10, 0])), keyed("b", INT, ([Truncate(10)], [0, 10]))], ("truncate(k, 10)",),
     {(-10,): [[0], []], (0,): [[1], [0]], (10,): [[], [1]]}),
    ("three bucket counts", [keyed("a", INT, ([Bucket(8)], [1, 5, 6])), keyed("b", INT, ([Bucket(4)], [1, 2])), keyed("c", INT, ([Bucket(16)], [13, 2]))], ("bucket(k, 4)",),
     {(1,): [[0, 1], [0], [0]], (2,): [[2], [1], [1]]}),
    ("the finest count of several", [keyed("a", INT, ([Bucket(2), Bucket(12), Bucket(4)], [(1, 5, 1)])), keyed("b", INT, ([Bucket(12), Bucket(4)], [(5, 1)]))], ("bucket(k, 12)",),
     {(5,): [[0], [0]]}),
    ("a bucket and a multi_bucket of one column", [keyed("a", INT, ([Bucket(4)], [3])), keyed("b", INT, ([MultiBucket(8)], [7, 2]))], ("bucket(k, 4)",),
     {(2,): [[], [1]], (3,): [[0], [0]]}),
    ("multi_buckets in one order of the keys", [paired("a", ([(MultiBucket(4), "b", "a")], [3])), paired("b", ([(MultiBucket(8), "b", "a")], [7, 3]))], ("multi_bucket(b, a, 4)",),
     {(3,): [[0], [0, 1]]}),
    ("equal expressions", [keyed("a", INT, ([MOD3], [0, 1])), keyed("b", INT, ([MOD3], [1, None]))], ("custom_k_0(k)",),
     {(0,): [[0], []], (1,): [[1], [0]], (None,): [[], [1]]}),
    ("an identity under a year", [keyed("a", DATE, ([Identity()], [D1, D2, D3, None])), keyed("b", DATE, ([Year()], [2025]))], ("year(k)",),
     {(2024,): [[0], []], (2025,): [[1, 2], [0]], (None,): [[3], []]}),
    ("an identity under a year and a month", [keyed("a", DATE, ([Year(), Month()], [(2025, 1), (2025, 12)])), keyed("b", DATE, ([Identity()], [D2, D3, D1]))], ("year(k)", "month(k)"),
     {(2024, 12): [[], [2]], (2025, 1): [[0], [0]], (2025, 12): [[1], [1]]}),
    ("an identity under a bucket", [keyed("a", pa.int32(), ([Identity()], [7, None])), keyed("b", INT, ([Bucket(4)], [hashed(7, 4)]))], ("bucket(k, 4)",),
     {(hashed(7, 4),): [[0], [0]], (None,): [[1], []]}),
    ("an identity under a width", [keyed("a", TEXT, ([Identity()], ["abc", "b"])), keyed("b", TEXT, ([Truncate(1)], ["a"]))], ("truncate(k, 1)",),
     {("a",): [[0], [0]], ("b",): [[1], []]}),
    ("an identity under an expression", [keyed("a", INT, ([Identity()], [7, 9])), keyed("b", INT, ([MOD3], [1]))], ("custom_k_0(k)",),
     {(0,): [[1], []], (1,): [[0], [0]]}),
    ("two identities under a multi_bucket", [paired("a", ([(Identity(), "a"), (Identity(), "b")], [(1, 2)])), paired("b", ([(MultiBucket(4), "a", "b")], [0, 1, 2, 3]))], ("multi_bucket(a, b, 4)",),
     {(n,): [[0] if n == bucket(murmur3_multi([pa.array([1]), pa.array([2])]), 4)[0].as_py() else [], [n]] for n in range(4)}),
    ("year, month and day under year and month under year", [keyed("a", TIME, ([Year(), Month(), Day()], [(2025, 1, 1), (2025, 2, 1), (2024, 1, 1)])), keyed("b", TIME, ([Year(), Month()], [(2025, 3)])), keyed("c", TIME, ([Year()], [2024]))], ("year(k)",),
     {(2024,): [[2], [], [0]], (2025,): [[0, 1], [0], []]}),
    ("year, month and day under year and month", [keyed("a", TIME, ([Year(), Month(), Day(), Hour()], [(2025, 1, 1, 0), (2025, 1, 2, 0)])), keyed("b", TIME, ([Year(), Month(), Day()], [(2025, 1, 2)]))], ("year(k)", "month(k)", "day(k)"),
     {(2025, 1, 1): [[0], []], (2025, 1, 2): [[1], [0]]}),
    ("identities make all else of their keys useless", [keyed("a", DATE, ([Year(), Identity(), Bucket(8)], [(2025, D2, 1)])), keyed("b", DATE, ([Bucket(8), Identity(), Year()], [(1, D2, 2025)]))], ("identity(k)",),
     {(D2,): [[0], [0]]}),
    ("an identity of one key beside a bucket of both", [paired("a", ([(Identity(), "a"), (MultiBucket(2), "a", "b")], [(1, 0), (1, None), (2, 0)])), paired("b", ([(Identity(), "a"), (MultiBucket(2), "a", "b")], [(1, 0)]))], ("identity(a)", "multi_bucket(a, b, 2)"),
     {(1, 0): [[0], [0]], (1, None): [[1], []], (2, 0): [[2], []]}),
    ("fields of other columns do not count", [side("a", {"k": INT, "v": INT}, ([(Identity(), "v"), (Identity(), "k"), (MultiBucket(4), "k", "v")], [(9, 1, 0), (8, 1, 1)])), keyed("b", INT, ([Identity()], [1]))], ("identity(k)",),
     {(1,): [[0, 1], [0]]}),
    ("versions of one bucket count and a multiple", [keyed("a", INT, ([Bucket(4)], [1]), ([Bucket(8)], [5, 2])), keyed("b", INT, ([Bucket(4)], [1]))], ("bucket(k, 4)",),
     {(1,): [[[0], [0]], [0]], (2,): [[[], [1]], []]}),
    ("versions of which one has no tables", [keyed("a", DATE, ([Month()], []), ([Year()], [2025])), keyed("b", DATE, ([Year()], [2025]))], ("year(k)",),
     {(2025,): [[[], [0]], [0]]}),
    ("one side", [keyed("a", INT, ([Bucket(4)], [1, 2]), ([Bucket(2)], [1]))], ("bucket(k, 2)",),
     {(0,): [[[1], []]], (1,): [[[0], [0]]]}),
    ("a side without tables", [keyed("a", INT, ([Bucket(4)], [1, 2])), keyed("b", INT, ([Bucket(3)], []))], ("bucket(k, 4)",),
     {(1,): [[0], []], (2,): [[1], []]}),
    ("no tables at all", [keyed("a", INT, ([Bucket(4)], [])), keyed("b", INT, ([Bucket(3)], []))], (), {}),
    ("one column that is two keys", [side("a", {"k": INT}, ([(Identity(), "k")], [1, 2]), keys=["k", "k"]), paired("b", ([(Identity(), "a"), (Identity(), "b")], [(1, 1), (1, 2)]))], ("identity(k)", "identity(k)"),
     {(1, 1): [[0], [0]], (1, 2): [[], [1]], (2, 2): [[1], []]}),
]  # fmt: skip


@pytest.mark.parametrize(("sides", "by", "groups"), [case[1:] for case in MATCHES], ids=[case[0] for case in MATCHES])
def test_groups(sides: list[Side], by: tuple[str, ...], groups: Groups_) -> None:
    found = match(sides, evaluate, inner=False)
    assert listed(found) == groups
    assert list(listed(found)) == list(groups)
    assert isinstance(found, Groups)
    assert found.by == by


INNER: list[tuple[str, list[Side], Groups_]] = [
    ("NULL finds nothing", [keyed("a", INT, ([Identity()], [None, 1])), keyed("b", INT, ([Identity()], [1, None]))], {(1,): [[1], [0]]}),
    ("NULL of an expression may be of any key", [keyed("a", INT, ([MOD3], [None, 1])), keyed("b", INT, ([MOD3], [1, None]))], {(1,): [[1], [0]], (None,): [[0], [1]]}),
    ("one side has nothing", [keyed("a", INT, ([Bucket(4)], [0, 1])), keyed("b", INT, ([Bucket(4)], [1, 2])), keyed("c", INT, ([Bucket(2)], [1]))], {(1,): [[1], [0], [0]]}),
    ("a side without tables", [keyed("a", INT, ([Bucket(4)], [1, 2])), keyed("b", INT, ([Bucket(4)], []))], {}),
    ("no group is left", [keyed("a", INT, ([Bucket(4)], [1, 2])), keyed("b", INT, ([Bucket(4)], [0, None]))], {}),
]  # fmt: skip


@pytest.mark.parametrize(("sides", "groups"), [case[1:] for case in INNER], ids=[case[0] for case in INNER])
def test_inner_groups(sides: list[Side], groups: Groups_) -> None:
    assert listed(match(sides, evaluate, inner=True)) == groups


def test_inner_joins_go_version_by_version_where_these_have_nothing_in_common() -> None:
    by_day = ([Identity()], [D1, D2, D3])
    events = keyed(
        "events",
        DATE,
        ([Year(), Bucket(2)], [(2024, hashed(D1, 2)), (2025, hashed(D2, 2))]),
        ([Bucket(6)], [hashed(D3, 6)]),
    )
    visits = keyed("visits", DATE, ([Year()], [2025]), by_day)
    found = match([events, visits], None, inner=True)
    assert isinstance(found, NotCopartitioned)
    assert found.why == "bucket(k, 6) of events v2 and year(k) of visits v1: neither determines the other"

    visits = keyed("visits", DATE, ([Bucket(2), Month()], [(hashed(D1, 2), 12)]), ([Month()], []), by_day)
    days = keyed("days", DATE, ([Month()], [1, 12]), ([Bucket(6)], [hashed(D1, 6), hashed(D3, 6)]))
    found = match([days, visits], None, inner=True)
    assert isinstance(found, Groups)
    assert found.by == (
        "days v1 with visits v1: month(k)",
        "days v1 with visits v3: month(k)",
        "days v2 with visits v1: bucket(k, 2)",
        "days v2 with visits v3: bucket(k, 6)",
    )
    assert isinstance(match([days, visits], None, inner=False), NotCopartitioned)


HOUR = pa.timestamp("ms", "UTC")
LOSS = "these are not compared without loss"
REFUSALS: list[tuple[str, list[Side], str]] = [
    ("bucket counts", [side("orders", {"id": INT}, ([(Bucket(12), "id")], [1]), keys=["id"]), side("customers", {"id": INT}, ([(Bucket(8), "id")], [1]), keys=["id"])],
     "bucket(id, 12) of orders and bucket(id, 8) of customers: neither count divides the other"),
    ("bucket counts of versions", [keyed("a", INT, ([Bucket(12)], [1]), ([Bucket(8)], [1])), keyed("b", INT, ([Identity()], [1]))],
     "bucket(k, 12) of a v1 and bucket(k, 8) of a v2: neither count divides the other"),
    ("multi_bucket counts", [paired("a", ([(MultiBucket(4), "a", "b")], [3])), paired("b", ([(MultiBucket(6), "a", "b")], [3]))],
     "multi_bucket(a, b, 4) of a and multi_bucket(a, b, 6) of b: neither count divides the other"),
    ("multi_bucket order", [paired("a", ([(MultiBucket(4), "a", "b")], [3])), paired("b", ([(MultiBucket(4), "b", "a")], [3]))],
     "multi_bucket(a, b, 4) of a and multi_bucket(b, a, 4) of b: their keys stand in another order"),
    ("a month and a year", [keyed("a", DATE, ([Month()], [1])), keyed("b", DATE, ([Year()], [2025]))],
     "month(k) of a and year(k) of b: month alone does not determine a year"),
    ("a day and an hour", [keyed("a", TIME, ([Day()], [1])), keyed("b", TIME, ([Hour()], [1]))],
     "day(k) of a and hour(k) of b: hour alone does not determine a day"),
    ("widths", [keyed("a", INT, ([Truncate(10)], [0])), keyed("b", INT, ([Truncate(5)], [0]))],
     "truncate(k, 10) of a and truncate(k, 5) of b: their widths differ"),
    ("widths of floats, which round differently", [keyed("a", FLOAT, ([Truncate(10)], [0.0])), keyed("b", pa.float32(), ([Truncate(10)], [np.float32(0)]))],
     "truncate(k, 10) of a and truncate(k, 10) of b: their columns are of different types"),
    ("expressions", [keyed("a", INT, ([MOD3], [0])), keyed("b", INT, ([(Expression("col0 % 4"), INT)], [0]))],
     "custom_k_0(k) of a and custom_k_0(k) of b: the expressions differ"),
    ("expressions of different types", [keyed("a", INT, ([MOD3], [0])), keyed("b", pa.int32(), ([MOD3], [0]))],
     "custom_k_0(k) of a and custom_k_0(k) of b: their columns are of different types"),
    ("expressions of floats", [keyed("a", FLOAT, ([MOD3], [0]))],
     "a has no partition field of k alone (custom_k_0(k): an expression may tell 0.0 from −0.0, and one NaN from another)"),
    ("different transforms", [keyed("a", DATE, ([Year()], [2025])), keyed("b", DATE, ([Bucket(4)], [0]))],
     "year(k) of a and bucket(k, 4) of b: neither determines the other"),
    ("different keys", [paired("a", ([(Identity(), "a")], [1])), paired("b", ([(Identity(), "b")], [1]))],
     "identity(a) of a and identity(b) of b: these are of different keys"),
    ("an identity of one key of two", [paired("a", ([(Identity(), "a")], [1])), paired("b", ([(MultiBucket(4), "a", "b")], [1]))],
     "identity(a) of a and multi_bucket(a, b, 4) of b: neither determines the other"),
    ("each two have something in common, all three nothing", [tripled("t", "xy"), tripled("u", "yz"), tripled("v", "xz")],
     "u does not determine identity(x) of t; v does not determine identity(y) of t; t does not determine identity(z) of u"),
    ("columns that are no keys", [side("a", {"k": INT, "v": INT}, ([(Identity(), "v")], [1])), keyed("b", INT, ([Identity()], [1]))],
     "a has no partition field of k alone"),
    ("columns of which some are no keys", [side("a", {"k": INT, "v": INT}, ([(MultiBucket(4), "k", "v")], [1])), keyed("b", INT, ([Identity()], [1]))],
     "a has no partition field of k alone (multi_bucket(k, v, 4): it is not of keys alone)"),
    ("dates and other integers", [keyed("a", DATE, ([Identity()], [D1])), keyed("b", INT, ([Identity()], [1]))],
     f"k of a is date32[day] and k of b is int64: {LOSS}"),
    ("integers and floats", [keyed("a", INT, ([Identity()], [1])), keyed("b", FLOAT, ([Identity()], [1.0]))],
     f"k of a is int64 and k of b is double: {LOSS}"),
    ("scales", [keyed("a", pa.decimal128(9, 2), ([Bucket(4)], [1])), keyed("b", pa.decimal128(9, 3), ([Bucket(4)], [1]))],
     f"k of a is decimal128(9, 2) and k of b is decimal128(9, 3): {LOSS}"),
    ("units", [keyed("a", pa.timestamp("us", "UTC"), ([Year()], [1])), keyed("b", HOUR, ([Year()], [1]))],
     f"k of a is timestamp[us, tz=UTC] and k of b is timestamp[ms, tz=UTC]: {LOSS}"),
    ("a zone on one side", [keyed("a", TIME, ([Year()], [1])), keyed("b", NY, ([Year()], [1]))],
     f"k of a is timestamp[us] and k of b is timestamp[us, tz=America/New_York]: {LOSS}"),
    ("years of two zones", [keyed("a", NY, ([Year()], [1])), keyed("b", PARIS, ([Year()], [1]))],
     "year(k) of a and year(k) of b: their columns are of different zones"),
    ("an identity under the hour of another zone", [keyed("a", NY, ([Identity()], [NOON])), keyed("b", PARIS, ([Hour()], [13]))],
     "identity(k) of a and hour(k) of b: neither determines the other"),
    ("times of day and timestamps", [keyed("a", TIME, ([Bucket(2)], [1])), keyed("b", pa.time64("us"), ([Bucket(2)], [1]))],
     f"k of a is timestamp[us] and k of b is time64[us]: {LOSS}"),
    ("nested keys", [keyed("a", pa.list_(INT), ([MOD3], [1]))], "k of a is list<item: int64>, which is not compared"),
    ("no keys", [side("a", {"k": INT}, ([(Identity(), "k")], [1]), keys=[])], "there are no keys"),
]  # fmt: skip


@pytest.mark.parametrize("inner", [False, True], ids=["outer", "inner"])
@pytest.mark.parametrize(("sides", "why"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusals(sides: list[Side], why: str, inner: bool) -> None:  # noqa: FBT001
    if inner and len(sides[0].kept) > 1:
        return  # version by version there is an answer
    assert match(sides, evaluate, inner=inner) == NotCopartitioned(why)


def test_more_than_sixteen_combinations_of_versions_are_not_tried() -> None:
    days = keyed("days", DATE, *[([Month()], [1])] * 4, ([Year(), Month()], [(2025, 1)]))
    one_too_many = keyed("visits", DATE, *[([Month()], [1])] * 3, ([Bucket(2)], [1]))
    assert match([days, one_too_many], None, inner=True) == NotCopartitioned(
        "month(k) of days v1 and bucket(k, 2) of visits v4: neither determines the other; "
        "month(k) of days v2 and bucket(k, 2) of visits v4: neither determines the other; "
        "month(k) of days v3 and bucket(k, 2) of visits v4: neither determines the other; "
        "month(k) of days v4 and bucket(k, 2) of visits v4: neither determines the other; "
        "and their versions make more than 16 combinations"
    )


def test_one_side_is_not_matched_version_by_version() -> None:
    days = keyed("days", DATE, ([Month()], [1]), ([Year()], [2025]))
    assert match([days], None, inner=True) == NotCopartitioned(
        "month(k) of days v1 and year(k) of days v2: month alone does not determine a year"
    )


def test_a_table_that_is_joined_with_itself() -> None:
    days = keyed("days", DATE, ([Month()], [1, 2]))
    assert listed(match([days, days], None, inner=True)) == {(1,): [[0], [0]], (2,): [[1], [1]]}


def test_only_the_tables_that_are_read_are_in_groups() -> None:
    whole = keyed("a", INT, ([Identity()], [4, 3, 2, 1]), ([Bucket(3)], [0]))
    read = replace(whole, kept=(np.array([1, 3]), np.array([], np.int64)))
    assert listed(match([read], None, inner=False)) == {(1,): [[[3], []]], (3,): [[[1], []]]}


def test_an_expression_that_cannot_be_computed_is_a_reason() -> None:
    sides = [keyed("a", INT, ([Identity()], [7])), keyed("b", INT, ([MOD3], [1]))]

    def later(sql: str, columns: Sequence[pa.Array], result: pa.DataType) -> pa.Array:
        raise Unresolved(f"{sql} is noted")

    found = [match(sides, one, inner=False) for one in (None, later)]
    assert found == [
        NotCopartitioned("custom_k_0(k) of a cannot be computed: there is nothing here that computes expressions"),
        NotCopartitioned("custom_k_0(k) of a cannot be computed: col0 % 3 is noted"),
    ]


def test_a_removed_column_groups_nothing() -> None:
    orders = paired("orders", ([(MultiBucket(4), "a", "b")], [1]))
    fewer = NamespaceSchema(pa.schema([orders.schema.arrow.field("a")]), 2)
    removed = replace(orders, schema=fewer, keys=(0,))
    why = "orders has no partition field of a alone (multi_bucket(a, removed column 1, 4): it is not of keys alone)"
    assert match([removed], None, inner=True) == NotCopartitioned(why)
    assert match([replace(removed, keys=(1,))], None, inner=True) == NotCopartitioned(
        "orders has no column with the id 1"
    )


def test_values_that_python_does_not_have_are_shown_as_text() -> None:
    far = side("a", {"k": DATE}, ([(Identity(), "k")], [None]))
    values = pa.table(
        {name: pa.array([10**7], pa.int32()).view(DATE) for name in far.partitions.versions[0].values.column_names}
    )
    versions = [replace(far.partitions.versions[0], values=values)]
    found = match([replace(far, partitions=Partitions.together(versions))], None, inner=False)
    assert listed(found) == {("29349-01-26",): [[0]]}


@pytest.mark.parametrize(
    ("stored", "column", "why"),
    [
        (pa.float32(), FLOAT, "its values are float, those of the column double"),
        (DATE, pa.date64(), "its values are date32[day], those of the column date64[ms]"),
        (TEXT, INT, "its values are string, those of the column int64"),
        (TIME, NY, "its values are timestamp[us], those of the column timestamp[us, tz=America/New_York]"),
    ],
    ids=["narrower floats", "days of milliseconds", "text of numbers", "no zone"],
)
def test_partition_values_of_a_type_that_loses_something_are_not_relied_on(
    stored: pa.DataType, column: pa.DataType, why: str
) -> None:
    table = keyed("a", column, ([Identity()], [None]))
    (one,) = table.partitions.versions
    fields = tuple(replace(each, result_type=stored) for each in one.spec.fields)
    values = one.values.cast(pa.schema([(fields[0].column, stored)]))
    changed = SpecPartitions(spec=replace(one.spec, fields=fields), values=values)
    found = match([replace(table, partitions=Partitions.together([changed]))], None, inner=False)
    assert found == NotCopartitioned(f"a has no partition field of k alone (identity(k): {why})")
