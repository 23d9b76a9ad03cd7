"""Symbolic links below a root, none of which is followed: a path that leaves the root is neither read, written nor deleted.

A table's directories are examined when it is opened, and again when one of them has changed (inode and moment of change),
so that a table that stays as it is costs a few `lstat`s. What grows with the history of a `__manifest`, and is not named
by the version that is read, is left unexamined. A link that is put in between the examination and the read is followed:
whoever can write below the root at that moment can as well write the data.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

from lance_flight.catalog.storage.names import BRANCHES, VERSIONS, version_names
from lance_flight.errors import OutsideRoot
from lance_flight.lru_cache import IDLE_SECONDS, LruCache
from lance_flight.model.naming import MANIFEST

_MOST_TABLES = 65_536
_SETTLED_NS = 100_000_000
"""A directory that changed later than this before it was examined may change once more within one tick of its clock."""

_FILES = ("data", "_deletions")
_DIRECTORIES = ("_indices", "_refs")

_Mark: TypeAlias = tuple[int, int, int] | None
"""Mark that changes with a directory: device, inode, and the moment of the change; None: it is not there."""

_examined = LruCache[str, tuple[tuple[str, _Mark], ...]](_MOST_TABLES, idle_seconds=IDLE_SECONDS)
"""The directories of each table that was found free of links, as they were then."""


def check_way(top: str, path: str) -> None:
    """Raise `OutsideRoot` for the first symbolic link between `top`, which may be one, and a path below it."""
    at = top
    for name in path[len(top) :].split("/"):
        if name:
            at = f"{at}/{name}"
            try:
                mode = os.lstat(at).st_mode
            except OSError:
                return
            if stat.S_ISLNK(mode):
                raise _follow(top, at)


def check_table(top: str, table: str) -> None:
    """Raise `OutsideRoot` for a symbolic link on the way to a Lance table, or among its files."""
    check_way(top, table)
    known = _examined.get(table)
    if known is not None and all(_mark(path) == mark for path, mark in known):
        return
    marks = tuple(_examine(top, table))
    newest = max((mark[2] for _, mark in marks if mark is not None), default=0)
    if newest < time.time_ns() - _SETTLED_NS:
        _examined.put(table, marks)
    else:
        _examined.pop(table)


def check_place(top: str, table: str) -> None:
    """Raise `OutsideRoot` for a symbolic link on the way to a Lance table or right in its directory; reads no file of it."""
    check_way(top, table)
    _entries(top, table)


def check_version(top: str, table: str, version: int) -> None:
    """Raise `OutsideRoot` where the file of a table's version is a symbolic link."""
    for name in version_names(version):
        with suppress(OSError):
            path = f"{table}/{VERSIONS}/{name}"
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise _follow(top, path)
            return


def _examine(top: str, table: str) -> Iterator[tuple[str, _Mark]]:
    """Look for links in a table's directories, and yield each of those as it was before."""
    yield table, _mark(table)
    there = _entries(top, table)
    for name in () if f"/{MANIFEST}" in table else _FILES:
        if name in there:
            yield f"{table}/{name}", _mark(f"{table}/{name}")
            _entries(top, f"{table}/{name}")
    for name in _DIRECTORIES:
        if name in there:
            yield f"{table}/{name}", _mark(f"{table}/{name}")
            for inner in _entries(top, f"{table}/{name}"):
                yield f"{table}/{name}/{inner}", _mark(f"{table}/{name}/{inner}")
                _entries(top, f"{table}/{name}/{inner}")
    if BRANCHES in there:
        yield f"{table}/{BRANCHES}", _mark(f"{table}/{BRANCHES}")
        _entries(top, f"{table}/{BRANCHES}")


def _entries(top: str, directory: str) -> set[str]:
    """Return the names in a directory, none of which is a link; none where it cannot be listed."""
    names = set()
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise _follow(top, entry.path)
            names.add(entry.name)
    return names


def _mark(path: str) -> _Mark:
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns


def _follow(top: str, path: str) -> OutsideRoot:
    place = path.removeprefix(f"{top}/")
    return OutsideRoot(
        f"{place!r} is a symbolic link and lies in another place than its own, and no link below a root is followed;"
        " expected the file or directory itself"
    )
