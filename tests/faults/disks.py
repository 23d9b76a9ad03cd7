"""Disks without room: files that cannot grow, and small devices."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PLENTY = "size=256m,nr_inodes=200000"
REMOUNT, DETACH = 32, 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Disk:
    """A device in memory, whose room can be changed while it is used."""

    place: Path

    def mount(self, options: str = PLENTY, flags: int = 0) -> bool:
        """Mount the device, or change it; tell whether the system lets this process do so."""
        place = str(self.place).encode()
        return bool(_libc.mount(b"lance-flight-tests", place, b"tmpfs", flags, options.encode()) == 0)

    @contextmanager
    def with_room(self, *, files: int | None = None, pages: int | None = None) -> Iterator[None]:
        """Leave room for so many more files (and directories), or pages of 4 KiB, and then for plenty again."""
        found = os.statvfs(self.place)
        room = [f"nr_inodes={found.f_files - found.f_ffree + files}"] if files is not None else []
        room += [f"nr_blocks={found.f_blocks - found.f_bfree + pages}"] if pages is not None else []
        assert self.mount(",".join(room), REMOUNT)
        try:
            yield
        finally:
            assert self.mount(PLENTY, REMOUNT)

    def unmount(self) -> None:
        """Let the device go with all that is on it."""
        _libc.umount2(str(self.place).encode(), DETACH)

    @property
    def used(self) -> int:
        """Bytes and files that are used, together."""
        found = os.statvfs(self.place)
        return (found.f_blocks - found.f_bfree) * found.f_frsize + found.f_files - found.f_ffree


@contextmanager
def files_up_to(limit: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes: the system refuses it, wherever in Lance it is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
