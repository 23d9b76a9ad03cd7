"""Pins: the version of a partition table that a `__manifest` row says to read.

The spec allows four combinations of `read_version`, `read_branch` and `read_tag` (Transaction, Read Behavior);
each is a class here, and there is no way to write a fifth.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from lance_flight.errors import Corrupt


class PinColumns(NamedTuple):
    """The three pin columns of one `__manifest` row."""

    read_version: int | None = None
    read_branch: str | None = None
    read_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest version of the main branch: all three columns are NULL."""

    @property
    def columns(self) -> PinColumns:
        return PinColumns()

    def __str__(self) -> str:
        return "newest version"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the main branch: `read_version` alone."""

    version: int

    @property
    def columns(self) -> PinColumns:
        return PinColumns(read_version=self.version)

    def __str__(self) -> str:
        return f"version {self.version}"


@dataclass(frozen=True, slots=True)
class PlainVersion(Version):
    """A version of a plain table: the next one on top of it is read by everybody as soon as it is committed.

    `committed_at` tells it from the version of that number of a table that was dropped and made again.
    """

    committed_at: datetime


@dataclass(frozen=True, slots=True)
class BranchVersion:
    """One version of a branch: `read_branch` and `read_version`."""

    branch: str
    version: int

    @property
    def columns(self) -> PinColumns:
        return PinColumns(read_version=self.version, read_branch=self.branch)

    def __str__(self) -> str:
        return f"version {self.version} of branch {self.branch!r}"


@dataclass(frozen=True, slots=True)
class Tag:
    """The version that a tag of the table refers to: `read_tag` alone."""

    tag: str

    @property
    def columns(self) -> PinColumns:
        return PinColumns(read_tag=self.tag)

    def __str__(self) -> str:
        return f"tag {self.tag!r}"


Pin = Latest | Version | BranchVersion | Tag
FixedPin = Version | BranchVersion
"""A pin that always means the same version."""


def pin_from_columns(read_version: int | None, read_branch: str | None, read_tag: str | None, *, object_id: str) -> Pin:
    """Return the pin of the row `object_id`; `Corrupt` for a combination that the spec does not have.

    >>> pin_from_columns(5, None, None, object_id="v1$a$dataset")
    Version(version=5)
    """
    match read_version, read_branch, read_tag:
        case None, None, None:
            return Latest()
        case int(version), None, None:
            return Version(version)
        case int(version), str(branch), None:
            return BranchVersion(branch, version)
        case None, None, str(tag):
            return Tag(tag)
    raise Corrupt(
        f"__manifest row {object_id!r} has read_version={read_version!r}, read_branch={read_branch!r}, "
        f"read_tag={read_tag!r}; expected read_version alone, read_branch with read_version, read_tag alone, or none"
    )
