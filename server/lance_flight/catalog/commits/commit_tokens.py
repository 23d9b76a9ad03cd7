"""Commit tokens: commits with an id from the client, which is never committed twice.

What makes room for later ids are the oldest of more than `KEPT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from lance_flight.catalog.manifests.guard_notes import entries_of, with_note
from lance_flight.catalog.manifests.manifest_rows import checked_name, guard_row
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import AlreadyCommitted

COMMITS = "lance_flight:commits"
KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitToken:
    """A commit by its id (`Once`): how many rows it brought, and when it was made."""

    id: str
    rows: int
    at: datetime

    @classmethod
    def now(cls, commit_id: str, rows: int) -> CommitToken:
        """Return a commit that is about to be made; `InvalidInput` for an id that cannot be remembered."""
        return cls(id=checked_id(commit_id), rows=rows, at=datetime.now(UTC).replace(microsecond=0))

    @property
    def name(self) -> str:
        return f"commit_id {self.id!r}"

    def __str__(self) -> str:
        return f"{self.name} was committed at {self.at.isoformat()} with {self.rows} rows"

    def check(self, newest: Snapshot) -> None:
        known = named_commit(newest, self.id)
        if known is not None:
            raise AlreadyCommitted(str(known))

    def noted(self, head: pa.Table) -> pa.Table:
        said = [[commit.id, commit.rows, commit.at.isoformat()] for commit in [*_of(head), self]]
        return with_note(head, COMMITS, said[-KEPT:])


def checked_id(commit_id: str) -> str:
    """Return the id itself; `InvalidInput` for an empty or a long one."""
    return checked_name("commit_id", commit_id)


def named_commits(snapshot: Snapshot) -> list[CommitToken]:
    """Return the commits that a snapshot remembers by their ids, oldest first."""
    return list(_of(guard_row(snapshot)))


def named_commit(snapshot: Snapshot, commit_id: str) -> CommitToken | None:
    """Return the commit that was made with an id, if the snapshot remembers one."""
    return next((commit for commit in named_commits(snapshot) if commit.id == commit_id), None)


def _of(head: pa.Table) -> Iterator[CommitToken]:
    for entry in entries_of(head, COMMITS):
        match entry:
            case [str(commit_id), int(rows), str(moment)]:
                yield CommitToken(id=commit_id, rows=rows, at=datetime.fromisoformat(moment))
