"""Durability of what is written below a directory: the one module that flushes, and that knows what a power cut leaves.

Lance, pyarrow and Python write into the page cache, and none of them flushes. A commit therefore goes in this order:

1. All that the new version refers to is written, under names that nothing refers to yet.
2. `committing` marks the commit and flushes the device: data, version files and the directories that name them.
3. Lance gives the new version its name, which is the commit point.
4. `committing` flushes again. Only then is the commit acknowledged, and the mark removed.

A power cut between 3 and 4 may leave the name of a version without its content. That version was never acknowledged; its mark says so,
and `settle` takes it back. Whatever is deleted because something replaced it is deleted after a `flush` of what replaces it.

One call flushes a whole device (`syncfs`): for ten files it takes a fifth of the time of ten `fsync`, for a thousand a twentieth. Calls that come
while one runs share the next one. Object stores keep what they have acknowledged: for their addresses nothing is done here.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from threading import Condition, Lock

import lance
from lance import FragmentMetadata

from lance_flight.catalog.storage.retries import looks
from lance_flight.catalog.storage.whole_files import (
    BRANCHES,
    PRIVATE,
    VERSIONS,
    check_data,
    check_deletions,
    is_whole,
    parse_version,
    version_names,
)
from lance_flight.errors import Conflict, OutcomeUnknown, SerializationFailure, StorageFull, Unavailable
from lance_flight.model.naming import MANIFEST

log = logging.getLogger(__name__)

VARIABLE = "LANCE_FLIGHT_DURABILITY"
MARK = "committing-"
"""Beginning of the name of a mark, a file in the private directory of a table: the version that the commit goes on top of follows, and a token."""


REFERENCES, TAGS, BRANCHES_OF = "_refs", "tags", "branches"
"""The directory of the tags and branches of a Lance table, and those in it, with a file for each."""


class Durability(Enum):
    """Guarantee for acknowledged commits below a directory."""

    COMMIT = "commit"
    """An acknowledged commit survives a power cut."""
    NONE = "none"
    """An acknowledged commit survives the end of the process; the system flushes when it likes."""


@dataclass(slots=True)
class DurabilitySettings:
    """The durability of this process."""

    mode: Durability = Durability.COMMIT

    def flushes(self, place: str) -> bool:
        """Return whether what is written at a place has to be flushed."""
        return self.mode is Durability.COMMIT and "://" not in place


durability = DurabilitySettings(
    Durability.NONE if os.environ.get(VARIABLE) == Durability.NONE.value else Durability.COMMIT
)
"""That of this process; a server sets it from its configuration."""

_libc = ctypes.CDLL(None, use_errno=True)


def flush_device(handle: int) -> None:
    """Make everything durable that was written to the device of an open directory; raise `OSError` where that failed."""
    if not hasattr(_libc, "syncfs"):
        os.sync()
    elif _libc.syncfs(handle):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class _Device:
    """One file system, and the flushes of it that concurrent callers share. Safe to share among threads.

    The directory stays open: the kernel reports a write that failed in the background once to each open file.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._turn = Condition()
        self._begun = self._ended = self._failed = 0
        self._failed_at = float("-inf")
        self._error: OSError | None = None

    def flush(self) -> None:
        """Make everything durable that was written before this call."""
        with self._turn:
            mine = self._begun + 1
            while self._ended < mine and self._begun > self._ended:
                self._turn.wait()
            if self._ended >= mine:
                self._check(mine)
                return
            self._begun = mine
        # What else ends the call, a signal, leaves it open what is durable.
        error: OSError | None = OSError(errno.EINTR, os.strerror(errno.EINTR))
        try:
            flush_device(self._handle)
            error = None
        except OSError as exc:
            error = exc
        finally:
            with self._turn:
                self._ended = mine
                if error is not None:
                    self._failed, self._failed_at, self._error = mine, time.monotonic(), error
                self._turn.notify_all()
        if error is not None:
            raise error

    def has_failed_since(self, moment: float) -> bool:
        """Return whether a flush has failed since a moment of the monotonic clock: what was written before it may be lost."""
        return self._failed_at >= moment

    def _check(self, number: int) -> None:
        if self._error is not None and self._failed >= number:
            raise OSError(self._error.errno, self._error.strerror)


_devices: dict[int, _Device] = {}
_opening = Lock()


def _device_of(place: str) -> _Device:
    """Return the device of a place, or of the nearest directory above it that is there."""
    path = Path(place)
    while True:
        try:
            number = path.stat().st_dev
            break
        except (FileNotFoundError, NotADirectoryError):
            path = path.parent
    with _opening:
        if number not in _devices:
            directory = path if path.is_dir() else path.parent
            _devices[number] = _Device(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        return _devices[number]


def flush(place: str) -> None:
    """Make everything durable that was written on the device of a place before this call; in an object store it is.

    `StorageFull` or `Unavailable` where the disk failed to store it.
    """
    if durability.flushes(place):
        try:
            _device_of(place).flush()
        except OSError as exc:
            failed = Unavailable(f"the disk of the root failed to store what was written: {exc.strerror}")
            raise StorageFull.of(exc, "the root") or failed from exc


def check_kept(place: str, began: float) -> None:
    """Raise `SerializationFailure` for work that began before a flush failed: the disk may have dropped what it wrote."""
    if durability.flushes(place) and _device_of(place).has_failed_since(began):
        raise SerializationFailure("the disk failed to store what was written meanwhile")


def write_file(
    path: Path, content: bytes, *, mode: int = 0o666, replace: bool = True, drafted: Callable[[], None] | None = None
) -> None:
    """Write a whole small file under its name in one step, durably; without `replace` raise `FileExistsError` for one that is there.

    `drafted` is called when all of it is there under another name.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(_create(draft, mode), "wb") as file:
            file.write(content)
        flush(str(draft))
        if drafted is not None:
            drafted()
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    flush(str(path))


@contextmanager
def committing(place: str, base: int) -> Iterator[None]:
    """Make durable what a version after `base` of the Lance table at a place refers to, and after the block that version.

    The block commits it. `OutcomeUnknown` where the disk failed to store a version that is visible by then.
    """
    if not durability.flushes(place):
        try:
            yield
        finally:
            looks.change(place)
        return
    settle(place)
    mark, handle = _mark(place, base)
    is_over = False
    try:
        flush(place)
        yield
        try:
            flush(place)
        except (StorageFull, Unavailable) as exc:
            raise OutcomeUnknown(f"a commit is visible, and {exc}") from exc
        is_over = True
    except Conflict:
        is_over = True
        raise
    finally:
        if handle is not None:
            if is_over:
                mark.unlink(missing_ok=True)
            os.close(handle)


def settle(place: str) -> bool:
    """Take back the versions of a table that were being committed when the power was cut, and return whether there were any.

    A commit that is still running holds its mark locked, and is left alone.
    """
    above, taken = Path(place, PRIVATE), False
    if "://" in place:
        return False
    try:
        marks = sorted(name for name in os.listdir(above) if name.startswith(MARK))  # noqa: PTH208 - several times quicker
    except (FileNotFoundError, NotADirectoryError):
        return False
    for name in marks:
        try:
            with suppress(FileNotFoundError), _lock_file(above / name, wait=False) as is_mine:
                if is_mine:
                    taken |= take_back(place, _base_of(name), is_committed=True)
                    settle_references(place, since=(above / name).stat().st_mtime)
                    (above / name).unlink()
        except OSError:
            # A reader may not write here, and some file systems have no locks.
            log.warning("a commit that never ended could not be settled", exc_info=True)
    return taken


def take_back(place: str, base: int, *, is_committed: bool = False) -> bool:
    """Remove the versions after `base` that a power cut has left without content, and return whether there were any.

    The caller knows that none of them was acknowledged. Where versions may have been `is_committed` by Lance with their files, the files
    that they add count as well.
    """
    with _lock_file(Path(place), wait=True):
        versions = Path(place, VERSIONS)
        newer = {path: n for path in versions.glob("*.manifest") if (n := parse_version(path.name)) and n > base}
        if is_committed and set(newer.values()) != {base + 1}:
            # Nothing is torn that another commit has followed: that one flushed it.
            return False
        torn = [path for path in newer if not is_whole(path.read_bytes())]
        if not torn and is_committed:
            torn = [path for path, number in newer.items() if not _has_files(place, base, number)]
        for path in torn:
            log.warning(
                "version %d of %s was never acknowledged, and a power cut left it torn: removed", newer[path], place
            )
            path.unlink()
        if torn:
            flush(place)
    return bool(torn)


def settle_references(place: str, *, since: float = 0.0) -> None:
    """Remove tags and branches of a table that a power cut has left torn: those written `since` a moment, which were not acknowledged.

    A branch without any version is one that was being dropped.
    """
    for kind in (TAGS, BRANCHES_OF):
        for path in Path(place, REFERENCES, kind).glob("*.json"):
            tree = Path(place, BRANCHES, path.stem)
            is_torn = not _is_json(path.read_bytes()) or (kind == BRANCHES_OF and not _has_version(tree))
            is_dropped = kind == BRANCHES_OF and not any(Path(tree, VERSIONS).glob("*.manifest"))
            if is_dropped or (is_torn and path.stat().st_mtime >= since):
                log.warning("%s was never acknowledged, and a power cut left it torn: removed", path)
                if kind == BRANCHES_OF:
                    shutil.rmtree(tree, ignore_errors=True)
                path.unlink()


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def _has_version(tree: Path) -> bool:
    """Return whether the newest version of a branch is whole."""
    versions = {n: path for path in Path(tree, VERSIONS).glob("*.manifest") if (n := parse_version(path.name))}
    return bool(versions) and is_whole(versions[max(versions)].read_bytes())


def _has_files(place: str, base: int, version: int) -> bool:
    """Return whether the files are whole that a version adds to its base."""
    if not any(Path(place, VERSIONS, name).exists() for name in version_names(base)):
        return True
    known = {str(fragment) for fragment in _fragments(place, base)}
    new = [fragment for fragment in _fragments(place, version) if str(fragment) not in known]
    try:
        check_data(place, new)
        check_deletions(place, (fragment for fragment in new if fragment.deletion_file is not None))
    except OSError as exc:
        if exc.errno in {errno.ENOSPC, errno.ENOENT}:
            return False
        raise
    return True


def _fragments(place: str, version: int) -> Iterable[FragmentMetadata]:
    dataset = lance.dataset(place, version, session=lance.Session())
    return [fragment.metadata for fragment in dataset.get_fragments()]


def _mark(place: str, base: int) -> tuple[Path, int | None]:
    """Return a new locked mark; none where the table is gone, which the commit finds by itself."""
    while True:
        mark = Path(place, PRIVATE, f"{MARK}{base}-{secrets.token_hex(8)}")
        try:
            handle = _create(mark)
        except FileNotFoundError:
            try:
                mark.parent.mkdir(exist_ok=True)
            except FileNotFoundError:
                return mark, None
            continue
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another writer may have taken it for one of a process that died.
        if os.fstat(handle).st_nlink:
            return mark, handle
        os.close(handle)


def _create(path: Path, mode: int = 0o666) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)


def _base_of(mark: str) -> int:
    return int(mark.removeprefix(MARK).partition("-")[0])


@contextmanager
def hold_place(table: str) -> Iterator[None]:
    """Keep the Lance table at a place from being renamed or dropped for the block: `moving` waits; in an object store nothing is renamed.

    Lance makes tags, branches and metadata wherever it is told to, and says of none whose it is, so that none could be taken back.
    """
    versions = Path(table, VERSIONS)
    while True:
        with ExitStack() as held:
            with suppress(OSError):
                handle = held.enter_context(_open_handle(versions))
                fcntl.flock(handle, fcntl.LOCK_SH)
                if not os.path.samestat(os.fstat(handle), versions.stat()):
                    # It was moved before the lock was free.
                    continue
            yield
            return


@contextmanager
def moving(directory: str) -> Iterator[None]:
    """Hold the tables in a directory for the block, after all others who hold their place by `hold_place`; those who come later wait."""
    with ExitStack() as held:
        for versions in (Path(directory, VERSIONS), Path(directory, MANIFEST, VERSIONS)):
            # No table, or a file system without locks.
            with suppress(OSError):
                fcntl.flock(held.enter_context(_open_handle(versions)), fcntl.LOCK_EX)
        yield


@contextmanager
def _open_handle(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _lock_file(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock of a file or directory for the block, which learns whether it has it."""
    with _open_handle(path) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
