"""The options of streams, beside those that reads and writes have anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lance_flight.errors import InvalidInput

from lance_flight_client.spark import write_options
from lance_flight_client.spark.write_options import TABLE, WriteOptions

WRITE_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "stream": "a name for this stream, which its table knows it by: each of its batches is committed once",
        **{name: write_options.MEANINGS[name] for name in ("root", "table", "partition_by")},
    }
)
"""Every option of `writeStream`, and what it means; beside them there are storage options."""

_OF_SPARK = ("checkpointlocation", "queryname")
"""What Spark hands over of its own options."""


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """What each batch of a stream is written to, and how; `stream` is the name that the table knows it by."""

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
        given = {name.lower(): text for name, text in options.items() if name.lower() not in _OF_SPARK}
        stream = given.pop("stream", None)
        if stream is None:
            raise InvalidInput(f"options of lance_flight: expected 'stream': {WRITE_MEANINGS['stream']}")
        refused = sorted(given.keys() & (write_options.MEANINGS.keys() - WRITE_MEANINGS.keys()))
        if refused:
            raise InvalidInput(f"options of lance_flight: {refused[0]!r} goes with .write, not with .writeStream")
        written = {**given, "overwrite": TABLE} if complete else given
        return cls(WriteOptions.parse(written, overwrite=complete), stream)
