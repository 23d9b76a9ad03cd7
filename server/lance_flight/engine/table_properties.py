"""How a table is made: what CREATE TABLE says of it beside its columns, and an ingest by options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from lance_flight.engine.partition_fields import PartitionDef, parse_partition_by
from lance_flight.errors import InvalidInput

PARTITION_BY, STABLE_ROW_IDS = "partition_by", "stable_row_ids"
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """The partition fields of a new table (none: it is a plain one), and whether its rows keep their ids."""

    partitioned_by: tuple[PartitionDef, ...] = ()
    stable_row_ids: bool = False

    @classmethod
    def by(cls, fields: str | None) -> Self:
        """A table by what an ingest option says of its fields, as in PARTITIONED BY (…); a plain one without."""
        return cls(partitioned_by=parse_partition_by(fields) if fields else ())

    @classmethod
    def of_ingest(cls, options: Mapping[str, str]) -> Self:
        """Those that the options of an ingest name; `InvalidInput` for others.

        >>> TableProperties.of_ingest({"partition_by": "year(ts)", "stable_row_ids": "true"}).stable_row_ids
        True
        """
        rest = {name: value for name, value in options.items() if name != PARTITION_BY}
        is_stable = stable_row_ids(rest, f"{PARTITION_BY} or {STABLE_ROW_IDS}")
        return replace(cls.by(options.get(PARTITION_BY)), stable_row_ids=is_stable)


PLAIN = TableProperties()


def stable_row_ids(options: Mapping[str, object], known: str = STABLE_ROW_IDS) -> bool:
    """The only option of WITH, and of an ingest the only one beside the partition fields; `InvalidInput` for others."""
    for name, value in options.items():
        if name != STABLE_ROW_IDS:
            raise InvalidInput(f"option {name!r} of a new table is not known; expected {known}")
        if str(value).lower() not in _SWITCH:
            raise InvalidInput(f"{STABLE_ROW_IDS} is {value!r}; expected true or false")
    return _SWITCH[str(options.get(STABLE_ROW_IDS, False)).lower()]
