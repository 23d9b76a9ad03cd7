"""What programs say of the calls that they make: a line `name = value` or `name ! error` for each."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAID = re.compile(r"(?P<name>.*?) (?P<value>[=!] .*)")


def said_in(text: str) -> Mapping[str, str]:
    """The lines of a text, by the name of each call."""
    return {found["name"]: found["value"] for found in map(_SAID.fullmatch, text.splitlines()) if found}
