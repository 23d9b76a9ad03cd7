"""Notes on partition fields that are often meant otherwise."""

from __future__ import annotations

import re

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
