"""Branches of a namespace: Lance branches of its `__manifest`, and of each partition table that is written on one.

Decision 27. A name may be used again after its branch was dropped or published, while pins still refer to what was
written on it: so the Lance branches of the partition tables are called after this very branch, not its name alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lance import LanceDataset

from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.version_names import BRANCHES
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, storage_error
from lance_flight.model.naming import check_label

_IDENTIFIER_SHOWN = 12
_TABLE_BRANCH = re.compile(rf".+-[0-9a-f]{{{_IDENTIFIER_SHOWN}}}")


@dataclass(frozen=True, slots=True, order=True)
class BranchRef:
    """A branch of a namespace: its name, the version of the main branch that it begins with, and its unique identifier."""

    name: str
    forked_at: int
    identifier: str

    @property
    def table_branch(self) -> str:
        """The Lance branch of every partition table that is written on this branch.

        >>> BranchRef("audit", 12, "734c6d017b34462785fc43195c09152f").table_branch
        'audit-734c6d017b34'
        """
        return f"{self.name}-{self.identifier[:_IDENTIFIER_SHOWN]}"


def is_table_branch(name: str) -> bool:
    """Return whether a Lance branch of a partition table is called like one of ours."""
    return _TABLE_BRANCH.fullmatch(name) is not None


def branches_of(manifest: LanceDataset) -> dict[str, BranchRef]:
    """Return the branches of a `__manifest` that begin on its main branch, by name."""
    return {
        name: BranchRef(name, int(found["parent_version"]), found["branch_identifier"][-1][1])
        for name, found in sorted(manifest.branches.list().items())
        if found["parent_branch"] is None
    }


def has_branches(place: Store) -> bool:
    """Return whether any Lance table right at `place`, or right below it, holds a branch, be it forgotten by its `__manifest`."""
    return any(table.child(BRANCHES).directories() for table in [place, *map(place.child, place.directories())])


def open_branch(table: Store, branch: str, version: int | None) -> LanceDataset:
    """Return a version of a branch of a Lance table (None: the newest).

    `OutsideRoot` where a part of it lies elsewhere.
    """
    place = table.child(BRANCHES, branch)
    place.check_links()
    return place.checked(table.open().checkout_version((branch, version)))


def create_branch(manifest: LanceDataset, name: str, version: int) -> None:
    """Begin a branch at a version of the main branch; `AlreadyExists` where a branch or a tag is called so."""
    check_label("branch", name)
    if name in manifest.tags.list():
        raise AlreadyExists(f"branch {name!r} cannot be: a tag is called so, and they share their names")
    if name in manifest.branches.list():
        raise AlreadyExists(f"branch {name!r} is there already")
    try:
        manifest.create_branch(name, version)
    except (OSError, ValueError) as exc:
        refused = storage_error(exc)
        if refused is not None:
            raise refused from exc
        # Lance has no word for it: what lies there is another one's that is just being made, or was never finished.
        raise AlreadyExists(f"branch {name!r} has no room: something lies in its place already") from exc


def drop_branch(manifest: LanceDataset, name: str) -> None:
    """Delete a branch and its snapshots.

    What was written on it stays as long as pins refer to it: the branches of the partition tables are not touched.
    """
    known = manifest.branches.list()
    if name not in known:
        raise NotFound.named("branch", name, known)
    try:
        manifest.branches.delete(name)
    except OSError as exc:
        if "referenced" not in str(exc):
            raise
        raise InvalidInput(f"branch {name!r} cannot be dropped: a tag or another branch refers to it") from exc
