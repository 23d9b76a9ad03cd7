"""Interfaces of what a dataset reads: a view of a table, and the fragments that it is divided into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol

import pyarrow as pa


class Fragment(Protocol):
    """Part of a dataset; it is pickled, and read in any process that reaches the root or the server."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def rows(self) -> int | None:
        """Most rows that it has: those that are stored, of which the filter may leave fewer (None: not known)."""
        ...

    def count_rows(self) -> int:
        """Return how many rows the filter leaves."""
        ...

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        ...

    def to_table(self) -> pa.Table:
        """Return the rows."""
        ...


class View(Protocol):
    """Source of a dataset: a root, or a server."""

    @property
    def name(self) -> str:
        """The table, with its schema."""
        ...

    @property
    def version(self) -> int:
        """The version that is read."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        ...

    def count_rows(self) -> int:
        """Return how many rows the filter leaves."""
        ...

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and keep their snapshot until the last one."""
        ...

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        """Return the blobs of some rows as files, by their places among the rows."""
        ...

    def fragments(self, rows: int) -> Sequence[Fragment]:
        """Return parts of about so many rows at most, always the same ones in the same order."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
