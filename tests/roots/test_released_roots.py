"""Roots that earlier releases have written: read as they read them, written, migrated, and read again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lance_flight.catalog.backup.backup_format import backup_at
from lance_flight.catalog.backup.restoring import restore
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.formats import FORMATS, TABLE, version_of
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace, require_partitions
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Unsupported
from lance_flight_client.cli import main

from tests.backup.roots import engine_of
from tests.roots.released import FEATURES, RELEASES, ReleasedRoot, as_json

pytestmark = pytest.mark.slow  # a root of every release

WRITES = {
    "partitioned": "INSERT INTO events (id, at, site, n) VALUES (100, TIMESTAMP '2025-01-01 00:00:00', 'Lima', 100)",
    "changed": "UPDATE events SET n = 101 WHERE id = 5",
    "evolved": "INSERT INTO evolved (number, p, more) VALUES (100, 'z', 1.0)",
    "branched": """INSERT INTO "events@audit" (id, at, site, n) VALUES (200, TIMESTAMP '2025-01-01 00:00:00', 'Bern', 1)""",
    "attached": "INSERT INTO parts VALUES (100, 'Lima')",
    "with a zone": "INSERT INTO zoned VALUES (100, TIMESTAMP '2024-03-01 02:00:00')",
    "plain": "INSERT INTO flat VALUES (100, 'z')",
    "changed plain": "DELETE FROM flat WHERE id = 1",
    "indexed": "REINDEX TABLE events",
    "schema": "INSERT INTO other.t VALUES (2)",
}
"""A write to what each feature made."""


@pytest.fixture(params=RELEASES)
def released(request: pytest.FixtureRequest) -> ReleasedRoot:
    return ReleasedRoot.of(request.param)


def is_fixed(sql: str) -> bool:
    """Whether a query is of a version or a tag, which no write changes."""
    return "@" in sql and "@audit" not in sql


def wrong(released: ReleasedRoot, engine: Engine, *, only_fixed: bool = False) -> list[str]:
    """The queries with other rows than the release itself read."""
    asked = (sql for sql in released.answers if is_fixed(sql) or not only_fixed)
    return [sql for sql in asked if as_json(engine.query(sql)) != released.answers[sql]]


def namespaces(root: Path) -> list[PartitionedNamespace]:
    """The partitioned tables of a root, and their branches."""
    found = Root(Store(str(root)))
    tables = [require_partitions(found.table(name)) for name, has_partitions in found.kinds().items() if has_partitions]
    return [*tables, *(table.on_branch(branch.name) for table in tables for branch in table.branches)]


def formats(root: Path) -> set[int]:
    return {int(str(version_of(each.snapshot().metadata))) for each in namespaces(root)}


def problems(root: Path) -> list[str]:
    """The tables with rows in partitions of other values."""
    return [each.name for each in namespaces(root) if each.branch is None and not verify(each, evaluate).is_sound]


def test_the_present_release_has_a_root_with_every_feature() -> None:
    assert set(ReleasedRoot.of("0.1.0").features) == {*(feature.name for feature in FEATURES), "backup"}


@pytest.mark.sample(2)
def test_every_table_version_branch_and_tag_is_read_as_its_release_read_it(
    released: ReleasedRoot, tmp_path: Path
) -> None:
    root = released.unpack(tmp_path)
    assert len(released.answers) >= 20
    assert wrong(released, engine_of(root)) == []


@pytest.mark.sample(2)
def test_every_table_is_written_migrated_and_read_again(
    released: ReleasedRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = released.unpack(tmp_path)
    engine = engine_of(root)
    for feature in released.features:
        if feature in WRITES:
            engine.update(WRITES[feature])
    assert wrong(released, engine, only_fixed=True) == []
    tables = [f'"{name.db_schema}"."{name.name}"' for name in engine.root.tables()]
    written = {table: as_json(engine.query(f"SELECT * FROM {table}")) for table in [*tables, '"events@audit"']}
    assert main(["migrate", str(root)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("the root: new things have the formats ")
    assert formats(root) == {TABLE.newest}
    assert problems(root) == []
    for migrated in (engine, engine_of(root)):  # one that goes on beside the migration, and a new one
        assert wrong(released, migrated, only_fixed=True) == []
        assert {table: as_json(migrated.query(f"SELECT * FROM {table}")) for table in written} == written
    engine.update("ALTER TABLE events PUBLISH BRANCH audit")
    assert as_json(engine.query("SELECT id FROM events WHERE site = 'Bern'")) == [[200]]
    engine.update("VACUUM events")
    assert wrong(released, engine, only_fixed=True) == []


def test_rows_with_times_of_a_zone_are_pruned_once_they_are_where_they_belong(tmp_path: Path) -> None:
    released = ReleasedRoot.of("0.1.0.dev2")
    root = released.unpack(tmp_path)
    sql = "EXPLAIN SELECT id FROM zoned WHERE at = '2024-03-01T06:30:00Z'"

    def says() -> str:
        return "\n".join(str(row) for row in engine_of(root).query(sql).to_pylist())

    (zoned,) = [each for each in namespaces(root) if each.name == "zoned"]
    assert zoned.snapshot().doubtful_fields
    assert "not used" in says()
    old = zoned.snapshot().version
    assert main(["migrate", str(root), "zoned"]) == 0
    assert not zoned.snapshot().doubtful_fields
    assert "not used" not in says()
    assert wrong(released, engine_of(root)) == []
    with pytest.raises(Unsupported, match="rows of it may be in partitions of other values"):
        zoned.rollback(old)


def test_a_migration_is_shown_first_and_made_once(
    released: ReleasedRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = released.unpack(tmp_path)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and "leases" not in path.parts}
    assert main(["migrate", str(root), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and "leases" not in path.parts}
    assert before == after
    assert main(["migrate", str(root)]) == 0
    done = capsys.readouterr().out
    assert done == shown.replace("would be migrated", "migrated").replace("would have", "have").replace(
        "would go", "went"
    )
    assert main(["migrate", str(root)]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if "migrated" in line or "the root" in line]


def test_new_tables_have_the_formats_of_a_migrated_root(released: ReleasedRoot, tmp_path: Path) -> None:
    root = released.unpack(tmp_path)
    engine = engine_of(root)
    engine.update("CREATE TABLE before (id BIGINT) PARTITIONED BY (id)")
    assert main(["migrate", str(root)]) == 0
    engine.update("CREATE TABLE after (id BIGINT) PARTITIONED BY (id)")
    engine.update("CREATE OR REPLACE VIEW lima AS SELECT id FROM events WHERE site = 'Lima'")
    assert formats(root) == {TABLE.newest}
    assert root.joinpath(".lance-flight/formats.json").read_text() == (
        '{"lease":1,"plain_table":1,"root":1,"table":2,"view":1}'
    )
    assert set(FORMATS) == {"lease", "plain_table", "root", "table", "view", "backup"}


@pytest.mark.parametrize("release", [name for name in RELEASES if "backup" in ReleasedRoot.of(name).features])
def test_a_backup_of_an_earlier_release_is_restored(release: str, tmp_path: Path) -> None:
    released = ReleasedRoot.of(release)
    root = released.unpack(tmp_path)
    shutil.rmtree(root)
    restore(backup_at(Store(str(tmp_path / "backup"))), Store(str(tmp_path / "new")))
    engine = engine_of(tmp_path / "new")
    # A backup has the newest snapshots, and those that tags name.
    kept = [sql for sql in released.answers if "@" not in sql]
    assert [sql for sql in kept if as_json(engine.query(sql)) != released.answers[sql]] == []
