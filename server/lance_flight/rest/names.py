"""Identifiers of the catalog: names joined by a delimiter, and what they mean in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_flight.engine.sql.references import quote_parts, text_literal
from lance_flight.errors import InvalidInput, Unsupported

DELIMITER = "$"
PUBLIC = "public"
"""Schema of the tables of the root, which no identifier of the catalog names."""
MOST_PARTS, MOST_CHARACTERS, LONGEST_DELIMITER = 64, 4_000, 8


def parse_id(text: str, delimiter: str = DELIMITER) -> tuple[str, ...]:
    """Split an identifier; `InvalidInput` names one that is too long, or has a name that no table can have.

    >>> parse_id("a$flights"), parse_id("$"), parse_id("a.flights", ".")
    (('a', 'flights'), (), ('a', 'flights'))
    """
    if not 0 < len(delimiter) <= LONGEST_DELIMITER:
        raise InvalidInput(f"delimiter {delimiter!r}; expected 1 to {LONGEST_DELIMITER} characters")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"an identifier of {len(text)} characters; expected at most {MOST_CHARACTERS}")
    if text in ("", delimiter):
        return ()
    parts = tuple(text.split(delimiter))
    if len(parts) > MOST_PARTS:
        raise InvalidInput(f"an identifier of {len(parts)} names; expected at most {MOST_PARTS}")
    for part in parts:
        if not part or part in (".", "..") or not set(part).isdisjoint("/\\@\x00") or not part.isprintable():
            raise InvalidInput(
                f"name {part!r} in identifier {text!r}; expected one without / \\ @ and control characters"
            )
    return parts


@dataclass(frozen=True, slots=True)
class TableId:
    """Table that a request names: its schema, its name, and the point in its history that is read, if it says one."""

    db_schema: str
    name: str
    at: str | None = None

    @classmethod
    def of(cls, parts: tuple[str, ...]) -> TableId:
        """Return the table of an identifier; `InvalidInput` for the root."""
        if not parts:
            raise InvalidInput("the identifier names the root; expected a table")
        return cls(schema_of(parts[:-1]), parts[-1])

    def pin(self, version: int | None, branch: str | None, tag: str | None = None) -> TableId:
        """Return the table at a version, on a branch, at a version of a branch, or at a tag; `Unsupported` for a tag and one of these."""
        names = [name for name in (None if branch == "main" else branch, tag) if name not in (None, "")]
        wrong = [name for name in names if not set(str(name)).isdisjoint('@$"')]
        if wrong:
            raise InvalidInput(f"{wrong[0]!r} is no name of a tag or branch; expected one without @ $ and quotes")
        if tag in names and (len(names) > 1 or version is not None):
            raise Unsupported(f"tag {tag!r} beside a version or a branch; expected the tag alone")
        points = [*names, *([] if version is None else [str(version)])]
        return TableId(self.db_schema, self.name, "@".join(map(str, points)) or None)

    @property
    def pinned_name(self) -> str:
        """The name without its schema, at its point in history: `t`, `t@12`, `t@branch@12`."""
        return self.name if self.at is None else f"{self.name}@{self.at}"

    @property
    def sql(self) -> str:
        """The name in SQL, at its point in history."""
        return quote_parts(self.db_schema, self.pinned_name)

    @property
    def argument(self) -> str:
        """The name as an argument of a search function."""
        return text_literal(self.sql)

    def metadata(self, kind: str) -> str:
        """Return the name of a metadata table in SQL: `t$snapshots`."""
        return quote_parts(self.db_schema, f"{self.pinned_name}${kind}")


def schema_of(parts: tuple[str, ...]) -> str:
    """Return the schema that a namespace is in SQL.

    >>> schema_of(()), schema_of(("a", "b"))
    ('public', 'a.b')
    """
    return ".".join(parts) or PUBLIC


def namespace_of(db_schema: str) -> tuple[str, ...]:
    """Return the names of a schema's namespace; none for that of the root."""
    return () if db_schema == PUBLIC else tuple(db_schema.split("."))


def fold_column(name: str, names: Sequence[str]) -> str:
    """Return the name of a column as a table has it, whatever the case of its letters; itself for one that the table lacks.

    >>> fold_column("ID", ["id"]), fold_column("ID", ["id", "ID"])
    ('id', 'ID')
    """
    return name if name in names else {known.lower(): known for known in reversed(names)}.get(name.lower(), name)


def column_sql(path: object) -> str:
    """Return the SQL of a Lance field path: names joined by dots, those with dots in backticks."""
    if not isinstance(path, str) or not path:
        raise InvalidInput(f"column {path!r}; expected a name")
    return quote_parts(*field_path(path))


def field_path(path: str) -> list[str]:
    """Split a Lance field path.

    >>> field_path("meta.`a.b`.c")
    ['meta', 'a.b', 'c']
    """
    parts, rest = [], path
    while rest:
        if rest.startswith("`"):
            end = rest.find("`", 1)
            while 0 < end < len(rest) - 1 and rest[end + 1] == "`":
                end = rest.find("`", end + 2)
            if end < 0:
                raise InvalidInput(f"column {path!r} has a backtick without its end")
            parts.append(rest[1:end].replace("``", "`"))
            rest = rest[end + 1 :]
            if rest and not rest.startswith("."):
                raise InvalidInput(f"column {path!r}; expected names joined by dots")
            rest = rest[1:]
        else:
            name, _, rest = rest.partition(".")
            parts.append(name)
    return parts
