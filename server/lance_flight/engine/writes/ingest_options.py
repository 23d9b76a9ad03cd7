"""Options of an ingest: the table that it may make, the rows that its rows replace, and the id under which it is committed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.commits.commit_tokens import checked_id
from lance_flight.engine.writes.table_properties import OPTIONS, PARTITION_BY, PLAIN, TableProperties
from lance_flight.errors import InvalidInput

OVERWRITE, COMMIT_ID = "overwrite", "commit_id"
_OVERWRITES: Mapping[str, Replaces] = MappingProxyType(
    {"nothing": Replaces.NOTHING, "partitions": Replaces.PARTITIONS, "table": Replaces.TABLE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Options of one ingest; `overwrites` are the rows of an existing table that make room for them."""

    properties: TableProperties = PLAIN
    overwrites: Replaces = Replaces.NOTHING
    commit_id: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read the options of a client; `InvalidInput` for an unknown one, or a value that one cannot have.

        >>> IngestOptions.of({"partition_by": "year(ts)", "overwrite": "table"}).overwrites
        <Replaces.TABLE: 'table'>
        """
        rest = dict(options)
        fields, overwrite, commit_id = (rest.pop(name, None) for name in (PARTITION_BY, OVERWRITE, COMMIT_ID))
        if overwrite is not None and overwrite not in _OVERWRITES:
            raise InvalidInput(f"{OVERWRITE} is {overwrite!r}; expected {', '.join(_OVERWRITES)}")
        return cls(
            properties=TableProperties.by(fields).having(rest, known=(PARTITION_BY, *OPTIONS, OVERWRITE, COMMIT_ID)),
            overwrites=_OVERWRITES[overwrite or "nothing"],
            commit_id=None if commit_id is None else checked_id(commit_id),
        )


APPENDED = IngestOptions()
