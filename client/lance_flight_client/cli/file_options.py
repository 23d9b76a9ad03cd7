"""Options of text files, checked before a file is opened. Nothing heavy is imported here."""

from __future__ import annotations

import codecs

from lance_flight.errors import InvalidInput


def checked_delimiter(text: str | None, option: str) -> str | None:
    r"""Return the one character that an option says; `\t` is a tab."""
    found = "\t" if text == "\\t" else text
    if found is not None and len(found.encode()) != 1:
        raise InvalidInput(f"{option} is {text!r}; expected one character, or \\t")
    return found


def checked_encoding(name: str | None, option: str) -> str | None:
    """Return Python's name of an encoding of text."""
    try:
        return None if name is None else codecs.lookup(name).name
    except LookupError:
        raise InvalidInput(f"{option} is {name!r}; expected a name of Python's, such as utf-8 or latin-1") from None
