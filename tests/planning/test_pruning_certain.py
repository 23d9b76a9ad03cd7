"""Partitions all of whose rows match a filter by their values: they are read without it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.transforms import Identity, Month, Truncate, Year
from lance_flight.planning.predicates import UNKNOWN, And, Opaque, Or, Predicate, StartsWith
from lance_flight.planning.pruning import SpecPartitions

from tests.examples import examples
from tests.planning.planning_cases import X, among, at, compare, null, one_column, part, partitions, pruned
from tests.planning.planning_oracle import Split, evaluate, split
from tests.planning.planning_strategies import Statement, rows_of, schemas, specs_of, sql_answer, statements

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


@st.composite
def worlds(draw: st.DrawFn) -> tuple[NamespaceSchema, pa.Table, Split, Statement]:
    schema = draw(schemas())
    rows = draw(rows_of(schema))
    return schema, rows, split(draw(specs_of(schema)), schema, rows), draw(statements(schema))


@given(worlds())
@examples(100)
def test_every_row_of_a_certain_partition_matches(world: tuple[NamespaceSchema, pa.Table, Split, Statement]) -> None:
    schema, rows, parts, statement = world
    note(f"{statement.sql}\n{[(f.rule, f.source_ids) for f in parts.partitions.spec.fields]}\n{rows.to_pydict()}")
    found = pruned(parts.partitions, schema, statement.tree, evaluate)
    certain = set(found.certain.tolist())
    assert certain <= set(found.kept.tolist())
    assert {row for row in range(len(rows)) if parts.place[row] in certain} <= sql_answer(rows, statement)
