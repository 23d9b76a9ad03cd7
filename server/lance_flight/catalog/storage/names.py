"""Names of the files and directories of a Lance table, and of the column of row addresses.

A version is named by its distance to the largest number of 64 bits, in 20 digits, so that the newest comes first in order; in tables
of older releases by its number alone. The name of a detached version, which belongs to no branch, begins with a `d`.
"""

from __future__ import annotations

import re

VERSIONS = "_versions"
BRANCHES = "tree"
"""The directory of a Lance table that holds its branches, each like a table of its own."""

_SUFFIX = ".manifest"
_LARGEST = (1 << 64) - 1
_DIGITS = 20
_NAME = re.compile(rf"(d?)(\d+){re.escape(_SUFFIX)}")


def version_name(version: int) -> str:
    """Return the name that a version is written under.

    >>> version_name(1)
    '18446744073709551614.manifest'
    """
    return f"{_LARGEST - version:0{_DIGITS}}{_SUFFIX}"


def version_names(version: int) -> tuple[str, str]:
    """Return both names that a version may have, the usual one first."""
    return version_name(version), f"{version}{_SUFFIX}"


def is_version_name(name: str) -> bool:
    """Return whether a file in `_versions` is a version, of whatever naming."""
    return name.endswith(_SUFFIX)


def is_detached(name: str) -> bool:
    """Return whether a name is that of a detached version."""
    match = _NAME.fullmatch(name)
    return match is not None and bool(match[1])


def parse_version(name: str) -> int | None:
    """Parse the name of a version of a branch; None for any other name.

    >>> parse_version("18446744073709551614.manifest"), parse_version("7.manifest"), parse_version("d7.manifest")
    (1, 7, None)
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1]:
        return None
    return _LARGEST - int(match[2]) if len(match[2]) == _DIGITS else int(match[2])


PRIVATE = ".lance-flight"


ROW_ADDRESS = "_rowaddr"
TABLE_NUMBER = "_table_number"
"""Column with the number of a table within one scan."""
OFFSET_BITS = 32
OFFSETS = (1 << OFFSET_BITS) - 1
