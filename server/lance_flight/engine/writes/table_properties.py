"""Properties of a new table beside its columns, from CREATE TABLE or from the options of an ingest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from lance_flight.catalog.maintenance.policies import PolicyValue
from lance_flight.engine.writes import maintenance_options
from lance_flight.engine.writes.partition_fields import PartitionDef, parse_partition_by
from lance_flight.errors import InvalidInput
from lance_flight.model.file_versions import check_version

PARTITION_BY, STABLE_ROW_IDS, FILE_VERSION = "partition_by", "stable_row_ids", "file_version"
OPTIONS = (STABLE_ROW_IDS, FILE_VERSION)
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """Properties of a new table: its partition fields (none: a plain table), and whether its rows keep their ids.

    `file_version` is that of Lance's file format which its data files have (None: the newest), `policy` has the options of its maintenance.
    """

    partitioned_by: tuple[PartitionDef, ...] = ()
    stable_row_ids: bool = False
    file_version: str | None = None
    policy: Mapping[str, PolicyValue | None] = field(default_factory=dict)

    @classmethod
    def maintained(cls, options: Mapping[str, object], partitioned_by: tuple[PartitionDef, ...]) -> Self:
        """Build the properties of a new table with the options of WITH, those of its maintenance among them."""
        policy = {name: value for name, value in options.items() if name in maintenance_options.NAMES}
        rest = {name: value for name, value in options.items() if name not in policy}
        made = cls(partitioned_by=partitioned_by, policy=maintenance_options.parse_options(policy, may_reset=False))
        return made.having(rest, more=f", or of its maintenance {', '.join(maintenance_options.NAMES)}")

    @classmethod
    def by(cls, fields: str | None) -> Self:
        """Build the properties of a table partitioned by a list of fields as in PARTITIONED BY (…); of a plain one without."""
        return cls(partitioned_by=parse_partition_by(fields) if fields else ())

    def having(self, options: Mapping[str, object], known: Sequence[str] = OPTIONS, more: str = "") -> Self:
        """Return the properties with the options of WITH; raise `InvalidInput` for an unknown one, listing the `known` ones and `more`."""
        for name in options:
            if name not in OPTIONS:
                expected = f"{', '.join(known[:-1])} or {known[-1]}"
                raise InvalidInput(f"option {name!r} of a new table is not known; expected {expected}{more}")
        is_stable, version = options.get(STABLE_ROW_IDS, False), options.get(FILE_VERSION)
        if str(is_stable).lower() not in _SWITCH:
            raise InvalidInput(f"{STABLE_ROW_IDS} is {is_stable!r}; expected true or false")
        return replace(
            self,
            stable_row_ids=_SWITCH[str(is_stable).lower()],
            file_version=None if version is None else check_version(str(version), FILE_VERSION),
        )


PLAIN = TableProperties()
