"""Versions of Lance tables with other files or deleted rows, written as Lance writes them, byte for byte, in a fifth of its time.

A version file is the indices, the transaction and the manifest, each a protobuf message after its length, and a footer. The next version
copies all of the one before but its fragments, and says another number, moment and transaction. Whatever else a version may say is
left to Lance: metadata, base paths, stable row ids, and a version that another release has written.

In an object store two requests write a version, where Lance lists all versions in a third one. Of tables there only those of partitions are
written: their directories are never made again, so that what is known of a version stays true.
"""

from __future__ import annotations

import os
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import lance
from lance import FragmentMetadata, LanceOperation
from lance.fragment import DeletionFile

from lance_flight.catalog.storage.filesystems import PutClient, put_client
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import VersionFile, kept_tables, version_file
from lance_flight.catalog.storage.whole_files import (
    LENGTH,
    MALFORMED,
    VERSIONS,
    locate_message,
    split_fields,
    version_name,
)
from lance_flight.errors import Conflict, storage_error
from lance_flight.lru_cache import IDLE_SECONDS, LruCache
from lance_flight.model.naming import is_table_directory
from lance_flight.protobuf_wire import MORE, encode_field, encode_varint

LONGEST = 256 << 10
"""Bytes of a version file from which on it is left to Lance: to read one the first time takes a microsecond for each hundred bytes."""
MOST_TABLES, MOST_BYTES, KEPT_LAYOUTS = 1024, 16 << 20, 256
_LEFT_VERSIONS = 32
"""Versions of a table in an object store that are left to Lance once one of them was, before another one is read."""
_TRANSACTIONS, _HINT = "_transactions", "latest_version_hint.json"

_COLUMNS, _FRAGMENTS, _VERSION, _INDICES_AT, _MOMENT, _READER_FLAGS, _WRITER_FLAGS = 1, 2, 3, 6, 7, 9, 10
_LAST_FRAGMENT, _TRANSACTION, _WRITER, _FORMAT, _TRANSACTION_AT = 11, 12, 13, 15, 23
_SINGLE = frozenset({_VERSION, _INDICES_AT, _MOMENT, _READER_FLAGS, _WRITER_FLAGS, _LAST_FRAGMENT, _TRANSACTION})
_SAME = frozenset({_WRITER, _FORMAT, _TRANSACTION_AT})
"""The fields of a `Manifest` that are known here."""
_APPEND, _UPDATE = 100, 108
"""The operations in a `Transaction`, in which 1 is the version that was read and 2 its id."""
_DELETIONS = 3
"""The field of a fragment that says which of its rows are deleted."""
_HAS_DELETIONS = 1
"""The only feature of a table that is known here: files that say which rows are deleted."""
_FOOTER = struct.Struct("<QHH4s")


def _number(field: int, value: int, *, is_optional: bool = False) -> bytes:
    """Return a field with a number: of those that are always there 0 is left out."""
    return encode_varint(field << 3) + encode_varint(value) if value or is_optional else b""


def _value(raw: bytes) -> int:
    """Return the number in a field, of which all bytes are given."""
    key = next(place for place, byte in enumerate(raw) if not byte & MORE) + 1
    return sum(byte % MORE << 7 * place for place, byte in enumerate(raw[key:]))


WRITER = encode_field(_WRITER, encode_field(1, b"lance") + encode_field(2, lance.__version__.encode()))
"""What a version says that this release of Lance has written."""


@dataclass(frozen=True, slots=True)
class _Version:
    """Content of a version file: `indices` with their length, and the other fields as they stand there."""

    number: int
    indices: bytes
    columns: bytes
    fragments: bytes
    flags: bytes
    last_fragment: int
    form: bytes
    has_indices: bool

    @classmethod
    def read(cls, content: bytes) -> _Version | None:
        """Return what a version says; None where it says anything that is not known here."""
        try:
            start, end = locate_message(content)
            (length,) = LENGTH.unpack_from(content)
        except MALFORMED:
            return None
        return cls.of(content[start:end], content[: LENGTH.size + length])

    @classmethod
    def of(cls, manifest: bytes, indices: bytes) -> _Version | None:
        """Return what a manifest says; the `indices` of its file count where it says that there are some."""
        try:
            fields = [(number, raw) for number, _, raw, _ in split_fields(manifest)]
        except MALFORMED:
            return None
        single = dict(field for field in fields if field[0] not in {_COLUMNS, _FRAGMENTS})
        flags = [single.get(number, b"") for number in (_READER_FLAGS, _WRITER_FLAGS)]
        has_indices = _INDICES_AT in single
        is_known = (
            single.keys() <= _SINGLE | _SAME
            and single.get(_WRITER) == WRITER
            and _FORMAT in single
            and all(not flag or _value(flag) == _HAS_DELETIONS for flag in flags)
            and not (has_indices and _value(single[_INDICES_AT]))
        )
        if not is_known:
            return None
        return cls(
            number=_value(single[_VERSION]),
            indices=indices if has_indices else b"",
            columns=b"".join(raw for number, raw in fields if number == _COLUMNS),
            fragments=b"".join(raw for number, raw in fields if number == _FRAGMENTS),
            flags=b"".join(flags),
            last_fragment=_value(single[_LAST_FRAGMENT]) if _LAST_FRAGMENT in single else -1,
            form=single[_FORMAT],
            has_indices=has_indices,
        )

    def change(self, changes: Mapping[int, bytes]) -> _Version | None:
        """Return the same version with other messages for some of its fragments, empty ones for those that go; None where one is not there."""
        kept, waiting, has_deletions = b"", dict(changes), False
        for _, _, raw, message in split_fields(self.fragments):
            parts = {number: part for number, _, part, _ in split_fields(message)}
            number = _value(parts[1]) if 1 in parts else 0
            if number in waiting:
                changed = waiting.pop(number)
                has_deletions |= any(field == _DELETIONS for field, *_ in split_fields(changed))
                kept += encode_field(_FRAGMENTS, _number(1, number) + changed) if changed else b""
            else:
                has_deletions |= _DELETIONS in parts
                kept += raw
        flags = (_number(_READER_FLAGS, _HAS_DELETIONS) + _number(_WRITER_FLAGS, _HAS_DELETIONS)) * has_deletions
        return None if waiting else replace(self, fragments=kept, flags=flags)

    def append(self, fragments: Sequence[tuple[int, bytes]]) -> _Version:
        """Return the next version, with further fragments; those of number 0 are numbered here."""
        last, added = self.last_fragment, b""
        for number, fragment in fragments:
            here = number or last + 1
            added += encode_field(_FRAGMENTS, _number(1, here) + fragment)
            last = max(last, here)
        return replace(self, number=self.number + 1, fragments=self.fragments + added, last_fragment=last)

    def to_bytes(self, transaction: bytes, name: str, moment: int) -> bytes:
        """Return the file of the version that a transaction of a file `name` has made at a moment, in nanoseconds since 1970."""
        above = self.indices + LENGTH.pack(len(transaction)) + transaction
        seconds, nanoseconds = divmod(moment, 10**9)
        manifest = b"".join(
            (
                self.columns,
                self.fragments,
                _number(_VERSION, self.number),
                _number(_INDICES_AT, 0, is_optional=True) if self.has_indices else b"",
                encode_field(_MOMENT, _number(1, seconds) + _number(2, nanoseconds)),
                self.flags,
                _number(_LAST_FRAGMENT, self.last_fragment, is_optional=True),
                encode_field(_TRANSACTION, name.encode()),
                WRITER,
                self.form,
                _number(_TRANSACTION_AT, len(self.indices), is_optional=True),
            )
        )
        return above + LENGTH.pack(len(manifest)) + manifest + _FOOTER.pack(len(above), 0, 2, b"LANC")


_known = LruCache[tuple[str, int], tuple[VersionFile, _Version | None]](
    MOST_TABLES, most_weight=MOST_BYTES, weigh=lambda known: known[0][-1], idle_seconds=IDLE_SECONDS
)
"""The versions that were written or read here (None: only Lance writes on top of it), told by their files, whose sizes they weigh."""
_left = LruCache[str, int](MOST_TABLES, idle_seconds=IDLE_SECONDS)
"""The version up to which a table in an object store is left to Lance."""


def columns_of(table: Store, version: int) -> bytes | None:
    """Return what tells the columns of a version and its format of files from others; None where it is not known here.

    `OutsideRoot` where a symbolic link leads to the table, or lies in place of one of its directories.
    """
    parsed = _find(table, version)
    if parsed is None:
        return None
    table.check_place()
    return parsed.columns + parsed.form


def write_version(table: Store, base: int, operation: LanceOperation.BaseOperation) -> bool:
    """Write the version after `base` that an operation makes; False, and nothing is done, where only Lance can.

    `Conflict` where it is there already: Lance would put the files on top of whatever is the newest.
    """
    change = _Change.of(operation)
    before = None if change is None else _find(table, base)
    if change is None or before is None or before.number != base:
        return False
    changed = (
        before.change({**change.changed, **dict.fromkeys(change.removed, b"")}) if change.changes_files else before
    )
    if changed is None:
        return False
    table.check_place()
    unique = str(uuid.uuid4())
    name, version = f"{base}-{unique}.txn", changed.append(change.added)
    transaction = _number(1, base) + encode_field(2, unique.encode()) + change.to_bytes()
    if table.is_remote:
        return _write_remote(table, name, transaction, version)
    if not _write(table.uri, name, transaction, version.number, version.to_bytes(transaction, name, time.time_ns())):
        return False
    _known.pop((table.uri, base))
    file = version_file(table.uri, version.number)
    if file is not None:
        _known.put((table.uri, version.number), (file, version))
    return True


def _find(table: Store, version: int) -> _Version | None:
    if table.is_remote:
        reached = put_client(table.uri, table.options) if is_table_directory(table.name) else None
        return None if reached is None else _find_remote(table, version, *reached)
    file = version_file(table.uri, version)
    if file is None or file[-1] > LONGEST:
        return None
    known = _known.get((table.uri, version))
    if known is not None and known[0] == file:
        return known[1]
    try:
        parsed = _Version.read(Path(table.uri, VERSIONS, version_name(version)).read_bytes())
    except FileNotFoundError:
        return None
    _known.put((table.uri, version), (file, parsed))
    return parsed


def _find_remote(table: Store, version: int, client: PutClient, key: str) -> _Version | None:
    """Return what a version says that lies in an object store: as it was written or read here, or else by one request."""
    content = kept_tables.content(table, version)
    if content is not None:
        return _Version.read(content)
    dataset = kept_tables.recall(table, version, None)
    if dataset is not None:
        parsed = _Version.of(dataset._ds.serialized_manifest(), b"")  # noqa: SLF001 - what a dataset is pickled by
        if parsed is None or not parsed.has_indices:
            return parsed
    if version < (_left.get(table.uri) or 0):
        return None
    try:
        content = client.read(f"{key}/{VERSIONS}/{version_name(version)}")
    except OSError as exc:
        if client.leave():
            return None
        raise storage_error(exc) or exc from exc
    if content is None:
        return None
    parsed = _Version.read(content) if len(content) <= LONGEST else None
    if parsed is None:
        _left.put(table.uri, version + _LEFT_VERSIONS)
    else:
        kept_tables.keep_content(table, version, content)
    return parsed


@dataclass(frozen=True, slots=True)
class _Change:
    """Change of the fragments of a version: `added` and `changed` have their messages, each without its number."""

    added: Sequence[tuple[int, bytes]]
    changed: Mapping[int, bytes]
    removed: Sequence[int]
    kind: int

    @property
    def changes_files(self) -> bool:
        """True if fragments go or change that are there."""
        return bool(self.changed or self.removed)

    @classmethod
    def of(cls, operation: LanceOperation.BaseOperation) -> _Change | None:
        """Return the change that an operation makes; None for one that does more than add, change and remove fragments."""
        match operation:
            case LanceOperation.Append(fragments=new):
                kind, removed, updated = _APPEND, list[int](), list[FragmentMetadata]()
                is_known = bool(new)
            case LanceOperation.Update(removed_fragment_ids=removed, updated_fragments=updated, new_fragments=new):
                kind = _UPDATE
                is_known = operation == LanceOperation.Update(removed, updated, new) and not set(removed) & {
                    fragment.id for fragment in updated
                }
                is_known &= bool(removed or updated or new)
            case _:
                return None
        added, changed = ([(fragment.id, _encode(fragment)) for fragment in fragments] for fragments in (new, updated))
        known = [(number, message) for number, message in added if message is not None]
        known_changed = {number: message for number, message in changed if message is not None}
        if not is_known or len(known) < len(added) or len(known_changed) < len(changed):
            return None
        return cls(known, known_changed, removed, kind)

    def to_bytes(self) -> bytes:
        """Return the operation as a transaction says it."""
        added, changed = (
            [_number(1, number) + message for number, message in messages]
            for messages in (self.added, self.changed.items())
        )
        if self.kind == _APPEND:
            return encode_field(_APPEND, b"".join(encode_field(1, fragment) for fragment in added))
        removed = encode_field(1, b"".join(map(encode_varint, self.removed))) if self.removed else b""
        parts = [
            removed,
            *(encode_field(2, fragment) for fragment in changed),
            *(encode_field(3, fragment) for fragment in added),
        ]
        return encode_field(_UPDATE, b"".join(parts))


def _encode(fragment: FragmentMetadata) -> bytes | None:
    """Return the message of a fragment without its number; None where it says more than its files, rows and deleted rows."""
    if fragment.row_id_meta is not None or fragment.overlays or not fragment.files:
        return None
    if fragment.created_at_version_meta is not None or fragment.last_updated_at_version_meta is not None:
        return None
    deletions = fragment.deletion_file
    if deletions is not None and deletions.base_id is not None:
        return None
    if any(file.base_id is not None or min(file.fields, default=0) < 0 for file in fragment.files):
        return None
    files = (
        encode_field(1, file.path.encode())
        + _layout(tuple(file.fields), tuple(file.column_indices), file.file_major_version, file.file_minor_version)
        + _number(6, file.file_size_bytes or 0)
        for file in fragment.files
    )
    gone = b"" if deletions is None else encode_field(_DELETIONS, _encode_deletions(deletions))
    return b"".join(encode_field(2, file) for file in files) + gone + _number(4, fragment.physical_rows)


def _encode_deletions(file: DeletionFile) -> bytes:
    return (
        _number(1, int(file.file_type == "bitmap"))
        + _number(2, file.read_version)
        + _number(3, file.id)
        + _number(4, file.num_deleted_rows)
    )


@lru_cache(KEPT_LAYOUTS)
def _layout(fields: tuple[int, ...], columns: tuple[int, ...], major: int, minor: int) -> bytes:
    """Return what the message of a file says of its columns and its format."""
    packed = (
        encode_field(number, b"".join(map(encode_varint, column))) for number, column in ((2, fields), (3, columns))
    )
    return b"".join(packed) + _number(4, major) + _number(5, minor)


def _write(table: str, name: str, transaction: bytes, version: int, content: bytes) -> bool:
    """Write both files; False, and neither is there, where the table is not."""
    first, final = f"{table}/{_TRANSACTIONS}/{name}", f"{table}/{VERSIONS}/{version_name(version)}"
    draft = f"{final}#{name}"
    is_written = False
    try:
        with suppress(FileNotFoundError):
            _put(first, transaction)
            _put(draft, content)
            os.link(draft, final)
            is_written = True
    except FileExistsError as exc:
        raise _staged_first(table) from exc
    finally:
        # The hint would say an older version, which a stock writer takes at its word.
        for path in (draft, f"{table}/{VERSIONS}/{_HINT}" if is_written else first):
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - several times quicker
    return is_written


def _write_remote(table: Store, name: str, transaction: bytes, version: _Version) -> bool:
    """Write both files by a request each; False where only Lance may reach the store."""
    reached = put_client(table.uri, table.options)
    if reached is None:
        return False
    client, key = reached
    content = version.to_bytes(transaction, name, time.time_ns())
    try:
        client.write(f"{key}/{_TRANSACTIONS}/{name}", transaction)
        is_written = client.make(f"{key}/{VERSIONS}/{version_name(version.number)}", content)
    except OSError:
        if client.leave():
            return False
        raise
    if not is_written:
        raise _staged_first(table.uri)
    kept_tables.keep_content(table, version.number, content)
    return True


def _staged_first(table: str) -> Conflict:
    return Conflict(f"another writer staged on {table.rpartition('/')[2]!r} first")


def _put(path: str, content: bytes) -> None:
    """Write a whole new file."""
    with open(path, "xb", buffering=0) as file:  # noqa: PTH123 - several times quicker
        while content:
            content = content[file.write(content) :]
