"""Files of a Lance table: their names, looks at them before a commit names them, and the content of version files.

On a local disk that is full Lance 14 loses the error of a file's last write: data files and deletion files come back as
written, and end early. An object store takes a file whole, or not at all.

A version file ends with the position of a message `Manifest` (length, then message), the format, and `LANC`; nothing before the
message refers into it.

Names of the files and directories of a Lance table, and of the column of row addresses.

A version is named by its distance to the largest number of 64 bits, in 20 digits, so that the newest comes first in order; in tables
of older releases by its number alone. The name of a detached version, which belongs to no branch, begins with a `d`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from lance import FragmentMetadata

VERSIONS = "_versions"
BRANCHES = "tree"
"""The directory of a Lance table that holds its branches, each like a table of its own."""

_VERSION_SUFFIX = ".manifest"
_LARGEST = (1 << 64) - 1
_DIGITS = 20
_NAME = re.compile(rf"(d?)(\d+){re.escape(_VERSION_SUFFIX)}")


def version_name(version: int) -> str:
    """Return the name that a version is written under.

    >>> version_name(1)
    '18446744073709551614.manifest'
    """
    return f"{_LARGEST - version:0{_DIGITS}}{_VERSION_SUFFIX}"


def version_names(version: int) -> tuple[str, str]:
    """Return both names that a version may have, the usual one first."""
    return version_name(version), f"{version}{_VERSION_SUFFIX}"


def is_version_name(name: str) -> bool:
    """Return whether a file in `_versions` is a version, of whatever naming."""
    return name.endswith(_VERSION_SUFFIX)


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


DATA = "data"
INDICES = "_indices"
"""The directory of a Lance table with the files of its indices."""
_SEALED = re.compile(r"[^/]+-(?P<checksum>[0-9a-f]{8})\.lance")
_SUFFIX = ".lance"
_PIECE = 1 << 20
_TURNED = 0x4C464352
"""Bits that differ in the halves of the number of a deletion file which says its checksum."""

_ARROW_END, _ARROW_HEADER = b"ARROW1", 8
_ROARING = 12346
_ROARING_HEADER = 8
_MOST_IN_A_LIST, _BYTES_OF_BITS = 4096, 8192


def check_data(place: str, fragments: Iterable[FragmentMetadata]) -> None:
    """Raise `OSError` unless each data file of new fragments is as long as its writer counted."""
    for fragment in fragments:
        for file in fragment.files:
            check_file(place, file.path, file.file_size_bytes)


def check_file(place: str, name: str, size: int | None) -> None:
    """Raise `OSError` unless a data file of a table, or of one of its branches, has a size in bytes; None where it is not known."""
    if size is None or "://" in place:
        return
    try:
        state = os.stat(f"{place}/{DATA}/{name}")  # noqa: PTH116 - several times quicker
    except FileNotFoundError:
        state = _find(place, f"{DATA}/{name}").stat()
    if state.st_size != size:
        raise _cut_short(Path(name))


def seal(place: str, name: str, size: int | None) -> str:
    """Give a new data file a name that ends in the CRC-32 of its content, and return the name; `OSError` unless it has a size in bytes.

    A version names its files, so that the checksum is part of each version that reads them, of its branches and its backups. Files in object
    stores, which check what they store, and files with blobs of their own beside them keep their names.

    >>> recorded_checksum("9f86d081884c7d65-1b851995.lance"), recorded_checksum("9f86d081884c7d65.lance")
    (461707669, None)
    """
    check_file(place, name, size)
    path, stem = f"{place}/{DATA}/{name}", name.removesuffix(_SUFFIX)
    # As text: a path costs several times what it takes to look at the file.
    if "://" in place or not os.path.exists(path) or os.path.exists(f"{place}/{DATA}/{stem}"):  # noqa: PTH110
        return name
    sealed = f"{stem}-{checksum_of(path):08x}{_SUFFIX}"
    os.rename(path, f"{place}/{DATA}/{sealed}")  # noqa: PTH104
    return sealed


def seal_fragments(
    place: str, fragments: Iterable[FragmentMetadata], known: Container[str] = frozenset()
) -> list[FragmentMetadata]:
    """Return the descriptions of fragments with the names that their files have got (`seal`), but those that were `known` before."""

    def give_names(fragment: dict[str, Any]) -> None:
        for file in (each for each in fragment["files"] if each["path"] not in known):
            file["path"] = seal(place, file["path"], file.get("file_size_bytes"))

    return change_fragments(fragments, give_names)


def change_fragments(
    fragments: Iterable[FragmentMetadata], change: Callable[[dict[str, Any]], None]
) -> list[FragmentMetadata]:
    """Return the descriptions of fragments as a function has changed the documents that Lance makes of them."""
    documents = [fragment.to_json() for fragment in fragments]
    for fragment in documents:
        change(fragment)
    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in documents]


def sealed_deletions(place: str, fragments: Iterable[FragmentMetadata]) -> list[FragmentMetadata]:
    """Return the descriptions of fragments whose new deletion files, which `check_deletions` finds whole, have got numbers that say their CRC-32.

    Lance names a deletion file by any number of 64 bits: one half is the checksum, and the other the same with some bits turned.
    """
    known = list(fragments)
    check_deletions(place, known)
    paths = {fragment.id: _find(place, fragment.deletion_file.path(fragment.id)) for fragment in known}

    def give_number(fragment: dict[str, Any]) -> None:
        path, file = paths[fragment["id"]], fragment["deletion_file"]
        if "://" not in place and path.exists():
            checksum = checksum_of(path)
            number = checksum << 32 | checksum ^ _TURNED
            path.rename(path.with_name(path.name.replace(str(file["id"]), str(number))))
            file["id"] = number

    return change_fragments(known, give_number)


def deletion_damage(path: Path, number: int) -> str | None:
    """Return what is wrong with a deletion file of a number; None where it is as it was written, as far as the number says how."""
    try:
        recorded = number >> 32
        if number & 0xFFFFFFFF == recorded ^ _TURNED and checksum_of(path) != recorded:
            return f"{path.name!r} is not as it was written: its checksum is {checksum_of(path):08x}"
    except OSError as exc:
        return f"{path.name!r} cannot be read: {exc.strerror}"
    return None


def sealed_index(place: str, segment: str) -> str:
    """Give a new segment of an index a UUID that says the CRC-32 of its files, and return it: a version names its segments by it.

    Half of it stays; the rest is the checksum, and the same with some bits turned.
    """
    path = Path(place, INDICES, segment)
    if "://" in place or not path.exists():
        return segment
    checksum = _checksum_of_tree(path)
    name = str(UUID(bytes=UUID(segment).bytes[:8] + struct.pack(">II", checksum, checksum ^ _TURNED)))
    path.rename(path.with_name(name))
    return name


def index_damage(path: Path) -> str | None:
    """Return what is wrong with the directory of a segment; None where it is as it was written, as far as its name says how."""
    recorded, turned = struct.unpack(">II", UUID(path.name).bytes[8:])
    try:
        if turned == recorded ^ _TURNED and _checksum_of_tree(path) != recorded:
            return f"{path.name!r} is not as it was written: its checksum is {_checksum_of_tree(path):08x}"
    except OSError as exc:
        return f"{path.name!r} cannot be read: {exc.strerror}"
    return None


def _checksum_of_tree(path: Path) -> int:
    """Return the CRC-32 of the names, sizes and contents of all files below a directory."""
    checksum = 0
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        line = f"{file.relative_to(path)} {file.stat().st_size} {checksum_of(file)}\n"
        checksum = zlib.crc32(line.encode(), checksum)
    return checksum


def recorded_checksum(name: str) -> int | None:
    """Return the CRC-32 that the name of a data file says; None for one that says none."""
    match = _SEALED.fullmatch(name)
    return None if match is None else int(match["checksum"], 16)


def checksum_of(path: Path | str) -> int:
    """Return the CRC-32 of the content of a file."""
    checksum = 0
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        while piece := file.read(_PIECE):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def damage_of(path: Path, size: int | None) -> str | None:
    """Return what is wrong with a data file; None where it is as it was written, as far as its name says how."""
    try:
        actual_size = path.stat().st_size
        if size is not None and actual_size != size:
            return f"{path.name!r} has {actual_size:,} bytes; expected {size:,}"
        recorded = recorded_checksum(path.name)
        if recorded is not None and checksum_of(path) != recorded:
            return f"{path.name!r} is not as it was written: its checksum is {checksum_of(path):08x}"
    except OSError as exc:
        return f"{path.name!r} cannot be read: {exc.strerror}"
    return None


def check_deletions(place: str, fragments: Iterable[FragmentMetadata]) -> None:
    """Raise `OSError` unless each new deletion file of these fragments of the table at a place goes on to its end."""
    if "://" in place:
        return
    for fragment in fragments:
        path = _find(place, fragment.deletion_file.path(fragment.id))
        content = path.read_bytes()
        if not (_is_whole_arrow if path.suffix == ".arrow" else _is_whole_bitmap)(content):
            raise _cut_short(path)


def _find(place: str, name: str) -> Path:
    """Return a file of a table, or of one of its branches: their handles all name the table itself."""
    path = Path(place, name)
    if not path.exists():
        with suppress(StopIteration):
            return next(Path(place, BRANCHES).glob(f"**/{name}"))
    return path


def _is_whole_arrow(content: bytes) -> bool:
    """Return whether an Arrow file ends as it began."""
    return len(content) > _ARROW_HEADER and content.endswith(_ARROW_END)


def _is_whole_bitmap(content: bytes) -> bool:
    """Return whether a Roaring bitmap is as long as its header says: the number of containers, and how many values are in each."""
    if len(content) < _ROARING_HEADER:
        return False
    cookie, containers = (int(word) for word in np.frombuffer(content[:_ROARING_HEADER], "<u4"))
    if cookie != _ROARING:
        return True
    described = content[_ROARING_HEADER : _ROARING_HEADER + 4 * containers]
    if len(described) < 4 * containers:
        return False
    values = np.frombuffer(described, "<u2")[1::2].astype(np.int64) + 1
    sizes = np.where(values <= _MOST_IN_A_LIST, 2 * values, _BYTES_OF_BITS)
    return len(content) == _ROARING_HEADER + 8 * containers + int(sizes.sum())


def _cut_short(path: Path) -> OSError:
    return OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: a file was cut short", path.name)


LENGTH = struct.Struct("<I")
MALFORMED = (IndexError, OverflowError, struct.error, DecodeError)
"""Errors of these functions for bytes that are no version of a table."""

_MAGIC = b"LANC"
_FOOTER = struct.Struct("<QHH4s")
_DECLARATION = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
_FIELD = re.compile(r"(?:(optional|repeated) )?(\w+) (\w+) = (\d+);")


def declare_messages(declarations: str) -> SimpleNamespace:
    """Return the classes of protobuf messages that are declared as in a .proto file; further fields pass through them unchanged."""
    file = FileDescriptorProto(name="lance.proto", package="lance", syntax="proto3")
    for name, body in _DECLARATION.findall(declarations):
        message = file.message_type.add(name=name)
        for rule, kind, called, number in _FIELD.findall(body):
            made = message.field.add(name=called, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
            if kind.islower():
                made.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
            else:
                made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".lance.{kind}"
            if rule == "repeated":
                made.label = FieldDescriptorProto.LABEL_REPEATED
            elif rule == "optional":
                made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{called}")
    pool = DescriptorPool()
    pool.Add(file)
    names = [message.name for message in file.message_type]
    return SimpleNamespace(**{name: GetMessageClass(pool.FindMessageTypeByName(f"lance.{name}")) for name in names})


MESSAGES = declare_messages("""
    message Manifest {
      repeated bytes fields = 1; repeated bytes fragments = 2; uint64 version = 3; optional uint64 index_section = 6;
      Timestamp timestamp = 7; uint64 reader_feature_flags = 9; uint64 writer_feature_flags = 10;
      optional uint32 max_fragment_id = 11; string transaction_file = 12; bytes writer_version = 13; bytes data_format = 15;
      repeated BasePath base_paths = 18; optional uint64 transaction_section = 23;
    }
    message Timestamp { int64 seconds = 1; int32 nanos = 2; }
    message WriterVersion { string library = 1; string version = 2; }
    message BasePath { string path = 4; }
    message DataFragment {
      uint64 id = 1; repeated DataFile files = 2; DeletionFile deletion_file = 3; uint64 physical_rows = 4;
    }
    message DataFile {
      string path = 1; repeated int32 fields = 2; repeated int32 column_indices = 3; uint32 file_major_version = 4;
      uint32 file_minor_version = 5; uint64 file_size_bytes = 6;
    }
    message DeletionFile { uint32 file_type = 1; uint64 read_version = 2; uint64 id = 3; uint64 num_deleted_rows = 4; }
    message Transaction {
      uint64 read_version = 1; string uuid = 2; repeated Property transaction_properties = 4; Append append = 100;
      Update update = 108;
    }
    message Property { string key = 1; string value = 2; }
    message Append { repeated DataFragment fragments = 1; }
    message Update {
      repeated uint64 removed_fragment_ids = 1; repeated DataFragment updated_fragments = 2;
      repeated DataFragment new_fragments = 3;
    }
    message Field { int32 id = 3; int32 parent_id = 4; }
""")
"""Messages of Lance's table.proto, transaction.proto and file.proto, with the fields that are read or written here.

Those that are only carried from version to version, as columns are, have the type `bytes`."""


def locate_message(content: bytes) -> tuple[int, int]:
    """Return where the message begins and ends."""
    position, _, _, magic = _FOOTER.unpack(content[-_FOOTER.size :])
    (length,) = LENGTH.unpack_from(content, position)
    start = position + LENGTH.size
    if magic != _MAGIC or start + length > len(content) - _FOOTER.size:
        raise IndexError("its end does not say where its message is")
    return start, start + length


def is_whole(content: bytes) -> bool:
    """Return whether the bytes are a version file from end to end.

    >>> is_whole(b""), is_whole(bytes(4096))
    (False, False)
    """
    try:
        start, end = locate_message(content)
        # Zeros, which a file that was never written through reads as, are fields without a number.
        MESSAGES.Manifest.FromString(content[start:end])
    except MALFORMED:
        return False
    return start < end
