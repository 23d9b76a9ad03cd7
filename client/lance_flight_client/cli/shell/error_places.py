"""Places of errors in a statement, shown by a caret under what an error names."""

from __future__ import annotations

import re

_PLACES = tuple(
    map(
        re.compile,
        (
            r"at line (?P<line>\d+), column (?P<column>\d+)",
            r"at character (?P<character>\d+)",
            r"found: (?P<end>EOF)",
            r"No field named (?P<name>\S+?)\.?(?:\s|$)",
            r"\bno (?:table|view|column|schema|index|setting) '(?P<name>[^']+)'",
            r"(?:Invalid function|may not begin with) '(?P<name>[^']+)'",
            r"'(?P<name>[^']+)' is not a type",
            r"^(?:\[\w+\] )?(?P<name>\w+) does not take ",
        ),
    )
)
"""Forms of the messages of a server that say where an error is: by a place, or by a name that is in the statement."""
_WIDEST = 100
"""Most characters of a line that are shown around the place of an error."""


def point_at_error(message: str, sql: str) -> str:
    r"""Return a message with the line of the statement that it is about, and a caret under the place.

    >>> print(point_at_error("[not_found] no table 'nope'", "SELECT *\nFROM nope"))
    [not_found] no table 'nope'
    LINE 2: FROM nope
                 ^
    >>> point_at_error("[query_failed] Divide by zero error", "SELECT 1/0")
    '[query_failed] Divide by zero error'
    """
    at = _place(message, sql)
    if at is None:
        return message
    start = sql.rfind("\n", 0, at) + 1
    end = sql.find("\n", at)
    line = sql[start : len(sql) if end < 0 else end].replace("\t", " ")
    skipped = max(0, at - start - _WIDEST // 2)
    head = f"LINE {sql.count(chr(10), 0, at) + 1}: " + ("…" if skipped else "")
    return f"{message}\n{head}{line[skipped : skipped + _WIDEST]}\n{' ' * (len(head) + at - start - skipped)}^"


def _place(message: str, sql: str) -> int | None:
    """Return the offset in a statement that a message is about; None where it says none."""
    for pattern in _PLACES:
        match = pattern.search(message)
        if match is None:
            continue
        given = match.groupdict()
        if "line" in given:
            lines = sql.splitlines(keepends=True)[: int(match["line"]) - 1]
            return sum(map(len, lines)) + int(match["column"]) - 1
        if "character" in given:
            return int(match["character"]) - 1
        if "end" in given:
            return len(sql.rstrip())
        named = re.search(rf"(?<![\w.])\"?{re.escape(match['name'])}\"?(?!\w)", sql, re.IGNORECASE)
        return None if named is None else named.start()
    return None
