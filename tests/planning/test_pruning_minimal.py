"""No partition is kept that could not hold an answer: every value a column can have is tried."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec
from lance_flight.model.transforms import Day, Hour, Identity, Month, Truncate, Year
from lance_flight.planning.predicates import Column, Compare, DatePart, In, Op, Predicate, all_of
from lance_flight.planning.pruning import prune

from tests.planning.planning_oracle import Split, evaluate, field, split
from tests.planning.planning_strategies import Statement, specs_of, sql_answer, statements

pytestmark = pytest.mark.slow  # every value of each column

SMALL = NamespaceSchema.assign(pa.schema({"b": pa.bool_(), "i8": pa.int8()}))
BYTES = [None, *range(-128, 128)]
EVERY_ROW = pa.table(
    {
        "b": pa.array([b for b in (None, False, True) for _ in BYTES]),
        "i8": pa.array(BYTES * 3, pa.int8()),
    }
)


@given(specs_of(SMALL), statements(SMALL))
def test_over_small_columns_exactly_the_partitions_with_an_answer_are_kept(
    spec: PartitionSpec, statement: Statement
) -> None:
    parts = split(spec, SMALL, EVERY_ROW)
    note(f"{statement.sql}\n{[(f.rule, f.source_ids) for f in spec.fields]}")
    (found,) = prune([parts.partitions], SMALL, statement.tree, evaluate).versions
    assert set(found.kept.tolist()) == parts.kept(sql_answer(EVERY_ROW, statement))


HOUR = 3_600 * 1_000_000
FIRST, LAST = (int(np.datetime64(day, "us").astype(np.int64)) for day in ("1967-12-30", "1970-01-03"))
INSTANTS = NamespaceSchema.assign(pa.schema({"ts": pa.timestamp("us")}))
TIME = {"year": Year(), "month": Month(), "day": Day(), "hour": Hour()}
TS = Column("ts")


def instant(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int64()).cast(pa.timestamp("us"))


@st.composite
def bounds(draw: st.DrawFn) -> tuple[int, int]:
    """Two instants, on the hour or one microsecond beside it, often near the end of a day, month or year."""
    ends = [
        int(np.datetime64(day, "us").astype(np.int64))
        for day in ("1968-01-01", "1968-02-29", "1969-01-01", "1969-03-01", "1970-01-01")
    ]
    moments = st.one_of(
        st.integers(FIRST, LAST),
        st.builds(int.__add__, st.sampled_from(ends), st.sampled_from([-HOUR, -1, 0, 1, 5 * HOUR])),
    )
    low, high = sorted((draw(moments), draw(moments)))
    return low, high


@st.composite
def parts_of(draw: st.DrawFn) -> Iterator[Predicate]:
    wanted = []
    for part, values in {"month": (2, 3, 12), "day": (1, 29, 31), "hour": (0, 23), "year": (1968, 1969)}.items():
        if draw(st.integers(0, 3)) == 0:
            chosen = draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
            wanted.append(In(DatePart(part, "ts"), pa.array(chosen, pa.int32())))
    return wanted


@given(st.sets(st.sampled_from(sorted(TIME)), min_size=1), bounds(), parts_of())
def test_of_a_time_range_exactly_the_partitions_it_touches_are_kept(
    names: set[str], ends: tuple[int, int], wanted: list[Predicate]
) -> None:
    low, high = ends
    spec = PartitionSpec(id=1, fields=tuple(field(name, TIME[name], 0, result=pa.int32()) for name in sorted(names)))
    hours = np.union1d(np.arange(FIRST, LAST, HOUR), [low, high])
    rows = pa.table({"ts": pa.array([None, *hours.tolist()], pa.int64()).view(pa.timestamp("us"))})
    predicate = all_of([Compare(TS, Op.GE, instant(low)), Compare(TS, Op.LE, instant(high)), *wanted])
    parts = split(spec, INSTANTS, rows)
    (found,) = prune([parts.partitions], INSTANTS, predicate, None).versions
    assert set(found.kept.tolist()) == _touched(parts, rows, low, high, wanted)


def _touched(parts: Split, rows: pa.Table, low: int, high: int, wanted: list[Predicate]) -> set[int]:
    values = rows["ts"].combine_chunks()
    numbers = values.view(pa.int64()).fill_null(FIRST - 1).to_numpy()
    inside = (numbers >= low) & (numbers <= high)
    for condition in wanted:
        part = TIME[condition.term.part].apply([values]).fill_null(-1).to_numpy()
        inside &= np.isin(part, condition.values.to_numpy())
    return parts.kept(np.flatnonzero(inside).tolist())


TEXTS = NamespaceSchema.assign(pa.schema({"s": pa.utf8()}))
LETTERS = [
    "",
    *"abc",
    *(x + y for x in "abc" for y in "abc"),
    *(x + y + z for x in "abc" for y in "abc" for z in "abc"),
]


@given(st.integers(1, 3), st.sampled_from(list(Op)), st.sampled_from(LETTERS))
def test_of_a_text_comparison_exactly_the_prefixes_with_an_answer_are_kept(width: int, op: Op, value: str) -> None:
    # A NUL makes the next text, a "z" a later one with the same prefix.
    every = sorted({text + more for text in [*LETTERS, "d"] for more in ("", "\0", "z")})
    rows = pa.table({"s": every})
    predicate = Compare(Column("s"), op, pa.scalar(value))
    wanted = sql_answer(rows, Statement(f"s {op.value} '{value}'", predicate))
    for rule in (Truncate(width), Identity()):
        parts = split(PartitionSpec(id=1, fields=(field("f", rule, 0, result=pa.utf8()),)), TEXTS, rows)
        (found,) = prune([parts.partitions], TEXTS, predicate, None).versions
        assert set(found.kept.tolist()) == parts.kept(wanted)
