"""Pruning over whole namespaces: the spec's examples, several fields, several versions, and the reasons given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.errors import SqlError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec
from lance_flight.model.transforms import Bucket, Day, Hour, Identity, Month, MultiBucket, Truncate, Year
from lance_flight.planning.arrow_expression import to_arrow
from lance_flight.planning.partitions import MAX_COMBINATIONS
from lance_flight.planning.predicates import (
    ALWAYS,
    MAX_BRANCHES,
    NEVER,
    UNKNOWN,
    And,
    Column,
    IsNull,
    Opaque,
    Or,
    Predicate,
    StartsWith,
)
from lance_flight.planning.pruning import Pruning, SpecPartitions, Unresolved, prune

from tests.planning.planning_cases import X, among, at, compare, day, null, one_column, part, partitions, pruned
from tests.planning.planning_oracle import evaluate, field, split

APPENDIX_A = {
    "partition_spec_v1": {
        "id": 1,
        "fields": [
            {
                "field_id": "event_date",
                "source_ids": [1],
                "transform": {"type": "identity"},
                "result_type": {"type": "date32"},
            }
        ],
    },
    "partition_spec_v2": {
        "id": 2,
        "fields": [
            {
                "field_id": "event_year",
                "source_ids": [1],
                "transform": {"type": "year"},
                "result_type": {"type": "int32"},
            },
            {
                "field_id": "country",
                "source_ids": [2],
                "transform": {"type": "identity"},
                "result_type": {"type": "utf8"},
            },
        ],
    },
}
EVENTS = NamespaceSchema.assign(pa.schema({"id": pa.int64(), "event_date": pa.date32(), "country": pa.utf8()}))
V1, V2 = (PartitionSpec.from_json(text, key=key) for key, text in APPENDIX_A.items())
TABLES = [
    SpecPartitions(
        spec=V1,
        values=pa.table({"partition_field_event_date": [day("2025-12-10"), day("2025-12-11"), None]}),
    ),
    SpecPartitions(
        spec=V2,
        values=pa.table(
            {
                "partition_field_event_year": pa.array([2025, 2025, 2024, 2025, None], pa.int32()),
                "partition_field_country": ["US", "DE", "US", None, "US"],
            }
        ),
    ),
]
ON_THE_DAY = compare("=", day("2025-12-10"), Column("event_date"))
IN_THE_US = compare("=", "US", Column("country"))


def kept(found: Pruning) -> list[list[int]]:
    return [version.kept.tolist() for version in found.versions]


def test_appendix_d() -> None:
    found = prune(TABLES, EVENTS, And((ON_THE_DAY, IN_THE_US)), None)
    assert kept(found) == [[0], [0]]
    assert (found.scanned, found.total) == (2, 8)
    first, second = found.versions
    assert first.used == ("event_date = DATE '2025-12-10'",)
    assert [(each.predicate, each.why) for each in first.unused] == [
        ("country = 'US'", "v1 has no partition field over country")
    ]
    assert first.residual == IN_THE_US
    assert second.used == ("event_date = DATE '2025-12-10'", "country = 'US'")
    assert second.unused == ()
    assert second.residual == ON_THE_DAY


def test_compatibility_with_partition_pruning() -> None:
    assert kept(prune(TABLES, EVENTS, ON_THE_DAY, None)) == [[0], [0, 1, 3]]


@pytest.mark.parametrize(
    ("predicate", "expected", "residual"),
    [
        (ALWAYS, [[0, 1, 2], [0, 1, 2, 3, 4]], None),
        (NEVER, [[], []], None),
        (UNKNOWN, [[], []], None),
        (And((ON_THE_DAY, NEVER)), [[], []], None),
        (Or((ON_THE_DAY, ALWAYS)), [[0, 1, 2], [0, 1, 2, 3, 4]], None),
    ],
    ids=["TRUE", "FALSE", "NULL", "AND FALSE", "OR TRUE"],
)
def test_constants(predicate: Predicate, expected: list[list[int]], residual: Predicate | None) -> None:
    found = prune(TABLES, EVENTS, predicate, None)
    assert kept(found) == expected
    assert found.versions[0].residual == residual


def test_no_partitions_at_all() -> None:
    empty = SpecPartitions(spec=V2, values=TABLES[1].values.slice(0, 0))
    assert kept(prune([empty], EVENTS, And((ON_THE_DAY, IN_THE_US)), None)) == [[]]
    assert prune([], EVENTS, ON_THE_DAY, None).total == 0


# Two columns


PAIR = NamespaceSchema.assign(pa.schema({"a": pa.int64(), "b": pa.utf8(), "f": pa.float64()}))
A, B, F = Column("a"), Column("b"), Column("f")
PAIRS = pa.table({"a": [*range(40), None, None], "b": ["p", "q"] * 20 + ["p", None], "f": [1.5] * 42})
BY_BOTH = field("m", MultiBucket(64), 0, 1, result=pa.int32())


def left(fields: Sequence[PartitionField], predicate: Predicate, rows: pa.Table = PAIRS) -> tuple[set[int], set[int]]:
    """The partitions that are kept, and those of the rows that match."""
    parts = split(PartitionSpec(id=1, fields=tuple(fields)), PAIR, rows)
    found = pruned(parts.partitions, PAIR, predicate, evaluate)
    mask = rows.add_column(0, "row", pa.array(range(len(rows))))
    wanted = mask.filter(to_arrow(predicate))["row"].to_pylist()
    return set(found.kept.tolist()), parts.kept(wanted)


BOTH = [
    And((compare("=", 2, A), compare("=", "p", B))),
    And((compare("=", "p", B), Or((compare("=", 2, A), compare("=", 4, A))))),
    And((among(2, 4, 6, term=A), compare("=", "p", B), compare("<", 5, A))),
    Or((And((compare("=", 2, A), compare("=", "p", B))), And((compare("=", 3, A), compare("=", "q", B))))),
    And((null(term=A), compare("=", "p", B))),
    And((null(term=A), null(term=B))),
]


@pytest.mark.parametrize("predicate", BOTH, ids=map(str, BOTH))
def test_multi_bucket_from_values_of_all_its_sources(predicate: Predicate) -> None:
    found, wanted = left([BY_BOTH], predicate)
    assert wanted
    assert found == wanted


def test_multi_bucket_needs_every_source() -> None:
    parts = split(PartitionSpec(id=1, fields=(BY_BOTH,)), PAIR, PAIRS)
    found = pruned(parts.partitions, PAIR, compare("=", 2, A))
    assert len(found.kept) == found.total - 1  # a value of one source rules NULL out, which is NULL in all
    assert [each.why for each in found.unused] == ["multi_bucket(a, b, 64) needs = or IN on a and b"]


def test_multi_bucket_takes_a_source_from_the_identity_field_beside_it() -> None:
    fields = [field("b", Identity(), 1, result=pa.utf8()), BY_BOTH]
    found, wanted = left(fields, compare("=", 2, A))
    assert wanted <= found
    # Of each b there is one bucket that a = 2 can be in.
    assert len(found) <= 3


def test_two_fields_of_one_column_prune_together() -> None:
    fields = [field("t", Truncate(10), 0, result=pa.int64()), field("h", Bucket(7), 0, result=pa.int32())]
    found, wanted = left(fields, among(3, 15, 27, term=A))
    assert found == wanted


def test_fields_of_different_columns_prune_independently() -> None:
    fields = [field("b", Identity(), 1, result=pa.utf8()), field("h", Bucket(7), 0, result=pa.int32())]
    found, wanted = left(fields, And((compare("=", "p", B), compare("=", 4, A))))
    assert found == wanted


# Custom expressions


MODULO = field("e", Expression("col0 % 7"), 0, result=pa.int64())
JOINED = field("j", Expression("concat(col1, '-', CAST(col0 % 2 AS VARCHAR))"), 0, 1, result=pa.utf8())


@pytest.mark.parametrize(
    "predicate",
    [compare("=", 3, A), among(3, 15, term=A), null(term=A), And((compare(">", 3, A), compare("<", 6, A)))],
    ids=str,
)
def test_a_custom_expression_prunes_from_values(predicate: Predicate) -> None:
    found, wanted = left([MODULO], predicate)
    assert found == wanted


def test_a_custom_expression_over_two_columns() -> None:
    found, wanted = left([JOINED], And((compare("=", 3, A), compare("=", "q", B))))
    assert found == wanted


def test_expressions_are_computed_once_for_all_branches_and_versions() -> None:
    calls = []

    def counting(sql: str, columns: Sequence[pa.Array], result: pa.DataType) -> pa.Array:
        calls.append(len(columns[0]))
        return evaluate(sql, columns, result)

    parts = split(PartitionSpec(id=1, fields=(MODULO,)), PAIR, PAIRS).partitions
    branches = Or(tuple(And((compare("=", a, A), compare("=", b, B))) for a, b in [(1, "p"), (2, "q"), (3, "p")]))
    found = prune([parts, parts], PAIR, branches, counting)
    assert calls == [6]
    assert [len(version.kept) for version in found.versions] == [3, 3]


def _unresolved(*_: Any) -> pa.Array:
    raise Unresolved


def _failing(*_: Any) -> pa.Array:
    message = "no such function"
    raise SqlError(message)


@pytest.mark.parametrize(
    ("by", "predicate", "why"),
    [
        (None, compare("=", 3, A), "the expression of e cannot be computed here"),
        (_unresolved, compare("=", 3, A), "the values of e are not known yet"),
        (_failing, compare("=", 3, A), "the expression of e fails: no such function"),
        (evaluate, compare(">", 3, A), "e(a) needs = or IN on a"),
    ],
    ids=["no evaluator", "unresolved", "failing", "a range"],
)
def test_an_expression_that_is_not_known_prunes_nothing_and_says_why(by: Any, predicate: Predicate, why: str) -> None:
    parts = split(PartitionSpec(id=1, fields=(MODULO,)), PAIR, PAIRS).partitions
    found = pruned(parts, PAIR, predicate, by)
    assert len(found.kept) == found.total
    assert [each.why for each in found.unused] == [why]


def test_an_expression_over_zero_is_tried_with_both_signs() -> None:
    sign = field("z", Expression("CAST(col0 AS VARCHAR)"), 2, result=pa.utf8())
    rows = pa.table({"a": [1, 2, 3], "b": ["p"] * 3, "f": [0.0, -0.0, 1.0]})
    found, wanted = left([sign], compare("=", 0.0, F), rows)
    assert found == wanted
    assert len(found) == 2


# Time, all fields together


HOURS = pa.table(
    {"ts": pa.array(np.arange("2025-11-30", "2026-01-02", dtype="datetime64[h]").astype("datetime64[us]"))}
)
CLOCK = NamespaceSchema.assign(pa.schema({"ts": pa.timestamp("us")}))
LEVELS = {"year": Year(), "month": Month(), "day": Day(), "hour": Hour()}
TS = Column("ts")
FIRST_DRAFT = And((compare(">=", at("2025-12-10T10:00:00"), TS), compare("<", at("2025-12-11T00:00:00"), TS)))


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (["year", "month", "day", "hour"], [(2025, 12, 10, hour) for hour in range(10, 24)]),
        (["year", "month", "day"], [(2025, 12, 10)]),
        (["year", "month"], [(2025, 12)]),
        (["month", "day"], [(12, 10)]),
        (["year", "hour"], [(2025, hour) for hour in range(10, 24)]),
        (["hour", "day"], [(hour, 10) for hour in range(10, 24)]),
    ],
    ids=["ymdh", "ymd", "ym", "md", "yh", "hd"],
)
def test_a_range_leaves_its_hours_and_nothing_else(levels: list[str], expected: list[tuple[int, ...]]) -> None:
    spec = PartitionSpec(id=1, fields=tuple(field(name, LEVELS[name], 0, result=pa.int32()) for name in levels))
    parts = split(spec, CLOCK, HOURS).partitions
    found = pruned(parts, CLOCK, FIRST_DRAFT)
    values = parts.values.take(pa.array(found.kept))
    assert sorted(tuple(row.values()) for row in values.to_pylist()) == sorted(expected)
    assert found.unused == ()


def test_a_field_over_an_unconstrained_column_keeps_its_nulls() -> None:
    schema = NamespaceSchema.assign(pa.schema({"ts": pa.timestamp("us"), "a": pa.int64()}))
    rows = pa.table({"ts": pa.array([None, 0], pa.int64()).cast(pa.timestamp("us")), "a": [1, 1]})
    fields = (field("m", Month(), 0, result=pa.int32()), field("b", MultiBucket(8), 0, 1, result=pa.int32()))
    parts = split(PartitionSpec(id=1, fields=fields), schema, rows).partitions
    assert pruned(parts, schema, compare("=", 1, A)).kept.tolist() == [0, 1]


# Zones


def zoned(zone: str) -> NamespaceSchema:
    return one_column(pa.timestamp("us", zone))


YEARS = partitions([Year()], [pa.int32()], [2024, 2025, None])


@pytest.mark.parametrize(("local", "year"), [("2024-12-31T22:00:00-05:00", 0), ("2025-01-01T00:00:00-05:00", 1)])
@pytest.mark.parametrize("operator", ["=", ">="])
def test_partition_values_are_in_the_zone_of_the_column(local: str, year: int, operator: str) -> None:
    instant = pa.scalar(local).cast(pa.timestamp("us", "America/New_York"))
    kept = pruned(YEARS, zoned("America/New_York"), compare(operator, instant)).kept.tolist()
    assert kept == ([year] if operator == "=" else list(range(year, 2)))


def test_a_date_part_in_another_zone_prunes() -> None:
    assert pruned(YEARS, zoned("America/New_York"), compare("=", 2024, part("year"))).kept.tolist() == [0]


def test_a_zone_that_is_not_known_prunes_nothing_but_says_why() -> None:
    kind = pa.timestamp("us", "Europe/Atlantis")
    found = pruned(YEARS, zoned("Europe/Atlantis"), compare("=", 2024, part("year")))
    assert (len(found.kept), [each.why for each in found.unused]) == (
        3,
        ["the zone 'Europe/Atlantis' is not known here"],
    )
    found = pruned(YEARS, zoned("Europe/Atlantis"), compare(">", pa.scalar(0, pa.int64()).cast(kind)))
    assert found.kept.tolist() == [0, 1]
    assert [each.why for each in found.unused] == [f"the zone of {kind} is not known here"]


def test_a_date_part_in_utc_prunes() -> None:
    assert pruned(YEARS, zoned("UTC"), compare("=", 2024, part("year"))).kept.tolist() == [0]


def test_a_naive_literal_is_not_compared_with_a_zone() -> None:
    found = pruned(YEARS, zoned("UTC"), compare("=", at("2024-06-01T00:00:00")))
    assert len(found.kept) == 3
    assert [each.why for each in found.unused] == ["the literal is not compared exactly with timestamp[us, tz=UTC]"]


# Limits


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_timestamps_at_the_ends_of_int64(unit: str, value: int) -> None:
    kind = pa.timestamp(unit)
    rows = pa.table({"x": pa.array([value, 0], pa.int64()).view(kind)})
    schema = one_column(kind)
    literal = pa.scalar(value, pa.int64()).cast(kind)
    # Only nanoseconds end within the calendar; by month, the writer refuses the others.
    rules = [(Identity(), kind), (Bucket(5), pa.int32()), *([(Month(), pa.int32())] if unit == "ns" else [])]
    for rule, result in rules:
        parts = split(PartitionSpec(id=1, fields=(field("f", rule, 0, result=result),)), schema, rows)
        for op in ("=", "<=", ">="):
            assert int(parts.place[0]) in pruned(parts.partitions, schema, compare(op, literal)).kept


def test_more_combinations_than_allowed_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_flight.planning.pruning.MAX_COMBINATIONS", 8)
    assert MAX_COMBINATIONS > 8
    parts = split(PartitionSpec(id=1, fields=(MODULO, BY_BOTH)), PAIR, PAIRS).partitions
    predicate = And((among(*range(5), term=A), among("p", "q", term=B)))
    found = pruned(parts, PAIR, predicate, evaluate)
    # The expression alone has five points, and prunes; multi_bucket has ten.
    assert len(found.kept) < found.total
    assert [each.why for each in found.unused] == ["there are more than 8 values to try"]


def test_more_branches_than_allowed_prune_nothing_but_leave_the_others() -> None:
    many = Or(tuple(And((compare(">", i), compare("<", i + 1))) for i in range(MAX_BRANCHES + 1)))
    numbers = partitions([Identity()], [pa.int64()], [1, 2, 3])
    found = pruned(numbers, one_column(pa.int64()), And((many, compare("<=", 2))))
    assert found.kept.tolist() == [0, 1]
    assert [each.why for each in found.unused] == [f"it has more than {MAX_BRANCHES} alternatives"]
    assert found.residual == many


def test_a_long_list_is_one_branch() -> None:
    numbers = partitions([Identity()], [pa.int64()], list(range(1000)))
    either = Or(tuple(compare("=", i) for i in range(0, 1000, 2)))
    assert pruned(numbers, one_column(pa.int64()), either).kept.tolist() == list(range(0, 1000, 2))


def test_a_product_of_many_alternatives_still_prunes() -> None:
    numbers = partitions([Identity()], [pa.int64()], list(range(100)))
    ends = [Or((compare("<", i), compare(">", i + 60))) for i in range(0, 20, 2)]
    found = pruned(numbers, one_column(pa.int64()), And(tuple(ends)))
    assert found.kept.tolist() == [*range(79, 100)]
    assert found.unused == ()


# Reasons and residuals


REASONS = [
    (Bucket(16), pa.int32(), compare(">", 3), "bucket(x, 16) needs = or IN on x"),
    (Bucket(16), pa.int32(), compare("!=", 3), "bucket(x, 16) needs = or IN on x"),
    (Truncate(10), pa.int64(), compare("!=", 3), "truncate(x, 10) says nothing about excluded values"),
    (Identity(), pa.int64(), compare("=", 3, Column("y")), "y is not a column of the namespace"),
    (Identity(), pa.int64(), compare("=", "3"), "the literal is not compared exactly with int64"),
    (Identity(), pa.int64(), compare("=", 2.0**60), "the literal is not compared exactly with int64"),
    (Identity(), pa.int64(), StartsWith(X, "3"), "the literal is not compared exactly with int64"),
    (Identity(), pa.int64(), compare("=", 3, part("year")), "date_part of a int64 column is not known here"),
    (Identity(), pa.int64(), Opaque("f(x)", "it is a function"), "it is a function"),
    (Identity(), pa.int64(), Or((compare("=", 3), Opaque("f(x)", "it is one"))), "f(x): it is one"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "result", "predicate", "why"), REASONS, ids=[row[3] for row in REASONS])
def test_what_cannot_be_used_prunes_no_value_and_says_why(
    rule: Any, result: pa.DataType, predicate: Predicate, why: str
) -> None:
    found = pruned(partitions([rule], [result], [0, 10]), one_column(pa.int64()), predicate)
    assert len(found.kept) == found.total
    assert found.used == ()
    assert [(each.predicate, each.why) for each in found.unused] == [(str(predicate), why)]
    assert found.residual == predicate


def test_a_date_part_without_its_field_says_so() -> None:
    found = pruned(YEARS, one_column(pa.timestamp("us")), compare("=", 30, part("minute")))
    assert [each.why for each in found.unused] == ["year(x) does not keep the minute"]


@pytest.mark.parametrize(
    ("rule", "kind", "result", "predicate", "whole"),
    [
        (Identity(), pa.int64(), pa.int64(), And((compare(">", 1), compare("!=", 3))), True),
        (Identity(), pa.int64(), pa.int64(), Or((among(1, 3), null())), True),
        (Identity(), pa.int64(), pa.int64(), among(1, 3, negated=True), True),
        (Identity(), pa.float64(), pa.float64(), compare("=", 0.0), False),
        (Identity(), pa.date32(), pa.date32(), compare("=", 1970, part("year")), True),
        (Year(), pa.date32(), pa.int32(), compare("=", 1970, part("year")), True),
        (Year(), pa.date32(), pa.int32(), compare("=", day("1970-01-02")), False),
        (Bucket(4), pa.int64(), pa.int32(), compare("=", 1), False),
        (Bucket(4), pa.int64(), pa.int32(), null(negated=True), True),
        (Truncate(2), pa.int64(), pa.int64(), compare("=", 1), False),
    ],
)
def test_only_what_the_partitions_guarantee_leaves_the_residual(
    rule: Any, kind: pa.DataType, result: pa.DataType, predicate: Predicate, *, whole: bool
) -> None:
    values = [None] if pa.types.is_date(kind) and pa.types.is_date(result) else [0, 1, 3, None]
    found = pruned(partitions([rule], [result], values), one_column(kind), predicate)
    assert found.residual == (None if whole else predicate)


def test_columns_resolve_through_their_ids_after_a_rename() -> None:
    renamed = NamespaceSchema(pa.schema([EVENTS.arrow.field(i).with_name(n) for i, n in enumerate("uvw")]), 3)
    assert kept(prune(TABLES, renamed, compare("=", "US", Column("w")), None)) == [[0, 1, 2], [0, 2, 4]]


def test_a_removed_column_prunes_nothing() -> None:
    smaller = NamespaceSchema(pa.schema([PAIR.arrow.field(0)]), 3)
    parts = split(PartitionSpec(id=1, fields=(BY_BOTH, MODULO)), PAIR, PAIRS).partitions
    found = pruned(parts, smaller, compare("=", 2, A), evaluate)
    rows = parts.values.take(pa.array(found.kept))
    assert set(rows["partition_field_e"].to_pylist()) == {2}


def test_a_widened_column_is_compared_in_its_new_type() -> None:
    narrow = partitions([Identity(), Bucket(4)], [pa.int8(), pa.int32()], [(1, 0), (2, 1), (None, None)])
    schema = one_column(pa.int64())
    assert pruned(narrow, schema, compare(">", 1)).kept.tolist() == [1]
    assert pruned(narrow, schema, compare("=", 300)).kept.tolist() == []
    assert pruned(narrow, schema, IsNull(X)).kept.tolist() == [2]


def test_a_dictionary_column_is_compared_by_its_values() -> None:
    texts = partitions([Identity()], [pa.utf8()], ["a", "b", None])
    assert pruned(texts, one_column(pa.dictionary(pa.int32(), pa.utf8())), compare(">", "a")).kept.tolist() == [1]
