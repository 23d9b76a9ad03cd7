"""Loaders: batches of a dataset for one rank, in an order that a seed decides, from any batch on."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice
from typing import Any

import numpy as np
import pyarrow as pa
from lance_flight.errors import InvalidInput

from lance_flight_client.dataset.ordering import RowOrder, Slice, between, delivered, lanes, permutation
from lance_flight_client.dataset.sources import Fragment


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
        given, first = delivered(counts, self._start.batches)
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
    for each in slices:
        at = 0
        for batch in fragments[each.fragment].to_batches():
            chosen = batch.slice(max(0, each.start - at), max(0, each.stop - max(at, each.start)))
            at += batch.num_rows
            if chosen.num_rows:
                yield chosen
            if at >= each.stop:
                break


def in_batches(rows: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of exactly `size`, but for the last one."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for each in rows:
        rest = each
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
