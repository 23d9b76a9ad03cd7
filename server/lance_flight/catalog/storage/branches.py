"""Branches and tags of Lance tables.

Decision 27. A name may be used again after its branch was dropped or published, while pins still refer to what was
written on it: so the Lance branches of the partition tables are called after this very branch, not its name alone.
"""

from __future__ import annotations

import logging
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from lance import LanceDataset

from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import BRANCHES, VERSIONS, is_version_name
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, storage_error
from lance_flight.model.naming import check_label

log = logging.getLogger(__name__)

UNFINISHED_AFTER = 60.0
"""Seconds after which a branch without a name is one that nobody makes any longer."""
_OF_A_FORK = frozenset({VERSIONS, "_transactions"})
"""Directories that a branch has without any commit of its own."""
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

    `NotFound` where the branch was dropped, `OutsideRoot` where a part of it lies elsewhere.
    """
    place = table.child(BRANCHES, branch)
    place.check_links()
    dataset = table.open()
    try:
        return place.check_dataset(dataset.checkout_version((branch, version)))
    except UNREADABLE as exc:
        if branch in dataset.branches.list():
            raise
        raise NotFound(f"branch {branch!r} was dropped by another writer") from exc


def create_branch(manifest: LanceDataset, name: str, version: int, place: Store) -> None:
    """Begin a branch of the table in a place at a version of the main branch; `AlreadyExists` where a branch or a tag is called so."""
    check_label("branch", name)
    if name in manifest.tags.list():
        raise AlreadyExists(f"branch {name!r} cannot be: a tag is called so, and they share their names")
    if name in manifest.branches.list():
        raise AlreadyExists(f"branch {name!r} is there already")
    remove_unfinished(place.uri, name)
    try:
        manifest.create_branch(name, version)
    except (OSError, ValueError) as exc:
        refused = storage_error(exc)
        if refused is not None:
            raise refused from exc
        # Lance has no word for it: what lies there is another one's that is just being made, or was never finished.
        raise AlreadyExists(
            f"branch {name!r} has no room: something lies in its place already; expected another name, or a new try in a minute"
            " where its making was interrupted"
        ) from exc


def remove_unfinished(table: str, name: str) -> bool:
    """Remove a branch of a table in a directory whose making was interrupted, and return whether there was one.

    Nothing names it, it has no files of its own, and its one version is too old to be made at this moment.
    """
    place = Path(table, BRANCHES, name)
    if "://" in table or Path(table, "_refs", "branches", f"{name}.json").exists() or not place.is_dir():
        return False
    paths = [path for path in place.rglob("*") if not path.is_dir()]
    is_fork = all(path.parent.name in _OF_A_FORK for path in paths) and sum(map(_is_version, paths)) <= 1
    # Each new try leaves a transaction there.
    began = min(path.stat().st_mtime for path in paths or [place])
    if not is_fork or place.is_symlink() or time.time() - began < UNFINISHED_AFTER:
        return False
    log.warning("branch %s of %s was never made whole: removed", name, table)
    shutil.rmtree(place)
    return True


def _is_version(path: Path) -> bool:
    return is_version_name(path.name)


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


@dataclass(frozen=True, slots=True, order=True)
class TagRef:
    """A tag: its name, and the version (of a branch; None: the main one) that it refers to."""

    name: str
    version: int
    branch: str | None = None


def tags_of(table: LanceDataset) -> list[TagRef]:
    """Return all tags of a table, by name."""
    return sorted(TagRef(name, int(tag["version"]), tag["branch"]) for name, tag in table.tags.list().items())


def create_tag(table: LanceDataset, name: str, version: int) -> None:
    """Name a version of the main branch; `AlreadyExists` where a tag or a branch is called so."""
    check_label("tag", name)
    if name in table.branches.list():
        raise AlreadyExists(f"tag {name!r} cannot be: a branch is called so, and they share their names")
    try:
        table.tags.create(name, version)
    except ValueError as exc:
        if "already exists" not in str(exc):
            raise
        raise AlreadyExists(f"tag {name!r} is there already") from exc


def replace_tag(table: LanceDataset, name: str, version: int) -> None:
    """Have a tag name another version of the main branch, in one step."""
    _check_tag(table, name)
    table.tags.update(name, version)


def drop_tag(table: LanceDataset, name: str) -> None:
    """Delete a tag; the version itself stays."""
    _check_tag(table, name)
    table.tags.delete(name)


def _check_tag(table: LanceDataset, name: str) -> None:
    known = table.tags.list()
    if name not in known:
        raise NotFound.named("tag", name, known)
