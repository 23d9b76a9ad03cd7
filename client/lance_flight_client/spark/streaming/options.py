"""The options of streams, beside those that reads and writes have anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.errors import InvalidInput

from lance_flight_client.spark.options import OptionReading, meanings
from lance_flight_client.spark.writing.options import TABLE, WriteOptions

READ_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "starting": "with which rows: all of the table as it is and then what is added (as without: table), the same from the"
        " oldest snapshot on (earliest), only what is added from now on (latest), or after a snapshot, by its number",
        "versions_per_trigger": "how many snapshots a batch may span, at most (as without: 1000)",
        "changes": "what becomes of snapshots that remove or change rows: fail (as without), or new_rows to go on with the"
        " rows that they bring",
    }
)
"""Options of `readStream` beside those of a direct read."""

TABLE_FIRST, EARLIEST, LATEST = _WORDS = ("table", "earliest", "latest")
FAIL, NEW_ROWS = "fail", "new_rows"
VERSIONS_PER_TRIGGER = 1000
"""All of them are compared one after another, and kept from vacuum, before the first task of a batch runs."""
_NOT_STREAMED = ("uri", "query", "snapshot", "tag", "time")

_OF_TABLE = ("root", "table", "partition_by", "stable_row_ids", "file_version")
WRITE_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "stream": "a name for this stream, which its table knows it by: each of its batches is committed once",
        **{name: meanings(WriteOptions)[name] for name in _OF_TABLE},
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
