"""Loaders: batches of a dataset for one rank, in an order that a seed decides, from any batch on.

All rows of an epoch stand in one sequence of fragments, which is shuffled or not, and cut into shards of equal rows: one for each worker of each
rank. To shuffle rows, a shard is divided into lanes that are read side by side; what they give at a time is a window, which is permuted.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice
from typing import Any

import numpy as np
import pyarrow as pa
from lance_flight.errors import InvalidInput

from lance_flight_client.dataset.portions import Fragment

SHUFFLES = (None, "partition", "rows")
BUFFER_ROWS = 1 << 18
"""Default of the rows that are permuted at a time."""
LANES = 4
"""Fragments that are read at a time to shuffle rows."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows from `start` to `stop` of a fragment, by its number."""

    fragment: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """Order of the rows of fragments, of which there are `counts`: the same wherever these values are the same.

    `buffer_rows` is how many rows are permuted at a time where rows are shuffled. With `drop_last` every shard has the same
    number of batches, all of them full.
    """

    counts: Sequence[int]
    batch_size: int
    shuffle: str | None = None
    seed: int = 0
    shards: int = 1
    drop_last: bool = False
    buffer_rows: int = BUFFER_ROWS

    def __post_init__(self) -> None:
        if self.shuffle not in SHUFFLES:
            raise InvalidInput(f"shuffle is {self.shuffle!r}; expected None, 'partition' or 'rows'")
        least = {"batch_size": 1, "seed": 0, "shards": 1, "buffer_rows": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise InvalidInput(f"{name} is {getattr(self, name)}; expected at least {bound}")

    @property
    def rows(self) -> int:
        """The number of rows of an epoch."""
        return sum(self.counts)

    @property
    def lane_rows(self) -> int:
        """The number of rows of each lane in a window."""
        return max(1, self.buffer_rows // LANES)

    def rows_of(self, shard: int) -> int:
        """Return how many rows a shard has; shards differ by one at most."""
        return self._start(shard + 1) - self._start(shard)

    def batches_of(self, shard: int) -> int:
        """Return how many batches a shard has."""
        if self.drop_last:
            return self.rows // self.shards // self.batch_size
        return -(-self.rows_of(shard) // self.batch_size)

    def shard(self, epoch: int, number: int) -> list[Slice]:
        """Return the slices of a shard, in their order."""
        numbers = range(len(self.counts))
        order = numbers if self.shuffle is None else permutation(len(numbers), self.seed, epoch).tolist()
        slices = [Slice(fragment, 0, self.counts[fragment]) for fragment in order]
        return between(slices, self._start(number), self._start(number + 1))

    def windows_before(self, rows: int) -> int:
        """Return how many whole windows lie before a row of a shard."""
        return rows // (self.lane_rows * LANES)

    def _start(self, shard: int) -> int:
        return self.rows * shard // self.shards


def between(slices: Sequence[Slice], start: int, stop: int) -> list[Slice]:
    """Return the rows from `start` to `stop` of a sequence of slices.

    >>> between([Slice(7, 0, 4), Slice(3, 0, 4)], 3, 6)
    [Slice(fragment=7, start=3, stop=4), Slice(fragment=3, start=0, stop=2)]
    """
    pieces, at = [], 0
    for portion in slices:
        low, high = max(start, at), min(stop, at + portion.rows)
        if low < high:
            pieces.append(Slice(portion.fragment, portion.start + low - at, portion.start + high - at))
        at += portion.rows
    return pieces


def lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Divide a shard into lanes of equal rows."""
    rows = sum(portion.rows for portion in slices)
    return [between(slices, rows * lane // LANES, rows * (lane + 1) // LANES) for lane in range(LANES)]


def permutation(size: int, *key: int) -> np.ndarray:
    """Return the numbers below `size` in an order that only the key decides, in every version of NumPy."""
    # Its generators may change how they draw; the bits below them may not.
    return np.argsort(np.random.PCG64(np.random.SeedSequence(key)).random_raw(size), kind="stable")


def count_delivered(batches: Sequence[int], count: int) -> tuple[list[int], int]:
    """Return how many batches each worker has given of the first `count`, and which one gives the next.

    Workers give one batch in turn, as many as they have. Of more than there are, all were given.

    >>> count_delivered([2, 3, 2], 4)
    ([2, 1, 1], 1)
    """
    given, left = [0] * len(batches), count
    while left and any(rest := [most - have for most, have in zip(batches, given, strict=True)]):
        active = [worker for worker, number in enumerate(rest) if number]
        rounds = min(left // len(active), *(rest[worker] for worker in active))
        for place, worker in enumerate(active):
            given[worker] += rounds or place < left
        if not rounds:
            return given, active[left % len(active)]
        left -= rounds * len(active)
    return given, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderLayout:
    """Values that the order of a rank's batches depends on; a state goes with the same ones alone.

    `fragments` is a checksum of their row counts.
    """

    table: str
    version: int
    rows: int
    fragments: int
    batch_size: int
    shuffle: str | None
    seed: int
    rank: int
    world_size: int
    workers: int
    drop_last: bool
    buffer_rows: int

    @classmethod
    def of(cls, order: RowOrder, **named: Any) -> LoaderLayout:
        """Return the layout of an order, for a rank of a table."""
        same = {
            name: getattr(order, name) for name in ("rows", "batch_size", "shuffle", "seed", "drop_last", "buffer_rows")
        }
        return cls(**same, **named, fragments=checksum_of(order.counts))

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise InvalidInput(
                f"rank is {self.rank} of world_size {self.world_size}; expected 0 to {self.world_size - 1}"
            )
        if self.workers < 0:
            raise InvalidInput(f"workers is {self.workers}; expected 0 or more")


@dataclass(slots=True)
class Position:
    """An epoch, and how many of its batches were delivered."""

    epoch: int = 0
    batches: int = 0


class Loader:
    """Batches of one rank. It is pickled, and each of its workers reads a shard of the rows."""

    def __init__(
        self, fragments: Sequence[Fragment], order: RowOrder, layout: LoaderLayout, resume: Mapping[str, Any] | None
    ) -> None:
        self.fragments, self.order, self.layout = fragments, order, layout
        self.shards = max(layout.workers, 1)
        self._start = Position() if resume is None else position_of(resume, layout)
        self._now = Position(self._start.epoch, self._start.batches)

    def __len__(self) -> int:
        """Return how many batches an epoch of this rank has."""
        return sum(self._batches())

    def state(self) -> dict[str, Any]:
        """Return the position after the batch that was delivered last, as values of JSON: what `resume` takes."""
        return {**asdict(self.layout), **asdict(self._now)}

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        if epoch < 0:
            raise InvalidInput(f"epoch is {epoch}; expected 0 or more")
        self._start, self._now = Position(epoch), Position(epoch)

    def begin(self) -> None:
        """Begin where a state was resumed, or else at the beginning of the epoch."""
        self._now = Position(self._start.epoch, self._start.batches)

    def began(self) -> None:
        """Have the next pass begin at the beginning of the epoch, once this one has its workers."""
        self._start = Position(self._start.epoch)

    def advance(self) -> None:
        """Count a batch that is delivered."""
        self._now.batches += 1

    def finish(self) -> None:
        """Go to the next epoch."""
        self.set_epoch(self._now.epoch + 1)

    def worker_batches(self, turn: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the worker that is asked for its first one after `turn` others."""
        counts = self._batches()
        given, first = count_delivered(counts, self._start.batches)
        worker = (first + turn) % self.shards
        shard, skip = self._shard(worker), given[worker] * self.order.batch_size
        rows = shard_rows(self.fragments, self.order, self._start.epoch, shard, skip)
        return islice(in_batches(rows, self.order.batch_size), counts[worker] - given[worker])

    def _batches(self) -> list[int]:
        return [self.order.batches_of(self._shard(worker)) for worker in range(self.shards)]

    def _shard(self, worker: int) -> int:
        return self.layout.rank * self.shards + worker


def position_of(state: Mapping[str, Any], layout: LoaderLayout) -> Position:
    """Return the position of a state; `InvalidInput` if it is of another layout, whose batches would be others."""
    mine = asdict(layout)
    wrong = [f"{name} was {state.get(name)!r} and is {mine[name]!r}" for name in mine if state.get(name) != mine[name]]
    if wrong:
        raise InvalidInput(f"the state is of another loader: {'; '.join(wrong)}")
    match state:
        case {"epoch": int(epoch), "batches": int(batches)} if min(epoch, batches) >= 0:
            return Position(epoch, batches)
    raise InvalidInput(
        f"the state has no position: epoch {state.get('epoch')!r}, batches {state.get('batches')!r}; expected two numbers"
    )


def checksum_of(counts: Sequence[int]) -> int:
    """Return the checksum of row counts by which a state is told from that of other rows.

    >>> checksum_of([1, 2]) == checksum_of([2, 1])
    False
    """
    return zlib.crc32(np.asarray(counts, "<i8").tobytes())


def shard_rows(
    fragments: Sequence[Fragment], order: RowOrder, epoch: int, number: int, skip: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard after the first `skip` of them."""
    slices = order.shard(epoch, number)
    if order.shuffle != "rows":
        yield from sliced_rows(fragments, between(slices, skip, order.rows_of(number)))
        return
    first = order.windows_before(skip)
    skip -= first * order.lane_rows * len(lanes(slices))
    streams = [
        in_batches(sliced_rows(fragments, between(lane, first * order.lane_rows, order.rows)), order.lane_rows)
        for lane in lanes(slices)
    ]
    for window in count(first):
        parts = [part for stream in streams if (part := next(stream, None)) is not None]
        if not parts:
            return
        rows = pa.concat_batches(parts)
        rows = rows.take(pa.array(permutation(rows.num_rows, order.seed, epoch, number, window)))
        yield rows.slice(skip)
        skip = 0


def sliced_rows(fragments: Sequence[Fragment], slices: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of slices, one after another."""
    for portion in slices:
        at = 0
        for batch in fragments[portion.fragment].to_batches():
            chosen = batch.slice(max(0, portion.start - at), max(0, portion.stop - max(at, portion.start)))
            at += batch.num_rows
            if chosen.num_rows:
                yield chosen
            if at >= portion.stop:
                break


def in_batches(rows: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of exactly `size`, but for the last one."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for row in rows:
        rest = row
        while held + rest.num_rows >= size:
            taken = rest.slice(0, size - held)
            yield pa.concat_batches([*waiting, taken])
            rest = rest.slice(taken.num_rows)
            waiting, held = [], 0
        if rest.num_rows:
            waiting.append(rest)
            held += rest.num_rows
    if waiting:
        yield pa.concat_batches(waiting)


def check_numeric(schema: pa.Schema) -> None:
    """Raise `InvalidInput` for columns that have no array."""
    others = [f"{field.name} ({field.type})" for field in schema if not _is_numeric(field.type)]
    if others:
        raise InvalidInput(
            f"columns that are no tensors: {', '.join(others)}; leave them out by columns=[…], or give a collate, which is"
            " called with each pyarrow.RecordBatch"
        )


def arrays(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    """Return each column as an array, of two dimensions for lists of a fixed size; NULL is NaN where that is a value.

    >>> arrays(pa.record_batch({"x": [1.5, None]}))
    {'x': array([1.5, nan])}
    """
    return {name: _array(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(kind):
        return _is_numeric(kind.value_type) and not pa.types.is_fixed_size_list(kind.value_type)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _array(name: str, column: pa.Array) -> np.ndarray:
    if column.null_count and not pa.types.is_floating(column.type):
        raise InvalidInput(
            f"column {name!r} has NULL, which no tensor of {column.type} has; filter by {name} IS NOT NULL, or give a collate"
        )
    if pa.types.is_fixed_size_list(column.type):
        return _array(name, column.flatten()).reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=False, writable=True))
