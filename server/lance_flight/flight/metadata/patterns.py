r"""Patterns of SQL LIKE, by which the metadata commands filter.

`%` stands for any run of characters, `_` for one character, and a backslash before `%`, `_` or a backslash takes its
meaning away; any other backslash stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable

ESCAPE = "\\"

_TOKEN = re.compile(r"\\[%_\\]|.", re.DOTALL)
_WILDCARDS = {"%": ".*", "_": "."}


def like(pattern: str | None) -> Callable[[str], bool]:
    r"""Return a function that matches names against `pattern`, case-sensitively; without a pattern every name matches.

    >>> like("fl%")("flights"), like("a_b")("axb"), like(r"a\_b")("axb")
    (True, True, False)
    """
    if pattern is None:
        return lambda _: True
    matches = re.compile("".join(map(_regex, _TOKEN.findall(pattern))), re.DOTALL).fullmatch
    return lambda name: matches(name) is not None


def _regex(token: str) -> str:
    return _WILDCARDS.get(token) or re.escape(token[-1])
