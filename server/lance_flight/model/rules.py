"""Checks that rules of long work share: numbers that may not be too small."""

from __future__ import annotations

from lance_flight.errors import InvalidInput


def check_least(least: float, **values: float | None) -> None:
    """Refuse the first of some values that is below `least` (None is none); `InvalidInput` names it.

    >>> check_least(0, retain_hours=168.0)
    """
    for name, value in values.items():
        # Not `<`: NaN is not less than anything.
        if value is not None and not value >= least:
            raise InvalidInput(f"{name} is {value}; expected {least:g} or more")
