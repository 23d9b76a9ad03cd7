"""What a disk holds after a power cut: what was flushed, and of all that came later any part.

The names in a directory and the content of a file are durable once a flush has begun after them. What came later may be there or not, each
name and each content by itself; of a file that is new it may be half, or nothing but the name. A move is there as a whole or not at all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lance_flight.catalog.storage import durability

from tests.faults.failpoints import watched
from tests.selection import IS_FULL

Names = Mapping[int, Mapping[str, int]]
"""The names in each directory, and the inodes that they lead to."""


@dataclass(frozen=True)
class Disk:
    """A directory at one moment: the names in it and below, and the content of each file and when it was written, by inode."""

    top: int
    names: Names
    content: Mapping[int, bytes]
    times: Mapping[int, int]

    def put(self, place: Path) -> None:
        """Make the directory at a place."""
        self._put(self.top, place)

    def _put(self, inode: int, place: Path) -> None:
        if inode not in self.names:
            place.write_bytes(self.content.get(inode, b""))
            os.utime(place, ns=(self.times[inode], self.times[inode]))
            return
        place.mkdir(parents=True)
        for name, below in self.names[inode].items():
            self._put(below, place / name)

    def cut(self, live: Disk, how: Cutting) -> Disk:
        """What of a directory is there after a cut, when this one was flushed and it was `live` then."""
        names = {
            inode: _left(self.names.get(inode, {}), live.names.get(inode, {}), how)
            for inode in {*self.names, *live.names}
        }
        content = {
            inode: data if self.content.get(inode) == data else how.written(self.content.get(inode), data)
            for inode, data in {**self.content, **live.content}.items()
        }
        return Disk(self.top, names, content, {**self.times, **live.times})


def _left(old: Mapping[str, int], new: Mapping[str, int], how: Cutting) -> dict[str, int]:
    """The names in a directory, each as it was flushed or as it was then."""
    found = {}
    for name in {*old, *new}:
        before, after = old.get(name), new.get(name)
        inode = after if before == after or how.has_name(after if after is not None else before) else before
        if inode is not None:
            found[name] = inode
    return found


class Cutting:
    """Which of the changes after the last flush a power cut leaves; the same ones for the same seed.

    Without a seed all `names` are there, or none, and nothing of the content.
    """

    def __init__(self, seed: str | None, *, names: bool = False) -> None:
        self._random = None if seed is None else random.Random(seed)  # noqa: S311
        self._names = names
        self._chosen: dict[int | None, bool] = {}

    def has_name(self, inode: int | None) -> bool:
        if self._random is None:
            return self._names
        if inode not in self._chosen:
            self._chosen[inode] = self._random.random() < 0.5
        return self._chosen[inode]

    def written(self, old: bytes | None, new: bytes) -> bytes:
        if self._random is None:
            return b"" if old is None else old
        return self._random.choice([new, new[: len(new) // 2], bytes(len(new)), b"" if old is None else old])


@dataclass(frozen=True)
class Cut:
    """A moment at which the power may fail: what was flushed by then, what was written, and whether a client has its answer."""

    name: str
    flushed: Disk
    live: Disk
    is_acknowledged: bool = False

    def __str__(self) -> str:
        return self.name

    def left(self, how: Cutting) -> Disk:
        return self.flushed.cut(self.live, how)


@dataclass
class Power:
    """Watches a directory: each flush, and each cut that may come."""

    root: Path
    flushed: Disk = field(init=False)
    cuts: list[Cut] = field(default_factory=list)
    flushes: int = 0
    _held: ExitStack = field(default_factory=ExitStack)
    _known: dict[int, tuple[object, bytes]] = field(default_factory=dict)

    def look(self) -> Disk:
        """The directory as it is now; what lies in it keeps its inode from here on."""
        names: dict[int, dict[str, int]] = {}
        content: dict[int, bytes] = {}
        times: dict[int, int] = {}
        top = self._inode(self.root)
        below = [(top, self.root)]
        while below:
            inode, place = below.pop()
            names[inode] = {}
            with suppress(FileNotFoundError):
                for entry in sorted(os.scandir(place), key=lambda each: each.name):
                    with suppress(FileNotFoundError):
                        found = self._inode(Path(entry.path))
                        names[inode][entry.name] = found
                        if entry.is_dir(follow_symlinks=False):
                            below.append((found, Path(entry.path)))
                        else:
                            content[found] = self._known[found][1]
                            times[found] = entry.stat(follow_symlinks=False).st_mtime_ns
        return Disk(top, names, content, times)

    def _inode(self, place: Path) -> int:
        said = place.lstat()
        mark = said.st_size, said.st_mtime_ns, said.st_ctime_ns
        known = self._known.get(said.st_ino)
        if known is None:
            handle = os.open(place, os.O_RDONLY)
            self._held.callback(os.close, handle)
        if known is None or known[0] != mark:
            self._known[said.st_ino] = mark, b"" if place.is_dir() else place.read_bytes()
        return said.st_ino

    def reach(self, name: str, *, is_acknowledged: bool = False) -> None:
        """Remember that the power may fail now."""
        self.cuts.append(Cut(name, self.flushed, self.look(), is_acknowledged))

    def flush(self, _: int) -> None:
        """Flush, as a device does: what was written before it began is durable when it ends."""
        self.flushes += 1
        live = self.look()
        self.cuts.append(Cut(f"flush {self.flushes}", self.flushed, live))
        self.flushed = live


@contextmanager
def power(root: Path) -> Iterator[Power]:
    """Watch a directory, all of which is durable when the block begins: each flush, and in full mode each fault point between them."""
    watched_one = Power(root)
    watched_one.flushed = watched_one.look()
    points = watched(lambda point, number: watched_one.reach(f"{point} {number}")) if IS_FULL else nullcontext()
    with watched_one._held, pytest.MonkeyPatch.context() as patched, points:
        patched.setattr(durability, "flush_device", watched_one.flush)
        yield watched_one
