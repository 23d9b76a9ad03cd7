"""Notes of the guard row about tags and branches: how long each is kept, and what a branch was replaced by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lance_flight.catalog.manifests.manifest_rows import guard_row, notes_of
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.manifests.version_log import Change, Revision
from lance_flight.catalog.storage.store import BranchRef, TagRef

RETENTIONS = "lance_flight:retentions"
"""Note of the main branch: an entry for each tag and branch whose time is limited."""
REPLACED = "lance_flight:replaced"
"""Note of a branch that was replaced."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Time for which a tag or a branch is kept: `seconds` from the moment `since`, which is in seconds since 1970.

    It is about the tag, or the branch, that begins at `version`. What is given the same name later has none of it.
    """

    version: int
    seconds: float
    since: float

    def end(self, used: float = 0.0) -> float:
        """Return the moment at which the time is over for a reference that was `used` last at a moment."""
        return max(self.since, used) + self.seconds


def retentions_of(snapshot: Snapshot) -> Mapping[str, Retention]:
    """Return the retentions that a snapshot of the main branch has, by the name of the tag or branch."""
    note = notes_of(guard_row(snapshot)).get(RETENTIONS)
    return {} if note is None else {name: Retention(**entry) for name, entry in note.items()}


def retention_of(snapshot: Snapshot, ref: TagRef | BranchRef) -> Retention | None:
    """Return the retention of a tag or branch; None where it is kept until it is dropped."""
    retention = retentions_of(snapshot).get(ref.name)
    return None if retention is None or retention.version != ref.begins else retention


def change_retention(name: str, retention: Retention | None) -> Change:
    """Return the change that gives a tag or a branch a retention, or takes its retention away (None)."""

    def change(snapshot: Snapshot) -> Revision | None:
        known = retentions_of(snapshot)
        kept = {key: value for key, value in {**known, name: retention}.items() if value is not None}
        if kept == known:
            return None
        note = {key: asdict(value) for key, value in kept.items()}
        return Revision(operation=f"retain {name}", notes={RETENTIONS: note})

    return change


@dataclass(frozen=True, slots=True)
class Replacement:
    """The `version` of the main branch that a branch equalled when it was replaced, and a `mark` of what was written since then."""

    version: int
    mark: str

    def table_branch(self, name: str) -> str:
        """Return the Lance branch of partition tables that the branch called `name` writes to since then."""
        return f"{name}-{self.mark}"


def replacement_of(snapshot: Snapshot) -> Replacement | None:
    """Return what the branch of a snapshot was replaced by last; None where it is as it was made."""
    note = notes_of(guard_row(snapshot)).get(REPLACED)
    return None if note is None else Replacement(**note)
