"""How many examples a property looks at."""

from __future__ import annotations

from hypothesis import settings

from tests.selection import IS_FULL


def examples(count: int, full: int | None = None) -> settings:
    """The settings of a property: its numbers of examples in the default run and in the full one (None: those of its profile).

    A property without these settings looks at the number of its profile (`tests/conftest.py`): a cheap one may look at
    more, one whose examples take longer than some 20 ms looks at fewer.
    """
    chosen = full if IS_FULL else count
    return settings() if chosen is None else settings(max_examples=chosen)
