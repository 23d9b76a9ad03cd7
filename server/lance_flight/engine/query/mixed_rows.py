"""Rows in random order, for principals who may not know which rows lie in one partition.

Any order in which partitions are read puts rows beside those with the same hidden values.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from lance_flight.catalog.tables.scan import empty_batches
from lance_flight.errors import storage_error

MOST_HELD = 32 * 2**20
"""Bytes of rows that are mixed in memory; more are distributed at random over files first."""
_FILES = 32


def mixed(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch_rows: int, directory: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in an order that is random anew each time, in batches of `batch_rows`.

    Rows that are too many for memory are kept in files in a `directory` (None: the one for temporary files).
    """
    held: list[pa.RecordBatch] = []
    size = 0
    rest = iter(batches)
    for batch in rest:
        held.append(batch)
        size += batch.nbytes
        if size > MOST_HELD and len(held) > 1:
            yield from _mixed_in_files(chain(held, rest), schema, batch_rows, directory)
            return
    count = sum(batch.num_rows for batch in held)
    if not schema.names:
        yield from empty_batches(count, batch_rows)
    elif count:
        order = np.random.default_rng().permutation(count)
        yield from pa.Table.from_batches(held, schema).take(pa.array(order)).combine_chunks().to_batches(batch_rows)


def _mixed_in_files(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch_rows: int, directory: str | None
) -> Iterator[pa.RecordBatch]:
    """Distribute rows over files at random, and yield those of each file mixed: together, every order is as likely."""
    random = np.random.default_rng()
    with tempfile.TemporaryDirectory(prefix="lance-flight-mixed-", dir=directory) as place:
        paths = [Path(place) / str(number) for number in range(_FILES)]
        with ExitStack() as opened:
            try:
                files = [opened.enter_context(pa.ipc.new_stream(str(path), schema)) for path in paths]
                for batch in batches:
                    chosen = random.integers(_FILES, size=batch.num_rows)
                    for number in np.unique(chosen):
                        files[number].write_batch(batch.take(pa.array(np.flatnonzero(chosen == number))))
            except OSError as exc:
                raise storage_error(exc, "spill_directory") or exc from exc
        for path in paths:
            with pa.OSFile(str(path)) as stored, pa.ipc.open_stream(stored) as rows:
                yield from mixed(rows, schema, batch_rows, directory)
            path.unlink()
