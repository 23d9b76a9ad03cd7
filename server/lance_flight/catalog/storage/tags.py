"""Tags: names for versions of a Lance table, a `__manifest` or a plain one, that stay when versions are expired."""

from __future__ import annotations

from dataclasses import dataclass

from lance import LanceDataset

from lance_flight.errors import AlreadyExists, NotFound
from lance_flight.model.naming import check_label


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


def drop_tag(table: LanceDataset, name: str) -> None:
    """Delete a tag; the version itself stays."""
    known = table.tags.list()
    if name not in known:
        raise NotFound.named("tag", name, known)
    table.tags.delete(name)
