"""Column policies: which columns of a table a principal may read, and the masks that stand in place of some.

A column that is not granted is not among the columns of the table's scans. A table with masks is planned as a query over it, which
computes the masks: conditions, joins and aggregates are over their values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.sql.references import enclosed, quoted
from lance_flight.errors import Refused
from lance_flight.model.arrow_types import is_string

_ADVICE = re.compile(r"\.? Did you mean|\.?\n")
UNMASKED = "$unmasked"
"""End of the name of the schema in which the query of a masked table, and nothing else, finds the stored table."""


@dataclass(frozen=True, slots=True)
class GrantedColumn:
    """Column that a grant lists; with a `mask`, an SQL expression over the columns of a row, in its place."""

    name: str
    mask: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPolicy:
    """Column policy of a table for one principal: the `granted` columns with their masks (None: all columns, as they are stored)."""

    table: str = ""
    user: str = ""
    granted: Mapping[str, str | None] | None = None

    @property
    def is_everything(self) -> bool:
        """True if all columns are granted, none of them masked."""
        return self.granted is None

    @property
    def masks(self) -> Mapping[str, str]:
        """Return the masks by the names of their columns."""
        return {name: mask for name, mask in (self.granted or {}).items() if mask is not None}

    def visible(self, snapshot: Snapshot, newest: Snapshot, *, for_masks: bool) -> frozenset[str] | None:
        """Return the columns that scans of a snapshot may read (None: all): the granted ones, or `for_masks` those that masks may be over.

        Names are those of the newest schema: a column that had another id under the same name is another column.
        """
        if self.granted is None:
            return None
        known = frozenset(name for name, number in snapshot.schema.ids.items() if newest.schema.ids.get(name) == number)
        if not known & self.granted.keys():
            raise Refused(f"{self.user!r} has no SELECT on any column that table {self.table!r} has at this version")
        return known if for_masks else known & self.granted.keys()

    def hides_layout(self, snapshot: Snapshot, visible: frozenset[str] | None) -> bool:
        """Return whether the values of partitions tell of columns that are masked, or not granted; scans may read the `visible` ones."""
        if self.granted is None or visible is None:
            return False
        plain = (visible & self.granted.keys()) - self.masks.keys()
        paths = snapshot.schema.source_paths
        sources = (number for spec in snapshot.specs for each in spec.fields for number in each.source_ids)
        return any(number not in paths or paths[number][0] not in plain for number in sources)


EVERY_COLUMN = ColumnPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedTable:
    """Table with masked columns under one of its names in SQL, to be planned as a query over its stored `columns`.

    `made` are those of them that a scan makes (addresses of rows …), which no policy is about.
    """

    name: TableName
    policy: ColumnPolicy
    columns: pa.Schema
    made: frozenset[str] = field(default_factory=frozenset)

    @property
    def sql(self) -> str:
        """Return the query that stands for the table."""
        return self._select([self._column(name) for name in self._names])

    @property
    def _names(self) -> list[str]:
        return [name for name in self.columns.names if name in self.made or name in (self.policy.granted or {})]

    def probes(self) -> Iterator[tuple[str, str]]:
        """Yield each masked column with a query of its mask alone."""
        for name in self._names:
            if name in self.policy.masks:
                yield name, self._select([self._column(name)])

    def casts(self, planned: pa.Schema) -> Mapping[str, pa.DataType]:
        """Return the columns of the planned query that are cast to their stored types; raise `Refused` for a mask of another kind of type."""
        kinds = {name: self.columns.field(name).type for name in self.policy.masks if name in planned.names}
        for name, kind in kinds.items():
            if not _fits(planned.field(name).type, kind):
                raise self.error(name, f"which is {planned.field(name).type}")
        return {name: kind for name, kind in kinds.items() if planned.field(name).type != kind}

    def error(self, column: str, problem: object) -> Refused:
        """Return the error about the mask of a column."""
        return Refused(
            f"the mask {self.policy.masks[column]} of column {column!r} of table {self.policy.table!r} cannot stand in its"
            # What follows names the columns that there are.
            f" place: {re.split(_ADVICE, str(problem))[0]}; expected an expression of type {self.columns.field(column).type}"
        )

    def _column(self, name: str) -> str:
        mask = self.policy.masks.get(name)
        return quoted(name) if mask is None else f"{enclosed(mask)} AS {quoted(name)}"

    def _select(self, items: list[str]) -> str:
        stored = quoted(self.name.db_schema + UNMASKED, self.name.name)
        return f"SELECT {', '.join(items)} FROM {stored}"  # noqa: S608 - quoted; masks are of the policy file


def unmasked(name: TableName) -> TableName:
    """Return the name by which the query of a masked table reads the stored one."""
    return TableName(name.db_schema + UNMASKED, name.name)


def stored_name(name: TableName) -> TableName:
    """Return the name of the stored table that a name of `unmasked` stands for; any other as it is."""
    return TableName(name.db_schema.removesuffix(UNMASKED), name.name)


def combined(granting: Collection[Collection[GrantedColumn] | None]) -> Mapping[str, str | None] | None:
    """Return the columns that any of some grants lists (None: all); a column is masked if no grant gives it as it is, by the first mask.

    >>> dict(combined([[GrantedColumn("a"), GrantedColumn("b", "NULL")], [GrantedColumn("b", "0")]]))
    {'a': None, 'b': 'NULL'}
    """
    found: dict[str, str | None] = {}
    for columns in granting:
        if columns is None:
            return None
        for column in columns:
            if column.mask is None or column.name not in found:
                found[column.name] = column.mask
    return MappingProxyType(found)


def _fits(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether values of a type may be cast to another one: a representation of the same, NULL, or whole numbers."""
    if pa.types.is_dictionary(expected):
        return _fits(found, expected.value_type)
    same = (is_string, _is_binary, pa.types.is_integer)
    return (
        found == expected
        or pa.types.is_null(found)
        or (pa.types.is_integer(found) and pa.types.is_floating(expected))
        or any(kind(found) and kind(expected) for kind in same)
    )


def _is_binary(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))
