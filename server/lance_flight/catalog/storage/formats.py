"""Versions of what is stored beyond the spec: which of them this release reads, and what it says of another one.

A version changes only where an older release would read something wrong, or destroy it; what it may ignore is a new key. A release
reads a new version before any release writes it: `lance-flight migrate` begins to, once no older server is at work. So a writer
keeps the version that it finds, and what has no record of one is of the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Corrupt, NewerFormat, Unsupported
from lance_flight.model.naming import PLAIN_SUFFIX

FIRST = 1
"""The version of what has no record of one."""
FORMAT_KEY = "lance_flight:format"
"""The key of a table's version, in the table metadata of its `__manifest`, or of the plain table."""
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFormat:
    """One thing that is stored, and the versions of it that this release reads: `oldest` to `newest`.

    `name` is its key in the record of a root; `what` is its name in messages.
    """

    name: str
    what: str
    oldest: int = FIRST
    newest: int = FIRST

    @property
    def known(self) -> str:
        """The versions that are read, as messages name them."""
        return str(self.newest) if self.oldest == self.newest else f"{self.oldest} to {self.newest}"

    def check(self, found: object, thing: str) -> int:
        """Return a version that was found on a thing, a number or its digits; `NewerFormat` where this release does not read it.

        `Unsupported` for one that is no longer read, `Corrupt` for what is no version.
        """
        text = "" if isinstance(found, bool) else str(found)
        if not _NUMBER.fullmatch(text) or int(text) < FIRST:
            raise Corrupt(f"{thing} has {self.what} {found!r}; expected a number, {self.known}")
        version = int(text)
        if version > self.newest:
            raise NewerFormat(
                f"{thing} has {self.what} {version}, which a newer release wrote; this one reads {self.known}, and neither reads nor"
                " changes it; expected a server of that release (docs: stored formats)"
            )
        if version < self.oldest:
            raise Unsupported(
                f"{thing} has {self.what} {version}; this release reads {self.known}; expected `lance-flight migrate` of an earlier"
                " release to be run first"
            )
        return version


ROOT = StoredFormat(name="root", what="root format")
TABLE = StoredFormat(name="table", what="table format", newest=2)
PLAIN_TABLE = StoredFormat(name="plain_table", what="plain table format")
VIEW = StoredFormat(name="view", what="view format")
LEASE = StoredFormat(name="lease", what="lease format")
BACKUP = StoredFormat(name="backup", what="backup format")

FORMATS: Mapping[str, StoredFormat] = MappingProxyType(
    {each.name: each for each in (ROOT, TABLE, PLAIN_TABLE, VIEW, LEASE, BACKUP)}
)
"""Every format with a version of its own; docs/stored-formats.md says where each stands, and what its versions are."""


def version_of(metadata: Mapping[str, str]) -> object:
    """Return the version that the metadata of a table states, unchecked."""
    return metadata.get(FORMAT_KEY, FIRST)


def check_table(metadata: Mapping[str, str], place: Store, kind: StoredFormat = TABLE) -> int:
    """Return the version of the table at a place by its metadata; `NewerFormat` where this release does not read it."""
    root = "" if place.top is None else f" of root {place.top.rstrip('/').rpartition('/')[2]!r}"
    return kind.check(version_of(metadata), f"table {place.name.removesuffix(PLAIN_SUFFIX)!r}{root}")
