"""Namespaces with many partitions and no data: their `__manifest` rows, written in one go for each spec version.

Planning looks at nothing else. The partition fields are an identity and a bucket, as point queries want them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance_flight.catalog.manifests.manifest_rows import NewPartitions
from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY, Snapshot, Version
from lance_flight.catalog.manifests.version_log import Revision
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.writes.definitions import parse_partition_by, partition_spec
from lance_flight.model.naming import directory_name
from lance_flight.model.schema import NamespaceSchema

BUCKETS = 10
SCHEMA = pa.schema({"tenant": pa.int64(), "id": pa.int64(), "value": pa.float64()})


def partition_by(version: int) -> str:
    """The fields of a spec version: each has another number of buckets."""
    return f"tenant, bucket({BUCKETS + version - 1}, id)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """A namespace of `partitions` partition tables, all pinned, none of them there, as many under each of `versions` specs."""

    root: Path
    name: str
    partitions: int
    versions: int

    @property
    def namespace(self) -> PartitionedNamespace:
        """It, opened."""
        return PartitionedNamespace.open(Store(str(self.root / self.name)))

    @property
    def point(self) -> tuple[int, int]:
        """A tenant in the middle, and an id: together they lie in one partition of each version."""
        return self.partitions // self.versions // BUCKETS // 2, 7

    @property
    def sql(self) -> str:
        """A query of that point."""
        tenant, number = self.point
        return f"SELECT * FROM {self.name} WHERE tenant = {tenant} AND id = {number}"


def empty(place: Path, columns: pa.Schema, partition_by: str) -> PartitionedNamespace:
    """A namespace without a partition."""
    schema = NamespaceSchema.assign(columns)
    spec = partition_spec(schema, parse_partition_by(partition_by))
    return PartitionedNamespace.create(Store(str(place)), schema, spec)


def create(root: Path, partitions: int, *, versions: int = 1) -> Synthetic:
    """Make one below `root`."""
    made = Synthetic(root=root, name=f"events_{partitions}_{versions}", partitions=partitions, versions=versions)
    namespace = empty(root / made.name, SCHEMA, partition_by(1))
    _fill(namespace, partitions // versions)
    for version in range(2, versions + 1):
        schema = namespace.snapshot().schema
        earlier = namespace.snapshot().specs
        spec = partition_spec(schema, parse_partition_by(partition_by(version)), number=version, earlier=earlier)
        namespace.evolve(partial(_next, Revision(operation=f"partition spec v{version}", specs=(spec,))))
        _fill(namespace, partitions // versions)
    return made


def _next(evolution: Revision, _: Snapshot) -> Revision:
    return evolution


def _fill(namespace: PartitionedNamespace, partitions: int) -> None:
    """As many partitions under the current spec."""
    snapshot = namespace.snapshot()
    spec = snapshot.current_spec
    builder = NewPartitions(snapshot, spec, bytes.fromhex(snapshot.metadata[NAMESPACE_KEY]))
    tenants, buckets = np.divmod(np.arange(partitions), BUCKETS)
    kinds = {field.column: field.result_type for field in spec.fields}
    values = pa.table([tenants, buckets], names=list(kinds)).cast(pa.schema(kinds))
    locations = [directory_name(name) for name in builder.object_ids(values)]
    rows = builder.rows(values, locations, [Version(1)] * partitions)
    namespace.log.commit(snapshot, rows, f"add {partitions} partitions")
