"""Versions of what is stored: lance-flight's formats, with what is refused, and Lance's file formats; and roots that are opened by them.

A version changes only where an older release would read something wrong, or destroy it; what it may ignore is a new key. A release
reads a new version before any release writes it: `lance-flight migrate` begins to, once no older server is at work. So a writer
keeps the version that it finds, and what has no record of one is of the first.

Lance itself finds some of this out when it reads: a struct in a fixed-size list of version 2.0 ends its reader.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
from lance import FragmentMetadata

from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.errors import Corrupt, DataError, InvalidInput, NewerFormat, Unavailable, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.arrow_types import children
from lance_flight.model.file_versions import NEWEST
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import PLAIN_SUFFIX
from lance_flight.model.schema import is_blob
from lance_flight.model.type_names import type_name

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
    {stored_format.name: stored_format for stored_format in (ROOT, TABLE, PLAIN_TABLE, VIEW, LEASE, BACKUP)}
)
"""Every format with a version of its own; docs/stored-formats.md says where each stands, and what its versions are."""


def version_of(metadata: Mapping[str, str]) -> object:
    """Return the version that the metadata of a table states, unchecked."""
    return metadata.get(FORMAT_KEY, FIRST)


def check_table(metadata: Mapping[str, str], place: Store, kind: StoredFormat = TABLE) -> int:
    """Return the version of the table at a place by its metadata; `NewerFormat` where this release does not read it."""
    root = "" if place.top is None else f" of root {place.top.rstrip('/').rpartition('/')[2]!r}"
    return kind.check(version_of(metadata), f"table {place.name.removesuffix(PLAIN_SUFFIX)!r}{root}")


_STRUCTS_WITH_NULL = "2.1"
_MARKED_BLOBS = "2.1"
"""The last version whose files hold blobs as marked binary columns, which a file writer takes one batch after another."""


def file_version_of(fragments: Iterable[FragmentMetadata]) -> str | None:
    """Return the version of all data files of some fragments; None where there are several versions, or no files."""
    versions = {(f.file_major_version, f.file_minor_version) for fragment in fragments for f in fragment.files}
    return ".".join(map(str, versions.pop())) if len(versions) == 1 else None


def chosen_version(asked: str | None, schema: pa.Schema) -> str:
    """Return the version for a new table's files: the one that was asked for, else the newest that holds its columns."""
    return asked or (_MARKED_BLOBS if any(map(is_blob, schema)) else NEWEST)


def unstorable_in(schema: pa.Schema, version: str) -> list[str]:
    """Return what is wrong with the columns that files of a version have no encoding for."""
    unstorable = [
        f"column {field.name!r} is {type_name(field.type)}, which files of Lance version {version} cannot hold; expected"
        f" file_version {least} or a later one"
        for field in schema
        for least, is_it in _LEAST
        if version < least and any(is_it(kind) for kind in _types(field.type))
    ]
    return unstorable + [
        f"column {field.name!r} is a BLOB, which files of Lance version {version} hold in a form that only their own writer defines;"
        f" expected file_version {_MARKED_BLOBS}"
        for field in schema
        if is_blob(field) and version > _MARKED_BLOBS
    ]


def check_values(rows: pa.Table, version: str, what: str) -> None:
    """Raise `DataError` for a column with values that files of a version cannot hold."""
    if version >= _STRUCTS_WITH_NULL:
        return
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if any(_has_null_struct(chunk) for chunk in column.chunks):
            raise DataError(
                f"column {field.name!r} of {what} has a NULL in place of a struct, which files of Lance version"
                f" {version} cannot hold; expected file_version {_STRUCTS_WITH_NULL} or a later one"
            )


def _has_null_struct(column: pa.Array) -> bool:
    kind = column.type
    if pa.types.is_struct(kind):
        return bool(column.null_count) or any(map(_has_null_struct, column.flatten()))
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and pa.types.is_nested(kind.value_type) and _has_null_struct(column.flatten())


def _types(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    for child in children(kind):
        yield from _types(child.type)


def _is_list_of_structs(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type))


_LEAST: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("2.2", pa.types.is_map),
    ("2.2", _is_list_of_structs),
)
"""Types that need a version of their own."""


RECORD = "formats.json"
CHECK_SECONDS = 10.0
"""Time after which a running server looks at the record again before it reads; before it changes the root it always does."""


class RootFormats:
    """The record of the root at `store`. Safe to share among threads."""

    def __init__(self, store: Store, *, now: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self._now = now
        self._lock = threading.Lock()
        self._checked: float | None = None

    def check(self) -> None:
        """Raise `NewerFormat` where only newer releases read the root; looked at every `CHECK_SECONDS`."""
        with self._lock:
            checked = self._checked
        if checked is None or self._now() - checked >= CHECK_SECONDS:
            self.check_now()

    def check_now(self) -> None:
        """Raise `NewerFormat` where only newer releases read the root, as it is now."""
        self._check(self.versions())
        with self._lock:
            self._checked = self._now()

    def version_for_new(self, kind: StoredFormat) -> int:
        """Return the version that new things of a format get: that of the record, or the newest that this release knows."""
        versions = self.versions()
        self._check(versions)
        recorded = versions.get(kind.name, FIRST)
        return min(recorded, kind.newest) if isinstance(recorded, int) and recorded >= FIRST else FIRST

    def versions(self) -> Mapping[str, object]:
        """Return what the record says, unchecked; nothing for a root without one, `Corrupt` for what is no record.

        Nothing as well where the private directory is closed to this process, which only reads tables then: they state their own versions.
        """
        try:
            content = self.store.child(PRIVATE).read(RECORD)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return {}
        try:
            versions = read_json(content)
        except ValueError as exc:
            raise Corrupt(f"{PRIVATE}/{RECORD} of root {self.store.name!r} is no JSON: {exc}") from exc
        if not isinstance(versions, dict):
            raise Corrupt(
                f"{PRIVATE}/{RECORD} of root {self.store.name!r} is {versions!r}; expected versions by their formats"
            )
        return versions

    def write(self, versions: Mapping[str, int]) -> None:
        """Write the record in one step; what it says of formats that are not among the versions stays."""
        place = self.store.child(PRIVATE)
        content = json.dumps({**self.versions(), **versions}, separators=(",", ":"), sort_keys=True).encode()
        if not place.is_remote:
            Path(place.uri).mkdir(mode=0o700, exist_ok=True)
        place.put(RECORD, content, drafted=partial(failpoint, "formats_drafted"))

    def _check(self, versions: Mapping[str, object]) -> None:
        ROOT.check(versions.get(ROOT.name, FIRST), f"root {self.store.name!r}")


RESTORING = "restore-begun.json"
"""The file of `.lance-flight/` that is there while a root is restored from a backup."""


def check_restored(root: Store) -> None:
    """Raise `Unavailable` for a root that is being restored, or whose restore was not finished."""
    if root.child(PRIVATE).has(RESTORING):
        raise Unavailable(
            f"root {root.name!r} is being restored from a backup; expected that to end, or the same `lance-flight restore` to be"
            " run again"
        )


def root_store(root: str, storage_options: Mapping[str, str] = MappingProxyType({}), *, create: bool = False) -> Store:
    """Open the store of a root that a user names: an object-store URI, or a directory, which is created with `create` alone.

    Refused is a root that is being restored, or that only newer releases read, before anything in it is settled.
    """
    if "://" in root:
        store = Store(root.rstrip("/"), dict(storage_options))
        store.check()
    else:
        store = Store(str(_root_directory(root, create=create)))
    check_restored(store)
    RootFormats(store).check_now()
    return store


def _root_directory(root: str, *, create: bool) -> Path:
    path = Path(root).expanduser().resolve()
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"root {root!r} is a file; expected a directory")
    if not path.exists() and not create:
        raise InvalidInput(f"root {root!r} is not there; expected a directory, or --create to make it")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InvalidInput(f"root {root!r} is not there and cannot be made: {exc.strerror}") from exc
    return path
