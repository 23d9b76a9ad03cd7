"""Partitions that do not exist yet: their object ids, and the `__manifest` rows that bring them into being.

Spec: Physical Layout and Naming, Appendix C; decisions 4 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.model.grouping import match
from lance_flight.model.naming import SEPARATOR, TABLE, namespace_name, spec_namespace
from lance_flight.model.pins import Pin
from lance_flight.model.spec import PartitionSpec


class NewPartitions:
    """Names partitions under one spec version, below the namespaces that a snapshot has already.

    An existing namespace is found by its values, never by its name; a new one is named with the key.
    """

    def __init__(self, snapshot: Snapshot, spec: PartitionSpec, key: bytes) -> None:
        self._snapshot = snapshot
        self._spec = spec
        self._key = key

    def object_ids(self, values: pa.Table) -> list[str]:
        """Return the object id of the partition table for each row of `values`."""
        return [parent + SEPARATOR + TABLE for parent in self._namespaces(values, {})]

    def rows(self, values: pa.Table, locations: Sequence[str], pins: Sequence[Pin]) -> pa.Table:
        """Make manifest rows for partitions `values` stored at `locations`: namespaces, tables, a missing `v<N>` row."""
        made: dict[str, dict[str, Any]] = {}
        for place, parent in enumerate(self._namespaces(values, made)):
            object_id = parent + SEPARATOR + TABLE
            made[object_id] = {
                **_object(object_id, "table"),
                **_row(values, place),
                **pins[place].columns._asdict(),
                "location": locations[place],
            }
        return pa.concat_tables([self._version_row(), _table(list(made.values()), self._snapshot.rows.schema)])

    def _namespaces(self, values: pa.Table, made: dict[str, dict[str, Any]]) -> list[str]:
        """Return the object id of each partition's innermost namespace; rows of new ones are put into `made`."""
        parents = [spec_namespace(self._spec.id)] * values.num_rows
        for level in range(1, values.num_columns + 1):
            parents = self._level(level, values, parents, made)
        return parents

    def _level(self, level: int, values: pa.Table, parents: list[str], made: dict[str, dict[str, Any]]) -> list[str]:
        prefix = values.select(values.column_names[:level])
        existing = self._snapshot.namespaces_of(self._spec.id, level)
        ids = []
        for place, row in enumerate(match(prefix, existing.select(prefix.column_names))):
            if row >= 0:
                ids.append(existing["object_id"][int(row)].as_py())
                continue
            scalars = [column[place] for column in prefix.columns]
            ids.append(parents[place] + SEPARATOR + namespace_name(self._key, self._spec.id, scalars))
            made[ids[-1]] = {**_object(ids[-1], "namespace"), **_row(prefix, place)}
        return ids

    def _version_row(self) -> pa.Table:
        name = spec_namespace(self._spec.id)
        missing = [] if self._snapshot.row(name).num_rows else [_object(name, "namespace")]
        return _table(missing, self._snapshot.rows.schema)


def guard_row(snapshot: Snapshot) -> pa.Table:
    """Return the row of the oldest spec, made if it is missing.

    Every commit writes it back, so that any two commits conflict.
    """
    found = snapshot.oldest_spec
    return found if found.num_rows else version_rows(snapshot.specs[:1], snapshot.rows.schema)


def version_rows(specs: Sequence[PartitionSpec], schema: pa.Schema) -> pa.Table:
    """Return the `v<N>` rows of a new namespace."""
    return _table([_object(spec_namespace(spec.id), "namespace") for spec in specs], schema)


def _object(object_id: str, object_type: str) -> dict[str, Any]:
    return {"object_id": object_id, "object_type": object_type, "metadata": "{}"}


def _row(values: pa.Table, place: int) -> Mapping[str, pa.Scalar]:
    return {name: values[name][place] for name in values.column_names}


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows of a manifest; columns that a row does not name, ours or foreign, are NULL."""
    return pa.Table.from_arrays([pa.array([r.get(f.name) for r in rows], f.type) for f in schema], schema=schema)
