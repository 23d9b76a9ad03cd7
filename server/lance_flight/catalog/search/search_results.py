"""What a search of one table or more gives: rows with what they are worth, best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_flight.catalog.tables.scan import Scan, Source

DISTANCE = pa.field("_distance", pa.float32())
SCORE = pa.field("_score", pa.float32())


class Order(Protocol):
    """How many rows a search wants, and which are better."""

    @property
    def count(self) -> int:
        """How many."""
        ...

    @property
    def result(self) -> pa.Field:
        """The column that says how good a row is."""
        ...

    @property
    def is_ascending(self) -> bool:
        """Whether less is better."""
        ...


def ranked(search: Order, rows: pa.Table) -> pa.Table:
    """The first of some rows in the order of the search; what cannot be compared comes last."""
    worth = rows[search.result.name].combine_chunks().to_numpy(zero_copy_only=False)
    order = np.argsort(worth if search.is_ascending else -worth, kind="stable")
    return rows.take(pa.array(order[: search.count]))


def read(scan: Scan, sources: Sequence[Source]) -> pa.Table:
    """All that a scan finds."""
    batches = [batch for batch in scan.read([lambda: sources]) if batch.num_rows]
    return pa.Table.from_batches(batches, scan.schema)
