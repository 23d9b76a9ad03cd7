"""Sizes and times as people write them: `4GiB`, `512MB`, `30s`, `1h30min`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from lance_flight.errors import InvalidInput

_KIBI, _KILO = 1024, 1000
_BYTES: Mapping[str, int] = MappingProxyType(
    {"": 1, "b": 1}
    | {f"{prefix}{end}": _KIBI**power for power, prefix in enumerate("kmgt", 1) for end in ("", "i", "ib")}
    | {f"{prefix}b": _KILO**power for power, prefix in enumerate("kmgt", 1)}
)
"""Bytes of a unit in lower case: `MB` are a million, `MiB` and a bare `M` are 1024²."""
_SECONDS: Mapping[str, float] = MappingProxyType(
    {"": 1, "ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
)
_PART = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([a-zA-Z]*)")
SIZE_EXPECTED = "a number of bytes, such as 65536, 512MB or 4GiB"
TIME_EXPECTED = "a number of seconds, such as 30, 500ms, 5min or 1h30min"


def parse_bytes(text: str) -> int:
    """Parse a size; `InvalidInput` says what is expected.

    >>> parse_bytes("4GiB"), parse_bytes("1.5 MB"), parse_bytes("64k"), parse_bytes("12")
    (4294967296, 1500000, 65536, 12)
    """
    match = _PART.fullmatch(text.rstrip())
    unit = None if match is None else _BYTES.get(match[2].lower())
    if match is None or unit is None:
        raise InvalidInput(f"{text!r} is no size; expected {SIZE_EXPECTED}")
    return round(float(match[1]) * unit)


def parse_seconds(text: str) -> float:
    """Parse a time, of one part or several; `InvalidInput` says what is expected.

    >>> parse_seconds("30"), parse_seconds("500ms"), parse_seconds("1h30min"), parse_seconds("2d")
    (30.0, 0.5, 5400.0, 172800.0)
    """
    parts = _PART.findall(text)
    is_whole = re.fullmatch(f"(?:{_PART.pattern})+", text.rstrip()) is not None
    units = [_SECONDS.get(unit.lower()) for _, unit in parts]
    # Two numbers without units are no time.
    if not is_whole or None in units or (len(parts) > 1 and any(not unit for _, unit in parts)):
        raise InvalidInput(f"{text!r} is no time; expected {TIME_EXPECTED}")
    return math.fsum(float(number) * (unit or 0) for (number, _), unit in zip(parts, units, strict=True))
