"""Offsets of a stream of a table's rows, as Spark keeps them in its checkpoint, and their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from lance_flight.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A place in the history of a table: behind the rows of a snapshot. `BEGINNING` stands before everything.

    `committed_at` tells the snapshot from that of a table which was made again. Spark asks for the first offset of a query
    again when it repeats the first batch, and keeps the ends of batches alone: so the beginning is always the same, the first batch
    ends where the rows are to begin, and says itself whether `is_whole`, with all rows of its snapshot, or empty.
    """

    version: int = 0
    committed_at: datetime | None = None
    is_whole: bool = False

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave; `InvalidInput` for the offset of another source."""
        match dict(found):
            case {"version": 0}:
                return cls()
            case {"version": int(version), "committed_at": str(moment), "is_whole": bool(is_whole)}:
                return cls(version=version, committed_at=datetime.fromisoformat(moment), is_whole=is_whole)
            case _:
                raise InvalidInput(f"offset {found!r} in the checkpoint is none of lance_flight's")

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it."""
        if self.committed_at is None:
            return {"version": self.version}
        return {"version": self.version, "committed_at": self.committed_at.isoformat(), "is_whole": self.is_whole}


BEGINNING = Offset()


def last_version(start: int, newest: int, most: int | None) -> int:
    """Return the version up to which a batch goes that begins behind `start`, with at most so many versions.

    >>> last_version(3, 9, None), last_version(3, 9, 2), last_version(9, 9, 2)
    (9, 5, 9)
    """
    return newest if most is None else min(newest, start + most)
