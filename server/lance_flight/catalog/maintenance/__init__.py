"""Keeping a namespace in shape while it is read and written: compaction, vacuum, repair.

Nothing here is needed to read or write, and nothing here changes an answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa


class OperationReport(ABC):
    """Report of an operation on one table."""

    __slots__ = ()

    @property
    @abstractmethod
    def as_table(self) -> pa.Table:
        """Return the report as SQL does."""

    @property
    def lines(self) -> Sequence[str]:
        """Return the report as a command prints it; a line that is indented belongs to the one before."""
        return [str(self)]

    @property
    def is_sound(self) -> bool:
        """Return whether the table is in order."""
        return True

    @property
    def without_counts(self) -> pa.Table:
        """Return the rows for a principal without SELECT on the whole table: counts by partition tell which rows lie together."""
        return self.as_table
