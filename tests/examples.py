"""How many examples a property looks at."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

from tests.selection import IS_FULL


def examples(count: int, **more: Any) -> settings:
    """The settings of a property with `count` examples in the default run, and as many as others in the full one.

    A property without these settings looks at the number of its profile (`tests/conftest.py`): a cheap one may look at
    more, one whose examples take longer than some 20 ms looks at fewer.
    """
    return settings(**({} if IS_FULL else {"max_examples": count}), **more)
