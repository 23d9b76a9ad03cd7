"""Joined group by group, random partitions give what the nested loop gives; and they come in the order of a key."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec
from lance_flight.model.transforms import Bucket, Day, Hour, Identity, Month, MultiBucket, Truncate, Year
from lance_flight.planning.joins import Group, Groups, NotCopartitioned, Side, in_order, match

from tests.examples import examples
from tests.planning.join_cases import of
from tests.planning.planning_oracle import evaluate, field, split
from tests.planning.planning_strategies import KINDS, Kind

pytestmark = pytest.mark.slow  # a long property

INTEGERS = (-25, -10, -1, 0, 1, 2, 3, 4, 9, 10, 11, 25)
ROWS = 16
BUCKETS = [Bucket(2), Bucket(4), Bucket(6), MultiBucket(4)]
CALENDAR = [Year(), Month(), Day(), Year(), Month()]
FAMILIES: dict[str, tuple[list[Kind], list[Any]]] = {
    "integer": (
        [Kind(kind, INTEGERS[3 * pa.types.is_unsigned_integer(kind) :], str) for kind in (pa.int8(), pa.int32(), pa.int64(), pa.uint64())],
        [*BUCKETS, Truncate(2), Truncate(10), Expression("col0 % 3"), Expression("nullif(col0 % 4, 1)")],
    ),
    "text": (
        [KINDS["s"], KINDS["ls"], replace(KINDS["s"], type=pa.dictionary(pa.int8(), pa.utf8()))],
        [*BUCKETS, Truncate(1), Truncate(2)],
    ),
    "float": ([KINDS["f"], KINDS["f32"]], [*BUCKETS, Truncate(2), Truncate(10), Expression("CASE WHEN 1.0 / col0 > 0 THEN 1 END")]),
    "decimal": ([KINDS["dec"], replace(KINDS["dec"], type=pa.decimal128(12, 2))], [*BUCKETS, Truncate(2)]),
    "date": ([KINDS["d"], replace(KINDS["d"], type=pa.date64())], [*BUCKETS, *CALENDAR]),
    "local time": ([KINDS["ts"]], [*BUCKETS, *CALENDAR, Hour()]),
    "instant": ([KINDS["ny"], replace(KINDS["ny"], type=pa.timestamp("us", "UTC"))], [*BUCKETS, *CALENDAR, Hour()]),
    "boolean": ([KINDS["b"]], [*BUCKETS]),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A side, and of each of its rows that is read the keys, the version and the table."""

    side: Side
    keys: list[tuple[Any, ...]]
    tables: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Maker:
    """Random worlds. Their shapes come of a seed: shrunk ones would rarely have anything in common to get wrong."""

    random: Random

    def world(self, *, sides: int, keys: int) -> list[Rows]:
        families = self.random.choices(sorted(FAMILIES), k=keys)
        rules = [self.random.sample(FAMILIES[name][1], k=self.random.randint(1, 2)) for name in families]
        pools = [[*some, Identity()] if self.random.random() < 0.5 else some for some in rules]
        return [self.side(f"t{number}", families, pools) for number in range(sides)]

    def side(self, name: str, families: Sequence[str], rules: Sequence[Sequence[Any]]) -> Rows:
        """A side whose versions have fields over the keys, and over a column that is no key."""
        kinds = [self.random.choice(FAMILIES[family][0]) for family in families] + [KINDS["i8"]]
        names = [f"k{place}" for place in range(len(families))] + ["v"]
        schema = NamespaceSchema.assign(pa.schema([(each, kind.type) for each, kind in zip(names, kinds, strict=True)]))
        versions, kept, keys, tables = [], [], [], []
        for number in range(self.random.choice([1, 1, 1, 2, 2, 3])):
            values = [self.random.choices([None, *kind.values], k=ROWS) for kind in kinds]
            rows = pa.table([kind.array(some) for kind, some in zip(kinds, values, strict=True)], schema=schema.plain)
            found = split(self.spec(number + 1, schema, [*rules, [Identity(), Bucket(2)]]), schema, rows)
            taken = [table for table in range(len(found.partitions)) if self.random.random() < 0.8]
            versions.append(found.partitions)
            kept.append(np.array(taken, np.int64))
            for row, table in enumerate(found.place.tolist()):
                if table in taken:
                    keys.append(tuple(comparable(rows[place][row]) for place in range(len(families))))
                    tables.append((number, table))
        whole = of(name, schema, versions, range(len(families)))
        return Rows(replace(whole, kept=tuple(kept)), keys, tables)

    def spec(self, number: int, schema: NamespaceSchema, rules: Sequence[Sequence[Any]]) -> PartitionSpec:
        """Fields over most of the keys, and now and then over the other column."""
        *keys, other = range(len(rules))
        places = [place for place in keys for _ in range(2) if self.random.random() < 0.7] or [other]
        places += [other] * (self.random.random() < 0.3)
        made: dict[Any, PartitionField] = {}
        for place in places:
            sources, rule = [place], self.random.choice(rules[place])
            if isinstance(rule, MultiBucket):
                sources = self.random.sample(range(len(rules)), k=self.random.randint(1, 2))
            kinds = [schema.arrow.field(source).type for source in sources]
            result = pa.int64() if isinstance(rule, Expression) else rule.result_type(kinds)
            if isinstance(rule, Truncate) and pa.types.is_dictionary(kinds[0]):
                rule, result = Identity(), kinds[0].value_type
            one = field(f"f{len(made)}", rule, *sources, result=result)
            made.setdefault(one.derivation, one)
        return PartitionSpec(id=number, fields=tuple(made.values()))


def comparable(value: pa.Scalar) -> Any:
    """A value so that Python compares it as DataFusion does."""
    if value.is_valid and pa.types.is_timestamp(value.type):
        return value.value
    known = value.as_py()
    return "NaN" if isinstance(known, float) and math.isnan(known) else known


def places(found: Groups) -> dict[tuple[int, int, int], list[int]]:
    """The groups of each table: by its side, its version and its row."""
    where = defaultdict(list)
    for number, group in enumerate(found.groups):
        for side, versions in enumerate(group.rows):
            for version, rows in enumerate(versions):
                assert rows.tolist() == sorted(set(rows.tolist()))
                for row in rows.tolist():
                    where[side, version, row].append(number)
    return where


def kept(world: Sequence[Rows]) -> set[tuple[int, int, int]]:
    return {
        (side, version, row)
        for side, each in enumerate(world)
        for version, rows in enumerate(each.side.kept)
        for row in rows.tolist()
    }


MAKERS = st.integers(0, 2**64 - 1).map(lambda seed: Maker(Random(seed)))  # noqa: S311
SIZES = st.tuples(MAKERS, st.sampled_from([1, 2, 2, 2, 3]), st.sampled_from([1, 1, 2]))
WORLDS = SIZES.map(lambda drawn: drawn[0].world(sides=drawn[1], keys=drawn[2]))


@given(WORLDS)
@examples(100)
def test_equal_keys_are_in_one_group_and_each_table_is_in_exactly_one(world: list[Rows]) -> None:
    found = match([each.side for each in world], evaluate, inner=False)
    if isinstance(found, NotCopartitioned):
        event("apart")
        assert found.why
        return
    where = places(found)
    assert where.keys() == kept(world)
    assert all(len(groups) == 1 for groups in where.values())
    groups = [[where[side, *table][0] for table in each.tables] for side, each in enumerate(world)]
    pairs = combinations(range(len(world)), 2) if len(world) > 1 else [(0, 0)]
    for one, other in pairs:
        for (a, mine), (b, its) in product(enumerate(world[one].keys), enumerate(world[other].keys)):
            assert mine != its or groups[one][a] == groups[other][b], (mine, found.by)
    assert list(found.groups) == sorted(found.groups, key=lambda group: [_rank(value) for value in group.values])


@given(WORLDS)
@examples(100)
def test_inner_joins_group_by_group_give_each_answer_of_the_nested_loop_once(world: list[Rows]) -> None:
    found = match([each.side for each in world], evaluate, inner=True)
    if isinstance(found, NotCopartitioned):
        event("apart")
        return
    event("version by version" if " with " in "".join(found.by) else "together")
    # Of one side, rows with equal keys are in one group: it is joined with itself.
    times = 2 if len(world) == 1 else 1
    wanted = sorted(joined([range(len(each.keys)) for each in world] * times, world * times))
    rows = [list(within(group, world)) * times for group in found.groups]
    answers = [answer for some in rows for answer in joined(some, world * times)]
    assert sorted(answers) == wanted
    assert all(any(map(len, versions)) for group in found.groups for versions in group.rows)


@given(MAKERS.map(lambda maker: maker.world(sides=4, keys=1)), st.booleans(), st.booleans())
def test_groups_in_the_order_of_a_key_do_not_overlap(world: list[Rows], descending: bool, nulls_first: bool) -> None:  # noqa: FBT001
    for only in world:
        found = in_order(only.side, descending=descending, nulls_first=nulls_first)
        event(type(found).__name__)
        if isinstance(found, NotCopartitioned):
            assert found.why
            continue
        where = places(found)
        assert where.keys() == kept([only])
        assert all(len(groups) == 1 for groups in where.values())
        for one, other in pairwise(next(within(group, [only])) for group in found.groups):
            for a, b in product(one, other):
                assert before(only.keys[a][0], only.keys[b][0], descending=descending, nulls_first=nulls_first)


def within(group: Group, world: Sequence[Rows]) -> Iterator[list[int]]:
    """The rows of each side that a group reads."""
    for each, versions in zip(world, group.rows, strict=True):
        tables = {(version, row) for version, rows in enumerate(versions) for row in rows.tolist()}
        yield [row for row, table in enumerate(each.tables) if table in tables]


def joined(rows: Sequence[Sequence[int]], world: Sequence[Rows]) -> Iterator[tuple[int, ...]]:
    """One row of each side whose keys are equal, none of them NULL."""
    by_key: dict[tuple[Any, ...], list[list[int]]] = {}
    for place, (each, some) in enumerate(zip(world, rows, strict=True)):
        for row in some:
            by_key.setdefault(each.keys[row], [[] for _ in world])[place].append(row)
    for key, found in by_key.items():
        if None not in key:
            yield from product(*found)


def before(one: Any, other: Any, *, descending: bool, nulls_first: bool) -> bool:
    if one is None or other is None:
        return one is not other and (one if nulls_first else other) is None
    first, second = (one, other) if not descending else (other, one)
    return first.encode() < second.encode() if isinstance(first, str) else first < second  # type: ignore[no-any-return]


def _rank(value: Any) -> tuple[bool, bool, Any]:
    if isinstance(value, float) and math.isnan(value):
        return False, True, 0
    text = value.encode() if isinstance(value, str) else value
    return value is None, False, 0 if value is None else text
