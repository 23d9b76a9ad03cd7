"""The rows and columns of a table that are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows and columns that are read (None: all): a condition in SQL or of pyarrow, and names."""

    filter: str | pc.Expression | None = None
    columns: Sequence[str] | None = None
