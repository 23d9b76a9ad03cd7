"""The manifest of a backup: which tables it holds, at which snapshots, and each file with its size and SHA-256.

JSON lines: a header, one line for each file, and an end with the counts and the SHA-256 of all lines before it. What is parsed
is not trusted: a path leads nowhere but to a file of a table that the header names, or to a view.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from lance_flight.catalog.storage.formats import BACKUP
from lance_flight.catalog.storage.names import PRIVATE
from lance_flight.catalog.storage.store import HERE
from lance_flight.errors import Corrupt
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import LONGEST_FILE_NAME, MANIFEST, TableName

FORMAT_KEY = "lance_flight_backup"
BACKUP_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{4}")
_MOMENT = "%Y%m%dT%H%M%S.%fZ"
VIEW_FILE = re.compile(rf"{re.escape(PRIVATE)}/view-[0-9a-f]{{32}}\.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REFUSED = re.compile(r"[\x00-\x1f\x7f\\]")
"""Matches characters that no path of ours has, and that other systems read as more than part of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFile:
    """One file: its path below the root, its bytes, its SHA-256, and the earlier backup of the target that holds it (None: this one)."""

    path: str
    size: int
    sha256: str
    backup: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the line of this file."""
        document = asdict(self)
        if self.backup is None:
            del document["backup"]
        return document

    @classmethod
    def from_json(cls, line: Any) -> Self:
        """Parse a line; `Corrupt` for anything that `to_json` does not write."""
        match line:
            case {"path": str(path), "size": int(size), "sha256": str(digest), **others} if others.keys() <= {"backup"}:
                backup = _text(others["backup"]) if others else None
                is_known = backup is None or is_id(backup)
                if size >= 0 and _SHA256.fullmatch(digest) and is_known:
                    return cls(path=checked_path(path), size=size, sha256=digest, backup=backup)
        raise Corrupt(f"a backup lists {line!r}; expected path, size, sha256 and no more than the id of another backup")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTable:
    """One table: its name, its directory below the root, the version that is its snapshot, and when that was committed."""

    db_schema: str
    name: str
    location: str
    partitioned: bool
    snapshot: int
    committed_at: str

    @property
    def table_name(self) -> TableName:
        """The name that SQL has for it."""
        return TableName(self.db_schema, self.name)

    def holds(self, path: str) -> bool:
        """Return whether a path is that of a file of this table."""
        return self.location == HERE or path.startswith(f"{self.location}/")

    @classmethod
    def from_json(cls, entry: Any) -> Self:
        """Parse an entry of the header; `Corrupt` for anything that is none."""
        match entry:
            case {
                "db_schema": str(db_schema), "name": str(name), "location": str(location),
                "partitioned": bool(partitioned), "snapshot": int(snapshot), "committed_at": str(committed_at),
            }:  # fmt: skip
                place = location if location == HERE else checked_path(location)
                return cls(
                    db_schema=db_schema, name=name, location=place, partitioned=partitioned, snapshot=snapshot,
                    committed_at=committed_at,
                )  # fmt: skip
        raise Corrupt(f"a backup lists {entry!r}; expected a table with its name, location and snapshot")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """Manifest of one backup.

    `base_paths` maps the absolute addresses that version files name to the directories below the root that they mean;
    `not_kept` says, one line each, what the root had and the backup has not.
    """

    id: str
    root: str
    tables: tuple[SavedTable, ...]
    files: tuple[SavedFile, ...]
    schemas: tuple[str, ...] = ()
    base_paths: Mapping[str, str] = field(default_factory=dict)
    not_kept: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of the earlier backups that hold files of this one."""
        return tuple(sorted({file.backup for file in self.files if file.backup is not None}))

    @property
    def created_at(self) -> datetime:
        """The moment at which the backup began."""
        return moment_of(self.id)

    def to_bytes(self) -> bytes:
        """Return the manifest as it is stored."""
        header = {
            FORMAT_KEY: BACKUP.newest,
            "id": self.id,
            "root": self.root,
            "tables": [asdict(table) for table in self.tables],
            "schemas": list(self.schemas),
            "base_paths": dict(self.base_paths),
            "not_kept": list(self.not_kept),
        }
        content = to_lines([header, *(file.to_json() for file in self.files)])
        end = {"files": len(self.files), "bytes": self.size, "sha256": hashlib.sha256(content).hexdigest()}
        return content + to_lines([end])

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Parse a stored manifest; `Corrupt` where it was altered, `NewerFormat` for one of a newer format."""
        *lines, last = content.splitlines(keepends=True) or [b""]
        before = b"".join(lines)
        try:
            header, *files = [read_json(line) for line in lines]
            end = read_json(last)
            BACKUP.check(header[FORMAT_KEY], f"backup {name!r}")
            if end["sha256"] != hashlib.sha256(before).hexdigest() or end["files"] != len(files):
                raise Corrupt(f"the manifest of backup {name!r} was altered: its checksum is another one")
            manifest = cls(
                id=_text(header["id"]),
                root=_text(header["root"]),
                tables=tuple(map(SavedTable.from_json, header["tables"])),
                files=tuple(map(SavedFile.from_json, files)),
                schemas=tuple(map(checked_path, header["schemas"])),
                base_paths={_text(text): checked_path(path) for text, path in header["base_paths"].items()},
                not_kept=tuple(map(_text, header["not_kept"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise Corrupt(f"the manifest of backup {name!r} cannot be read: {exc!r}") from exc
        manifest.check()
        return manifest

    def check(self) -> None:
        """Raise `Corrupt` unless every file belongs to a table or is a view, and no path is there twice or inside another one."""
        if not is_id(self.id):
            raise Corrupt(f"a backup has the id {self.id!r}; expected a time and four digits, {BACKUP_ID.pattern}")
        paths = {file.path for file in self.files}
        if len(paths) != len(self.files):
            raise Corrupt(f"backup {self.id} lists a path twice")
        for path in paths:
            names = path.split("/")
            if any("/".join(names[:depth]) in paths for depth in range(1, len(names))):
                raise Corrupt(f"backup {self.id} lists {path!r} below a file")
            is_listing = names[0] == MANIFEST
            is_private = PRIVATE in names
            if VIEW_FILE.fullmatch(path) is None and (
                is_private or not (is_listing or any(table.holds(path) for table in self.tables))
            ):
                raise Corrupt(f"backup {self.id} lists {path!r}; expected a file of one of its tables, or a view")

    def only(self, name: TableName) -> BackupManifest:
        """Return the manifest of one of its tables alone."""
        (table,) = (table for table in self.tables if table.table_name == name)
        files = tuple(file for file in self.files if table.holds(file.path))
        return BackupManifest(
            id=self.id, root=self.root, tables=(table,), files=files, base_paths=self.base_paths
        )  # fmt: skip


def new_id(now: datetime, known: Sequence[str] = ()) -> str:
    """Return the id of a backup that begins at a moment, or just after the newest of those `known`: ids sort by time.

    >>> new_id(datetime(2026, 3, 1, tzinfo=UTC), ["20260301T020000.000000Z-1f3c"])[:-4]
    '20260301T020000.000001Z-'
    """
    moment = max([now.astimezone(UTC), *(moment_of(backup_id) + timedelta(microseconds=1) for backup_id in known)])
    return f"{moment.strftime(_MOMENT)}-{secrets.token_hex(2)}"


def is_id(name: str) -> bool:
    """Return whether a name is the id of a backup.

    >>> is_id("20260301T020000.000000Z-1f3c"), is_id("20261301T020000.000000Z-1f3c")
    (True, False)
    """
    try:
        moment_of(name)
    except ValueError:
        return False
    return BACKUP_ID.fullmatch(name) is not None


def moment_of(backup_id: str) -> datetime:
    """Return the moment at which a backup began."""
    return datetime.strptime(backup_id.partition("-")[0], _MOMENT).replace(tzinfo=UTC)


def checked_path(path: Any) -> str:
    """Return a path itself if it stays below the directory that it is in, however that is called, else `Corrupt`.

    >>> checked_path("t.lance/data/a.lance")
    't.lance/data/a.lance'
    """
    names = path.split("/") if isinstance(path, str) else [""]
    is_long = any(len(name.encode(errors="replace")) > LONGEST_FILE_NAME for name in names)
    if is_long or any(name in {"", ".", ".."} or _REFUSED.search(name) for name in names) or "://" in str(path):
        raise Corrupt(f"a backup names {path!r}; expected a relative path without '.', '..' and empty parts")
    return str(path)


def to_lines(values: Iterable[Any]) -> bytes:
    """Return values as JSON lines."""
    return b"".join(json.dumps(value, separators=(",", ":")).encode() + b"\n" for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
