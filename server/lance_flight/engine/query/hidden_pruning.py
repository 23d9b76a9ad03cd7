"""Pruning of partition tables by the columns that a scan makes: `_partition`, and the partitions that names of rows say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot, SpecTables
from lance_flight.catalog.tables.lineage import PARTITION
from lance_flight.catalog.tables.row_names import ROW_NAME_FIELD, RowPlace, place_of
from lance_flight.errors import Conflict, Unsupported
from lance_flight.planning.arrow_expression import columns_of, row_filter
from lance_flight.planning.predicates import Compare, In, Op, Or, Predicate, all_of, conjuncts
from lance_flight.planning.pruning import Pruning, SpecPruning

VersionsOf = Callable[[PartitionTable], tuple[int, ...]]
"""Function that returns the versions that names of a partition table's rows hold for; the last one is the one that is read."""


@dataclass(frozen=True, slots=True)
class MadeColumns:
    """Conditions of a scan on the columns that it makes.

    `partitions` is on `_partition` alone, and decided by the partition tables; `rows` are the names of which any row has one (None: any
    name); `others` is the rest, with the condition on the names.
    """

    partitions: Predicate
    rows: tuple[str, ...] | None
    others: Predicate

    @classmethod
    def of(cls, predicate: Predicate, made: Collection[str], names: pa.Schema) -> MadeColumns | None:
        """Return the conditions of a predicate on `made` columns; None if it has none."""
        parts = conjuncts(predicate)
        own = [each for each in parts if PARTITION in made and _speaks_of(each, PARTITION)]
        is_named = ROW_NAME_FIELD.name in made and names.field(ROW_NAME_FIELD.name).equals(ROW_NAME_FIELD)
        listed = [values for each in parts if is_named and (values := _row_names(each)) is not None]
        if not own and not listed:
            return None
        others = [each for each in parts if each not in own]
        return cls(all_of(own), min(listed, key=len, default=None), all_of(others))


def narrowed(snapshot: Snapshot, pruning: Pruning, made: MadeColumns, versions_of: VersionsOf) -> Pruning:
    """Return a pruning without the partition tables that the conditions on made columns exclude.

    Raises `Conflict` for the name of a row at another version of its partition table than the one that is read.
    """
    named = None if made.rows is None else _places(snapshot, made.rows, versions_of)
    return Pruning(
        versions=tuple(
            _narrowed(snapshot, tables, version, made, named)
            for tables, version in zip(snapshot.tables, pruning.versions, strict=True)
        )
    )


def _narrowed(
    snapshot: Snapshot, tables: SpecTables, version: SpecPruning, made: MadeColumns, named: Collection[str] | None
) -> SpecPruning:
    ids = tables.rows["object_id"].combine_chunks().take(pa.array(version.kept))
    left: npt.NDArray[np.bool_] = np.ones(len(ids), np.bool_)
    used = [str(each) for each in conjuncts(made.partitions)]
    if used:
        shown = ids if snapshot.is_partitioned else pa.nulls(len(ids), pa.utf8())
        places = pa.table({PARTITION: shown.cast(pa.utf8()), "place": pa.array(np.arange(len(ids)))})
        left &= np.isin(np.arange(len(ids)), places.filter(row_filter(made.partitions).rest)["place"].to_numpy())
    if named is not None and snapshot.is_partitioned:
        left &= pc.is_in(ids, value_set=pa.array(list(named), ids.type)).to_numpy(zero_copy_only=False)
        used.append(f"the partitions of {ROW_NAME_FIELD.name}")
    kept = version.kept[left]
    return replace(
        version,
        kept=kept,
        used=(*version.used, *used),
        certain=np.intersect1d(version.certain, kept, assume_unique=True),
    )


def _places(snapshot: Snapshot, names: Sequence[str], versions_of: VersionsOf) -> set[str]:
    """Return the partitions of named rows; raise `Conflict` for one whose name holds no longer."""
    places = {name: place for name in names if (place := place_of(name)) is not None}
    tables = _tables(snapshot, {place.partition for place in places.values()})
    for name, place in places.items():
        if place.version is not None:
            _check_version(name, place, tables.get(place.partition), versions_of)
    return {place.partition for place in places.values()}


def _tables(snapshot: Snapshot, partitions: set[str]) -> Mapping[str, PartitionTable]:
    if snapshot.is_partitioned:
        return snapshot.tables_named(sorted(name for name in partitions if name))
    return dict.fromkeys([""], snapshot.all_tables()[0])


def _check_version(name: str, place: RowPlace, table: PartitionTable | None, versions_of: VersionsOf) -> None:
    if table is None:
        now = "is not there any longer"
    elif place.version not in (versions := versions_of(table)):
        now = f"is at version {versions[-1]} here"
    else:
        return
    raise Conflict(
        f"_rowid {name!r} holds for version {place.version} of its partition's table, which {now}; expected one that was"
        " read at the same version: read it again, in the transaction that uses it"
    )


def _speaks_of(predicate: Predicate, column: str) -> bool:
    """Return whether a predicate is on one column alone."""
    try:
        return columns_of(predicate) == (column,)
    except Unsupported:
        return False


def _row_names(predicate: Predicate) -> tuple[str, ...] | None:
    """Return the names of rows, one of which a row must have to fulfil a predicate; None if it says no such names."""
    if not _speaks_of(predicate, ROW_NAME_FIELD.name):
        return None
    match predicate:
        case Compare(_, Op.EQ, value):
            return (str(value.as_py()),)
        case In(_, values, False):
            return tuple(str(value) for value in values.to_pylist())
        case Or(parts):
            found = [_row_names(part) for part in parts]
            return None if None in found else tuple(name for names in found if names is not None for name in names)
        case _:
            return None
