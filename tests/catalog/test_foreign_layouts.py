"""Namespaces whose writer keeps specs and schema elsewhere than the spec: read as they are, and written to once migrated."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.rewriting import migrate
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.scan_planning import plan_scan
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Conflict, Corrupt, Unsupported

from tests.catalog.by_hand import IN_ARROW, IN_ROWS, IN_TABLE, METADATA, ROWS, lay_out

pytestmark = pytest.mark.slow  # every statement over every layout

PLACES = (IN_TABLE, IN_ROWS, IN_ARROW)
LAYOUTS = [
    pytest.param(specs, schema, id=f"specs in {specs}, schema in {schema}") for specs in PLACES for schema in PLACES
]
FOREIGN = LAYOUTS[1:]
UNIFORM = [pytest.param(place, place, id=place) for place in (IN_ROWS, IN_ARROW)]


def opened(place: Path) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(place)))


def engine(place: Path) -> Engine:
    return Engine(Root(Store(str(place.parent))), target_partitions=2)


def read(place: Path, sql: str = "SELECT id FROM events ORDER BY id") -> list[int]:
    return engine(place).query(sql)["id"].to_pylist()


def manifest(place: Path) -> lance.LanceDataset:
    return lance.dataset(str(place / "__manifest"))


def rows(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "event_date": date(2025, 12, 10), "country": "US"} for n in ids], ROWS)


@pytest.mark.parametrize(("specs", "schema"), LAYOUTS)
def test_a_namespace_is_read_pruned_and_described_wherever_its_properties_stand(
    tmp_path: Path, specs: str, schema: str
) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=specs, schema=schema)
    assert read(place) == [1, 2, 11, 12, 13]
    assert read(place, "SELECT id FROM events WHERE country = 'US' AND id > 10 ORDER BY id") == [11, 12, 13]
    assert read(place, "SELECT count(*) AS id FROM events WHERE date_part('year', event_date) = 2025") == [5]
    planned = plan_scan(opened(place), pc.field("event_date") == date(2025, 12, 11))
    assert [table.spec_id for table in planned.tables] == [2], "v1 has no such day, v2 has the year"
    described = engine(place).query("DESCRIBE events")
    assert described["column_name"].to_pylist() == ["id", "event_date", "country"]
    assert described["partitioning"].to_pylist() == [None, "event_year: year", "country: identity"]
    assert json.loads(opened(place).describe(["v2"])["partition_spec"]) == METADATA["partition_spec_v2"]
    assert opened(place).describe(["v2", "e9f0g1h2i3j4k5l6"]) == {"partition.event_year": "2025"}
    assert engine(place).query('SELECT spec_id FROM "events$specs"').num_rows == 3


WRITES = [
    pytest.param("INSERT INTO events VALUES (99, '2025-12-10', 'US')", id="INSERT"),
    pytest.param("INSERT OVERWRITE events VALUES (99, '2025-12-10', 'US')", id="INSERT OVERWRITE"),
    pytest.param("UPDATE events SET id = 99 WHERE id = 1", id="UPDATE"),
    pytest.param("UPDATE events SET id = 99 WHERE id = 77", id="UPDATE of nothing"),
    pytest.param("DELETE FROM events", id="DELETE"),
    pytest.param("MERGE INTO events USING events s ON events.id = s.id WHEN MATCHED THEN DELETE", id="MERGE"),
    pytest.param("TRUNCATE events", id="TRUNCATE"),
    pytest.param("ALTER TABLE events CREATE TAG audited", id="CREATE TAG"),
    pytest.param("ALTER TABLE events CREATE BRANCH b", id="CREATE BRANCH"),
    pytest.param("ALTER TABLE events ROLLBACK TO 1", id="ROLLBACK"),
    pytest.param("ALTER TABLE events RENAME TO others", id="RENAME"),
    pytest.param("ALTER TABLE events SET PARTITIONED BY (country)", id="SET PARTITIONED BY"),
]


def files(place: Path) -> set[str]:
    return {str(path) for path in place.rglob("*") if ".lance-flight" not in path.parts}


@pytest.mark.parametrize("sql", WRITES)
@pytest.mark.parametrize(("specs", "schema"), UNIFORM)
def test_a_write_is_refused_with_the_command_that_makes_it_possible(
    tmp_path: Path, specs: str, schema: str, sql: str
) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=specs, schema=schema)
    before = files(tmp_path)
    with pytest.raises(
        Unsupported, match=r"partition_spec_v1.*`lance-flight migrate ROOT events`.*MIGRATE TABLE events"
    ):
        engine(place).update(sql)
    assert files(tmp_path) == before, "nothing was written"
    engine(place).query("MIGRATE TABLE events")
    assert engine(place).update(sql) >= 0


@pytest.mark.parametrize(("specs", "schema"), FOREIGN)
@pytest.mark.parametrize("write", [lambda n: n.append([rows(99)], evaluate), compact], ids=["append", "compaction"])
def test_the_library_refuses_too(
    tmp_path: Path, specs: str, schema: str, write: Callable[[PartitionedNamespace], object]
) -> None:
    lay_out(tmp_path / "events", specs=specs, schema=schema)
    before = files(tmp_path)
    with pytest.raises(Unsupported, match="migrate ROOT events"):
        write(opened(tmp_path / "events"))
    assert files(tmp_path) == before


def test_the_library_rolls_nothing_back_either(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=IN_ARROW, schema=IN_ARROW)
    before = manifest(place).version
    manifest(place).delete("object_id LIKE 'v1$%'")
    with pytest.raises(Unsupported, match="migrate ROOT events"):
        opened(place).rollback(before)
    assert read(place) == [11, 12, 13]


def ingest(place: Path, existing: IfExists) -> int:
    reader = rows(99).to_reader()
    return engine(place).ingest(TableName("public", "events"), reader, create_missing=False, existing=existing)


def test_an_ingest_is_refused_too_but_for_one_that_makes_another_table(tmp_path: Path) -> None:
    lay_out(tmp_path / "events", specs=IN_ROWS, schema=IN_ROWS)
    with pytest.raises(Unsupported, match="migrate ROOT events"):
        ingest(tmp_path / "events", IfExists.APPEND)
    assert ingest(tmp_path / "events", IfExists.REPLACE) == 1


def test_a_table_is_dropped_wherever_its_properties_stand(tmp_path: Path) -> None:
    lay_out(tmp_path / "events", specs=IN_ROWS, schema=IN_ROWS)
    engine(tmp_path / "events").update("DROP TABLE events")
    assert not (tmp_path / "events").exists()


@pytest.mark.parametrize(("specs", "schema"), FOREIGN)
def test_migration_puts_everything_into_the_table_metadata_in_one_commit(
    tmp_path: Path, specs: str, schema: str
) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=specs, schema=schema)
    before, version = manifest(place).to_table(), manifest(place).version
    report = migrate(opened(place))
    keys = {key for key in METADATA if (schema if key == "schema" else specs) != IN_TABLE}
    assert {prop.key for prop in report.moved} == keys
    assert manifest(place).version == version + 1
    stored = manifest(place).metadata
    assert {key: json.loads(stored[key]) for key in METADATA} == METADATA, "and no null is left"
    assert all(" " not in stored[key] for key in keys)
    assert manifest(place).to_table() == before
    assert read(place) == [1, 2, 11, 12, 13]
    assert migrate(opened(place)).moved == ()
    assert manifest(place).version == version + 1


@pytest.mark.parametrize("pins", [True, False], ids=["pinned", "floating"])
@pytest.mark.parametrize(("specs", "schema"), UNIFORM)
def test_what_was_migrated_is_written_to(tmp_path: Path, specs: str, schema: str, pins: bool) -> None:  # noqa: FBT001
    place = tmp_path / "events"
    lay_out(place, specs=specs, schema=schema, pins=pins)
    migrate(opened(place))
    opened(place).append([rows(14)], evaluate)
    assert read(place, "SELECT id FROM events WHERE id < 600 ORDER BY id") == [1, 2, 11, 12, 13, 14]


def test_a_dry_run_says_what_would_change_and_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=IN_ROWS, schema=IN_ARROW)
    before = files(place)
    told = engine(place).query("MIGRATE TABLE events DRY RUN").to_pylist()
    assert [(row["key"], row["found_in"]) for row in told] == [
        ("partition_spec_v1", "the metadata of its v<N> rows"),
        ("partition_spec_v2", "the metadata of its v<N> rows"),
        ("schema", "its Arrow schema metadata"),
    ]
    assert {row["key"]: json.loads(row["value"]) for row in told} == METADATA
    assert files(place) == before


def test_a_spec_that_its_writer_adds_after_the_migration_has_to_be_migrated_too(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=IN_ROWS, schema=IN_ROWS)
    migrate(opened(place))
    spec = METADATA["partition_spec_v1"] | {"id": 3}
    (row,) = manifest(place).to_table(filter="object_id = 'v2'").to_pylist()
    added = row | {"object_id": "v3", "metadata": json.dumps({"partition_spec": spec})}
    lance.write_dataset(
        pa.Table.from_pylist([added], schema=manifest(place).schema), str(place / "__manifest"), mode="append"
    )
    with pytest.raises(Unsupported, match="keeps partition_spec_v3 in the metadata of its v<N> rows"):
        opened(place).append([rows(14)], evaluate)
    assert [prop.key for prop in migrate(opened(place)).moved] == ["partition_spec_v3"]
    assert opened(place).snapshot().current_spec.id == 3


def test_table_metadata_counts_before_all_other_places(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=IN_ROWS, schema=IN_ROWS)
    renamed = json.dumps(METADATA["schema"]).replace('"country"', '"land"')
    manifest(place).update_metadata({"schema": renamed})
    assert opened(place).snapshot().schema.plain.names == ["id", "event_date", "land"]


def test_several_who_migrate_at_once_change_it_once(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=IN_ARROW, schema=IN_ARROW)
    version = manifest(place).version
    barrier, failed = threading.Barrier(4), []

    def run() -> None:
        namespace = opened(place)
        barrier.wait()
        try:
            migrate(namespace)
        except Exception as exc:  # noqa: BLE001 - looked at below
            failed.append(exc)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert manifest(place).version == version + 1


def test_the_metadata_of_the_snapshot_that_was_read_is_what_is_compared(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=IN_ARROW, schema=IN_ARROW)
    namespace = opened(place)
    old = namespace.snapshot()
    manifest(place).update_metadata({"schema": json.dumps(METADATA["schema"])})
    with pytest.raises(Conflict, match="metadata of 'events'"):
        namespace.log.update_metadata(old, {"schema": "{}"})


def test_what_cannot_be_read_is_not_migrated(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place, specs=IN_ROWS, schema=IN_ROWS)
    manifest(place).update({"metadata": '\'{"partition_spec": "{}"}\''}, "object_id = 'v2'")
    version = manifest(place).version
    with pytest.raises(Corrupt, match="partition_spec_v2"):
        migrate(PartitionedNamespace(Store(str(place))))
    assert manifest(place).version == version


def test_a_namespace_by_the_letter_of_the_spec_needs_no_migration(tmp_path: Path) -> None:
    place = tmp_path / "events"
    lay_out(place)
    assert migrate(opened(place)).moved == ()
    opened(place).append([rows(14)], evaluate)
    assert read(place) == [1, 2, 11, 12, 13, 14]
