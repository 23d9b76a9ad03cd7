"""The order of loaders, over fragments in memory: every row once, the same for a seed, from any batch on. No PyTorch runs here."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import InvalidInput
from lance_flight_client.dataset.loading import (
    Loader,
    LoaderLayout,
    RowOrder,
    arrays,
    check_numeric,
    count_delivered,
    permutation,
)

SCHEMA = pa.schema({"fragment": pa.int64(), "row": pa.int64()})


@dataclass(frozen=True)
class Rows:
    """A fragment in memory, in batches of three rows."""

    number: int
    rows: int
    schema: pa.Schema = SCHEMA

    def count_rows(self) -> int:
        return self.rows

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_table().to_batches(max_chunksize=3))

    def to_table(self) -> pa.Table:
        return pa.table({"fragment": pa.repeat(self.number, self.rows), "row": range(self.rows)}, SCHEMA)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A loader of each rank."""

    counts: tuple[int, ...]
    batch_size: int
    shuffle: str | None
    seed: int
    world_size: int
    workers: int
    drop_last: bool = False
    buffer_rows: int = 16

    def loader(self, rank: int, resume: Mapping[str, Any] | None = None) -> Loader:
        order = RowOrder(
            counts=self.counts,
            batch_size=self.batch_size,
            shuffle=self.shuffle,
            seed=self.seed,
            shards=self.world_size * max(self.workers, 1),
            drop_last=self.drop_last,
            buffer_rows=self.buffer_rows,
        )
        place = {"rank": rank, "world_size": self.world_size, "workers": self.workers}
        fragments = [Rows(number, rows) for number, rows in enumerate(self.counts)]
        return Loader(fragments, order, LoaderLayout.of(order, table="t", version=3, **place), resume)


Batch = list[tuple[int, int]]


def passed(loader: Loader) -> list[tuple[Batch, dict[str, Any]]]:
    """The batches of a pass, in the order of PyTorch's DataLoader, and the state at each of them."""
    loader.begin()
    workers = [pickle.loads(pickle.dumps(loader)).worker_batches(turn) for turn in range(loader.shards)]  # noqa: S301
    loader.began()
    found = []
    for batch in (each for turn in zip_longest(*workers) for each in turn if each is not None):
        loader.advance()
        found.append(([tuple(row.values()) for row in batch.to_pylist()], json.loads(json.dumps(loader.state()))))
    loader.finish()
    return found


def batches(loader: Loader) -> list[Batch]:
    return [batch for batch, _ in passed(loader)]


CASES = st.builds(
    Case,
    counts=st.lists(st.integers(0, 40), max_size=6).map(tuple),
    batch_size=st.integers(1, 12),
    shuffle=st.sampled_from([None, "partition", "rows"]),
    seed=st.integers(0, 2**70),
    world_size=st.integers(1, 4),
    workers=st.integers(0, 3),
    drop_last=st.booleans(),
    buffer_rows=st.integers(1, 60),
)


@given(CASES)
def test_every_row_is_in_one_batch_of_one_rank(case: Case) -> None:
    found = [batches(case.loader(rank)) for rank in range(case.world_size)]
    rows = Counter(row for rank in found for batch in rank for row in batch)
    all_rows = {(number, row) for number, count in enumerate(case.counts) for row in range(count)}
    assert set(rows.values()) <= {1}
    assert set(rows) <= all_rows
    assert [len(rank) for rank in found] == [len(case.loader(rank)) for rank in range(case.world_size)]
    sizes = [len(batch) for rank in found for batch in rank]
    if case.drop_last:
        shards = case.world_size * max(case.workers, 1)
        assert set(sizes) <= {case.batch_size}
        assert len({len(rank) for rank in found}) == 1, "every rank has as many batches"
        assert len(all_rows) - len(rows) < shards * (case.batch_size + 1)
    else:
        assert set(rows) == all_rows
        of_ranks = [sum(map(len, rank)) for rank in found]
        assert max(of_ranks) - min(of_ranks) <= max(case.workers, 1), "each worker has a row more at most"


@given(CASES, st.integers(0, 3))
def test_a_seed_and_an_epoch_decide_the_order(case: Case, epoch: int) -> None:
    rank = case.world_size - 1
    one, other = case.loader(rank), case.loader(rank)
    for loader in (one, other):
        loader.set_epoch(epoch)
    assert batches(one) == batches(other)
    other.set_epoch(0)
    for _ in range(epoch):
        batches(other)
    assert other.state() == {**one.state(), "epoch": epoch}, "a pass goes to the next epoch"


@given(CASES, st.data())
def test_a_resumed_loader_gives_the_rest(case: Case, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, case.world_size - 1))
    whole = case.loader(rank)
    whole.set_epoch(2)
    first, second = passed(whole), batches(whole)
    states = [whole_state(case, rank), *(state for _, state in first)]
    at = data.draw(st.integers(0, len(first)))
    resumed = case.loader(rank, states[at])
    again = passed(resumed)
    assert [batch for batch, _ in again] == [batch for batch, _ in first[at:]]
    assert [state for _, state in again] == [state for _, state in first[at:]], "and says where it is as before"
    assert batches(resumed) == second


def whole_state(case: Case, rank: int) -> dict[str, Any]:
    loader = case.loader(rank)
    loader.set_epoch(2)
    return loader.state()


LARGE = Case(counts=(1000,) * 8, batch_size=100, shuffle=None, seed=7, world_size=1, workers=0, buffer_rows=2000)


def order_of(case: Case, epoch: int = 0) -> list[tuple[int, int]]:
    loader = case.loader(0)
    loader.set_epoch(epoch)
    return [row for batch in batches(loader) for row in batch]


def test_shuffles_differ_in_what_they_mix() -> None:
    stored, partitions, rows = (order_of(replace(LARGE, shuffle=shuffle)) for shuffle in (None, "partition", "rows"))
    assert stored == sorted(stored)
    assert partitions != stored
    assert [row for _, row in partitions] == [row for _, row in stored], "rows stay in their order"
    first = rows[:2000]
    assert len({number for number, _ in first}) == 4, "several fragments in a window"
    assert sum(one < two for one, two in pairwise(first)) in range(800, 1200), "a coin for each pair"


@pytest.mark.parametrize("shuffle", ["partition", "rows"])
def test_epochs_and_seeds_have_orders_of_their_own(shuffle: str) -> None:
    case = replace(LARGE, shuffle=shuffle)
    assert len({tuple(order_of(case, epoch)) for epoch in range(3)} | {tuple(order_of(replace(case, seed=8)))}) == 4


def test_an_order_is_the_same_in_every_release() -> None:
    assert permutation(8, 7, 0).tolist() == [6, 3, 4, 0, 2, 7, 5, 1]
    assert order_of(replace(LARGE, shuffle="rows"))[:3] == [(2, 207), (5, 85), (5, 20)]


def test_a_pass_that_is_left_begins_anew() -> None:
    loader = replace(LARGE, shuffle="rows").loader(0)
    whole = batches(replace(LARGE, shuffle="rows").loader(0))
    loader.begin()
    next(loader.worker_batches(0))
    loader.began()
    loader.advance()
    assert loader.state()["batches"] == 1
    assert batches(loader) == whole


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        pytest.param({"seed": 8}, "seed was 7 and is 8", id="seed"),
        pytest.param({"batch_size": 50}, "batch_size was 100 and is 50", id="size"),
        pytest.param({"workers": 2}, "workers was 0 and is 2", id="workers"),
        pytest.param({"counts": (999, 1001, *LARGE.counts[2:])}, "fragments was", id="other rows"),
        pytest.param({"shuffle": "rows"}, "shuffle was None and is 'rows'", id="shuffle"),
    ],
)
def test_a_state_of_another_loader_is_refused(changed: Mapping[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        replace(LARGE, **changed).loader(0, LARGE.loader(0).state())


@pytest.mark.parametrize(
    ("changed", "rank", "message"),
    [
        pytest.param({"shuffle": "row"}, 0, "'partition' or 'rows'", id="shuffle"),
        pytest.param({"batch_size": 0}, 0, "batch_size is 0; expected at least 1", id="size"),
        pytest.param({"seed": -1}, 0, "seed is -1", id="seed"),
        pytest.param({}, 1, "rank is 1 of world_size 1; expected 0 to 0", id="rank"),
        pytest.param({"workers": -1}, 0, "workers is -1", id="workers"),
        pytest.param({"buffer_rows": 0}, 0, "buffer_rows is 0", id="buffer"),
    ],
)
def test_wrong_loaders_are_refused(changed: Mapping[str, Any], rank: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(LARGE, **changed).loader(rank)


@pytest.mark.parametrize("position", [{}, {"epoch": 0}, {"epoch": 0, "batches": -1}, {"epoch": "0", "batches": 1}])
def test_a_state_without_a_position_is_refused(position: Mapping[str, Any]) -> None:
    state = {name: value for name, value in LARGE.loader(0).state().items() if name not in {"epoch", "batches"}}
    with pytest.raises(InvalidInput, match="no position"):
        LARGE.loader(0, {**state, **position})


def in_turn(counts: Sequence[int]) -> list[int]:
    """Which worker gives each batch."""
    turns = zip_longest(*([worker] * count for worker, count in enumerate(counts)))
    return [worker for turn in turns for worker in turn if worker is not None]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 50))
def test_delivered_batches_are_those_that_workers_give_in_turn(counts: list[int], count: int) -> None:
    turns = in_turn(counts)
    given_by, following = count_delivered(counts, count)
    assert given_by == [turns[:count].count(worker) for worker in range(len(counts))]
    rest = [most - have for most, have in zip(counts, given_by, strict=True)]
    rotated = [*range(following, len(counts)), *range(following)]
    assert [rotated[worker] for worker in in_turn([rest[worker] for worker in rotated])] == turns[count:]


def test_numeric_columns_are_arrays() -> None:
    batch = pa.record_batch(
        {
            "i": pa.array([1, 2], pa.int32()),
            "f": pa.array([0.5, None], pa.float32()),
            "b": [True, False],
            "v": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
        }
    ).slice(0)
    check_numeric(batch.schema)
    found = arrays(batch)
    assert {name: (each.dtype.name, each.shape) for name, each in found.items()} == {
        "i": ("int32", (2,)),
        "f": ("float32", (2,)),
        "b": ("bool", (2,)),
        "v": ("float32", (2, 2)),
    }
    assert found["v"].tolist() == [[1, 2], [3, 4]]
    assert all(each.flags.writeable for each in found.values())
    assert arrays(batch.slice(1))["v"].tolist() == [[3, 4]]


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2))])
def test_a_null_that_no_array_has_is_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidInput, match=r"column 'x' has NULL.*x IS NOT NULL"):
        arrays(pa.record_batch({"x": column}))


def test_columns_that_are_no_arrays_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"s \(string\), at \(timestamp\[us\]\); leave them out"):
        check_numeric(pa.schema({"i": pa.int8(), "s": pa.string(), "at": pa.timestamp("us")}))
