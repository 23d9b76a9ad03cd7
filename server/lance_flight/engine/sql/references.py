"""References to tables and columns in statements, with a version and a metadata table (`t@12`, `t@tag$files`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.errors import NotFound, SqlError

CATALOG = "lance"
QUALIFIED_PARTS = 3  # catalog.schema.table
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class TableRef:
    """Table reference of a statement: schema (None: the default one) and name."""

    name: str
    db_schema: str | None = None


def table(cursor: Cursor) -> TableRef:
    """Read `[[lance.]schema.]table`; without a schema it is one of the cursor's."""
    parts = [cursor.name("a table name")]
    while cursor.accept("."):
        parts.append(cursor.name("a table name"))
    if len(parts) > QUALIFIED_PARTS or (len(parts) == QUALIFIED_PARTS and parts[0] != CATALOG):
        raise SqlError(f"table {'.'.join(parts)!r} is not there; expected [[lance.]schema.]table")
    return TableRef(parts[-1], parts[-2] if len(parts) > 1 else cursor.db_schema)


def column(cursor: Cursor) -> tuple[TableRef, str]:
    """Read `[[lance.]schema.]table.column`."""
    parts = [cursor.name("a table name")]
    while cursor.accept("."):
        parts.append(cursor.name("a column name"))
    if len(parts) < 2 or len(parts) > QUALIFIED_PARTS + 1 or (len(parts) > QUALIFIED_PARTS and parts[0] != CATALOG):  # noqa: PLR2004 - a table and its column
        raise SqlError(f"column {'.'.join(parts)!r} is not there; expected [[lance.]schema.]table.column")
    *_, name = parts
    *above, table = parts[:-1]
    return TableRef(table, above[-1] if above else cursor.db_schema), name


def table_name(reference: TableRef) -> TableName:
    """Resolve a reference to a table name; the schema defaults to `public`."""
    return TableName(reference.db_schema or PUBLIC, reference.name)


def schema(cursor: Cursor) -> str:
    """Read `[lance.]schema`."""
    name = cursor.name("the name of a schema")
    if cursor.accept("."):
        if name != CATALOG:
            raise SqlError(f"catalog {name!r} is not there; expected [{CATALOG}.]schema")
        name = cursor.name("the name of a schema")
    return name


def catalog(cursor: Cursor) -> str:
    """Read the name of the catalog."""
    name = cursor.name("the name of a catalog")
    if name != CATALOG:
        raise SqlError(f"catalog {name!r} is not there; expected {CATALOG!r}, the only one")
    return name


def names(cursor: Cursor) -> tuple[str, ...]:
    """Read `(column, …)`."""
    cursor.expect("(")
    names = [cursor.name("a column name")]
    while cursor.accept(","):
        names.append(cursor.name("a column name"))
    cursor.expect(")")
    return tuple(names)


def quote_parts(*parts: str) -> str:
    """Quote the parts of a name for SQL.

    >>> quote_parts("public", "my table")
    '"public"."my table"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def shown_name(name: str, db_schema: str = PUBLIC) -> str:
    """Write a name for a statement that is typed: quoted where it has to be, and without the schema `public`.

    >>> shown_name("docs"), shown_name("my docs", "a")
    ('docs', 'a."my docs"')
    """
    parts = [name] if db_schema == PUBLIC else [db_schema, name]
    return ".".join(part if _PLAIN.fullmatch(part) else quote_parts(part) for part in parts)


def text_literal(text: str) -> str:
    """Quote a text as a literal of SQL.

    >>> text_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def enclose(expression: str) -> str:
    """Put an expression into brackets; a line break ends a comment at its end."""
    return f"({expression}\n)"


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


_CLOCKS = timedelta(minutes=1)
"""How far the clocks of two machines may be apart."""


@contextmanager
def naming(table: TableName, at: Point | None) -> Iterator[None]:
    """Replace an error about a missing version by one that names the table and the point, not the table's location.

    A time that is not over has no version yet: `SqlError`.
    """
    if isinstance(at, datetime) and at > datetime.now(UTC) + _CLOCKS:
        raise SqlError(
            f"table {table.name!r} has no version of {at.isoformat()} yet, which is in the future; leave the time out for the newest one"
        )
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
