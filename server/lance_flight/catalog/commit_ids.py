"""Commits that were given an id by whoever made them, remembered in the snapshot: the same id is never committed twice.

They stand in the head row, which every commit writes back: two commits of one id conflict, and the second one finds the
first. Snapshots expire, and this does not; what makes room are later ids, `KEPT` of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.head_notes import notes_of, with_note
from lance_flight.catalog.new_partitions import head_row
from lance_flight.catalog.snapshot import Snapshot
from lance_flight.errors import InvalidInput

COMMITS = "lance_flight:commits"
KEPT = 256
LONGEST = 200
"""Characters of an id: the whole list is written with every commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCommit:
    """A commit by its id: how many rows it brought, and when it was made."""

    id: str
    rows: int
    at: datetime

    @classmethod
    def now(cls, commit_id: str, rows: int) -> NamedCommit:
        """A commit that is about to be made; `InvalidInput` for an id that cannot be remembered."""
        return cls(id=checked_id(commit_id), rows=rows, at=datetime.now(UTC).replace(microsecond=0))


def checked_id(commit_id: str) -> str:
    """The id itself; `InvalidInput` for an empty or a long one."""
    if not 0 < len(commit_id) <= LONGEST:
        raise InvalidInput(f"commit_id has {len(commit_id)} characters; expected 1 to {LONGEST}")
    return commit_id


def named_commits(snapshot: Snapshot) -> list[NamedCommit]:
    """The commits that a snapshot remembers by their ids, oldest first."""
    return list(_read(notes_of(head_row(snapshot)).get(COMMITS)))


def named_commit(snapshot: Snapshot, commit_id: str) -> NamedCommit | None:
    """The commit that was made with an id, if the snapshot remembers one."""
    return next((commit for commit in named_commits(snapshot) if commit.id == commit_id), None)


def remembering(snapshot: Snapshot, rows: pa.Table, new: Sequence[NamedCommit]) -> pa.Table:
    """The rows of a commit on top of `snapshot`, with the head row among them that remembers `new` as well."""
    if not new:
        return rows
    head = head_row(snapshot)
    said = [[commit.id, commit.rows, commit.at.isoformat()] for commit in [*named_commits(snapshot), *new]]
    others = rows.filter(pc.not_equal(rows["object_id"], head["object_id"][0]))
    return pa.concat_tables([with_note(head, COMMITS, said[-KEPT:]), others])


def _read(said: object) -> Iterator[NamedCommit]:
    for entry in said if isinstance(said, list) else ():
        match entry:
            case [str(commit_id), int(rows), str(moment)]:
                yield NamedCommit(id=commit_id, rows=rows, at=datetime.fromisoformat(moment))
