"""The order in which a loader reads rows: pure arithmetic over the row counts of fragments.

All rows of an epoch stand in one sequence of fragments, which is shuffled or not, and cut into shards of equal rows: one for each worker of each
rank. To shuffle rows, a shard is divided into lanes that are read side by side; what they give at a time is a window, which is permuted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from lance_flight.errors import InvalidInput

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
    found, at = [], 0
    for each in slices:
        low, high = max(start, at), min(stop, at + each.rows)
        if low < high:
            found.append(Slice(each.fragment, each.start + low - at, each.start + high - at))
        at += each.rows
    return found


def lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Divide a shard into lanes of equal rows."""
    rows = sum(each.rows for each in slices)
    return [between(slices, rows * lane // LANES, rows * (lane + 1) // LANES) for lane in range(LANES)]


def permutation(size: int, *key: int) -> np.ndarray:
    """Return the numbers below `size` in an order that only the key decides, in every version of NumPy."""
    # Its generators may change how they draw; the bits below them may not.
    return np.argsort(np.random.PCG64(np.random.SeedSequence(key)).random_raw(size), kind="stable")


def delivered(batches: Sequence[int], count: int) -> tuple[list[int], int]:
    """Return how many batches each worker has given of the first `count`, and which one gives the next.

    Workers give one batch in turn, as many as they have. Of more than there are, all were given.

    >>> delivered([2, 3, 2], 4)
    ([2, 1, 1], 1)
    """
    given, left = [0] * len(batches), count
    while left and any(rest := [most - have for most, have in zip(batches, given, strict=True)]):
        active = [worker for worker, each in enumerate(rest) if each]
        rounds = min(left // len(active), *(rest[worker] for worker in active))
        for place, worker in enumerate(active):
            given[worker] += rounds or place < left
        if not rounds:
            return given, active[left % len(active)]
        left -= rounds * len(active)
    return given, 0
