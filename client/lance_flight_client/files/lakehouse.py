"""Snapshots of tables in other lakehouse formats, as rows to load: `iceberg:PATH`, `delta:PATH`, each with an optional `@VERSION`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
from lance_flight.errors import DataError, InvalidInput, NotFound
from pyarrow import fs

_ARGUMENT = re.compile(r"(?P<format>[a-z]+):(?!//)(?P<path>[^@]+|.+?)(?:@(?P<version>\d+))?")
_METADATA = re.compile(r"v?(\d+)(-.*)?\.(?:gz\.)?metadata\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakehouseTable:
    """A table of another format: its address, and the version that is read (None: the newest)."""

    argument: str
    format: str
    path: str
    version: int | None = None

    @classmethod
    def named(cls, argument: str) -> LakehouseTable | None:
        """Return the table that an argument names; None for the name of a file.

        >>> LakehouseTable.named("delta:lake/t@7")
        LakehouseTable(argument='delta:lake/t@7', format='delta', path='lake/t', version=7)
        >>> LakehouseTable.named("s3://bucket/iceberg:old") is None
        True
        """
        match = _ARGUMENT.fullmatch(argument)
        if match is None or match["format"] not in OPENERS:
            return None
        version = None if match["version"] is None else int(match["version"])
        return cls(argument=argument, format=match["format"], path=match["path"], version=version)

    def open(self) -> pa.RecordBatchReader:
        """Open a stream of the rows; `NotFound` without such a table or version, `InvalidInput` without the library."""
        try:
            return OPENERS[self.format](self)
        except ModuleNotFoundError as exc:
            raise InvalidInput(
                f"{self.argument!r} needs the package {exc.name}; install 'lance-flight[{self.format}]'"
            ) from exc


Opener: TypeAlias = Callable[[LakehouseTable], pa.RecordBatchReader]


def _iceberg(table: LakehouseTable) -> pa.RecordBatchReader:
    from pyiceberg.exceptions import ValidationError  # noqa: PLC0415 - an extra
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    with _naming_table(table, OSError, ValueError, ValidationError):
        opened = StaticTable.from_metadata(_metadata_file(table))
        if table.version is not None and opened.snapshot_by_id(table.version) is None:
            known = ", ".join(str(snapshot.snapshot_id) for snapshot in opened.snapshots()[-5:])
            raise NotFound(f"{table.argument!r}: no snapshot {table.version}; the newest are {known}")
        return opened.scan(snapshot_id=table.version).to_arrow_batch_reader()


def _metadata_file(table: LakehouseTable) -> str:
    """Return the newest metadata file of a table's directory, or the file itself that was named."""
    if table.path.endswith(".metadata.json"):
        return table.path
    address = table.path if "://" in table.path else str(Path(table.path).expanduser().absolute())
    filesystem, path = fs.FileSystem.from_uri(address)
    infos = filesystem.get_file_info(fs.FileSelector(f"{path}/metadata", allow_not_found=True))
    matches = [(match, info) for info in infos if (match := _METADATA.fullmatch(info.base_name))]
    if not matches:
        raise NotFound(f"{table.argument!r} has no Iceberg table; expected a directory with metadata/*.metadata.json")
    newest = max(int(match[1]) for match, _ in matches)
    files = [info.base_name for match, info in matches if int(match[1]) == newest]
    if len(files) > 1:
        # A catalog knows which of the writers won; the directory does not.
        raise InvalidInput(f"{table.argument!r} has {len(files)} newest versions; name one: {', '.join(sorted(files))}")
    return f"{address}/metadata/{files[0]}"


def _delta(table: LakehouseTable) -> pa.RecordBatchReader:
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra
    from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415

    with _naming_table(table, OSError, DeltaError, TableNotFoundError):
        return pa.RecordBatchReader.from_stream(DeltaTable(table.path, version=table.version).scan())


OPENERS: Mapping[str, Opener] = MappingProxyType({"iceberg": _iceberg, "delta": _delta})
"""Formats by their names, which are those of extras, too."""


@contextmanager
def _naming_table(table: LakehouseTable, *missing: type[Exception]) -> Any:
    """Name the table in an error of its library."""
    try:
        yield
    except pa.ArrowException as exc:
        raise DataError(f"{table.argument!r}: {exc}") from exc
    except missing as exc:
        raise NotFound(f"{table.argument!r} cannot be read: {exc}") from exc
