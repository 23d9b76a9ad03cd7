"""Formats of files by the ends of their names. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PIPE = "-"
"""Name of a pipe in place of a file's."""
ENDINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "parquet": (".parquet", ".pq"),
        "csv": (".csv", ".tsv"),
        "json": (".jsonl", ".ndjson", ".json"),
        "arrow": (".arrow", ".feather", ".ipc"),
        "orc": (".orc",),
        "excel": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    }
)
WRITTEN = ("arrow", "csv", "json", "parquet")
"""Formats that are written, too."""
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".zip")


def format_of(path: str) -> str | None:
    """Return the format that the end of a name says; None for another end.

    >>> format_of("day=1/flights.csv.gz"), format_of("_SUCCESS")
    ('csv', None)
    """
    name = path.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return next((format for format, endings in ENDINGS.items() if name.endswith(endings)), None)
