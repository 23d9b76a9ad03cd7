"""Options of a load, checked before a file is opened: what becomes of a table that is there, and the form of text files."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class LoadMode:
    """Meaning of a mode: the name of what an existing table is to an ingest (`IfExists`), ADBC's name of that, and the rows that are overwritten."""

    existing: str
    adbc: str
    overwrite: str | None = None


MODES: Mapping[str, LoadMode] = MappingProxyType(
    {
        "create": LoadMode("FAIL", "create"),
        "append": LoadMode("APPEND", "create_append"),
        "overwrite": LoadMode("APPEND", "create_append", "partitions"),
        "overwrite-table": LoadMode("APPEND", "create_append", "table"),
        "replace": LoadMode("REPLACE", "replace"),
    }
)


def checked_delimiter(text: str | None, option: str) -> str | None:
    r"""Return the one character that an option says; `\t` is a tab."""
    delimiter = "\t" if text == "\\t" else text
    if delimiter is not None and len(delimiter.encode()) != 1:
        raise InvalidInput(f"{option} is {text!r}; expected one character, or \\t")
    return delimiter


def checked_encoding(name: str | None, option: str) -> str | None:
    """Return Python's name of an encoding of text."""
    try:
        return None if name is None else codecs.lookup(name).name
    except LookupError:
        raise InvalidInput(f"{option} is {name!r}; expected a name of Python's, such as utf-8 or latin-1") from None
