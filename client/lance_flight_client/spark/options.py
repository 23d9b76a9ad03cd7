"""The options of `spark.read.format("lance_flight")` as one value, every problem of theirs named at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from lance_flight.errors import InvalidInput

STORAGE = "storage."
"""What the names of storage options begin with (`storage.aws_region`)."""

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "root": "directory or object-store URI of the tables, which are read directly",
        "uri": "server to read through instead: grpc://host:port or grpc+tls://host:port",
        "table": "table to read: name or schema.name, quoted if a part contains a dot",
        "query": "with uri: SQL query to read instead of a table",
        "snapshot": "read the table at this version",
        "tag": "read the table at this tag",
        "time": "read the table as of this time (ISO 8601; UTC unless an offset is given)",
        "filter": "read only rows that satisfy this SQL condition over the table's columns",
        "columns": "read only these columns: names separated by commas, quoted if they contain one",
        "partitions": "maximum number of input partitions (default: one per million rows)",
        "username": "with uri: user to log in as",
        "password": "with uri: password of the user",
        "token": "with uri: bearer token, instead of username and password",
        "tls_roots": "with grpc+tls: PEM file of the certificates to trust",
    }
)
"""Every option, and what it means; beside them there are storage options."""

_SERVER = ("query", "username", "password", "token", "tls_roots")
_OF_TABLES = ("snapshot", "tag", "time", "filter", "columns")
_POINTS = ("snapshot", "tag", "time")
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")


class NamedTable(NamedTuple):
    """A table as an option names it; without a schema it is one of `public`."""

    db_schema: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is read, from where, and how; `at` is a version, a tag or a moment (None: the newest version)."""

    root: str | None = None
    uri: str | None = None
    table: NamedTable | None = None
    query: str | None = None
    at: int | str | datetime | None = None
    filter: str | None = None
    columns: tuple[str, ...] | None = None
    partitions: int | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_roots: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read options as Spark gives them; `InvalidInput` names everything that is wrong with them.

        >>> ReadOptions.parse({"root": "/data", "table": "flights", "snapshot": "12"}).at
        12
        """
        given = {name.lower(): value for name, value in options.items()}
        storage = {name.removeprefix(STORAGE): text for name, text in given.items() if name.startswith(STORAGE)}
        plain = {name: text for name, text in given.items() if not name.startswith(STORAGE)}
        reading = OptionReading(plain)
        parsed = cls(
            root=plain.get("root"),
            uri=plain.get("uri"),
            table=reading.table("table"),
            query=plain.get("query"),
            at=reading.point(),
            filter=plain.get("filter"),
            columns=reading.columns("columns"),
            partitions=reading.number("partitions", least=1),
            username=plain.get("username"),
            password=plain.get("password"),
            token=plain.get("token"),
            tls_roots=plain.get("tls_roots"),
            storage=storage,
        )
        problems = [*unknown(plain, MEANINGS), *reading.problems, *_combined(plain, storage)]
        if problems:
            raise InvalidInput("options of lance_flight: " + "; ".join(problems))
        return parsed


@dataclass(frozen=True, slots=True)
class OptionReading:
    """Options on their way into values, and what was wrong with them."""

    given: Mapping[str, str]
    problems: list[str] = field(default_factory=list)

    def number(self, name: str, *, least: int) -> int | None:
        text = self.given.get(name)
        if text is None:
            return None
        if text.isdecimal() and int(text) >= least:
            return int(text)
        self._wrong(name, text, f"a number from {least} on")
        return None

    def switch(self, name: str) -> bool:
        text = self.given.get(name, "false").lower()
        if text not in {"true", "false"}:
            self._wrong(name, text, "true or false")
        return text == "true"

    def point(self) -> int | str | datetime | None:
        version = self.number("snapshot", least=1)
        if version is not None:
            return version
        moment = self.given.get("time")
        if moment is None:
            return self.given.get("tag")
        try:
            found = datetime.fromisoformat(moment)
        except ValueError:
            self._wrong("time", moment, "a moment in ISO 8601")
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def table(self, name: str) -> NamedTable | None:
        text = self.given.get(name)
        if text is None:
            return None
        parts = _names(text, ".")
        if not parts:
            self._wrong(name, text, 'name or schema.name, with parts in "…" where they hold a dot')
            return None
        return NamedTable(".".join(parts[:-1]) or "public", parts[-1])

    def columns(self, name: str) -> tuple[str, ...] | None:
        text = self.given.get(name)
        if text is None:
            return None
        names = _names(text, ",")
        if not names:
            self._wrong(name, text, 'names separated by commas, in "…" where they hold one')
        repeated = sorted({column for column in names if names.count(column) > 1})
        self.problems.extend(f"{name!r} names {column!r} twice" for column in repeated)
        return tuple(names)

    def _wrong(self, name: str, text: str, expected: str) -> None:
        self.problems.append(f"{name!r} is {text!r}; expected {expected}")


def _names(text: str, sign: str) -> list[str]:
    """Names separated by a sign, as they are or in quotes; none where they are anything else.

    >>> _names('id, "Two, Words"', ",")
    ['id', 'Two, Words']
    """
    part = re.compile(
        rf'\s*(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^"{sign}]*[^"{sign}\s]))\s*(?:{re.escape(sign)}|$)'
    )
    names, at = [], 0
    while at < len(text):
        found = part.match(text, at)
        if found is None:
            return []
        names.append(found["plain"] or found["quoted"].replace('""', '"'))
        at = found.end()
    return [] if text.endswith(sign) else names


def unknown(given: Mapping[str, str], meanings: Mapping[str, str]) -> Iterator[str]:
    """Return what is wrong with options that are none of those with meanings."""
    for name in given.keys() - meanings.keys():
        near = difflib.get_close_matches(name, [*meanings, STORAGE], n=1)
        yield f"no option {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"expected {', '.join(meanings)}")


def _combined(given: Mapping[str, str], storage: Mapping[str, str]) -> Iterator[str]:
    """Return what is wrong with options together."""
    if ("root" in given) == ("uri" in given):
        yield "expected one of 'root' (read directly) and 'uri' (read through a server)"
    if ("table" in given) == ("query" in given) and ("root" not in given or "query" not in given):
        yield "expected 'table'" + " or 'query'" * ("uri" in given) + ", and not both" * ("query" in given)
    if "root" in given:
        yield from (f"{name!r} goes with 'uri', not with 'root'" for name in _SERVER if name in given)
    elif storage:
        yield f"{STORAGE + min(storage)!r} goes with 'root': a server knows its own storage"
    if "query" in given:
        yield from (f"{name!r} goes with 'table'; say it in the query" for name in _OF_TABLES if name in given)
    points = [name for name in _POINTS if name in given]
    if len(points) > 1:
        yield f"expected one of {', '.join(points)}, not several"
    if "token" in given and ("username" in given or "password" in given):
        yield "expected 'token', or 'username' and 'password', not both"
    elif ("username" in given) != ("password" in given):
        yield "expected 'username' and 'password' together"
    yield from _place(given.get("uri"))


def _place(uri: str | None) -> Iterator[str]:
    if uri is None:
        return
    parts = urlsplit(uri)
    if "@" in parts.netloc:
        yield "'uri' holds a user; expected the options 'username' and 'password', which are not logged"
    elif parts.scheme not in _SCHEMES or not parts.hostname:
        yield f"'uri' is {uri!r}; expected grpc://host:port or grpc+tls://host:port"
