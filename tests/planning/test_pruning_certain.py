"""Partitions all of whose rows match a filter, by their values or by what is known beside it: they are read without it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.model.transforms import Identity, Month, Truncate, Year
from lance_flight.planning.predicates import ALWAYS, NEVER, UNKNOWN, And, Opaque, Or, Predicate, StartsWith
from lance_flight.planning.pruning import SpecPartitions, prune

from tests.planning.planning_cases import X, among, at, compare, null, one_column, part, partitions, pruned

TIME, INT = pa.timestamp("us"), pa.int32()
MONTHS = partitions(
    [Year(), Month()], [INT, INT], [(1995, 1), (1995, 2), (1995, 3), (1996, 1), (1996, 2), (None, None)]
)
TENS = partitions([Truncate(10)], [pa.int64()], [0, 10, 20, None])
INITIALS = partitions([Truncate(1)], [pa.utf8()], ["a", "b", "c", None])
FLOATS = partitions([Identity()], [pa.float64()], [0.0, 1.0, 2.0, None])
FROM_MID_JANUARY = compare(">=", at("1995-01-15"))
OTHER = Opaque("length(x) = 3", "it says nothing")


@pytest.mark.parametrize(
    ("parts", "kind", "predicate", "kept", "certain"),
    [
        pytest.param(
            MONTHS, TIME, FROM_MID_JANUARY, [0, 1, 2, 3, 4], [1, 2, 3, 4], id="a range that begins within one"
        ),
        pytest.param(
            MONTHS,
            TIME,
            And((FROM_MID_JANUARY, compare("<", at("1996-01-01")))),
            [0, 1, 2],
            [1, 2],
            id="a range that ends with one",
        ),
        pytest.param(
            MONTHS,
            TIME,
            And((compare("<", at("1995-03-01")), compare("!=", 5, part("month")))),
            [0, 1],
            [0, 1],
            id="two conditions",
        ),
        pytest.param(MONTHS, TIME, null(), [5], [], id="NULL alone is one partition, which is not asked about"),
        pytest.param(MONTHS, TIME, Or((FROM_MID_JANUARY, null())), [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5], id="or NULL"),
        pytest.param(
            MONTHS, TIME, Or((FROM_MID_JANUARY, UNKNOWN)), [0, 1, 2, 3, 4], [1, 2, 3, 4], id="or nothing known"
        ),
        pytest.param(MONTHS, TIME, And((FROM_MID_JANUARY, OTHER)), [0, 1, 2, 3, 4], [], id="and what says nothing"),
        pytest.param(
            MONTHS, TIME, Or((FROM_MID_JANUARY, OTHER)), [0, 1, 2, 3, 4, 5], [1, 2, 3, 4], id="or what says nothing"
        ),
        pytest.param(TENS, pa.int64(), compare(">", 9), [1, 2], [1, 2], id="a width of numbers"),
        pytest.param(TENS, pa.int64(), compare("!=", 12), [0, 1, 2], [0, 2], id="all but one number"),
        pytest.param(TENS, pa.int64(), among(12, None, negated=True, kind=pa.int64()), [], [], id="NOT IN with NULL"),
        pytest.param(TENS, pa.int64(), among(1, 12, None, kind=pa.int64()), [0, 1], [], id="IN with NULL"),
        pytest.param(INITIALS, pa.utf8(), StartsWith(X, "bee", negated=True), [0, 1, 2], [0, 2], id="NOT LIKE"),
        pytest.param(FLOATS, pa.float64(), compare(">=", 1.0), [1, 2], [], id="floats, about which engines disagree"),
    ],
)
def test_partitions_whose_rows_all_match_are_told(
    parts: SpecPartitions, kind: pa.DataType, predicate: Predicate, kept: list[int], certain: list[int]
) -> None:
    found = pruned(parts, one_column(kind), predicate)
    assert (found.kept.tolist(), found.certain.tolist()) == (kept, certain)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([0, 1, 2, 3, 4], [(None, [1, 2, 3, 4]), (FROM_MID_JANUARY, [0])], id="some"),
        pytest.param([0, 1], [(FROM_MID_JANUARY, [0, 1])], id="one, which is not worth a scan of its own"),
        pytest.param([3], [(None, [3])], id="all"),
        pytest.param([], [(None, [])], id="none"),
    ],
)
def test_a_scan_filters_only_where_it_has_to(
    rows: list[int], expected: list[tuple[Predicate | None, list[int]]]
) -> None:
    found = pruned(MONTHS, one_column(TIME), FROM_MID_JANUARY)
    split_up = found.by_residual(np.array(rows, np.int64))
    assert [(rest, some.tolist()) for rest, some in split_up] == expected


# What is known of the rows of a scan beyond its own filters prunes as they do, and is none of them.

LETTERS = partitions([Identity()], [pa.utf8()], ["a", "b", "c", None])
NOT_A = compare("!=", "a")
A_WORD = compare("=", "bee")
A_OR_OTHER = Or((compare("=", "a"), OTHER))
A_OR_B = Or((compare("=", "a"), compare("=", "b")))


@pytest.mark.parametrize(
    ("parts", "predicate", "hint", "expected"),
    [
        pytest.param(LETTERS, NOT_A, StartsWith(X, "b"), ([1], None, None), id="both guaranteed"),
        pytest.param(LETTERS, NOT_A, OTHER, ([1, 2], OTHER, None), id="a hint that says nothing"),
        pytest.param(INITIALS, A_WORD, OTHER, ([1], And((A_WORD, OTHER)), A_WORD), id="neither guaranteed"),
        pytest.param(INITIALS, ALWAYS, A_WORD, ([1], A_WORD, None), id="a hint alone"),
        pytest.param(LETTERS, NOT_A, NEVER, ([], None, None), id="no row counts"),
        pytest.param(LETTERS, A_OR_OTHER, NOT_A, ([1, 2], A_OR_OTHER, A_OR_OTHER), id="an alternative that is left"),
        pytest.param(LETTERS, A_OR_B, NOT_A, ([1], None, None), id="an alternative that is not"),
    ],
)
def test_a_hint_prunes_and_is_not_filtered_by(
    parts: SpecPartitions,
    predicate: Predicate,
    hint: Predicate,
    expected: tuple[list[int], Predicate | None, Predicate | None],
) -> None:
    (found,) = prune([parts], one_column(pa.utf8()), predicate, None, hint).versions
    assert (found.kept.tolist(), found.residual, found.unfiltered) == expected
