"""Commits that are made once, however often they are tried: those with an id from the client, and batches of streams.

The guard row of the very commit remembers them, so that two commits of the same thing conflict, and the second one finds the
first. Snapshots expire, and this does not.

A stream numbers its batches and never goes back, so that its last one says of all others whether they were committed:
one entry for each stream, however long it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.manifest_rows import entries_of, guard_row, with_note
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import AlreadyCommitted, AlreadyExists, InvalidInput

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


def remembering(snapshot: Snapshot, rows: pa.Table, new: Sequence[Once]) -> pa.Table:
    """Return the rows of a commit on top of `snapshot`, with the guard row among them that remembers `new`."""
    if not new:
        return rows
    head = guard_row(snapshot)
    others = rows.filter(pc.not_equal(rows["object_id"], head["object_id"][0]))
    for once in new:
        head = once.note_in(head)
    return pa.concat_tables([head, others])


COMMITS = "lance_flight:commits"
SOURCES = "lance_flight:commit_sources"
"""What the rows of those commits were made from, apart: entries of them that are longer would be overlooked by older releases."""
KEPT = 256
"""Commits whose ids are remembered; the oldest make room for later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitToken:
    """A commit by its id (`Once`): how many rows it brought, when it was made, and from which `source`, where that is known."""

    id: str
    rows: int
    at: datetime
    source: str | None = None

    @classmethod
    def now(cls, commit_id: str, rows: int, source: str | None = None) -> CommitToken:
        """Return a commit that is about to be made; `InvalidInput` for an id or a source that cannot be remembered."""
        if source is not None:
            checked_name("commit_source", source)
        return cls(id=checked_id(commit_id), rows=rows, at=datetime.now(UTC).replace(microsecond=0), source=source)

    @property
    def name(self) -> str:
        return f"commit_id {self.id!r}"

    def __str__(self) -> str:
        return f"{self.name} was committed at {self.at.isoformat()} with {self.rows} rows"

    def check(self, newest: Snapshot) -> None:
        """Raise `AlreadyCommitted` where it was made before."""
        known = named_commit(newest, self.id)
        if known is not None:
            known.check_source(self.source)
            raise AlreadyCommitted(str(known))

    def check_source(self, source: str | None) -> None:
        """Raise `AlreadyExists` where rows of another source are to be committed under the id."""
        if None not in (source, self.source) and source != self.source:
            raise AlreadyExists(f"{self}, of another source; expected another commit_id for other rows")

    def note_in(self, head: pa.Table) -> pa.Table:
        kept = [*_tokens_of(head), self][-KEPT:]
        noted = with_note(head, COMMITS, [[commit.id, commit.rows, commit.at.isoformat()] for commit in kept])
        sources = {commit.id: commit.source for commit in kept if commit.source is not None}
        return with_note(noted, SOURCES, [[*item] for item in sources.items()]) if sources else noted


def checked_id(commit_id: str) -> str:
    """Return the id itself; `InvalidInput` for an empty or a long one."""
    return checked_name("commit_id", commit_id)


def named_commits(snapshot: Snapshot) -> list[CommitToken]:
    """Return the commits that a snapshot remembers by their ids, oldest first."""
    return list(_tokens_of(guard_row(snapshot)))


def named_commit(snapshot: Snapshot, commit_id: str) -> CommitToken | None:
    """Return the commit that was made with an id, if the snapshot remembers one."""
    return next((commit for commit in named_commits(snapshot) if commit.id == commit_id), None)


def _tokens_of(head: pa.Table) -> Iterator[CommitToken]:
    sources: dict[str, str] = {}
    for entry in entries_of(head, SOURCES):
        match entry:
            case [str(commit_id), str(source)]:
                sources[commit_id] = source
    for entry in entries_of(head, COMMITS):
        match entry:
            case [str(commit_id), int(rows), str(text)] if (moment := _moment(text)) is not None:
                yield CommitToken(id=commit_id, rows=rows, at=moment, source=sources.get(commit_id))


def _moment(text: str) -> datetime | None:
    """Return the time that a note says; None where it says none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


STREAMS = "lance_flight:streams"
KEPT_STREAMS = 256
"""Streams that are remembered; those that have not written for the longest time make room for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """A batch of a stream (`Once`): how many rows it brought, and when it was committed.

    `query` tells two streams of the same name apart, where it is known: the second one counts its batches from the
    beginning, and would lose those that the first one has had.
    """

    stream: str
    batch: int
    query: str | None
    rows: int
    at: datetime

    @classmethod
    def now(cls, stream: str, batch: int, *, query: str | None, rows: int) -> StreamBatch:
        """Return a batch that is about to be committed; `InvalidInput` for a stream that cannot be remembered."""
        at = datetime.now(UTC).replace(microsecond=0)
        return cls(stream=checked_stream(stream), batch=batch, query=query, rows=rows, at=at)

    @property
    def name(self) -> str:
        return f"stream {self.stream!r}"

    def check(self, newest: Snapshot) -> None:
        """Raise `AlreadyExists` where another query has the name, as `AlreadyCommitted` for the batch itself."""
        last = last_batch(newest, self.stream)
        if last is None:
            return
        if self.query is not None and last.query is not None and self.query != last.query:
            raise AlreadyExists(
                f"{self.name} is that of query {last.query}, which has committed batch {last.batch}, and this is query"
                f" {self.query}; expected another name for a query with another checkpoint"
            )
        if self.batch <= last.batch:
            raise AlreadyCommitted(
                f"batch {self.batch} of {self.name} was committed; the last one is {last.batch}, of {last.at.isoformat()}"
            )

    def note_in(self, head: pa.Table) -> pa.Table:
        others = [batch for batch in _batches_of(head) if batch.stream != self.stream]
        notes = [
            [batch.stream, batch.batch, batch.query, batch.rows, batch.at.isoformat()] for batch in [*others, self]
        ]
        return with_note(head, STREAMS, notes[-KEPT_STREAMS:])


def checked_stream(stream: str) -> str:
    """Return the name itself; `InvalidInput` for an empty or a long one."""
    return checked_name("the name of a stream", stream)


def last_batches(snapshot: Snapshot) -> list[StreamBatch]:
    """Return the last batch of each stream that a snapshot remembers; the stream that wrote last comes last."""
    return list(_batches_of(guard_row(snapshot)))


def last_batch(snapshot: Snapshot, stream: str) -> StreamBatch | None:
    """Return the last batch of a stream, if the snapshot remembers one."""
    return next((batch for batch in last_batches(snapshot) if batch.stream == stream), None)


def _batches_of(head: pa.Table) -> Iterator[StreamBatch]:
    for entry in entries_of(head, STREAMS):
        match entry:
            case [str(stream), int(batch), str() | None as query, int(rows), str(text)] if (
                moment := _moment(text)
            ) is not None:
                yield StreamBatch(stream=stream, batch=batch, query=query, rows=rows, at=moment)


Once: TypeAlias = CommitToken | StreamBatch
"""A commit that another process may try as well, or have made already; at most one of a name is in a commit."""
