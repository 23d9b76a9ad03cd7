"""Options of tables that a catalog names: `SELECT … FROM t WITH (…)`, `read.option(…).table(t)`, `INSERT INTO t WITH (…)`, `writeTo(t).option(…)`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from lance_flight.errors import InvalidInput

from lance_flight_client.spark.options import OF_SPARK, READ_MEANINGS, OptionReading, SortKey, meanings, option

READ, WRITE = "read of a table", "write to a table"
STREAMED = (*READ_MEANINGS, "filter")
"""Options of `readStream` beside those that a read has as well."""

_OF_SPARK = frozenset({*OF_SPARK, "versionasof", "timestampasof"})
_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(READ_MEANINGS, "readStream"),
        **dict.fromkeys(
            (
                "readchangefeed",
                "readchangedata",
                "startingversion",
                "endingversion",
                "start-snapshot-id",
                "end-snapshot-id",
            ),
            "spark.table('t.changes_5_9'), readStream.table('t.changes') with 'starting', or table_changes('t', 6, 9)",
        ),
        "filter": "WHERE",
        "columns": "the columns in SELECT",
        "overwrite": "INSERT OVERWRITE, .overwrite(…) or .overwritePartitions()",
        "partition_by": "PARTITIONED BY in CREATE TABLE",
        "file_version": "TBLPROPERTIES in CREATE TABLE, or .tableProperty(…)",
        "stable_row_ids": "TBLPROPERTIES in CREATE TABLE, or .tableProperty(…)",
    }
)
"""What says the same as an option of other ways to read and write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReadOptions:
    """Options of a read of a table."""

    snapshot: int | None = option("read the table at this version", OptionReading.number)
    tag: str | None = option("read the table at this tag")
    branch: str | None = option("read this branch of the table")
    time: datetime | None = option(  # noqa: RUF009 - a field
        "read the table as of this time (ISO 8601; UTC without an offset)", OptionReading.moment
    )
    partitions: int | None = option("maximum number of tasks (default: one per million rows)", OptionReading.number)

    @property
    def points(self) -> dict[str, Any]:
        """The options that say which rows of its history are read."""
        given = {"snapshot": self.snapshot, "tag": self.tag, "branch": self.branch, "time": self.time}
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> TableReadOptions:
        """Read options as Spark gives them; `InvalidInput` names what is wrong with them.

        >>> TableReadOptions.parse({"Snapshot": "12"}).points
        {'snapshot': 12}
        """
        table_read_options: TableReadOptions = _parse(cls, options, READ)
        if len(table_read_options.points) > 1:
            raise InvalidInput(f"{READ}: expected one of {', '.join(table_read_options.points)}, not several")
        return table_read_options


DISTRIBUTED = ("distribution", "target_file_size", "sort_by")
"""Options of a write that a new table takes as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWriteOptions:
    """Options of a write to a table."""

    commit_id: str | None = option("a name for this write: it is committed once, however often it runs")
    branch: str | None = option("write to this branch of the table")
    snapshot: int | None = option(
        "the version that the rows were computed from; replaced rows must not have changed since",
        OptionReading.number,
    )
    report: str | None = option("a file on the driver, made after the commit: JSON with version, rows and partitions")
    distribution: str | None = option(
        "how rows come to tasks: hash brings those of a partition together (the default), range also orders them, none leaves them",
        OptionReading.distribution,
    )
    target_file_size: int | None = option(
        "with adaptive execution: bytes of shuffled rows from which a task, and so a file, is divided",
        OptionReading.number,
    )
    sort_by: tuple[SortKey, ...] | None = option(
        "columns, separated by commas and each with DESC or not, that the rows of each file are sorted by",
        OptionReading.sort_keys,
    )

    @property
    def points(self) -> list[str]:
        """The names of the options that a read has as well, and that say which rows of a table's history it is about."""
        return [name for name in ("branch", "snapshot") if getattr(self, name) is not None]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> TableWriteOptions:
        """Read options as Spark gives them; `InvalidInput` names what is wrong with them.

        What `mergeSchema` asks for was planned before there was anything to write.
        """
        given = {name: value for name, value in options.items() if name.lower() != "mergeschema"}
        table_write_options: TableWriteOptions = _parse(cls, given, WRITE)
        return table_write_options


def known_options(options: Mapping[str, str], expected: Iterable[str], way: str) -> dict[str, str]:
    """Return options by their names in lower case, without Spark's own; `InvalidInput` names one that is not expected."""
    given = {name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK}
    check_options(given, list(expected), way)
    return given


def check_read_names(options: Iterable[str]) -> None:
    """Refuse options that neither a read has nor a stream that reads."""
    names = {name.lower() for name in options}.difference(STREAMED, _OF_SPARK)
    check_options(names, list(meanings(TableReadOptions)), READ)


def check_options(given: Collection[str], expected: Collection[str], way: str) -> None:
    """Refuse options of a way to read or write that has only the expected ones."""
    unknown = sorted(set(given) - set(expected))
    if unknown:
        (name, *_) = unknown
        rest = [_INSTEAD[name]] if name in _INSTEAD else list(expected)
        raise InvalidInput(f"{way}: option {name!r}; expected {', '.join(rest) or 'none'}")


def _parse(kind: type[Any], options: Mapping[str, str], way: str) -> Any:
    reading = OptionReading(known_options(options, meanings(kind), way))
    found = kind(**reading.values(kind))
    if reading.problems:
        raise InvalidInput(f"{way}: {'; '.join(reading.problems)}")
    return found
