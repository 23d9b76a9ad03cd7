"""What a driver is and is asked. It runs in the environment of its peer: Python and pyarrow are all that is always there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TABLE = "lineitem"
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalForm:
    """A query of the line items, in the parts that a peer may need one by one; of no table where it reads no columns.

    `months` says `where` again about the columns `y` and `m`, for peers without transforms, whose users keep and name those.
    """

    select: str
    columns: tuple[str, ...] = ()
    where: str = ""
    months: str = ""
    group: str = ""
    is_whole: bool = False

    def sql(self, table: str = TABLE, *, by_months: bool = False) -> str:
        """Return the text of the query."""
        where = " AND ".join(filter(None, [self.where, self.months if by_months else ""]))
        clauses = {"FROM": self.columns and table, "WHERE": where, "GROUP BY": self.group}
        return " ".join([f"SELECT {self.select}", *(f"{word} {what}" for word, what in clauses.items() if what)])


Client = Callable[[NormalForm], Iterable[pa.RecordBatch]]


class Unsupported(Exception):
    """The peer has no such operation."""


class Driver:
    """A table of line items in a peer; an operation that is not overridden is one that the peer lacks.

    `place` is an empty directory, `environment` the virtual environment of the peer. What a driver starts as it is made is no part of loading;
    `stack` ends it.
    """

    def __init__(self, place: Path, environment: Path) -> None:
        self.place = place
        self.environment = environment
        self.stack = ExitStack()

    def load(self, rows: Path) -> None:
        """Store the rows of a Parquet file."""
        raise Unsupported

    def append(self, rows: pa.Table) -> None:
        """Add rows in one commit."""
        raise Unsupported

    def connect(self) -> Client:
        """Open a client for one thread."""
        raise Unsupported


def read_batches(rows: Path) -> pa.RecordBatchReader:
    """Read a Parquet file as a stream."""
    file = pq.ParquetFile(rows)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(BATCH_ROWS))
