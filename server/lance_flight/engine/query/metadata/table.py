"""Definition of a metadata table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """Table that is built when it is read; only the columns that are selected have to be correct."""

    schema: pa.Schema
    build: Callable[[list[str]], pa.Table]
