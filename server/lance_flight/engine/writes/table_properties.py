"""Properties of a new table beside its columns, from CREATE TABLE or from the options of an ingest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from lance_flight.engine.writes.partition_fields import PartitionDef, parse_partition_by
from lance_flight.errors import InvalidInput
from lance_flight.model.file_versions import check_version

PARTITION_BY, STABLE_ROW_IDS, FILE_VERSION = "partition_by", "stable_row_ids", "file_version"
OPTIONS = (STABLE_ROW_IDS, FILE_VERSION)
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """Properties of a new table: its partition fields (none: a plain table), and whether its rows keep their ids.

    `file_version` is that of Lance's file format which its data files have (None: the newest).
    """

    partitioned_by: tuple[PartitionDef, ...] = ()
    stable_row_ids: bool = False
    file_version: str | None = None

    @classmethod
    def by(cls, fields: str | None) -> Self:
        """Build the properties of a table partitioned by a list of fields as in PARTITIONED BY (…); of a plain one without."""
        return cls(partitioned_by=parse_partition_by(fields) if fields else ())

    def having(self, options: Mapping[str, object], known: Sequence[str] = OPTIONS) -> Self:
        """Return the properties with the options of WITH; raise `InvalidInput` for an unknown one, listing the `known` ones."""
        for name in options:
            if name not in OPTIONS:
                expected = f"{', '.join(known[:-1])} or {known[-1]}"
                raise InvalidInput(f"option {name!r} of a new table is not known; expected {expected}")
        is_stable, version = options.get(STABLE_ROW_IDS, False), options.get(FILE_VERSION)
        if str(is_stable).lower() not in _SWITCH:
            raise InvalidInput(f"{STABLE_ROW_IDS} is {is_stable!r}; expected true or false")
        return replace(
            self,
            stable_row_ids=_SWITCH[str(is_stable).lower()],
            file_version=None if version is None else check_version(str(version), FILE_VERSION),
        )


PLAIN = TableProperties()
