"""Opening of Lance datasets, by one session and one set of storage options for a process; and their branches and tags.

Branches: decision 27. A name may be used again after its branch was dropped or published, while pins still refer to what was
written on it: so the Lance branches of the partition tables are called after this very branch, not its name alone.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import lance
import pyarrow as pa
import pyarrow.fs as pafs
from lance import LanceDataset
from lance.schema import LanceSchema

from lance_flight.catalog.storage import filesystems
from lance_flight.catalog.storage.durability import moving, settle, write_file
from lance_flight.catalog.storage.filesystems import LANCE_RETRIES, StoreRequest, filesystem, store_requests
from lance_flight.catalog.storage.retries import looks
from lance_flight.catalog.storage.whole_files import BRANCHES, VERSIONS, is_version_name, parse_version, version_names
from lance_flight.errors import (
    AlreadyExists,
    Corrupt,
    InvalidInput,
    LanceFlightError,
    NotFound,
    OutsideRoot,
    QueryFailed,
    storage_error,
)
from lance_flight.model.arrow_types import contains
from lance_flight.model.json_documents import has_json_inside
from lance_flight.model.naming import MANIFEST, check_label
from lance_flight.model.type_names import type_name

HERE = "."
"""The location of a table right in the directory that it is the only table of."""
SMALL_BYTES = 1 << 20
"""Of rows whose file is kept in memory until it is whole."""
UNREADABLE = (OSError, ValueError, RuntimeError)
"""Errors of Lance for files that are missing or malformed."""

FOR_SMALL_FILES = "file-object-store://"
"""Beginning of the addresses of local places by which Lance writes small files sooner; the path after it is quoted."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]*")
"""Matches the local paths of which every function of Lance makes the same place; of others tags and branches make a second directory."""
_LANCE_SOURCE = re.compile(r",? ?/\S+\.rs:\d+:\d+")


@dataclass(slots=True)
class Caches:
    """Sizes in bytes of a Lance session's caches: of indices, and of the metadata that it reads beside the rows."""

    indices: int = 256 << 20
    metadata: int = 512 << 20

    def session(self) -> lance.Session:
        """Return a new session with caches of this size."""
        return lance.Session(self.indices, self.metadata)


caches = Caches()
"""Cache sizes of the sessions made from here on; to change them, set them before anything is opened."""


@cache
def shared_session() -> lance.Session:
    """Return the one Lance session of this process: with it, opening a table again costs microseconds."""
    return caches.session()


def unreadable(error: Exception, message: str) -> LanceFlightError:
    """Return the error for what Lance cannot read: the store's own where that failed, else `Corrupt`."""
    return storage_error(error) or Corrupt(message)


def is_damage(exc: BaseException) -> bool:
    """Return whether an error of Lance says that a file is missing or cut short; a system error says something else.

    >>> is_damage(OSError("LanceError(IO): Generic memory error: Invalid range 0..468 for object of size 20 bytes"))
    True
    >>> is_damage(OSError("LanceError(IO): Too many open files (os error 24)"))
    False
    """
    text = str(exc)
    return isinstance(exc, UNREADABLE) and "LanceError(IO)" in text and "(os error" not in text


def unstorable(schema: pa.Schema) -> list[str]:
    """Return what is wrong with the columns that Lance has no type for; nothing for a schema that can be stored."""
    return [
        f"column {field.name!r} is {type_name(field.type)}, which cannot be stored"
        for field in schema
        if not _has_type(field) or has_json_inside(field.type) or contains(field.type, _is_empty_struct)
    ]


def _has_type(field: pa.Field) -> bool:
    try:
        LanceSchema.from_pyarrow(pa.schema([field]))
    except ValueError:
        return False
    return True


def _is_empty_struct(kind: pa.DataType) -> bool:
    """Return whether a type is a struct without fields: Lance fails at its first NULL."""
    return pa.types.is_struct(kind) and not kind.num_fields


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a place: its path from there, its bytes, and when it was written, in seconds since 1970."""

    path: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class Store:
    """A directory or object-store prefix, and how to reach what lies under it; `session` is what is kept in memory of it.

    `top` is the store that it was reached from: nothing below that is read or written which lies elsewhere.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    session: lance.Session | None = field(default=None, repr=False, compare=False)
    top: str | None = field(default=None, repr=False, compare=False)

    def child(self, *names: str) -> Store:
        """Return the store of a path below this one; a name that would leave it is `Corrupt`."""
        for name in names:
            if not name or name.startswith("/") or "://" in name or ".." in name.split("/"):
                raise Corrupt(
                    f"location {name!r} does not stay inside {self.name!r}; expected a relative path below it"
                )
        place = self.uri.rstrip("/")
        top = place if self.top is None else self.top
        return Store(
            "/".join([place, *(name for name in names if name != HERE)]), self.storage_options, self.session, top
        )

    @property
    def uncached(self) -> Store:
        """This location without cached content, as it is now: Lance caches small files whole."""
        return replace(self, session=caches.session())

    def open(
        self, version: int | str | None = None, *, to_commit: bool = False, manifest: bytes | None = None
    ) -> LanceDataset:
        """Return the Lance dataset at this very place; its `manifest` is not read again where it is given.

        `NotFound` where there is none, `Corrupt` where it cannot be read.

        `OutsideRoot` where a part of it lies elsewhere. One that is opened `to_commit` writes files in the way of small ones.
        """
        self.check_links()
        is_encoded = to_commit or not _PLAIN_PATH.fullmatch(self.uri)
        return self.check_dataset(self._open(version, self.uri_for_small_files if is_encoded else self.uri, manifest))

    def check_dataset(self, dataset: LanceDataset) -> LanceDataset:
        """Return the same dataset, of a version that lies here; `OutsideRoot` where its files lie outside of the root."""
        if not self.is_remote:
            filesystems.check_version(self._top, self.uri, int(dataset.version))
        for base in dataset.base_paths().values():
            if self.top is not None and not _is_below(base.path, self.top):
                raise OutsideRoot(f"{self.name!r} has files outside of the root, in a place that its base paths name")
        return dataset

    def check_links(self) -> None:
        """Raise `OutsideRoot` where a symbolic link leads to the table that lies here, or to one of its files."""
        if not self.is_remote:
            filesystems.check_table(self._top, self.uri)

    def check_place(self) -> None:
        """Raise `OutsideRoot` where a symbolic link leads to the table that lies here, or lies in place of one of its directories."""
        if not self.is_remote:
            filesystems.check_place(self._top, self.uri)

    def check_way(self, *inside: str) -> None:
        """Raise `OutsideRoot` where a symbolic link leads to this place, or to a path inside of it."""
        if not self.is_remote:
            filesystems.check_way(self._top, "/".join([self.uri, *inside]))

    def check_files(self, dataset: LanceDataset) -> None:
        """Raise `OutsideRoot` where a data file of a version that lies here, or a list of deleted rows, is a symbolic link."""
        if self.is_remote:
            return
        bases = {number: base.path for number, base in dataset.base_paths().items()}
        for fragment in dataset.get_fragments():
            for file in fragment.metadata.files:
                place = self.uri if file.base_id is None else bases[file.base_id]
                filesystems.check_way(self._top, f"{place}/data/{file.path}")
            deletions = fragment.deletion_file()
            if deletions is not None:
                self.check_way("_deletions", PurePosixPath(deletions).name)

    @property
    def _top(self) -> str:
        return self.uri if self.top is None else self.top

    def _open(self, version: int | str | None, uri: str, manifest: bytes | None) -> LanceDataset:
        try:
            return self._dataset(version, uri, manifest)
        except UNREADABLE as exc:
            refused = storage_error(exc)
            if refused is not None:
                raise refused from exc
            if not self.is_remote:
                settle(self.uri)
            if not self._has_version(version):
                raise NotFound(f"no Lance table {self._name(version)}") from exc
        try:
            # It may have come into its place just now.
            return self._dataset(version, uri)
        except UNREADABLE as exc:
            raise unreadable(exc, f"{self._version_path(version)!r} cannot be read: {self.parent.words(exc)}") from exc

    def _dataset(self, version: int | str | None, uri: str, manifest: bytes | None = None) -> LanceDataset:
        session = self.session or shared_session()
        dataset = LanceDataset(
            uri, version, storage_options=self.options or None, session=session, serialized_manifest=manifest
        )
        if not dataset.version:
            # Lance takes a file of zeros for an empty table.
            raise OSError("the file of its version holds nothing")
        if self.is_remote and session is shared_session():
            store_requests.watch(dataset)
        return dataset

    def _name(self, version: int | str | None) -> str:
        return repr(self.name) if version is None else f"{self.name!r}, version {version}"

    def _version_path(self, version: int | str | None) -> str:
        """Return the path of the file of a version (None: the newest) from the directory above, as far as it is known."""
        versions = {
            number: name for name in self.child(VERSIONS).files() if (number := parse_version(name)) is not None
        }
        wanted = max(versions, default=0) if version is None else version
        name = versions.get(wanted) if isinstance(wanted, int) else None
        return self._name(version) if name is None else f"{self.name}/{VERSIONS}/{name}"

    def words(self, message: Exception | str) -> str:
        """Return what another library says, with every path as it is seen from this place, and none of Lance's own source.

        The only way for such words into a message of ours: clients are not told where a server keeps its tables.
        """
        text = _LANCE_SOURCE.sub("", str(message)).removeprefix("External error: ")
        for prefix in (self.uri, self.uri.lstrip("/")):
            text = text.replace(f"{prefix}/", "") if prefix else text
        return text

    def reading_error(self, table: str, exc: Exception) -> LanceFlightError:
        """Return the error of a client that read a table, for one of another library, or for something missing that a snapshot names."""
        failed = f"reading {table!r} failed: {self.words(exc)}"
        if isinstance(exc, NotFound) or is_damage(exc):
            return Corrupt(f"{failed}; expected lance-flight verify and repair, or a restore from a backup")
        return QueryFailed(failed)

    @property
    def options(self) -> dict[str, str]:
        """The storage options as Lance takes them."""
        return {**LANCE_RETRIES, **self.storage_options} if self.is_remote else dict(self.storage_options)

    @property
    def uri_for_small_files(self) -> str:
        """Lance's address of this place for writing: each file is then made whole by one call in another thread, a local one not by five."""
        return self.uri if self.is_remote else f"{FOR_SMALL_FILES}{quote(self.uri)}"

    @property
    def name(self) -> str:
        """The last element of the path."""
        return self.uri.rstrip("/").rpartition("/")[2]

    def directories(self) -> list[str]:
        """Return the names of the directories right below this one, sorted; none where nothing is there."""
        return self._list(pafs.FileType.Directory)

    def files(self) -> list[str]:
        """Return the names of the files right below this one, sorted; none where nothing is there."""
        return self._list(pafs.FileType.File)

    def check(self) -> None:
        """Raise an error if this location cannot be listed, such as `NotFound` for a missing directory or bucket.

        Below a bucket that is there nothing needs to be: an object store has no directories.
        """
        if not self.is_remote:
            if not self.exists():
                raise NotFound(f"there is no directory {self.name!r}")
            self.directories()
            return
        try:
            with self._asking(StoreRequest.LIST) as (filesystem, path):
                filesystem.get_file_info(pafs.FileSelector(path))
        except FileNotFoundError:
            return
        except OSError as exc:
            raise storage_error(exc) or exc from exc

    def tree(self) -> Iterator[StoredFile]:
        """Yield every file below this place, however deep; symbolic links are neither files nor followed."""
        self.check_way()
        if not self.is_remote:
            yield from _local_tree(self.uri)
            return
        with self._asking(StoreRequest.LIST) as (filesystem, path):
            below = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True, recursive=True))
        for info in below:
            if info.type == pafs.FileType.File:
                yield StoredFile(info.path.removeprefix(path).lstrip("/"), int(info.size), info.mtime_ns / 1e9)

    @property
    def is_link(self) -> bool:
        """True if this place is a symbolic link to somewhere else."""
        return not self.is_remote and os.path.islink(self.uri)  # noqa: PTH114 - several times quicker

    def has(self, name: str, *, within: float = 0.0) -> bool:
        """Return whether a file or directory of this name lies right below this one.

        What an object store said is remembered within a statement, or for `within` seconds (`retries.py`).
        """
        if not self.is_remote:
            return _is_there(f"{self.uri}/{name}")
        return looks.find(f"{self.uri.rstrip('/')}/{name}", "is there", partial(self._is_stored, name), within=within)

    def _is_stored(self, name: str) -> bool:
        """Ask an object store: of what lies in a table few names are in each directory, so that one listing says it; else it takes two requests."""
        if name == VERSIONS:
            return name in self.directories()
        with self._asking(StoreRequest.LIST) as (filesystem, path):
            if name == MANIFEST:
                return bool(filesystem.get_file_info(pafs.FileSelector(f"{path}/{name}", allow_not_found=True)))
            return bool(filesystem.get_file_info(f"{path}/{name}").type != pafs.FileType.NotFound)

    def exists(self) -> bool:
        """Return whether anything lies at this very place."""
        return self.parent.has(self.name)

    @property
    def is_remote(self) -> bool:
        """True if this is an object store, and not a directory of this machine."""
        return "://" in self.uri

    def read(self, name: str) -> bytes:
        """Return the content of a file right below this place."""
        self.check_way(name)
        with (
            self._asking(StoreRequest.READ) as (filesystem, path),
            filesystem.open_input_stream(f"{path}/{name}") as stream,
        ):
            content: bytes = stream.read()
            return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file right below this place, and make missing directories above it."""
        self.check_way()
        with self._changing(name), self._asking(StoreRequest.WRITE) as (filesystem, path):
            if not self.is_remote:
                filesystem.create_dir(path, recursive=True)
            with filesystem.open_output_stream(f"{path}/{name}") as stream:
                stream.write(content)

    def put(
        self, name: str, content: bytes, *, replace: bool = True, drafted: Callable[[], None] | None = None
    ) -> None:
        """Write a file below this place in one step, durably, after all that was written before: it is never seen half written.

        In an object store it replaces what is there. `replace` and `drafted` are those of `write_file`; missing directories are made.
        """
        if self.is_remote:
            self.write(name, content)
            return
        self.check_way(name)
        path = Path(self.uri, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content, replace=replace, drafted=drafted)

    @contextmanager
    def _changing(self, name: str = "") -> Iterator[None]:
        """Forget what an object store said of this place, or of a path inside of it, once the block has changed it."""
        try:
            yield
        finally:
            if self.is_remote:
                looks.replace(f"{self.uri.rstrip('/')}/{name}".rstrip("/"))

    def make(self) -> None:
        """Make this directory; `AlreadyExists` for one that is there."""
        self.check_way()
        if self.is_remote:
            with self._changing(), self._asking(StoreRequest.WRITE) as (filesystem, path):
                filesystem.create_dir(path, recursive=True)
            return
        try:
            os.mkdir(self.uri)  # noqa: PTH102
        except FileExistsError:
            raise AlreadyExists(f"{self.name!r} lies there already") from None

    def remove_empty(self) -> None:
        """Remove this directory; `InvalidInput` for one with anything in it."""
        self.check_way()
        inside = [*self.directories(), *self.files()]
        try:
            if not inside and self.is_remote:
                with self._changing(), self._asking(StoreRequest.DELETE) as (filesystem, path):
                    filesystem.delete_dir(path)
            elif not inside:
                os.rmdir(self.uri)  # noqa: PTH106
        except OSError:  # something came meanwhile
            inside = [*self.directories(), *self.files()]
            if not inside:
                raise
        if inside:
            raise InvalidInput(f"directory {self.name!r} is not empty: it has {inside[0]!r}")

    @property
    def parent(self) -> Store:
        """The store that this one lies in."""
        return replace(self, uri=self.uri.rstrip("/").rpartition("/")[0] or "/")

    def _has_version(self, version: int | str | None) -> bool:
        """Return whether a table, a version of it, or a tag lies here as a file, readable or not."""
        match version:
            case None if self.is_remote:
                # Where the last version was deleted, an empty directory may be left.
                return any(map(is_version_name, self.child(VERSIONS).files()))
            case None:
                return self.has(VERSIONS)
            case int(number):
                return any(self.has(f"{VERSIONS}/{name}") for name in version_names(number))
            case str(tag):
                return f"{tag}.json" in self.child("_refs", "tags").files()

    def remove_files(self, names: Iterable[str]) -> None:
        """Delete files below this place; one that is not there is no matter."""
        checked = set()
        for name in names:
            above = name.rpartition("/")[0]
            if above not in checked:
                self.check_way(above)
                checked.add(above)
            with (
                suppress(FileNotFoundError),
                self._changing(name),
                self._asking(StoreRequest.DELETE) as (filesystem, path),
            ):
                filesystem.delete_file(f"{path}/{name}")

    def move_to(self, target: Store) -> None:
        """Rename this directory, in one step on a file system; the directories above `target` are made.

        `FileExistsError` where a directory lies there: a file system would replace an empty one, which may be a schema.
        """
        self.check_way()
        target.check_way()
        destination = target._ask()[1]
        if not target.is_remote and Path(destination).is_dir():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), destination)
        with self._changing(), target._changing(), self._asking(StoreRequest.WRITE) as (filesystem, path):
            filesystem.create_dir(destination.rpartition("/")[0], recursive=True)
            with nullcontext() if self.is_remote else moving(self.uri):
                filesystem.move(path, destination)

    def copy_to(self, target: Store) -> None:
        """Copy everything below this place; the object store does it where both lie in one."""
        to = target._ask()[1]
        with target._changing(), self._asking(StoreRequest.WRITE) as (filesystem, path):
            pafs.copy_files(path, to, source_filesystem=filesystem, destination_filesystem=filesystem)

    def remove_table(self) -> None:
        """Delete a table where nothing can be renamed: it is whole for readers until its newest version is deleted."""
        for versions in (self.child(MANIFEST, VERSIONS), self.child(VERSIONS)):
            # Names count down, so that the newest version comes first in order.
            versions.remove_files(sorted(versions.files(), reverse=True))
        self.remove()

    def remove(self) -> None:
        """Delete everything below this place, and the place itself; of a symbolic link nothing but itself."""
        self.parent.check_way()
        with suppress(FileNotFoundError), self._changing(), self._asking(StoreRequest.DELETE) as (filesystem, path):
            try:
                filesystem.delete_dir(path)
            except OSError as exc:
                if exc.errno != errno.ENOTEMPTY:
                    raise
                # A lease was renewed in it meanwhile, which happens every few seconds, and not without the table.
                filesystem.delete_dir(path)

    def _list(self, kind: pafs.FileType) -> list[str]:
        with self._asking(StoreRequest.LIST) as (filesystem, path):
            infos = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in infos if info.type == kind)

    @contextmanager
    def _asking(self, kind: StoreRequest) -> Iterator[tuple[pafs.FileSystem, str]]:
        """Give the block what it asks, and the path of this place there; what an object store is asked for is counted."""
        with store_requests.count_request(kind) if self.is_remote else nullcontext():
            yield self._ask()

    def _ask(self) -> tuple[pafs.FileSystem, str]:
        return filesystem(self.uri, self.storage_options)


def _is_below(path: str, top: str) -> bool:
    """Return whether a path, as Lance writes one, is that of something below another one, with no symbolic link between them."""
    scheme, _, rest = top.rpartition("://")
    path_only = path.partition("://")[2] if "://" in path else path
    if scheme:
        return f"/{path_only.strip('/')}/".startswith(f"/{rest.strip('/')}/")
    place = os.path.normpath(path_only)
    if not f"{place}/".startswith(f"{top}/"):
        # The same directory may be called otherwise, by way of a link above the root.
        place = f"{top}/{os.path.relpath(os.path.realpath(place), os.path.realpath(top))}"
    if ".." in PurePosixPath(place).parts:
        return False
    filesystems.check_way(top, place)
    return True


def _is_there(path: str) -> bool:
    """Return whether something lies at a local path: what pyarrow's file system says, which lets go of Python's lock six times for it."""
    try:
        os.stat(path)  # noqa: PTH116 - several times quicker
    except OSError as exc:
        if exc.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            raise
        return False
    return True


def _local_tree(place: str) -> Iterator[StoredFile]:
    # Text and no paths: a history has hundreds of thousands of files.
    top = place.rstrip("/")
    for directory, _, names in os.walk(top or place, followlinks=False):
        below = directory[len(top) + 1 :]
        for name in names:
            with suppress(FileNotFoundError):
                state = os.lstat(f"{directory}/{name}")
                if stat.S_ISREG(state.st_mode):
                    yield StoredFile(f"{below}/{name}" if below else name, state.st_size, state.st_mtime)


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
    def begins(self) -> int:
        """The version of the main branch that it begins with."""
        return self.forked_at

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

    @property
    def begins(self) -> int:
        """The version that it refers to."""
        return self.version


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
