"""`lance-flight doctor`: each thing that can be wrong with a root is found, said, and told what to do about."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance_flight.catalog.maintenance import diagnosis
from lance_flight.catalog.maintenance.diagnosis import MANY_FILES, Level, diagnose
from lance_flight.catalog.manifests import manifest as manifests
from lance_flight.catalog.manifests.manifest import FENCE_KEY
from lance_flight.catalog.storage.leases import GRACE
from lance_flight.catalog.storage.staging_area import UNCLAIMED_SECONDS, fill_reserve
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.engine.engine import Engine
from lance_flight.errors import AlreadyExists
from lance_flight_client.cli import main

from tests.catalog.aging import age
from tests.engine.database import filled, open_engine

OK, WARNING, ERROR = Level.OK, Level.WARNING, Level.ERROR


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = filled(
        tmp_path_factory.mktemp("sound"),
        "CREATE TABLE t (x BIGINT, p VARCHAR) PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE plain AS SELECT 1 AS x",
    )
    (root / PRIVATE).mkdir(mode=0o700, exist_ok=True)
    return root


def found(engine: Engine, level: Level, subject: str) -> list[str]:
    """The texts of the findings of a level about a subject."""
    return [
        f"{each.text}; {each.advice}"
        for each in diagnose(engine.root)
        if (each.level, each.subject) == (level, subject)
    ]


def aged(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def readable_key(root: Path) -> None:
    (root / PRIVATE / "ticket.key").write_bytes(bytes(32))
    (root / PRIVATE / "ticket.key").chmod(0o644)


def short_key(root: Path) -> None:
    (root / PRIVATE / "ticket.key").write_bytes(b"short")
    (root / PRIVATE / "ticket.key").chmod(0o600)


def left_over(root: Path) -> None:
    (root / PRIVATE / "0123456789abcdef").mkdir()
    aged(root / PRIVATE / "0123456789abcdef", UNCLAIMED_SECONDS + 60)


def left_by_writers(root: Path) -> None:
    """Files of writes into tables that were dropped meanwhile: a new partition, and one in a schema."""
    (root / "s").mkdir()
    partition = "gone/0c569589_v1$nmncdr1u87hicy75$dataset"
    for table in (partition, f"s/{partition}", "old.lance"):
        (root / table / "data").mkdir(parents=True)
        (root / table / "data" / "0.lance").write_bytes(b"rows")
        aged(root / table / "data" / "0.lance", 2 * GRACE)


def orphaned(root: Path) -> None:
    """A copy of a partition that no snapshot names, one of a write that runs, and one that a snapshot names."""
    partition = next((root / "t").glob("*$dataset"))
    for name, hours in (("0c569589_v1$nmncdr1u87hicy75$dataset", 25), ("0c569589_v1$nmncdr1u87hicy76$dataset", 1)):
        shutil.copytree(partition, root / "t" / name)
        age(root / "t" / name, hours=hours)
    age(partition, hours=25)
    open_engine(root, target_partitions=1).update("ALTER TABLE t DROP PARTITION (p = 'a')")


def without_fence(root: Path) -> None:
    lance.dataset(root / "t" / "__manifest").update_metadata({FENCE_KEY: "0"})


def broken(root: Path) -> None:
    shutil.copytree(root / "t", root / "u")
    shutil.rmtree(root / "u" / "__manifest" / "data")


def unfinished_removal(root: Path) -> None:
    place = root / "t" / PRIVATE / "expiring"
    place.mkdir(parents=True)
    (place / "a.json").write_text('{"":[1]}')
    aged(place / "a.json", 3 * GRACE)


DAMAGED: dict[str, tuple[Callable[[Path], None], Level, str, str]] = {
    "key": (readable_key, ERROR, "ticket.key", "other users may read it"),
    "short key": (short_key, ERROR, "ticket.key", "has 5 bytes; expected 32, and no server starts; rm .lance-flight"),
    "left over": (left_over, WARNING, "root", "1 tables that were being made are left"),
    "left by writers": (
        left_by_writers,
        WARNING,
        "root",
        "'gone', 'old.lance', 's/gone' hold nothing but files of writes into tables that were dropped",
    ),
    "orphans": (
        orphaned,
        WARNING,
        "t",
        "bytes are named by no snapshot: '0c569589_v1$nmncdr1u87hicy75$dataset'; lance-flight vacuum ROOT t removes them",
    ),
    "fence": (without_fence, WARNING, "t", "has no fence"),
    "broken": (broken, ERROR, "u", "cannot be opened: "),
    "removal": (
        unfinished_removal,
        WARNING,
        "t",
        "1 removals of snapshots that did not end; lance-flight vacuum ROOT t",
    ),
}


@pytest.mark.parametrize(("damage", "level", "subject", "text"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_wrong_is_found(
    engine: Engine, damage: Callable[[Path], None], level: Level, subject: str, text: str
) -> None:
    assert not [each for each in found(engine, level, subject) if text in each]
    damage(Path(engine.root.store.uri))
    again = Engine(engine.root, target_partitions=1)
    (said,) = [each for each in found(again, level, subject) if text in each]
    assert not said.endswith("; "), "it says what to do"


def test_what_writes_left_in_the_place_of_a_dropped_table_is_neither_schema_nor_in_the_way(engine: Engine) -> None:
    root = Path(engine.root.store.uri)
    left_by_writers(root)
    assert engine.query("SHOW SCHEMAS")["schema_name"].to_pylist() == ["public", "s"]
    for table in ("gone", "s.gone"):
        engine.update(f"CREATE TABLE {table} (x BIGINT, p VARCHAR) PARTITIONED BY (p)")
    engine.update("CREATE TABLE old AS SELECT 2 AS x")
    assert not list(root.rglob("0.lance"))
    assert engine.query("SELECT * FROM old").to_pylist() == [{"x": 2}]
    # What is no file of a write is not ours to remove.
    (root / "other" / "data").mkdir(parents=True)
    with pytest.raises(AlreadyExists, match="no room"):
        engine.update("CREATE TABLE other (x BIGINT, p VARCHAR) PARTITIONED BY (p)")


def test_a_table_that_another_server_makes_where_writes_left_files_stays(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_writers(Path(engine.root.store.uri))
    other, real, create = (
        Engine(engine.root, target_partitions=1),
        manifests.is_left_over,
        "CREATE TABLE old AS SELECT {}",
    )

    def overtaken(place: Store) -> bool:
        is_left_over = real(place)
        monkeypatch.undo()
        other.update(create.format("3 AS x"))
        return is_left_over

    monkeypatch.setattr(manifests, "is_left_over", overtaken)
    with pytest.raises(AlreadyExists, match="no room"):
        engine.update(create.format("4 AS x"))
    assert other.query("SELECT * FROM old").to_pylist() == [{"x": 3}]


def test_a_sound_root_is_said_to_be_one_and_left_as_it_is(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(total=100, free=50)  # that of this machine may be small
    monkeypatch.setattr(diagnosis.shutil, "disk_usage", lambda _: usage)
    root = Path(engine.root.store.uri)
    fill_reserve(engine.root.store)
    before = sorted(root.rglob("*"))
    assert main(["doctor", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} == {
        "✓ libraries",
        "✓ root",
        "✓ clock",
        "✓ space",
        "✓ t",
        "✓ plain",
    }
    assert sorted(root.rglob("*")) == before


def test_an_error_is_the_exit_status(engine: Engine) -> None:
    broken(Path(engine.root.store.uri))
    assert main(["doctor", engine.root.store.uri]) == 1


def test_a_root_that_cannot_be_written_is_an_error(engine: Engine) -> None:
    place = Path(engine.root.store.uri) / PRIVATE
    shutil.rmtree(place)
    place.write_text("in the way")
    (said,) = found(engine, ERROR, "root")
    assert said.startswith("cannot be written: ")


@pytest.mark.parametrize(("skew", "level"), [(0, OK), (-7, WARNING), (8, WARNING), (-3600, ERROR), (3600, ERROR)])
def test_clocks_that_differ_are_found(engine: Engine, skew: float, level: Level) -> None:
    findings = diagnose(engine.root, lambda: time.time() + skew)
    assert [each.level for each in findings if each.subject == "clock"] == [level]


@pytest.mark.parametrize(("free", "level"), [(50, OK), (9, WARNING), (1, ERROR)])
def test_a_full_device_is_found(engine: Engine, monkeypatch: pytest.MonkeyPatch, free: int, level: Level) -> None:
    usage = shutil.disk_usage("/")._replace(total=100, free=free)
    monkeypatch.setattr(diagnosis.shutil, "disk_usage", lambda _: usage)
    assert len(found(engine, level, "space")) == 1


def test_small_files_are_found(engine: Engine) -> None:
    assert found(engine, WARNING, "t") == []
    for number in range(MANY_FILES + 1):
        engine.update(f"INSERT INTO t VALUES ({number}, 'a')")
    (said,) = found(engine, WARNING, "t")
    assert said == f"1 of 2 tables have {MANY_FILES + 2} small data files; lance-flight compact ROOT t"
