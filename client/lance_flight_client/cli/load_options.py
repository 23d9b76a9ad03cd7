"""Choices of a load that are checked before a file is opened: what becomes of an existing table, the form of text files, partition fields."""

from __future__ import annotations

import codecs
import re
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


_FIELD = re.compile(r"\b(?P<part>year|month)\s*\(\s*(?P<column>[^()]+?)\s*\)", re.IGNORECASE)


def month_note(fields: str) -> str | None:
    """Return a note on a month without its year among partition fields; None without one.

    >>> month_note("month(ts), origin")
    'month(ts) is 1 to 12 whatever the year: each March lies in one partition; year(ts), month(ts) has a partition for each month'
    >>> month_note("year(ts), month(ts)") is None
    True
    """
    parts = {(match["part"].lower(), match["column"]) for match in _FIELD.finditer(fields)}
    for part, column in sorted(parts):
        if part == "month" and ("year", column) not in parts:
            return (
                f"month({column}) is 1 to 12 whatever the year: each March lies in one partition;"
                f" year({column}), month({column}) has a partition for each month"
            )
    return None
