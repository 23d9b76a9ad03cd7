"""Columns by their names, as Spark reads names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def matched(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the columns of a table that `names` mean to Spark: in whatever case, where that leaves no choice.

    >>> matched(["ID", "a", "A", "x"], ["id", "a", "A"])
    ['id', 'a', 'A', 'x']
    """
    by_lower: dict[str, list[str]] = {}
    for name in known:
        by_lower.setdefault(name.lower(), []).append(name)
    found = []
    for name in names:
        same = by_lower.get(name.lower(), [])
        is_alone = [each.lower() for each in names].count(name.lower()) == 1
        found.append(same[0] if name not in same and len(same) == 1 and is_alone else name)
    return found
