"""Formats of files, by name: how Arrow reads those that say their types, and which are text, whose form is guessed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds

_LEADING_ZERO = re.compile(r"(?:^|/)([^/=]+)=[+-]?0[0-9]")


def padded_names(paths: Iterable[str]) -> set[str]:
    """Return the columns that directories are named by, of which one has a number with leading zeros.

    >>> padded_names(["in/zip=00012/day=3/a.csv"])
    {'zip'}
    """
    return {name for path in paths for name in _LEADING_ZERO.findall(path)}


ARROW_MAGIC = b"ARROW1\0\0"
"""First bytes of a file of Arrow's; a stream has none."""

Pipe: TypeAlias = Callable[[IO[bytes]], Any]
"""Function that opens a pipe as a record batch reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of files, and what reads them; the form and the types of a text are guessed."""

    read: Callable[[], ds.FileFormat]
    pipe: Pipe | None = None
    is_text: bool = False


def _arrow_pipe(pipe: IO[bytes]) -> Any:
    """Open a stream, or the stream that a file has behind its first bytes."""
    raw: Any = pipe
    buffered = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
    if buffered.peek(len(ARROW_MAGIC))[: len(ARROW_MAGIC)] == ARROW_MAGIC:
        buffered.read(len(ARROW_MAGIC))
    return pa.ipc.open_stream(buffered)


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "parquet": Format(read=ds.ParquetFileFormat),
        "csv": Format(read=ds.CsvFileFormat, is_text=True),
        "json": Format(read=ds.JsonFileFormat, is_text=True),
        "arrow": Format(read=ds.IpcFileFormat, pipe=_arrow_pipe),
        "orc": Format(read=ds.OrcFileFormat),
        "excel": Format(read=ds.CsvFileFormat, is_text=True),
    }
)
"""Formats by their names; JSON is one object after another or an array, Arrow the file format (in a pipe the stream format)."""
