"""Commits made at most once, however many try: recorded in the guard row, which every commit writes back.

So two commits of the same thing conflict, and the second one finds the first. Snapshots expire, and this does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.new_partitions import guard_row
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import InvalidInput

LONGEST = 200
"""Characters of a name: all that are remembered are written with every commit."""


def checked_name(what: str, name: str) -> str:
    """Return the name itself; `InvalidInput` for an empty or a long one.

    >>> checked_name("commit_id", "flights 2013")
    'flights 2013'
    """
    if not 0 < len(name) <= LONGEST:
        raise InvalidInput(f"{what} has {len(name)} characters; expected 1 to {LONGEST}")
    return name


class Once(Protocol):
    """A commit that another process may try as well, or have made already."""

    @property
    def name(self) -> str:
        """The name in errors; at most one of a name is in a commit."""
        ...

    def check(self, newest: Snapshot) -> None:
        """Raise `AlreadyCommitted` where it was made before."""
        ...

    def noted(self, head: pa.Table) -> pa.Table:
        """Return the guard row that remembers it as well."""
        ...


def remembering(snapshot: Snapshot, rows: pa.Table, new: Sequence[Once]) -> pa.Table:
    """Return the rows of a commit on top of `snapshot`, with the guard row among them that remembers `new`."""
    if not new:
        return rows
    head = guard_row(snapshot)
    others = rows.filter(pc.not_equal(rows["object_id"], head["object_id"][0]))
    for once in new:
        head = once.noted(head)
    return pa.concat_tables([head, others])
