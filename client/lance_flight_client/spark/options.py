"""Options of `lance_flight` in Spark: of reads, writes and streams, each set as one value, every problem named at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.model.file_versions import FILE_VERSIONS

STORAGE = "storage."
"""Prefix of the names of storage options (`storage.aws_region`)."""

_OF_TABLE = "option."
_POINTS = ("snapshot", "tag", "time")
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")


class NamedTable(NamedTuple):
    """A table as an option names it; without a schema it is one of `public`."""

    db_schema: str
    name: str


class SortKey(NamedTuple):
    """A column that rows are sorted by; as in Spark, NULL is the least value unless it is said."""

    column: str
    is_descending: bool = False
    nulls_first: bool = True


DISTRIBUTIONS = ("hash", "range", "none")
"""How the rows of a write come to its tasks."""


@dataclass(frozen=True, slots=True)
class OptionReading:
    """Options on their way into values, and what was wrong with them."""

    given: Mapping[str, str]
    problems: list[str] = field(default_factory=list)

    def values(self, kind: type[Any]) -> dict[str, Any]:
        """The value of each option that a class declares."""
        return {field.name: field.metadata["read"](self, field.name) for field in fields(kind) if field.metadata}

    def text(self, name: str) -> str | None:
        return self.given.get(name)

    def number(self, name: str) -> int | None:
        text = self.given.get(name)
        if text is None:
            return None
        if text.isdecimal() and int(text) >= 1:
            return int(text)
        self._wrong(name, text, "a number from 1 on")
        return None

    def switch(self, name: str) -> bool:
        text = self.given.get(name, "false").lower()
        if text not in {"true", "false"}:
            self._wrong(name, text, "true or false")
        return text == "true"

    def file_version(self, name: str) -> str | None:
        text = self.given.get(name)
        if text is not None and text not in FILE_VERSIONS:
            self._wrong(name, text, ", ".join(FILE_VERSIONS))
        return text

    def distribution(self, name: str) -> str | None:
        text = self.given.get(name)
        if text is not None and text.lower() not in DISTRIBUTIONS:
            self._wrong(name, text, ", ".join(DISTRIBUTIONS))
        return None if text is None else text.lower()

    def moment(self, name: str) -> datetime | None:
        text = self.given.get(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            self._wrong(name, text, "a moment in ISO 8601")
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

    def sort_keys(self, name: str) -> tuple[SortKey, ...] | None:
        text = self.given.get(name)
        if text is None:
            return None
        keys = _sort_keys(text)
        if not keys:
            self._wrong(
                name,
                text,
                'columns with ASC or DESC, NULLS FIRST or LAST, separated by commas, in "…" where they hold one',
            )
        names = [key.column for key in keys]
        repeated = sorted({column for column in names if names.count(column) > 1})
        self.problems.extend(f"{name!r} names {column!r} twice" for column in repeated)
        return tuple(keys)

    def _wrong(self, name: str, text: str, expected: str) -> None:
        self.problems.append(f"{name!r} is {text!r}; expected {expected}")


def option(
    meaning: str,
    read: Callable[[OptionReading, str], Any] = OptionReading.text,
    *,
    goes_with: str = "",
    is_secret: bool = False,
) -> Any:
    """Declares an option of Spark's: what it means, how its text is read, and which other option it goes with alone."""
    metadata = {"meaning": meaning, "read": read, "goes_with": goes_with}
    return field(default=None, repr=not is_secret, metadata=metadata)


def meanings(kind: type[Any]) -> Mapping[str, str]:
    """Every option that a class declares, and what it means; beside them there are storage options."""
    return MappingProxyType({field.name: field.metadata["meaning"] for field in fields(kind) if field.metadata})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read, each declared once: what is read, from where, and how."""

    root: str | None = option("directory or object-store URI of the tables, read directly")
    uri: str | None = option("server to read through instead: grpc://host:port or grpc+tls://host:port")
    table: NamedTable | None = option(  # noqa: RUF009 - a field
        "name or schema.name, quoted if a part contains a dot", OptionReading.table
    )
    query: str | None = option("with uri: an SQL query to read instead of a table", goes_with="uri")
    snapshot: int | None = option("read the table at this version", OptionReading.number, goes_with="table")
    tag: str | None = option("read the table at this tag", goes_with="table")
    time: datetime | None = option(  # noqa: RUF009 - a field
        "read the table as of this time (ISO 8601; UTC without an offset)",
        OptionReading.moment,
        goes_with="table",
    )
    filter: str | None = option("read only rows that satisfy this SQL condition", goes_with="table")
    columns: tuple[str, ...] | None = option(
        "read only these columns, separated by commas, quoted if they contain one",
        OptionReading.columns,
        goes_with="table",
    )
    partitions: int | None = option(
        "maximum number of input partitions (default: one per million rows)", OptionReading.number
    )
    username: str | None = option("with uri: user to log in as", goes_with="uri")
    password: str | None = option("with uri: password of the user", goes_with="uri", is_secret=True)
    token: str | None = option("with uri: a bearer token instead", goes_with="uri", is_secret=True)
    tls_roots: str | None = option("with grpc+tls: PEM file of the certificates to trust", goes_with="uri")
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def at(self) -> int | str | datetime | None:
        """The version, tag or moment that is read; None: the newest version."""
        return next((point for point in (self.snapshot, self.tag, self.time) if point is not None), None)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read options as Spark gives them; `InvalidInput` names everything that is wrong with them.

        >>> ReadOptions.parse({"root": "/data", "table": "flights", "snapshot": "12"}).at
        12
        """
        plain, storage = split_options(options)
        reading = OptionReading(plain)
        parsed = cls(**reading.values(cls), storage=storage)
        problems = [*unknown(plain, meanings(cls)), *reading.problems, *_find_read_problems(plain, storage)]
        if problems:
            raise InvalidInput("options of lance_flight: " + "; ".join(problems))
        return parsed


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options by their names in lower case, and apart from them those of the storage without their prefix.

    `Unsupported` for a table of Spark's own catalog: CREATE TABLE gives its options once more, as `option.name`, and reads give none.
    """
    given = {name.lower(): text for name, text in options.items()}
    if not given or any(name.startswith(_OF_TABLE) for name in given):
        raise Unsupported(
            "CREATE TABLE … USING lance_flight makes a table of Spark's own catalog, and Spark keeps its options from whoever reads it;"
            " write CREATE TEMPORARY VIEW … USING lance_flight OPTIONS (…), or name the table of a catalog of lance_flight's"
        )
    storage = {name.removeprefix(STORAGE): text for name, text in given.items() if name.startswith(STORAGE)}
    return {name: text for name, text in given.items() if not name.startswith(STORAGE)}, storage


def _going_with(name: str) -> list[str]:
    return [field.name for field in fields(ReadOptions) if field.metadata.get("goes_with") == name]


def _names(text: str, sign: str) -> list[str]:
    """Split names separated by a sign, as they are or in quotes; none where they are anything else.

    >>> _names('id, "Two, Words"', ",")
    ['id', 'Two, Words']
    """
    part = re.compile(
        rf'\s*(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^"{sign}]*[^"{sign}\s]))\s*(?:{re.escape(sign)}|$)'
    )
    names, at = [], 0
    while at < len(text):
        match = part.match(text, at)
        if match is None:
            return []
        names.append(match["plain"] or match["quoted"].replace('""', '"'))
        at = match.end()
    return [] if text.endswith(sign) else names


def _sort_keys(text: str) -> list[SortKey]:
    """Read columns with their directions; none where they are anything else.

    >>> _sort_keys('a, "b, c" DESC') == [SortKey("a"), SortKey("b, c", is_descending=True, nulls_first=False)]
    True
    >>> _sort_keys("a b nulls last")
    [SortKey(column='a b', is_descending=False, nulls_first=False)]
    """
    part = re.compile(
        r'\s*(?:"(?P<quoted>(?:[^"]|"")+)"|`(?P<ticked>(?:[^`]|``)+)`|(?P<plain>[^",`()]*?[^",`()\s]))'
        r"(?:\s+(?P<direction>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*(?:,|$)",
        re.IGNORECASE,
    )
    keys, at = [], 0
    while at < len(text):
        match = part.match(text, at)
        if match is None:
            return []
        column = match["plain"] or (match["ticked"] or "").replace("``", "`") or match["quoted"].replace('""', '"')
        is_descending = (match["direction"] or "").upper() == "DESC"
        nulls = match["nulls"]
        keys.append(SortKey(column, is_descending, not is_descending if nulls is None else nulls.upper() == "FIRST"))
        at = match.end()
    return [] if text.rstrip().endswith(",") else keys


def unknown(given: Mapping[str, str], known: Mapping[str, str]) -> Iterator[str]:
    """Return what is wrong with options that are none of those with meanings."""
    for name in given.keys() - known.keys():
        near = difflib.get_close_matches(name, [*known, STORAGE], n=1)
        yield f"no option {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"expected {', '.join(known)}")


def _find_read_problems(given: Mapping[str, str], storage: Mapping[str, str]) -> Iterator[str]:
    """Return what is wrong with options together."""
    if ("root" in given) == ("uri" in given):
        yield "expected one of 'root' (read directly) and 'uri' (read through a server)"
    if ("table" in given) == ("query" in given) and ("root" not in given or "query" not in given):
        yield "expected 'table'" + " or 'query'" * ("uri" in given) + ", and not both" * ("query" in given)
    if "root" in given:
        yield from (f"{name!r} goes with 'uri', not with 'root'" for name in _going_with("uri") if name in given)
    elif storage:
        yield f"{STORAGE + min(storage)!r} goes with 'root': a server knows its own storage"
    if "query" in given:
        yield from (
            f"{name!r} goes with 'table'; say it in the query" for name in _going_with("table") if name in given
        )
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


PARTITIONS, TABLE = "partitions", "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write, each declared once: the target, and how it is written."""

    root: str = option("directory or object-store URI of the tables; executors write there")
    table: NamedTable = option(  # noqa: RUF009 - a field
        "name or schema.name, quoted if a part contains a dot", OptionReading.table
    )
    partition_by: str | None = option("partition fields of a new table, as in SQL: year(ts), bucket(16, id), country")
    stable_row_ids: bool = option(
        "whether rows of a new table keep their ids: true or false (the default)",
        OptionReading.switch,
    )
    file_version: str | None = option(
        "Lance's file format of a new table: 2.0, 2.1 or 2.2 (the default)",
        OptionReading.file_version,
    )
    overwrite: str | None = option(
        "with mode overwrite: replace the partitions that get rows (the default), or the table"
    )
    commit_id: str | None = option("a name for this write: it is committed once, however often it runs")
    commit_source: str | None = option(
        "with commit_id: a name for what the rows are made from; other rows under the same commit_id are an error"
    )
    snapshot: int | None = option(
        "the version that the rows were computed from; replaced rows must not have changed since",
        OptionReading.number,
    )
    report: str | None = option("a file on the driver, made after the commit: JSON with version, rows and partitions")
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def replaces(self) -> str | None:
        """Return what is replaced: `PARTITIONS`, `TABLE`, or None for rows that are added."""
        return self.overwrite

    @classmethod
    def of(cls, root: str, table: str, storage: Mapping[str, str]) -> WriteOptions:
        """Return a table by what the options call it: `table` as in SQL, `storage` without the prefix."""
        where = {"root": root, "table": table} | {f"{STORAGE}{name}": value for name, value in storage.items()}
        return cls.parse(where, overwrite=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
        """Read options as Spark gives them; `InvalidInput` names everything that is wrong with them.

        >>> WriteOptions.parse({"root": "/data", "table": "flights"}, overwrite=True).replaces
        'partitions'
        """
        plain, storage = split_options(options)
        reading = OptionReading(plain)
        values = reading.values(cls) | {"overwrite": plain.get("overwrite", PARTITIONS) if overwrite else None}
        problems = [
            *unknown(plain, meanings(cls)),
            *reading.problems,
            *_find_write_problems(plain, overwrite=overwrite),
        ]
        if problems:
            raise InvalidInput("options of lance_flight: " + "; ".join(problems))
        return cls(**values, storage=storage)


def _find_write_problems(given: Mapping[str, str], *, overwrite: bool) -> Iterator[str]:
    for name in ("root", "table"):
        if name not in given:
            yield f"expected {name!r}: {meanings(WriteOptions)[name]}"
    replaces = given.get("overwrite")
    if replaces is not None and not overwrite:
        yield "'overwrite' goes with .mode(\"overwrite\"), and the mode is append"
    elif replaces not in {None, PARTITIONS, TABLE}:
        yield f"'overwrite' is {replaces!r}; expected {PARTITIONS} or {TABLE}"


READ_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "starting": "where to begin: table (the default), earliest, latest, or the number of a snapshot",
        "versions_per_trigger": "the most snapshots in a batch (default: 1000)",
        "changes": "snapshots that remove or change rows: fail (the default), or new_rows to read only the rows they bring",
    }
)
"""Options of `readStream` beside those of a direct read."""

TABLE_FIRST, EARLIEST, LATEST = _WORDS = ("table", "earliest", "latest")
FAIL, NEW_ROWS = "fail", "new_rows"
VERSIONS_PER_TRIGGER = 1000
"""All of them are compared one after another, and kept from vacuum, before the first task of a batch runs."""
_NOT_STREAMED = ("uri", "query", "snapshot", "tag", "time")

_TABLE_OPTIONS = ("root", "table", "partition_by", "stable_row_ids", "file_version")
WRITE_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "stream": "a name for this stream, which its table knows it by: each of its batches is committed once",
        **{name: meanings(WriteOptions)[name] for name in _TABLE_OPTIONS},
    }
)
"""Every option of `writeStream`, and what it means; beside them there are storage options."""

OF_SPARK = ("checkpointlocation", "queryname")
"""Spark's own options that it hands over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReadOptions:
    """Options of a stream that reads, in addition to those of a read; `starting` is a word, or a snapshot."""

    starting: str | int = TABLE_FIRST
    versions_per_trigger: int = VERSIONS_PER_TRIGGER
    allows_changes: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamReadOptions:
        """Read what of the options is a stream's; `InvalidInput` names everything that is wrong with it.

        >>> StreamReadOptions.parse({"root": "/data", "table": "flights", "starting": "12"}).starting
        12
        """
        given = {name.lower(): text for name, text in options.items()}
        reading = OptionReading(given)
        starting = given.get("starting", TABLE_FIRST)
        versions = reading.number("versions_per_trigger") or VERSIONS_PER_TRIGGER
        changes = given.get("changes", FAIL)
        problems = [f"{name!r} goes with .read, not with .readStream" for name in _NOT_STREAMED if name in given]
        problems += reading.problems
        if starting not in _WORDS and not starting.isdecimal():
            problems.append(f"'starting' is {starting!r}; expected {', '.join(_WORDS)} or the number of a snapshot")
        if changes not in {FAIL, NEW_ROWS}:
            problems.append(f"'changes' is {changes!r}; expected {FAIL} or {NEW_ROWS}")
        if problems:
            raise InvalidInput("options of lance_flight: " + "; ".join(problems))
        return cls(
            starting=int(starting) if starting.isdecimal() else starting,
            versions_per_trigger=versions,
            allows_changes=changes == NEW_ROWS,
        )


def without_stream(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the read alone: Spark asks for its columns before it says whether it is a stream."""
    return {name: text for name, text in options.items() if name.lower() not in READ_MEANINGS}


def check_no_stream(options: Mapping[str, str]) -> None:
    """Raise `InvalidInput` for options of a stream where there is none."""
    streamed = sorted(name.lower() for name in options if name.lower() in READ_MEANINGS)
    if streamed:
        raise InvalidInput(f"options of lance_flight: {streamed[0]!r} goes with .readStream, not with .read")


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """Options of a stream that writes; `stream` is the name under which the table records its batches."""

    write: WriteOptions
    stream: str

    @classmethod
    def parse(cls, options: Mapping[str, str], *, complete: bool) -> StreamWriteOptions:
        """Read options as Spark gives them; `InvalidInput` names what is wrong with them.

        In the output mode `complete` a batch replaces all rows.

        >>> options = {"root": "/data", "table": "hourly", "stream": "by hour"}
        >>> StreamWriteOptions.parse(options, complete=True).write.replaces
        'table'
        """
        given = {name.lower(): text for name, text in options.items() if name.lower() not in OF_SPARK}
        stream = given.pop("stream", None)
        if stream is None:
            raise InvalidInput(f"options of lance_flight: expected 'stream': {WRITE_MEANINGS['stream']}")
        refused = sorted(given.keys() & (meanings(WriteOptions).keys() - WRITE_MEANINGS.keys()))
        if refused:
            raise InvalidInput(f"options of lance_flight: {refused[0]!r} goes with .write, not with .writeStream")
        written = {**given, "overwrite": TABLE} if complete else given
        return cls(WriteOptions.parse(written, overwrite=complete), stream)
