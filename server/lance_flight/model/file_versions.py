"""Versions of Lance's file format that a new table may have."""

from __future__ import annotations

from lance_flight.errors import InvalidInput

FILE_VERSIONS = ("2.0", "2.1", "2.2")
NEWEST = FILE_VERSIONS[-1]


def check_version(version: str, what: str) -> str:
    """Return the version, or `InvalidInput` where no new table can have it."""
    if version not in FILE_VERSIONS:
        raise InvalidInput(f"{what} is {version!r}; expected {', '.join(FILE_VERSIONS[:-1])} or {FILE_VERSIONS[-1]}")
    return version
