"""Maintenance of a root in an object store: the same, with the clock of the store and without links."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.survey import set_policy
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import repair
from lance_flight.catalog.manifests.snapshot import Version
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.leases import Leases, leased_snapshots, leases
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables.partitions import open_at
from lance_flight.engine.runtime.maintainer import Maintainer
from lance_flight.engine.runtime.running_statement import MaintenanceRecords
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import NotFound

from tests.catalog.small_table import SCHEMA, SPEC, rows
from tests.object_store.bucket import Bucket

HOUR = 3600.0


@pytest.fixture
def namespace(bucket: Bucket) -> PartitionedNamespace:
    """Three small files in each of two partitions, and a version that nobody committed."""
    made = PartitionedNamespace.create(bucket.store.child("t"), SCHEMA, SPEC)
    for number in (1, 2, 3):
        made.append([rows((number, "a"), (number + 10, "b"))], evaluate)
    transaction = made.begin()
    made.write(transaction, [rows((66, "a"), (67, "new"))], evaluate)
    made.commits.stage(transaction)
    return made


def files(namespace: PartitionedNamespace) -> set[str]:
    """What there is but for leases, which readers of other tests let go whenever they end."""
    return {file.path for file in namespace.store.tree() if not file.path.startswith(".lance-flight/leases/")}


def ids(namespace: PartitionedNamespace) -> list[int]:
    return sorted(pa.concat_tables(namespace.rows())["id"].to_pylist())


def test_a_namespace_is_compacted_vacuumed_and_whole(namespace: PartitionedNamespace) -> None:
    assert [table.files_after for table in compact(namespace).tables] == [1, 1]
    before = files(namespace)
    later = time.time() + 200 * HOUR
    planned = vacuum(namespace, VacuumRules(dry_run=True), now=later)
    assert files(namespace) == before
    done = vacuum(namespace, VacuumRules(), now=later)
    assert done.total == planned.total
    assert done.skipped == ()
    left = files(namespace)
    assert len(before) - len(left) == done.total.files
    assert len([path for path in left if "/data/" in path and not path.startswith("__manifest")]) == 2
    assert ids(namespace) == [1, 2, 3, 11, 12, 13]
    with pytest.raises(NotFound):
        namespace.snapshot(4)
    assert repair(namespace).findings == ()


@pytest.fixture
def _no_own_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep this process from publishing what it holds itself, from before there is a namespace."""
    monkeypatch.setattr(leases, "publish_all", lambda: None)


@pytest.mark.usefixtures("_no_own_leases")
def test_a_lease_in_the_store_keeps_a_snapshot(namespace: PartitionedNamespace) -> None:
    old = namespace.snapshot()
    compact(namespace)
    reader, began = Leases(), time.time()
    hold = reader.hold_all(namespace.store, [(None, old.version)])
    assert leased_snapshots(namespace.store, time.time()) == {(None, old.version)}
    # So long after that the snapshot may go, and so soon that the lease is not over.
    vacuum(namespace, VacuumRules(retain_hours=0, force=True), now=began + 59)
    assert namespace.snapshot(old.version).version == old.version
    del hold
    reader.publish_all()
    assert leased_snapshots(namespace.store, time.time()) == set()
    vacuum(namespace, VacuumRules(retain_hours=0, force=True), now=time.time() + 61)
    with pytest.raises(NotFound):
        namespace.snapshot(old.version)


def test_a_new_partition_has_two_versions_and_ids_of_its_rows(bucket: Bucket) -> None:
    made = PartitionedNamespace.create(bucket.store.child("t"), SCHEMA, SPEC, stable_row_ids=True)
    made.append([rows((1, "a"), (2, "b"))], evaluate)
    tables = [table for tables in made.snapshot().tables for table in tables.tables()]
    assert [table.pin for table in tables] == [Version(2), Version(2)]
    opened = [open_at(made.store.child(table.location), table.pin) for table in tables]
    assert [dataset.has_stable_row_ids for dataset in opened] == [True, True]
    assert ids(made) == [1, 2]


def test_of_two_servers_one_maintains_the_root_and_the_other_after_it(
    namespace: PartitionedNamespace, bucket: Bucket
) -> None:
    set_policy(namespace, {"compact_files": 1})
    records = MaintenanceRecords()
    first, second = (Maintainer(Root(bucket.store), records, share=1.0, in_use=set) for _ in range(2))
    assert [first.step(), second.step()] == [True, False]
    assert [(record.kind, record.outcome) for record in records.records()] == [("compact", "ok")]
    assert "6 files into 2" in records.records()[0].result
    assert ids(namespace) == [1, 2, 3, 11, 12, 13]
    first.release()
    for number in (4, 5, 6):
        namespace.append([rows((number, "a"))], evaluate)
    assert [second.step(), first.step()] == [True, False]
    assert ids(namespace) == [1, 2, 3, 4, 5, 6, 11, 12, 13]
