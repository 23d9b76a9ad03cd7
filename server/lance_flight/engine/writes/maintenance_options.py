"""Options of a table's maintenance policy, as ALTER TABLE … SET and CREATE TABLE … WITH take them, and SHOW CREATE TABLE shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from types import MappingProxyType

from lance_flight.catalog.maintenance.survey import PolicyValue, chosen_options
from lance_flight.catalog.maintenance.vacuum import HOUR, TRANSACTION_FLOOR_HOURS
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import InvalidInput
from lance_flight.quantities import TIME_EXPECTED, parse_seconds

LEAST_RETAIN = HOUR
"""The shortest retention, in seconds: statements that read a snapshot by its number have to come before it goes."""
RESET = "default"
"""The value that takes an option back."""

_MOST_FILES = 1 << 63
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def _switch(text: str) -> bool:
    return _SWITCH[text.lower()]


def _files(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST_FILES:
        raise ValueError(text)
    return number


def _part(text: str) -> float:
    part = float(text)
    # Not `part > 1`: NaN is not greater than anything.
    if not 0 <= part <= 1:
        raise ValueError(text)
    return part


def _time(least: float, text: str) -> float:
    seconds = parse_seconds(text)
    # NaN is not less than anything.
    if not least <= seconds < inf:
        raise ValueError(text)
    return seconds


_OPTIONS: Mapping[str, tuple[Callable[[str], PolicyValue], str]] = MappingProxyType(
    {
        "maintenance": (_switch, "on or off"),
        "compact_files": (_files, "a number of files, 1 or more"),
        "compact_deleted": (_part, "a part of the rows, 0 to 1"),
        "reindex_missing": (_part, "a part of the rows, 0 to 1"),
        "retain": (partial(_time, LEAST_RETAIN), f"{TIME_EXPECTED}, an hour at least; with its unit, such as '7d'"),
        "transactions": (
            partial(_time, TRANSACTION_FLOOR_HOURS * HOUR),
            f"{TIME_EXPECTED}, {TRANSACTION_FLOOR_HOURS:g} hours at least; with its unit, such as '24h'",
        ),
    }
)
NAMES = tuple(_OPTIONS)
_TIMES = frozenset({"retain", "transactions"})


def parse_options(options: Mapping[str, object], *, may_reset: bool = True) -> dict[str, PolicyValue | None]:
    """Return the values of policy options, None for those that go back to their default; `InvalidInput` names what is wrong."""
    return dict(_parse(options, may_reset=may_reset))


def _parse(options: Mapping[str, object], *, may_reset: bool) -> Iterator[tuple[str, PolicyValue | None]]:
    for name, value in options.items():
        if name not in _OPTIONS:
            raise InvalidInput(
                f"option {name!r} of a table is not known; expected {', '.join(NAMES[:-1])} or {NAMES[-1]}"
            )
        parse, expected = _OPTIONS[name]
        if may_reset and str(value).lower() == RESET:
            yield name, None
            continue
        try:
            yield name, parse(str(value))
        except (ValueError, KeyError, OverflowError, InvalidInput) as exc:
            raise InvalidInput(f"{name} is {value!r}; expected {expected}") from exc


def as_sql(name: str, value: PolicyValue) -> str:
    """Return an option as it is written in SQL.

    >>> as_sql("retain", 604800.0), as_sql("compact_files", 8), as_sql("maintenance", False)
    ("retain = '7d'", 'compact_files = 8', 'maintenance = off')
    """
    return f"{name} = '{_as_text(name, value)}'" if name in _TIMES else f"{name} = {_as_text(name, value)}"


def as_texts(options: Mapping[str, PolicyValue | None]) -> dict[str, str]:
    """Return options as texts that `parse_options` reads."""
    return {name: RESET if value is None else _as_text(name, value) for name, value in options.items()}


def chosen_texts(snapshot: Snapshot) -> dict[str, str]:
    """Return the options that were chosen for a table, as texts."""
    return as_texts(chosen_options(snapshot))


def _as_text(name: str, value: PolicyValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if name in _TIMES:
        return _as_time(value)
    # Never with an exponent, which SQL reads as another expression.
    return f"{value:.15f}".rstrip("0") if isinstance(value, float) and value % 1 else f"{value:.0f}"


def _as_time(seconds: float) -> str:
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds % size == 0), ("s", 1))
    return f"{seconds / size:.15g}{unit}"
