"""References to tables in SQL with a version and a metadata table (`t@12`, `t@tag$files`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.errors import NotFound

Point = int | str | datetime
"""Point in a table's history: a version, a tag, or the newest version that is not later than a time."""

_VERSION = re.compile(r"[0-9]{1,20}")
_REFERENCE = re.compile(r"(?P<table>.+?)(?:@(?P<at>[^$@]+))?(?:\$(?P<metadata>[a-z]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reference:
    """Table reference in SQL: its newest version (`at` None) or another one, and optionally a metadata table."""

    table: TableName
    at: Point | None = None
    metadata: str | None = None

    @classmethod
    def parse(cls, name: TableName) -> Reference:
        """Parse a reference.

        >>> Reference.parse(TableName("public", "t@12$files")).at
        12
        """
        match = _REFERENCE.fullmatch(name.name)
        if match is None:
            return cls(name)
        at = None if match["at"] is None else point(match["at"])
        return cls(TableName(name.db_schema, match["table"]), at, match["metadata"])


def point(text: str) -> Point:
    """Parse a version number, a point in time (UTC unless it has a zone), or a tag.

    >>> point("12"), point("2026-01-31").isoformat(), point("audited")
    (12, '2026-01-31T00:00:00+00:00', 'audited')
    """
    if _VERSION.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_point(cursor: Cursor) -> Point:
    """Read one point from a cursor."""
    return point(cursor.word("a version, a tag or a time"))


def read_as_of(cursor: Cursor) -> Point | None:
    """Read `[AS OF point]` from a cursor."""
    return read_point(cursor) if cursor.accept("AS", "OF") else None


@contextmanager
def naming(table: TableName, at: Point | None) -> Iterator[None]:
    """Replace an error about a missing version by one that names the table and the point, not the table's location."""
    try:
        yield
    except (NotFound, OverflowError) as exc:
        # Lance counts versions in 64 bits, and says so of a number beyond.
        match at:
            case None:
                missing = "is not there"
            case datetime():
                missing = f"has no version as old as {at.isoformat()}"
            case str():
                missing = f"has no tag {at!r}, and no branch of that name"
            case int():
                missing = f"has no version {at}"
        raise NotFound(f"table {table.name!r} {missing}") from exc
