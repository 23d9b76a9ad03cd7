"""Files behind arguments: single ones, directories of them, globs, on this machine and in object stores."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
from lance_flight.errors import InvalidInput, NotFound
from pyarrow import fs

from lance_flight_client.files.formats import FORMATS, format_of

_WILD = "*?["


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files of one argument, all of one format; names of directories below `base` may be columns (`day=3`)."""

    argument: str
    filesystem: fs.FileSystem = field(repr=False)
    base: str
    paths: Sequence[str]
    sizes: Sequence[int]
    format: str


def found(argument: str, format: str | None) -> Found:
    """Find the files of an argument; `format` is theirs, or None for what their names say.

    `NotFound` if there are none, `InvalidInput` if their format cannot be told.
    """
    try:
        filesystem, path = fs.FileSystem.from_uri(_address(argument))
        base, infos = _listed(filesystem, path)
    except (OSError, pa.ArrowException) as exc:
        raise NotFound(f"{argument!r} cannot be read: {exc}") from exc
    files = sorted((info.path, info.size or 0) for info in infos if info.is_file and not _is_hidden(info.path, base))
    known = [(path, size, format or format_of(path)) for path, size in files]
    chosen = [each for each in known if each[2] is not None]
    if not chosen:
        what = f"{len(files)} files, none of a known format" if files else "no files"
        raise NotFound(f"{argument!r} has {what}; expected {', '.join(FORMATS)} by their ends, or --format")
    formats = sorted({str(kind) for _, _, kind in chosen})
    if len(formats) > 1:
        raise InvalidInput(f"{argument!r} has files of several formats, {' and '.join(formats)}; name them by a glob")
    return Found(
        argument=argument,
        filesystem=filesystem,
        base=base,
        paths=[path for path, _, _ in chosen],
        sizes=[size for _, size, _ in chosen],
        format=formats[0],
    )


def _address(argument: str) -> str:
    return argument if "://" in argument else str(Path(argument).expanduser().absolute())


def _listed(filesystem: fs.FileSystem, path: str) -> tuple[str, list[fs.FileInfo]]:
    """Return the directory below which names may be columns, and what a path, a directory or a glob stands for."""
    info = filesystem.get_file_info(path)
    if info.type is fs.FileType.Directory:
        return path, filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    if info.type is not fs.FileType.NotFound:
        return path.rpartition("/")[0], [info]
    if not glob.has_magic(path):
        return path, []
    base = path[: min(path.index(sign) for sign in _WILD if sign in path)].rpartition("/")[0]
    if isinstance(filesystem, fs.LocalFileSystem):
        matching = (each for each in Path(base).glob(path[len(base) :].lstrip("/")) if each.is_file())
        return base, filesystem.get_file_info([str(each) for each in matching])
    below = filesystem.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return base, [each for each in below if fnmatchcase(each.path, path)]


def _is_hidden(path: str, base: str) -> bool:
    """Return whether a file, or a directory above it, is one that other tools leave beside data (`_SUCCESS`, `.crc`)."""
    below = path.removeprefix(base).strip("/").split("/")
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in below)
