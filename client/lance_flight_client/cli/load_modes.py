"""Modes of a load: what becomes of a table that is there. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class LoadMode:
    """Meaning of a mode: the name of what an existing table is to an ingest (`IfExists`), ADBC's name of that, and the rows that are overwritten."""

    existing: str
    adbc: str
    overwrite: str | None = None


MODES: Mapping[str, LoadMode] = MappingProxyType(
    {
        "create": LoadMode("FAIL", "create"),
        "append": LoadMode("APPEND", "create_append"),
        "overwrite": LoadMode("APPEND", "create_append", "partitions"),
        "overwrite-table": LoadMode("APPEND", "create_append", "table"),
        "replace": LoadMode("REPLACE", "replace"),
    }
)
